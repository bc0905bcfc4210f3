//! The state machine of one pipeline of a session: its channels and the operations on them. The
//! same machine serves both ends and both directions (FTSM-29); the role only decides which end
//! opens operations.
//!
//! # Driving it
//!
//! Feed one input, then drain every output, then wait:
//!
//! - a head arrived and its tag is valid: [`Session::on_head`] classifies the payload. Then call
//!   [`Session::on_control`], [`Session::on_block`], [`Session::on_calls`] or
//!   [`Session::on_skipped`] once the payload is complete (and verified);
//! - a record was handed to the transport: [`Session::on_sent`];
//! - storage completed a request: `on_opened`, `on_staged`, `on_written`, `on_checked`,
//!   `on_verified`, `on_committed`, `on_source`; the calls of a batch completed: `on_answered`;
//! - a channel came up, moved bytes or broke: `on_channel`, `on_progress`, `on_lost`;
//! - time passed: [`Session::on_time`], at [`Session::deadline`] at the latest.
//!
//! After each input, call [`Session::poll`] until it returns `None`.
//!
//! # Guarantees
//!
//! The receiver decides the outcome of an operation, once, and every end that learns the outcome
//! learns the same one. A sender that loses its last channel before it received the outcome reports
//! the loss, not success. Bytes count only after they were written; a target is committed after
//! exact cover and FINISH, never before. Control messages carry states, so repetition and delay are
//! harmless.

mod announcements;
mod calls;
mod fault;
mod fences;
mod group;
mod heads;
mod input;
mod loss;
mod operation;
mod operations;
mod outcome;
mod output;
mod poll;
mod receiver;
mod receiving_half;
mod request;
mod retransmit;
mod sender;
mod sending_half;
mod storage;
mod telling;
#[cfg(test)]
mod tests;
mod verify;

use announcements::Pending;
pub use calls::CallService;
pub use fault::Fault;
use fences::{Fence, Fences};
pub use group::{Half, PipelineMessage};
pub use operation::{Committed, Operation};
use operation::{Kind, State, Terms};
use operations::Operations;
pub use output::{Output, Payload, SessionEvent};
pub use receiver::{BlockDecision, InvalidBlock, Receiver};
use receiving_half::ReceivingHalf;
pub use sender::{AckBeyondSent, Sender};
use sending_half::SendingHalf;
pub use storage::{SourceFacts, StageFacts, TargetFacts};
pub use verify::{Comparison, ContentDigest, Mismatch};

use crate::base::{ChannelId, Duration, Error, ErrorKind, Instant, KeyLimits, Level, OperationId, PipelineId};
use crate::channel::{Flow, Life};
use crate::notices::PendingNotices;
use crate::wire::control::{ChannelGrant, Control};
use crate::wire::request::Request;
use crate::wire::{Event, Head};
use crate::{limits, plan};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

/// The role of this end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Opens operations.
    Client,
    /// Serves operations.
    Server,
}

/// Limits and negotiated values of a session. They are parameters so that the model checker can use
/// small ones.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SessionLimits {
    /// Level of every record other than a block.
    pub control_level: Level,
    /// Lowest level for blocks.
    pub floor: Level,
    /// Block size where a request specifies none.
    pub block: u32,
    /// Span beyond the first gap that this end grants as a receiver and uses at most as a sender; 0
    /// for [`crate::plan::window`].
    pub window: u64,
    /// A channel with something outstanding is lost after this long without a sign of life.
    pub stall: Duration,
    /// Limit on concurrent operations.
    pub operations_max: usize,
    /// Pipelines of the session.
    pub pipelines: u8,
    /// Channels of the session, to compute the window.
    pub channels: u16,
    /// Bytes of the batches and rooms of all live operations of calls.
    pub calls_room: usize,
    /// How much data one key may protect: REKEY is sent before a record that could exceed it.
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
            calls_room: limits::CALL_ROOM_MAX,
            keys: KeyLimits::STANDARD,
        }
    }
}

