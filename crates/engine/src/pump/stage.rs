//! The stage of an operation: how it is written, and how it becomes the target.

use super::{DiskMode, Host, Pump};
use crate::bounds;
use crate::host::Staged;
use crate::mailbox::Message;
use crate::transfer::commit::CommittedFile;
use crate::transfer::phase::hash_written;
use crate::transfer::{AfterDetach, Phase, WriteMode, Writer, Writing, Written, commit};
use std::sync::Arc;
use xdfs_io::dispatch::Dispatch;
use xdfs_io::store::{CommitRequest, Order, Stage, stored_range};
use xdfs_proto::base::{Error, ErrorKind, OperationId};
use xdfs_proto::session::StageFacts;
use xdfs_proto::wire::control::Grant;
use xdfs_proto::wire::request::Request;

impl<D, H> Pump<D, H>
where
    D: Dispatch,
    D::Link: Send + 'static,
    H: Host,
{
    pub(super) fn on_stage(&mut self, operation: OperationId, request: Option<&Request>, grant: Option<&Grant>) {
        let job = self.host.stage(operation, request, grant);
        self.session.raise_level(operation, self.host.floor(operation));
        let share = self.begin_opening(operation, Phase::Opening);
        self.call(&share, job, move |result| Message::Staged(operation, result));
    }

    pub(super) fn on_staged(&mut self, operation: OperationId, result: Result<Staged, Error>) {
        self.storage.pending -= 1;
        let facts = match result.and_then(|staged| self.begin_writing(staged)) {
            Ok((writing, facts)) => {
                self.enter(operation, Phase::Writing(writing));
                Ok(facts)
            }
            Err(error) => {
                self.enter(operation, Phase::Done);
                Err(error)
            }
        };
        self.session.on_staged(operation, facts);
        self.forget_if_over(operation);
    }

    fn begin_writing(&mut self, staged: Staged) -> Result<(Writing, StageFacts), Error> {
        let stage = Arc::new(staged.stage);
        let mode = self.write_mode(Arc::clone(&stage))?;
        let ordered = matches!(mode, WriteMode::Ordered { .. });
        let facts = StageFacts {
            receive_window: ordered.then_some(bounds::ordered_window(self.session.limits().block)),
            kept: stored_range::ranges(stage.kept()),
            // Ranges with a known hash that is verified to be the source's are not hashed again.
            unverified: stage.kept().iter().any(|one| !one.proved || one.value.is_none()),
            reread: stage.can_read_back(),
            replaces: stage.replaces().to_vec(),
        };
        Ok((Writing::new(mode, staged.mode, staged.modified), facts))
    }

    /// How a stage is written.
    pub(super) fn write_mode(&mut self, stage: Arc<Stage>) -> Result<WriteMode, Error> {
        let ordered = stage.order() == Order::Ascending;
        if stage.discards() {
            return Ok(WriteMode::Discard(stage));
        }
        let beside = match self.settings.disk {
            DiskMode::Automatic => stage.in_memory(),
            DiskMode::Inline => false,
            DiskMode::Beside => true,
        };
        if !ordered && !beside {
            return Ok(WriteMode::Inline(stage));
        }
        let writer = self.writer()?;
        if !ordered {
            return Ok(WriteMode::Beside { stage, writer });
        }
        let is_ordered = |other: &Writing| matches!(other.mode, WriteMode::Ordered { .. });
        if self.transfers.values_mut().filter_map(|other| other.held_mut()).any(|other| is_ordered(other)) {
            // Two of them could hold all buffers while each waits for the other's.
            return Err(Error::new(ErrorKind::Busy, "one target that takes bytes in order at a time"));
        }
        Ok(WriteMode::Ordered { stage, writer, next: 0, waiting: Default::default() })
    }

    /// The writer thread, which is started for the first stage that needs it.
    fn writer(&mut self) -> Result<Arc<Writer>, Error> {
        if let Some(writer) = &self.writer.thread {
            return Ok(Arc::clone(writer));
        }
        // Room for every buffer, and for operations that end before their blocks are written: the
        // pump never waits for its writer, which may wait for the pump's mailbox.
        let places = bounds::BUFFERS_MAX + 2 * self.session.limits().operations_max;
        let writer = Writer::start(places, self.mail.own.sends(Message::Written))
            .map_err(|error| Error::new(ErrorKind::Resources, format!("cannot start a writer thread: {error}")))?;
        Ok(Arc::clone(self.writer.thread.insert(Arc::new(writer))))
    }

    /// The writer thread wrote a block.
    pub(super) fn on_written(&mut self, written: Written) {
        let Written { operation, extent, buffer, leaf, result } = written;
        let now = self.dispatch.now();
        self.writer.blocks -= 1;
        self.buffers.receive.give(buffer);
        // The stage of a transfer that has ended is released by whoever holds it last.
        let Some(transfer) = self.transfers.get_mut(&operation) else { return self.serve_waiting() };
        hash_written(transfer.hashed.as_ref(), leaf.filter(|_| result.is_ok()));
        if let Some(writing) = transfer.held_mut() {
            writing.at_writer -= 1;
        }
        let due = transfer.begin_checkpoint(now);
        let detached = transfer.detached();
        self.session.on_written(operation, extent, result, now);
        if let Some((stage, share)) = due {
            self.checkpoint(operation, stage, &share);
        }
        if let Some((writing, then)) = detached {
            self.after_detach(operation, writing, then);
        }
        self.serve_waiting();
    }

    /// Takes the stage back from the writer thread and from a checkpoint, then continues.
    pub(super) fn detach(&mut self, operation: OperationId, then: AfterDetach) {
        let Some(transfer) = self.transfers.get_mut(&operation) else { return self.lost_stage(operation, then) };
        match transfer.detach(then).map(|()| transfer.detached()) {
            Ok(Some((writing, then))) => self.after_detach(operation, writing, then),
            // Its last block or its checkpoint comes back first.
            Ok(None) => {}
            Err(then) => self.lost_stage(operation, then),
        }
    }

    /// There is no stage to commit.
    fn lost_stage(&mut self, operation: OperationId, then: AfterDetach) {
        let error = Error::new(ErrorKind::Storage, "the staged file is gone");
        match then {
            AfterDetach::Commit { .. } => self.session.on_committed(operation, Err(error)),
            AfterDetach::Forward { .. } => self.session.fail(operation, error),
        }
    }

    /// Nobody else holds the stage of the operation any more.
    pub(super) fn after_detach(&mut self, operation: OperationId, writing: Writing, then: AfterDetach) {
        match then {
            AfterDetach::Commit { length, durable } => self.commit(operation, length, durable, writing),
            AfterDetach::Forward { to, message } => {
                drop(writing);
                self.forward(to, message);
            }
        }
    }

    fn commit(&mut self, operation: OperationId, length: u64, durable: bool, writing: Writing) {
        let request = CommitRequest { length, mode: writing.permissions, modified: writing.modified };
        let Some(stage) = Arc::into_inner(writing.mode.into_stage()) else {
            let error = Error::new(ErrorKind::Storage, "the staged file is still in use");
            return self.session.on_committed(operation, Err(error));
        };
        if length <= bounds::COMMIT_AT_ONCE_BYTES && stage.in_memory() {
            let made = commit::carry_out(stage, &request, durable);
            return self.made(operation, made);
        }
        self.enter(operation, Phase::Committing);
        let job = move || commit::carry_out(stage, &request, durable);
        self.call(&self.share_of(operation), job, move |result| Message::Committed(operation, result));
    }

    /// A target was committed, or failed to be.
    pub(super) fn made(&mut self, operation: OperationId, result: Result<CommittedFile, Error>) {
        if let Some(transfer) = self.transfers.get_mut(&operation) {
            transfer.phase = Phase::Done;
            transfer.stats.unchanged = result.as_ref().is_ok_and(|made| made.unchanged);
        }
        self.session.on_committed(operation, result.map(|made| made.facts));
        self.forget_if_over(operation);
    }
}
