//! Checkpoints: which storage call follows which, and what the journal may record and when. Storage
//! executes it, and the model checks it.
//!
//! ```text
//! what was written by now  ->  sync data  ->  note it in the journal, and sync that
//! ```
//!
//! A journal that lists bytes before they are on stable storage is wrong after a power cut.

/// One storage call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MarkerStep {
    /// Wait until what was written before the checkpoint began is on stable storage.
    SyncData,
    /// Record that in the journal, and wait until the record is on stable storage, too.
    Note,
}

/// A checkpoint in progress. It ends at the first step that fails and is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Marker {
    next: Option<MarkerStep>,
}

impl Marker {
    /// Starts a checkpoint. If nothing has to survive a power cut, `durable` is false, and nothing
    /// is synced.
    pub fn new(durable: bool) -> Self {
        Self { next: Some(if durable { MarkerStep::SyncData } else { MarkerStep::Note }) }
    }

    /// The next step; none when all are done.
    pub const fn next(&self) -> Option<MarkerStep> {
        self.next
    }

    /// The next step was completed.
    pub fn on_done(&mut self) {
        self.next = match self.next {
            Some(MarkerStep::SyncData) => Some(MarkerStep::Note),
            Some(MarkerStep::Note) | None => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_marker_syncs_what_it_tells_of_before_it_tells_of_it() {
        let mut marker = Marker::new(true);
        let mut steps = Vec::new();
        while let Some(step) = marker.next() {
            steps.push(step);
            marker.on_done();
        }
        assert_eq!(steps, [MarkerStep::SyncData, MarkerStep::Note]);
    }
}
