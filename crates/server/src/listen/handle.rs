//! What other threads tell a running server.

use crate::admit::ServerLimits;
use crate::authorise::{Authority, CurrentAuthority, Export};
use crate::sessions::ServerMessage;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use xdfs_proto::negotiate::Policy;
use xdfs_secure::handshake::tls::ServerIdentity;
use xdfs_secure::policy::Principal;
use xdfs_xio::dispatch::{DescriptorWaker, Wake};

/// Steers a running server from another thread.
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

    /// Takes no new sessions and ends when the present ones are over, or at the drain deadline.
    pub fn drain(&self) {
        self.tell(ServerMessage::Drain);
    }

    /// Takes no new sessions, lets the present ones go on for as long as they like, and ends when they are over: another
    /// process has taken the listener over.
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

    /// Offers other exports, within other bounds and with another floor for all of them, from now on. Operations that run keep what
    /// they were given, and whoever is in stays in.
    pub fn reload(&self, exports: Vec<Export>, limits: ServerLimits, policy: Policy) {
        self.authority.replace(Authority::new(exports, policy.floor));
        self.tell(ServerMessage::Reload(Box::new((limits, policy))));
    }

    /// Shows this identity to everybody who connects from now on; its key is the one that it was.
    pub fn present(&self, identity: ServerIdentity) {
        self.tell(ServerMessage::Present(Arc::new(identity)));
    }

    /// Ends the sessions of everybody of whom `ends` says so: what they logged in with was taken away.
    pub fn revoke(&self, ends: impl Fn(&Principal) -> bool + Send + 'static) {
        self.tell(ServerMessage::Revoke(Box::new(ends)));
    }

    fn tell(&self, letter: ServerMessage) {
        // Waits for room rather than be lost: the listener never waits for us. It is an error where nobody listens any more.
        let _ = self.letters.send(letter);
        self.waker.wake();
    }
}
