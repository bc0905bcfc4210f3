//! The goals of the shapes `durable`, `small-files` and `resume`.

use super::Goal;
use super::kept::KEPT_MIN;
use super::private::{Wanted, compare, wanted};
use crate::args::FileSystem;
use crate::cell::CellReport;
use crate::shapes::resume::ResumeReport;
use crate::shapes::small_files::{SmallFilesReport, WAYS};
use crate::stats::median;

const HASH: &str = "xdfs hash";
const PLAIN: &str = "xdfs";
const SYNCED: &str = "cp+sync";

const TMPFS: &[Wanted] = &[wanted(HASH, PLAIN, 0.8), wanted(HASH, "rsync", 1.3)];

const EXT4: &[Wanted] = &[
    wanted(HASH, PLAIN, 0.7),
    wanted(HASH, "rsync", 1.3),
    wanted("xdfs durable", SYNCED, 0.95),
    wanted("xdfs private hash durable", SYNCED, 0.75),
    wanted("xdfs durable", "xdfs durable --no-resume", 0.98),
];

/// A marker is made every so many bytes: as much may be lost.
const MARKER_BYTES: f64 = 268_435_456.0;

/// Against a loop that syncs each file, and one that keeps the same promise.
const SMALL_FILES: [(usize, f64); 2] = [(2, 1.5), (3, 3.0)];

/// Until a command that goes on sends.
const START_SECONDS_MAX: f64 = 1.0;

/// All goals that this cell says something about; they are for one channel.
pub(super) fn check(cell: &CellReport, goals: &mut Vec<Goal>) {
    match (cell.filesystem, cell.channels) {
        (Some(FileSystem::Tmpfs), 1) => compare(cell, TMPFS, goals),
        (Some(FileSystem::Ext4), 1) => compare(cell, EXT4, goals),
        _ => {}
    }
}

pub(super) fn small_files(report: &SmallFilesReport, goals: &mut Vec<Goal>) {
    for (way, bound) in SMALL_FILES {
        let what = format!("{} durable small files: rate over that of the {} loop", report.files, WAYS[way]);
        goals.extend(report.ratio(way).map(|ratio| Goal::at_least(what, bound, ratio)));
    }
    goals.extend(report.kept().map(|(best, median)| {
        let what = format!("{} durable small files: session / before, best rounds (medians {median:.2})", report.files);
        Goal::at_least(what, KEPT_MIN, best)
    }));
}

pub(super) fn resumes(report: &ResumeReport, goals: &mut Vec<Goal>) {
    let more = report.moved.iter().zip(&report.missing).map(|(moved, missing)| moved - missing.max(0.1));
    let most = more.reduce(f64::max).map(|share| share * report.bytes as f64 / MARKER_BYTES);
    goals.extend(most.map(|most| {
        Goal::at_most(
            "copy killed at 90 %: sent again beyond what was missing, in markers of 256 MiB".into(),
            1.0,
            most,
        )
    }));
    let start = median(&report.start_seconds);
    goals.extend(
        start.map(|start| Goal::at_most("copy killed at 90 %: s until it sends".into(), START_SECONDS_MAX, start)),
    );
}
