//! Commands of other threads to a running server.

use crate::admit::ServerLimits;
use crate::authorise::{Authority, CurrentAuthority, Export};
use crate::files::OpenFiles;
use crate::mailbox::{ListenerSender, ServerMessage};
use crate::metrics::Figures;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use xdfs_proto::negotiate::Policy;
use xdfs_secure::handshake::tls::ServerIdentity;
use xdfs_secure::policy::Principal;

/// The listener never waits for anybody: without an answer by then it has ended.
const FIGURES_WAIT: Duration = Duration::from_secs(2);

/// Controls a running server from another thread.
#[derive(Clone)]
pub struct ServerHandle {
    /// The access rules, which a reload replaces.
    authority: CurrentAuthority,
    /// What is open on the exports.
    files: Arc<OpenFiles>,
    /// The way to the listener.
    listener: ListenerSender,
}

impl ServerHandle {
    pub(super) fn new(authority: CurrentAuthority, files: Arc<OpenFiles>, listener: ListenerSender) -> Self {
        Self { authority, files, listener }
    }

    /// Takes no new sessions and ends when the current ones are over, or at the drain deadline.
    pub fn drain(&self) {
        self.listener.send(ServerMessage::Drain);
    }

    /// Takes no new sessions, lets the current ones continue as long as they like, and ends when
    /// they are over: another process has taken over the listener.
    pub fn retire(&self) {
        self.listener.send(ServerMessage::Retire);
    }

    /// Ends now.
    pub fn stop(&self) {
        self.listener.send(ServerMessage::Stop);
    }

    /// Writes the state to the log: sessions, threads, memory, rates (SRV-54).
    pub fn status(&self) {
        self.listener.send(ServerMessage::Status);
    }

    /// The figures of the server; none if it does not answer in time.
    pub fn figures(&self) -> Option<Figures> {
        let (tell, told) = sync_channel(1);
        let asked = self.listener.try_send(ServerMessage::Figures(tell));
        asked.then(|| told.recv_timeout(FIGURES_WAIT).ok()).flatten()
    }

    /// Serves other exports, with other limits and another minimum level for all of them, from now
    /// on. Running operations keep what they were granted, and current sessions continue. Files that are open
    /// on an export that has another directory now are closed, and those from which somebody keeps others who may not
    /// any more.
    pub fn reload(&self, exports: Vec<Export>, limits: ServerLimits, policy: Policy) {
        self.authority.replace(Authority::new(exports, policy.floor));
        self.listener.send(ServerMessage::Reload(Box::new((limits, policy))));
        let (files, authority) = (Arc::clone(&self.files), self.authority.now());
        // Their disk may hang. Without a thread they are closed by their next calls, which are refused.
        let closing = std::thread::Builder::new().name("xdfs-closing".to_owned());
        let _ = closing.spawn(move || files.close_unfounded(&authority));
    }

    /// Presents this identity to new connections from now on; its key is unchanged.
    pub fn present(&self, identity: ServerIdentity) {
        self.listener.send(ServerMessage::Present(Arc::new(identity)));
    }

    /// Ends the sessions of every principal for which `ends` returns true: their credentials were
    /// revoked.
    pub fn revoke(&self, ends: impl Fn(&Principal) -> bool + Send + 'static) {
        self.listener.send(ServerMessage::Revoke(Box::new(ends)));
    }
}
