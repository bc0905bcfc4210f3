//! The client's side of a pipeline: targets of downloads, and callbacks for outcomes.

use crate::call_queue::Queue;
use crate::callback::Callback;
use crate::endpoints::RequestedTarget;
use crate::joining::Joiner;
use crate::options::Verify;
use crate::transfer::{RemoteFile, Report};
use crate::watches::Watches;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;
use xdfs_engine::host::{Host, Opened, Staged, StorageJob};
use xdfs_engine::mailbox::{Command, Message};
use xdfs_engine::pace::Pacer;
use xdfs_engine::transfer::TransferStats;
use xdfs_io::buf::Buffer;
use xdfs_proto::base::{Error, ErrorKind, Level, OperationId, PipelineId, TransferId};
use xdfs_proto::session::{Committed, SessionEvent, SessionLimits};
use xdfs_proto::wire::control::Grant;
use xdfs_proto::wire::request::Request;

/// Where what arrives for the application goes.
pub(crate) enum PendingTarget {
    /// Nothing arrives but an outcome: an upload, or the hash of a file.
    None,
    /// A download that the server has not described yet.
    Awaited(RequestedTarget),
    /// The pump has it.
    Staged,
}

/// What the server has answered to a request.
enum Answer {
    /// Nothing yet: blocks get at least this protection level.
    Awaited(Level),
    /// Granted: the level that blocks get, and the file.
    Granted(Level, RemoteFile),
}

/// A transfer that the application waits for.
pub(crate) struct Pending {
    target: PendingTarget,
    /// By which an earlier attempt is found.
    transfer: TransferId,
    /// Bytes that are not sent because the target has them.
    resumed: Arc<AtomicU64>,
    /// Upload: version of the file that it replaces.
    replaces: Arc<OnceLock<Vec<u8>>>,
    outcome: Callback<Report>,
    /// Bytes of blocks that have passed.
    pub moved: Arc<AtomicU64>,
    /// When it was requested, or when its session was.
    pub started: Instant,
    answer: Answer,
    /// The content is hashed.
    hash: bool,
}

impl Pending {
    /// Registers the callback for what `request` requests.
    pub(crate) fn new(request: &Request, target: PendingTarget, outcome: Callback<Report>) -> Self {
        Self {
            target,
            transfer: request.transfer,
            resumed: Arc::default(),
            replaces: Arc::default(),
            outcome,
            moved: Arc::default(),
            started: Instant::now(),
            answer: Answer::Awaited(request.level),
            hash: request.hash,
        }
    }

    /// The counters that the application sees: bytes moved, bytes resumed, and the replaced
    /// version.
    pub(crate) fn counters(&self) -> (Arc<AtomicU64>, Arc<AtomicU64>, Arc<OnceLock<Vec<u8>>>) {
        (Arc::clone(&self.moved), Arc::clone(&self.resumed), Arc::clone(&self.replaces))
    }

    /// The server has granted the request.
    fn granted(&mut self, grant: Grant) {
        let kept = grant.kept.iter().map(|range| range.length()).sum();
        self.resumed.store(kept, Ordering::Relaxed);
        let _ = self.replaces.set(grant.version.clone());
        let Grant { size, mode, modified, version, level, .. } = grant;
        self.answer = Answer::Granted(level, RemoteFile { size, mode, modified, version });
    }

    /// The stage of a download; none if it has it already, or nothing arrives.
    fn stage(&mut self, grant: &Grant, durable: bool) -> Option<StorageJob<Staged>> {
        match std::mem::replace(&mut self.target, PendingTarget::Staged) {
            PendingTarget::Awaited(target) => Some(target.prepare(grant, self.transfer, durable)),
            known @ (PendingTarget::None | PendingTarget::Staged) => {
                self.target = known;
                None
            }
        }
    }

