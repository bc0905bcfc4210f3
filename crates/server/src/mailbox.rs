//! Messages to the listener, from pipelines and from handles of other threads, each of which wakes it; and the ends of a
//! pipeline's own mailbox.

use crate::admit::ServerLimits;
use crate::metrics::Figures;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use xdfs_engine::host::Ending;
use xdfs_engine::mailbox::{Mailbox, MailboxSender};
use xdfs_io::dispatch::{DescriptorWaker, Wake};
use xdfs_io::transport::Link;
use xdfs_proto::base::SessionId;
use xdfs_proto::negotiate::Policy;
use xdfs_secure::handshake::tls::ServerIdentity;
use xdfs_secure::policy::Principal;

/// Sends to a pipeline's thread.
pub(crate) type PumpSender = MailboxSender<Link, DescriptorWaker>;
/// What a pipeline's thread reads.
pub(crate) type PumpMailbox = Mailbox<Link>;

/// Messages to the listener that may wait: one per pipeline that ends, and a few commands.
const WAITING_MAX: usize = 8192;

/// A message to the listener, from a pipeline or a handle.
pub(crate) enum ServerMessage {
    /// A pipeline's thread has ended.
    Ended { session: SessionId, pipeline: u8, ending: Ending<Link>, mailbox: PumpMailbox },
    /// A client wants more channels: the number in `wanted` when this is read.
    WantChannels { session: SessionId, pipeline: u8, wanted: Arc<AtomicU64> },
    /// The leases of these handles are recalled.
    Recall { session: SessionId, handles: Vec<u64> },
    /// The session is to be told of changes of names.
    Notices { session: SessionId },
    /// Other limits apply from now on.
    Reload(Box<(ServerLimits, Policy)>),
    /// The server presents another identity.
    Present(Arc<ServerIdentity>),
    /// Credentials were revoked: sessions for which this returns true end.
    Revoke(Box<dyn Fn(&Principal) -> bool + Send>),
    /// The administrator requests the state.
    Status,
    /// The figures are requested for the metrics.
    Figures(SyncSender<Figures>),
    /// Take no new sessions, end when the current ones are over.
    Drain,
    /// Take no new sessions and let the current ones continue.
    Retire,
    /// End now.
    Stop,
}

/// Sends messages to the listener.
#[derive(Clone)]
pub(crate) struct ListenerSender {
    /// Their queue.
    messages: SyncSender<ServerMessage>,
    /// Wakes the listener from its wait for sockets.
    waker: DescriptorWaker,
}

impl ListenerSender {
    /// The sender for a listener that `waker` wakes, and what it reads from.
    pub fn new(waker: DescriptorWaker) -> (Self, Receiver<ServerMessage>) {
        let (messages, mailbox) = sync_channel(WAITING_MAX);
        (Self { messages, waker }, mailbox)
    }

    /// Waits for room, so that the message is not lost: the listener never waits for its senders.
    pub fn send(&self, message: ServerMessage) {
        // Fails only if the listener has ended.
        let _ = self.messages.send(message);
        self.waker.wake();
    }

    /// Never waits; false if there is no room, or no listener.
    pub fn try_send(&self, message: ServerMessage) -> bool {
        let sent = self.messages.try_send(message).is_ok();
        self.waker.wake();
        sent
    }
}
