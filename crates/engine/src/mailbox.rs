//! Messages to a pump from other threads: the application, storage, other pipelines, the listener.

use crate::call_lane::CallLane;
use crate::host::{Opened, Staged};
use crate::pipeline::PipelineChannel;
use crate::transfer::commit::CommittedFile;
use crate::transfer::reader::Filled;
use crate::transfer::{SharedFile, SourceSide, Written};
use bytes::Bytes;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use xdfs_io::dispatch::Wake;
use xdfs_proto::base::{Digest, Error, OperationId, PipelineId};
use xdfs_proto::session::{CallService, Comparison, PipelineMessage, SourceFacts};
use xdfs_proto::wire::control::ChannelGrant;
use xdfs_proto::wire::notice::Notice;
use xdfs_proto::wire::request::Request;

/// A command of the application to a pump.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a few commands per transfer, never one per block")]
#[allow(missing_docs, reason = "the line above each variant explains its fields")]
pub enum Command {
    /// Open an upload from `source`, or a download (its target comes from the host). `ticket`
    /// identifies it until it has a number.
    Open { ticket: u64, request: Request, source: Option<SourceSide> },
    /// Execute the calls of this batch.
    Calls { ticket: u64, service: CallService, batch: Bytes },
    /// The session's first download was opened inside the handshake, as this operation.
    Opened { ticket: u64, operation: OperationId },
    /// Cancel an operation.
    Cancel { ticket: u64 },
    /// Request more channels.
    WantChannels(u16),
    /// Grant more channels.
    GiveChannels(ChannelGrant),
    /// The leases of these handles are recalled.
    Recall(Vec<u64>),
    /// Names that the client watches have changed.
    Notices(Vec<Notice>),
    /// The server is shutting down.
    Drain { retry_after_ms: u32 },
    /// End the session when its operations are complete.
    Close,
    /// End it now, for this reason.
    Abandon(Error),
}

/// A message to a pump.
#[derive(Debug)]
#[allow(missing_docs, reason = "the line above each variant explains its fields")]
pub enum Message<L> {
    /// From the application.
    Command(Command),
    /// A channel that is connected and authenticated.
    Attach(Box<PipelineChannel<L>>),
    /// A source was opened.
    Opened(OperationId, Result<Opened, Error>),
    /// A stage was prepared.
    Staged(OperationId, Result<Staged, Error>),
    /// A source was checked again.
    Checked(OperationId, Result<(), Error>),
    /// A target was renamed to its final name.
    Committed(OperationId, Result<CommittedFile, Error>),
    /// The calls of a batch were executed.
    Answered { operation: OperationId, lane: CallLane, result: Result<Vec<u8>, Error> },
    /// The writer thread wrote a block.
    Written(Written),
    /// A checkpoint was written, or failed.
    Marked(OperationId, Result<(), Error>),
    /// What was written of a transfer that ended early was kept, if possible.
    Kept(OperationId),
    /// A parallel hash job has finished its ranges.
    Hashed(OperationId, Result<(), Error>),
    /// The received content was compared with what was sent.
    Verified(OperationId, Result<Comparison, Error>),
    /// The requested hash.
    Summed(OperationId, Box<Result<(SourceFacts, Digest), Error>>),
    /// A dropped stage was removed.
    Dropped,
    /// The reader thread of a stream filled a buffer.
    Read(Filled),
    /// A message from another pipeline of this side.
    FromPipeline { from: PipelineId, message: PipelineMessage, shared: Option<SharedFile> },
}

/// What a pump receives. Boxed, since the queue's memory is there from the start and is not to be touched for messages that
/// never come.
pub type Mailbox<L> = Receiver<Box<Message<L>>>;

/// Sends messages to one pump and wakes it.
pub struct MailboxSender<L, W> {
    messages: SyncSender<Box<Message<L>>>,
    waker: W,
}

impl<L, W: Clone> Clone for MailboxSender<L, W> {
    fn clone(&self) -> Self {
        Self { messages: self.messages.clone(), waker: self.waker.clone() }
    }
}

impl<L, W> std::fmt::Debug for MailboxSender<L, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MailboxSender")
    }
}

impl<L, W: Wake> MailboxSender<L, W> {
    /// A mailbox for the pump that `waker` wakes.
    pub fn new(capacity: usize, waker: W) -> (Self, Mailbox<L>) {
        let (messages, mailbox) = sync_channel(capacity);
        (Self { messages, waker }, mailbox)
    }

    /// Sends a message; waits while the mailbox is full. Returns the message when the pump is gone.
    #[allow(clippy::result_large_err, reason = "the message itself comes back")]
    pub fn send(&self, mail: Message<L>) -> Result<(), Message<L>> {
        let sent = self.messages.send(Box::new(mail)).map_err(|refused| *refused.0);
        self.waker.wake();
        sent
    }

    /// Sends what a thread of this pump has done as such a message; whether the pump is still there.
    pub(crate) fn sends<T, F: Fn(T) -> Message<L>>(&self, message: F) -> impl Fn(T) -> bool + use<L, W, T, F>
    where
        W: Clone,
    {
        let own = self.clone();
        move |done| own.send(message(done)).is_ok()
    }

    /// Sends a message if there is room, without ever waiting; for threads that serve others too.
    #[allow(clippy::result_large_err, reason = "the message itself comes back")]
    pub fn try_send(&self, mail: Message<L>) -> Result<(), Message<L>> {
        let sent = self.messages.try_send(Box::new(mail)).map_err(|refused| match refused {
            TrySendError::Full(mail) | TrySendError::Disconnected(mail) => *mail,
        });
        self.waker.wake();
        sent
    }

    /// The same for a message that must arrive as long as the pump exists: it is returned if there
    /// is no room now.
    #[allow(clippy::result_large_err, reason = "the message itself comes back")]
    pub fn try_tell(&self, mail: Message<L>) -> Result<(), Message<L>> {
        let sent = match self.messages.try_send(Box::new(mail)) {
            Err(TrySendError::Full(mail)) => Err(*mail),
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
        };
        self.waker.wake();
        sent
    }
}
