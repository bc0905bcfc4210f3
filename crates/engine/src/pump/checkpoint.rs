//! Checkpoints: what of a transfer survives the end of this process. The sync and the journal write
//! run in the blocking pool; a checkpoint covers what had been written when it was requested, which
//! the stage itself counts.

use super::{Host, Pump};
use crate::bounds;
use crate::mailbox::Message;
use crate::transfer::WriteMode;
use std::sync::Arc;
use xdfs_io::dispatch::Dispatch;
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
        let Some(transfer) = self.transfers.get_mut(&operation) else { return };
        let Some(stage) = transfer.writing.as_ref().map(WriteMode::stage) else { return };
        let unmarked = stage.unmarked();
        if unmarked == 0 || transfer.marking {
            return;
        }
        let since = *transfer.marked_at.get_or_insert(now);
        if unmarked < bounds::MARKER_BYTES && now.since(since) < bounds::MARKER_PERIOD {
            return;
        }
        (transfer.marked_at, transfer.marking) = (Some(now), true);
        let (stage, share) = (Arc::clone(stage), self.share_of(operation));
        self.call(&share, move || stage.checkpoint(), move |result| Message::Marked(operation, result));
    }

    pub(super) fn on_marked(&mut self, operation: OperationId, result: Result<(), Error>) {
        self.pending_storage -= 1;
        if let Some(transfer) = self.transfers.get_mut(&operation) {
            transfer.marking = false;
        }
        if let Err(error) = result {
            // Data that could not be synced is lost, whatever a later sync reports.
            self.session.fail(operation, error);
        }
        if self.after_marker.remove(&operation) {
            self.continue_after_detach(operation);
        }
    }
}
