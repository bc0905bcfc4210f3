//! The table of running sessions: their secrets, and where each pipeline is (with the listener
//! while it is idle, on a thread of its own while it moves data). [`xdfs_proto::registry`] decides
//! which connections may join them.

use crate::mailbox::PumpSender;
use crate::pending_shutdowns::PendingShutdowns;
use crate::session_context::SessionContext;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use xdfs_engine::idle::IdlePipeline;
use xdfs_engine::mailbox::{Command, Message};
use xdfs_io::dispatch::{Dispatch, Dispatcher, SocketId};
use xdfs_proto::base::{ChannelId, Error, ErrorKind, Instant, SessionId};
use xdfs_proto::registry::Registry;
use xdfs_proto::wire::control::ChannelGrant;
use xdfs_secure::keys::{ChannelKeys, GrantSecret, JoinSecret, Role, RoleKeys};
use xdfs_secure::policy::Principal;

/// The sessions of a server.
pub(crate) struct SessionTable {
    /// The granted sessions, and who may join them.
    pub registry: Registry<Arc<Principal>>,
    /// The sessions that have started.
    pub running: BTreeMap<SessionId, SessionEntry>,
    /// Sessions that are over and whose threads have not all ended.
    pub ending: Vec<EndingSession>,
    /// Whose the sockets of idle pipelines are.
    pub idle: BTreeMap<SocketId, IdleSocket>,
    /// Pipelines that must end and could not be notified yet.
    pub shutdowns: PendingShutdowns,
}

impl SessionTable {
    /// There is no session.
    pub fn new() -> Self {
        Self {
            registry: Registry::new(),
            running: BTreeMap::new(),
            ending: Vec::new(),
            idle: BTreeMap::new(),
            shutdowns: PendingShutdowns::default(),
        }
    }

    /// The idle pipeline of a socket, and which of its channels it is. None if it is of no idle pipeline.
    pub fn idle_of(&mut self, socket: SocketId) -> Option<(IdleSocket, &mut IdlePipeline)> {
        let of = self.idle.get(&socket).copied()?;
        let idle = self.running.get_mut(&of.session)?.idle_mut(of.pipeline)?;
        Some((of, idle))
    }

    /// Ends a session: every idle channel is closed, every thread notified. None if it has not started.
    pub fn end(&mut self, id: SessionId, error: Option<&Error>, dispatch: &mut Dispatcher) -> Option<SessionEntry> {
        self.registry.end(id);
        let mut entry = self.running.remove(&id)?;
        for pipeline in &mut entry.pipelines {
            match std::mem::replace(pipeline, PipelineState::Over) {
                PipelineState::Idle(idle) => {
                    for socket in idle.sockets() {
                        self.idle.remove(&socket);
                    }
                    idle.close(dispatch);
                }
                PipelineState::Running(post) => {
                    let why = error.cloned();
                    let why = why.unwrap_or_else(|| Error::new(ErrorKind::ConnectionLost, "the session has ended"));
                    self.shutdowns.tell(post, why, dispatch.now());
                }
                PipelineState::Over => {}
            }
        }
        Some(entry)
    }

    /// Counts a session that is over until its threads have ended.
    pub fn add_ending(&mut self, entry: SessionEntry) {
        self.ending.retain(EndingSession::has_threads);
        self.ending.extend(EndingSession::of(entry));
    }

    /// Asks the client of a session to end it.
    pub fn tell_drain(&self, id: SessionId) {
        for post in self.running.get(&id).into_iter().flat_map(SessionEntry::running) {
            let _ = post.try_send(Message::Command(Command::Drain { retry_after_ms: 1000 }));
            let _ = post.try_send(Message::Command(Command::Close));
        }
    }

    /// Ends what every thread does: the server ends now.
    pub fn abandon_all(&self) {
        for post in self.running.values().flat_map(SessionEntry::running) {
            let error = Error::new(ErrorKind::Draining, "the server has shut down");
            let _ = post.try_send(Message::Command(Command::Abandon(error)));
        }
    }
}

/// Whose the socket of an idle pipeline is.
#[derive(Clone, Copy)]
pub(crate) struct IdleSocket {
    /// The session.
    pub session: SessionId,
    /// The index of the pipeline.
    pub pipeline: usize,
    /// The channel.
    pub channel: ChannelId,
}

/// Where a pipeline is.
pub(crate) enum PipelineState {
    /// With the listener, which watches its channels.
    Idle(Box<IdlePipeline>),
    /// On a thread of its own.
    Running(PumpSender),
    /// Over.
    Over,
}

impl PipelineState {
    /// The pipeline, if it is idle.
    pub fn idle(&self) -> Option<&IdlePipeline> {
        match self {
            Self::Idle(idle) => Some(idle),
            Self::Running(_) | Self::Over => None,
        }
    }
}

/// One session.
pub(crate) struct SessionEntry {
    /// What was agreed at login.
    pub terms: SessionTerms,
    /// What its pipelines share.
    pub context: Arc<SessionContext>,
    /// Its pipelines.
    pub pipelines: Vec<PipelineState>,
    /// Held by every thread of the session.
    pub threads: Arc<ThreadOfSession>,
    /// How long it has had no operation.
    quiet: QuietTime,
}

