//! A session as one pipeline sees it: its channels, and the operations on them. One machine serves both ends and both
//! directions (FTSM-29); the role decides only who opens operations.
//!
//! # Driving it
//!
//! One input, then every output, then wait:
//!
//! - a head arrived and its tag is right: [`Session::on_head`] says what the payload is. Then [`Session::on_control`],
//!   [`Session::on_block`], [`Session::on_calls`] or [`Session::on_skipped`] once it is complete (and checked);
//! - a record was handed to the transport: [`Session::on_sent`];
//! - storage answered: `on_opened`, `on_staged`, `on_written`, `on_checked`, `on_verified`, `on_committed`,
//!   `on_source`; the calls of a batch were done: `on_answered`;
//! - a channel came up, moved bytes, broke: `on_channel`, `on_progress`, `on_lost`;
//! - time passed: [`Session::on_time`], at [`Session::deadline`] at the latest.
//!
//! After each, [`Session::poll`] until it returns none.
//!
//! # What can be relied on
//!
//! The receiver decides the outcome of an operation, once, and every end that learns it learns the same. A sender that
//! loses its last channel before it heard reports the loss, not success. Bytes count after they were written; a target is
//! committed at exact cover and FINISH, never before. Control messages tell states, so repetition and delay are harmless.

mod calls;
mod fault;
mod group;
mod input;
mod loss;
mod operation;
mod operations;
mod output;
mod poll;
mod receiver;
mod request;
mod retransmit;
mod sender;
mod storage;
#[cfg(test)]
mod tests;
mod verify;

pub use crate::bug::{Bug, Bugs};
pub use fault::Fault;
pub use group::{Half, PipelineMessage};
pub use operation::{Committed, Operation};
use operations::Operations;
pub use output::{Output, Payload, SessionEvent};
pub use receiver::{BlockDecision, InvalidBlock, Receiver};
pub use sender::{AckBeyondSent, Sender};
pub use storage::{SourceFacts, StageFacts, TargetFacts};
pub use verify::{Comparison, ContentDigest, Mismatch};

use crate::base::{ChannelId, Duration, Error, ErrorKind, Instant, KeyLimits, Level, OperationId, PipelineId};
use crate::channel::{Flow, Life};
use crate::wire::control::{ChannelGrant, Control};
use crate::wire::request::Request;
use crate::wire::{Event, Head};
use crate::{limits, plan};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

/// Which end this is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Opens operations.
    Client,
    /// Answers them.
    Server,
}

/// Bounds and agreed values of a session: arguments, so that the model checker can make them small.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SessionLimits {
    /// Level of every record that is not a block.
    pub control_level: Level,
    /// Lowest level for blocks.
    pub floor: Level,
    /// Block size where a request names none.
    pub block: u32,
    /// Span ahead of the first gap that this end grants as a receiver, and goes as a sender; 0 for [`crate::plan::window`].
    pub window: u64,
    /// A channel on which something is owed is lost after this silence.
    pub stall: Duration,
    /// Operations alive at a time.
    pub operations_max: usize,
    /// Pipelines of the session.
    pub pipelines: u8,
    /// Channels of the session, for the window.
    pub channels: u16,
    /// How much one key may protect: REKEY goes before a record that could pass it.
    pub keys: KeyLimits,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            control_level: Level::Private,
            floor: Level::Clear,
            block: limits::BLOCK_BYTES_DEFAULT,
            window: 0,
            stall: limits::STALL_DEFAULT,
            operations_max: limits::OPERATIONS_MAX,
            pipelines: 1,
            channels: 1,
            keys: KeyLimits::STANDARD,
        }
    }
}

impl SessionLimits {
    /// The span for blocks of this size.
    pub(crate) fn span(&self, block: u32) -> u64 {
        match self.window {
            0 => plan::window(self.channels, block),
            window => window,
        }
    }
}

