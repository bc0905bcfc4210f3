//! Markdown: facts, tables, goals. Complete on its own, so that it can be pasted into a page.

use std::fmt::Write;

use super::{Report, table};
use crate::shapes::{clients, idle};

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
    for cell in &report.cells {
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
    for one in &report.clients {
        paragraph(&mut text, &clients::text(one));
    }
    for one in &report.idle {
        paragraph(&mut text, &idle::text(one));
    }
    if !report.goals.is_empty() {
        let _ = writeln!(text, "\n**Goals**\n\n| goal | wanted | found | |\n|---|--:|--:|---|");
        for goal in &report.goals {
            let verdict = if goal.met { "met" } else { "**missed**" };
            let _ = writeln!(text, "| {} | {} | {:.3} | {verdict} |", goal.what, goal.wanted(), goal.found);
        }
    }
    text
}

/// A heading line and the lines below it.
fn paragraph(text: &mut String, lines: &str) {
    let mut lines = lines.lines().filter(|line| !line.is_empty());
    let _ = writeln!(text, "\n**{}**\n", lines.next().unwrap_or_default());
    for line in lines {
        let _ = writeln!(text, "{}", line.trim());
    }
}
