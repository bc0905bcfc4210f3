//! Checkpoints: which storage call follows which, what the journal may record and when, and which
//! ranges of a part file an attempt may resume. Storage executes it, and the model checks it.
//!
//! ```text
//! what was written by now  ->  sync data  ->  note it in the journal, and sync that
//! ```
//!
//! A journal that lists bytes before they are on stable storage is wrong after a power cut; the
//! length of a part file says nothing about its content.

use super::Extent;
use crate::bug::{Bug, Bugs};
use alloc::vec::Vec;

/// One storage call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MarkerStep {
    /// Wait until what was written before the checkpoint began is on stable storage.
    SyncData,
    /// Record that in the journal, and wait until the record is on stable storage, too.
    Note,
}

/// A checkpoint in progress. It ends at the first step that fails and is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Marker {
    synced: bool,
    noted: bool,
    bugs: Bugs,
}

impl Marker {
    /// Starts a checkpoint. If nothing has to survive a power cut, `durable` is false, and nothing
    /// is synced.
    pub const fn new(durable: bool, bugs: Bugs) -> Self {
        Self { synced: !durable, noted: false, bugs }
    }

    /// The next step; none when all are done.
    pub fn next(&self) -> Option<MarkerStep> {
        let early = self.bugs.has(Bug::MarkerBeforeSync);
        match (self.synced, self.noted) {
            (false, false) if early => Some(MarkerStep::Note),
            (false, _) => Some(MarkerStep::SyncData),
            (true, false) => Some(MarkerStep::Note),
            (true, true) => None,
        }
    }

    /// The next step was completed.
    pub const fn on_done(&mut self, step: MarkerStep) {
        match step {
            MarkerStep::SyncData => self.synced = true,
            MarkerStep::Note => self.noted = true,
        }
    }
}

/// The ranges of a part file of `size` bytes that may be resumed, given its journal's ranges
/// `noted`; `plain` is a range as a journal records it.
pub fn kept<T>(noted: Vec<T>, size: u64, plain: impl Fn(Extent) -> T, bugs: Bugs) -> Vec<T> {
    if bugs.has(Bug::ResumeBySize) {
        return Extent::new(0, size).into_iter().filter(|all| !all.is_empty()).map(plain).collect();
    }
    noted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_syncs_what_it_tells_of_before_it_tells_of_it() {
        let mut marker = Marker::new(true, Bugs::default());
        let mut steps = Vec::new();
        while let Some(step) = marker.next() {
            steps.push(step);
            marker.on_done(step);
        }
        assert_eq!(steps, [MarkerStep::SyncData, MarkerStep::Note]);
    }

    #[test]
    fn the_length_of_a_part_file_says_nothing() {
        assert_eq!(kept(Vec::new(), 1 << 20, |range| range, Bugs::default()), []);
    }
}
