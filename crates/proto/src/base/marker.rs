//! What a journal may say, and when: which call on storage follows which in a marker, and what of a part file an attempt may go on
//! with. Storage carries it out, and the model checks it.
//!
//! ```text
//! what was written by now  ->  sync data  ->  note it in the journal, and sync that
//! ```
//!
//! A journal that tells of bytes before they are on stable storage lies after a power cut (rule D4); the length of a part file says
//! nothing about what is in it (rule D13).

use super::Extent;
use crate::bug::{Bug, Bugs};
use alloc::vec::Vec;

/// One call on storage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MarkerStep {
    /// Wait until what was written before the marker began is on stable storage.
    SyncData,
    /// Say so in the journal, and wait until that is on stable storage, too.
    Note,
}

/// A marker under way. A step that fails is the last one: the marker is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Marker {
    synced: bool,
    noted: bool,
    bugs: Bugs,
}

impl Marker {
    /// Nothing is done yet. Where nothing is promised to survive a power cut, `durable` is false, and nothing is synced.
    pub const fn new(durable: bool, bugs: Bugs) -> Self {
        Self { synced: !durable, noted: false, bugs }
    }

    /// What has to be done now; none when everything is.
    pub fn next(&self) -> Option<MarkerStep> {
        let early = self.bugs.has(Bug::MarkerBeforeSync);
        match (self.synced, self.noted) {
            (false, false) if early => Some(MarkerStep::Note),
            (false, _) => Some(MarkerStep::SyncData),
            (true, false) => Some(MarkerStep::Note),
            (true, true) => None,
        }
    }

    /// The step that was next is done.
    pub const fn on_done(&mut self, step: MarkerStep) {
        match step {
            MarkerStep::SyncData => self.synced = true,
            MarkerStep::Note => self.noted = true,
        }
    }
}

/// What may be gone on with of a part file of `size` bytes whose journal tells of `noted`; `plain` is a range as a journal tells of it.
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
