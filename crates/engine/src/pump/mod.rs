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
//! dispatcher. A block costs no allocation, no lock and no log. The pump never decides what a
//! record means.

mod calls;
mod channel_io;
mod checkpoint;
mod command;
mod hashing;
mod lingering;
mod members;
mod pacing;
mod receive;
mod retire;
mod send;
mod storage;

use crate::blocking::Blocking;
use crate::bounds;
use crate::host::{Ending, Host};
use crate::mailbox::{MailboxSender, Message};
use crate::pipeline::{Pipeline, PipelineChannel};
use crate::schedule::QuotaClass;
use crate::transfer::{Transfer, TransferStats, Writer};
use calls::Batches;
pub use calls::CallLane;
use channel_io::{Arriving, ChannelIo, SendingBlock};
use hashing::HashRequest;
use lingering::Lingering;
use pacing::{QueuedStart, StartQueue};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Receiver;
use xdfs_io::buf::{Buffer, Pool};
use xdfs_io::dispatch::{Completion, Dispatch, End, Side, SocketId};
use xdfs_proto::base::{ChannelId, Error, ErrorKind, Extent, Instant, OperationId, PipelineId};
use xdfs_proto::session::{Committed, Output, PipelineMessage, Session, SessionEvent};
use xdfs_proto::wire::Head;

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
    pub mailbox: Receiver<Message<D::Link>>,
    /// Where its helper threads send messages.
    pub post: MailboxSender<D::Link, D::Waker>,
    /// The other pipelines of the session, by number; none at its own index.
    pub peers: Vec<Option<MailboxSender<D::Link, D::Waker>>>,
    /// The number of this pipeline.
    pub pipeline: PipelineId,
    /// Storage calls that may block.
    pub blocking: Blocking,
    /// The share under which those calls run that belong to no operation.
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
    mailbox: Receiver<Message<D::Link>>,
    post: MailboxSender<D::Link, D::Waker>,
    peers: Vec<Option<MailboxSender<D::Link, D::Waker>>>,
    pipeline: PipelineId,
    blocking: Blocking,
    share: QuotaClass,
    disk: DiskMode,
    retire: bool,
    session: Session,
    lines: BTreeMap<ChannelId, ChannelIo>,
    /// Channel of each socket.
    sockets: Vec<Option<ChannelId>>,
    transfers: BTreeMap<OperationId, Transfer>,
    /// Stats of aborted operations whose outcome is still to be reported.
    tallies: BTreeMap<OperationId, TransferStats>,
    tickets: BTreeMap<u64, OperationId>,
    receive_pool: Pool,
    send_pool: Pool,
    /// Channels whose next block waits for a buffer.
    want_receive: VecDeque<ChannelId>,
    /// Blocks that wait for a buffer to be read into.
    want_send: VecDeque<(ChannelId, Head, Extent)>,
    writer: Option<Writer>,
    /// Buffers that are with the writer thread.
    at_writer: usize,
    /// The step to take when the writer has released an operation.
    after_detach: BTreeMap<OperationId, AfterDetach>,
    returned: Vec<Buffer>,
    next_tick: Instant,
    idle_since: Option<Instant>,
    ended: Option<Option<Error>>,
    /// Storage calls that have not completed yet.
    pending_storage: usize,
    /// Answers of refused storage calls, left to the loop: acting on one may make the next call.
    refused: VecDeque<Message<D::Link>>,
    /// Operations that release their stage when its checkpoint is complete.
    after_marker: BTreeSet<OperationId>,
    /// Operations whose partial data is being kept; the outcome is reported after that, since a
    /// program may exit when it receives it.
    keeping: BTreeMap<OperationId, Option<OperationOutcome>>,
    /// Transfers that ended while a record of theirs was with the transport.
    closing: Vec<OperationId>,
    /// The session ends for this reason when a channel is free to send it, and at this time in any
    /// case.
    abandoned: Option<(Error, Instant)>,
    /// Operations of calls.
    batches: Batches,
    /// Operations that have not started yet.
    starts: StartQueue,
    /// Reads from end to end that are running for an operation, and their stop flags.
    long_reads: BTreeMap<OperationId, Arc<AtomicBool>>,
    /// Sockets of an ended session on which the reason is still being sent.
    lingering: BTreeMap<SocketId, Lingering>,
}

/// How an operation ended, and what it moved.
type OperationOutcome = (Result<Committed, Error>, TransferStats);

/// See [`Pump::after_detach`].
enum AfterDetach {
    Commit { length: u64, durable: bool },
    Forward { to: PipelineId, message: PipelineMessage },
}

