//! The goals of the shape `durable`.

use super::Goal;
use super::private::{Wanted, compare, wanted};
use crate::args::FileSystem;
use crate::cell::CellReport;

const HASH: &str = "xdfs hash";
const PLAIN: &str = "xdfs";
const SYNCED: &str = "cp+sync";

const TMPFS: &[Wanted] = &[wanted(HASH, PLAIN, 0.8), wanted(HASH, "rsync", 1.3)];

const EXT4: &[Wanted] = &[
    wanted(HASH, PLAIN, 0.7),
    wanted(HASH, "rsync", 1.3),
    wanted("xdfs durable", SYNCED, 0.95),
    wanted("xdfs private hash durable", SYNCED, 0.75),
];

/// All goals that this cell says something about; they are for one channel.
pub(super) fn check(cell: &CellReport, goals: &mut Vec<Goal>) {
    match (cell.filesystem, cell.channels) {
        (Some(FileSystem::Tmpfs), 1) => compare(cell, TMPFS, goals),
        (Some(FileSystem::Ext4), 1) => compare(cell, EXT4, goals),
        _ => {}
    }
}
