//! Several pipelines that move one file: the messages between them. The pipeline that opened the
//! operation is its coordinator; only the coordinator handles the operation as a whole (GRANT,
//! FINISH, COMMITTED, EXCEPTION) and commits.

use crate::base::{Error, Extent, Level, OperationId, PipelineId};
use crate::wire::control::Grant;
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
    /// Coordinator to participant: take part with this range.
    Start {
        /// The operation.
        operation: OperationId,
        /// Which half.
        half: Half,
        /// Upload or download, for the block event.
        upload: bool,
        /// The participant's range.
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
    /// Participant to coordinator: every block of the range was sent.
    Sent(OperationId),
    /// Participant to coordinator: every byte of the range is written.
    Covered(OperationId),
    /// Participant to coordinator: the range cannot be completed.
    Failed(OperationId, Error),
    /// Coordinator to participant: the outcome is known, committed or not.
    Settled(OperationId, bool),
}

/// The role of a pipeline in an operation that was granted.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(clippy::large_enum_variant, reason = "an operation is in a box of its own")]
pub(super) enum PipelineRole {
    /// It moves some range and coordinates the whole.
    Coordinator {
        /// What was granted.
        grant: Grant,
        /// Participants that have not finished their ranges.
        participants: Vec<PipelineId>,
    },
    /// It moves one range, and knows no more than that.
    Participant {
        /// The pipeline that it does so for.
        coordinator: PipelineId,
        /// It has reported the end.
        reported: bool,
    },
}

impl PipelineRole {
    /// It coordinates what was granted, so far alone.
    pub(super) const fn coordinator(grant: Grant) -> Self {
        Self::Coordinator { grant, participants: Vec::new() }
    }

    /// It takes part for this coordinator.
    pub(super) const fn participant(coordinator: PipelineId) -> Self {
        Self::Participant { coordinator, reported: false }
    }

    /// What was granted, to the coordinator.
    pub(super) const fn grant(&self) -> Option<&Grant> {
        match self {
            Self::Coordinator { grant, .. } => Some(grant),
            Self::Participant { .. } => None,
        }
    }
}
