//! A pipeline without an operation, which needs no thread: its channels wait at the dispatcher of
//! whoever watches many of them.
//!
//! It reads every head, and of the records only EOFT: a peer that ends its session is answered right
//! here (P-46, P-47). Every other record is read by a thread ([`IdlePipeline::into_pipeline`]).
//! Notices are told right here too: a change that a thousand clients watch must not start a thousand
//! threads.
//!
//! It must not open a file or process a request, and never waits. It logs and counts nothing: what
//! its owner has to do is an [`IdleStep`] after an input, or an [`IdleEvent`] of
//! [`IdlePipeline::poll`].

mod channel;
#[cfg(test)]
mod tests;

use crate::control;
use crate::pipeline::{Pipeline, PipelineChannel};
use crate::record::{Record, RecordLayer, Rejected};
use channel::{Arriving, IdleChannel};
use std::collections::BTreeMap;
use xdfs_io::dispatch::{Dispatch, HEAD_BYTES, Op, SocketId};
use xdfs_proto::base::{ChannelId, Error, ErrorKind, Instant};
use xdfs_proto::limits;
use xdfs_proto::session::{Output, Payload, Session, SessionEvent};
use xdfs_proto::wire::control::ChannelGrant;
use xdfs_proto::wire::notice::Notice;
use xdfs_proto::wire::{Event, Head};
use xdfs_secure::handshake::tls::Farewell;

/// Bytes of an EOFT at most: one number.
const END_BYTES_MAX: u32 = 8;

/// A pipeline that no thread serves: its machine, and its channels at its owner's dispatcher.
#[derive(Debug)]
pub struct IdlePipeline {
    /// The machine.
    session: Session,
    /// The channels.
    channels: BTreeMap<ChannelId, IdleChannel>,
    /// The peer has begun to end the session, and has until then.
    close_deadline: Option<Instant>,
}

/// What an owner does after an input.
#[derive(Debug)]
#[must_use]
pub enum IdleStep {
    /// Nothing: the pipeline waits for its next input.
    Wait,
    /// Carries out the outputs, see [`IdlePipeline::poll`].
    Poll,
    /// Starts a thread: a record has arrived that it reads.
    Start,
    /// Forgets the socket, whose channel is lost.
    Lost(ChannelLoss),
    /// Ends the session for this violation of the protocol; a thread tells the peer.
    Fault(Error),
}

/// What the loss of a channel means. Its socket is closed.
#[derive(Debug)]
pub enum ChannelLoss {
    /// The machine knew the channel: it reports the loss when it is polled, and fences it. It is
    /// polled when there is work again, and at once if the session is ending.
    Reported,
    /// The machine never heard of the channel, and reports nothing.
    Unreported,
    /// No channel is left, and the peer was not leaving: the session is over, for this reason.
    Last(Error),
}

/// The channels of a pipeline whose thread has ended.
#[derive(Debug)]
pub struct ResumedChannels {
    /// Those that are watched.
    pub sockets: Vec<(ChannelId, SocketId)>,
    /// What it means that the others are not.
    pub lost: Vec<ChannelLoss>,
}

/// What the machine of an idle pipeline tells its owner.
#[derive(Debug)]
#[allow(missing_docs, reason = "the line above each variant explains its fields")]
pub enum IdleEvent {
    /// The socket of a channel was closed.
    Closed { socket: SocketId },
    /// A channel was lost. `closing` is set if the session is ending.
    Lost { channel: ChannelId, error: Error, closing: bool },
    /// The session is over, cleanly or for this reason.
    Over { error: Option<Error> },
}

impl IdlePipeline {
    /// The pipeline of a new session, without channels.
    pub fn new(session: Session) -> Self {
        Self { session, channels: BTreeMap::new(), close_deadline: None }
    }

    /// The first channel is up, and its client's first operation, if there is one, came with the
    /// handshake. Fails if that is no request.
    pub fn begin<D: Dispatch>(
        &mut self,
        dispatch: &mut D,
        socket: SocketId,
        records: RecordLayer,
        farewell: Farewell,
        first: Option<&(Event, Vec<u8>)>,
    ) -> Result<(), Error> {
        let channel = ChannelId(1);
        self.session.on_channel(channel, dispatch.now());
        // Records may follow this side's close_notify of TLS at once; the peer's precedes its first
        // record.
        self.watch(dispatch, channel, IdleChannel::new(socket, records, true, Some(farewell)));
        match first {
            Some((event, payload)) => Ok(self.session.on_first_operation(*event, payload)?),
            None => Ok(()),
        }
    }

