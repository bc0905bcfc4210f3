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
use xdfs_engine::mailbox::{Command, Message};
use xdfs_engine::pipeline::PipelineChannel;
use xdfs_engine::record::RecordLayer;
use xdfs_io::dispatch::{Detached, Dispatch, Dispatcher, HEAD_BYTES, Op, SocketId};
use xdfs_io::transport::Link;
use xdfs_proto::base::{ChannelId, Error, ErrorKind, Instant, SessionId};
use xdfs_proto::registry::Registry;
use xdfs_proto::session::Session;
use xdfs_proto::wire::control::ChannelGrant;
use xdfs_secure::handshake::tls::{FAREWELL_BYTES, Farewell};
use xdfs_secure::keys::{ChannelKeys, Grant, JoinSecret, Role, RoleKeys};
use xdfs_secure::policy::Principal;

/// The sessions of a server.
pub(crate) struct SessionTable {
    /// The granted sessions, and who may join them.
    pub registry: Registry<Arc<Principal>>,
    /// The sessions that have started.
    pub running: BTreeMap<SessionId, SessionEntry>,
    /// Sessions that are over and whose threads have not all ended.
    pub ending: Vec<EndingSession>,
    /// Idle channels by their socket.
    pub idle: BTreeMap<SocketId, (SessionId, ChannelId)>,
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

    /// The machine of an idle pipeline, and one channel of it.
    pub fn idle_channel(&mut self, id: SessionId, channel: ChannelId) -> Option<(&mut Session, &mut IdleChannel)> {
        let entry = self.running.get_mut(&id)?;
        let pipeline = entry.pipeline_of(channel);
        let Some(PipelineState::Idle { session, channels }) = entry.pipes.get_mut(pipeline) else { return None };
        Some((session, channels.get_mut(&channel)?))
    }

    /// Ends a session: every idle channel is closed, every thread notified. None if it has not started.
    pub fn end(&mut self, id: SessionId, error: Option<&Error>, dispatch: &mut Dispatcher) -> Option<SessionEntry> {
        self.registry.end(id);
        let entry = self.running.remove(&id)?;
        for pipe in &entry.pipes {
            match pipe {
                PipelineState::Idle { channels, .. } => {
                    for idle in channels.values() {
                        self.idle.remove(&idle.socket);
                        dispatch.detach(idle.socket, &mut Vec::new());
                    }
                }
                PipelineState::Running(post) => {
                    let why = error.cloned();
                    let why = why.unwrap_or_else(|| Error::new(ErrorKind::ConnectionLost, "the session has ended"));
                    self.shutdowns.tell(post.clone(), why, dispatch.now());
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

/// Where a pipeline is.
pub(crate) enum PipelineState {
    /// With the listener, which watches its channels.
    Idle { session: Box<Session>, channels: BTreeMap<ChannelId, IdleChannel> },
    /// On a thread of its own.
    Running(PumpSender),
    /// Over.
    Over,
}

impl PipelineState {
    /// Whether it is idle with nothing in flight, so that a thread can take it over.
    pub fn may_move(&self) -> bool {
        matches!(self, Self::Idle { channels, .. } if channels.values().all(|idle| idle.sending_since.is_none()))
    }
}

/// A channel that the listener watches.
pub(crate) struct IdleChannel {
    /// Its socket.
    pub socket: SocketId,
    /// What protects its records.
    pub records: RecordLayer,
    /// The machine of its pipeline knows of it.
    pub known: bool,
    /// What comes next.
    pub arriving: Arriving,
    /// While a record is with the transport: since when the pipeline has had one there.
    pub sending_since: Option<Instant>,
}

/// What comes next on a channel that the listener watches.
pub(crate) enum Arriving {
    /// Channel 1: the client's close_notify of the handshake.
    Farewell(Farewell),
    /// The next head.
    Head,
    /// The payload of the EOFT with this head.
    End([u8; HEAD_BYTES]),
    /// Nothing: this head has arrived, and a thread of the pipeline reads its record.
    Work([u8; HEAD_BYTES]),
    /// Nothing more: the client's last record has arrived.
    Nothing,
}

impl IdleChannel {
    /// A channel that waits for its next head.
    pub fn new(socket: SocketId, records: RecordLayer, known: bool, farewell: Option<Farewell>) -> Self {
        let arriving = farewell.map_or(Arriving::Head, Arriving::Farewell);
        Self { socket, records, known, arriving, sending_since: None }
    }

    /// Bytes to read next.
    pub fn read_on(&self) -> Op {
        match &self.arriving {
            Arriving::Farewell(_) => Op::Small { socket: self.socket, length: FAREWELL_BYTES },
            _ => Op::Head { socket: self.socket },
        }
    }

    /// The channel for a thread, with `unread` after the head that has arrived already.
    pub fn into_group(self, channel: ChannelId, detached: Detached<Link>) -> PipelineChannel<Link> {
        let Self { records, known, arriving, .. } = self;
        let (farewell, mut unread) = match arriving {
            Arriving::Farewell(farewell) => (Some(farewell), Vec::new()),
            Arriving::End(head) | Arriving::Work(head) => (None, head.to_vec()),
            Arriving::Head | Arriving::Nothing => (None, Vec::new()),
        };
        unread.extend(detached.unread);
        PipelineChannel { channel, link: detached.link, unread, records, known, farewell }
    }
}

/// One session.
pub(crate) struct SessionEntry {
    /// What was agreed at login.
    pub grant: SessionGrant,
    /// What its pipelines share.
    pub context: Arc<SessionContext>,
    /// Its pipelines.
    pub pipes: Vec<PipelineState>,
    /// Held by every thread of the session.
    pub threads: Arc<ThreadOfSession>,
    /// Its client is closing it, and must take the close reason by then.
    pub leaving_until: Option<Instant>,
    /// How long it has had no operation.
    quiet: QuietTime,
}

/// What a session was granted at login.
pub(crate) struct SessionGrant {
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
        let SessionEntry { grant, context, pipes, threads, .. } = entry;
        let principal = Principal::clone(&context.principal);
        let ending =
            Self { principal, channels: grant.channels, pipelines: pipes.len(), threads: Arc::downgrade(&threads) };
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
    pub fn new(grant: SessionGrant, context: SessionContext, pipes: Vec<PipelineState>) -> Self {
        let quiet = QuietTime { since: grant.opened, operations: 0 };
        let (context, threads) = (Arc::new(context), Arc::new(ThreadOfSession));
        Self { grant, context, pipes, threads, leaving_until: None, quiet }
    }

    /// The senders to its pipelines that have a thread.
    pub fn running(&self) -> impl Iterator<Item = &PumpSender> {
        self.pipes.iter().filter_map(|pipe| match pipe {
            PipelineState::Running(post) => Some(post),
            PipelineState::Idle { .. } | PipelineState::Over => None,
        })
    }

    /// The pipeline of a channel.
    pub fn pipeline_of(&self, channel: ChannelId) -> usize {
        usize::from(channel.0.saturating_sub(1)) % self.pipes.len().max(1)
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

impl SessionGrant {
    /// Keys of a channel from this grant of channels.
    pub fn keys(&self, session: SessionId, channel: ChannelId, grant: &ChannelGrant) -> Result<RoleKeys, Error> {
        let grant = Grant::new(&grant.secret);
        Ok(ChannelKeys::derive(&self.secret, &grant, session, channel)?.for_role(Role::Server))
    }
}
