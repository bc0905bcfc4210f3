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
mod block_receiver;
mod block_sender;
mod call_service;
mod calls;
mod channels;
mod closure;
mod content_digest;
mod coordination;
mod fault;
mod fences;
mod heads;
mod input;
mod loss;
mod messages;
mod numbers;
mod operation;
mod operation_table;
mod outcome;
mod output;
mod poll;
mod receiving_half;
mod request;
mod retransmit;
mod sending_half;
mod storage;
#[cfg(test)]
mod tests;
mod verify;

use announcements::Pending;
pub use block_receiver::{BlockDecision, BlockReceiver, InvalidBlock};
pub use block_sender::{AckBeyondSent, BlockSender};
pub use call_service::CallService;
use channels::{Arriving, Channel, Channels};
use closure::Closure;
pub use content_digest::{Comparison, ContentDigest, Mismatch};
pub use coordination::{Half, PipelineMessage};
pub use fault::Fault;
use fences::{Fence, Fences};
use messages::SessionMessages;
use numbers::Numbers;
pub use operation::{Committed, Operation};
use operation::{Kind, State, Terms};
use operation_table::OperationTable;
pub use output::{Output, Payload, SessionEvent};
use receiving_half::ReceivingHalf;
use sending_half::SendingHalf;
pub use storage::{SourceFacts, StageFacts, TargetFacts};

