//! Assertions about both ends.

use super::pair::{CLIENT, Pair, SERVER};
use crate::base::{ErrorKind, OperationId};
use crate::session::Session;

impl Pair {
    /// Both ends committed `length` bytes, each of them written.
    pub(super) fn assert_moved(&mut self, operation: OperationId, upload: bool, length: u64) {
        let (source, target) = if upload { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        for side in [source, target] {
            let outcome = self.story(side, operation).outcome.clone();
            let committed = outcome.expect("settled").expect("committed");
            assert_eq!(committed.length, length);
        }
        let story = self.story(target, operation);
        assert_eq!(story.committed, Some(length));
        assert!(!story.aborted);
        story.written.sort();
        let mut end = 0;
        for extent in &story.written {
            assert!(extent.offset() <= end, "a gap at {end}");
            end = end.max(extent.end());
        }
        assert_eq!(end, length);
    }

    /// Neither end committed, and both know why.
    pub(super) fn assert_failed(&mut self, operation: OperationId, kinds: [ErrorKind; 2]) {
        for side in [CLIENT, SERVER] {
            let outcome = self.story(side, operation).outcome.clone().expect("settled");
            assert_eq!(outcome.expect_err("failed").kind, kinds[side], "side {side}");
        }
    }

    /// No state of any operation is left, and both ends close in an orderly way.
    pub(super) fn assert_closes(&mut self) {
        self.run();
        for session in self.ends.iter().flatten() {
            assert_eq!(session.operations().count(), 0, "{session:?}");
        }
        self.ends[CLIENT].iter_mut().for_each(Session::close);
        self.run();
        for side in [CLIENT, SERVER] {
            let pipelines = self.ends[side].len();
            assert_eq!(self.over[side], alloc::vec![None; pipelines]);
        }
    }
}
