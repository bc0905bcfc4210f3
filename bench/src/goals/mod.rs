//! The speed goals of xdfs, each checked against the results that say something about it. Nothing else is printed
//! for a goal whose shape was not run: a goal is never met by absence.

mod durable;
mod gridftp;
mod kept;
mod private;
mod trees;

use serde::Serialize;

use crate::args::{FileSystem, PeerName, Shape};
use crate::cell::{CellReport, Summary, SystemReport};
use crate::report::Report;
use crate::shapes::idle::{IdleReport, Kind};
use crate::shapes::login::LoginReport;
use crate::shapes::mounts::MountsReport;
use crate::shapes::remote_files::{self, RemoteFilesReport};
use crate::shapes::sessions::SessionsReport;
use crate::shapes::stall::StallReport;
use crate::stats::median;

/// 32 MiB, the largest resident size of either side at 1000 channels.
const RSS_MIB_MAX: f64 = 32.0;

/// CPU of an idle session, milliseconds per minute.
const IDLE_MS_PER_MINUTE_MAX: f64 = 60.0;

/// Private memory of the server for an idle session, KiB.
const SESSION_KIB_MAX: f64 = 24.0;

/// Rate while one channel of eight stands still, over the rate without.
const STALLED_RATE_MIN: f64 = 0.8;

/// CPU of a login over that of a handshake.
const LOGIN_RATIO_MAX: f64 = 1.5;

/// Two round trips of 100 ms and what is computed; a password takes one more.
const FIRST_BYTE_MS_MAX: (f64, f64) = (220.0, 320.0);

/// One goal and what was found.
#[derive(Debug, Clone, Serialize)]
pub struct Goal {
    /// What is compared, and where.
    pub what: String,
    /// True when the value must not be exceeded; false when it must be reached.
    pub at_most: bool,
    /// The bound.
    pub bound: f64,
    /// The value found.
    pub found: f64,
    /// Whether it holds.
    pub met: bool,
}

impl Goal {
    fn at_least(what: String, bound: f64, found: f64) -> Self {
        Self { what, at_most: false, bound, found, met: found >= bound }
    }

    fn at_most(what: String, bound: f64, found: f64) -> Self {
        Self { what, at_most: true, bound, found, met: found <= bound }
    }

    /// The bound as text.
    pub fn wanted(&self) -> String {
        format!("{} {}", if self.at_most { "<=" } else { ">=" }, self.bound)
    }
}

/// All goals these results speak about.
pub fn check(report: &Report) -> Vec<Goal> {
    let mut goals = Vec::new();
    for cell in &report.cells {
        match cell.shape {
            Shape::Memory => memory(cell, &mut goals),
            Shape::File => file(cell, &mut goals),
            Shape::Levels => levels(cell, &mut goals),
            Shape::Private => private::check(cell, &mut goals),
            Shape::Gridftp => gridftp::check(cell, &mut goals),
            Shape::Durable => durable::check(cell, &mut goals),
            Shape::Small => small(cell, &mut goals),
            Shape::Trees => trees::check(cell, &mut goals),
            _ => {}
        }
    }
    goals.extend(kept::check(&report.cells));
    for one in &report.clients {
        if let Some(ratio) = one.ratio {
            let what = format!("{} clients against one session, {:?}: time", one.clients, one.direction);
            goals.push(Goal::at_most(what.to_lowercase(), 1.5, ratio));
        }
    }
    report.idle.iter().for_each(|one| idle(one, &mut goals));
    report.sessions.iter().for_each(|one| sessions(one, &mut goals));
    report.logins.iter().for_each(|one| logins(one, &mut goals));
    report.stalls.iter().for_each(|one| stall(one, &mut goals));
    report.small_files.iter().for_each(|one| durable::small_files(one, &mut goals));
    report.resumes.iter().for_each(|one| durable::resumes(one, &mut goals));
    report.mounts.iter().for_each(|one| mounts(one, &mut goals));
    report.remote_files.iter().for_each(|one| remote_files(one, &mut goals));
    goals
}

