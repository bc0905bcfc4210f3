//! Connections that have not authenticated: accepted, classified, refused, disconnected. Their
//! limits are in `admit`.

use super::Server;
use super::phase::Phase;
use super::refusals::RefusalLog;
use crate::admit::{Admission, AdmissionVerdict, ServerLimits, SourceNetwork};
use crate::log::LogEvent;
use crate::pending_login::{LoginPhase, PendingLogin};
use std::collections::BTreeMap;
use std::time::Duration;
use xdfs_engine::opening::OpeningContext;
use xdfs_io::dispatch::{Dispatch, End, SocketId};
use xdfs_io::transport::{self, Link};
use xdfs_proto::base::{Error, ErrorKind, Instant};
use xdfs_proto::wire::preface::{ClientPreface, Continuation, ServerPreface, Status};
use xdfs_secure::login::FailedLogin;
use xdfs_secure::policy::Method;
use xdfs_secure::random;

/// Connections that have not authenticated.
pub(super) struct Logins {
    /// The server's identity, and the accounts that may log in.
    pub opening: OpeningContext,
    /// The connections, by their socket.
    pub pending: BTreeMap<SocketId, PendingLogin>,
    /// Their slots and deadlines.
    pub admission: Admission,
    /// Which of those that are refused are logged.
    pub refusals: RefusalLog,
}

impl Logins {
    /// There is none.
    pub(super) fn new(opening: OpeningContext, limits: &ServerLimits) -> Self {
        let admission = Admission::new(limits.admission());
        Self { opening, pending: BTreeMap::new(), admission, refusals: RefusalLog::default() }
    }

    /// The connection is none of these any more: it has become a channel, or is to be closed.
    pub(super) fn take(&mut self, socket: SocketId) -> Option<PendingLogin> {
        self.admission.leave(socket);
        self.pending.remove(&socket)
    }

    /// What the next connection that is overdue was waiting for, and how long it was given.
    pub(super) fn overdue(&mut self, now: Instant) -> Option<(SocketId, &'static str, Duration)> {
        let (socket, time) = self.admission.overdue(now)?;
        let waited_for = self.pending.get(&socket).map_or("opening", PendingLogin::waits_for);
        Some((socket, waited_for, time))
    }
}

impl Server {
    /// The next connection cannot be accepted.
    pub(super) fn on_accept_failed(&mut self, listener: SocketId, cause: End) {
        let text = match cause {
            End::Failed(errno) | End::Source(errno) => std::io::Error::from_raw_os_error(errno).to_string(),
            End::Closed => "the listening socket was closed".into(),
        };
        let error = format!("{text}; accepting again in 100 ms");
        self.tell_refusal("somebody".into(), error);
        // Out of descriptors: retrying at once would spin.
        self.phase = Phase::Pausing { listener, until: self.dispatch.now().after(Duration::from_millis(100)) };
    }

    pub(super) fn on_accepted(&mut self, link: Link) {
        // An account that was added before this connection was made may log in.
        if let Some(ends) = self.config.directory.read_changes() {
            self.end_revoked(&*ends);
        }
        let peer = link.peer().ok();
        let source = SourceNetwork::of(peer.as_ref());
        let peer = peer.map_or_else(|| "somebody".into(), |peer| peer.to_string());
        if let Err(error) = transport::settle(&link, &self.config.transport) {
            return self.tell_refusal(peer, error.to_string());
        }
        let layered = match self.config.stack.as_deref() {
            None => Ok(link),
            Some(stack) => link.layered(stack),
        };
        let link = match layered {
            Ok(link) => link,
            Err(error) => return self.tell_refusal(peer, format!("the stack cannot take the connection: {error}")),
        };
        let nonce = match random::array() {
            Ok(nonce) => nonce,
            Err(error) => return self.tell_refusal(peer, error.to_string()),
        };
        let socket = match self.dispatch.attach(link, &[]) {
            Ok(socket) => socket,
            Err(error) => return self.tell_refusal(peer, format!("cannot watch the connection: {error}")),
        };
        // What was done until here is not the client's time.
        let now = self.dispatch.now();
        if let Some(victim) = self.logins.admission.arrive(socket, source, now) {
            self.disconnect(victim, "made room for newer connections");
        }
        let guest = PendingLogin::start(&mut self.dispatch, socket, peer, source, self.logins.opening.clone(), nonce);
        self.logins.pending.insert(socket, guest);
    }

    pub(super) fn tell_refusal(&mut self, peer: String, error: String) {
        self.tell(LogEvent::GuestRefused { peer, error, left: false });
    }

