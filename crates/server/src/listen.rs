//! The listener: one thread that accepts, advances every handshake when its bytes arrive, watches
//! idle sessions, and starts and takes back pipeline threads. It never waits for a peer (SRV-49).

mod ended;
mod figures;
mod handle;
mod hidden;
mod idle;
mod join;
mod logins;
mod notices;
mod opening;
mod phase;
mod quotas;
mod refusals;
mod revoking;

use crate::admit::ServerLimits;
use crate::audit::Pace;
use crate::authorise::{Authority, CurrentAuthority, Export};
use crate::files::OpenFiles;
use crate::log::{Log, LogEvent};
use crate::mailbox::{ListenerSender, ServerMessage};
use crate::metrics::Totals;
use crate::pending_login::{LoginPhase, LoginProgress};
use crate::rates::UserRates;
use crate::recovery;
use crate::reply_cache::{LIFE, ReplyCaches};
use crate::session_context::Services;
use crate::sessions::SessionTable;
use crate::transfer_slots::TransferSlots;
use crate::watches::Watches;
pub use handle::ServerHandle;
use logins::Logins;
use phase::Phase;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use xdfs_engine::blocking::Blocking;
use xdfs_engine::opening::{OpeningContext, ServerOpened};
use xdfs_engine::pump::{DiskMode, PEER_CLOSED};
use xdfs_io::dispatch::{Completion, Dispatch, Dispatcher, Op, SocketId, Wake};
use xdfs_io::transport::{self, Address, Link, TransportOptions};
use xdfs_proto::base::{Error, ErrorKind, Instant, KeyLimits};
use xdfs_proto::negotiate::Policy;
use xdfs_secure::handshake::tls::{HostIdentity, ServerIdentity};
use xdfs_secure::policy::{Directory, Fingerprint};

/// The configuration of a server.
pub struct Config {
    /// The address to listen on; port 0 takes a free one.
    pub listen: Address,
    /// A socket that is already listening, passed on by another process.
    pub inherited: Option<std::os::fd::OwnedFd>,
    /// Socket options of the listener and of every channel.
    pub transport: TransportOptions,
    /// What is put above the socket of each channel; the clients' must be the same.
    pub stack: Option<Arc<dyn xdfs_io::stack::Over>>,
    /// The exports.
    pub exports: Vec<Export>,
    /// The server's identity.
    pub identity: Arc<HostIdentity>,
    /// The accounts that may log in.
    pub directory: Arc<dyn Directory>,
    /// The policy for sessions.
    pub policy: Policy,
    /// Bounds of the server.
    pub limits: ServerLimits,
    /// How much one key of a channel may protect; the clients' limits must be the same.
    pub key_limits: KeyLimits,
    /// How files are written.
    pub disk: DiskMode,
    /// The receiver of log events.
    pub log: Log,
}

/// A listening server; [`Server::run`] serves.
pub struct Server {
    /// Waits for its sockets.
    dispatch: Dispatcher,
    /// What it was told to do.
    config: Config,
    /// The address that it listens on.
    address: Address,
    /// Whether it takes new connections, and when it ends.
    phase: Phase,
    /// Connections that have not authenticated.
    logins: Logins,
    /// The sessions.
    sessions: SessionTable,
    /// What all sessions share.
    services: Arc<Services>,
    /// The watches of names, which end with the server.
    watches: Watches,
    /// The threads for storage calls.
    blocking: Blocking,
    /// Messages of pipelines and handles.
    mailbox: Receiver<ServerMessage>,
    /// What happened since the start, for the metrics.
    totals: Totals,
    /// When what is checked from time to time is checked next.
    next_sweep: Instant,
}

/// Files that are open at a time behind the handles of all sessions: a part of the process's limit,
/// since channels and transfers need theirs.
fn files_max() -> usize {
    usize::try_from(xdfs_io::store::descriptors::limit() / 8).unwrap_or(usize::MAX).clamp(16, 1024)
}

/// Messages that are read in a row before connections are served again.
const MESSAGES_AT_ONCE: usize = 256;