    /// A channel has joined, on a socket of `dispatch`.
    pub fn join<D: Dispatch>(&mut self, dispatch: &mut D, socket: SocketId, channel: ChannelId, records: RecordLayer) {
        self.watch(dispatch, channel, IdleChannel::new(socket, records, false, None));
    }

    /// Watches the channels of a pipeline whose thread has ended. Returns their sockets; a channel
    /// that cannot be watched is lost.
    pub fn resume<D: Dispatch>(dispatch: &mut D, pipeline: Pipeline<D::Link>) -> (Self, ResumedChannels) {
        let mut idle = Self::new(pipeline.session);
        let mut resumed = ResumedChannels { sockets: Vec::with_capacity(pipeline.channels.len()), lost: Vec::new() };
        let mut failed = Vec::new();
        for PipelineChannel { channel, link, unread, records, known, farewell } in pipeline.channels {
            match dispatch.attach(link, &unread) {
                Ok(socket) => {
                    idle.watch(dispatch, channel, IdleChannel::new(socket, records, known, farewell));
                    resumed.sockets.push((channel, socket));
                }
                Err(error) => failed.push((channel, known, error)),
            }
        }
        // Only now is known whether any channel is left.
        for (channel, known, error) in failed {
            let error = Error::new(ErrorKind::Resources, format!("a channel cannot be watched: {error}"));
            resumed.lost.push(idle.lose(channel, known, error, dispatch.now()));
        }
        (idle, resumed)
    }

    fn watch<D: Dispatch>(&mut self, dispatch: &mut D, channel: ChannelId, idle: IdleChannel) {
        dispatch.submit(idle.read_on());
        self.channels.insert(channel, idle);
    }

    /// The pipeline for a thread. Nothing of it may be with the transport, see
    /// [`Self::may_move`].
    pub fn into_pipeline<D: Dispatch>(self, dispatch: &mut D) -> Pipeline<D::Link> {
        let channels = self.channels.into_iter().map(|(channel, idle)| {
            let detached = dispatch.detach(idle.socket, &mut Vec::new());
            idle.into_pipeline_channel(channel, detached)
        });
        Pipeline { channels: channels.collect(), session: self.session }
    }

    /// Closes every channel: the session is over.
    pub fn close<D: Dispatch>(self, dispatch: &mut D) {
        for idle in self.channels.into_values() {
            dispatch.detach(idle.socket, &mut Vec::new());
        }
    }

    /// A head arrived.
    pub fn on_head<D: Dispatch>(&mut self, dispatch: &mut D, channel: ChannelId, raw: [u8; HEAD_BYTES]) -> IdleStep {
        // Cannot be: the owner has its socket from here.
        let Some(idle) = self.channels.get_mut(&channel) else { return IdleStep::Wait };
        match Record::decode(raw).ok().filter(is_end) {
            Some(record) => {
                idle.arriving = Arriving::End(record);
                dispatch.submit(Op::Small { socket: idle.socket, length: record.head.length as usize });
                self.close_deadline.get_or_insert(dispatch.now().after(self.session.limits().stall));
                IdleStep::Wait
            }
            None => {
                idle.arriving = Arriving::Work(raw);
                IdleStep::Start
            }
        }
    }

    /// Bytes arrived that a state of the channel has asked for.
    pub fn on_bytes<D: Dispatch>(&mut self, dispatch: &mut D, channel: ChannelId, bytes: &[u8]) -> IdleStep {
        // Cannot be: the owner has its socket from here.
        let Some(idle) = self.channels.get_mut(&channel) else { return IdleStep::Wait };
        match std::mem::replace(&mut idle.arriving, Arriving::Nothing) {
            Arriving::Farewell(farewell) => match farewell.check(bytes) {
                Ok(()) => {
                    idle.arriving = Arriving::Head;
                    dispatch.submit(idle.read_on());
                    IdleStep::Wait
                }
                Err(error) => IdleStep::Lost(self.on_ended(dispatch, channel, error)),
            },
            Arriving::End(record) => self.on_end(dispatch, channel, &record, bytes),
            // Cannot be: bytes are asked for in no other state.
            other => {
                idle.arriving = other;
                IdleStep::Wait
            }
        }
    }