impl<D, H> Pump<D, H>
where
    D: Dispatch,
    D::Link: Send + 'static,
    H: Host,
{
    /// A pump for `group`.
    pub fn new(parts: Parts<D, H>, group: Pipeline<D::Link>) -> std::io::Result<Self> {
        let buffers = bounds::buffers(group.session.limits().block);
        let block = group.session.limits().block as usize;
        let mut pump = Self {
            dispatch: parts.dispatch,
            host: parts.host,
            mailbox: parts.mailbox,
            post: parts.post,
            peers: parts.peers,
            pipeline: parts.pipeline,
            blocking: parts.blocking,
            share: parts.share,
            disk: parts.disk,
            retire: parts.retire,
            session: group.session,
            lines: BTreeMap::new(),
            sockets: Vec::new(),
            transfers: BTreeMap::new(),
            tallies: BTreeMap::new(),
            tickets: BTreeMap::new(),
            receive_pool: Pool::new(buffers, block),
            send_pool: Pool::new(buffers, block),
            want_receive: VecDeque::new(),
            want_send: VecDeque::new(),
            writer: None,
            at_writer: 0,
            after_detach: BTreeMap::new(),
            returned: Vec::new(),
            next_tick: Instant(0),
            idle_since: None,
            ended: None,
            pending_storage: 0,
            refused: VecDeque::new(),
            after_marker: BTreeSet::new(),
            keeping: BTreeMap::new(),
            closing: Vec::new(),
            abandoned: None,
            batches: Batches::default(),
            starts: StartQueue::default(),
            long_reads: BTreeMap::new(),
            lingering: BTreeMap::new(),
        };
        for channel in group.channels {
            pump.attach(channel)?;
        }
        Ok(pump)
    }

    /// Runs until the session is over, or idle where the pump may retire.
    #[allow(clippy::type_complexity, reason = "how it ended, and what it was lent: each is used once")]
    pub fn run(mut self) -> (Ending<D::Link>, H, Receiver<Message<D::Link>>) {
        loop {
            let now = self.dispatch.now();
            if now >= self.next_tick {
                self.tick(now);
            }
            self.begin_waiting(now);
            self.drain();
            if let Some(ending) = self.ending() {
                return (ending, self.host, self.mailbox);
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
            let Some(answer) = self.refused.pop_front() else { return };
            self.on_mail(answer);
        }
    }

    /// The time of the next step that no event triggers: the session's own deadline and those of
    /// the pump.
    fn deadline(&mut self, owed: Option<Instant>) -> Option<Instant> {
        let now = self.dispatch.now();
        let busy = self.session.is_at_work();
        self.idle_since = if busy || self.pending_storage > 0 { None } else { self.idle_since.or(Some(now)) };
        let boundary = self.idle_since.is_none() || self.lines.values().all(ChannelIo::at_boundary);
        // A reply that may have to be sent again would be lost with the thread that holds it.
        let may_retire = self.retire && boundary && self.batches.is_empty() && !self.session.is_closing();
        let retire = self.idle_since.filter(|_| may_retire).map(|since| since.after(bounds::IDLE_BEFORE_RETIRING));
        // An idle session has no deadlines: no tick wakes it.
        let tick =
            (busy || self.session.is_closing() || self.pending_storage > 0 || !boundary).then_some(self.next_tick);
        [owed, tick, retire, self.leaving_until(), self.starts.deadline()].into_iter().flatten().min()
    }

    /// Checks every channel's progress, for stalls.
    fn tick(&mut self, now: Instant) {
        for (channel, line) in &self.lines {
            let progress = self.dispatch.progress(line.socket);
            // Data that is not read because this side lacks a buffer is not a stall of the peer.
            let ours = matches!(line.arriving, Arriving::Waiting { .. } | Arriving::Held(_));
            let heard_at = if ours { now } else { progress.received_at };
            self.session.on_progress(*channel, heard_at, progress.sent_at);
        }
        self.end_late_leaving(now);
        self.session.on_time(now);
        self.mark_all(now);
        let usual = (self.session.limits().stall / 8).clamp(bounds::TICK_MIN, bounds::MARKER_PERIOD / 5);
        let interval = if self.session.is_closing() { usual.min(bounds::TICK_CLOSING) } else { usual };
        self.next_tick = now.after(interval);
        self.drain();
    }

    fn attach(&mut self, channel: PipelineChannel<D::Link>) -> std::io::Result<()> {
        let socket = self.dispatch.attach(channel.link, &channel.unread)?;
        let index = socket.0 as usize;
        if self.sockets.len() <= index {
            self.sockets.resize(index + 1, None);
        }
        self.sockets[index] = Some(channel.channel);
        self.lines.insert(channel.channel, ChannelIo::new(socket, channel.sealer, channel.opener));
        if !channel.known {
            self.session.on_channel(channel.channel, self.dispatch.now());
        }
        match channel.farewell {
            Some(farewell) => self.await_farewell(channel.channel, farewell),
            None => self.next_head(channel.channel),
        }
        Ok(())
    }

    fn channel_of(&self, socket: SocketId) -> Option<ChannelId> {
        self.sockets.get(socket.0 as usize).copied().flatten()
    }

    fn on_completion(&mut self, completion: Completion<D::Link>) {
        let Some(completion) = self.on_leaving(completion) else { return };
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
        let Some(channel) = self.channel_of(socket) else { return };
        let error = match cause {
            End::Closed => Error::new(ErrorKind::ConnectionLost, "the peer closed the connection"),
            End::Failed(errno) => {
                let text = self.dispatch.failure(socket).unwrap_or_else(|| io_text(errno));
                Error::new(ErrorKind::ConnectionLost, text).with_errno(errno as u16)
            }
            End::Source(errno) => {
                if let Some(SendingBlock { operation, .. }) = self.lines.get(&channel).and_then(|line| line.sending) {
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
            Output::Commit { operation, length, durable } => self.on_commit(operation, length, durable),
            Output::Execute { operation, channel } => self.on_execute(operation, channel),
            Output::Forget { operation } => self.forget_calls(operation),
            Output::Abort { operation, keep } => self.abort_transfer(operation, keep),
            Output::Close { channel, .. } => self.close_line(channel),
            Output::Resume { channel } => self.on_resume(channel),
            Output::Group { to, message } => self.on_group_output(to, message),
            Output::Event(event) => self.on_event(event),
        }
    }

    fn on_event(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Settled { operation, outcome } => {
                self.starts.forget(operation);
                let tally = self.transfers.get_mut(&operation).map(|transfer| std::mem::take(&mut transfer.tally));
                let tally = self.tallies.remove(&operation).or(tally);
                self.drop_transfer(operation);
                self.tickets.retain(|_, known| *known != operation);
                let tally = tally.unwrap_or_default();
                match self.keeping.get_mut(&operation) {
                    Some(later) => *later = Some((outcome, tally)),
                    None => self.host.settled(operation, outcome, tally),
                }
            }
            SessionEvent::Acknowledged { operation, below } => self.on_acknowledged(operation, below),
            SessionEvent::Over { ref error } => {
                self.ended = Some(error.clone());
                self.host.event(event);
            }
            other => self.host.event(other),
        }
    }

    fn close_line(&mut self, channel: ChannelId) {
        let Some(line) = self.lines.remove(&channel) else { return };
        self.sockets[line.socket.0 as usize] = None;
        self.want_receive.retain(|waiting| *waiting != channel);
        let waited = self.want_send.len();
        self.want_send.retain(|(waiting, ..)| *waiting != channel);
        let submitted = waited == self.want_send.len();
        if self.session.is_over() && line.busy && line.sending.is_none() && submitted {
            return self.let_leave(&line);
        }
        let _ = self.dispatch.detach(line.socket, &mut self.returned);
        let mut back = std::mem::take(&mut self.returned).into_iter();
        // The receiving side's buffer comes first.
        if matches!(line.arriving, Arriving::Filling { .. }) {
            back.by_ref().take(1).for_each(|buffer| self.receive_pool.give(buffer));
        }
        if let Some(sending) = line.sending {
            back.for_each(|buffer| self.return_sent(sending, buffer));
        }
        if !self.closing.is_empty() {
            self.close_finished();
        }
        self.next_held();
        self.serve_waiting();
    }

    fn read_mail(&mut self) {
        while let Ok(mail) = self.mailbox.try_recv() {
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
                self.pending_storage -= 1;
                self.session.on_checked(operation, result);
            }
            Message::Committed(operation, result) => {
                self.pending_storage -= 1;
                self.made(operation, result);
            }
            Message::Answered { operation, lane, result } => self.on_answered(operation, lane, result),
            Message::Hashed(operation, result) => self.on_hashed(operation, result),
            Message::Verified(operation, result) => self.on_verified(operation, result),
            Message::Summed(operation, result) => self.on_summed(operation, *result),
            Message::Written(written) => self.on_written(written),
            Message::Detached(operation) => self.on_detached(operation),
            Message::Marked(operation, result) => self.on_marked(operation, result),
            Message::Kept(operation) => {
                self.pending_storage -= 1;
                if let Some(Some((outcome, tally))) = self.keeping.remove(&operation) {
                    self.host.settled(operation, outcome, tally);
                }
            }
            Message::Dropped => self.pending_storage -= 1,
            Message::Read { operation, buffer, length, ended, error } => {
                self.on_read(operation, buffer, length, ended, error);
            }
            Message::Group { from, message, shared } => self.on_group(from, message, shared),
        }
    }
}

fn io_text(errno: i32) -> String {
    std::io::Error::from_raw_os_error(errno).to_string()
}
