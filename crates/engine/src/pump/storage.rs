//! Storage calls and their results; the source of an operation, whose route is chosen once.

use super::{Host, Pump};
use crate::blocking::Slice;
use crate::bounds;
use crate::host::Opened;
use crate::mailbox::Message;
use crate::schedule::QuotaClass;
use crate::transfer::hashed::{Beside, Hashed};
use crate::transfer::reader::{Filled, ReadBytes, Stream};
use crate::transfer::{Phase, ReadMode, Reading, SharedEnd, SharedFile, SourceSide, Transfer, Writing};
use std::collections::btree_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use xdfs_io::buf::Buffer;
use xdfs_io::dispatch::Dispatch;
use xdfs_io::store::Source;
use xdfs_proto::base::{Error, ErrorKind, OperationId};
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
        self.storage.pending += 1;
        let letter = Arc::new(letter);
        let (post, later) = (self.mail.own.clone(), Arc::clone(&letter));
        let task = move || {
            // A call that panics returns a result too: its pump waits for it.
            let result = catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|_| Err(panicked()));
            let _ = post.send(later(result));
        };
        if !self.storage.blocking.submit(share, task) {
            self.storage.refused.push_back(letter(Err(busy())));
        }
    }

    /// The same for work that is cut into slices.
    pub(super) fn call_sliced<T: Send + 'static>(
        &mut self,
        share: &QuotaClass,
        job: impl FnMut(&Slice) -> Poll<Result<T, Error>> + Send + 'static,
        letter: impl Fn(Result<T, Error>) -> Message<D::Link> + Send + Sync + 'static,
    ) {
        self.storage.pending += 1;
        let letter = Arc::new(letter);
        let (post, later, mut job) = (self.mail.own.clone(), Arc::clone(&letter), Some(job));
        let task = move |slice: &Slice| {
            // Cannot be: a task that is done is not called again.
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
        if !self.storage.blocking.submit_sliced(share, Box::new(task)) {
            self.storage.refused.push_back(letter(Err(busy())));
        }
    }

    /// The share under which the storage calls of an operation run.
    pub(super) fn share_of(&self, operation: OperationId) -> QuotaClass {
        self.transfers.get(&operation).map_or(&self.settings.share, |transfer| &transfer.share).clone()
    }

    /// The operation begins: its source is opened, or its stage prepared, under the share that the
    /// host names.
    pub(super) fn begin_opening(&mut self, operation: OperationId, phase: Phase) -> QuotaClass {
        let share = self.host.share(operation);
        self.transfers.insert(operation, Transfer::new(share.clone(), phase));
        share
    }

    pub(super) fn on_open(&mut self, operation: OperationId, request: &Request) {
        let job = self.host.open(operation, request);
        self.session.raise_level(operation, self.host.floor(operation));
        let share = self.begin_opening(operation, Phase::Opening);
        self.call(&share, job, move |result| Message::Opened(operation, result));
    }

    pub(super) fn on_opened(&mut self, operation: OperationId, result: Result<Opened, Error>) {
        self.storage.pending -= 1;
        let facts = match result {
            Ok(opened) => {
                let mode = route(&mut self.dispatch, Arc::new(opened.source), opened.offset);
                self.enter(operation, Phase::Reading(Reading::new(mode)));
                Ok(opened.facts)
            }
            Err(error) => {
                self.enter(operation, Phase::Done);
                Err(error)
            }
        };
        self.session.on_opened(operation, facts);
        self.forget_if_over(operation);
    }

    /// The source of an upload of this side.
    pub(super) fn adopt_source(&mut self, operation: OperationId, source: SourceSide) {
        let mode = match source {
            SourceSide::Ranges { source, offset } => Ok(route(&mut self.dispatch, Arc::new(source), offset)),
            SourceSide::Stream { source, limit } => {
                let count = bounds::buffers(self.session.limits().block);
                let block = self.session.limits().block as usize;
                let buffers: Result<Vec<_>, _> = (0..count).map(|_| Buffer::new(block)).collect();
                let stream = buffers.and_then(|buffers| {
                    Stream::start(operation, source, limit, block, buffers, self.mail.own.sends(Message::Read))
                });
                stream.map(ReadMode::Stream)
            }
        };
        let phase = match mode {
            Ok(mode) => Phase::Reading(Reading::new(mode)),
            Err(error) => {
                let text = format!("cannot read the input: {error}");
                self.session.fail(operation, Error::new(ErrorKind::Resources, text));
                Phase::Done
            }
        };
        self.transfers.insert(operation, Transfer::new(self.settings.share.clone(), phase));
    }

    /// The reader thread filled a buffer.
    pub(super) fn on_read(&mut self, Filled { operation, buffer, read }: Filled) {
        // The reader of a stream that ended early notices it by the buffers that do not come back.
        let Some(stream) = stream_of(self.transfers.get_mut(&operation)) else { return };
        let ReadBytes { length, ended } = match read {
            Ok(read) => read,
            Err(error) => return self.session.fail(operation, error),
        };
        if length > 0 {
            stream.held.insert(stream.available, (Some(buffer), length));
            stream.available += length as u64;
        }
        let available = stream.available;
        self.session.on_source(operation, available, ended);
    }

    pub(super) fn on_acknowledged(&mut self, operation: OperationId, below: u64) {
        // Else it can be read again, and nothing is remembered of it.
        if let Some(stream) = stream_of(self.transfers.get_mut(&operation)) {
            stream.forget_below(below);
        }
    }

    pub(super) fn on_check(&mut self, operation: OperationId) {
        if !self.report_digest(operation) {
            return;
        }
        let transfer = self.transfers.get(&operation);
        match transfer.and_then(Transfer::reading).map(|reading| &reading.mode) {
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

    /// What another pipeline needs to take part; none if the operation has ended here.
    pub(super) fn shared_of(&self, operation: OperationId) -> Option<SharedFile> {
        let transfer = self.transfers.get(&operation)?;
        let source = transfer.reading().and_then(|reading| reading.mode.source());
        let source = source.map(|(source, offset)| SharedEnd::Source(source, offset));
        let stage = || transfer.writing().map(|writing| SharedEnd::Stage(Arc::clone(writing.mode.stage())));
        let hashing = transfer.hashed.as_ref().map(|hashed| Arc::clone(&hashed.hashing));
        Some(SharedFile { end: source.or_else(stage)?, hashing, share: transfer.share.clone() })
    }

    /// Takes part in an operation that another pipeline coordinates.
    ///
    /// # Errors
    ///
    /// Where the coordinator has nothing to share any more, or this pipeline cannot write.
    pub(super) fn adopt_shared(&mut self, operation: OperationId, shared: Option<SharedFile>) -> Result<(), Error> {
        let ended = || Error::new(ErrorKind::Cancelled, "the transfer ended before every pipeline took part");
        let SharedFile { end, hashing, share } = shared.ok_or_else(ended)?;
        let phase = match end {
            SharedEnd::Source(source, offset) => {
                Phase::Reading(Reading::new(route(&mut self.dispatch, source, offset)))
            }
            // Its coordinator commits it.
            SharedEnd::Stage(stage) => Phase::Writing(Writing::new(self.write_mode(stage)?, 0, None)),
        };
        let adopted = |hashing| Hashed { hashing, length: None, inline: false, beside: Beside::Idle };
        let hashed = hashing.map(adopted);
        self.transfers.insert(operation, Transfer { hashed, ..Transfer::new(share, phase) });
        Ok(())
    }

    /// Enters the phase that follows [`Phase::Opening`], even where the outcome was reported
    /// meanwhile: then the machine ends it.
    pub(super) fn enter(&mut self, operation: OperationId, phase: Phase) {
        match self.transfers.entry(operation) {
            Entry::Occupied(mut transfer) => transfer.get_mut().phase = phase,
            Entry::Vacant(place) => {
                place.insert(Transfer { reported: true, ..Transfer::new(self.settings.share.clone(), phase) });
            }
        }
    }
}

/// The stream of a transfer that reads one.
pub(super) fn stream_of(transfer: Option<&mut Transfer>) -> Option<&mut Stream> {
    match transfer.and_then(Transfer::reading_mut) {
        Some(Reading { mode: ReadMode::Stream(stream), .. }) => Some(stream),
        _ => None,
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
