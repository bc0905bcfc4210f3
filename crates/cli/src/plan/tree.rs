//! How a tree will be copied, and between which ends.

use std::path::{Path, PathBuf};

use xdfs_client::tree::Preserve;

use super::PlanError;
use crate::args::{Selection, TreeArgs};
use crate::url::Url;

/// Options of a tree copy, besides those of every copy.
#[derive(Clone, Debug)]
pub(crate) struct TreePlan {
    /// The metadata that is copied.
    pub(crate) keep: Preserve,
    /// Which names are copied; the first pattern that matches decides.
    pub(crate) patterns: Vec<Selection>,
    /// The only names that are copied.
    pub(crate) files_from: Option<PathBuf>,
    /// Where failed names are written.
    pub(crate) failures: Option<PathBuf>,
    /// The tree gets its name when it is complete.
    pub(crate) atomic: bool,
    /// Nothing is changed.
    pub(crate) dry_run: bool,
    /// Contents are compared.
    pub(crate) checksum: bool,
    /// Names that the source does not have are removed, at most this many.
    pub(crate) delete: Option<u64>,
}

impl TreePlan {
    pub(super) fn of(args: TreeArgs, archive: bool) -> Result<Self, PlanError> {
        for selection in &args.patterns.0 {
            if let Selection::Pattern(pattern) = selection
                && pattern.text.is_empty()
            {
                return Err(PlanError::Pattern(if pattern.include { "include" } else { "exclude" }));
            }
        }
        Ok(Self {
            keep: if archive { Preserve { numeric: args.numeric_ids, ..Preserve::ALL } } else { Preserve::default() },
            patterns: args.patterns.0,
            files_from: args.files_from,
            failures: args.failures,
            atomic: args.atomic,
            dry_run: false,
            checksum: false,
            delete: None,
        })
    }
}

/// The options that read standard input, which is read once: for one of them, and for one tree.
pub(super) fn must_read_input_once(tree: &TreePlan, sources: usize) -> Result<(), PlanError> {
    let is_input = |path: &Path| path.as_os_str() == "-";
    let list = tree.files_from.as_deref().filter(|path| is_input(path)).map(|_| "--files-from");
    let patterns = tree.patterns.iter().filter_map(|selection| match selection {
        Selection::File { include: true, path } if is_input(path) => Some("--include-from"),
        Selection::File { include: false, path } if is_input(path) => Some("--exclude-from"),
        _ => None,
    });
    let readers: Vec<_> = list.into_iter().chain(patterns).collect();
    match readers.last() {
        Some(option) if readers.len() > 1 || sources > 1 => Err(PlanError::StandardInputTwice(option)),
        _ => Ok(()),
    }
}

/// One side is on a server, or both are and one of them is an FTP server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Sides {
    /// From this machine to a server.
    Up(PathBuf, Url),
    /// From a server to this machine.
    Down(Url, PathBuf),
    /// From one server to another, one of which is an FTP server.
    Between(Url, Url),
}
