//! The state that is searched: real sessions at both ends, the records under way between them, what storage was asked,
//! and what the oracle knows.

use crate::marked::Marked;
use crate::oracle::{Oracle, length_of};
use crate::setting::{Plan, Setting};
use std::collections::VecDeque;
use xdfs_proto::base::{ChannelId, Duration, Extent, Instant, KeyLimits, OperationId, PipelineId};
use xdfs_proto::session::{CallService, Payload, PipelineMessage, Role, Session, SessionLimits};
use xdfs_proto::wire::Head;
use xdfs_proto::wire::request::{Request, Resume};

/// Version of every source: none changes.
pub const SOURCE: [u8; 1] = [1];
/// Which end: 0 is the client, 1 the server.
pub type Side = usize;
/// The end that opens operations.
pub const CLIENT: Side = 0;
/// The end that answers them.
pub const SERVER: Side = 1;
/// Bytes of a block: the smallest that the wire knows. No byte is moved, so the size costs nothing.
pub const BLOCK: u64 = 64 * 1024;

/// A record under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Record {
    /// Its head.
    pub head: Head,
    /// What follows.
    pub payload: Payload,
}

/// One end of a channel.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Line {
    /// Records on their way to this end.
    pub queue: VecDeque<Marked<Record>>,
    /// This end has closed it.
    pub closed: bool,
    /// It did so because the channel broke: the other end will notice.
    pub broken: bool,
    /// A record of this end is with the transport.
    pub busy: bool,
    /// The head at the front of the queue waits for `Resume`.
    pub parked: bool,
    /// The head at the front of the queue was judged, the rest of its record is arriving.
    pub open: bool,
}

/// What storage is asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// Open the source of a download.
    Open,
    /// Prepare the target.
    Stage,
    /// Look at the source again.
    Check,
    /// Compare what arrived with what was sent.
    Verify,
    /// Give the target its name.
    Commit,
    /// Write a block.
    Write,
    /// Do the calls of a batch.
    Execute,
    /// Begin none of them: that was asked in time.
    Spare,
}

/// A call to storage that has not returned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Job {
    /// At which end.
    pub side: Side,
    /// For which pipeline.
    pub pipeline: u8,
    /// What.
    pub step: Step,
    /// Which operation.
    pub operation: OperationId,
    /// Which range, for writes.
    pub extent: Extent,
}

/// The searched state: both sessions, records in flight, pending storage and the oracle.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    /// The machines: per side, one per pipeline.
    pub ends: [Vec<Marked<Session>>; 2],
    /// The channels as each side has them, channel 1 first.
    pub lines: [Vec<Line>; 2],
    /// Messages between the pipelines of a side, by `from * pipelines + to`.
    pub to_pipelines: [Vec<VecDeque<PipelineMessage>>; 2],
    /// Calls to storage, sorted.
    pub jobs: Vec<Job>,
    /// Blocks that the source of each upload of unknown length has shown, its end counted as one.
    pub shown: Vec<u64>,
    /// Ends of channels that may still break.
    pub breaks: u8,
    /// Whether all channels may still break at once.
    pub cut_all: bool,
    /// Storage calls that may still fail.
    pub storage_faults: u8,
    /// Cancels left.
    pub cancels: u8,
    /// Repetitions left.
    pub repeats: u8,
    /// Blocks that may still become others.
    pub flips: u8,
    /// The block that arrives is another one.
    pub altering: bool,
    /// Whether the server may still say that it goes down.
    pub drain: bool,
    /// The client closed the session.
    pub closing: bool,
    /// What storage has of the first operation from an earlier attempt, where attempts go on.
    pub kept: Vec<Extent>,
    /// Storage was told to drop the first operation's stage, where attempts go on, and whether it may keep what is there.
    pub dropped: Option<bool>,
    /// The truth.
    pub oracle: Oracle,
}

/// The moment at which everything happens: time is no part of the search.
pub const NOW: Instant = Instant(0);

