//! A session: connected, opened, and served by one thread per pipeline.

use crate::callback::Callback;
use crate::connect::{self, Connected};
use crate::download_request::download;
use crate::endpoints::{LocalEnd, Target};
use crate::host::{Pending, PendingTarget, Registry};
use crate::joining::{Access, Joiner};
use crate::options::{ConnectOptions, GetOptions};
use crate::pipelines::{FirstDownload, Opened, Pipelines};
use crate::transfer::{Report, Transfer};
use crate::watches::Watches;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use xdfs_engine::bounds;
use xdfs_engine::mailbox::{Command, Message};
use xdfs_engine::opening::ClientOpened;
use xdfs_engine::pace::Pacer;
use xdfs_engine::pipeline::PipelineChannel;
use xdfs_engine::record::RecordLayer;
use xdfs_io::transport::{self, TransportOptions};
use xdfs_proto::base::{ChannelId, Error, Level, Suite, TransferId};
use xdfs_proto::limits;
use xdfs_proto::negotiate;
use xdfs_proto::session::SessionLimits;
use xdfs_proto::wire::Event;
use xdfs_proto::wire::handshake::Accept;
use xdfs_proto::wire::request::Request;
use xdfs_secure::keys::{self, ChannelKeys, GrantSecret};
use xdfs_secure::policy::{Fingerprint, Method, PublicKey};
use xdfs_secure::random;
use xdfs_secure::record::Limits as KeyLimits;

/// Bytes that a server may send before the first CREDIT: a small file arrives without waiting for
/// it.
pub(crate) const INITIAL_CREDIT: u64 = 4 << 20;

/// Ticket of a session's first transfer.
const FIRST_TICKET: u64 = 1;

/// The parameters that a session was granted.
#[derive(Clone, Debug)]
pub struct SessionFacts {
    /// Channels granted.
    pub channels: u16,
    /// Channels requested.
    pub asked: u16,
    /// Pipelines granted.
    pub pipelines: u8,
    /// Block size.
    pub block: u32,
    /// Socket window, 0 if the kernel tunes it.
    pub window: u64,
    /// Stall deadline.
    pub stall: Duration,
    /// Congestion control of channel 1, if the transport has one.
    pub congestion: Option<String>,
    /// The server's key.
    pub host_key: Fingerprint,
    /// How the client logged in.
    pub method: Method,
    /// The key or token that it logged in with.
    pub key: Option<PublicKey>,
    /// Lowest protection that blocks of this session get.
    pub level: Level,
    /// The cipher suite that seals records.
    pub suite: Suite,
}

/// An open session, served by one thread per pipeline.
pub struct Session {
    facts: SessionFacts,
    pub(crate) level: Level,
    registry: Arc<Registry>,
    pipelines: Pipelines,
    tickets: AtomicU64,
    started: Mutex<Option<Instant>>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({:?})", self.facts)
    }
}

impl Session {
    /// Connects channel 1, opens the session, and starts connecting the other channels. A session
    /// of one channel is served, and receives messages of its server, from its first operation on.
    pub fn connect(options: &ConnectOptions) -> Result<Self, Error> {
        Self::connect_with(options, None)
    }

    /// The same, with a download that is requested while the session is opened: its first bytes
    /// arrive a round trip earlier.
    pub fn connect_and_get(
        options: &ConnectOptions,
        remote: impl AsRef<[u8]>,
        target: Target,
        get: &GetOptions,
    ) -> Result<(Self, Transfer), Error> {
        // Never more than an ordered target can hold, whatever block size is granted.
        let credit = INITIAL_CREDIT.min(bounds::ordered_window(limits::BLOCK_BYTES_MIN));
        let fresh =
            Request { transfer: TransferId(random::array()?), level: options.level, credit, ..Request::default() };
        let (request, target) = download(fresh, remote.as_ref(), target, get);
        let (outcome, receiver) = Callback::waiting();
        let pending = Pending::new(&request, PendingTarget::Awaited(target), outcome);
        let (moved, resumed, replaces) = pending.counters();
        let length = request.length;
        let session = Self::connect_with(options, Some((request, pending)))?;
        let post = session.served()?.posts[0].clone();
        Ok((session, Transfer { ticket: FIRST_TICKET, post, moved, resumed, replaces, outcome: receiver, length }))
    }

    fn connect_with(options: &ConnectOptions, first: Option<(Request, Pending)>) -> Result<Self, Error> {
        let started = Instant::now();
        let transport = transport_options(options);
        let carried = first.as_ref().map(|(request, _)| (Event::Download, request.encode()));
        let Connected { dispatch, link, unread, opened } = connect::open(options, &transport, carried)?;
        let ClientOpened { accept, join_secret, shown, method, key, farewell } = *opened;
        let facts = SessionFacts {
            channels: accept.channels,
            asked: options.channels,
            pipelines: accept.pipelines,
            block: accept.block,
            window: accept.window,
            stall: Duration::from_millis(accept.stall_ms.into()).min(stall_max(options)),
            congestion: link.congestion_name(),
            host_key: shown.fingerprint,
            method,
            key,
            level: options.level.max(accept.floor),
            suite: accept.suite,
        };
        let keys =
            ChannelKeys::derive(&join_secret, &GrantSecret::new(&accept.grant.secret), accept.session, ChannelId(1))?;
        let keys = keys.for_role(keys::Role::Client);
        let channel = PipelineChannel {
            channel: ChannelId(1),
            link,
            unread,
            records: RecordLayer::new(keys.seal, keys.open, options.key_limits)?,
            known: false,
            farewell: Some(farewell),
        };
        // Channel 1 was connected with the requested window; the others use the granted one.
        let granted = u32::try_from(accept.window).ok().filter(|window| *window > 0);
        let access = Access {
            address: options.address.clone(),
            transport: TransportOptions { window: granted.or(transport.window), ..transport },
            stack: options.stack.clone(),
            session: accept.session,
            secret: join_secret,
            key_limits: options.key_limits,
            deadline: options.deadline,
        };
        let several = accept.channels > 1 || accept.pipelines > 1;
        let pacer = Pacer::new(options.limit.iter().cloned().collect());
        let registry = Arc::new(Registry::paced(pacer));
        let limits = session_limits(&accept, facts.stall, options.key_limits);
        let opened = Opened { dispatch, channel, limits, disk: options.disk, grant: accept.grant, access };
        let session = Self {
            facts,
            level: options.level,
            pipelines: Pipelines::new(Arc::clone(&registry), opened),
            registry,
            tickets: AtomicU64::new(FIRST_TICKET),
            started: Mutex::new(Some(started)),
        };
        let first = first.map(|first| session.adopt_first(first, started));
        if several || first.is_some() {
            session.pipelines.start(first)?;
        }
        Ok(session)
    }