    /// An EOFT is complete.
    fn on_end<D: Dispatch>(
        &mut self,
        dispatch: &mut D,
        channel: ChannelId,
        record: &Record,
        payload: &[u8],
    ) -> IdleStep {
        let now = dispatch.now();
        self.introduce(now);
        // Cannot be: the caller has found it.
        let Some(idle) = self.channels.get_mut(&channel) else { return IdleStep::Wait };
        // Nothing of the head is used before its tag was verified: a fault costs the channel.
        let (session, opener) = (&mut self.session, &mut idle.records.opener);
        let heard = record
            .judge(session, channel, now)
            .and_then(|_| control::receive(session, opener, channel, record, payload, now));
        match heard {
            Ok(()) => IdleStep::Poll,
            Err(Rejected::Channel(error)) => IdleStep::Lost(self.on_ended(dispatch, channel, error)),
            Err(Rejected::Session(fault)) => IdleStep::Fault(fault.into()),
        }
    }

    /// A record is with the transport. The owner polls: what waited for that follows.
    pub fn on_sent<D: Dispatch>(&mut self, dispatch: &D, channel: ChannelId) {
        if let Some(idle) = self.channels.get_mut(&channel) {
            idle.sending_since = None;
        }
        self.session.on_sent(channel, dispatch.now());
    }

    /// A channel broke, or is given up. Its socket is closed.
    pub fn on_ended<D: Dispatch>(&mut self, dispatch: &mut D, channel: ChannelId, error: Error) -> ChannelLoss {
        // Cannot be: the owner has its socket from here.
        let Some(idle) = self.channels.remove(&channel) else { return ChannelLoss::Reported };
        dispatch.detach(idle.socket, &mut Vec::new());
        self.lose(channel, idle.known, error, dispatch.now())
    }

    /// What a loss means, once the channel is gone.
    fn lose(&mut self, channel: ChannelId, known: bool, error: Error, now: Instant) -> ChannelLoss {
        if self.channels.is_empty() && !self.session.is_closing() {
            return ChannelLoss::Last(error);
        }
        // The end that it had begun to tell was perhaps none.
        let ending = |idle: &IdleChannel| matches!(idle.arriving, Arriving::End(_));
        if !self.session.is_closing() && !self.channels.values().any(ending) {
            self.close_deadline = None;
        }
        if !known {
            return ChannelLoss::Unreported;
        }
        // The machine ends with the last channel that it knows.
        self.introduce(now);
        self.session.on_lost(channel, error);
        ChannelLoss::Reported
    }

    /// Tells the peer of changes of names that it watches. The owner polls.
    pub fn notice(&mut self, notices: Vec<Notice>, now: Instant) {
        self.introduce(now);
        notices.into_iter().for_each(|notice| self.session.notice(notice));
    }

    /// Grants the peer more channels. The owner polls.
    pub fn give_channels(&mut self, grant: ChannelGrant, now: Instant) {
        self.introduce(now);
        self.session.give_channels(grant);
    }

