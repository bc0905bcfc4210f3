//! What of a tree between two servers is copied, and what became of it.

use xdfs_client::tree::{Filter, Summary};

use super::super::Copy;
use super::super::failure::Failed;
use crate::exit::{Exit, Failure};
use crate::output::Causes;
use crate::plan::TreePlan;

/// A tree that is copied.
pub(super) struct TreeState<'p> {
    pub(super) plan: &'p TreePlan,
    /// Which names are copied; all if there is none.
    filter: Option<Filter>,
    pub(super) summary: Summary,
    /// Why names failed.
    pub(super) causes: Causes,
    /// Exit codes of what failed, or ended the copy.
    pub(super) exits: Vec<Exit>,
}

impl<'p> TreeState<'p> {
    pub(super) fn new(plan: &'p TreePlan, filter: Option<Filter>) -> Self {
        Self { plan, filter, summary: Summary::default(), causes: Causes::default(), exits: Vec::new() }
    }

    /// Whether a name is copied, and may be removed.
    pub(super) fn takes(&self, path: &[u8], is_directory: bool) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter(path, is_directory))
    }
}

impl Copy<'_> {
    /// Reports and counts a name that failed.
    pub(super) fn tell_failed(&mut self, failed: Failed, tree: &mut TreeState<'_>) -> Result<(), Failure> {
        tree.summary.failed += 1;
        failed.kind.into_iter().for_each(|kind| tree.causes.add(kind));
        tree.exits.push(self.monitor.tell(Err(failed))?);
        Ok(())
    }
}

/// The path of a name in a directory of the tree.
pub(super) fn below(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}
