//! The goals of the shape `trees`.

use super::Goal;
use super::private::{Wanted, compare, wanted};
use crate::args::FileSystem;
use crate::cell::CellReport;

const CLEAR: &str = "xdfs -P 4";

/// The papers' tree.
const LARGE: &[Wanted] = &[
    wanted(CLEAR, "rsync", 2.0),
    wanted(CLEAR, "gridftp", 2.0),
    wanted(CLEAR, "tar|nc|tar", 1.0),
    wanted(CLEAR, "xdfs -P 1", 1.0),
    wanted("xdfs private -P 4", "scp", 6.0),
];

const SMALL: &[Wanted] =
    &[wanted(CLEAR, "tar|nc|tar", 1.0), wanted(CLEAR, "rsync", 2.0), wanted(CLEAR, "gridftp", 8.0)];

const DURABLE: &[Wanted] = &[wanted("xdfs durable", "rsync --fsync", 1.5)];

/// The tree like a compiler's installation.
const REAL: &[Wanted] = &[wanted(CLEAR, "rsync", 1.5)];

const UNCHANGED: &[Wanted] = &[wanted(CLEAR, "rsync", 1.0)];

/// Files that are found unchanged in a second.
const UNCHANGED_RATE_MIN: f64 = 100_000.0;

/// All goals that this cell says something about.
pub(super) fn check(cell: &CellReport, goals: &mut Vec<Goal>) {
    let (real, small) = (cell.title.contains("compiler"), cell.title.contains("4 KiB,"));
    if real && cell.title.contains("unchanged") {
        compare(cell, UNCHANGED, goals);
        let own = cell.systems.iter().find(|system| system.label == CLEAR).and_then(|system| system.summary.as_ref());
        if let Some((own, files)) = own.zip(cell.files) {
            let what = format!("{}: files/s", cell.title);
            goals.push(Goal::at_least(what, UNCHANGED_RATE_MIN, files as f64 / own.seconds));
        }
        return;
    }
    let table = match (cell.filesystem, small) {
        _ if real => REAL,
        (Some(FileSystem::Tmpfs), false) => LARGE,
        (Some(FileSystem::Tmpfs), true) => SMALL,
        (Some(FileSystem::Ext4), false) => DURABLE,
        _ => &[],
    };
    compare(cell, table, goals);
}