    /// Logs a refusal, unless there are too many to be useful: those are counted.
    fn tell(&mut self, refusal: LogEvent) {
        match refusal {
            LogEvent::LoginFailed { .. } => self.totals.logins_failed += 1,
            _ => self.totals.refused += 1,
        }
        if self.logins.refusals.admit() {
            (self.config.log)(&refusal);
        }
    }

    /// The first eight bytes identify a connection; returns false if it may not continue.
    pub(super) fn classify(&mut self, socket: SocketId, bytes: &[u8]) -> bool {
        let preface = bytes.try_into().ok().and_then(|raw| ClientPreface::decode(raw).ok());
        let start = preface.map_or(0, |preface| preface.start);
        if start == Continuation::Join as u8 {
            self.logins.admission.is_join(socket);
            return true;
        }
        match self.logins.admission.is_login(socket, self.dispatch.now()) {
            AdmissionVerdict::Welcome(victim) => {
                if let Some(victim) = victim {
                    self.disconnect(victim, "made room for newer connections");
                }
                true
            }
            AdmissionVerdict::Refused(status) => {
                let preface = match status {
                    Status::Penalised => {
                        ServerPreface::penalised(self.logins.admission.wait(socket, self.dispatch.now()), start)
                    }
                    status => ServerPreface { status, version: 0, start },
                };
                self.refuse(socket, preface.encode().to_vec(), &Error::new(ErrorKind::Busy, status.text()));
                false
            }
        }
    }

    /// Wrong passwords delay their source, also where the client is `let_in` in the end. A key or a token
    /// cannot be guessed, so those that are not known delay nobody: others behind the same address
    /// would wait for them, too. They are logged unless the client was let in, since agents offer all
    /// keys that they have. Returns how many were logged.
    pub(super) fn count_failed(&mut self, socket: SocketId, let_in: bool) -> usize {
        // It is no login any more: what had failed is counted.
        let Some(guest) = self.logins.pending.get_mut(&socket) else { return 0 };
        let mut failed = guest.take_failed();
        let peer = guest.peer.clone();
        for _ in failed.iter().filter(|login| login.method == Some(Method::Password)) {
            self.logins.admission.login_failed(socket, self.dispatch.now());
        }
        failed.retain(|login| !let_in || login.method == Some(Method::Password));
        for FailedLogin { user, method, key, cause } in &failed {
            let (user, key) = (user.escape_debug().to_string(), key.map(|key| key.fingerprint()));
            self.tell(LogEvent::LoginFailed { peer: peer.clone(), user, method: *method, key, error: (*cause).into() });
        }
        failed.len()
    }

    /// Disconnects a pending login, with the reason in the log.
    pub(super) fn disconnect(&mut self, socket: SocketId, error: &str) {
        self.disconnect_because(socket, error, false);
    }

    /// The same for one whose client left, or said nothing.
    pub(super) fn part(&mut self, socket: SocketId, error: &str) {
        self.disconnect_because(socket, error, true);
    }

    fn disconnect_because(&mut self, socket: SocketId, error: &str, left: bool) {
        self.count_failed(socket, false);
        if let Some(guest) = self.forget(socket).filter(|guest| !matches!(guest.phase, LoginPhase::Refusing)) {
            self.tell(LogEvent::GuestRefused { peer: guest.peer, error: error.into(), left });
        }
    }

    /// The connection of a pending login ended. If the client had nothing more to offer, its failed
    /// logins were logged already.
    pub(super) fn guest_ended(&mut self, socket: SocketId) {
        if self.count_failed(socket, false) > 0 {
            self.forget(socket);
        } else {
            let failure = self.dispatch.failure(socket);
            self.part(socket, failure.as_deref().unwrap_or("the peer closed the connection during the opening"));
        }
    }

    fn forget(&mut self, socket: SocketId) -> Option<PendingLogin> {
        let guest = self.logins.take(socket)?;
        self.dispatch.detach(socket, &mut Vec::new());
        match &guest.phase {
            LoginPhase::Opening(granted) => self.sessions.registry.end(granted.id),
            LoginPhase::Joining(id, channel, _) => self.sessions.registry.gave_up(*id, *channel),
            LoginPhase::Reading | LoginPhase::Answering { .. } | LoginPhase::Refusing => {}
        }
        Some(guest)
    }

    /// Sends the reason, and closes the connection when it was sent.
    pub(super) fn refuse(&mut self, socket: SocketId, send: Vec<u8>, error: &Error) {
        // It was disconnected by what came before in this turn.
        let Some(guest) = self.logins.pending.get_mut(&socket) else { return };
        let peer = guest.peer.clone();
        guest.send(&mut self.dispatch, send, LoginPhase::Refusing);
        self.tell_refusal(peer, error.to_string());
    }
}