impl Server {
    /// Starts listening.
    pub fn bind(mut config: Config) -> Result<Self, Error> {
        let resources =
            |what: &str, error: std::io::Error| Error::new(ErrorKind::Resources, format!("{what}: {error}"));
        let mut dispatch = Dispatcher::new().map_err(|error| resources("cannot watch sockets", error))?;
        let cannot = |error: &dyn std::fmt::Display| {
            Error::new(ErrorKind::Resources, format!("cannot listen on {}: {error}", config.listen))
        };
        let inherited = config.inherited.is_some();
        let link = match config.inherited.take() {
            Some(socket) => transport::adopt(socket).map_err(|error| cannot(&error))?,
            None => transport::listen(&config.listen, &config.transport).map_err(|error| cannot(&error))?,
        };
        let address = link.local().map_err(|error| cannot(&error))?;
        let socket = dispatch.attach(link, &[]).map_err(|error| cannot(&error))?;
        let (listener, mailbox) = ListenerSender::new(dispatch.waker());
        let leases = ended::leases(&config.limits, inherited, listener.clone());
        let authority = CurrentAuthority::new(Authority::new(config.exports.clone(), config.policy.floor));
        let watches = notices::watches(&authority, listener.clone());
        let identity = Arc::new(ServerIdentity::new(&config.identity)?);
        let opening = OpeningContext { identity, directory: Arc::clone(&config.directory) };
        let services = Services {
            authority,
            log: Arc::clone(&config.log),
            audit_pace: Pace::default(),
            files: Arc::new(OpenFiles::new(files_max())?.with_leases(leases)),
            transfers: Arc::new(TransferSlots::new(config.limits.transfers)),
            rates: UserRates::new(config.limits.bandwidth_per_user),
            // Sessions of the process before may have executed what its clients repeat here.
            reply_caches: ReplyCaches::new(std::time::Instant::now() + if inherited { LIFE } else { Duration::ZERO }),
            listener,
        };
        Ok(Self {
            dispatch,
            address,
            phase: Phase::Accepting { listener: socket },
            logins: Logins::new(opening, &config.limits),
            config,
            sessions: SessionTable::new(),
            services: Arc::new(services),
            watches,
            blocking: Blocking::default(),
            mailbox,
            totals: Totals::starting(),
            next_sweep: Instant(0),
        })
    }

    /// Serves a connection that was made elsewhere, as if it had been accepted here.
    pub fn adopt(&mut self, socket: std::os::fd::OwnedFd) -> Result<(), Error> {
        let link = transport::adopt_connection(socket)
            .map_err(|error| Error::new(ErrorKind::Resources, format!("cannot serve a connection: {error}")))?;
        self.on_accepted(link);
        Ok(())
    }

    /// A duplicate descriptor of the listening socket, for a process that is to take it over.
    pub fn listening_socket(&self) -> std::io::Result<std::os::fd::OwnedFd> {
        use std::os::fd::AsFd;
        let socket = self.phase.listener().ok_or(std::io::ErrorKind::NotConnected)?;
        self.dispatch.link(socket).as_fd().try_clone_to_owned()
    }

    /// The address that it listens on, with the real port.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The key that clients pin.
    pub fn host_key(&self) -> Fingerprint {
        self.logins.opening.identity.fingerprint()
    }

    /// A handle to control it from other threads.
    pub fn handle(&self) -> ServerHandle {
        ServerHandle::new(
            self.services.authority.clone(),
            Arc::clone(&self.services.files),
            self.services.listener.clone(),
        )
    }

