//! The session and what its driver keeps: records on their way, questions to storage, heads that were parked. It checks
//! what a driver relies on, and nothing about what the session decides.

mod calls;
mod storage;

use super::step::{BLOCK, Back, Step};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use xdfs_proto::base::{
    ChannelId, Duration, Error, ErrorKind, Extent, Instant, KeyLimits, Level, OperationId, PipelineId,
};
use xdfs_proto::limits;
use xdfs_proto::plan;
use xdfs_proto::session::{
    Half, HeadVerdict, Output, Payload, PipelineMessage, Role, Session, SessionEvent, SessionLimits,
};
use xdfs_proto::wire::control::{ChannelGrant, Control};
use xdfs_proto::wire::request::Request;
use xdfs_proto::wire::{Event, Flags, Head};

/// Outputs that one input may bring. A session has a few channels, operations and pipelines; each may ask for a little.
const OUTPUTS_MAX: usize = 2000;
/// Channel numbers that are used in a run: enough for losses and replacements, few enough to keep their fences small.
const CHANNELS_MAX: u16 = 24;

/// Questions that wait for storage at a time.
const QUESTIONS_MAX: usize = 16;

/// Records of a key epoch: few, so that every run changes keys.
const EPOCH_RECORDS: u64 = 4;

/// A channel as its driver sees it.
#[derive(Default)]
struct Wire {
    /// Sequence of the peer's next record.
    receive: u64,
    receive_epoch: u16,
    /// Sequence of our next record.
    send: u64,
    send_epoch: u16,
    busy: bool,
    parked: Option<(Head, Vec<u8>)>,
}

impl Wire {
    fn received(&mut self, event: u8) {
        self.receive += 1;
        if event == Event::Rekey as u8 {
            (self.receive, self.receive_epoch) = (0, self.receive_epoch + 1);
        }
    }
}

enum Question {
    Open(OperationId),
    Stage(OperationId),
    Check(OperationId),
    Verify(OperationId),
    Commit(OperationId),
    Execute(OperationId),
}

/// The session under test and the state of its driver.
pub(super) struct World {
    session: Session,
    role: Role,
    now: Instant,
    wires: BTreeMap<ChannelId, Wire>,
    channels: u16,
    closed: BTreeSet<ChannelId>,
    /// Highest operation number so far.
    latest: u32,
    /// Highest that the session itself gave out.
    opened: u32,
    questions: VecDeque<Question>,
    blocks: VecDeque<(OperationId, Extent)>,
    /// Operations that are committing: each gets one answer.
    committing: BTreeSet<OperationId>,
    over: bool,
}

