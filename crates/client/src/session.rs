//! A session: connected, opened, and served by one thread per pipeline.

use crate::calls::Queue;
use crate::connect;
use crate::ends::{Payload, RESUME_BYTES_MIN, Target};
use crate::host::{ClientHost, Pending, Registry};
use crate::joining::Joiner;
use crate::options::{ConnectOptions, GetOptions, PutOptions, Verify};
use crate::transfer::{PumpPost, RemoteFile, Transfer};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use xdfs_engine::blocking::{Blocking, Share};
use xdfs_engine::bounds;
use xdfs_engine::group::{Group, GroupChannel};
use xdfs_engine::host::Ending;
use xdfs_engine::mail::{Command, Mail, Post};
use xdfs_engine::opening::ClientOpened;
use xdfs_engine::pump::{DiskMode, Parts, Pump};
use xdfs_proto::base::{ChannelId, Digest, Error, ErrorKind, Level, PipelineId, Suite};
use xdfs_proto::limits;
use xdfs_proto::session::{Bugs, Role, Session as Machine, SessionLimits};
use xdfs_proto::wire::Event;
use xdfs_proto::wire::handshake::Accept;
use xdfs_proto::wire::request::{Request, Resume};
use xdfs_secure::keys::{self, ChannelKeys, Grant};
use xdfs_secure::policy::{Fingerprint, Method, PublicKey};
use xdfs_secure::record::{Limits as KeyLimits, Opener, Sealer};
use xdfs_secure::{naming, random};
use xdfs_xio::dispatch::{Dispatch, Dispatcher};
use xdfs_xio::store::noted;
use xdfs_xio::transport::{self, Link, TransportOptions};

/// Bytes that a server may send before the first CREDIT: a small file arrives without waiting for it.
const INITIAL_CREDIT: u64 = 4 << 20;

/// Ticket of a session's first transfer.
const FIRST_TICKET: u64 = 1;

/// What a session was granted.
#[derive(Clone, Debug)]
pub struct SessionFacts {
    /// Channels granted.
    pub channels: u16,
    /// Channels asked for.
    pub asked: u16,
    /// Pipelines granted.
    pub pipelines: u8,
    /// Block size.
    pub block: u32,
    /// Socket window, 0 where the kernel tunes it.
    pub window: u64,
    /// Stall deadline.
    pub stall: Duration,
    /// Congestion control of channel 1, where the transport has one.
    pub congestion: Option<String>,
    /// The server's key.
    pub host_key: Fingerprint,
    /// How the client logged in.
    pub method: Method,
    /// The key or token that it logged in with.
    pub key: Option<PublicKey>,
    /// Lowest protection that blocks of this session get.
    pub level: Level,
    /// What seals records.
    pub suite: Suite,
}

/// See the module.
pub struct Session {
    facts: SessionFacts,
    level: Level,
    registry: Arc<Registry>,
    joiner: Arc<Joiner>,
    threads: Vec<JoinHandle<()>>,
    tickets: AtomicU64,
    started: Mutex<Option<Instant>>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({:?})", self.facts)
    }
}

impl Session {
    /// Connects channel 1, opens the session, and starts the others on their way.
    pub fn connect(options: &ConnectOptions) -> Result<Self, Error> {
        Self::connect_with(options, None)
    }