    /// The download that was requested in OPEN is the session's first transfer.
    fn adopt_first(&self, (request, mut pending): (Request, Pending), started: Instant) -> FirstDownload {
        self.tickets.fetch_add(1, Ordering::Relaxed);
        *self.started.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let moved = Arc::clone(&pending.moved);
        pending.started = started;
        self.registry.pending().insert(FIRST_TICKET, pending);
        (FIRST_TICKET, request, moved)
    }

    /// The granted parameters.
    pub fn facts(&self) -> &SessionFacts {
        &self.facts
    }

    /// Channels that have joined so far.
    pub fn joined(&self) -> usize {
        self.pipelines.joiner().map_or(1, |joiner| joiner.joined.load(Ordering::Relaxed))
    }

    /// Why the last channel that failed to join did.
    pub fn join_failure(&self) -> Option<Error> {
        self.pipelines.joiner()?.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a request and registers the callback for its outcome.
    pub(crate) fn start(&self, request: Request, end: LocalEnd, outcome: Callback<Report>) -> Result<Transfer, Error> {
        let first = self.started.lock().unwrap_or_else(PoisonError::into_inner).take().filter(|_| !request.sum);
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let length = request.length;
        let started = first.unwrap_or_else(Instant::now);
        let (source, target) = match end {
            LocalEnd::Source(payload) => (Some(payload.into_side()), PendingTarget::None),
            LocalEnd::Target(target) => (None, PendingTarget::Awaited(target)),
            LocalEnd::Nothing => (None, PendingTarget::None),
        };
        let mut pending = Pending::new(&request, target, outcome);
        pending.started = started;
        let (moved, resumed, replaces) = pending.counters();
        let post = self.served()?.posts[0].clone();
        self.registry.pending().insert(ticket, pending);
        let command = Command::Open { ticket, request, source };
        if post.send(Message::Command(command)).is_err() {
            self.registry.pending().remove(&ticket);
            return Err(self.why_ended());
        }
        // The waiting caller replaces it with the right one.
        let outcome = Callback::waiting().1;
        Ok(Transfer { ticket, post, moved, resumed, replaces, outcome, length })
    }

    /// Whom to tell that leases of its open files are recalled: the first one who asks for it. He must not
    /// wait for anything.
    pub(crate) fn tell_recalled(&self, tell: impl Fn(&[u64]) + Send + Sync + 'static) {
        let _ = self.registry.recalled.set(Box::new(tell));
    }

    /// Its watches of names.
    pub(crate) fn watches(&self) -> &Watches {
        &self.registry.watches
    }

    pub(crate) fn next_ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }

    /// The threads that serve the session; starts them if necessary.
    pub(crate) fn served(&self) -> Result<Arc<Joiner>, Error> {
        self.pipelines.served()
    }

    pub(crate) fn why_ended(&self) -> Error {
        self.registry.why_ended()
    }

    /// Closes the session in order: transfers in progress are finished first.
    ///
    /// An error is one that ended the session before, or that lost an outcome. Once every outcome
    /// is known only the server's end-of-file message (EOFT) is outstanding: a server that vanishes
    /// instead of sending it loses nothing, and that is no error (P-46).
    pub fn close(self) -> Result<(), Error> {
        self.pipelines.close();
        self.registry.failure().map_or(Ok(()), Err)
    }
}

/// The longest stall deadline that a server may grant: whoever asked for less waits no longer than that, and for
/// at least as long as may be asked for. Less than a millisecond is not asked for.
fn stall_max(options: &ConnectOptions) -> Duration {
    let asked = options.stall.filter(|asked| asked.as_millis() > 0);
    asked.map_or(limits::STALL_MAX, |asked| asked.max(limits::STALL_MIN))
}

/// The limits of the state machine, as granted.
fn session_limits(accept: &Accept, stall: Duration, keys: KeyLimits) -> SessionLimits {
    SessionLimits {
        floor: accept.floor,
        block: accept.block,
        flow_window: 0,
        stall,
        operations_max: limits::OPERATIONS_MAX,
        pipelines: accept.pipelines,
        channels: accept.channels,
        calls_room: negotiate::calls_room(accept.features),
        keys,
        ..SessionLimits::default()
    }
}

fn transport_options(options: &ConnectOptions) -> TransportOptions {
    let one_host = transport::is_one_host(&options.address);
    TransportOptions {
        window: options.window.or(transport::default_window(one_host, options.channels)),
        send_buffer: None,
        congestion: options.congestion.clone(),
        nodelay: true,
    }
}
