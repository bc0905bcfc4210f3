//! The pump: one pipeline's loop. It passes completions to the session machine and does what the
//! machine requests.
//!
//! ```text
//! loop {
//!     one completion or message  ->  session.on_...
//!     while let Some(output) = session.poll()  ->  submit, write, report
//! }
//! ```
//!
//! A system call that moves bytes is called through two frames of xdfs: the pump's turn and the
//! dispatcher. A block costs no allocation and no log, and a lock only where a thread of its own
//! writes it. The pump never decides what a record means.

mod buffers;
mod calls;
mod channel_io;
mod checkpoint;
mod command;
mod coordination;
mod hashing;
mod lingering;
mod pacing;
mod receive;
mod release;
mod retire;
mod send;
mod stage;
mod storage;

use crate::blocking::Blocking;
use crate::bounds;
pub use crate::call_lane::CallLane;
use crate::host::{Ending, Host};
use crate::mailbox::{Mailbox, MailboxSender, Message};
use crate::pipeline::{Pipeline, PipelineChannel};
use crate::schedule::QuotaClass;
use crate::transfer::{AfterDetach, Transfer, Writer};
use buffers::Buffers;
use calls::Batches;
use channel_io::{Arriving, ChannelIo, SendState, SendingBlock};
use hashing::HashRequest;
use lingering::Lingering;
use pacing::{QueuedStart, StartQueue};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use xdfs_io::buf::Buffer;
use xdfs_io::dispatch::{Completion, Dispatch, End, Side, SocketId};
use xdfs_proto::base::{ChannelId, Error, ErrorKind, Instant, OperationId, PipelineId};
use xdfs_proto::session::{Output, Session, SessionEvent};

/// The error of a connection that the peer closed.
pub const PEER_CLOSED: &str = "the peer closed the connection";

/// How files are written (SRV-64, SRV-65). The default is the faster one in measurements, see
/// `docs/decisions/0001-writer-thread.md`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum DiskMode {
    /// In parallel to receiving if the file lives in memory (tmpfs), else inline.
    #[default]
    Automatic,
    /// By the pipeline's own thread, between two receives.
    Inline,
    /// By a writer thread, in parallel to receiving.
    Beside,
}

/// The parts of a pump other than its pipeline.
pub struct Parts<D: Dispatch, H> {
    /// The event mechanism.
    pub dispatch: D,
    /// The side it runs on.
    pub host: H,
    /// Messages to it.
    pub mailbox: Mailbox<D::Link>,
    /// Where its helper threads send messages.
    pub post: MailboxSender<D::Link, D::Waker>,
    /// The other pipelines of the session, by number; none at its own index.
    pub siblings: Vec<Option<MailboxSender<D::Link, D::Waker>>>,
    /// Storage calls that may block.
    pub blocking: Blocking,
    /// What it was told when it was started.
    pub settings: Settings,
}

/// What a pump is told when it is started, and keeps.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The number of this pipeline.
    pub pipeline: PipelineId,
    /// The share under which those storage calls run that belong to no operation.
    pub share: QuotaClass,
    /// How files are written.
    pub disk: DiskMode,
    /// Give the thread back after a while without an operation.
    pub retire: bool,
}

/// The loop of one pipeline, between the session machine and the dispatcher.
pub struct Pump<D: Dispatch, H: Host> {
    dispatch: D,
    host: H,
    settings: Settings,
    session: Session,
    mail: Mailboxes<D>,
    channels: Channels,
    buffers: Buffers,
    storage: StorageCalls<D::Link>,
    writer: WriterThread,
    /// All that is held for operations with a file, each from its first step to its outcome.
    transfers: BTreeMap<OperationId, Transfer>,
    /// Operations of calls.
    batches: Batches,
    /// Operations that have not started yet.
    starts: StartQueue,
    /// The application's names of operations that have no outcome.
    tickets: BTreeMap<u64, OperationId>,
    timers: Timers,
    end: SessionEnd,
}

/// Messages to this pump and to others.
struct Mailboxes<D: Dispatch> {
    inbox: Mailbox<D::Link>,
    /// Where helper threads of this pump send messages.
    own: MailboxSender<D::Link, D::Waker>,
    /// The other pipelines of the session, by number; none at its own index.
    siblings: Vec<Option<MailboxSender<D::Link, D::Waker>>>,
}

/// The channels of the pipeline.
#[derive(Default)]
struct Channels {
    by_id: BTreeMap<ChannelId, ChannelIo>,
    /// Channel of each socket.
    by_socket: Vec<Option<ChannelId>>,
}

