//! The goals of the shape `private`. They are ratios of rates; where two systems are compared of which neither is the
//! first of the table, the rounds in which both ran are.

use super::{Goal, resident};
use crate::args::FileSystem;
use crate::cell::{CellReport, SystemReport};
use crate::stats::median;

const PRIVATE: &str = "xdfs private";
const INTEGRITY: &str = "xdfs integrity";
const CLEAR: &str = "xdfs";

/// One system over another, at least so much.
pub(super) struct Wanted {
    faster: &'static str,
    slower: &'static str,
    ratio: f64,
}

pub(super) const fn wanted(faster: &'static str, slower: &'static str, ratio: f64) -> Wanted {
    Wanted { faster, slower, ratio }
}

const MEMORY: &[Wanted] = &[
    wanted(PRIVATE, CLEAR, 0.6),
    wanted(PRIVATE, "rustls", 1.1),
    wanted(PRIVATE, "gridftp private", 2.0),
    wanted(PRIVATE, "nginx+curl", 2.0),
    wanted(PRIVATE, "ssh", 7.0),
    wanted(INTEGRITY, "gridftp integrity", 3.0),
];

const TMPFS: &[Wanted] = &[
    wanted(PRIVATE, CLEAR, 0.85),
    wanted(INTEGRITY, CLEAR, 0.88),
    wanted(PRIVATE, "scp", 4.0),
    wanted(PRIVATE, "rsync over ssh", 4.0),
];

const EXT4: &[Wanted] = &[
    wanted(PRIVATE, CLEAR, 0.8),
    wanted(INTEGRITY, CLEAR, 0.85),
    wanted(PRIVATE, "scp", 4.0),
    wanted(PRIVATE, "rsync over ssh", 4.0),
];

/// At 8 channels both cores are busy with the bytes, and sealing has none to itself.
const FILE_MANY: &[Wanted] = &[wanted(PRIVATE, CLEAR, 0.65)];

/// Largest resident size of either side at 1000 channels, where every byte is sealed in a buffer.
const RSS_MIB_MAX: f64 = 64.0;

/// All goals that this cell says something about.
pub(super) fn check(cell: &CellReport, goals: &mut Vec<Goal>) {
    let table = match (cell.filesystem, cell.channels) {
        (None, 1) => MEMORY,
        (Some(FileSystem::Tmpfs), 1) => TMPFS,
        (Some(FileSystem::Ext4), 1) => EXT4,
        (Some(_), 8) => FILE_MANY,
        _ => &[],
    };
    compare(cell, table, goals);
}

/// What of the table this cell says something about.
pub(super) fn compare(cell: &CellReport, table: &[Wanted], goals: &mut Vec<Goal>) {
    for Wanted { faster, slower, ratio } in table {
        if let Some(found) = found(cell, faster, slower) {
            goals.push(Goal::at_least(format!("{}: {faster} / {slower}", cell.title), *ratio, found));
        }
    }
    let own = cell.systems.iter().find(|system| system.label == PRIVATE).and_then(|system| system.summary.as_ref());
    if let Some(own) = own.filter(|_| cell.channels >= 1000) {
        resident(cell, own, RSS_MIB_MAX, goals);
    }
}