    /// The same, with a download that is asked for while the session is opened: its first bytes come a round trip earlier.
    pub fn connect_and_get(
        options: &ConnectOptions,
        remote: impl AsRef<[u8]>,
        target: Target,
        get: &GetOptions,
    ) -> Result<(Self, Transfer), Error> {
        // Never more than an ordered target can hold, whatever block size will be granted.
        let credit = INITIAL_CREDIT.min(bounds::ORDERED_WINDOW_BLOCKS * u64::from(limits::BLOCK_BYTES_MIN));
        let fresh = Request { transfer: random::array()?, level: options.level, credit, ..Request::default() };
        let mut target = target;
        let (request, resume) = download(fresh, remote.as_ref(), &mut target, get);
        let (outcome, receiver) = sync_channel(1);
        let (moved, resumed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let replaces = Arc::new(OnceLock::new());
        let pending = Pending {
            target: Some(target),
            transfer: request.transfer,
            resume,
            resumed: Arc::clone(&resumed),
            replaces: Arc::clone(&replaces),
            outcome,
            moved: Arc::clone(&moved),
            started: Instant::now(),
            level: request.level,
            hash: request.hash,
            remote: None,
        };
        let length = request.length;
        let session = Self::connect_with(options, Some((request, pending)))?;
        let post = session.joiner.posts[0].clone();
        Ok((session, Transfer { ticket: FIRST_TICKET, post, moved, resumed, replaces, outcome: receiver, length }))
    }

    fn connect_with(options: &ConnectOptions, first: Option<(Request, Pending)>) -> Result<Self, Error> {
        let started = Instant::now();
        let transport = transport_options(options);
        let carried = first.as_ref().map(|(request, _)| (Event::Download, request.encode()));
        let (link, unread, opened) = connect::open(options, &transport, carried)?;
        let ClientOpened { accept, join_secret, shown, method, key, farewell } = *opened;
        let facts = SessionFacts {
            channels: accept.channels,
            asked: options.channels,
            pipelines: accept.pipelines,
            block: accept.block,
            window: accept.window,
            stall: Duration::from_millis(accept.stall_ms.into()),
            congestion: link.congestion_name(),
            host_key: shown.fingerprint,
            method,
            key,
            level: options.level.max(accept.floor),
            suite: accept.suite,
        };
        let keys = ChannelKeys::derive(&join_secret, &Grant::new(&accept.grant.secret), accept.session, ChannelId(1))?;
        let keys = keys.for_role(keys::Role::Client);
        let channel = GroupChannel {
            channel: ChannelId(1),
            link,
            unread,
            sealer: Sealer::new(keys.seal, options.key_limits)?,
            opener: Opener::new(keys.open, options.key_limits)?,
            known: false,
            farewell: Some(farewell),
        };
        let (dispatchers, posts, mailboxes) = pipelines(accept.pipelines)?;
        // Channel 1 was connected with what was wished; the others with what was granted.
        let granted = u32::try_from(accept.window).ok().filter(|window| *window > 0);
        let joiner = Arc::new(Joiner {
            address: options.address.clone(),
            transport: TransportOptions { window: granted.or(transport.window), ..transport },
            session: accept.session,
            secret: join_secret,
            key_limits: options.key_limits,
            deadline: options.deadline,
            posts: posts.clone(),
            calls: Queue::new(accept.pipelines),
            joined: AtomicUsize::new(1),
            stopped: AtomicBool::new(false),
            failure: Mutex::new(None),
        });
        let registry = Arc::new(Registry::default());
        let limits = session_limits(&accept, facts.stall, options.key_limits);
        let mut session = Self {
            facts,
            level: options.level,
            registry,
            joiner,
            threads: Vec::new(),
            tickets: AtomicU64::new(FIRST_TICKET),
            started: Mutex::new(Some(started)),
        };
        let first = first.map(|first| session.adopt_first(first, started));
        session.serve(dispatchers, &posts, mailboxes, (channel, first), &limits, options.disk)?;
        if accept.channels > 1 {
            Joiner::start(&session.joiner, accept.grant);
        }
        Ok(session)
    }

    /// The download that was asked for in OPEN is the session's first transfer.
    fn adopt_first(&self, (request, pending): (Request, Pending), started: Instant) -> (Request, Arc<AtomicU64>) {
        self.tickets.fetch_add(1, Ordering::Relaxed);
        *self.started.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let moved = Arc::clone(&pending.moved);
        self.registry.pending().insert(FIRST_TICKET, Pending { started, ..pending });
        (request, moved)
    }

    fn serve(
        &mut self,
        dispatchers: Vec<Dispatcher>,
        posts: &[PumpPost],
        mailboxes: Vec<std::sync::mpsc::Receiver<Mail<Link>>>,
        (first, mut download): (GroupChannel<Link>, Option<(Request, Arc<AtomicU64>)>),
        limits: &SessionLimits,
        disk: DiskMode,
    ) -> Result<(), Error> {
        let blocking = Blocking::default();
        let mut first = Some(first);
        for (index, (dispatch, mailbox)) in dispatchers.into_iter().zip(mailboxes).enumerate() {
            let pipeline = PipelineId(index as u8);
            let mut session = Machine::new(Role::Client, pipeline, limits.clone(), Bugs::default());
            let mut host = ClientHost {
                registry: Arc::clone(&self.registry),
                joiner: Arc::clone(&self.joiner),
                operations: BTreeMap::new(),
                calls: BTreeMap::new(),
                replacements: limits.channels.min(64),
            };
            if let Some((request, moved)) = download.take() {
                let operation = session.open(false, request)?;
                session.opened_in_handshake(operation);
                host.operations.insert(operation, (FIRST_TICKET, moved));
                let _ = posts[index].send(Mail::Command(Command::Opened { ticket: FIRST_TICKET, operation }));
            }
            let mut peers: Vec<_> = posts.iter().cloned().map(Some).collect();
            peers[index] = None;
            let parts = Parts {
                dispatch,
                host,
                mailbox,
                post: posts[index].clone(),
                peers,
                pipeline,
                blocking: blocking.clone(),
                share: Share(0),
                disk,
                retire: false,
            };
            let group = Group { session, channels: first.take().into_iter().collect() };
            let name = format!("xdfs-pipeline-{index}");
            let (registry, others) = (Arc::clone(&self.registry), Arc::clone(&self.joiner));
            let run = move || {
                // A mistake of ours ends the session, and nobody waits for it.
                let run = AssertUnwindSafe(|| Pump::new(parts, group).map(Pump::run).map(|(ending, ..)| ending));
                let error = match catch_unwind(run) {
                    Ok(Ok(Ending::Over(error))) => error,
                    Ok(Ok(Ending::Idle(_))) => None,
                    Ok(Err(error)) => Some(Error::new(ErrorKind::Resources, format!("cannot watch sockets: {error}"))),
                    Err(_) => Some(Error::new(ErrorKind::Resources, "a pipeline of the session has failed")),
                };
                registry.pipeline_ended(&others.calls, pipeline, error.as_ref());
                if let Some(error) = error {
                    others.tell_others(pipeline, &error);
                }
            };
            let thread = thread::Builder::new().name(name).spawn(run);
            self.threads.push(thread.map_err(|error| {
                Error::new(ErrorKind::Resources, format!("cannot start a pipeline's thread: {error}"))
            })?);
        }
        Ok(())
    }

    /// What was granted.
    pub fn facts(&self) -> &SessionFacts {
        &self.facts
    }

    /// Channels that have joined so far.
    pub fn joined(&self) -> usize {
        self.joiner.joined.load(Ordering::Relaxed)
    }

    /// Why the last channel that could not join could not.
    pub fn join_failure(&self) -> Option<Error> {
        self.joiner.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Uploads `payload` to `remote` (`EXPORT/path`, nothing encoded).
    pub fn put(&self, payload: Payload, remote: impl AsRef<[u8]>, options: &PutOptions) -> Result<Transfer, Error> {
        let attributes = payload.source.attributes();
        let length = if payload.source.is_sequential() { None } else { payload.length };
        let again = options.base.is_some();
        // What is tried again may be there already, however short it is.
        let long = length.filter(|length| options.resume && (again || *length >= RESUME_BYTES_MIN));
        let source = &payload.source;
        let identity = source.identity().zip(source.likeness()).zip(long);
        let identity = identity.map(|((version, like), length)| (version.to_vec(), like.to_vec(), length));
        let mut request = Request {
            name: remote.as_ref().to_vec(),
            label: options.label.clone(),
            keep_existing: options.keep_existing,
            durable: options.durable,
            hash: options.verify >= Verify::Hash,
            reread: options.verify >= Verify::Reread,
            // What a pipe gives is known when it has given it; its reader holds it to the length.
            length,
            mode: options.mode.unwrap_or(attributes.mode & 0o777),
            modified: payload.source.modified(),
            base: options.base.clone().filter(|_| payload.source.modified().is_some()),
            ..self.request()?
        };
        if let Some((source, like, length)) = identity {
            let range = [payload.offset.to_be_bytes(), length.to_be_bytes()].concat();
            // Not of the version: another client's copy of the file may go on with what this one leaves.
            request.transfer = naming::transfer_id(&[b"up", remote.as_ref(), &like, &range]);
            request.resume = Some(Resume { source, kept: Vec::new() });
        }
        self.start(request, Some(payload), None, options.resume)
    }

    /// Downloads `remote` (`EXPORT/path`, nothing encoded) to `target`.
    pub fn get(&self, remote: impl AsRef<[u8]>, mut target: Target, options: &GetOptions) -> Result<Transfer, Error> {
        // Never more than an ordered target can hold.
        let credit = INITIAL_CREDIT.min(bounds::ORDERED_WINDOW_BLOCKS * u64::from(self.facts.block));
        let (request, resume) = download(Request { credit, ..self.request()? }, remote.as_ref(), &mut target, options);
        self.start(request, None, Some(target), resume)
    }

    /// What `remote` is.
    pub fn stat(&self, remote: impl AsRef<[u8]>) -> Result<RemoteFile, Error> {
        let request = Request { name: remote.as_ref().to_vec(), head_only: true, ..self.request()? };
        let report = self.start(request, None, None, false)?.wait()?;
        report.remote.ok_or_else(|| Error::new(ErrorKind::Protocol, "the server told no attributes"))
    }

    /// The hash of `remote`, or of a range of it, as its server reads it.
    pub fn sum(&self, remote: impl AsRef<[u8]>, offset: u64, length: Option<u64>) -> Result<Digest, Error> {
        let request = Request { name: remote.as_ref().to_vec(), sum: true, offset, length, ..self.request()? };
        let report = self.start(request, None, None, false)?.wait()?;
        report.hash.ok_or_else(|| Error::new(ErrorKind::Protocol, "the server told no hash"))
    }

    fn request(&self) -> Result<Request, Error> {
        Ok(Request { transfer: random::array()?, level: self.level, ..Request::default() })
    }

    fn start(
        &self,
        request: Request,
        payload: Option<Payload>,
        target: Option<Target>,
        resume: bool,
    ) -> Result<Transfer, Error> {
        let first =
            self.started.lock().unwrap_or_else(PoisonError::into_inner).take().filter(|_| !request.moves_nothing());
        let (outcome, receiver) = sync_channel(1);
        let (moved, resumed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let replaces = Arc::new(OnceLock::new());
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let length = request.length;
        let pending = Pending {
            target,
            transfer: request.transfer,
            resume,
            resumed: Arc::clone(&resumed),
            replaces: Arc::clone(&replaces),
            outcome,
            moved: Arc::clone(&moved),
            started: first.unwrap_or_else(Instant::now),
            level: request.level,
            hash: request.hash,
            remote: None,
        };
        self.registry.pending().insert(ticket, pending);
        let post = self.joiner.posts[0].clone();
        let command = Command::Open { ticket, request, source: payload.map(Payload::into_side) };
        if post.send(Mail::Command(command)).is_err() {
            self.registry.pending().remove(&ticket);
            return Err(self.why_ended());
        }
        Ok(Transfer { ticket, post, moved, resumed, replaces, outcome: receiver, length })
    }

    pub(crate) fn next_ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.joiner.calls
    }

    pub(crate) fn post(&self, pipeline: usize) -> PumpPost {
        self.joiner.posts[pipeline].clone()
    }

    pub(crate) fn why_ended(&self) -> Error {
        let ended = self.registry.ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ended.flatten().unwrap_or_else(|| Error::new(ErrorKind::ConnectionLost, "the session has ended"))
    }

    /// Ends the session in order: transfers under way are finished first.
    ///
    /// An error is one that ended the session before, or that cost an outcome. Once every outcome is known nothing is owed
    /// but the server's last word (EOFT): a server that vanishes in its place takes nothing with it, and that is no error
    /// (P-46).
    pub fn close(mut self) -> Result<(), Error> {
        self.joiner.stopped.store(true, Ordering::Relaxed);
        // The first pipeline coordinates every transfer, and the others are needed until it has ended.
        for (post, thread) in self.joiner.posts.iter().zip(std::mem::take(&mut self.threads)) {
            let _ = post.send(Mail::Command(Command::Close));
            let _ = thread.join();
        }
        let ended = self.registry.ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match ended.flatten() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl Drop for Session {
    /// A session that was not closed is abandoned: what runs fails at both ends.
    fn drop(&mut self) {
        self.joiner.stopped.store(true, Ordering::Relaxed);
        for post in &self.joiner.posts {
            let error = Error::new(ErrorKind::Cancelled, "the session was dropped");
            let _ = post.try_send(Mail::Command(Command::Abandon(error)));
        }
    }
}

/// What the machine is held to, as it was granted.
fn session_limits(accept: &Accept, stall: Duration, keys: KeyLimits) -> SessionLimits {
    SessionLimits {
        floor: accept.floor,
        block: accept.block,
        window: 0,
        stall,
        operations_max: limits::OPERATIONS_MAX,
        pipelines: accept.pipelines,
        channels: accept.channels,
        keys,
        ..SessionLimits::default()
    }
}

/// The request for a download, and whether it goes on where an earlier attempt ended.
fn download(fresh: Request, remote: &[u8], target: &mut Target, options: &GetOptions) -> (Request, bool) {
    let resume = options.resume && target.is_resumable();
    let mut request = Request {
        name: remote.to_vec(),
        label: options.label.clone(),
        offset: options.offset,
        length: options.length,
        durable: options.durable,
        hash: options.verify >= Verify::Hash,
        reread: options.verify >= Verify::Reread,
        ..fresh
    };
    if resume {
        let range = format!("{} {:?}", options.offset, options.length);
        request.transfer = naming::transfer_id(&[b"down", remote, range.as_bytes()]);
        if let Some(mut kept) = target.look(&request.transfer) {
            // Without a hash nothing is compared.
            kept.noted.retain(|one| one.proved || request.hash);
            request.doubt = request.hash && kept.noted.iter().any(|one| !one.proved || one.value.is_none());
            let kept = Resume { source: kept.source, kept: noted::ranges(&kept.noted) };
            request.resume = Some(kept).filter(|resume| !resume.kept.is_empty());
        }
    }
    (request, resume)
}

type Pipelines = (Vec<Dispatcher>, Vec<PumpPost>, Vec<std::sync::mpsc::Receiver<Mail<Link>>>);

fn pipelines(count: u8) -> Result<Pipelines, Error> {
    let (mut dispatchers, mut posts, mut mailboxes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..count {
        let dispatch = Dispatcher::new()
            .map_err(|error| Error::new(ErrorKind::Resources, format!("cannot watch sockets: {error}")))?;
        let (post, mailbox) = Post::new(bounds::MAILBOX, dispatch.waker());
        dispatchers.push(dispatch);
        posts.push(post);
        mailboxes.push(mailbox);
    }
    Ok((dispatchers, posts, mailboxes))
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