/// Storage calls that may block.
struct StorageCalls<L> {
    blocking: Blocking,
    /// Those that have not completed yet.
    pending: usize,
    /// Answers of refused calls, left to the loop: acting on one may make the next call.
    refused: VecDeque<Message<L>>,
}

/// The writer thread, which starts with the first stage that needs it.
#[derive(Default)]
struct WriterThread {
    thread: Option<Arc<Writer>>,
    /// Blocks that are with it, of all operations.
    blocks: usize,
}

/// Times of the loop.
struct Timers {
    next_tick: Instant,
    idle_since: Option<Instant>,
    /// Since when blocks wait for memory that nothing here holds.
    starved_since: Option<Instant>,
}

/// How the session ends.
#[derive(Default)]
struct SessionEnd {
    state: EndState,
    /// Sockets on which the reason is still being sent.
    lingering: BTreeMap<SocketId, Lingering>,
}

/// See [`SessionEnd`].
#[derive(Default)]
enum EndState {
    #[default]
    Running,
    /// It ends for this reason when a channel is free to send it, and at this time in any case.
    Abandoned { reason: Error, until: Instant },
    /// It is over, for this reason or cleanly.
    Over(Option<Error>),
}

impl<D, H> Pump<D, H>
where
    D: Dispatch,
    D::Link: Send + 'static,
    H: Host,
{
    /// A pump for `pipeline`.
    pub fn new(parts: Parts<D, H>, pipeline: Pipeline<D::Link>) -> std::io::Result<Self> {
        let buffers = bounds::buffers(pipeline.session.limits().block);
        let block = pipeline.session.limits().block as usize;
        let mut pump = Self {
            dispatch: parts.dispatch,
            host: parts.host,
            settings: parts.settings,
            session: pipeline.session,
            mail: Mailboxes { inbox: parts.mailbox, own: parts.post, siblings: parts.siblings },
            channels: Channels::default(),
            buffers: Buffers::new(buffers, block),
            storage: StorageCalls { blocking: parts.blocking, pending: 0, refused: VecDeque::new() },
            writer: WriterThread::default(),
            transfers: BTreeMap::new(),
            batches: Batches::default(),
            starts: StartQueue::default(),
            tickets: BTreeMap::new(),
            timers: Timers { next_tick: Instant(0), idle_since: None, starved_since: None },
            end: SessionEnd::default(),
        };
        for channel in pipeline.channels {
            pump.attach(channel)?;
        }
        Ok(pump)
    }

    /// Runs until the session is over, or idle where the pump may retire.
    #[allow(clippy::type_complexity, reason = "how it ended, and what it was lent: each is used once")]
    pub fn run(mut self) -> (Ending<D::Link>, H, Mailbox<D::Link>) {
        loop {
            let now = self.dispatch.now();
            if now >= self.timers.next_tick {
                self.tick(now);
            }
            self.begin_waiting(now);
            self.drain();
            if let Some(ending) = self.ending() {
                return (ending, self.host, self.mail.inbox);
            }
            let owed = self.session.deadline();
            let deadline = self.deadline(owed);
            if owed.is_some_and(|due| due <= now) {
                // A busy dispatcher never reports a deadline: acknowledgements must not wait for it
                // to become idle.
                self.session.on_time(now);
                self.drain();
            }
            match self.dispatch.next(deadline) {
                Ok(completion) => self.on_completion(completion),
                Err(error) => {
                    let text = format!("waiting for sockets failed: {error}");
                    self.session.end(Some(Error::new(ErrorKind::Resources, text)));
                }
            }
        }
    }

    /// Does everything that the machine requests.
    fn drain(&mut self) {
        let now = self.dispatch.now();
        loop {
            while let Some(output) = self.session.poll(now) {
                self.on_output(output);
            }
            let Some(answer) = self.storage.refused.pop_front() else { return };
            self.on_mail(answer);
        }
    }

    /// The time of the next step that no event triggers: the session's own deadline and those of
    /// the pump.
    fn deadline(&mut self, owed: Option<Instant>) -> Option<Instant> {
        let now = self.dispatch.now();
        let busy = self.session.is_at_work();
        let storing = self.is_storing();
        self.timers.idle_since = if busy || storing { None } else { self.timers.idle_since.or(Some(now)) };
        let boundary = self.timers.idle_since.is_none() || self.channels.by_id.values().all(ChannelIo::at_boundary);
        // An idle session has no deadlines: no tick wakes it.
        let tick = (busy || self.session.is_closing() || storing || !boundary).then_some(self.timers.next_tick);
        [owed, tick, self.retires_at(), self.linger_until(), self.starts.deadline()].into_iter().flatten().min()
    }

    /// Checks every channel's progress, for stalls.
    fn tick(&mut self, now: Instant) {
        for (channel, io) in &self.channels.by_id {
            let progress = self.dispatch.progress(io.socket);
            // Data that is not read because this side lacks a buffer is not a stall of the peer.
            let ours = matches!(io.arriving, Arriving::Waiting { .. } | Arriving::Held(_));
            let heard_at = if ours { now } else { progress.received_at };
            self.session.on_progress(*channel, heard_at, progress.sent_at);
        }
        self.end_without_memory(now);
        self.end_late_lingering(now);
        self.session.on_time(now);
        self.mark_all(now);
        let usual = (self.session.limits().stall / 8).clamp(bounds::TICK_MIN, bounds::MARKER_PERIOD / 5);
        let interval = if self.session.is_closing() { usual.min(bounds::TICK_CLOSING) } else { usual };
        // What waits for the end of its time is ended by a tick, too.
        let next = now.after(interval);
        self.timers.next_tick = self.linger_until().map_or(next, |until| until.min(next));
        self.drain();
    }

    fn attach(&mut self, channel: PipelineChannel<D::Link>) -> std::io::Result<()> {
        let socket = self.dispatch.attach(channel.link, &channel.unread)?;
        let index = socket.0 as usize;
        if self.channels.by_socket.len() <= index {
            self.channels.by_socket.resize(index + 1, None);
        }
        self.channels.by_socket[index] = Some(channel.channel);
        self.channels.by_id.insert(channel.channel, ChannelIo::new(socket, channel.records));
        if !channel.known {
            self.session.on_channel(channel.channel, self.dispatch.now());
        }
        match channel.farewell {
            Some(farewell) => self.await_farewell(channel.channel, farewell),
            None => self.next_head(channel.channel),
        }
        Ok(())
    }

    fn on_completion(&mut self, completion: Completion<D::Link>) {
        let Some(completion) = self.on_lingering(completion) else { return };
        match completion {
            Completion::Head { socket, head } => self.on_raw_head(socket, head),
            Completion::Small { socket, bytes } => self.on_small(socket, &bytes),
            Completion::Filled { socket, buffer } => self.on_filled(socket, buffer),
            Completion::Some { socket, length } => self.on_piece(socket, length),
            Completion::Sent { socket, buffer, short_by } => self.on_sent(socket, buffer, short_by),
            Completion::Ended { socket, side, cause, buffer } => self.on_ended(socket, side, cause, buffer),
            Completion::Woken => self.read_mail(),
            Completion::Deadline => {
                let now = self.dispatch.now();
                self.session.on_time(now);
            }
            // Never submitted here.
            Completion::Connected { .. } | Completion::Accepted { .. } => {}
        }
    }

    fn on_ended(&mut self, socket: SocketId, side: Side, cause: End, buffer: Option<Buffer>) {
        // It was closed by what came before in this turn.
        let Some((channel, io)) = self.channels.of_socket(socket) else { return };
        let sending = io.block_in_flight();
        let error = match cause {
            End::Closed => Error::new(ErrorKind::ConnectionLost, PEER_CLOSED),
            End::Failed(errno) => {
                let text = self.dispatch.failure(socket).unwrap_or_else(|| io_text(errno));
                Error::new(ErrorKind::ConnectionLost, text).with_errno(errno as u16)
            }
            End::Source(errno) => {
                if let Some(SendingBlock { operation, .. }) = sending {
                    let text = format!("cannot read the source: {}", io_text(errno));
                    let error = Error::new(ErrorKind::Storage, text).with_errno(errno as u16);
                    self.session.on_checked(operation, Err(error));
                }
                Error::new(ErrorKind::ConnectionLost, "a record could not be completed")
            }
        };
        self.give_back(channel, side, buffer);
        self.lose(channel, error);
    }

    fn lose(&mut self, channel: ChannelId, error: Error) {
        self.session.on_lost(channel, error);
        self.drain();
    }

    fn on_output(&mut self, output: Output) {
        match output {
            Output::Send { channel, head, payload } => self.on_send(channel, head, payload),
            Output::Open { operation, request } => self.begin(QueuedStart::Open(operation, request)),
            Output::Stage { operation, request, grant } => self.begin(QueuedStart::Stage(operation, request, grant)),
            Output::Check { operation } => self.on_check(operation),
            Output::Hash { operation, length, range, kept, unverified: doubt, blinded, level } => {
                self.on_hash(HashRequest { operation, length, range, kept, doubt, blinded, level });
            }
            Output::Verify { operation, length, reread, sent } => self.on_verify(operation, length, reread, sent),
            Output::Again { operation, ranges } => self.on_again(operation, &ranges),
            Output::Commit { operation, length, durable } => {
                self.detach(operation, AfterDetach::Commit { length, durable });
            }
            Output::Execute { operation, channel } => self.on_execute(operation, channel),
            Output::Forget { operation } => self.forget_calls(operation),
            Output::Abort { operation, keep } => self.abort_transfer(operation, keep),
            Output::Close { channel, .. } => self.close_channel(channel),
            Output::Resume { channel } => self.on_resume(channel),
            Output::ToPipeline { to, message } => self.on_to_pipeline(to, message),
            Output::Event(event) => self.on_event(event),
        }
    }

    fn on_event(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Settled { operation, outcome } => self.settle_transfer(operation, outcome),
            SessionEvent::Acknowledged { operation, below } => self.on_acknowledged(operation, below),
            SessionEvent::Over { ref error } => {
                self.end.state = EndState::Over(error.clone());
                self.host.event(event);
            }
            SessionEvent::ChannelLost { channel, error } if self.session.is_closing() && !self.session.is_at_work() => {
                self.host.lost_at_end(channel, error);
            }
            other => self.host.event(other),
        }
    }

    fn close_channel(&mut self, channel: ChannelId) {
        // The machine closes a channel that broke before it was attached.
        let Some(io) = self.channels.by_id.remove(&channel) else { return };
        self.channels.by_socket[io.socket.0 as usize] = None;
        self.buffers.want_receive.retain(|waiting| *waiting != channel);
        let waited = self.buffers.want_send.len();
        self.buffers.want_send.retain(|(waiting, ..)| *waiting != channel);
        let submitted = waited == self.buffers.want_send.len();
        if self.session.is_over() && io.sending == SendState::Record && submitted {
            return self.linger(&io);
        }
        let _ = self.dispatch.detach(io.socket, &mut self.buffers.returned);
        let mut back = std::mem::take(&mut self.buffers.returned).into_iter();
        // The receiving side's buffer comes first.
        if matches!(io.arriving, Arriving::Filling { .. }) {
            back.by_ref().take(1).for_each(|buffer| self.buffers.receive.give(buffer));
        }
        if let SendState::Block(sending) = io.sending {
            back.for_each(|buffer| self.return_sent(sending, buffer));
            self.on_record_left(sending.operation);
        }
        self.next_held();
        self.serve_waiting();
    }

    fn read_mail(&mut self) {
        while let Some(mail) = self.mail.inbox.try_recv() {
            self.on_mail(mail);
            self.drain();
        }
    }

    fn on_mail(&mut self, mail: Message<D::Link>) {
        match mail {
            Message::Command(command) => self.on_command(command),
            Message::Attach(channel) => {
                let number = channel.channel;
                if !self.session.is_over() && self.attach(*channel).is_err() {
                    let error = Error::new(ErrorKind::Resources, "the channel could not be watched");
                    self.session.on_lost(number, error);
                }
            }
            Message::Opened(operation, result) => self.on_opened(operation, result),
            Message::Staged(operation, result) => self.on_staged(operation, result),
            Message::Checked(operation, result) => {
                self.storage.pending -= 1;
                self.session.on_checked(operation, result);
            }
            Message::Committed(operation, result) => {
                self.storage.pending -= 1;
                self.made(operation, result);
            }
            Message::Answered { operation, lane, result } => self.on_answered(operation, lane, result),
            Message::Hashed(operation, result) => self.on_hashed(operation, result),
            Message::Verified(operation, result) => self.on_verified(operation, result),
            Message::Summed(operation, result) => self.on_summed(operation, *result),
            Message::Written(written) => self.on_written(written),
            Message::Marked(operation, result) => self.on_marked(operation, result),
            Message::Kept(operation) => self.on_kept(operation),
            Message::Dropped => self.storage.pending -= 1,
            Message::Read(filled) => self.on_read(filled),
            Message::FromPipeline { from, message, shared } => self.on_pipeline_message(from, message, shared),
        }
    }
}

impl Channels {
    /// The channel of a socket; none if it is closed.
    fn of_socket(&mut self, socket: SocketId) -> Option<(ChannelId, &mut ChannelIo)> {
        let channel = self.by_socket.get(socket.0 as usize).copied().flatten()?;
        Some((channel, self.by_id.get_mut(&channel)?))
    }
}

fn io_text(errno: i32) -> String {
    std::io::Error::from_raw_os_error(errno).to_string()
}
