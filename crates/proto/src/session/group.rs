//! Several pipelines that move one file: the messages between them. The pipeline that opened the
//! operation is its coordinator; only the coordinator handles the operation as a whole (GRANT,
//! FINISH, COMMITTED, EXCEPTION) and commits.

use crate::base::{Error, Extent, Level, OperationId, PipelineId};
use alloc::vec::Vec;

/// Which half of an operation a pipeline has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Half {
    /// It sends the bytes.
    Sending,
    /// It receives the bytes.
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
        /// Ranges that are present from an earlier attempt.
        kept: Vec<Extent>,
        /// The content is hashed end to end.
        hash: bool,
        /// The kept ranges are hashed by the sender as well.
        unverified: bool,
    },
    /// Member to coordinator: every block of the range was sent.
    Sent(OperationId),
    /// Member to coordinator: every byte of the range is written.
    Covered(OperationId),
    /// Member to coordinator: the range cannot be completed.
    Failed(OperationId, Error),
    /// Coordinator to member: the outcome is known, committed or not.
    Settled(OperationId, bool),
}

/// The role of a pipeline in an operation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Part {
    /// It moves some range and coordinates the whole; these members have not finished their ranges.
    Coordinator(Vec<PipelineId>),
    /// It moves one range for this coordinator; whether it has reported the end.
    Member(PipelineId, bool),
}
