//! The end of an operation, whatever its phase: what it holds is released, and its outcome reported.

use super::{Host, Pump};
use crate::mailbox::Message;
use crate::schedule::QuotaClass;
use crate::transfer::{Phase, ReadMode, Transfer, TransferStats, WriteMode, Writing};
use std::sync::Arc;
use xdfs_io::dispatch::{Dispatch, FileId};
use xdfs_io::store::Stage;
use xdfs_proto::base::{Error, OperationId};
use xdfs_proto::session::Committed;

impl<D, H> Pump<D, H>
where
    D: Dispatch,
    D::Link: Send + 'static,
    H: Host,
{
    /// Aborts an operation: what it moved is reported with its outcome, which follows later. `keep`
    /// leaves what was written for the next attempt.
    pub(super) fn abort_transfer(&mut self, operation: OperationId, keep: bool) {
        if !self.stop_calls(operation) {
            self.end_transfer(operation, keep);
        }
    }

    /// The outcome of an operation is known: it is reported, with what the operation moved.
    pub(super) fn settle_transfer(&mut self, operation: OperationId, outcome: Result<Committed, Error>) {
        self.starts.forget(operation);
        self.tickets.retain(|_, known| *known != operation);
        self.end_transfer(operation, false);
        let report = match self.transfers.get_mut(&operation) {
            Some(transfer) => transfer.settle(outcome),
            // Calls, or a request that was never granted: no file.
            None => Some((outcome, TransferStats::default())),
        };
        if let Some((outcome, stats)) = report {
            self.host.settled(operation, outcome, stats);
        }
        self.forget_if_over(operation);
    }

    /// The pipeline that coordinates the operation reports its outcome.
    pub(super) fn settle_participant(&mut self, operation: OperationId) {
        self.end_transfer(operation, false);
        if let Some(transfer) = self.transfers.get_mut(&operation) {
            transfer.reported = true;
        }
        self.forget_if_over(operation);
    }

    /// Releases what this side holds for an operation; this removes a stage that was not committed,
    /// unless what was written is to be kept.
    fn end_transfer(&mut self, operation: OperationId, keep: bool) {
        // Calls hold no file, and an operation may have ended before it held one.
        let Some(transfer) = self.transfers.get_mut(&operation) else { return };
        transfer.hashed = None;
        match std::mem::replace(&mut transfer.phase, Phase::Done) {
            Phase::Reading(reading) => {
                if let ReadMode::Direct { file, .. } = reading.mode {
                    transfer.phase = Phase::Closing(file);
                    self.close_when_sent(operation, file);
                }
            }
            Phase::Writing(writing) | Phase::Comparing(writing, _) | Phase::Detaching(writing, _) => {
                let share = transfer.share.clone();
                // What was written in order cannot be continued.
                let keep = keep && !matches!(writing.mode, WriteMode::Ordered { .. });
                if keep {
                    transfer.phase = Phase::Keeping(None);
                }
                self.release_stage(operation, writing, &share, keep);
            }
            // Their ends come, and the machine says then what becomes of a file.
            running @ (Phase::Opening | Phase::Committing | Phase::Closing(_) | Phase::Keeping(_)) => {
                transfer.phase = running;
            }
            // A digest's job is stopped where it is dropped; there is nothing else to give back.
            Phase::Digesting(_) | Phase::Done => {}
        }
        self.forget_if_over(operation);
    }

    fn release_stage(&mut self, operation: OperationId, writing: Writing, share: &QuotaClass, keep: bool) {
        let stage = match writing.mode {
            WriteMode::Ordered { stage, waiting, .. } => {
                waiting.into_values().for_each(|(buffer, ..)| self.buffers.receive.give(buffer));
                stage
            }
            mode => mode.into_stage(),
        };
        if !keep {
            self.drop_stage(share, stage);
            return self.serve_waiting();
        }
        let job = move || {
            stage.keep();
            Ok(())
        };
        self.call(share, job, move |_: Result<(), Error>| Message::Kept(operation));
        self.serve_waiting();
    }

    /// Dropping a stage may remove a file; the pump does not end before that is complete.
    fn drop_stage(&mut self, share: &QuotaClass, stage: Arc<Stage>) {
        let job = move || {
            drop(stage);
            Ok(())
        };
        self.call(share, job, |_: Result<(), Error>| Message::Dropped);
    }

    /// What was written of an operation that ended early was kept, if possible.
    pub(super) fn on_kept(&mut self, operation: OperationId) {
        self.storage.pending -= 1;
        let outcome = self.transfers.get_mut(&operation).and_then(|transfer| transfer.on_kept());
        // Else its end is told by what is still to come of it.
        if let Some((outcome, stats)) = outcome {
            self.host.settled(operation, outcome, stats);
        }
        self.forget_if_over(operation);
    }

    /// A record of the operation left the transport, or never will: the file of a transfer that has
    /// ended is closed with the last of them.
    pub(super) fn on_record_left(&mut self, operation: OperationId) {
        // Else the transfer goes on.
        if let Some(file) = self.transfers.get(&operation).and_then(Transfer::closing) {
            self.close_when_sent(operation, file);
        }
    }

    pub(super) fn close_when_sent(&mut self, operation: OperationId, file: FileId) {
        if self
            .channels
            .by_id
            .values()
            .any(|io| io.block_in_flight().is_some_and(|sending| sending.operation == operation))
        {
            return;
        }
        self.dispatch.close_file(file);
        if let Some(transfer) = self.transfers.get_mut(&operation) {
            transfer.phase = Phase::Done;
        }
        self.forget_if_over(operation);
    }

    /// Forgets an operation of which nothing is left to do.
    pub(super) fn forget_if_over(&mut self, operation: OperationId) {
        if self.transfers.get(&operation).is_some_and(|transfer| transfer.is_over()) {
            self.transfers.remove(&operation);
        }
    }
}
