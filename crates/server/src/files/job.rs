//! The execution of a batch of calls on a file, from its payload to its reply and its lines in the
//! log, cut into slices.
//!
//! A change is logged once for each handle and kind, and what a handle wrote when it is closed: a
//! line for every write would be longer than what is written. A change that failed is always logged,
//! any other call that failed once for each handle and kind.

use super::call::FileCalls;
use super::lease_calls::{access_of, access_of_batch};
use super::leases::Pinned;
use super::{Handle, SessionFiles};
use crate::calls::job::{BatchOwner, malformed};
use crate::calls::{failure, reply_writer};
use crate::log::{CallLine, LoggedName};
use crate::reply_cache::{CacheLookup, RunningBatch};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use xdfs_engine::blocking::Slice;
use xdfs_proto::base::{Error, ErrorKind, Safety};
use xdfs_proto::wire::file::{FileBatch, FileCall, FileCode, LeaseCall};
use xdfs_proto::wire::path::ReplyWriter;

/// A batch that is executed in slices.
pub(crate) struct FileJob {
    payload: Bytes,
    whom: BatchOwner,
    state: JobState,
}

enum JobState {
    /// Not begun; the reply is built in the memory.
    Waiting(Vec<u8>),
    Doing(Option<RunningBatch>, Box<Execution>),
    Over,
}

struct Execution {
    calls: FileCalls,
    /// It is executed under a write lease, which does not end before it.
    _pinned: Option<Pinned>,
    writer: ReplyWriter,
    /// The name of the file, for the log.
    name: Vec<u8>,
    lines: Vec<CallLine>,
    done: usize,
}

/// The name of the file that a batch is about: `EXPORT/path`.
pub(crate) fn name_of(payload: &[u8], files: &SessionFiles) -> Result<Vec<u8>, Error> {
    let batch = FileBatch::decode(payload).map_err(|error| malformed(&error))?;
    match batch.calls.first() {
        Some(FileCall::Open(open)) => Ok(open.path.to_vec()),
        _ => files.handle(batch.handle).map(|handle| handle.grant.name.clone()),
    }
}

impl FileJob {
    pub(crate) fn new(payload: Bytes, memory: Vec<u8>, whom: BatchOwner) -> Self {
        Self { payload, whom, state: JobState::Waiting(memory) }
    }

    /// Continues until the slice is over.
    pub(crate) fn advance(&mut self, slice: &Slice) -> Poll<Result<Vec<u8>, Error>> {
        let payload = self.payload.clone();
        match FileBatch::decode(&payload) {
            Ok(batch) => self.go_on(&batch, slice),
            Err(error) => Poll::Ready(Err(malformed(&error))),
        }
    }

    fn go_on(&mut self, batch: &FileBatch<'_>, slice: &Slice) -> Poll<Result<Vec<u8>, Error>> {
        let (once, mut execution) = match std::mem::replace(&mut self.state, JobState::Over) {
            JobState::Waiting(memory) => {
                let once = match self.whom.once(batch.request, batch.age_ms) {
                    Ok(Some(CacheLookup::Told(reply))) => return Poll::Ready(Ok(reply)),
                    Ok(Some(CacheLookup::Do(doing))) => Some(doing),
                    Ok(None) => None,
                    Err(error) => return Poll::Ready(Err(error)),
                };
                match self.begin(batch, memory) {
                    Ok(execution) => (once, Box::new(execution)),
                    Err(error) => {
                        if error.kind != ErrorKind::Busy {
                            self.whom.record(LoggedName::from(&b""[..]), Vec::new(), None, Some(&error));
                        }
                        return not_begun(once, error);
                    }
                }
            }
            JobState::Doing(once, execution) => (once, execution),
            JobState::Over => return Poll::Ready(Err(Error::new(ErrorKind::Storage, "the batch is over"))),
        };
        while let Some(call) = batch.calls.get(execution.done) {
            if self.whom.is_stopped() {
                if execution.done == 0 {
                    return not_begun(once, Error::new(ErrorKind::Cancelled, "cancelled before it was begun"));
                }
                break;
            }
            if matches!(call, FileCall::Lease(_))
                && !batch.calls[execution.done..].iter().any(|call| access_of(call).is_some())
            {
                // What opened the file is over, and in the way of no lease.
                execution.calls.access = None;
            }
            if let Err(error) = execution.next(call) {
                let (opens, first) =
                    (matches!(call, FileCall::Open(_)), matches!(call, FileCall::Lease(LeaseCall::Under)));
                if opens && error.kind == ErrorKind::Busy && error.errno == 0 {
                    // A lease excludes it, and whoever has it is told.
                    return not_begun(once, error);
                }
                if batch.stop || opens || first {
                    break;
                }
            }
            if slice.is_over() && execution.done < batch.calls.len() {
                self.state = JobState::Doing(once, execution);
                return Poll::Pending;
            }
        }
        let changed = batch.calls.iter().any(FileCall::changes).then_some(Safety::Written);
        let reply = execution.writer.finish(Safety::Written);
        if let Some(doing) = once {
            doing.end(Some(&reply));
        }
        if !execution.lines.is_empty() {
            self.whom.record(LoggedName::from(execution.name.as_slice()), execution.lines, changed, None);
        }
        Poll::Ready(Ok(reply))
    }

    fn begin(&self, batch: &FileBatch<'_>, memory: Vec<u8>) -> Result<Execution, Error> {
        let session = &self.whom.session;
        let handle = match batch.handle {
            0 => None,
            id => Some(session.files.handle(id)),
        };
        let name = match (batch.calls.first(), &handle) {
            (Some(FileCall::Open(open)), _) => open.path.to_vec(),
            (_, Some(Ok(handle))) => handle.grant.name.clone(),
            _ => Vec::new(),
        };
        let mut calls = FileCalls {
            files: Arc::clone(&session.files),
            authority: Arc::clone(&self.whom.authority),
            principal: Arc::clone(&session.principal),
            budget: Arc::clone(&session.budget),
            now: self.whom.now,
            // Its calls report that it is stale.
            handle: handle.and_then(Result::ok),
            wants: access_of_batch(batch),
            access: None,
            under: false,
        };
        let writer = reply_writer(memory, batch.calls.len(), batch.room)?;
        let _pinned = calls.begin_on_handle(batch)?;
        Ok(Execution { calls, _pinned, writer, name, lines: Vec::new(), done: 0 })
    }
}

/// Nothing was done: what is asked again is asked for the first time.
fn not_begun(once: Option<RunningBatch>, error: Error) -> Poll<Result<Vec<u8>, Error>> {
    if let Some(doing) = once {
        doing.end(None);
    }
    Poll::Ready(Err(error))
}

impl Execution {
    fn next(&mut self, call: &FileCall<'_>) -> Result<(), Error> {
        self.done += 1;
        let before = self.calls.handle.clone();
        let left = self.writer.left();
        let result = self.calls.call(call, &mut self.writer);
        if let Err(error) = &result
            && self.writer.left() == left
        {
            self.writer.fail(failure(error));
        }
        let handle = self.calls.handle.clone().or(before);
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
