//! What one pipeline does about the hashes of an operation: the job that hashes what passes through
//! no buffer, and the step that waits for it.

use super::hashing::Hashing;
use super::parallel::ParallelHash;
use std::sync::Arc;
use xdfs_proto::base::PipelineId;
use xdfs_proto::session::{ContentDigest, PipelineMessage};

/// What a pipeline does about the hashes of an operation.
#[derive(Debug)]
pub struct Hashed {
    /// Shared with the other pipelines.
    pub hashing: Arc<Hashing>,
    /// Bytes of the transfer, if known; a pipeline that only takes part need not know.
    pub length: Option<u64>,
    /// Blocks are hashed as they leave.
    pub inline: bool,
    /// What passes through no buffer here.
    pub beside: Beside,
}

/// The job that hashes in parallel to the transfer.
#[derive(Debug, Default)]
pub enum Beside {
    /// There is none, or it has ended.
    #[default]
    Idle,
    /// It runs.
    Running(ParallelHash),
    /// It runs, and a step waits for its end.
    Awaited(ParallelHash, Waiting),
}

impl Beside {
    /// Whether the job runs.
    pub const fn runs(&self) -> bool {
        !matches!(self, Self::Idle)
    }

    /// A job has begun; one before it ends, and a step that waits goes on waiting.
    pub fn begin(&mut self, job: ParallelHash) {
        *self = match std::mem::take(self) {
            Self::Idle | Self::Running(_) => Self::Running(job),
            Self::Awaited(_, step) => Self::Awaited(job, step),
        };
    }

    /// A block that ends here was passed to the transport.
    pub fn sent(&self, end: u64) {
        if let Self::Running(job) | Self::Awaited(job, _) = self {
            job.sent(end);
        }
    }

    /// Puts a step off until the job has ended. Returns whether there is one to wait for.
    pub fn put_off(&mut self, step: Waiting) -> bool {
        match std::mem::take(self) {
            Self::Idle => false,
            Self::Running(job) | Self::Awaited(job, _) => {
                // Nothing more will be sent, so the job need not keep pace.
                job.sent(u64::MAX);
                *self = Self::Awaited(job, step);
                true
            }
        }
    }
}

/// A step that waits until everything is hashed.
#[derive(Debug)]
pub enum Waiting {
    /// Check the source again.
    Check,
    /// Report to the coordinator that this pipeline's range is complete.
    ToPipeline(PipelineId, PipelineMessage),
    /// Compare what arrived.
    Verify {
        /// Bytes of the transfer.
        length: u64,
        /// Compare what storage returns.
        reread: bool,
        /// The sender's digest.
        sent: ContentDigest,
    },
}