/// What a head announces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the variant's line names its fields")]
pub enum HeadVerdict {
    /// A control payload of `head.length` bytes: hand it to `on_control`.
    Control,
    /// A block: write it to the operation's stage at `offset`, then `on_block`, and `on_written` when it is.
    Block { operation: OperationId, offset: u64, length: u32 },
    /// Calls, or the reply to them: read the payload, and when it is complete and checked, `on_calls`.
    Calls { operation: OperationId, length: u32 },
    /// Read and forget the payload, then `on_skipped`.
    Skip,
    /// Not now: leave the payload in the transport until `Output::Resume`.
    Park,
}

/// A channel of this pipeline.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Channel {
    life: Life,
    send: Flow,
    receive: Flow,
    /// A record is with the transport.
    busy: bool,
    /// Messages that belong to this channel: EOFR, NOOP, EOFT.
    own: VecDeque<(OperationId, Control, bool)>,
    /// Head whose payload is arriving.
    open: Option<Head>,
    /// A head waits for `Resume`.
    parked: bool,
    heard_at: Instant,
    sent_at: Instant,
    /// A NOOP that asks for an answer is out.
    pinged: bool,
}

/// A lost channel: what was said about it and what was heard.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Fence {
    /// Records of the peer that were processed here, in all epochs.
    processed: u64,
    /// Records that this end had sent, in all epochs.
    sent: u64,
    /// Our FENCE went out on this channel.
    told: Option<ChannelId>,
    /// The peer's FENCE arrived.
    heard: bool,
}

/// The session state machine of one pipeline, for both ends and both directions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Session {
    role: Role,
    limits: SessionLimits,
    pipeline: PipelineId,
    bugs: Bugs,
    channels: BTreeMap<ChannelId, Channel>,
    fences: BTreeMap<ChannelId, Fence>,
    /// How many of them are about channels that were never up here.
    unknown: u16,
    /// Channels that ended in order.
    closed: BTreeSet<ChannelId>,
    operations: Operations,
    /// Highest number of the operations that this pipeline coordinates, opened or asked for.
    highest: u32,
    /// Server: numbers below it whose request is still under way on another channel, or was given up before it left.
    skipped: BTreeSet<OperationId>,
    /// CREDIT for operations of other pipelines that have not told this one yet to take part, oldest first.
    early: VecDeque<(OperationId, u64)>,
    outputs: VecDeque<Output>,
    /// Channels that are up and have no record with the transport, longest idle first.
    idle: VecDeque<ChannelId>,
    /// Operation that last sent a block: the next one has its turn.
    last_scheduled: OperationId,
    /// A wish for this many more channels is to be sent.
    wants: Option<u16>,
    /// Grants for more channels that are to be sent.
    grants: VecDeque<ChannelGrant>,
    /// DRAIN is to be sent.
    drain: Option<u32>,
    /// No new operation.
    closing: bool,
    /// EOFT when the present operations are over.
    ending: bool,
    /// The peer's EOFT arrived on some channel: it asks nothing more.
    peer_ended: bool,
    over: bool,
    /// Messages in all `Channel::own` queues.
    own_waiting: usize,
}

impl Session {
    /// A session with no channel yet.
    pub fn new(role: Role, pipeline: PipelineId, limits: SessionLimits, bugs: Bugs) -> Self {
        Self {
            role,
            limits,
            pipeline,
            bugs,
            channels: BTreeMap::new(),
            fences: BTreeMap::new(),
            unknown: 0,
            closed: BTreeSet::new(),
            operations: Operations::default(),
            highest: 0,
            skipped: BTreeSet::new(),
            early: VecDeque::new(),
            outputs: VecDeque::new(),
            idle: VecDeque::new(),
            last_scheduled: OperationId(0),
            wants: None,
            grants: VecDeque::new(),
            drain: None,
            closing: false,
            ending: false,
            peer_ended: false,
            over: false,
            own_waiting: 0,
        }
    }

    /// The pipeline that a channel of this session belongs to.
    pub fn pipeline_of(&self, channel: ChannelId) -> PipelineId {
        let pipelines = u16::from(self.limits.pipelines.max(1));
        PipelineId((channel.0.saturating_sub(1) % pipelines) as u8)
    }