    /// It has come to its end: tells the application.
    fn settle(self, outcome: Result<Committed, Error>, stats: &TransferStats) {
        let (level, remote) = match self.answer {
            Answer::Awaited(level) => (level, None),
            Answer::Granted(level, remote) => (level, Some(remote)),
        };
        let report = outcome.map(|committed| Report {
            length: committed.length,
            moved: stats.bytes,
            channel_bytes: stats.channel_bytes.iter().map(|(channel, bytes)| (channel.0, *bytes)).collect(),
            safety: committed.safety,
            level,
            verified: match (self.hash, committed.reread) {
                (false, _) => Verify::None,
                (true, false) => Verify::Hash,
                (true, true) => Verify::Reread,
            },
            hash: committed.root,
            seconds: self.started.elapsed().as_secs_f64(),
            remote,
            resumed: self.resumed.load(Ordering::Relaxed),
        });
        self.outcome.complete(report);
    }
}

/// Is told the handles whose leases are recalled; must not wait.
pub(crate) type TellRecalled = Box<dyn Fn(&[u64]) + Send + Sync>;

/// Shared between the application, which registers transfers, and the pipelines, which answer.
#[derive(Default)]
pub(crate) struct Registry {
    pending: Mutex<BTreeMap<u64, Pending>>,
    /// The first error that ended the session: none while it is open, and none if it was closed in order.
    failure: Mutex<Option<Error>>,
    /// The server is shutting down.
    pub draining: AtomicBool,
    /// Who is told that leases of open files are recalled.
    pub recalled: OnceLock<TellRecalled>,
    /// The watches of names, and who is told of changes.
    pub watches: Watches,
    /// The session's way through its limit of bandwidth.
    pub pacer: Option<Arc<Pacer>>,
}

impl Registry {
    /// Of a session whose payloads move through `pacer`.
    pub(crate) fn paced(pacer: Option<Arc<Pacer>>) -> Self {
        Self { pacer, ..Self::default() }
    }

    pub(crate) fn pending(&self) -> MutexGuard<'_, BTreeMap<u64, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error that ended the session, if one has.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The error for a request that comes too late.
    pub(crate) fn why_ended(&self) -> Error {
        self.failure().unwrap_or_else(|| match self.draining.load(Ordering::Relaxed) {
            true => Error::new(ErrorKind::Draining, "the server is shutting down; try again later"),
            false => Error::new(ErrorKind::ConnectionLost, "the session has ended"),
        })
    }

    /// An error has ended the session; the first one is kept.
    pub(crate) fn has_failed(&self, error: Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// A pipeline's thread is about to end. If it is the first one, which coordinates every
    /// transfer, all remaining waiters are notified: a request may have been on its way to it.
    pub(crate) fn pipeline_ended(&self, calls: &Queue, pipeline: PipelineId, error: Option<&Error>) {
        if let Some(error) = error {
            self.has_failed(error.clone());
        }
        self.watches.end();
        let error = error.cloned().unwrap_or_else(|| self.why_ended());
        calls.ended(pipeline, &error);
        if pipeline != PipelineId(0) {
            return;
        }
        for pending in std::mem::take(&mut *self.pending()).into_values() {
            pending.outcome.complete(Err(error.clone()));
        }
    }
}

/// The client's side of a pump: targets of downloads, and the transfers that wait for outcomes.
pub(crate) struct ClientHost {
    pub registry: Arc<Registry>,
    pub joiner: Arc<Joiner>,
    /// Ticket and counter of each operation.
    pub operations: BTreeMap<OperationId, (u64, Arc<AtomicU64>)>,
    /// Tickets of the operations that are calls.
    pub calls: BTreeMap<OperationId, u64>,
    /// Channels that may still be replaced: if a path loses every new channel, replacing stops
    /// eventually.
    pub replacements: u16,
}

impl ClientHost {
    pub(crate) fn new(registry: &Arc<Registry>, joiner: &Arc<Joiner>, limits: &SessionLimits) -> Self {
        Self {
            registry: Arc::clone(registry),
            joiner: Arc::clone(joiner),
            operations: BTreeMap::new(),
            calls: BTreeMap::new(),
            replacements: limits.channels.min(64),
        }
    }

