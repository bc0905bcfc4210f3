//! Checkpoints: what of a transfer survives the end of this process. The sync and the journal write
//! run in the blocking pool; a checkpoint covers what had been written when it was requested, which
//! the stage itself counts.

use super::{Host, Pump};
use crate::mailbox::Message;
use crate::schedule::QuotaClass;
use std::sync::Arc;
use xdfs_io::dispatch::Dispatch;
use xdfs_io::store::Stage;
use xdfs_proto::base::{Error, Instant, OperationId};

impl<D, H> Pump<D, H>
where
    D: Dispatch,
    D::Link: Send + 'static,
    H: Host,
{
    /// Requests a checkpoint of every transfer that is due for one.
    pub(super) fn mark_all(&mut self, now: Instant) {
        let operations: Vec<_> = self.transfers.keys().copied().collect();
        operations.into_iter().for_each(|operation| self.mark_when_due(operation, now));
    }

    /// Requests a checkpoint if enough bytes were written or enough time has passed.
    pub(super) fn mark_when_due(&mut self, operation: OperationId, now: Instant) {
        let due = self.transfers.get_mut(&operation).and_then(|transfer| transfer.begin_checkpoint(now));
        if let Some((stage, share)) = due {
            self.checkpoint(operation, stage, &share);
        }
    }

    pub(super) fn checkpoint(&mut self, operation: OperationId, stage: Arc<Stage>, share: &QuotaClass) {
        self.call(share, move || stage.checkpoint(), move |result| Message::Marked(operation, result));
    }

    pub(super) fn on_marked(&mut self, operation: OperationId, result: Result<(), Error>) {
        self.storage.pending -= 1;
        if let Err(error) = result {
            // Data that could not be synced is lost, whatever a later sync reports.
            self.session.fail(operation, error);
        }
        // A transfer that has ended meanwhile waits for no checkpoint.
        let Some(transfer) = self.transfers.get_mut(&operation) else { return };
        if let Some(writing) = transfer.held_mut() {
            writing.on_checkpoint();
        }
        if let Some((writing, then)) = transfer.detached() {
            self.after_detach(operation, writing, then);
        }
    }
}