    /// Serves until it is stopped.
    pub fn run(mut self) -> Result<(), Error> {
        recovery::start(self.config.exports.clone(), self.config.log.clone());
        self.start_accepting();
        loop {
            let deadline = self.deadline();
            let completion = self
                .dispatch
                .next(deadline)
                .map_err(|error| Error::new(ErrorKind::Resources, format!("waiting for sockets failed: {error}")))?;
            self.on_completion(completion);
            let now = self.dispatch.now();
            self.sweep(now);
            if self.is_over(now) {
                self.sessions.abandon_all();
                return Ok(());
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let guests = self.logins.admission.deadline();
        let watches =
            !self.sessions.running.is_empty() || self.logins.refusals.needs_sweep() || self.services.files.has_hidden();
        let sweep = watches.then_some(self.next_sweep);
        let again = self.sessions.shutdowns.again_at();
        [guests, sweep, again, self.phase.deadline()].into_iter().flatten().min()
    }

    fn on_completion(&mut self, completion: Completion<Link>) {
        match completion {
            Completion::Accepted { socket, link } => {
                self.dispatch.submit(Op::Accept { socket });
                self.on_accepted(link);
            }
            Completion::Small { socket, bytes } => self.on_bytes(socket, &bytes),
            Completion::Sent { socket, .. } => self.on_sent(socket),
            Completion::Head { socket, head } => self.on_idle_head(socket, head),
            Completion::Ended { socket, cause, .. } if Some(socket) == self.phase.listener() => {
                self.on_accept_failed(socket, cause);
            }
            Completion::Ended { socket, .. } => self.on_ended(socket),
            Completion::Woken => self.read_messages(),
            _ => {}
        }
    }

    fn on_bytes(&mut self, socket: SocketId, bytes: &[u8]) {
        if self.sessions.idle.contains_key(&socket) {
            return self.on_idle_bytes(socket, bytes);
        }
        if self.logins.admission.is_silent(socket) && !self.classify(socket, bytes) {
            return;
        }
        // It was disconnected by what came before in this turn.
        let Some(guest) = self.logins.pending.get_mut(&socket) else { return };
        match guest.on_bytes(&mut self.dispatch, bytes) {
            LoginProgress::Waiting => {}
            LoginProgress::Opened(ServerOpened::Open { open, welcome }) => self.on_open(socket, open, *welcome),
            LoginProgress::Opened(ServerOpened::Join(request)) => self.on_join(socket, request),
            LoginProgress::Opened(ServerOpened::Refused { send, error }) => {
                self.count_failed(socket, false);
                self.refuse(socket, send, &error);
            }
        }
    }

    fn on_sent(&mut self, socket: SocketId) {
        let Some(guest) = self.logins.pending.get_mut(&socket) else { return self.on_idle_sent(socket) };
        match std::mem::replace(&mut guest.phase, LoginPhase::Reading) {
            // Nothing was being sent.
            LoginPhase::Reading => {}
            LoginPhase::Answering { want } => self.dispatch.submit(Op::Small { socket, length: want }),
            LoginPhase::Refusing => {
                guest.phase = LoginPhase::Refusing;
                // Lets the client read the answer before the connection is closed.
                let _ = self.dispatch.finish_sending(socket);
                self.disconnect(socket, "refused");
            }
            LoginPhase::Opening(granted) => self.start_session(socket, *granted),
            LoginPhase::Joining(id, channel, keys) => self.admit(socket, id, channel, *keys),
        }
    }

    fn on_ended(&mut self, socket: SocketId) {
        if self.logins.pending.contains_key(&socket) {
            return self.guest_ended(socket);
        }
        self.idle_ended(socket, Error::new(ErrorKind::ConnectionLost, PEER_CLOSED));
    }

    fn read_messages(&mut self) {
        for _ in 0..MESSAGES_AT_ONCE {
            let Ok(message) = self.mailbox.try_recv() else { return };
            match message {
                ServerMessage::Ended { session, pipeline, ending, mailbox } => {
                    self.on_pipeline_ended(session, pipeline, ending, mailbox);
                }
                ServerMessage::WantChannels { session, pipeline, wanted } => {
                    let count = wanted.swap(0, Ordering::Relaxed);
                    self.on_want(session, pipeline, count.try_into().unwrap_or(u16::MAX));
                }
                ServerMessage::Recall { session, handles } => self.on_recalled(session, handles),
                ServerMessage::Notices { session } => self.on_notices(session),
                ServerMessage::Status => {
                    let lines = self.status_lines();
                    (self.config.log)(&LogEvent::Status { lines });
                }
                // Who asked may have stopped waiting.
                ServerMessage::Figures(tell) => drop(tell.try_send(self.figures())),
                ServerMessage::Reload(settings) => {
                    self.watches.end_moved();
                    (self.config.limits, self.config.policy) = *settings;
                    self.logins.admission.set_limits(self.config.limits.admission());
                    self.services.rates.set(self.config.limits.bandwidth_per_user);
                }
                ServerMessage::Present(identity) => self.logins.opening.identity = identity,
                ServerMessage::Revoke(ends) => self.end_revoked(&*ends),
                ServerMessage::Drain => self.drain(),
                ServerMessage::Retire => self.retire(),
                ServerMessage::Stop => self.stop(),
            }
        }
        // Connections are served in between.
        self.dispatch.waker().wake();
    }

    /// Checks deadlines: pending logins, idle sessions, accepting again.
    fn sweep(&mut self, now: Instant) {
        while let Some((socket, waited_for, time)) = self.logins.overdue(now) {
            self.part(socket, &format!("no {waited_for} within {time:?}"));
        }
        self.resume_accepting(now);
        self.sessions.shutdowns.tell_again(now);
        if now >= self.next_sweep {
            self.next_sweep = now.after(Duration::from_secs(1).min(self.config.limits.idle));
            self.logins.refusals.sweep();
            let drops = self.logins.admission.drops().fresh();
            if !drops.is_empty() {
                let untold = self.logins.refusals.take_suppressed();
                (self.config.log)(&LogEvent::Limits { drops, untold });
            }
            for export in &self.config.exports {
                if let Some(text) = export.notice() {
                    (self.config.log)(&LogEvent::Notice { export: export.name().to_owned(), text });
                }
            }
            self.end_expired_sessions();
            self.end_leaving_sessions(now);
            self.end_deaf_sessions(now);
            self.end_idle_sessions(now);
            self.remove_hidden();
            self.services.authority.now().forget_ended_trees();
        }
    }
}