/// Aligned text.
pub fn terminal(goals: &[Goal]) -> String {
    let width = goals.iter().map(|goal| goal.what.len()).max().unwrap_or(0);
    let line = |goal: &Goal| {
        let verdict = if goal.met { "met" } else { "MISSED" };
        format!("  {:width$}  wanted {:>8}  found {:>8.3}  {verdict}\n", goal.what, goal.wanted(), goal.found)
    };
    if goals.is_empty() { String::new() } else { format!("\ngoals\n{}", goals.iter().map(line).collect::<String>()) }
}

fn mounts(report: &MountsReport, goals: &mut Vec<Goal>) {
    for one in report.comparisons() {
        let what = format!("mount, {}, round trip {} ms: rate over {}", report.work, report.round_trip_ms, one.with);
        goals.extend(one.goal.map(|goal| Goal::at_least(format!("{what} (best {:.2})", one.best), goal, one.found)));
    }
}

fn remote_files(report: &RemoteFilesReport, goals: &mut Vec<Goal>) {
    for (at, way) in remote_files::WAYS.iter().enumerate() {
        let what = format!("a remote file in its order, {way}: rate over xdfs cp");
        goals.extend(report.ratio(at).map(|ratio| Goal::at_least(what, 0.9, ratio)));
    }
    let what = "a remote file at random over 20 ms: reads over what the round trip allows".to_owned();
    goals.extend(report.random_ratio().map(|ratio| Goal::at_least(what, 0.95, ratio)));
}

fn idle(report: &IdleReport, goals: &mut Vec<Goal>) {
    // The promise is about a session that does nothing; one whose operation waits is measured for comparison.
    if report.kind != Kind::Idle || report.failure.is_some() || report.seconds <= 0.0 {
        return;
    }
    for (side, cpu) in [("client", report.client_cpu_ms), ("server", report.server_cpu_ms)] {
        let what = format!("idle session of {} channels, {side}: CPU ms in 60 s", report.channels);
        goals.push(Goal::at_most(what, IDLE_MS_PER_MINUTE_MAX, cpu * 60.0 / report.seconds));
    }
}

fn sessions(report: &SessionsReport, goals: &mut Vec<Goal>) {
    if report.failure.is_some() {
        return;
    }
    let what = |what: &str| format!("{} idle sessions, server: {what}", report.sessions);
    goals.push(Goal::at_most(what("private KiB each"), SESSION_KIB_MAX, report.kib_each()));
    let more = report.threads.1.saturating_sub(report.threads.0);
    goals.push(Goal::at_most(what("threads more than without"), 0.0, more as f64));
}

fn logins(report: &LoginReport, goals: &mut Vec<Goal>) {
    for (side, cost) in [("client", &report.client), ("server", &report.server)] {
        let what = format!("{} logins by key against handshakes, {side}: CPU", report.count);
        goals.extend(cost.ratio().map(|ratio| Goal::at_most(what, LOGIN_RATIO_MAX, ratio)));
    }
    for (kind, times) in &report.first_byte_ms {
        let bound = if kind == "password" { FIRST_BYTE_MS_MAX.1 } else { FIRST_BYTE_MS_MAX.0 };
        let what = format!("first byte over 50 ms each way, {kind}: ms");
        goals.extend(median(times).map(|time| Goal::at_most(what, bound, time)));
    }
}

fn stall(report: &StallReport, goals: &mut Vec<Goal>) {
    let what = format!("one of {} channels stops, {:?}: rate over that without", report.channels, report.direction);
    goals.extend(report.ratio.map(|ratio| Goal::at_least(what.to_lowercase(), STALLED_RATE_MIN, ratio)));
}