    /// Whether this pipeline coordinates an operation: numbers are dealt out in turns, so no two pipelines meet.
    fn coordinates(&self, operation: OperationId) -> bool {
        let pipelines = u32::from(self.limits.pipelines.max(1));
        operation.0 > 0 && (operation.0 - 1) % pipelines == u32::from(self.pipeline.0)
    }

    /// The number behind `last` among those that this pipeline coordinates; none when they are used up.
    fn number_after(&self, last: u32) -> Option<u32> {
        match last {
            0 => Some(u32::from(self.pipeline.0) + 1),
            last => last.checked_add(u32::from(self.limits.pipelines.max(1))),
        }
    }

    /// A channel is up: connected, proved, attached.
    pub fn on_channel(&mut self, channel: ChannelId, now: Instant) {
        let fresh = Channel {
            life: Life::Up,
            send: Flow::new(now),
            receive: Flow::new(now),
            busy: false,
            own: VecDeque::new(),
            open: None,
            parked: false,
            heard_at: now,
            sent_at: now,
            pinged: false,
        };
        // A number is used once in a session's life; the driver's grants see to that.
        debug_assert!(!self.channels.contains_key(&channel));
        if self.over {
            return self.outputs.push_back(Output::Close { channel, error: None });
        }
        if self.fences.contains_key(&channel) {
            // The peer gave it up before it was up here.
            let error = Error::new(ErrorKind::ConnectionLost, "the peer lost the channel");
            return self.outputs.push_back(Output::Close { channel, error: Some(error) });
        }
        self.channels.insert(channel, fresh);
        self.idle.push_back(channel);
        self.end_channels_when_done();
    }

    /// The client asks for a transfer: an upload sends, a download receives. The number names it from now on.
    pub fn open(&mut self, upload: bool, request: Request) -> Result<OperationId, Error> {
        let id = self.next_operation()?;
        let opening = self.first_up().unwrap_or_default();
        let half = if upload { Half::Sending } else { Half::Receiving };
        let mut operation = Operation::new(id, upload, half, opening);
        operation.level = request.level;
        (operation.durable, operation.hash, operation.reread) = (request.durable, request.hash, request.reread);
        // Old servers do not look at it (P-63).
        let blinds = upload && request.hash && request.resume.is_some();
        operation.request = Some(Request { unverified: request.unverified || blinds, ..request });
        operation.owes.add(operation::Pending::REQUEST);
        self.operations.insert(id, operation);
        Ok(id)
    }

    /// The number of a new operation, where there may be one.
    fn next_operation(&mut self) -> Result<OperationId, Error> {
        if self.role != Role::Client {
            return Err(Error::new(ErrorKind::Protocol, "only the client opens operations"));
        }
        if self.closing || self.over {
            return Err(Error::new(ErrorKind::ConnectionLost, "the session is closed"));
        }
        if self.live_coordinated() >= self.limits.operations_max {
            return Err(Error::new(ErrorKind::LimitExceeded, "too many operations at a time in this session"));
        }
        let number = self.number_after(self.highest).ok_or_else(|| {
            Error::new(ErrorKind::LimitExceeded, "this session has used up its operation numbers: open another")
        })?;
        self.highest = number;
        Ok(OperationId(number))
    }

    /// The first operation travelled inside the handshake: it counts as asked on channel 1. (Client.)
    pub fn opened_in_handshake(&mut self, operation: OperationId) {
        if let Some(operation) = self.operations.get_mut(&operation) {
            operation.owes.remove(operation::Pending::REQUEST);
            operation.sent.add(operation::Pending::REQUEST);
            operation.opening = ChannelId(1);
        }
    }

    /// Ends the session in order: no new operation, EOFT on every channel once the present ones are over. The client
    /// ends first, so that no request meets a server that can no longer answer: a server asks it to, by DRAIN.
    pub fn close(&mut self) {
        match self.role {
            Role::Client => {
                (self.closing, self.ending) = (true, true);
                self.end_channels_when_done();
            }
            Role::Server => self.drain(0),
        }
    }

