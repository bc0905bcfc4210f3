//! Two ends of a session in memory: channels that deliver at once and in order, and storage that
//! completes at once unless a test holds it. This searches no interleavings; `tests/model` does
//! that with the same machines.

use crate::base::{ChannelId, Error, ErrorKind, Extent, Instant, KeyLimits, Level, OperationId, PipelineId, Safety};
use crate::session::{
    CallService, Committed, Comparison, HeadVerdict, Output, Payload, PipelineMessage, Role, Session, SessionEvent,
    SessionLimits, SourceFacts, StageFacts, TargetFacts,
};
use crate::wire::control::Grant;
use crate::wire::request::Request;
use crate::wire::{Control, Event, Flags, Head};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

/// Block size of all tests in this module.
pub(super) const BLOCK: u64 = 64 * 1024;
/// Length of every reply.
pub(super) const REPLY: u32 = 700;
/// Index of an end: 0 is the client, 1 the server.
pub(super) type Side = usize;
pub(super) const CLIENT: Side = 0;
pub(super) const SERVER: Side = 1;

/// Storage requests, which a test can hold back or refuse.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Step {
    Open,
    Stage,
    Check,
    Commit,
    Verify,
    Write,
    /// The calls of a batch.
    Execute,
}

/// How storage completes a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Hold,
    Refuse,
}

/// The events of one operation at one end.
#[derive(Default, Debug)]
pub(super) struct Story {
    pub(super) written: Vec<Extent>,
    pub(super) committed: Option<u64>,
    pub(super) aborted: bool,
    pub(super) outcome: Option<Result<Committed, Error>>,
    pub(super) grant: Option<Grant>,
    pub(super) again: Vec<Vec<Extent>>,
    /// How often its batch was executed, its reply arrived, and it was released.
    pub(super) executed: usize,
    pub(super) replied: usize,
    pub(super) forgotten: usize,
}

struct Held {
    side: Side,
    pipeline: usize,
    step: Step,
    operation: OperationId,
    extent: Extent,
}

/// Two ends of a session in memory with channels that deliver at once and in order.
pub(super) struct Pair {
    pub(super) ends: [Vec<Session>; 2],
    /// Records in flight to that side.
    wires: BTreeMap<(Side, ChannelId), VecDeque<(Head, Payload)>>,
    /// Channels that deliver nothing to that side for now.
    pub(super) frozen: BTreeSet<(Side, ChannelId)>,
    /// Channels whose transport accepts nothing more from that side.
    pub(super) full: BTreeSet<(Side, ChannelId)>,
    parked: BTreeSet<(Side, ChannelId)>,
    to_pipelines: VecDeque<(Side, PipelineId, PipelineId, PipelineMessage)>,
    answers: BTreeMap<(Side, Step), Answer>,
    held: Vec<Held>,
    /// Ranges that every stage has from an earlier attempt.
    pub(super) kept: Vec<Extent>,
    /// The server considers them unverified.
    pub(super) doubts: bool,
    /// Results of the next comparisons, one each.
    pub(super) found: VecDeque<Comparison>,
    /// Every request includes a hash.
    pub(super) hash: bool,
    /// Sources may be copies of what the client names.
    pub(super) resembles: bool,
    /// Reply to a request for a hash.
    pub(super) sum: Option<[u8; 32]>,
    /// Size of every source.
    pub(super) source: Option<u64>,
    pub(super) stories: BTreeMap<(Side, OperationId), Story>,
    pub(super) over: [Vec<Option<Error>>; 2],
    /// Blocks delivered, and those among them that were dropped.
    pub(super) blocks: usize,
    pub(super) dropped: usize,
    /// Records sent per event, by either side.
    pub(super) sent: BTreeMap<Event, usize>,
    pub(super) now: Instant,
    /// What every channel and direction has sealed.
    pub(super) epochs: BTreeMap<(Side, ChannelId), Sealed>,
    keys: KeyLimits,
}

/// The counters of a cipher.
#[derive(Default, Debug)]
pub(super) struct Sealed {
    pub(super) epoch: u16,
    pub(super) records: u64,
    bytes: u64,
}

impl Sealed {
    /// The record fits under the present key, and its head names that key.
    fn check(&mut self, head: &Head, keys: &KeyLimits) {
        assert_eq!((head.epoch, head.sequence), (self.epoch, self.records));
        let payload = if head.level == Level::Clear { 0 } else { u64::from(head.length) };
        (self.records, self.bytes) = (self.records + 1, self.bytes + 32 + payload);
        assert!(self.records <= keys.records && self.bytes <= keys.bytes, "{head:?} passes the limit: {self:?}");
        if head.event == Event::Rekey as u8 {
            *self = Self { epoch: self.epoch + 1, ..Self::default() };
        }
    }
}

