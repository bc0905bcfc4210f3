//! The table of one cell: the same columns for the terminal and for Markdown.

use std::fmt::Write;

use crate::args::Shape;
use crate::cell::{CellReport, Summary, SystemReport};

/// Headings for throughput.
const RATE_COLUMNS: [&str; 11] = [
    "system",
    "GB/s (min-max)",
    "ratio",
    "CPU s/GB (cli+srv)",
    "RSS MiB cli/srv",
    "threads",
    "switches/GB vol+inv",
    "TCP MiB",
    "channels",
    "others %",
    "k",
];

/// Headings for one byte.
const TIME_COLUMNS: [&str; 11] = [
    "system",
    "ms own",
    "ms wall (min-max)",
    "ratio",
    "CPU ms (cli+srv)",
    "RSS MiB cli/srv",
    "threads",
    "switches vol+inv",
    "channels",
    "others %",
    "k",
];

/// Headings and lines of a cell.
pub fn rows(cell: &CellReport) -> ([&'static str; 11], Vec<Vec<String>>) {
    let small = cell.shape == Shape::Small;
    let row = if small { time_row } else { rate_row };
    let columns = if small { TIME_COLUMNS } else { RATE_COLUMNS };
    (columns, cell.systems.iter().map(|system| line(system, row)).collect())
}

/// Aligned text.
pub fn terminal(cell: &CellReport) -> String {
    let (columns, rows) = rows(cell);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(String::len);
        cells.chain([columns[column].len()]).max().unwrap_or(0)
    };
    let mut text = format!("\n{}\n", cell.title);
    let mut print = |cells: Vec<&str>| {
        let mut line = String::new();
        for (column, cell) in cells.into_iter().enumerate() {
            let width = width(column);
            let _ = if column == 0 { write!(line, "  {cell:width$}") } else { write!(line, "  {cell:>width$}") };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    };
    print(columns.to_vec());
    for (row, system) in rows.iter().zip(&cell.systems) {
        match &system.failure {
            Some(_) if system.runs.is_empty() => print(vec![&row[0], "failed"]),
            _ => print(row.iter().map(String::as_str).collect()),
        }
    }
    text.push_str(&notes(cell));
    text
}

/// Files per second, failures and fairness, one line each.
pub fn notes(cell: &CellReport) -> String {
    let mut text = String::new();
    for system in &cell.systems {
        if let Some((files, summary)) = cell.files.zip(system.summary.as_ref()) {
            let _ = writeln!(text, "  {}: {:.0} files/s", system.label, files as f64 / summary.seconds);
        }
        if let Some(failure) = &system.failure {
            let _ = writeln!(text, "  {} failed: {}", system.label, failure.replace('\n', " "));
        }
        if let Some(fairness) = &system.fairness {
            let _ = writeln!(
                text,
                "  {}: Jain index {:.3} over the channels when {:.0} % had moved, smallest channel {:.2} of the mean",
                system.label,
                fairness.jain,
                fairness.at * 100.0,
                fairness.least_share,
            );
        }
    }
    text
}

fn line(system: &SystemReport, row: fn(&SystemReport, &Summary) -> Vec<String>) -> Vec<String> {
    match &system.summary {
        Some(summary) => row(system, summary),
        None => vec![system.label.clone()],
    }
}

fn rate_row(system: &SystemReport, summary: &Summary) -> Vec<String> {
    let (low, high) = summary.range;
    vec![
        system.label.clone(),
        format!("{:.2} ({low:.2}-{high:.2})", summary.gigabytes_per_second),
        ratio(summary.reference_ratio),
        format!(
            "{:.3} ({})",
            summary.cpu_per_gigabyte.0 + summary.cpu_per_gigabyte.1,
            pair(summary.cpu_per_gigabyte, "+", 3)
        ),
        mebibytes(summary.peak_rss_kib),
        format!("{}/{}", summary.threads.0, summary.threads.1),
        pair(summary.switches_per_gigabyte, "+", 0),
        format!("{:.0}", summary.socket_kib as f64 / 1024.0),
        summary.channels.map_or_else(|| "-".to_owned(), |channels| channels.to_string()),
        format!("{:.0}", summary.others * 100.0),
        system.runs.len().to_string(),
    ]
}

fn time_row(system: &SystemReport, summary: &Summary) -> Vec<String> {
    let runs = &system.runs;
    let of = |value: &dyn Fn(&crate::measure::Run) -> f64| {
        crate::stats::median(&runs.iter().map(value).collect::<Vec<_>>()).unwrap_or(f64::NAN)
    };
    let own = runs.iter().any(|run| run.own_seconds.is_some());
    let walls = runs.iter().map(|run| run.wall_seconds * 1e3);
    let (low, high) = (walls.clone().fold(f64::INFINITY, f64::min), walls.fold(0.0, f64::max));
    let switches = |pick: fn(&crate::measure::Run) -> u64| of(&|run| pick(run) as f64);
    vec![
        system.label.clone(),
        if own { format!("{:.2}", of(&|run| run.own_seconds.unwrap_or(f64::NAN) * 1e3)) } else { "-".to_owned() },
        format!("{:.2} ({low:.2}-{high:.2})", of(&|run| run.wall_seconds * 1e3)),
        ratio(summary.reference_ratio),
        format!("{:.2}+{:.2}", of(&|run| run.client_cpu_seconds * 1e3), of(&|run| run.server_cpu_seconds * 1e3)),
        mebibytes(summary.peak_rss_kib),
        format!("{}/{}", summary.threads.0, summary.threads.1),
        format!(
            "{:.0}+{:.0}",
            switches(|run| run.client.voluntary_switches + run.server.voluntary_switches),
            switches(|run| run.client.involuntary_switches + run.server.involuntary_switches),
        ),
        summary.channels.map_or_else(|| "-".to_owned(), |channels| channels.to_string()),
        format!("{:.0}", summary.others * 100.0),
        runs.len().to_string(),
    ]
}

/// The first system's rate over this one's: above 1 means that the first is faster.
fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
}

fn pair(values: (f64, f64), between: &str, digits: usize) -> String {
    format!("{:.digits$}{between}{:.digits$}", values.0, values.1)
}

fn mebibytes(kib: (u64, u64)) -> String {
    format!("{:.1}/{:.1}", kib.0 as f64 / 1024.0, kib.1 as f64 / 1024.0)
}
