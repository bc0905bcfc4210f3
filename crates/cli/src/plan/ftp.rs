//! What FTP servers cannot do, so that it is refused before anything is asked of one.

use xdfs_client::tree::Preserve;

use super::{Copies, CopyPlan, NamesPlan, Options, PlanError, Sides, SyncPlan, TreePlan, Verb};
use crate::bandwidth::Schedule;
use crate::url::Url;

/// Refuses a copy of a range, and what only xdfs servers keep.
pub(super) fn check_copy(plan: &CopyPlan) -> Result<(), PlanError> {
    let (is_ftp, to_ftp) = match &plan.copies {
        Copies::Upload { target, .. } => (target.is_ftp(), target.is_ftp()),
        Copies::Download { sources, .. } => (sources.iter().any(Url::is_ftp), false),
        Copies::Between { target, .. } => (true, target.is_ftp()),
    };
    if !is_ftp {
        return Ok(());
    }
    if plan.options.offset > 0 || plan.options.length.is_some() {
        return Err(PlanError::NotByFtp("--offset and --length"));
    }
    check_limit(&plan.options)?;
    let is_between = matches!(plan.copies, Copies::Between { .. });
    plan.tree.as_ref().map_or(Ok(()), |tree| {
        check_tree(tree, to_ftp || is_between)?;
        if is_between { check_tree_between(tree) } else { Ok(()) }
    })
}

/// The same of a `sync`.
pub(super) fn check_sync(plan: &SyncPlan) -> Result<(), PlanError> {
    let to_ftp = match &plan.sides {
        Sides::Between(..) => {
            check_tree_between(&plan.tree)?;
            true
        }
        Sides::Up(_, target) if target.is_ftp() => true,
        Sides::Down(source, _) if source.is_ftp() => false,
        Sides::Up(..) | Sides::Down(..) => return Ok(()),
    };
    check_limit(&plan.options)?;
    check_tree(&plan.tree, to_ftp)
}

fn check_limit(options: &Options) -> Result<(), PlanError> {
    match options.bandwidth.as_ref().and_then(Schedule::slowest) {
        Some(_) => Err(PlanError::NotByFtp("--bwlimit")),
        None => Ok(()),
    }
}

fn check_tree(tree: &TreePlan, to_ftp: bool) -> Result<(), PlanError> {
    if tree.keep != Preserve::default() {
        return Err(PlanError::NotByFtp("-a (owners, links, attributes; -r copies names, contents and times)"));
    }
    if tree.checksum {
        return Err(PlanError::NotByFtp("--checksum"));
    }
    if tree.atomic && to_ftp {
        return Err(PlanError::NotByFtp("--atomic"));
    }
    Ok(())
}

/// Refuses what trees between two servers do not have.
fn check_tree_between(tree: &TreePlan) -> Result<(), PlanError> {
    if tree.files_from.is_some() || tree.failures.is_some() {
        return Err(PlanError::NotByFtp("lists of names (--files-from, --failures) from server to server"));
    }
    Ok(())
}

/// Refuses calls that FTP does not have.
pub(super) fn check_names(plan: &NamesPlan) -> Result<(), PlanError> {
    if !plan.urls.iter().any(Url::is_ftp) {
        return Ok(());
    }
    let what = match plan.verb {
        Verb::Ln { .. } | Verb::Symlink { .. } => "ln",
        Verb::Mkfifo { .. } => "mkfifo",
        Verb::Chmod { .. } => "chmod",
        Verb::Touch { .. } => "touch",
        Verb::CatRange { .. } => "cat --offset, --length and --follow",
        Verb::Find(_) => "find",
        Verb::Du { .. } => "du",
        Verb::Df { .. } => "df",
        Verb::Stat { locks: true } => "stat --locks",
        Verb::Ls { .. }
        | Verb::Stat { locks: false }
        | Verb::Mkdir { .. }
        | Verb::Rm { .. }
        | Verb::Mv { .. }
        | Verb::Cat => {
            return Ok(());
        }
    };
    Err(PlanError::NotByFtp(what))
}
