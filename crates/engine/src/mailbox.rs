//! Messages to a pump from other threads: the application, storage, other pipelines, the listener.

use crate::call_lane::CallLane;
use crate::host::{Opened, Staged};
use crate::pipeline::PipelineChannel;
use crate::transfer::commit::CommittedFile;
use crate::transfer::reader::Filled;
use crate::transfer::{SharedFile, SourceSide, Written};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
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

/// Room that an empty mailbox keeps; what a flood needed beyond it is given back.
const KEPT: usize = 16;

/// The messages of one pump, between its senders and itself. Not a channel of the standard library: those that are
/// bounded write the memory of all their places when they are made, 256 KiB for each session.
struct Queue<L> {
    state: Mutex<State<L>>,
    /// Signalled when there is room again, or nobody reads any more.
    room: Condvar,
    capacity: usize,
}

struct State<L> {
    waiting: VecDeque<Message<L>>,
    /// Whether the pump still reads.
    read: bool,
}

impl<L> Queue<L> {
    fn new(capacity: usize) -> Arc<Self> {
        let state = Mutex::new(State { waiting: VecDeque::new(), read: true });
        Arc::new(Self { state, room: Condvar::new(), capacity })
    }

    fn lock(&self) -> MutexGuard<'_, State<L>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a message was not taken, and the message.
enum Refused<L> {
    Full(Message<L>),
    Gone(Message<L>),
}

impl<L> Refused<L> {
    fn message(self) -> Message<L> {
        match self {
            Self::Full(message) | Self::Gone(message) => message,
        }
    }
}

/// What a pump receives. When it is dropped, so are the messages in it, and its senders learn that it is gone.
pub struct Mailbox<L>(Arc<Queue<L>>);

impl<L> Mailbox<L> {
    /// One that nobody sends to.
    pub fn closed() -> Self {
        Self(Queue::new(0))
    }

    /// The next message, if there is one.
    pub fn try_recv(&self) -> Option<Message<L>> {
        let mut state = self.0.lock();
        let full = state.waiting.len() >= self.0.capacity;
        let message = state.waiting.pop_front()?;
        if state.waiting.is_empty() {
            state.waiting.shrink_to(KEPT);
        }
        drop(state);
        if full {
            self.0.room.notify_all();
        }
        Some(message)
    }
}

impl<L> Drop for Mailbox<L> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.read = false;
        let waiting = std::mem::take(&mut state.waiting);
        // Unlocked first: a message may own another sender of this mailbox.
        drop(state);
        self.0.room.notify_all();
        drop(waiting);
    }
}

impl<L> std::fmt::Debug for Mailbox<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mailbox")
    }
}

/// Sends messages to one pump and wakes it.
pub struct MailboxSender<L, W> {
    queue: Arc<Queue<L>>,
    waker: W,
}

impl<L, W: Clone> Clone for MailboxSender<L, W> {
    fn clone(&self) -> Self {
        Self { queue: Arc::clone(&self.queue), waker: self.waker.clone() }
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
        let queue = Queue::new(capacity);
        (Self { queue: Arc::clone(&queue), waker }, Mailbox(queue))
    }

    /// Sends a message; waits while the mailbox is full. Returns the message when the pump is gone.
    #[allow(clippy::result_large_err, reason = "the message itself comes back")]
    pub fn send(&self, mail: Message<L>) -> Result<(), Message<L>> {
        self.put(mail, true).map_err(Refused::message)
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
        self.put(mail, false).map_err(Refused::message)
    }

    /// The same for a message that must arrive as long as the pump exists: it is returned if there
    /// is no room now.
    #[allow(clippy::result_large_err, reason = "the message itself comes back")]
    pub fn try_tell(&self, mail: Message<L>) -> Result<(), Message<L>> {
        match self.put(mail, false) {
            Err(Refused::Full(mail)) => Err(mail),
            Ok(()) | Err(Refused::Gone(_)) => Ok(()),
        }
    }

    #[allow(clippy::result_large_err, reason = "the message itself comes back")]
    fn put(&self, mail: Message<L>, wait: bool) -> Result<(), Refused<L>> {
        let mut state = self.queue.lock();
        while wait && state.read && state.waiting.len() >= self.queue.capacity {
            state = self.queue.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let put = if !state.read {
            Err(Refused::Gone(mail))
        } else if state.waiting.len() >= self.queue.capacity {
            Err(Refused::Full(mail))
        } else {
            state.waiting.push_back(mail);
            Ok(())
        };
        drop(state);
        self.waker.wake();
        put
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Wakes nobody: these tests read when they want.
    #[derive(Clone)]
    struct Asleep;

    impl Wake for Asleep {
        fn wake(&self) {}
    }

    fn numbered(number: u16) -> Message<()> {
        Message::Command(Command::WantChannels(number))
    }

    fn number(message: &Message<()>) -> u16 {
        match message {
            Message::Command(Command::WantChannels(number)) => *number,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn messages_arrive_in_order_and_a_full_mailbox_refuses_who_does_not_wait() {
        let (post, mailbox) = MailboxSender::new(2, Asleep);
        post.send(numbered(1)).unwrap();
        post.try_send(numbered(2)).unwrap();
        assert_eq!(number(&post.try_send(numbered(3)).unwrap_err()), 3);
        assert_eq!(number(&post.try_tell(numbered(3)).unwrap_err()), 3);
        assert_eq!(mailbox.try_recv().as_ref().map(number), Some(1));
        post.try_send(numbered(3)).unwrap();
        assert_eq!(mailbox.try_recv().as_ref().map(number), Some(2));
        assert_eq!(mailbox.try_recv().as_ref().map(number), Some(3));
        assert!(mailbox.try_recv().is_none());
    }

    #[test]
    fn who_waits_for_room_gets_it_and_what_they_send_arrives_in_their_order() {
        let (post, mailbox) = MailboxSender::new(1, Asleep);
        let senders: Vec<_> = (0..4)
            .map(|sender| {
                let post = post.clone();
                thread::spawn(move || (0..1000).for_each(|step| post.send(numbered(sender * 1000 + step)).unwrap()))
            })
            .collect();
        let mut next = [0; 4];
        while next.iter().sum::<u16>() < 4000 {
            let Some(message) = mailbox.try_recv() else {
                thread::yield_now();
                continue;
            };
            let (sender, step) = (number(&message) / 1000, number(&message) % 1000);
            assert_eq!(step, next[usize::from(sender)]);
            next[usize::from(sender)] += 1;
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    }

    #[test]
    fn who_sends_to_a_pump_that_is_gone_gets_the_message_back_and_who_waits_learns_of_it() {
        let (post, mailbox) = MailboxSender::new(1, Asleep);
        post.send(numbered(1)).unwrap();
        let waiting = {
            let post = post.clone();
            thread::spawn(move || number(&post.send(numbered(2)).unwrap_err()))
        };
        drop(mailbox);
        assert_eq!(waiting.join().unwrap(), 2);
        assert_eq!(number(&post.send(numbered(3)).unwrap_err()), 3);
        post.try_tell(numbered(4)).unwrap();
    }

    #[test]
    fn what_a_flood_needed_is_given_back() {
        let (post, mailbox) = MailboxSender::new(1024, Asleep);
        (0..1024).for_each(|at| post.send(numbered(at)).unwrap());
        while mailbox.try_recv().is_some() {}
        assert!(mailbox.0.lock().waiting.capacity() <= KEPT);
    }
}