impl SessionLimits {
    /// The window for blocks of this size.
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
    /// A control payload of `head.length` bytes: pass it to `on_control`.
    Control,
    /// A block: write it to the operation's stage at `offset`, then call `on_block`, and
    /// `on_written` once it is written.
    Block { operation: OperationId, offset: u64, length: u32 },
    /// A batch or the reply to one: read the payload, and once it is complete and verified, call
    /// `on_calls`.
    Calls { operation: OperationId, length: u32 },
    /// Read and discard the payload, then call `on_skipped`.
    Skip,
    /// Cannot be processed yet: leave the payload in the transport until `Output::Resume`.
    Park,
}

/// A channel of this pipeline.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Channel {
    life: Life,
    send: Flow,
    receive: Flow,
    /// A record has been handed to the transport.
    busy: bool,
    /// Messages bound to this channel: EOFR, NOOP, EOFT.
    own: VecDeque<(OperationId, Control, bool)>,
    /// Head whose payload is arriving.
    open: Option<Head>,
    /// A head is parked until `Resume`.
    parked: bool,
    heard_at: Instant,
    sent_at: Instant,
    /// A NOOP that requests a reply has been sent.
    pinged: bool,
}

/// The session state machine of one pipeline, for both ends and both directions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Session {
    role: Role,
    limits: SessionLimits,
    pipeline: PipelineId,
    channels: BTreeMap<ChannelId, Channel>,
    fences: Fences,
    /// How many of them are about channels that were never up here.
    unknown: u16,
    /// Channels that ended in an orderly way.
    closed: BTreeSet<ChannelId>,
    operations: Operations,
    /// Highest number of the operations that this pipeline coordinates, opened or requested.
    highest: u32,
    /// Server: numbers below it whose request is still in flight on another channel, or was
    /// abandoned before it was sent.
    skipped: BTreeSet<OperationId>,
    /// CREDIT for operations of other pipelines that have not yet asked this one to take part,
    /// oldest first.
    early: VecDeque<(OperationId, u64)>,
    outputs: VecDeque<Output>,
    /// Channels that are up and have no record with the transport, longest idle first.
    idle: VecDeque<ChannelId>,
    /// Operation that sent a block last; the next one takes its turn after it.
    last_scheduled: OperationId,
    /// A request for this many more channels is to be sent.
    wants: Option<u16>,
    /// Grants for more channels that are to be sent.
    grants: VecDeque<ChannelGrant>,
    /// DRAIN is to be sent.
    drain: Option<u32>,
    /// Handles whose leases are recalled, to be sent.
    recalls: VecDeque<u64>,
    /// Changes of names that the client watches, to be sent.
    notices: PendingNotices,
    /// Accept no new operation.
    closing: bool,
    /// Send EOFT once the present operations are over.
    ending: bool,
    /// The peer's EOFT arrived on some channel: it requests nothing more.
    peer_ended: bool,
    over: bool,
    /// Messages in all `Channel::own` queues.
    own_waiting: usize,
}

impl Session {
    /// Creates a session without channels.
    pub fn new(role: Role, pipeline: PipelineId, limits: SessionLimits) -> Self {
        Self {
            role,
            limits,
            pipeline,
            channels: BTreeMap::new(),
            fences: Fences::default(),
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
            recalls: VecDeque::new(),
            notices: PendingNotices::default(),
            closing: false,
            ending: false,
            peer_ended: false,
            over: false,
            own_waiting: 0,
        }
    }

    /// The pipeline to which a channel of this session belongs.
    pub fn pipeline_of(&self, channel: ChannelId) -> PipelineId {
        let pipelines = u16::from(self.limits.pipelines.max(1));
        PipelineId((channel.0.saturating_sub(1) % pipelines) as u8)
    }

    /// Whether this pipeline coordinates an operation: numbers are assigned round-robin, so two
    /// pipelines never share one.
    fn coordinates(&self, operation: OperationId) -> bool {
        let pipelines = u32::from(self.limits.pipelines.max(1));
        operation.0 > 0 && (operation.0 - 1) % pipelines == u32::from(self.pipeline.0)
    }

    /// The next number after `last` among those that this pipeline coordinates; none when they are
    /// used up.
    fn number_after(&self, last: u32) -> Option<u32> {
        match last {
            0 => Some(u32::from(self.pipeline.0) + 1),
            last => last.checked_add(u32::from(self.limits.pipelines.max(1))),
        }
    }