/// What a session was granted at login.
pub(crate) struct SessionTerms {
    /// The address of its client.
    pub peer: String,
    /// When it was opened.
    pub opened: Instant,
    /// Channels that it may have.
    pub channels: u16,
    /// Socket window that was granted, 0 for none.
    pub window: u32,
    /// What the keys of its channels are derived from.
    pub secret: JoinSecret,
}

/// How long a session has had no operation.
struct QuietTime {
    /// Since when.
    since: Instant,
    /// Operations completed when the session was last checked.
    operations: u64,
}

/// A mark that each thread of a session holds while it runs.
#[derive(Debug)]
pub(crate) struct ThreadOfSession;

/// A session that is over, with threads that are not yet: they wait for storage, which may take as
/// long as it likes. Until then it counts against its user's limits.
pub(crate) struct EndingSession {
    /// Its user. Not the session's own value: what lives as long as that is over.
    pub principal: Principal,
    /// Channels that it was granted.
    pub channels: u16,
    /// Pipelines that it had.
    pub pipelines: usize,
    /// Of which each thread that has not ended holds one.
    threads: Weak<ThreadOfSession>,
}

impl EndingSession {
    /// What is left of a session; none if no thread is.
    pub fn of(entry: SessionEntry) -> Option<Self> {
        let SessionEntry { terms, context, pipelines, threads, .. } = entry;
        let principal = Principal::clone(&context.principal);
        let ending =
            Self { principal, channels: terms.channels, pipelines: pipelines.len(), threads: Arc::downgrade(&threads) };
        if context.files.any() || context.watches.any() {
            // The last close of a file takes as long as its storage likes, and this thread serves everybody.
            let closing = move || drop((context, threads));
            // Where no thread is left, it is done here.
            drop(std::thread::Builder::new().name("xdfs-closing".to_owned()).spawn(closing));
        } else {
            drop(threads);
        }
        ending.has_threads().then_some(ending)
    }

    /// Whether a thread of it has not ended.
    pub fn has_threads(&self) -> bool {
        self.threads.strong_count() > 0
    }
}

impl SessionEntry {
    /// A new session.
    pub fn new(terms: SessionTerms, context: SessionContext, pipelines: Vec<PipelineState>) -> Self {
        let quiet = QuietTime { since: terms.opened, operations: 0 };
        let (context, threads) = (Arc::new(context), Arc::new(ThreadOfSession));
        Self { terms, context, pipelines, threads, quiet }
    }

    /// The senders to its pipelines that have a thread.
    pub fn running(&self) -> impl Iterator<Item = &PumpSender> {
        self.pipelines.iter().filter_map(|pipeline| match pipeline {
            PipelineState::Running(post) => Some(post),
            PipelineState::Idle(_) | PipelineState::Over => None,
        })
    }

    /// Its pipelines that have no thread.
    pub fn idle(&self) -> impl Iterator<Item = &IdlePipeline> {
        self.pipelines.iter().filter_map(PipelineState::idle)
    }

    /// A pipeline, if it has no thread.
    pub fn idle_mut(&mut self, pipeline: usize) -> Option<&mut IdlePipeline> {
        match self.pipelines.get_mut(pipeline) {
            Some(PipelineState::Idle(idle)) => Some(idle),
            Some(PipelineState::Running(_) | PipelineState::Over) | None => None,
        }
    }

    /// The pipeline of a channel.
    pub fn pipeline_of(&self, channel: ChannelId) -> usize {
        usize::from(channel.0.saturating_sub(1)) % self.pipelines.len().max(1)
    }

    /// Whether it has had no operation for so long, and nobody relies on it.
    pub fn is_quiet(&mut self, idle_for: Duration, now: Instant) -> bool {
        let (metrics, quiet) = (&self.context.metrics, &mut self.quiet);
        // Pipelines that stay on their threads are idle if no operation ran since the last check.
        let done = metrics.operations.load(Ordering::Relaxed);
        if metrics.live.load(Ordering::Relaxed) > 0 || std::mem::replace(&mut quiet.operations, done) != done {
            quiet.since = now;
        }
        // A lock would end without a word to its owner. A peer that is gone is found by its
        // connection. Whoever watches waits for something to happen.
        let is_needed = || self.context.files.exclude_others() || self.context.watches.any();
        if now.since(quiet.since) >= idle_for && is_needed() {
            quiet.since = now;
        }
        now.since(quiet.since) >= idle_for
    }
}

impl SessionTerms {
    /// Keys of a channel from this grant of channels.
    pub fn keys(&self, session: SessionId, channel: ChannelId, grant: &ChannelGrant) -> Result<RoleKeys, Error> {
        let grant = GrantSecret::new(&grant.secret);
        Ok(ChannelKeys::derive(&self.secret, &grant, session, channel)?.for_role(Role::Server))
    }
}
