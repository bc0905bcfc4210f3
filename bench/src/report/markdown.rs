//! Markdown: facts, one table of ratios, every table in full, goals. Complete on its own, so that it can be pasted
//! into a page; the first table alone is meant for a README.

use std::fmt::Write;

use super::{Report, table};
use crate::args::{PeerName, Shape};
use crate::cell::{CellReport, SystemReport};
use crate::goals::Goal;
use crate::shapes::{clients, idle, login, mounts, names, remote_files, resume, sessions, small_files, stall};

/// Columns of the table of ratios.
const PEERS: [(PeerName, &str); 6] = [
    (PeerName::Bound, "bound"),
    (PeerName::Iperf3, "iperf3"),
    (PeerName::Cp, "cp"),
    (PeerName::Gridftp, "GridFTP"),
    (PeerName::Rsync, "rsync"),
    (PeerName::Scp, "scp"),
];

/// The whole report.
pub(super) fn render(report: &Report) -> String {
    let machine = &report.machine;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} CPUs {}, {} MiB, Linux {}, congestion control {}, {}; CPU by {}; load at start {}.\n\nCommand: `{}`.\n\n\
         Ratio: the first system's rate over that of the line, median of the per-round ratios. GB is 10^9 bytes.",
        machine.cpus,
        machine.cpu,
        machine.memory_mib,
        machine.kernel,
        machine.congestion,
        if machine.own_network { "network namespace of its own" } else { "the machine's network" },
        machine.cpu_method,
        machine.load_at_start,
        report.command,
    );
    if let Some(caveat) = report.caveat() {
        let _ = writeln!(text, "\n**{caveat}**");
    }
    ratios(&mut text, &report.cells);
    report.cells.iter().for_each(|one| cell(&mut text, one));
    for one in &report.clients {
        paragraph(&mut text, &clients::text(one));
    }
    for one in &report.idle {
        paragraph(&mut text, &idle::text(one));
    }
    for one in &report.sessions {
        paragraph(&mut text, &sessions::text(one));
    }
    for one in &report.logins {
        paragraph(&mut text, &login::text(one));
    }
    for one in &report.stalls {
        paragraph(&mut text, &stall::text(one));
    }
    for one in &report.small_files {
        paragraph(&mut text, &small_files::text(one));
    }
    for one in &report.mounts {
        paragraph(&mut text, &mounts::text(one));
    }
    if let Some(one) = &report.remote_files {
        paragraph(&mut text, &remote_files::text(one));
    }
    for one in &report.names {
        paragraph(&mut text, &names::text(one));
    }
    for one in &report.resumes {
        paragraph(&mut text, &resume::text(one));
    }
    goals(&mut text, &report.goals);
    text
}

/// Its table, and what there is to say about it.
fn cell(text: &mut String, cell: &CellReport) {
    let (columns, rows) = table::rows(cell);
    let _ = writeln!(text, "\n**{}**\n\n| {} |", cell.title, columns.join(" | "));
    let _ = writeln!(text, "|---|{}", "--:|".repeat(columns.len() - 1));
    for row in rows {
        let mut row = row;
        row.resize(columns.len(), String::new());
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    let notes = table::notes(cell);
    if !notes.is_empty() {
        let _ = writeln!(text);
        notes.lines().for_each(|note| {
            let _ = writeln!(text, "- {}", note.trim());
        });
    }
}

fn goals(text: &mut String, goals: &[Goal]) {
    if goals.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n**Goals**\n\n| goal | wanted | found | |\n|---|--:|--:|---|");
    for goal in goals {
        let verdict = if goal.met { "met" } else { "**missed**" };
        let _ = writeln!(text, "| {} | {} | {:.3} | {verdict} |", goal.what, goal.wanted(), goal.found);
    }
}

/// One line per cell: the rate of xdfs, and how many times faster it was than each peer.
fn ratios(text: &mut String, cells: &[CellReport]) {
    let lines: Vec<String> = cells
        .iter()
        .filter(|cell| matches!(cell.shape, Shape::Memory | Shape::File))
        .filter_map(|cell| {
            let own = cell.systems.first().filter(|system| system.name == PeerName::Xdfs)?.summary.as_ref()?;
            let of = |name: &PeerName| {
                let peer = cell.systems.iter().find(|system| system.name == *name);
                let ratio = peer.and_then(|peer: &SystemReport| peer.summary.as_ref()?.reference_ratio);
                ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
            };
            let peers: Vec<String> = PEERS.iter().map(|(name, _)| of(name)).collect();
            let cpu = own.cpu_per_gigabyte.0 + own.cpu_per_gigabyte.1;
            let (client, server) = own.peak_rss_kib;
            Some(format!(
                "| {} | {:.2} | {} | {cpu:.3} | {:.0}/{:.0} |",
                cell.title,
                own.gigabytes_per_second,
                peers.join(" | "),
                client as f64 / 1024.0,
                server as f64 / 1024.0,
            ))
        })
        .collect();
    if lines.is_empty() {
        return;
    }
    let peers: Vec<String> = PEERS.iter().map(|(_, name)| format!("/ {name}")).collect();
    let _ = writeln!(
        text,
        "\n**xdfs and its peers**\n\n| work | xdfs GB/s | {} | CPU s/GB | RSS MiB cli/srv |\n|---|--:|{}--:|--:|",
        peers.join(" | "),
        "--:|".repeat(PEERS.len()),
    );
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
}

/// A heading line and the lines below it.
fn paragraph(text: &mut String, lines: &str) {
    let mut lines = lines.lines().filter(|line| !line.is_empty());
    let _ = writeln!(text, "\n**{}**\n", lines.next().unwrap_or_default());
    for line in lines {
        let _ = writeln!(text, "{}", line.trim());
    }
}