    /// Does what the machine requests, up to the next event for the owner: all of it if the session
    /// is ending, else what is about the session itself, as far as the channels take it. The rest
    /// follows when they do.
    pub fn poll<D: Dispatch>(&mut self, dispatch: &mut D) -> Option<IdleEvent> {
        let now = dispatch.now();
        loop {
            let closing = self.session.is_closing();
            let output = if closing { self.session.poll(now) } else { self.session.poll_idle(now) };
            match output? {
                Output::Send { channel, head, payload: Payload::Control(payload) } => {
                    self.send(dispatch, channel, &head, &payload, now);
                }
                // It was counted, and only a thread has its bytes. An idle session has no operation
                // that sends any.
                Output::Send { channel, payload: Payload::Block(_) | Payload::Calls, .. } => {
                    let error = Error::new(ErrorKind::Cancelled, "the operation of a record has ended");
                    self.session.on_lost(channel, error);
                }
                Output::Close { channel, .. } => {
                    if closing {
                        // After EOFT both ways on one channel the others get only a moment (P-48).
                        let soon = now.after(limits::LAST_WORDS);
                        self.close_deadline = Some(self.close_deadline.map_or(soon, |until| until.min(soon)));
                    }
                    // A lost one is closed already.
                    if let Some(idle) = self.channels.remove(&channel) {
                        dispatch.detach(idle.socket, &mut Vec::new());
                        return Some(IdleEvent::Closed { socket: idle.socket });
                    }
                }
                Output::Event(SessionEvent::ChannelLost { channel, error }) => {
                    return Some(IdleEvent::Lost { channel, error, closing });
                }
                Output::Event(SessionEvent::Over { error }) => return Some(IdleEvent::Over { error }),
                // These concern operations, which an idle session does not have, other pipelines,
                // which then have nothing to say, and parked heads, which do not occur here.
                Output::Open { .. }
                | Output::Stage { .. }
                | Output::Check { .. }
                | Output::Hash { .. }
                | Output::Verify { .. }
                | Output::Again { .. }
                | Output::Commit { .. }
                | Output::Execute { .. }
                | Output::Forget { .. }
                | Output::Abort { .. }
                | Output::Resume { .. }
                | Output::ToPipeline { .. }
                | Output::Event(_) => {}
            }
        }
    }

    fn send<D: Dispatch>(&mut self, dispatch: &mut D, channel: ChannelId, head: &Head, payload: &[u8], now: Instant) {
        let since = self.sending_since().unwrap_or(now);
        // Cannot be: the machine is told of every channel that is closed here.
        let Some(idle) = self.channels.get_mut(&channel) else { return };
        match control::send(dispatch, idle.socket, &mut idle.records.sealer, head, payload) {
            Ok(()) => idle.sending_since = Some(since),
            Err(error) => self.session.on_lost(channel, error),
        }
    }

    /// Notifies the machine of channels that joined since the thread ended.
    fn introduce(&mut self, now: Instant) {
        for (channel, idle) in self.channels.iter_mut().filter(|(_, idle)| !idle.known) {
            idle.known = true;
            self.session.on_channel(*channel, now);
        }
    }

    /// Since when something has been with the transport without a break.
    fn sending_since(&self) -> Option<Instant> {
        self.channels.values().filter_map(|idle| idle.sending_since).min()
    }

    /// The sockets of its channels.
    pub fn sockets(&self) -> impl Iterator<Item = SocketId> {
        self.channels.values().map(|idle| idle.socket)
    }

    /// Whether it has a channel: without one, its peer is told nothing more.
    pub fn has_channels(&self) -> bool {
        !self.channels.is_empty()
    }

    /// Whether nothing is with the transport, so that a thread can take it over.
    pub fn may_move(&self) -> bool {
        self.sending_since().is_none()
    }

    /// Whether a record has arrived that a thread reads.
    pub fn has_work(&self) -> bool {
        self.channels.values().any(|idle| matches!(idle.arriving, Arriving::Work(_)))
    }

    /// Whether the session is ending in order: its peer has said its last word, or was asked to.
    pub fn is_closing(&self) -> bool {
        self.session.is_closing()
    }

    /// Whether the peer had its time to complete the end that it began.
    pub fn is_late(&self, now: Instant) -> bool {
        self.close_deadline.is_some_and(|until| now >= until)
    }

    /// Whether the peer does not take what it wanted to be told: its requests would not be heard
    /// either.
    pub fn is_deaf(&self, now: Instant) -> bool {
        let stalled = |since| now.since(since) >= self.session.limits().stall;
        // One that is closing has a deadline of its own.
        !self.session.is_closing() && self.sending_since().is_some_and(stalled)
    }
}

/// Whether it is the peer's last record.
fn is_end(record: &Record) -> bool {
    let ends = Event::from_code(record.head.event) == Some(Event::EndOfTransfer);
    ends && (1..=END_BYTES_MAX).contains(&record.head.length)
}