/// Bytes of a batch, and of a reply.
pub const CALLS_BYTES: u32 = 9;

impl World {
    /// Every channel up, every operation opened, nothing sent.
    pub fn new(setting: &Setting) -> Self {
        Self::going_on(setting, &[])
    }

    /// The same where storage has something of the first operation from an earlier attempt.
    pub fn going_on(setting: &Setting, kept: &[Extent]) -> Self {
        let limits = SessionLimits {
            block: BLOCK as u32,
            flow_window: setting.window * BLOCK,
            operations_max: 4,
            pipelines: setting.pipelines,
            channels: setting.channels,
            keys: KeyLimits { records: setting.epoch, bytes: u64::MAX, age: Duration::MAX },
            ..SessionLimits::default()
        };
        let end = |role| -> Vec<Session> {
            (0..setting.pipelines).map(|number| Session::new(role, PipelineId(number), limits.clone())).collect()
        };
        let mut ends = [end(Role::Client), end(Role::Server)];
        for channel in (1..=setting.channels).map(ChannelId) {
            for sessions in &mut ends {
                let pipeline = sessions[0].pipeline_of(channel);
                sessions[usize::from(pipeline.0)].on_channel(channel, NOW);
            }
        }
        for (index, plan) in setting.plans.iter().enumerate() {
            let client = &mut ends[CLIENT][usize::from(plan.coordinator)];
            let opened = match plan.calls {
                true => client.open_calls(CallService::Path, CALLS_BYTES),
                false => client.open(plan.upload, request(setting, plan, kept)),
            };
            assert_eq!(opened.ok(), Some(number(setting, index)), "the plans of a setting fit its session");
        }
        let lines = vec![Line::default(); usize::from(setting.channels)];
        let queues = vec![VecDeque::new(); usize::from(setting.pipelines).pow(2)];
        Self {
            ends: ends.map(|sessions| sessions.into_iter().map(Marked::new).collect()),
            lines: [lines.clone(), lines],
            to_pipelines: [queues.clone(), queues],
            jobs: Vec::new(),
            shown: vec![0; setting.plans.len()],
            breaks: setting.breaks,
            cut_all: setting.cut_all,
            storage_faults: setting.storage_faults,
            cancels: setting.cancels,
            repeats: setting.repeats,
            flips: setting.flips,
            altering: false,
            drain: setting.drain,
            closing: false,
            kept: kept.to_vec(),
            dropped: None,
            oracle: Oracle::new(setting, kept),
        }
    }

    /// The pipeline of a channel.
    pub fn pipeline_of(&self, channel: ChannelId) -> usize {
        usize::from(self.ends[CLIENT][0].pipeline_of(channel).0)
    }
}

/// Number of a plan's operation: each pipeline deals out its own, in turns.
pub fn number(setting: &Setting, index: usize) -> OperationId {
    let plan = &setting.plans[index];
    let before = setting.plans[..index].iter().filter(|other| other.coordinator == plan.coordinator).count() as u32;
    OperationId(1 + u32::from(plan.coordinator) + before * u32::from(setting.pipelines))
}

/// The plan of an operation.
pub fn plan_of(setting: &Setting, operation: OperationId) -> usize {
    let found = (0..setting.plans.len()).find(|index| number(setting, *index) == operation);
    found.expect("machines speak of opened operations only")
}

fn request(setting: &Setting, plan: &Plan, kept: &[Extent]) -> Request {
    let kept = if plan.upload { Vec::new() } else { kept.to_vec() };
    Request {
        durable: setting.resumes,
        resume: setting.resumes.then(|| Resume { source: SOURCE.to_vec(), kept }),
        name: b"e/f".to_vec(),
        length: (plan.upload && plan.known).then(|| length_of(plan.blocks)),
        credit: setting.credit * BLOCK,
        hash: setting.hash,
        ..Request::default()
    }
}
