//! The goals of the shape `gridftp`.

use super::Goal;
use super::private::{Wanted, compare, wanted};
use crate::cell::CellReport;

const FILE: &[Wanted] = &[wanted("xdfs", "gridftp", 1.0), wanted("xdfs private", "gridftp private", 1.4)];

const TREE: &[Wanted] = &[wanted("xdfs", "gridftp serial", 2.0), wanted("xdfs", "gridftp -pp", 1.0)];

/// All goals that this cell says something about.
pub(super) fn check(cell: &CellReport, goals: &mut Vec<Goal>) {
    compare(cell, if cell.files.is_some() { TREE } else { FILE }, goals);
}