/// Median over the rounds of one system's rate over the other's.
fn found(cell: &CellReport, faster: &str, slower: &str) -> Option<f64> {
    let system = |label: &str| cell.systems.iter().find(|system| system.label == label);
    let (faster, slower): (&SystemReport, &SystemReport) = (system(faster)?, system(slower)?);
    let ratios: Vec<f64> = faster
        .runs
        .iter()
        .filter_map(|run| {
            let other = slower.runs.iter().find(|other| other.round == run.round)?;
            Some(run.gigabytes_per_second / other.gigabytes_per_second)
        })
        .collect();
    median(&ratios)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{PeerName, Shape};
    use crate::bound::Direction;
    use crate::cell::Summary;
    use crate::measure::Run;
    use crate::process::SideSample;

    fn run(round: u32, rate: f64) -> Run {
        Run {
            round,
            wall_seconds: 1.0,
            own_seconds: None,
            seconds: 1.0,
            bytes: 1,
            gigabytes_per_second: rate,
            client_cpu_seconds: 0.0,
            server_cpu_seconds: 0.0,
            client: SideSample::default(),
            server: SideSample::default(),
            socket_kib: 0,
            wire_octets: None,
            channels: None,
            congestion: None,
            others: 0.0,
        }
    }

    fn system(label: &str, rates: &[(u32, f64)]) -> SystemReport {
        SystemReport {
            name: PeerName::Xdfs,
            label: label.to_owned(),
            runs: rates.iter().map(|(round, rate)| run(*round, *rate)).collect(),
            failure: None,
            compared: false,
            fairness: None,
            summary: None,
        }
    }

    fn cell(filesystem: Option<FileSystem>, channels: u32, systems: Vec<SystemReport>) -> CellReport {
        let (shape, direction, title) = (Shape::Private, Direction::Up, "cell".to_owned());
        CellReport { shape, title, direction, channels, filesystem, bytes: 1, files: None, systems }
    }

    fn goals(cell: &CellReport) -> Vec<(String, bool)> {
        let mut goals = Vec::new();
        check(cell, &mut goals);
        goals.into_iter().map(|goal| (goal.what, goal.met)).collect()
    }

    #[test]
    fn only_runs_of_one_round_are_compared() {
        // Of the rates' medians the ratio would be 6 / 6; the round without a partner must not count either.
        let private = system(PRIVATE, &[(0, 2.0), (1, 6.0), (2, 8.0)]);
        let rustls = system("rustls", &[(0, 6.0), (1, 6.0), (3, 1.0)]);
        let cell = cell(None, 1, vec![private, rustls]);
        assert_eq!(found(&cell, PRIVATE, "rustls"), Some(f64::midpoint(2.0 / 6.0, 1.0)));
        assert_eq!(goals(&cell), [("cell: xdfs private / rustls".to_owned(), false)]);
    }

    #[test]
    fn the_bound_depends_on_the_file_system_and_on_the_channels() {
        let systems = || vec![system(PRIVATE, &[(0, 0.82)]), system(CLEAR, &[(0, 1.0)])];
        let met = |filesystem, channels| goals(&cell(filesystem, channels, systems())).first().map(|goal| goal.1);
        assert_eq!(met(Some(FileSystem::Tmpfs), 1), Some(false));
        assert_eq!(met(Some(FileSystem::Ext4), 1), Some(true));
        assert_eq!(met(Some(FileSystem::Tmpfs), 8), Some(true));
        assert_eq!(met(None, 1), Some(true));
        assert_eq!(met(None, 8), None, "no goal is known for this");
    }

    #[test]
    fn a_thousand_channels_have_a_bound_of_memory_on_either_side() {
        let mut own = system(PRIVATE, &[(0, 1.0)]);
        own.summary = Some(Summary {
            gigabytes_per_second: 1.0,
            range: (1.0, 1.0),
            seconds: 1.0,
            reference_ratio: None,
            cpu_per_gigabyte: (0.0, 0.0),
            peak_rss_kib: (64 << 10, 65 << 10),
            threads: (1, 1),
            switches_per_gigabyte: (0.0, 0.0),
            socket_kib: 0,
            others: 0.0,
            channels: Some(1000),
        });
        let found = |channels| goals(&cell(None, channels, vec![own.clone()])).into_iter().map(|goal| goal.1);
        assert!(found(1000).eq([true, false]));
        assert_eq!(found(999).count(), 0);
    }

    #[test]
    fn a_system_that_did_not_run_meets_nothing() {
        let cell = cell(None, 1, vec![system(PRIVATE, &[(0, 2.0)]), system("ssh", &[])]);
        assert_eq!(goals(&cell), []);
    }
}
