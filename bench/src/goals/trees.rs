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

/// All goals that this cell says something about.
pub(super) fn check(cell: &CellReport, goals: &mut Vec<Goal>) {
    let small = cell.title.contains("4 KiB,");
    let table = match (cell.filesystem, small) {
        (Some(FileSystem::Tmpfs), false) => LARGE,
        (Some(FileSystem::Tmpfs), true) => SMALL,
        (Some(FileSystem::Ext4), false) => DURABLE,
        _ => &[],
    };
    compare(cell, table, goals);
}
