//! Several pipelines that move one file: what they tell each other (design rule 4). The pipeline that opened the operation
//! is its coordinator; it alone talks about the operation as a whole (GRANT, FINISH, COMMITTED, EXCEPTION) and commits.

use crate::base::{Error, Extent, Level, OperationId, PipelineId};
use alloc::vec::Vec;

/// Which half of an operation a pipeline has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Half {
    /// It sends the bytes.
    Sending,
    /// It gets them.
    Receiving,
}

/// A message between pipelines of one side of a session, in order per pair.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum PipelineMessage {
    /// Coordinator to member: take part with this range.
    Start {
        /// The operation.
        operation: OperationId,
        /// Which half.
        half: Half,
        /// Upload or download, for the block event.
        upload: bool,
        /// The member's range.
        range: Extent,
        /// Block size.
        block: u32,
        /// Level of the blocks.
        level: Level,
        /// What of the range is there from an earlier attempt.
        kept: Vec<Extent>,
        /// The content is hashed from end to end.
        hash: bool,
        /// What is kept is hashed by the sender as well.
        unverified: bool,
    },
    /// Member to coordinator: every block of the range went out.
    Sent(OperationId),
    /// Member to coordinator: every byte of the range is written.
    Covered(OperationId),
    /// Member to coordinator: the range cannot be completed.
    Failed(OperationId, Error),
    /// Coordinator to member: the outcome is known, committed or not.
    Settled(OperationId, bool),
}

/// What a pipeline is to an operation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Part {
    /// It moves some range and speaks for the whole; these members have not finished their ranges.
    Coordinator(Vec<PipelineId>),
    /// It moves one range for this coordinator; whether it has reported the end.
    Member(PipelineId, bool),
}
