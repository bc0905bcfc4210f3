//! The table of running sessions: their secrets, and where each pipeline is (with the listener
//! while it is idle, on a thread of its own while it moves data). [`xdfs_proto::registry`] decides
//! which connections may join them.

use crate::session_context::SessionContext;
use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};
use xdfs_engine::mailbox::{MailboxSender, Message};
use xdfs_engine::pipeline::PipelineChannel;
use xdfs_io::dispatch::{DescriptorWaker, Detached, HEAD_BYTES, Op, SocketId};
use xdfs_io::transport::Link;
use xdfs_proto::base::{ChannelId, Error, Instant, SessionId};
use xdfs_proto::session::Session;
use xdfs_proto::wire::control::ChannelGrant;
use xdfs_secure::handshake::tls::{FAREWELL_BYTES, Farewell};
use xdfs_secure::keys::{ChannelKeys, Grant, JoinSecret, Role, RoleKeys};
use xdfs_secure::policy::Principal;
use xdfs_secure::record::{Limits, Opener, Sealer};

pub(crate) type PumpSender = MailboxSender<Link, DescriptorWaker>;
pub(crate) type PumpMessage = Receiver<Message<Link>>;

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
        matches!(self, Self::Idle { channels, .. } if channels.values().all(|idle| !idle.sending))
    }
}

/// A channel that the listener watches.
pub(crate) struct IdleChannel {
    pub socket: SocketId,
    pub sealer: Sealer,
    pub opener: Opener,
    pub known: bool,
    pub arriving: Arriving,
    /// A record is with the transport.
    pub sending: bool,
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
    pub fn new(socket: SocketId, sealer: Sealer, opener: Opener, known: bool, farewell: Option<Farewell>) -> Self {
        let arriving = farewell.map_or(Arriving::Head, Arriving::Farewell);
        Self { socket, sealer, opener, known, arriving, sending: false }
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
        let Self { sealer, opener, known, arriving, .. } = self;
        let (farewell, mut unread) = match arriving {
            Arriving::Farewell(farewell) => (Some(farewell), Vec::new()),
            Arriving::End(head) | Arriving::Work(head) => (None, head.to_vec()),
            Arriving::Head | Arriving::Nothing => (None, Vec::new()),
        };
        unread.extend(detached.unread);
        PipelineChannel { channel, link: detached.link, unread, sealer, opener, known, farewell }
    }
}

/// One session.
pub(crate) struct SessionEntry {
    pub peer: String,
    /// What its pipelines share.
    pub context: Arc<SessionContext>,
    pub opened: Instant,
    pub quiet_since: Instant,
    /// Its client is closing it, and must take the close reason by then.
    pub leaving_until: Option<Instant>,
    pub channels: u16,
    /// Socket window that was granted, 0 for none.
    pub window: u32,
    /// Operations completed when the session was last checked.
    pub seen: u64,
    pub pipes: Vec<PipelineState>,
    /// Held by every thread of the session.
    pub threads: Arc<ThreadOfSession>,
    /// Since when an idle channel of it has been sending, if one is.
    pub telling_since: Option<Instant>,
    secret: JoinSecret,
}

/// A mark that each thread of a session holds while it runs.
#[derive(Debug)]
pub(crate) struct ThreadOfSession;

/// A session that is over, with threads that are not yet: they wait for storage, which may take as
/// long as it likes. Until then it counts against its user's limits.
pub(crate) struct EndingSession {
    /// Not the session's own: what lives as long as that is over.
    pub principal: Principal,
    pub channels: u16,
    pub pipelines: usize,
    threads: Weak<ThreadOfSession>,
}

impl EndingSession {
    /// What is left of a session; none if no thread is.
    pub fn of(entry: SessionEntry) -> Option<Self> {
        let SessionEntry { context, channels, pipes, threads, .. } = entry;
        let principal = Principal::clone(&context.principal);
        let ending = Self { principal, channels, pipelines: pipes.len(), threads: Arc::downgrade(&threads) };
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

    pub fn has_threads(&self) -> bool {
        self.threads.strong_count() > 0
    }
}

impl SessionEntry {
    /// A new session.
    pub fn new(
        peer: String,
        context: SessionContext,
        now: Instant,
        secret: JoinSecret,
        channels: u16,
        pipes: Vec<PipelineState>,
    ) -> Self {
        Self {
            peer,
            context: Arc::new(context),
            opened: now,
            quiet_since: now,
            leaving_until: None,
            channels,
            window: 0,
            seen: 0,
            pipes,
            threads: Arc::new(ThreadOfSession),
            telling_since: None,
            secret,
        }
    }

    /// The pipeline of a channel.
    pub fn pipeline_of(&self, channel: ChannelId) -> usize {
        usize::from(channel.0.saturating_sub(1)) % self.pipes.len().max(1)
    }

    /// Keys of a channel from this grant.
    pub fn keys(&self, session: SessionId, channel: ChannelId, grant: &ChannelGrant) -> Result<RoleKeys, Error> {
        let grant = Grant::new(&grant.secret);
        Ok(ChannelKeys::derive(&self.secret, &grant, session, channel)?.for_role(Role::Server))
    }
}

/// Sealer and opener of a channel.
pub(crate) fn record_keys(keys: RoleKeys, limits: Limits) -> Result<(Sealer, Opener), Error> {
    Ok((Sealer::new(keys.seal, limits)?, Opener::new(keys.open, limits)?))
}