impl Pair {
    /// A session of `channels` channels in `pipelines` pipelines, all up.
    pub(super) fn new(channels: u16, pipelines: u8) -> Self {
        Self::with_window(channels, pipelines, 0)
    }

    pub(super) fn with_window(channels: u16, pipelines: u8, blocks: u64) -> Self {
        Self::with_keys(channels, pipelines, blocks, KeyLimits::STANDARD)
    }

    pub(super) fn with_keys(channels: u16, pipelines: u8, blocks: u64, keys: KeyLimits) -> Self {
        let (block, flow_window) = (BLOCK as u32, blocks * BLOCK);
        let limits = SessionLimits { block, flow_window, pipelines, channels, keys, ..Default::default() };
        let end = |role| {
            let session = |number| Session::new(role, PipelineId(number), limits.clone());
            (0..pipelines).map(session).collect::<Vec<_>>()
        };
        let mut pair = Self {
            ends: [end(Role::Client), end(Role::Server)],
            wires: BTreeMap::new(),
            frozen: BTreeSet::new(),
            full: BTreeSet::new(),
            parked: BTreeSet::new(),
            to_pipelines: VecDeque::new(),
            answers: BTreeMap::new(),
            held: Vec::new(),
            kept: Vec::new(),
            doubts: false,
            found: VecDeque::new(),
            hash: false,
            resembles: false,
            sum: None,
            source: Some(0),
            stories: BTreeMap::new(),
            over: [Vec::new(), Vec::new()],
            blocks: 0,
            dropped: 0,
            sent: BTreeMap::new(),
            now: Instant(1_000_000),
            epochs: BTreeMap::new(),
            keys,
        };
        (1..=channels).for_each(|channel| pair.join(ChannelId(channel)));
        pair
    }

    pub(super) fn join(&mut self, channel: ChannelId) {
        for side in [CLIENT, SERVER] {
            self.wires.insert((side, channel), VecDeque::new());
            let now = self.now;
            self.session_of(side, channel).on_channel(channel, now);
        }
    }

    pub(super) fn client(&mut self) -> &mut Session {
        &mut self.ends[CLIENT][0]
    }

    pub(super) fn server(&mut self) -> &mut Session {
        &mut self.ends[SERVER][0]
    }

    fn session_of(&mut self, side: Side, channel: ChannelId) -> &mut Session {
        let pipeline = self.ends[side][0].pipeline_of(channel);
        &mut self.ends[side][usize::from(pipeline.0)]
    }

    /// The client requests an upload of `length` bytes from pipeline 0.
    pub(super) fn upload(&mut self, length: Option<u64>) -> OperationId {
        let hash = self.hash;
        self.client().open(true, Request { length, hash, ..request() }).unwrap()
    }

    /// The client requests a download of a source of `length` bytes from pipeline 0.
    pub(super) fn download(&mut self, length: u64) -> OperationId {
        self.source = Some(length);
        let hash = self.hash;
        self.client().open(false, Request { credit: 2 * BLOCK, hash, ..request() }).unwrap()
    }

    /// The client makes calls on pipeline 0.
    pub(super) fn calls(&mut self) -> OperationId {
        self.client().open_calls(CallService::Path, 9000).unwrap()
    }

    pub(super) fn hold(&mut self, side: Side, step: Step) {
        self.answers.insert((side, step), Answer::Hold);
    }

    pub(super) fn refuse(&mut self, side: Side, step: Step) {
        self.answers.insert((side, step), Answer::Refuse);
    }

    /// Storage completes what it held.
    pub(super) fn release(&mut self, side: Side, step: Step) {
        self.answers.remove(&(side, step));
        let (now, later) = core::mem::take(&mut self.held).into_iter().partition(|h| h.side == side && h.step == step);
        self.held = later;
        let now: Vec<Held> = now;
        for held in now {
            self.answer(held);
        }
    }

    /// The channel breaks: what is in flight is lost, and both sides notice.
    pub(super) fn cut(&mut self, channel: ChannelId) {
        self.cut_for(channel, CLIENT);
        self.cut_for(channel, SERVER);
    }

    /// As [`Pair::cut`], but only `side` notices; the other learns it from FENCE.
    pub(super) fn cut_for(&mut self, channel: ChannelId, side: Side) {
        self.wires.remove(&(CLIENT, channel));
        self.wires.remove(&(SERVER, channel));
        self.session_of(side, channel).on_lost(channel, Error::new(ErrorKind::ConnectionLost, "cut"));
    }

    /// Storage refuses what it held.
    pub(super) fn refuse_held(&mut self, side: Side, step: Step) {
        self.refuse(side, step);
        for held in core::mem::take(&mut self.held) {
            self.answer(held);
        }
    }