    fn with<T>(&self, operation: OperationId, act: impl FnOnce(&mut Pending) -> T) -> Option<T> {
        let (ticket, _) = self.operations.get(&operation)?;
        self.registry.pending().get_mut(ticket).map(act)
    }
}

impl Host for ClientHost {
    fn open(&mut self, _operation: OperationId, _request: &Request) -> StorageJob<Opened> {
        Box::new(|| Err(Error::internal("a client serves no files")))
    }

    fn stage(
        &mut self,
        operation: OperationId,
        request: Option<&Request>,
        grant: Option<&Grant>,
    ) -> StorageJob<Staged> {
        let durable = request.is_some_and(|request| request.durable);
        let stage = grant.and_then(|grant| self.with(operation, |pending| pending.stage(grant, durable)).flatten());
        let nobody = || Err(Error::new(ErrorKind::Cancelled, "nobody waits for this download"));
        stage.unwrap_or_else(|| Box::new(nobody))
    }

    fn pace(&self, _operation: OperationId) -> Option<Arc<Pacer>> {
        self.registry.pacer.clone()
    }

    fn replied(&mut self, operation: OperationId, reply: Buffer, length: usize) -> Buffer {
        match self.calls.get(&operation) {
            Some(ticket) => self.joiner.calls.replied(*ticket, reply, length),
            None => reply,
        }
    }

    fn numbered(&mut self, ticket: u64, operation: Result<OperationId, Error>) {
        // The state machine knows that nothing more may be opened, and the registry knows why.
        let operation = operation.map_err(|error| match error.kind {
            ErrorKind::ConnectionLost => self.registry.why_ended(),
            _ => error,
        });
        if self.joiner.calls.has(ticket) {
            match operation {
                Ok(operation) => drop(self.calls.insert(operation, ticket)),
                Err(error) => drop(self.joiner.calls.leave(ticket, Err(error))),
            }
            return;
        }
        let mut pending = self.registry.pending();
        match operation {
            Ok(operation) => {
                if let Some(one) = pending.get(&ticket) {
                    self.operations.insert(operation, (ticket, Arc::clone(&one.moved)));
                }
            }
            Err(error) => {
                if let Some(one) = pending.remove(&ticket) {
                    one.outcome.complete(Err(error));
                }
            }
        }
    }

    fn moved(&mut self, operation: OperationId, bytes: u64) {
        if let Some((_, moved)) = self.operations.get(&operation) {
            moved.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn settled(&mut self, operation: OperationId, outcome: Result<Committed, Error>, stats: TransferStats) {
        if let Some(ticket) = self.calls.remove(&operation) {
            self.joiner.calls.leave(ticket, outcome.map(drop));
            return self.close_when_drained();
        }
        let Some((ticket, _)) = self.operations.remove(&operation) else { return };
        let Some(pending) = self.registry.pending().remove(&ticket) else { return };
        pending.settle(outcome, &stats);
        self.close_when_drained();
    }

    fn event(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Granted { operation, grant } => {
                self.with(operation, |pending| pending.granted(grant));
            }
            SessionEvent::Recalled { handles } => {
                self.registry.recalled.get().iter().for_each(|told| told(&handles));
            }
            SessionEvent::Noticed { notices } => self.registry.watches.noticed(&notices),
            SessionEvent::ChannelLost { .. } if self.replacements > 0 => {
                self.replacements -= 1;
                self.joiner.want_another();
            }
            SessionEvent::ChannelsGranted(grant) => Joiner::start(&self.joiner, grant),
            SessionEvent::Draining { .. } => {
                self.registry.draining.store(true, Ordering::Relaxed);
                self.close_when_drained();
            }
            SessionEvent::Over { error: Some(error) } => self.registry.has_failed(error),
            _ => {}
        }
    }
}

impl ClientHost {
    /// The server is shutting down and no transfer is left: every pipeline may end. (A single
    /// pipeline does so by itself.)
    fn close_when_drained(&self) {
        let draining = self.registry.draining.load(Ordering::Relaxed);
        let idle = || self.registry.pending().is_empty() && self.joiner.calls.is_empty();
        if draining && self.joiner.posts.len() > 1 && idle() {
            for post in &self.joiner.posts {
                let _ = post.try_send(Message::Command(Command::Close));
            }
        }
    }
}
