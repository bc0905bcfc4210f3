//! The execution of the calls of a batch on a file, in order and cut into slices.
//!
//! A change is logged once for each handle and kind, and what a handle wrote when it is closed: a
//! line for every write would be longer than what is written. A change that failed is always logged,
//! any other call that failed once for each handle and kind.

use super::call::{Caller, FileCalls};
use super::lease_calls::{access_of, access_of_batch, begin_on_handle, is_under};
use super::{Handle, SessionFiles};
use crate::log::{CallLine, LoggedName};
use crate::replies::{failure, malformed, reply_writer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use xdfs_engine::blocking::Slice;
use xdfs_proto::base::{Error, ErrorKind, Safety};
use xdfs_proto::wire::file::{FileBatch, FileCall, FileCode, LeaseCall};
use xdfs_proto::wire::path::ReplyWriter;

/// The outcome of a batch.
pub(crate) struct Done {
    /// The payload of the reply.
    pub reply: Vec<u8>,
    /// The name of the file, for the log.
    pub name: Vec<u8>,
    /// For the log: the calls that it is told of.
    pub lines: Vec<CallLine>,
    /// How durable the changes are; none if the batch was to change nothing.
    pub safety: Option<Safety>,
}

/// A batch that is being executed, slice by slice.
pub(crate) struct Execution {
    calls: FileCalls,
    writer: ReplyWriter,
    /// The name of the file, for the log.
    name: Vec<u8>,
    /// For the log.
    lines: Vec<CallLine>,
    /// Number of calls that are complete.
    done: usize,
}

/// The name of the file that a batch is about: `EXPORT/path`.
pub(crate) fn name_of(payload: &[u8], files: &SessionFiles) -> Result<Vec<u8>, Error> {
    let batch = FileBatch::decode(payload).map_err(|error| malformed(&error))?;
    match batch.calls.first() {
        Some(FileCall::Open(open)) => Ok(open.path.to_vec()),
        _ => files.handle(batch.handle).map(|handle| handle.opened.name.clone()),
    }
}

impl Execution {
    /// Prepares `batch`; the reply is built in `memory`. Busy if a lease excludes it.
    pub(crate) fn new(batch: &FileBatch<'_>, caller: Caller, memory: Vec<u8>) -> Result<Self, Error> {
        let handle = match batch.handle {
            0 => None,
            id => Some(caller.files.handle(id)),
        };
        let name = match (batch.calls.first(), &handle) {
            (Some(FileCall::Open(open)), _) => open.path.to_vec(),
            (_, Some(Ok(handle))) => handle.opened.name.clone(),
            _ => Vec::new(),
        };
        // Its calls report that it is stale.
        let handle = handle.and_then(Result::ok);
        let writes = match (batch.calls.first(), &handle) {
            (Some(FileCall::Open(open)), _) => open.write,
            (_, handle) => handle.as_ref().is_some_and(|handle| handle.opened.sharing.write),
        };
        let wants = access_of_batch(batch, writes);
        let writer = reply_writer(memory, batch.calls.len(), batch.room)?;
        let file = handle.map(|handle| begin_on_handle(batch, handle, wants)).transpose()?;
        let calls = FileCalls { caller, wants, under: is_under(batch), file };
        Ok(Self { calls, writer, name, lines: Vec::new(), done: 0 })
    }

    /// Executes the calls of `batch` in order, until the slice is over, and none after `stop` is set.
    /// Ready when all of it is complete; an error says that nothing was done.
    pub(crate) fn advance(
        &mut self,
        batch: &FileBatch<'_>,
        stop: &AtomicBool,
        slice: &Slice,
    ) -> Result<Poll<()>, Error> {
        if self.done > 0 {
            self.calls.resume();
        }
        while let Some(call) = batch.calls.get(self.done) {
            if stop.load(Ordering::Relaxed) {
                if self.done == 0 {
                    return Err(Error::new(ErrorKind::Cancelled, "cancelled before it was begun"));
                }
                break;
            }
            if matches!(call, FileCall::Lease(_))
                && !batch.calls[self.done..].iter().any(|call| access_of(call).is_some())
                && let Some(file) = &mut self.calls.file
            {
                // What opened the file is over, and in the way of no lease.
                file.access = None;
            }
            if let Err(error) = self.next(call) {
                let (opens, first) =
                    (matches!(call, FileCall::Open(_)), matches!(call, FileCall::Lease(LeaseCall::Under)));
                if opens && error.kind == ErrorKind::Busy && error.errno == 0 {
                    // A lease excludes it, and whoever has it is told.
                    return Err(error);
                }
                if batch.stop || opens || first || self.calls.is_too_late() {
                    break;
                }
            }
            if slice.is_over() && self.done < batch.calls.len() {
                self.calls.pause();
                return Ok(Poll::Pending);
            }
        }
        Ok(Poll::Ready(()))
    }

    /// The file of the batch, if it has one now.
    pub(crate) fn handle(&self) -> Option<Arc<Handle>> {
        self.calls.file.as_ref().map(|file| Arc::clone(&file.handle))
    }

    /// The outcome of `batch`, when all of it is complete.
    pub(crate) fn finish(self, batch: &FileBatch<'_>) -> Done {
        let safety = batch.calls.iter().any(FileCall::changes).then_some(Safety::Written);
        Done { reply: self.writer.finish(Safety::Written), name: self.name, lines: self.lines, safety }
    }

    fn next(&mut self, call: &FileCall<'_>) -> Result<(), Error> {
        self.done += 1;
        let before = self.handle();
        let left = self.writer.left();
        let result = self.calls.call(call, &mut self.writer);
        if let Err(error) = &result
            && self.writer.left() == left
        {
            self.writer.fail(failure(error));
        }
        let handle = self.handle().or(before);
        self.lines.extend(line(call, handle.as_deref(), &result));
        result
    }
}

/// What the log says about a call.
fn line(call: &FileCall<'_>, handle: Option<&Handle>, result: &Result<(), Error>) -> Option<CallLine> {
    let code = FileCode::from_number(call.code())?;
    let is_first = || {
        let bit = 1 << call.code();
        handle.is_none_or(|handle| handle.logged.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    };
    let is_logged = match (code, result) {
        (FileCode::Open, _) => true,
        (FileCode::Close, Ok(())) => handle.is_some(),
        (_, Ok(())) => call.changes() && is_first(),
        (_, Err(error)) => call.changes() || !is_answer(error) && is_first(),
    };
    if !is_logged {
        return None;
    }
    let bytes = handle.filter(|_| code == FileCode::Close).map(|handle| handle.written.load(Ordering::Relaxed));
    let error = result.as_ref().err().cloned();
    Some(CallLine { call: code.name(), path: LoggedName::from(&b""[..]), to: None, bytes, unchanged: false, error })
}

/// Whether it is what a program expects that asks for a lock or a lease.
fn is_answer(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Locked | ErrorKind::Unsupported)
}