    /// The server goes down: tell the client, take no new operation.
    pub fn drain(&mut self, retry_after_ms: u32) {
        self.closing = true;
        self.drain = Some(retry_after_ms);
    }

    /// Ask for more channels. (Client.)
    pub fn want_channels(&mut self, count: u16) {
        self.wants = Some(self.wants.unwrap_or(0).saturating_add(count));
    }

    /// Grant more channels. (Server.)
    pub fn give_channels(&mut self, grant: ChannelGrant) {
        if self.grants.len() < usize::from(limits::PIPELINES_MAX) {
            self.grants.push_back(grant);
        }
    }

    /// Channels that are up.
    pub fn channels_up(&self) -> usize {
        self.channels.values().filter(|channel| channel.life == Life::Up).count()
    }

    /// Whether there are any [`Self::live_operations`].
    pub fn is_at_work(&self) -> bool {
        self.operations.marks().any(|(_, mark)| mark.live)
    }

    /// Operations whose outcome is not known yet.
    pub fn live_operations(&self) -> usize {
        self.operations.marks().filter(|(_, mark)| mark.live).count()
    }

    /// Those among them that this pipeline speaks for.
    fn live_coordinated(&self) -> usize {
        self.operations.values().filter(|operation| !operation.is_settled() && !operation.is_member()).count()
    }

    /// The operations, settled ones among them until the peer is known to know.
    pub fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.operations.values()
    }

    /// Whether the session has ended.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Whether another record may come on the channel: the peer's EOFT is the last one.
    pub fn awaits(&self, channel: ChannelId) -> bool {
        self.channels.get(&channel).is_some_and(|state| !state.receive.has_ended())
    }

    /// Whether the session is on its way to an orderly end.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// What was agreed.
    pub fn limits(&self) -> &SessionLimits {
        &self.limits
    }

    fn first_up(&self) -> Option<ChannelId> {
        let up = self.channels.iter().find(|(_, channel)| channel.life == Life::Up);
        up.map(|(id, _)| *id)
    }

    fn event(&mut self, event: SessionEvent) {
        self.outputs.push_back(Output::Event(event));
    }

    fn resume_parked(&mut self) {
        for (id, channel) in &mut self.channels {
            if channel.parked {
                channel.parked = false;
                self.outputs.push_back(Output::Resume { channel: *id });
            }
        }
    }

    /// Whether some operation has not heard all it needs to. A peer that ends knows every outcome, and what other pipelines
    /// coordinate hears of it from them.
    fn needs_channels(&self) -> bool {
        if self.peer_ended { self.live_coordinated() > 0 } else { self.is_at_work() }
    }

    /// Puts EOFT on every channel once nothing is left to do. A client waits until the server is known to know every
    /// outcome: behind EOFT none could be told again. One EOFR proves that; a stalled channel may hold back the others. A
    /// server waits for the client's first EOFT, and for nothing more.
    fn end_channels_when_done(&mut self) {
        let unknown = |operation: &Operation| !operation.is_member() && operation.ended.is_empty();
        let waits = match self.role {
            Role::Client => self.needs_channels() || self.operations.values().any(unknown),
            Role::Server => self.needs_channels() || !self.peer_ended,
        };
        if !self.ending || waits {
            return;
        }
        for channel in self.channels.values_mut() {
            let marked = channel.send.has_ended()
                || channel.own.iter().any(|(_, control, _)| matches!(control, Control::EndOfTransfer { .. }));
            if matches!(channel.life, Life::Up | Life::Leaving) && !marked {
                channel.own.push_back((OperationId(0), Control::EndOfTransfer { records: 0 }, false));
                self.own_waiting += 1;
            }
        }
    }

    fn block_event(operation: &Operation) -> Event {
        if operation.upload { Event::Upload } else { Event::Download }
    }
}