use crate::base::{ChannelId, Duration, Error, ErrorKind, Instant, KeyLimits, Level, OperationId, PipelineId};
use crate::wire::Event;
use crate::wire::request::Request;
use crate::{limits, plan};
use alloc::collections::VecDeque;

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
    /// for [`crate::plan::flow_window`].
    pub flow_window: u64,
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
            flow_window: 0,
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
    /// The flow window for blocks of this size.
    pub(crate) fn flow_window_for(&self, block: u32) -> u64 {
        match self.flow_window {
            0 => plan::flow_window(self.channels, block),
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

/// The session state machine of one pipeline, for both ends and both directions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Session {
    role: Role,
    limits: SessionLimits,
    pipeline: PipelineId,
    channels: Channels,
    /// The channels that are lost.
    fences: Fences,
    operations: OperationTable,
    /// Numbers of the operations that this pipeline coordinates.
    numbers: Numbers,
    /// CREDIT for operations of other pipelines that have not yet asked this one to take part,
    /// oldest first.
    early: VecDeque<(OperationId, u64)>,
    /// Operation that sent a block last; the next one takes its turn after it.
    last_scheduled: OperationId,
    /// What is to be sent about the session itself.
    messages: SessionMessages,
    closure: Closure,
    outputs: VecDeque<Output>,
}

impl Session {
    /// Creates a session without channels.
    pub fn new(role: Role, pipeline: PipelineId, limits: SessionLimits) -> Self {
        Self {
            role,
            pipeline,
            channels: Channels::default(),
            fences: Fences::default(),
            operations: OperationTable::default(),
            numbers: Numbers::new(pipeline, limits.pipelines),
            early: VecDeque::new(),
            last_scheduled: OperationId(0),
            messages: SessionMessages::default(),
            closure: Closure::default(),
            outputs: VecDeque::new(),
            limits,
        }
    }

    /// The pipeline to which a channel of this session belongs.
    pub fn pipeline_of(&self, channel: ChannelId) -> PipelineId {
        let pipelines = u16::from(self.limits.pipelines.max(1));
        PipelineId((channel.0.saturating_sub(1) % pipelines) as u8)
    }

    /// A channel is up: connected, authenticated and attached.
    pub fn on_channel(&mut self, channel: ChannelId, now: Instant) {
        // A channel number is used once in a session's life; the driver's grants ensure that.
        debug_assert!(!self.channels.contains_key(&channel));
        if self.closure.is_over() {
            return self.outputs.push_back(Output::Close { channel, error: None });
        }
        if self.fences.contains(channel) {
            // The peer gave the channel up before it was up here.
            let error = Error::new(ErrorKind::ConnectionLost, "the peer lost the channel");
            return self.outputs.push_back(Output::Close { channel, error: Some(error) });
        }
        self.channels.insert(channel, now);
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
            State::Sending(SendingHalf::asked(request))
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
            return Err(Error::new(ErrorKind::Internal, "only the client opens operations"));
        }
        if self.closure.is_closing() || self.closure.is_over() {
            return Err(Error::new(ErrorKind::ConnectionLost, "the session is closed"));
        }
        if self.live_coordinated() >= self.limits.operations_max {
            return Err(Error::new(ErrorKind::LimitExceeded, "too many operations at a time in this session"));
        }
        self.numbers.use_next().ok_or_else(|| {
            Error::new(ErrorKind::LimitExceeded, "this session has used up its operation numbers: open another")
        })
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
                self.closure.end();
                self.end_channels_when_done();
            }
            Role::Server => self.drain(0),
        }
    }

    /// The server shuts down: notify the client and accept no new operation.
    pub fn drain(&mut self, retry_after_ms: u32) {
        self.closure.close();
        self.messages.drain(retry_after_ms);
    }

    /// The server shuts down. (Client.)
    fn on_drain(&mut self, retry_after_ms: u32) {
        if self.limits.pipelines <= 1 {
            self.closure.end();
        } else {
            // Only the application knows when none of them is needed any more.
            self.closure.close();
        }
        self.event(SessionEvent::Draining { retry_after_ms });
        self.end_channels_when_done();
    }

    /// Channels that are up.
    pub fn channels_up(&self) -> usize {
        self.channels.up().count()
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
        self.operations.values().filter(|operation| !operation.is_settled() && !operation.is_participant()).count()
    }

    /// The operations, including settled ones until the peer is known to know their outcome.
    pub fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.operations.values()
    }

    /// Whether the session has ended.
    pub fn is_over(&self) -> bool {
        self.closure.is_over()
    }

    /// Whether another record may arrive on the channel: the peer's EOFT is the last one.
    pub fn awaits(&self, channel: ChannelId) -> bool {
        self.channels.get(&channel).is_some_and(|state| !state.receive.has_ended())
    }

    /// Whether the session is ending in an orderly way.
    pub fn is_closing(&self) -> bool {
        self.closure.is_closing()
    }

    /// The negotiated values.
    pub fn limits(&self) -> &SessionLimits {
        &self.limits
    }

    fn first_up(&self) -> Option<ChannelId> {
        self.channels.up().next()
    }

    fn event(&mut self, event: SessionEvent) {
        self.outputs.push_back(Output::Event(event));
    }

    fn resume_parked(&mut self) {
        for (id, channel) in self.channels.iter_mut() {
            if channel.arriving == Arriving::Parked {
                channel.arriving = Arriving::Nothing;
                self.outputs.push_back(Output::Resume { channel: id });
            }
        }
    }

    /// Whether some operation still has to receive something. A peer that ends knows every outcome,
    /// and the operations that other pipelines coordinate learn theirs from those pipelines.
    fn needs_channels(&self) -> bool {
        if self.closure.has_peer_ended() { self.live_coordinated() > 0 } else { self.is_at_work() }
    }

    /// Sends EOFT on every channel once nothing is left to do. A client waits until the server is
    /// known to know every outcome, because none can be resent after EOFT. One EOFR proves that; a
    /// stalled channel may delay the others. A server waits only for the client's first EOFT.
    fn end_channels_when_done(&mut self) {
        let unknown = |operation: &Operation| !operation.is_participant() && operation.ended.is_empty();
        let waits = match self.role {
            Role::Client => self.needs_channels() || self.operations.values().any(unknown),
            Role::Server => self.needs_channels() || !self.closure.has_peer_ended(),
        };
        if self.closure.is_ending() && !waits {
            self.channels.push_ends();
        }
    }

    fn block_event(operation: &Operation) -> Event {
        if operation.kind.is_to_server() { Event::Upload } else { Event::Download }
    }
}
