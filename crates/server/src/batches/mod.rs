//! Batches of calls: for whom one is executed, and its execution from its payload to its reply.
//!
//! What the calls do is in [`calls`](crate::calls) and [`files`](crate::files).

pub(crate) mod file;
pub(crate) mod path;

use crate::authorise::Authority;
use crate::log::{CallLine, FirstFailure, LogEvent, LoggedName};
use crate::reply_cache::CacheLookup;
use crate::session_context::SessionContext;
use crate::traffic::{Count, ExportLoad, Traffic};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use xdfs_proto::base::{Error, OperationId, Safety};

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
    fn once(&self, request: [u8; 16], age_ms: Option<u64>) -> Result<Option<CacheLookup>, Error> {
        if request == [0; 16] {
            return Ok(None);
        }
        let age = age_ms.map(Duration::from_millis);
        let session = &self.session;
        session.reply_cache.begin(&session.budget, request, age, Instant::now()).map(Some)
    }

    /// Logs the outcome of a batch.
    fn record(&self, base: LoggedName, calls: Vec<CallLine>, safety: Option<Safety>, error: Option<&Error>) {
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
}