impl World {
    /// `shape`: role, pipelines, floor and channels in its lower bits.
    pub(super) fn new(shape: u8) -> Self {
        let role = if shape & 1 == 0 { Role::Server } else { Role::Client };
        let limits = SessionLimits {
            block: BLOCK,
            flow_window: 16 * u64::from(BLOCK),
            operations_max: 4,
            pipelines: if shape & 2 == 0 { 1 } else { 2 },
            channels: 3,
            floor: if shape & 4 == 0 { Level::Clear } else { Level::Integrity },
            keys: KeyLimits { records: EPOCH_RECORDS, ..KeyLimits::STANDARD },
            ..SessionLimits::default()
        };
        let session = Session::new(role, PipelineId(0), limits);
        let mut world = Self {
            session,
            role,
            now: Instant(1),
            wires: BTreeMap::new(),
            channels: 0,
            closed: BTreeSet::new(),
            latest: 0,
            opened: 0,
            questions: VecDeque::new(),
            blocks: VecDeque::new(),
            committing: BTreeSet::new(),
            over: false,
        };
        (0..=shape >> 3 & 3).for_each(|_| world.up());
        world.drain();
        world
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// The end: whatever is left must end when the session is told to.
    pub(super) fn finish(mut self) {
        self.session.end(None);
        self.drain();
        assert!(self.over && self.session.is_over());
        assert_eq!(self.session.channels_up(), 0);
        // Only what storage still works on may be open.
        while !self.questions.is_empty() {
            self.storage(false, 0, None);
            self.drain();
        }
        // An operation of the other pipeline ends when that one says so, as it does when one of its members fails.
        let of_other = |operation: &OperationId| self.session.limits().pipelines > 1 && operation.0.is_multiple_of(2);
        let ids: Vec<_> = self.session.operations().map(|operation| operation.id()).filter(of_other).collect();
        for id in ids {
            self.session.on_pipeline_message(PipelineId(1), PipelineMessage::Settled(id, false));
            self.drain();
        }
        assert_eq!(self.session.live_operations(), 0, "an operation outlives its session");
    }

    fn channel(&self, back: Back) -> Option<ChannelId> {
        let count = self.wires.len();
        if count == 0 { None } else { self.wires.keys().nth(usize::from(back) % count).copied() }
    }

    fn operation(&self, back: Back) -> OperationId {
        // Mostly one of the latest, sometimes one that was never opened.
        OperationId(match back % 8 {
            7 => self.latest.saturating_add(u32::from(back)),
            back => self.latest.saturating_sub(u32::from(back / 2)),
        })
    }

    pub(super) fn apply(&mut self, step: &Step) {
        match step {
            Step::Message { channel, operation, control, ask } => {
                let flags = if *ask { Flags::ASK } else { Flags::NONE };
                let event = control.event();
                let of_session =
                    matches!(event, Event::EndOfTransfer | Event::Nothing | Event::Fence | Event::Channels);
                let operation = if of_session { OperationId(0) } else { self.operation(*operation) };
                let mut control = control.clone();
                if let (Control::EndOfTransfer { records }, Some(channel)) = (&mut control, self.channel(*channel)) {
                    *records = self.wires[&channel].receive + *records / 200;
                }
                self.record(*channel, event as u8, operation, Level::Integrity, flags, 0, 0, control.encode());
            }
            Step::Raw { channel, operation, event, level, flags, skew, offset, payload } => {
                let flags = Flags(flags & Flags::KNOWN);
                let skew = u64::from(skew / 250);
                self.record(
                    *channel,
                    *event,
                    self.operation(*operation),
                    *level,
                    flags,
                    skew,
                    *offset,
                    payload.clone(),
                );
            }
            Step::Request { channel, upload, request } => {
                let event = if *upload { Event::Upload } else { Event::Download };
                let operation = self.next();
                let payload = request.encode();
                self.record(*channel, event as u8, operation, Level::Integrity, Flags::REQUEST, 0, 0, payload);
            }
            Step::Block { channel, operation, event, offset, length } => {
                let operation = self.operation(*operation);
                self.block(*channel, *event, operation, *offset, *length);
            }
            Step::Batch { .. } | Step::Reply { .. } | Step::Calls { .. } => self.calls(step),
            Step::Open { upload, request } => {
                let opened = self.session.open(*upload, request.clone());
                self.opened(opened);
            }
            Step::Storage { ok, size, window } => self.storage(*ok, *size, *window),
            Step::Written { ok } => {
                if let Some((operation, extent)) = self.blocks.pop_front() {
                    self.session.on_written(operation, extent, answer(*ok, ()), self.now);
                }
            }
            Step::Source { operation, available, ended } => {
                self.session.on_source(self.operation(*operation), *available, *ended);
            }
            other => self.transport(other),
        }
        self.drain();
    }

    /// The steps that have nothing to do with records and storage.
    fn transport(&mut self, step: &Step) {
        match step {
            Step::Sent { channel } => self.channel(*channel).into_iter().for_each(|channel| self.sent(channel)),
            Step::SentAll => {
                for _ in 0..4 {
                    let channels: Vec<_> = self.wires.keys().copied().collect();
                    channels.into_iter().for_each(|channel| self.sent(channel));
                    self.drain();
                }
            }
            Step::Up => self.up(),
            Step::Lost { channel } => {
                if let Some(channel) = self.channel(*channel) {
                    self.session.on_lost(channel, Error::new(ErrorKind::ConnectionLost, "cut"));
                }
            }
            Step::Progress { channel } => {
                if let Some(channel) = self.channel(*channel) {
                    self.session.on_progress(channel, self.now, self.now);
                }
            }
            Step::Time { milliseconds } => {
                self.now = self.now.after(Duration::from_millis(*milliseconds));
                self.session.on_time(self.now);
                let _ = self.session.deadline();
            }
            Step::Fail { operation, cancelled } => {
                let kind = if *cancelled { ErrorKind::Cancelled } else { ErrorKind::Storage };
                self.session.fail(self.operation(*operation), Error::new(kind, "given up"));
            }
            Step::Channels { count } => match self.role {
                Role::Client => self.session.want_channels((*count).into()),
                Role::Server => {
                    let grant = ChannelGrant { first: 30, count: (*count).into(), secret: [2; 32], life_ms: 9 };
                    self.session.give_channels(grant);
                }
            },
            Step::Close => self.session.close(),
            Step::Drain => self.session.drain(7),
            Step::ToPipeline { kind, operation, offset } => self.on_pipeline(*kind, *operation, *offset),
            _ => {}
        }
    }

    fn up(&mut self) {
        if self.channels < CHANNELS_MAX && !self.over {
            self.channels += 1;
            let channel = ChannelId(self.channels);
            // The peer may have given it up already: then the session closes it again.
            self.closed.remove(&channel);
            self.wires.insert(channel, Wire::default());
            self.session.on_channel(channel, self.now);
        }
    }

    fn sent(&mut self, channel: ChannelId) {
        if let Some(wire) = self.wires.get_mut(&channel).filter(|wire| wire.busy) {
            wire.busy = false;
            self.session.on_sent(channel, self.now);
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of a head")]
    fn record(
        &mut self,
        channel: Back,
        event: u8,
        operation: OperationId,
        level: Level,
        flags: Flags,
        skew: u64,
        offset: u64,
        payload: Vec<u8>,
    ) {
        let Some(channel) = self.channel(channel) else { return };
        let wire = &self.wires[&channel];
        if wire.parked.is_some() {
            return;
        }
        let (sequence, epoch) = (wire.receive + skew, wire.receive_epoch.wrapping_add(skew as u16));
        let length = payload.len() as u32;
        let head = Head { event, level, epoch, operation, sequence, offset, length, flags };
        self.arrive(channel, head, payload);
    }

    fn block(&mut self, channel: Back, event: u8, operation: OperationId, offset: u64, length: u32) {
        let Some(channel) = self.channel(channel) else { return };
        let wire = &self.wires[&channel];
        if wire.parked.is_some() {
            return;
        }
        let (level, sequence, epoch) = (Level::Integrity, wire.receive, wire.receive_epoch);
        let head = Head { event, level, epoch, operation, sequence, offset, length, flags: Flags::NONE };
        self.arrive(channel, head, Vec::new());
    }

    fn arrive(&mut self, channel: ChannelId, head: Head, payload: Vec<u8>) {
        let verdict = match self.session.on_head(channel, &head, self.now) {
            Ok(verdict) => verdict,
            Err(fault) => return self.session.on_fault(fault),
        };
        let result = match verdict {
            HeadVerdict::Control => self.session.on_control(channel, &payload, self.now),
            HeadVerdict::Skip => self.session.on_skipped(channel),
            HeadVerdict::Block { operation, offset, length } => {
                assert_eq!((operation, offset, length), (head.operation, head.offset, head.length));
                assert!(length > 0 && length <= limits::BLOCK_BYTES_MAX);
                let extent = Extent::new(offset, length.into()).expect("judged");
                let result = self.session.on_block(channel);
                if result == Ok(true) && self.blocks.len() < 64 {
                    self.blocks.push_back((operation, extent));
                }
                result.map(|_| ())
            }
            HeadVerdict::Calls { operation, length } => {
                assert_eq!((operation, length), (head.operation, head.length));
                assert!(length > 0 && length as usize <= limits::CALL_BYTES_MAX);
                self.session.on_calls(channel, self.now).map(|_| ())
            }
            HeadVerdict::Park => {
                if let Some(wire) = self.wires.get_mut(&channel) {
                    wire.parked = Some((head, payload));
                }
                return;
            }
        };
        match result {
            Ok(()) => self.wires.get_mut(&channel).into_iter().for_each(|wire| wire.received(head.event)),
            Err(fault) => self.session.on_fault(fault),
        }
    }

    fn on_pipeline(&mut self, kind: u8, operation: Back, offset: u64) {
        if self.session.limits().pipelines < 2 {
            return;
        }
        // A member reports about an operation of ours (odd), a coordinator settles one of its own (even).
        let id = self.operation(operation).0;
        let (ours, its) = (OperationId(id | 1), OperationId(id & !1));
        let other = PipelineId(1);
        let message = match kind % 5 {
            0 => {
                // The other pipeline's numbers are even, it starts an operation here once, and has as many as we may have.
                let its = self.session.operations().filter(|operation| operation.id().0 % 2 == 0);
                if its.filter(|operation| !operation.is_settled()).count() >= self.session.limits().operations_max {
                    return;
                }
                let fresh = OperationId(self.latest.saturating_add(2 - self.latest % 2));
                self.latest = fresh.0;
                let half = if kind & 8 == 0 { Half::Sending } else { Half::Receiving };
                let upload = (half == Half::Receiving) == (self.role == Role::Server);
                let range = Extent::new(offset.min(1 << 40) / u64::from(BLOCK) * u64::from(BLOCK), 9 * 65_536);
                let range = range.expect("far below 2^63");
                let kept = plan::within(
                    &Extent::new(0, offset % (1 << 40) / u64::from(BLOCK) * u64::from(BLOCK))
                        .into_iter()
                        .collect::<Vec<_>>(),
                    range,
                );
                let (hash, unverified) = (kind & 32 != 0, kind & 64 != 0);
                let level = Level::Clear;
                PipelineMessage::Start {
                    operation: fresh,
                    half,
                    upload,
                    range,
                    block: BLOCK,
                    level,
                    kept,
                    hash,
                    unverified,
                }
            }
            1 => PipelineMessage::Sent(ours),
            2 => PipelineMessage::Covered(ours),
            3 => PipelineMessage::Failed(ours, Error::new(ErrorKind::Storage, "elsewhere")),
            _ => PipelineMessage::Settled(its, kind & 16 != 0),
        };
        self.session.on_pipeline_message(other, message);
    }

    fn drain(&mut self) {
        for count in 0.. {
            assert!(count < OUTPUTS_MAX, "outputs without end");
            let Some(output) = self.session.poll(self.now) else { return };
            self.output(output);
        }
    }

    fn output(&mut self, output: Output) {
        match output {
            Output::Send { channel, head, payload } => self.send(channel, &head, payload),
            Output::Open { operation, .. } => {
                self.questions.push_back(Question::Open(operation));
            }
            Output::Stage { operation, .. } => {
                self.questions.push_back(Question::Stage(operation));
            }
            Output::Check { operation } => self.questions.push_back(Question::Check(operation)),
            Output::Verify { operation, .. } => self.questions.push_back(Question::Verify(operation)),
            Output::Hash { .. } | Output::Again { .. } => {}
            Output::Commit { operation, .. } => {
                assert!(self.committing.insert(operation), "an operation commits once");
                self.questions.push_back(Question::Commit(operation));
            }
            Output::Execute { operation, .. } => self.questions.push_back(Question::Execute(operation)),
            Output::Forget { operation } => {
                let known = |known: &xdfs_proto::session::Operation| known.id() == operation;
                assert!(!self.session.operations().any(known), "what is forgotten is not known any more");
            }
            Output::Abort { operation, .. } => {
                assert!(!self.committing.contains(&operation), "there is no way back from a commit");
                self.blocks.retain(|(of, _)| *of != operation);
            }
            Output::Close { channel, .. } => {
                // One that the peer gave up before it was up here closes as well.
                self.wires.remove(&channel);
                assert!(self.closed.insert(channel), "a channel closes once");
            }
            Output::Resume { channel } => {
                if let Some((head, payload)) = self.wires.get_mut(&channel).and_then(|wire| wire.parked.take()) {
                    self.arrive(channel, head, payload);
                }
            }
            Output::ToPipeline { to, .. } => assert!(to.0 < 2),
            Output::Event(SessionEvent::Over { .. }) => {
                assert!(!self.over, "a session ends once");
                self.over = true;
            }
            Output::Event(_) => {}
        }
        if self.questions.len() > QUESTIONS_MAX {
            // The pool of a driver is bounded as well: what does not fit is answered "busy" at once.
            self.questions.rotate_right(1);
            self.storage(false, 0, None);
        }
    }

    fn send(&mut self, channel: ChannelId, head: &Head, payload: Payload) {
        let pipelines = self.session.limits().pipelines;
        let Some(wire) = self.wires.get_mut(&channel) else {
            // Queued before the channel was closed, in the same round; a driver drops it.
            return;
        };
        assert!(!wire.busy, "one record at a time");
        assert_eq!((head.epoch, head.sequence), (wire.send_epoch, wire.send), "sequence numbers have no gap");
        assert_eq!(Head::decode(&head.encode()), Ok(*head));
        assert!(wire.send < EPOCH_RECORDS, "no key is used longer than it may be");
        wire.send += 1;
        if head.event == Event::Rekey as u8 {
            (wire.send, wire.send_epoch) = (0, wire.send_epoch + 1);
        }
        wire.busy = true;
        let event = Event::from_code(head.event).expect("a known event");
        match payload {
            Payload::Control(bytes) if head.flags.has(Flags::REQUEST) => {
                assert!(Request::decode(&bytes).is_ok() && self.role == Role::Client);
                assert_eq!(head.length as usize, bytes.len());
            }
            Payload::Control(bytes) => {
                assert_eq!(head.length as usize, bytes.len());
                let control = Control::decode(event, &bytes);
                assert!(matches!(control, Ok(Some(_))), "{event:?}: {control:?}");
            }
            Payload::Calls => {
                assert!(matches!(event, Event::Path | Event::File) && head.length <= self.session.calls_bytes_max());
                assert_eq!(head.flags.has(Flags::REQUEST), self.role == Role::Client);
            }
            Payload::Block(extent) => {
                assert!(event.carries_block() && extent.length() > 0);
                assert_eq!((head.offset, u64::from(head.length)), (extent.offset(), extent.length()));
                assert!(head.length <= limits::BLOCK_BYTES_MAX && pipelines > 0);
            }
        }
    }
}

fn answer<T>(ok: bool, value: T) -> Result<T, Error> {
    if ok { Ok(value) } else { Err(Error::new(ErrorKind::Storage, "storage says no")) }
}