    /// Whether something is in flight to that side on the channel.
    pub(super) fn is_waiting(&self, side: Side, channel: ChannelId) -> bool {
        self.wires.get(&(side, channel)).is_some_and(|queue| !queue.is_empty())
    }

    /// Delivers and completes until nothing changes, advancing time when an end waits for it.
    pub(super) fn run(&mut self) {
        for _ in 0..10_000 {
            self.turn();
            let deadline = self.ends.iter().flatten().filter_map(Session::deadline).min();
            match deadline {
                Some(at) => self.now = self.now.max(at),
                None => return,
            }
            let now = self.now;
            self.ends.iter_mut().flatten().for_each(|session| session.on_time(now));
            if !self.drain() && self.wires.values().all(VecDeque::is_empty) && !self.frozen.is_empty() {
                // The test holds what is awaited.
                return;
            }
        }
        panic!("time passes for ever: {:?}", self.ends);
    }

    /// Delivers and completes until nothing changes at this moment.
    pub(super) fn turn(&mut self) {
        for _ in 0..100_000 {
            let drained = self.drain();
            let told = self.to_pipelines.pop_front().map(|(side, from, to, message)| {
                self.ends[side][usize::from(to.0)].on_pipeline_message(from, message);
            });
            let delivered = self.deliver();
            if !drained && told.is_none() && !delivered {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    /// The next record of the first channel that has one.
    pub(super) fn deliver(&mut self) -> bool {
        let ready = self
            .wires
            .iter()
            .find(|(key, queue)| !queue.is_empty() && !self.frozen.contains(key) && !self.parked.contains(key));
        let Some((&(side, channel), queue)) = ready else { return false };
        let (head, payload) = queue.front().cloned().unwrap();
        let now = self.now;
        let session = self.session_of(side, channel);
        let verdict = session.on_head(channel, &head, now).unwrap_or_else(|fault| panic!("{fault}: {head:?}"));
        let result = match (verdict, payload) {
            (HeadVerdict::Park, _) => {
                self.parked.insert((side, channel));
                return true;
            }
            (HeadVerdict::Control, Payload::Control(bytes)) => session.on_control(channel, &bytes, now),
            (HeadVerdict::Skip, _) => {
                self.dropped += usize::from(Event::from_code(head.event).is_some_and(Event::carries_block));
                self.session_of(side, channel).on_skipped(channel)
            }
            (HeadVerdict::Block { operation, offset, length }, Payload::Block(extent)) => {
                assert_eq!((offset, u64::from(length)), (extent.offset(), extent.length()));
                let result = session.on_block(channel);
                let pipeline = usize::from(session.pipeline_of(channel).0);
                self.blocks += 1;
                if result == Ok(true) {
                    self.ask(Held { side, pipeline, step: Step::Write, operation, extent });
                } else {
                    self.dropped += 1;
                }
                result.map(|_| ())
            }
            (HeadVerdict::Calls { operation, .. }, Payload::Calls) => {
                let taken = session.on_calls(channel, now);
                if taken == Ok(true) && side == CLIENT {
                    self.story(side, operation).replied += 1;
                }
                taken.map(|_| ())
            }
            (verdict, payload) => panic!("{verdict:?} for {payload:?}"),
        };
        result.unwrap_or_else(|fault| panic!("{fault}: {head:?}"));
        if let Some(queue) = self.wires.get_mut(&(side, channel)) {
            queue.pop_front();
        }
        true
    }

    /// Processes the outputs of both ends without delivering anything; returns whether there were
    /// any.
    pub(super) fn drain(&mut self) -> bool {
        let mut moved = false;
        for side in [CLIENT, SERVER] {
            for pipeline in 0..self.ends[side].len() {
                while let Some(output) = self.ends[side][pipeline].poll(self.now) {
                    moved = true;
                    self.output(side, pipeline, output);
                }
            }
        }
        moved
    }

    fn output(&mut self, side: Side, pipeline: usize, output: Output) {
        let none = Extent::default();
        let mut ask = |step, operation| self.ask(Held { side, pipeline, step, operation, extent: none });
        match output {
            Output::Open { operation, .. } => ask(Step::Open, operation),
            Output::Stage { operation, .. } => ask(Step::Stage, operation),
            Output::Check { operation } => ask(Step::Check, operation),
            Output::Verify { operation, .. } => ask(Step::Verify, operation),
            Output::Hash { .. } => {}
            Output::Again { operation, ranges } => self.story(side, operation).again.push(ranges),
            Output::Commit { operation, length, .. } => {
                self.story(side, operation).committed = Some(length);
                self.ask(Held { side, pipeline, step: Step::Commit, operation, extent: none });
            }
            Output::Execute { operation, .. } => {
                self.story(side, operation).executed += 1;
                self.ask(Held { side, pipeline, step: Step::Execute, operation, extent: none });
            }
            Output::Forget { operation } => self.story(side, operation).forgotten += 1,
            Output::Abort { operation, .. } => self.story(side, operation).aborted = true,
            Output::Send { channel, head, payload } => {
                if let Some(event) = Event::from_code(head.event) {
                    *self.sent.entry(event).or_default() += 1;
                }
                let expected = match &payload {
                    Payload::Control(bytes) => bytes.len() as u64,
                    Payload::Block(extent) => extent.length(),
                    Payload::Calls => head.length.into(),
                };
                assert_eq!(u64::from(head.length), expected);
                self.epochs.entry((side, channel)).or_default().check(&head, &self.keys);
                if let Payload::Control(bytes) = &payload
                    && !head.flags.has(Flags::REQUEST)
                {
                    let event = Event::from_code(head.event).unwrap();
                    assert!(Control::decode(event, bytes).unwrap().is_some());
                }
                if let Some(queue) = self.wires.get_mut(&(1 - side, channel)) {
                    queue.push_back((head, payload));
                    let now = self.now;
                    if !self.full.contains(&(side, channel)) {
                        self.ends[side][pipeline].on_sent(channel, now);
                    }
                }
            }
            Output::Close { channel, .. } => {
                // This side reads no more of it.
                self.wires.remove(&(side, channel));
            }
            Output::Resume { channel } => drop(self.parked.remove(&(side, channel))),
            Output::ToPipeline { to, message } => {
                self.to_pipelines.push_back((side, PipelineId(pipeline as u8), to, message));
            }
            Output::Event(event) => self.event(side, event),
        }
    }

    fn event(&mut self, side: Side, event: SessionEvent) {
        match event {
            SessionEvent::Granted { operation, grant } => self.story(side, operation).grant = Some(grant),
            SessionEvent::Settled { operation, outcome } => {
                let before = self.story(side, operation).outcome.replace(outcome);
                assert_eq!(before, None, "an outcome is told once");
            }
            SessionEvent::Over { error } => self.over[side].push(error),
            _ => {}
        }
    }

    fn ask(&mut self, held: Held) {
        match self.answers.get(&(held.side, held.step)) {
            Some(Answer::Hold) => self.held.push(held),
            _ => self.answer(held),
        }
    }

    fn answer(&mut self, Held { side, pipeline, step, operation, extent }: Held) {
        let refused = self.answers.get(&(side, step)) == Some(&Answer::Refuse);
        let error = || Error::new(ErrorKind::NoSpace, "refused by the test");
        let result = if refused { Err(error()) } else { Ok(()) };
        let now = self.now;
        let size = self.source;
        let kept = StageFacts { kept: self.kept.clone(), unverified: self.doubts, ..StageFacts::default() };
        let target = TargetFacts { safety: Safety::Written, version: alloc::vec![7] };
        let found = if step == Step::Verify { self.found.pop_front() } else { None }.unwrap_or_default();
        let session = &mut self.ends[side][pipeline];
        match step {
            Step::Verify => session.on_verified(operation, result.map(|()| found)),
            Step::Open => {
                let (version, resembles, sum) = (alloc::vec![5], self.resembles, self.sum);
                let facts = SourceFacts { size, mode: 0o644, modified: None, version, resembles, sum };
                session.on_opened(operation, result.map(|()| facts));
            }
            Step::Stage => session.on_staged(operation, result.map(|()| kept)),
            Step::Execute => session.on_answered(operation, result.map(|()| REPLY)),
            Step::Check => session.on_checked(operation, result),
            Step::Commit => session.on_committed(operation, result.map(|()| target)),
            Step::Write => {
                session.on_written(operation, extent, result, now);
                self.story(side, operation).written.push(extent);
            }
        }
    }

    pub(super) fn story(&mut self, side: Side, operation: OperationId) -> &mut Story {
        self.stories.entry((side, operation)).or_default()
    }

    /// Records are delivered one by one, each after a step of time, until `done`.
    pub(super) fn pass(&mut self, step: Duration, done: impl Fn(&mut Self) -> bool) {
        for _ in 0..10_000 {
            self.drain();
            self.deliver();
            self.drain();
            if done(self) {
                return;
            }
            self.now = self.now.after(step);
            let now = self.now;
            self.ends.iter_mut().flatten().for_each(|session| session.on_time(now));
        }
        panic!("it never comes: {:?}", self.ends);
    }

    /// Advances past the stall deadline; everything that can move is delivered before and after
    /// that.
    pub(super) fn pass_stall(&mut self) {
        let stall = self.client().limits().stall;
        self.now = self.now.after(stall);
        let now = self.now;
        self.ends.iter_mut().flatten().for_each(|session| session.on_time(now));
        self.turn();
    }
}

pub(super) fn request() -> Request {
    Request { name: b"e/file".to_vec(), mode: 0o644, ..Request::default() }
}
