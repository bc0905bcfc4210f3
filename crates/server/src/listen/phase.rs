//! Whether a server takes new connections, and when it ends.

use super::Server;
use crate::log::LogEvent;
use xdfs_io::dispatch::{Dispatch, Op, SocketId};
use xdfs_proto::base::{Instant, SessionId};

/// What a server does about new connections, and when it ends.
pub(super) enum Phase {
    /// Connections are accepted.
    Accepting { listener: SocketId },
    /// No descriptors were left: connections are accepted again from then on.
    Pausing { listener: SocketId, until: Instant },
    /// Another process has taken over the listener: it ends with its last session and login.
    Retired,
    /// It takes no new sessions, and ends with its last one, or at that time.
    Draining { until: Instant },
}

impl Phase {
    /// The socket that it listens on.
    pub(super) fn listener(&self) -> Option<SocketId> {
        match self {
            Self::Accepting { listener } | Self::Pausing { listener, .. } => Some(*listener),
            Self::Retired | Self::Draining { .. } => None,
        }
    }

    /// When it changes without an event.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Pausing { until, .. } | Self::Draining { until } => Some(*until),
            Self::Accepting { .. } | Self::Retired => None,
        }
    }

    /// Whether it takes no new sessions.
    pub(super) fn is_draining(&self) -> bool {
        matches!(self, Self::Draining { .. })
    }
}

impl Server {
    /// Accepts the first connection.
    pub(super) fn start_accepting(&mut self) {
        if let Some(socket) = self.phase.listener() {
            self.dispatch.submit(Op::Accept { socket });
        }
    }

    /// Accepts connections again when it is time.
    pub(super) fn resume_accepting(&mut self, now: Instant) {
        if let Phase::Pausing { listener, until } = self.phase
            && until <= now
        {
            self.phase = Phase::Accepting { listener };
            self.start_accepting();
        }
    }

    /// Whether nothing is left to serve, or no time.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let without_sessions = self.sessions.running.is_empty();
        match self.phase {
            Phase::Accepting { .. } | Phase::Pausing { .. } => false,
            Phase::Retired => without_sessions && self.logins.pending.is_empty(),
            Phase::Draining { until } => without_sessions || now >= until,
        }
    }

    fn close_listener(&mut self) {
        if let Some(socket) = self.phase.listener() {
            self.dispatch.detach(socket, &mut Vec::new());
        }
    }

    /// Another process has taken over the listener.
    pub(super) fn retire(&mut self) {
        self.close_listener();
        if !self.phase.is_draining() {
            self.phase = Phase::Retired;
        }
        if !self.config.limits.lease.is_zero() {
            // The files are the other process's: what is done here does not wait for its leases.
            self.services.files.recall_all();
            self.drain_sessions();
        }
        (self.config.log)(&LogEvent::Retired { sessions: self.sessions.running.len() });
    }

    /// Takes no new sessions, and asks the clients of the current ones to end them.
    pub(super) fn drain(&mut self) {
        self.close_listener();
        if !self.phase.is_draining() {
            let until = self.dispatch.now().after(self.config.limits.drain);
            self.phase = Phase::Draining { until };
        }
        self.drain_sessions();
        (self.config.log)(&LogEvent::Draining { sessions: self.sessions.running.len() });
    }

    /// Ends now.
    pub(super) fn stop(&mut self) {
        self.drain();
        self.phase = Phase::Draining { until: self.dispatch.now() };
    }

    fn drain_sessions(&mut self) {
        let ids: Vec<SessionId> = self.sessions.running.keys().copied().collect();
        for id in ids {
            self.start_pipelines(id);
            self.sessions.tell_drain(id);
        }
    }
}
