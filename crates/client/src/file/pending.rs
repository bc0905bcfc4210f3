//! What an open file has on its way, and has to wait for.

use super::batches::PendingFileReply;
use std::time::Duration;
use xdfs_proto::wire::file::ReadRange;

/// A batch that was sent.
pub(super) struct Sent {
    pub(super) pending: PendingFileReply,
    /// Of the file's handle.
    pub(super) generation: u64,
    /// A call of it changes the file.
    pub(super) changes: bool,
}

/// One range to read, and its reply.
pub(super) struct PendingRead {
    pub(super) range: ReadRange,
    /// None if it could not be sent: whoever waits for it sends it then.
    pub(super) sent: Option<Sent>,
}

/// A call about a lease that was sent in the session of this generation.
pub(super) struct PendingLease {
    pub(super) sent: Sent,
    pub(super) generation: u64,
    pub(super) asked_in: u64,
    /// Of a renewal: how long the lease holds from each, as it was known when this one was sent.
    pub(super) time: Duration,
}

impl PendingLease {
    /// Nobody is interested in the answer; it has to come before the next call about the lease.
    pub(super) fn forget(self) {
        let _ = self.sent.pending.wait();
    }
}
