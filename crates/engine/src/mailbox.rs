//! Letters to a pump from other threads: the application, storage, other pipelines, the listener.

use crate::host::{Opened, Staged};
use crate::pipeline::PipelineChannel;
use crate::transfer::commit::CommittedFile;
use crate::transfer::{SharedFile, SourceSide, Written};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use xdfs_proto::base::{ChannelId, Digest, Error, OperationId, PipelineId};
use xdfs_proto::session::{Comparison, PipelineMessage, SourceFacts};
use xdfs_proto::wire::control::ChannelGrant;
use xdfs_proto::wire::request::Request;
use xdfs_xio::buf::Buffer;
use xdfs_xio::dispatch::Wake;

/// What an application wants of a pump.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a few commands per transfer, never one per block")]
#[allow(missing_docs, reason = "the line above each variant explains its fields")]
pub enum Command {
    /// Open an upload from `source`, or a download (its target comes from the host). `ticket` names it until it has a
    /// number.
    Open { ticket: u64, request: Request, source: Option<SourceSide> },
    /// Make the calls of this batch.
    Calls { ticket: u64, batch: Vec<u8> },
    /// The session's first download was opened inside the handshake, as this operation.
    Opened { ticket: u64, operation: OperationId },
    /// Give an operation up.
    Cancel { ticket: u64 },
    /// Ask for more channels.
    WantChannels(u16),
    /// Grant more channels.
    GiveChannels(ChannelGrant),
    /// The server goes down.
    Drain { retry_after_ms: u32 },
    /// End the session when its operations are over.
    Close,
    /// End it now, for this reason.
    Abandon(Error),
}

/// A letter.
#[derive(Debug)]
#[allow(missing_docs, reason = "the line above each variant explains its fields")]
pub enum Message<L> {
    /// From the application.
    Command(Command),
    /// A channel that is connected and proved.
    Attach(Box<PipelineChannel<L>>),
    /// A source was opened.
    Opened(OperationId, Result<Opened, Error>),
    /// A stage was prepared.
    Staged(OperationId, Result<Staged, Error>),
    /// A source was looked at again.
    Checked(OperationId, Result<(), Error>),
    /// A target got its name.
    Committed(OperationId, Result<CommittedFile, Error>),
    /// The calls of a batch that came on this channel were done.
    Answered { operation: OperationId, channel: ChannelId, result: Result<Vec<u8>, Error> },
    /// The writer thread wrote a block.
    Written(Written),
    /// The writer thread holds nothing of the operation any more.
    Detached(OperationId),
    /// A marker was made, or could not be.
    Marked(OperationId, Result<(), Error>),
    /// What was written of a transfer that ended early is kept, where it could be.
    Kept(OperationId),
    /// A thread beside the pipeline has hashed what it was given.
    Hashed(OperationId, Result<(), Error>),
    /// What arrived was compared with what was sent.
    Verified(OperationId, Result<Comparison, Error>),
    /// The hash that was asked for.
    Summed(OperationId, Box<Result<(SourceFacts, Digest), Error>>),
    /// A stage that was given up is gone.
    Dropped,
    /// The reader thread of a stream filled a buffer with `length` bytes; `ended` when the stream did.
    Read { operation: OperationId, buffer: Buffer, length: usize, ended: bool, error: Option<Error> },
    /// Another pipeline of this side.
    Group { from: PipelineId, message: PipelineMessage, shared: Option<SharedFile> },
}

/// Sends letters to one pump and wakes it.
pub struct MailboxSender<L, W> {
    letters: SyncSender<Message<L>>,
    waker: W,
}

impl<L, W: Clone> Clone for MailboxSender<L, W> {
    fn clone(&self) -> Self {
        Self { letters: self.letters.clone(), waker: self.waker.clone() }
    }
}

impl<L, W> std::fmt::Debug for MailboxSender<L, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Post")
    }
}

impl<L, W: Wake> MailboxSender<L, W> {
    /// A mailbox for the pump that `waker` wakes.
    pub fn new(capacity: usize, waker: W) -> (Self, Receiver<Message<L>>) {
        let (letters, mailbox) = sync_channel(capacity);
        (Self { letters, waker }, mailbox)
    }

    /// Sends a letter; waits while the mailbox is full. It comes back when the pump is gone.
    #[allow(clippy::result_large_err, reason = "the letter itself comes back")]
    pub fn send(&self, mail: Message<L>) -> Result<(), Message<L>> {
        let sent = self.letters.send(mail).map_err(|refused| refused.0);
        self.waker.wake();
        sent
    }

    /// Sends a letter if there is room, without ever waiting; for threads that serve others too.
    #[allow(clippy::result_large_err, reason = "the letter itself comes back")]
    pub fn try_send(&self, mail: Message<L>) -> Result<(), Message<L>> {
        let sent = self.letters.try_send(mail).map_err(|refused| match refused {
            TrySendError::Full(mail) | TrySendError::Disconnected(mail) => mail,
        });
        self.waker.wake();
        sent
    }

    /// The same for a letter that must arrive while there is somebody to read it: it comes back where there is no room now.
    #[allow(clippy::result_large_err, reason = "the letter itself comes back")]
    pub fn try_tell(&self, mail: Message<L>) -> Result<(), Message<L>> {
        let sent = match self.letters.try_send(mail) {
            Err(TrySendError::Full(mail)) => Err(mail),
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
        };
        self.waker.wake();
        sent
    }
}
