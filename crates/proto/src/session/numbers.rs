//! The numbers of the operations that a pipeline coordinates: every k-th, so that two pipelines
//! never share one (P-19, P-22).

use crate::base::{OperationId, PipelineId};
use alloc::collections::BTreeSet;

/// Numbers of operations: which are this pipeline's own, and which of them are used.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Numbers {
    /// The lowest one of this pipeline.
    first: u32,
    /// Pipelines of the session: the distance between two of them.
    step: u32,
    /// The highest one that was opened or requested; 0 before that.
    highest: u32,
    /// Server: numbers below it whose request is still in flight on another channel, or was
    /// abandoned before it was sent.
    skipped: BTreeSet<OperationId>,
}

/// A number that is not the pipeline's own, or too far ahead: a protocol violation by the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NotInOrder;

impl Numbers {
    pub(super) fn new(pipeline: PipelineId, pipelines: u8) -> Self {
        Self { first: u32::from(pipeline.0) + 1, step: pipelines.max(1).into(), highest: 0, skipped: BTreeSet::new() }
    }

    /// Whether this pipeline coordinates the operation.
    pub(super) const fn coordinates(&self, id: OperationId) -> bool {
        id.0 > 0 && (id.0 - 1) % self.step == self.first - 1
    }

    /// Whether the operation is this pipeline's own and was never opened or requested.
    pub(super) fn is_unused(&self, id: OperationId) -> bool {
        self.coordinates(id) && (id.0 > self.highest || self.skipped.contains(&id))
    }

    /// Uses the next number; none when they are used up.
    pub(super) fn use_next(&mut self) -> Option<OperationId> {
        self.highest = match self.highest {
            0 => self.first,
            last => last.checked_add(self.step)?,
        };
        Some(OperationId(self.highest))
    }

    /// A request has arrived. Returns whether it is the first with its number: requests on different
    /// channels overtake each other, at most `ahead` of them.
    pub(super) fn use_requested(&mut self, id: OperationId, ahead: usize) -> Result<bool, NotInOrder> {
        if !self.coordinates(id) {
            return Err(NotInOrder);
        }
        if id.0 <= self.highest {
            return Ok(self.skipped.remove(&id));
        }
        for _ in 0..=ahead {
            let number = self.use_next().ok_or(NotInOrder)?;
            if number == id {
                while self.skipped.len() > ahead {
                    self.skipped.pop_first();
                }
                return Ok(true);
            }
            self.skipped.insert(number);
        }
        Err(NotInOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipelines_share_no_number_and_none_is_requested_twice() {
        let mut second = Numbers::new(PipelineId(1), 3);
        assert_eq!([(); 3].map(|()| second.use_next()), [2, 5, 8].map(|number| Some(OperationId(number))));
        let mut server = Numbers::new(PipelineId(1), 3);
        assert_eq!(server.use_requested(OperationId(3), 4), Err(NotInOrder), "of another pipeline");
        assert_eq!(server.use_requested(OperationId(8), 4), Ok(true));
        assert!(server.is_unused(OperationId(2)) && server.is_unused(OperationId(11)));
        assert!(!server.is_unused(OperationId(8)) && !server.is_unused(OperationId(3)));
        assert_eq!(server.use_requested(OperationId(5), 4), Ok(true), "it was overtaken");
        assert_eq!(server.use_requested(OperationId(5), 4), Ok(false));
        assert_eq!(server.use_requested(OperationId(8 + 6 * 3), 4), Err(NotInOrder), "too far ahead");
    }

    #[test]
    fn numbers_end_and_do_not_begin_again() {
        let mut last = Numbers { highest: u32::MAX - 1, ..Numbers::new(PipelineId(0), 1) };
        assert_eq!(last.use_next(), Some(OperationId(u32::MAX)));
        assert_eq!([last.use_next(), last.use_next()], [None; 2]);
    }
}