    /// A channel is up: connected, authenticated and attached.
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
        // A channel number is used once in a session's life; the driver's grants ensure that.
        debug_assert!(!self.channels.contains_key(&channel));
        if self.over {
            return self.outputs.push_back(Output::Close { channel, error: None });
        }
        if self.fences.contains(channel) {
            // The peer gave the channel up before it was up here.
            let error = Error::new(ErrorKind::ConnectionLost, "the peer lost the channel");
            return self.outputs.push_back(Output::Close { channel, error: Some(error) });
        }
        self.channels.insert(channel, fresh);
        self.idle.push_back(channel);
        self.end_channels_when_done();
    }

    /// The client requests a transfer: for an upload it sends, for a download it receives. The
    /// returned number identifies the operation from now on.
    pub fn open(&mut self, upload: bool, request: Request) -> Result<OperationId, Error> {
        let id = self.next_operation()?;
        let opening = self.first_up().unwrap_or_default();
        let (kind, terms) = (Kind::of_request(upload, &request), Terms::of_request(&request));
        // Old servers ignore it (P-63).
        let blinds = upload && request.hash && request.resume.is_some();
        let request = Request { unverified: request.unverified || blinds, ..request };
        let state = if upload {
            State::Sending(SendingHalf::asked(Some(request)))
        } else {
            State::Receiving(ReceivingHalf::asked(request))
        };
        let mut operation = Operation::new(id, kind, state, opening, terms);
        operation.announcements.owe(Pending::REQUEST);
        self.operations.insert(id, operation);
        Ok(id)
    }

    /// The number of a new operation, if one may be opened.
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

    /// The first operation travelled inside the handshake: it counts as requested on channel 1.
    /// (Client.)
    pub fn opened_in_handshake(&mut self, operation: OperationId) {
        if let Some(operation) = self.operations.get_mut(&operation) {
            operation.announcements.count_as_sent(Pending::REQUEST);
            operation.opening = ChannelId(1);
        }
    }

    /// Ends the session in an orderly way: no new operation, and EOFT on every channel once the
    /// present ones are over. The client ends first, so that no request reaches a server that can
    /// no longer reply; a server requests that with DRAIN.
    pub fn close(&mut self) {
        match self.role {
            Role::Client => {
                (self.closing, self.ending) = (true, true);
                self.end_channels_when_done();
            }
            Role::Server => self.drain(0),
        }
    }

    /// The server shuts down: notify the client and accept no new operation.
    pub fn drain(&mut self, retry_after_ms: u32) {
        self.closing = true;
        self.drain = Some(retry_after_ms);
    }

    /// The server shuts down. (Client.)
    fn on_drain(&mut self, retry_after_ms: u32) {
        self.closing = true;
        // With several pipelines only the application knows when none of them is needed any more.
        self.ending |= self.limits.pipelines <= 1;
        self.event(SessionEvent::Draining { retry_after_ms });
        self.end_channels_when_done();
    }

    /// Requests more channels. (Client.)
    pub fn want_channels(&mut self, count: u16) {
        self.wants = Some(self.wants.unwrap_or(0).saturating_add(count));
    }

    /// Grants more channels. (Server.)
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

    /// The live operations that this pipeline coordinates.
    fn live_coordinated(&self) -> usize {
        self.operations.values().filter(|operation| !operation.is_settled() && !operation.is_member()).count()
    }

    /// The operations, including settled ones until the peer is known to know their outcome.
    pub fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.operations.values()
    }

    /// Whether the session has ended.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Whether another record may arrive on the channel: the peer's EOFT is the last one.
    pub fn awaits(&self, channel: ChannelId) -> bool {
        self.channels.get(&channel).is_some_and(|state| !state.receive.has_ended())
    }

    /// Whether the session is ending in an orderly way.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// The negotiated values.
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

    /// Whether some operation still has to receive something. A peer that ends knows every outcome,
    /// and the operations that other pipelines coordinate learn theirs from those pipelines.
    fn needs_channels(&self) -> bool {
        if self.peer_ended { self.live_coordinated() > 0 } else { self.is_at_work() }
    }

    /// Sends EOFT on every channel once nothing is left to do. A client waits until the server is
    /// known to know every outcome, because none can be resent after EOFT. One EOFR proves that; a
    /// stalled channel may delay the others. A server waits only for the client's first EOFT.
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
        if operation.kind.is_to_server() { Event::Upload } else { Event::Download }
    }
}
