//! Commands of other threads to a running server.

use crate::admit::ServerLimits;
use crate::authorise::{Authority, CurrentAuthority, Export};
use crate::metrics::Figures;
use crate::sessions::ServerMessage;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;
use xdfs_io::dispatch::{DescriptorWaker, Wake};
use xdfs_proto::negotiate::Policy;
use xdfs_secure::handshake::tls::ServerIdentity;
use xdfs_secure::policy::Principal;

/// The listener never waits for anybody: without an answer by then it has ended.
const FIGURES_WAIT: Duration = Duration::from_secs(2);

/// Controls a running server from another thread.
#[derive(Clone)]
pub struct Handle {
    authority: CurrentAuthority,
    letters: SyncSender<ServerMessage>,
    waker: DescriptorWaker,
}

impl Handle {
    pub(super) fn new(authority: CurrentAuthority, letters: SyncSender<ServerMessage>, waker: DescriptorWaker) -> Self {
        Self { authority, letters, waker }
    }

    /// Takes no new sessions and ends when the current ones are over, or at the drain deadline.
    pub fn drain(&self) {
        self.tell(ServerMessage::Drain);
    }

    /// Takes no new sessions, lets the current ones continue as long as they like, and ends when
    /// they are over: another process has taken over the listener.
    pub fn retire(&self) {
        self.tell(ServerMessage::Retire);
    }

    /// Ends now.
    pub fn stop(&self) {
        self.tell(ServerMessage::Stop);
    }

    /// Writes the state to the log: sessions, threads, memory, rates (SRV-54).
    pub fn status(&self) {
        self.tell(ServerMessage::Status);
    }

    /// The figures of the server; none if it does not answer in time.
    pub fn figures(&self) -> Option<Figures> {
        let (tell, told) = sync_channel(1);
        self.letters.try_send(ServerMessage::Figures(tell)).ok()?;
        self.waker.wake();
        told.recv_timeout(FIGURES_WAIT).ok()
    }

    /// Serves other exports, with other limits and another minimum level for all of them, from now
    /// on. Running operations keep what they were granted, and current sessions continue.
    pub fn reload(&self, exports: Vec<Export>, limits: ServerLimits, policy: Policy) {
        self.authority.replace(Authority::new(exports, policy.floor));
        self.tell(ServerMessage::Reload(Box::new((limits, policy))));
    }

    /// Presents this identity to new connections from now on; its key is unchanged.
    pub fn present(&self, identity: ServerIdentity) {
        self.tell(ServerMessage::Present(Arc::new(identity)));
    }

    /// Ends the sessions of every principal for which `ends` returns true: their credentials were
    /// revoked.
    pub fn revoke(&self, ends: impl Fn(&Principal) -> bool + Send + 'static) {
        self.tell(ServerMessage::Revoke(Box::new(ends)));
    }

    fn tell(&self, letter: ServerMessage) {
        // Waits for room so that the message is not lost: the listener never waits for this thread.
        // Fails only if the listener has ended.
        let _ = self.letters.send(letter);
        self.waker.wake();
    }
}
