//! Storage calls and their results; the route of a source and the write mode of a stage, each
//! chosen once.

use super::channel_io::SendingBlock;
use super::{AfterDetach, DiskMode, Host, Pump};
use crate::blocking::Slice;
use crate::bounds;
use crate::host::{Opened, Staged};
use crate::mailbox::Message;
use crate::schedule::QuotaClass;
use crate::transfer::commit::CommittedFile;
use crate::transfer::hashing::Hashed;
use crate::transfer::reader::Stream;
use crate::transfer::{Block, ReadMode, SharedFile, SourceSide, Transfer, WriteMode, Writer, Written, commit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use xdfs_io::buf::Buffer;
use xdfs_io::dispatch::Dispatch;
use xdfs_io::store::{CommitRequest, Order, Source, Stage, verified_range};
use xdfs_proto::base::{Error, ErrorKind, Extent, OperationId};
use xdfs_proto::session::StageFacts;
use xdfs_proto::wire::control::Grant;
use xdfs_proto::wire::request::Request;

pub(super) fn busy() -> Error {
    Error::new(ErrorKind::Busy, "too many storage calls of this user wait; try again later")
}

fn panicked() -> Error {
    Error::new(ErrorKind::Storage, "a storage call failed unexpectedly")
}

impl<D, H> Pump<D, H>
where
    D: Dispatch,
    D::Link: Send + 'static,
    H: Host,
{
    /// Runs a storage call in the pool; its result arrives as a message.
    pub(super) fn call<T: Send + 'static>(
        &mut self,
        share: &QuotaClass,
        job: impl FnOnce() -> Result<T, Error> + Send + 'static,
        letter: impl Fn(Result<T, Error>) -> Message<D::Link> + Send + Sync + 'static,
    ) {
        self.pending_storage += 1;
        let letter = Arc::new(letter);
        let (post, later) = (self.post.clone(), Arc::clone(&letter));
        let task = move || {
            // A call that panics returns a result too: its pump waits for it.
            let result = catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|_| Err(panicked()));
            let _ = post.send(later(result));
        };
        if !self.blocking.submit(share, task) {
            self.refused.push_back(letter(Err(busy())));
        }
    }

    /// The same for work that is cut into slices.
    pub(super) fn call_sliced<T: Send + 'static>(
        &mut self,
        share: &QuotaClass,
        job: impl FnMut(&Slice) -> Poll<Result<T, Error>> + Send + 'static,
        letter: impl Fn(Result<T, Error>) -> Message<D::Link> + Send + Sync + 'static,
    ) {
        self.pending_storage += 1;
        let letter = Arc::new(letter);
        let (post, later, mut job) = (self.post.clone(), Arc::clone(&letter), Some(job));
        let task = move |slice: &Slice| {
            let Some(running) = &mut job else { return Poll::Ready(()) };
            let done = catch_unwind(AssertUnwindSafe(|| running(slice)));
            let Poll::Ready(result) = done.unwrap_or_else(|_| Poll::Ready(Err(panicked()))) else {
                return Poll::Pending;
            };
            // Before the message is sent: its receiver may need what the job holds.
            job = None;
            let _ = post.send(later(result));
            Poll::Ready(())
        };
        if !self.blocking.submit_sliced(share, Box::new(task)) {
            self.refused.push_back(letter(Err(busy())));
        }
    }

    /// The share under which the storage calls of an operation run.
    pub(super) fn share_of(&self, operation: OperationId) -> QuotaClass {
        let share = self.transfers.get(&operation).and_then(|transfer| transfer.share.as_ref());
        share.unwrap_or(&self.share).clone()
    }

    pub(super) fn on_open(&mut self, operation: OperationId, request: &Request) {
        let job = self.host.open(operation, request);
        self.session.raise_level(operation, self.host.floor(operation));
        self.call(&self.host.share(operation), job, move |result| Message::Opened(operation, result));
    }

    pub(super) fn on_opened(&mut self, operation: OperationId, result: Result<Opened, Error>) {
        self.pending_storage -= 1;
        let facts = result.map(|opened| {
            let transfer = self.transfers.entry(operation).or_default();
            transfer.share = Some(self.host.share(operation));
            transfer.reading = Some(route(&mut self.dispatch, Arc::new(opened.source), opened.offset));
            if opened.resembles {
                self.session.resembles(operation);
            }
            opened.facts
        });
        self.session.on_opened(operation, facts);
    }

    /// The source of an upload of this side.
    pub(super) fn adopt_source(&mut self, operation: OperationId, source: SourceSide) {
        let transfer = self.transfers.entry(operation).or_default();
        match source {
            SourceSide::Ranges { source, offset } => {
                transfer.reading = Some(route(&mut self.dispatch, Arc::new(source), offset));
            }
            SourceSide::Stream { source, limit } => {
                let count = bounds::buffers(self.session.limits().block);
                let block = self.session.limits().block as usize;
                let buffers: Result<Vec<_>, _> = (0..count).map(|_| Buffer::new(block)).collect();
                let stream = buffers
                    .and_then(|buffers| Stream::start(operation, source, limit, block, buffers, self.post.clone()));
                match stream {
                    Ok(stream) => transfer.reading = Some(ReadMode::Stream(stream)),
                    Err(error) => {
                        let text = format!("cannot read the input: {error}");
                        self.session.fail(operation, Error::new(ErrorKind::Resources, text));
                    }
                }
            }
        }
    }

    /// The reader thread filled a buffer.
    pub(super) fn on_read(
        &mut self,
        operation: OperationId,
        buffer: Buffer,
        length: usize,
        ended: bool,
        error: Option<Error>,
    ) {
        let reading = self.transfers.get_mut(&operation).and_then(|transfer| transfer.reading.as_mut());
        let Some(ReadMode::Stream(stream)) = reading else { return };
        if let Some(error) = error {
            return self.session.fail(operation, error);
        }
        if length > 0 {
            stream.held.insert(stream.available, (Some(buffer), length));
            stream.available += length as u64;
        }
        let available = stream.available;
        self.session.on_source(operation, available, ended);
    }

    pub(super) fn on_acknowledged(&mut self, operation: OperationId, below: u64) {
        let reading = self.transfers.get_mut(&operation).and_then(|transfer| transfer.reading.as_mut());
        if let Some(ReadMode::Stream(stream)) = reading {
            stream.forget_below(below);
        }
    }

    pub(super) fn on_check(&mut self, operation: OperationId) {
        if !self.prove(operation) {
            return;
        }
        let reading = self.transfers.get(&operation).and_then(|transfer| transfer.reading.as_ref());
        match reading {
            Some(ReadMode::Direct { source, .. } | ReadMode::Buffered { source, .. }) => {
                if source.is_local() {
                    let unchanged = source.revalidate();
                    return self.session.on_checked(operation, unchanged);
                }
                let (source, share) = (Arc::clone(source), self.share_of(operation));
                self.call(&share, move || source.revalidate(), move |result| Message::Checked(operation, result));
            }
            // Zeros do not change, a stream cannot be checked again, and an empty reply has no
            // source.
            Some(ReadMode::Zero | ReadMode::Stream(_)) | None => self.session.on_checked(operation, Ok(())),
        }
    }

    pub(super) fn on_stage(&mut self, operation: OperationId, request: Option<&Request>, grant: Option<&Grant>) {
        let job = self.host.stage(operation, request, grant);
        self.session.raise_level(operation, self.host.floor(operation));
        self.call(&self.host.share(operation), job, move |result| Message::Staged(operation, result));
    }

    pub(super) fn on_staged(&mut self, operation: OperationId, result: Result<Staged, Error>) {
        self.pending_storage -= 1;
        let facts = match result {
            Err(error) => Err(error),
            Ok(staged) => {
                let (mode, modified) = (staged.mode, staged.modified);
                let kept = verified_range::ranges(staged.stage.kept());
                let reread = staged.stage.can_read_back();
                let replaces = staged.stage.replaces().to_vec();
                // Ranges with a known hash that is verified to be the source's are not hashed
                // again.
                let doubt = staged.stage.kept().iter().any(|one| !one.proved || one.value.is_none());
                let writing = self.writing(Arc::new(staged.stage));
                let ordered = matches!(writing, Ok(WriteMode::Ordered { .. }));
                writing.map(|writing| {
                    let share = self.host.share(operation);
                    let transfer = self.transfers.entry(operation).or_default();
                    transfer.share = Some(share);
                    (transfer.writing, transfer.mode, transfer.modified) = (Some(writing), mode, modified);
                    let window = ordered.then_some(bounds::ordered_window(self.session.limits().block));
                    StageFacts { window, kept, unverified: doubt, reread, replaces }
                })
            }
        };
        self.session.on_staged(operation, facts);
    }

    /// How a stage is written.
    fn writing(&mut self, stage: Arc<Stage>) -> Result<WriteMode, Error> {
        let ordered = stage.order() == Order::Ascending;
        if stage.discards() {
            return Ok(WriteMode::Discard(stage));
        }
        let beside = match self.disk {
            DiskMode::Automatic => stage.in_memory(),
            DiskMode::Inline => false,
            DiskMode::Beside => true,
        };
        if !ordered && !beside {
            return Ok(WriteMode::Inline(stage));
        }
        if self.writer.is_none() {
            // Room for every buffer, and for operations that end before their blocks are written:
            // the pump never waits for its writer, which may wait for the pump's mailbox.
            let places = bounds::BUFFERS_MAX + 2 * self.session.limits().operations_max;
            let writer = Writer::start(places, self.post.clone())
                .map_err(|error| Error::new(ErrorKind::Resources, format!("cannot start a writer thread: {error}")))?;
            self.writer = Some(writer);
        }
        if ordered && self.transfers.values().any(|other| matches!(other.writing, Some(WriteMode::Ordered { .. }))) {
            // Two of them could hold all buffers while each waits for the other's.
            return Err(Error::new(ErrorKind::Busy, "one target that takes bytes in order at a time"));
        }
        if ordered {
            return Ok(WriteMode::Ordered { stage, next: 0, waiting: Default::default() });
        }
        Ok(WriteMode::Beside(stage))
    }

    /// Passes the blocks whose turn it is to the writer.
    pub(super) fn write_in_order(&mut self, operation: OperationId) {
        let Some(transfer) = self.transfers.get_mut(&operation) else { return };
        let Some(WriteMode::Ordered { next, waiting, stage }) = &mut transfer.writing else { return };
        let mut blocks = Vec::new();
        while let Some((buffer, length, leaf)) = waiting.remove(next) {
            let Ok(extent) = Extent::new(*next, length as u64) else { break };
            *next = extent.end();
            blocks.push(Block { operation, stage: Arc::clone(stage), extent, buffer, leaf });
        }
        blocks.into_iter().for_each(|block| self.write_beside(block));
    }

    /// Passes a block to the writer thread.
    pub(super) fn write_beside(&mut self, block: Block) {
        let Some(writer) = &self.writer else { return };
        if let Some(transfer) = self.transfers.get_mut(&block.operation) {
            transfer.at_writer += 1;
        }
        self.at_writer += 1;
        writer.write(block);
    }

    pub(super) fn on_written(&mut self, written: Written) {
        self.at_writer -= 1;
        if let Some(transfer) = self.transfers.get_mut(&written.operation) {
            transfer.at_writer -= 1;
        }
        self.receive_pool.give(written.buffer);
        let now = self.dispatch.now();
        if let Some(leaf) = written.leaf.filter(|_| written.result.is_ok()) {
            let transfer = self.transfers.get(&written.operation);
            transfer.into_iter().for_each(|transfer| transfer.hash_written(leaf));
        }
        self.session.on_written(written.operation, written.extent, written.result, now);
        self.mark_when_due(written.operation, now);
        self.serve_waiting();
    }

    pub(super) fn on_commit(&mut self, operation: OperationId, length: u64, durable: bool) {
        self.let_go(operation, AfterDetach::Commit { length, durable });
    }

    /// Takes the stage back from the writer thread if that has a block of it, then continues.
    pub(super) fn let_go(&mut self, operation: OperationId, then: AfterDetach) {
        let at_writer = self.transfers.get(&operation).is_some_and(|transfer| transfer.at_writer > 0);
        self.after_detach.insert(operation, then);
        match &self.writer {
            Some(writer) if at_writer => {
                self.pending_storage += 1;
                writer.let_go(operation);
            }
            _ => self.continue_after_detach(operation),
        }
    }

    pub(super) fn on_detached(&mut self, operation: OperationId) {
        self.pending_storage -= 1;
        self.continue_after_detach(operation);
    }

    pub(super) fn continue_after_detach(&mut self, operation: OperationId) {
        if self.transfers.get(&operation).is_some_and(|transfer| transfer.marking) {
            // The checkpoint holds the stage.
            self.after_marker.insert(operation);
            return;
        }
        let then = self.after_detach.remove(&operation);
        let transfer = self.transfers.get_mut(&operation);
        let writing = transfer.and_then(|transfer| transfer.writing.take());
        match then {
            Some(AfterDetach::Commit { length, durable }) => self.commit(operation, length, durable, writing),
            Some(AfterDetach::Forward { to, message }) => {
                drop(writing);
                self.forward(to, message);
            }
            None => drop(writing),
        }
    }

    fn commit(&mut self, operation: OperationId, length: u64, durable: bool, writing: Option<WriteMode>) {
        let transfer = self.transfers.get(&operation);
        let (mode, modified) = transfer.map_or((0, None), |transfer| (transfer.mode, transfer.modified));
        let stage = writing.map(WriteMode::into_stage).and_then(Arc::into_inner);
        let Some(stage) = stage else {
            let error = Error::new(ErrorKind::Storage, "the staged file is still in use");
            return self.session.on_committed(operation, Err(error));
        };
        let request = CommitRequest { length, mode, modified };
        if length <= bounds::COMMIT_AT_ONCE_BYTES && stage.in_memory() {
            let made = commit::carry_out(stage, &request, durable);
            return self.made(operation, made);
        }
        let job = move || commit::carry_out(stage, &request, durable);
        self.call(&self.share_of(operation), job, move |result| Message::Committed(operation, result));
    }

    /// A target was committed, or failed to be.
    pub(super) fn made(&mut self, operation: OperationId, result: Result<CommittedFile, Error>) {
        if let (Ok(made), Some(transfer)) = (&result, self.transfers.get_mut(&operation)) {
            transfer.tally.unchanged = made.unchanged;
        }
        self.session.on_committed(operation, result.map(|made| made.facts));
    }

    /// Aborts an operation: what it moved is reported with its outcome, which follows later.
    pub(super) fn abort_transfer(&mut self, operation: OperationId, keep: bool) {
        if self.stop_calls(operation) {
            return;
        }
        if let Some(transfer) = self.transfers.get_mut(&operation) {
            self.tallies.insert(operation, std::mem::take(&mut transfer.tally));
        }
        // A member's outcome is reported by its coordinator: its stats are never collected.
        while self.tallies.len() > 2 * self.session.limits().operations_max {
            self.tallies.pop_first();
        }
        self.end_transfer(operation, keep);
    }

    /// Drops what this side holds for an operation; this removes a stage that was not committed.
    pub(super) fn drop_transfer(&mut self, operation: OperationId) {
        self.end_transfer(operation, false);
    }

    /// The same; `keep` leaves what was written for the next attempt.
    pub(super) fn end_transfer(&mut self, operation: OperationId, keep: bool) {
        if let Some(stop) = self.long_reads.remove(&operation) {
            stop.store(true, Ordering::Relaxed);
        }
        let Some(transfer) = self.transfers.remove(&operation) else { return };
        if let Some(ReadMode::Direct { file, .. }) = &transfer.reading {
            let is_its = |sending: SendingBlock| sending.operation == operation;
            let in_use = self.lines.values().any(|line| line.sending.is_some_and(is_its));
            if in_use {
                // A record is with the transport: the file is closed when the record was sent.
                self.transfers.insert(operation, transfer);
                return self.closing.push(operation);
            }
            self.dispatch.close_file(*file);
        }
        self.release(operation, transfer, keep);
    }

    fn release(&mut self, operation: OperationId, transfer: Transfer, keep: bool) {
        let Some(writing) = transfer.writing else { return };
        let share = transfer.share.unwrap_or_else(|| self.share.clone());
        if let Some(writer) = self.writer.as_ref().filter(|_| transfer.at_writer > 0) {
            self.pending_storage += 1;
            writer.let_go(operation);
        }
        if let WriteMode::Ordered { stage, waiting, .. } = writing {
            for (buffer, ..) in waiting.into_values() {
                self.receive_pool.give(buffer);
            }
            self.drop_stage(&share, stage);
            return self.serve_waiting();
        }
        let stage = writing.into_stage();
        if !keep {
            return self.drop_stage(&share, stage);
        }
        self.keeping.insert(operation, None);
        let keep = move || {
            stage.keep();
            Ok(())
        };
        self.call(&share, keep, move |_: Result<(), Error>| Message::Kept(operation));
    }

    /// Dropping a stage may remove a file; the pump does not end before that is complete.
    fn drop_stage(&mut self, share: &QuotaClass, stage: Arc<Stage>) {
        self.call(
            share,
            move || {
                drop(stage);
                Ok(())
            },
            |_: Result<(), Error>| Message::Dropped,
        );
    }

    /// Transfers that ended while a record of theirs was with the transport.
    pub(super) fn close_finished(&mut self) {
        for operation in std::mem::take(&mut self.closing) {
            self.drop_transfer(operation);
        }
    }

    pub(super) fn is_discarded(&self, operation: OperationId) -> bool {
        let writing = self.transfers.get(&operation).and_then(|transfer| transfer.writing.as_ref());
        matches!(writing, Some(WriteMode::Discard(_)))
    }

    pub(super) fn is_ordered(&self, operation: OperationId) -> bool {
        let writing = self.transfers.get(&operation).and_then(|transfer| transfer.writing.as_ref());
        matches!(writing, Some(WriteMode::Ordered { .. }))
    }

    /// What another pipeline needs to take part.
    pub(super) fn shared_of(&self, operation: OperationId) -> Option<SharedFile> {
        let transfer = self.transfers.get(&operation)?;
        let source = match &transfer.reading {
            Some(ReadMode::Direct { source, offset, .. } | ReadMode::Buffered { source, offset }) => {
                Some((Arc::clone(source), *offset))
            }
            Some(ReadMode::Zero) => Some((Arc::new(Source::zero(None)), 0)),
            Some(ReadMode::Stream(_)) | None => None,
        };
        let stage = transfer.writing.as_ref().map(|writing| Arc::clone(writing.stage()));
        let hashing = transfer.hashed.as_ref().map(|hashed| Arc::clone(&hashed.hashing));
        Some(SharedFile { source, stage, hashing, share: self.share_of(operation) })
    }

    pub(super) fn adopt_shared(&mut self, operation: OperationId, shared: SharedFile) {
        let reading = shared.source.map(|(source, offset)| route(&mut self.dispatch, source, offset));
        let writing = shared.stage.map(|stage| self.writing(stage));
        let transfer = self.transfers.entry(operation).or_default();
        (transfer.reading, transfer.share) = (reading, Some(shared.share));
        let adopted = |hashing| Hashed { hashing, length: None, beside: None, inline: false, waiting: None };
        transfer.hashed = shared.hashing.map(adopted);
        match writing {
            Some(Ok(writing)) => transfer.writing = Some(writing),
            Some(Err(error)) => self.session.fail(operation, error),
            None => {}
        }
    }
}

/// The route of a source: zeros from one cached block, the kernel's route if there is a descriptor,
/// else a buffer. At levels that need the bytes the buffer is always used.
fn route<D: Dispatch>(dispatch: &mut D, source: Arc<Source>, offset: u64) -> ReadMode {
    if source.is_zero() {
        return ReadMode::Zero;
    }
    match source.descriptor() {
        Some(descriptor) => ReadMode::Direct { file: dispatch.open_file(descriptor), source, offset },
        None => ReadMode::Buffered { source, offset },
    }
}
