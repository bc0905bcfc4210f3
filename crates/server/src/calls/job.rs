//! The execution of a batch, from its payload to its reply and its line in the log, cut into
//! slices.
//!
//! The payload is parsed again for each slice: that takes a small part of one, and avoids borrowing
//! across slices.

use super::{Done, Execution, exports};
use crate::authorise::{Authority, Base};
use crate::log::{CallLine, FirstFailure, LogEvent, LoggedName};
use crate::reply_cache::{CacheLookup, RunningBatch};
use crate::session_context::SessionContext;
use crate::traffic::{Count, ExportLoad, Traffic};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};
use xdfs_engine::blocking::Slice;
use xdfs_proto::base::{Error, ErrorKind, OperationId, Safety};
use xdfs_proto::wire::WireError;
use xdfs_proto::wire::path::Batch;

/// The session for which a batch is executed.
pub(crate) struct BatchOwner {
    /// The session and its user.
    pub session: Arc<SessionContext>,
    /// The access rules when the batch arrived.
    pub authority: Arc<Authority>,
    /// The operation that carries it.
    pub operation: OperationId,
    /// Bytes per second that the user may add to the audit log.
    pub audit_rate: u64,
    /// What it moves is counted here.
    pub traffic: BatchTraffic,
    /// Set when the rest is no longer wanted.
    pub stop: Arc<AtomicBool>,
    /// Seconds since 1970 when the batch arrived.
    pub now: u64,
}

/// Where the traffic of a batch is counted.
#[derive(Clone)]
pub(crate) struct BatchTraffic {
    session: Arc<SessionContext>,
    /// The export, if it is on one.
    export: Option<Arc<ExportLoad>>,
}

impl BatchTraffic {
    /// That of a batch of so many bytes.
    pub fn of(session: &Arc<SessionContext>, export: Option<&Arc<ExportLoad>>, bytes: usize) -> Self {
        let traffic = Self { session: Arc::clone(session), export: export.cloned() };
        traffic.moved(true, bytes);
        traffic
    }

    fn each(&self) -> impl Iterator<Item = &Traffic> {
        std::iter::once(&self.session.metrics.traffic).chain(self.export.iter().map(|export| &export.traffic))
    }

    /// The payload of the batch or of its reply passed.
    pub fn moved(&self, received: bool, bytes: usize) {
        self.each().for_each(|traffic| traffic.moved(received, bytes as u64));
    }

    /// Calls of a batch were executed, or the batch failed as a whole.
    fn calls(&self, base: &LoggedName, calls: &[CallLine], error: Option<&Error>) {
        if let Some(first) = FirstFailure::of_batch(base, calls, error) {
            self.session.metrics.first_failure.get_or_init(|| first);
        }
        let failed = calls.iter().filter(|call| call.error.is_some()).count() as u64;
        let done = calls.len() as u64 - failed;
        let failed = failed + u64::from(error.is_some());
        self.each().for_each(|traffic| traffic.calls(Count { done, failed }));
    }
}

impl BatchOwner {
    /// Whether a batch that may be repeated was executed before; none if it may not.
    pub(crate) fn once(&self, request: [u8; 16], age_ms: Option<u64>) -> Result<Option<CacheLookup>, Error> {
        if request == [0; 16] {
            return Ok(None);
        }
        let age = age_ms.map(Duration::from_millis);
        let session = &self.session;
        session.reply_cache.begin(&session.budget, request, age, Instant::now()).map(Some)
    }

    /// Logs the outcome of a batch.
    pub(crate) fn record(&self, base: LoggedName, calls: Vec<CallLine>, safety: Option<Safety>, error: Option<&Error>) {
        self.traffic.calls(&base, &calls, error);
        let SessionContext { services, budget, .. } = &*self.session;
        let bytes = (services.log)(&LogEvent::Calls {
            session: self.session.id,
            user: self.session.principal.user.escape_debug().to_string(),
            operation: self.operation.0,
            base,
            calls,
            safety,
            error: error.map(Error::to_string),
        });
        services.audit_pace.charge(budget, bytes, self.audit_rate, Instant::now());
    }