fn memory(cell: &CellReport, goals: &mut Vec<Goal>) {
    let Some((system, own)) = first(cell) else { return };
    let against = |label: &str| by_label(cell, label).and_then(|summary| summary.reference_ratio);
    let mut least = |what: &str, bound: f64, found: Option<f64>| {
        goals.extend(found.map(|found| Goal::at_least(format!("{}: {what}", cell.title), bound, found)));
    };
    least("xdfs / xdfs before", 0.99, against("xdfs before"));
    if cell.channels == 1 {
        least("xdfs / iperf3", 1.0, against("iperf3"));
        least("xdfs / gridftp (best peer)", 0.95, against("gridftp"));
        return;
    }
    let many = cell.channels >= 500;
    if many || matches!(cell.channels, 8 | 64) {
        least("xdfs / xdfs -P 1", if many { 0.9 } else { 1.0 }, against("xdfs -P 1"));
    }
    if many {
        least("xdfs / gridftp", 1.5, against("gridftp"));
    }
    if let (8 | 64, Some(fairness)) = (cell.channels, &system.fairness) {
        least("Jain index at half time", 0.95, Some(fairness.jain));
        least("smallest channel / mean", 0.5, Some(fairness.least_share));
    }
    if cell.channels >= 1000 {
        if let Some(single) = by_label(cell, "xdfs -P 1") {
            let (total, one) = (cpu(own), cpu(single));
            goals.push(Goal::at_most(format!("{}: CPU s/GB / that of -P 1", cell.title), 1.35, total / one));
        }
        resident(cell, own, RSS_MIB_MAX, goals);
    }
}

fn file(cell: &CellReport, goals: &mut Vec<Goal>) {
    let Some((_, own)) = first(cell) else { return };
    let tmpfs = cell.filesystem == Some(FileSystem::Tmpfs);
    let ratio = |label: &str| by_label(cell, label).and_then(|summary| summary.reference_ratio);
    let cp = match cell.channels {
        1 if tmpfs => Some(1.0),
        1 => Some(0.95),
        4.. => Some(1.1),
        _ => None,
    };
    let gridftp = match cell.channels {
        1 if tmpfs => Some(1.1),
        4..=9 if tmpfs => Some(1.3),
        10..=50 if tmpfs => Some(1.4),
        _ => None,
    };
    let bound = (cell.channels == 1).then_some(0.95);
    for (label, wanted) in [("cp", cp), ("bound", bound), ("gridftp", gridftp)] {
        let found = wanted.zip(ratio(label));
        goals.extend(
            found.map(|(bound, found)| Goal::at_least(format!("{}: xdfs / {label}", cell.title), bound, found)),
        );
    }
    if cell.channels >= 1000 {
        resident(cell, own, RSS_MIB_MAX, goals);
    }
}

fn levels(cell: &CellReport, goals: &mut Vec<Goal>) {
    // The ratio is clear over integrity: a cost of 25 % is 1 / 0.75.
    let cost =
        by_label(cell, "xdfs integrity").and_then(|summary| summary.reference_ratio).map(|ratio| 1.0 - 1.0 / ratio);
    let bound = if cell.filesystem.is_some() { 0.12 } else { 0.25 };
    goals.extend(cost.map(|cost| Goal::at_most(format!("{}: cost", cell.title), bound, cost)));
}

fn small(cell: &CellReport, goals: &mut Vec<Goal>) {
    if let Some((_, own)) = first(cell) {
        goals.push(Goal::at_most(format!("{}: ms", cell.title), 10.0, own.seconds * 1e3));
    }
}

fn resident(cell: &CellReport, own: &Summary, mib_max: f64, goals: &mut Vec<Goal>) {
    for (side, kib) in [("client", own.peak_rss_kib.0), ("server", own.peak_rss_kib.1)] {
        let what = format!("{}: peak resident MiB, {side}", cell.title);
        goals.push(Goal::at_most(what, mib_max, kib as f64 / 1024.0));
    }
}

/// xdfs as the first system of the cell, with figures.
fn first(cell: &CellReport) -> Option<(&SystemReport, &Summary)> {
    let system = cell.systems.first().filter(|system| system.name == PeerName::Xdfs)?;
    Some((system, system.summary.as_ref()?))
}

fn by_label<'a>(cell: &'a CellReport, label: &str) -> Option<&'a Summary> {
    first(cell)?;
    cell.systems.iter().find(|system| system.label == label)?.summary.as_ref()
}

fn cpu(summary: &Summary) -> f64 {
    summary.cpu_per_gigabyte.0 + summary.cpu_per_gigabyte.1
}