    /// Whether the rest is no longer wanted.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The execution of a batch, from its payload to its reply, in slices.
pub(crate) struct BatchJob {
    payload: Bytes,
    whom: BatchOwner,
    state: BatchState,
}

enum BatchState {
    /// The base was authorised; the reply is built in the memory.
    Judged(Box<Result<Option<Base>, Error>>, Vec<u8>),
    Doing(Option<RunningBatch>, Box<Execution>),
    Over,
}

/// A malformed batch fails as an operation, and nothing of it is executed.
pub(crate) fn malformed(error: &WireError) -> Error {
    Error::new(ErrorKind::Protocol, format!("malformed batch: {error}"))
}

impl BatchJob {
    /// A batch that has not started; `base` is its authorised base, none for the list of exports.
    pub(crate) fn new(payload: Bytes, base: Result<Option<Base>, Error>, memory: Vec<u8>, whom: BatchOwner) -> Self {
        Self { payload, whom, state: BatchState::Judged(Box::new(base), memory) }
    }

    /// Continues until the slice is over.
    pub(crate) fn advance(&mut self, slice: &Slice) -> Poll<Result<Vec<u8>, Error>> {
        let payload = self.payload.clone();
        match Batch::decode(&payload) {
            Ok(batch) => self.go_on(&batch, slice),
            Err(error) => Poll::Ready(Err(malformed(&error))),
        }
    }

    fn go_on(&mut self, batch: &Batch<'_>, slice: &Slice) -> Poll<Result<Vec<u8>, Error>> {
        if let BatchState::Judged(..) = self.state
            && let BatchState::Judged(base, memory) = std::mem::replace(&mut self.state, BatchState::Over)
        {
            let once = match self.whom.once(batch.request, batch.age_ms) {
                Ok(Some(CacheLookup::Told(reply))) => return Poll::Ready(Ok(reply)),
                Ok(Some(CacheLookup::Do(doing))) => Some(doing),
                Ok(None) => None,
                Err(error) => return Poll::Ready(Err(error)),
            };
            let (whom, session) = (&self.whom, &self.whom.session);
            let begun = match *base {
                Ok(Some(base)) => {
                    let shared = (Arc::clone(&session.services.files), Arc::clone(&session.watches));
                    Execution::new(batch, base, session.since, Arc::clone(&whom.stop), shared, memory)
                }
                Ok(None) => {
                    let shown = whom.authority.shown(&session.principal, whom.now);
                    return Poll::Ready(self.end(batch, once, shown.and_then(|shown| exports(batch, &shown))));
                }
                Err(error) => Err(error),
            };
            match begun {
                Ok(execution) => self.state = BatchState::Doing(once, Box::new(execution)),
                Err(error) => return Poll::Ready(self.end(batch, once, Err(error))),
            }
        }
        let BatchState::Doing(_, execution) = &mut self.state else { return Poll::Ready(Err(over())) };
        let error = match execution.advance(batch, slice) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => None,
            Err(error) => Some(error),
        };
        let BatchState::Doing(once, execution) = std::mem::replace(&mut self.state, BatchState::Over) else {
            return Poll::Ready(Err(over()));
        };
        let done = error.map_or_else(|| Ok(execution.finish(batch)), Err);
        Poll::Ready(self.end(batch, once, done))
    }

    /// Caches and logs the outcome.
    fn end(&self, batch: &Batch<'_>, once: Option<RunningBatch>, done: Result<Done, Error>) -> Result<Vec<u8>, Error> {
        if let Some(doing) = once {
            doing.end(done.as_ref().ok().map(|done| done.reply.as_slice()));
        }
        let (reply, lines, safety, error) = match done {
            Ok(Done { reply, lines, safety }) => (Ok(reply), lines, safety, None),
            Err(error) => (Err(error.clone()), Vec::new(), None, Some(error)),
        };
        // A lease that excludes it is no failure: nothing was done, and it is sent again soon.
        let waits = error.as_ref().is_some_and(|error| error.kind == ErrorKind::Busy);
        if (error.is_some() && !waits) || !lines.is_empty() {
            self.whom.record(batch.base.into(), lines, safety, error.as_ref());
        }
        reply
    }
}

fn over() -> Error {
    Error::new(ErrorKind::Storage, "the batch is over")
}
