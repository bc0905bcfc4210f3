//! The driver of one machine, shaped like the pump of the engine: bytes in, machine, bytes out; one input, then every
//! output. It keeps the rules that the session's documentation sets a driver, and nothing of its own about the protocol.

mod receive;
mod send;

use crate::calls::Calls;
use crate::disk::{self, Disk};
use crate::network::{Network, Side};
use crate::oracle::Oracle;
use crate::plan::Plan;
use crate::port::{Incoming, Port};
use crate::random::Random;
use crate::schedule::{Event, Job, Schedule, Who};
use crate::trace::Trace;
use crate::transition::Milestone;
use std::collections::{BTreeMap, VecDeque};
use xdfs_proto::base::{ChannelId, Duration, ErrorKind, Instant, Level, OperationId, Safety};
use xdfs_proto::session::{ContentDigest, Output, Role, Session, SessionEvent, SessionLimits, StageFacts, TargetFacts};

/// Outputs that may follow one input: more mean that a queue grows. A session of 8 channels and a handful of operations
/// says at most a few things about each.
const OUTPUTS_MAX: usize = 200;

/// Operations that a machine may remember, as a multiple of those that may live: twice as many may not be known to be
/// over, and eight times as many may be over without the other end being known to know.
const OPERATIONS_MAX_KNOWN: usize = 10;

/// What all machines of a run share.
pub struct Around {
    /// What was decided.
    pub plan: Plan,
    /// The time.
    pub now: Instant,
    /// What happens later.
    pub schedule: Schedule,
    /// The wire.
    pub network: Network,
    /// Storage of both ends.
    pub disks: [Disk; 2],
    /// What must be true.
    pub oracle: Oracle,
    /// Small decisions.
    pub random: Random,
    /// What happened.
    pub trace: Trace,
    /// For the application above the machines.
    pub notices: VecDeque<(Who, Notice)>,
    /// The application makes no more connections.
    pub closing: bool,
    /// Operations of calls.
    pub calls: Calls,
    /// Place in the plan of every operation.
    pub ids: BTreeMap<OperationId, usize>,
}

/// What the application hears.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// From the machine.
    Session(SessionEvent),
    /// An operation reached a moment that faults wait for.
    Milestone(OperationId, Milestone),
    /// A block arrived.
    Block,
}

/// The driver of one machine, shaped like the engine's pump.
pub struct World {
    who: Who,
    /// The machine.
    pub session: Session,
    ports: BTreeMap<ChannelId, Port>,
    /// When the machine is to be called.
    timer: Option<Instant>,
    /// When the last message to another pipeline arrives: they stay in order.
    pipeline_at: Instant,
    /// The machine had a channel.
    connected: bool,
}

impl Around {
    fn disk(&mut self, who: Who) -> &mut Disk {
        &mut self.disks[who.side.index()]
    }

    fn job(&mut self, who: Who, job: Job) {
        let delay = self.disk(who).delay();
        self.schedule.add(self.now.after(delay), Event::Disk(who, job));
    }

    fn soon(&mut self, event: Event) {
        let delay = Duration::from_nanos(self.random.below(20_000));
        self.schedule.add(self.now.after(delay), event);
    }

    fn notice(&mut self, who: Who, notice: Notice) {
        self.notices.push_back((who, notice));
    }
}

impl World {
    /// A machine without channels.
    pub fn new(who: Who, plan: &Plan) -> Self {
        let role = if who.side == Side::Client { Role::Client } else { Role::Server };
        let limits = SessionLimits {
            control_level: Level::Integrity,
            floor: Level::Clear,
            block: plan.block,
            flow_window: plan.window,
            stall: plan.stall,
            operations_max: plan.operations_max,
            pipelines: plan.pipelines,
            channels: plan.channels,
            calls_room: xdfs_proto::limits::CALL_ROOM_MAX,
            keys: plan.keys,
        };
        let session = Session::new(role, xdfs_proto::base::PipelineId(who.pipeline), limits);
        Self { who, session, ports: BTreeMap::new(), timer: None, pipeline_at: Instant(0), connected: false }
    }

    fn role(&self) -> Role {
        if self.who.side == Side::Client { Role::Client } else { Role::Server }
    }

    /// A connection was made. Channel 1 is proved by the handshake, the others by JOIN; `early` sends records behind JOIN
    /// before it was answered.
    pub fn connect(&mut self, channel: ChannelId, secret: &[u8; 32], proved: bool, early: bool, around: &mut Around) {
        if self.session.is_over() {
            return around.network.close(around.now, channel, self.who.side, true);
        }
        let incoming = match (proved, self.who.side) {
            (true, _) => Incoming::Head(Vec::new()),
            (false, Side::Client) => Incoming::Answer(Vec::new()),
            (false, Side::Server) => Incoming::Join(Vec::new()),
        };
        let mut port = Port::new(channel, self.role(), secret, around.plan.keys, incoming, around.now);
        let joins = !proved && self.who.side == Side::Client;
        if joins {
            port.queue_join(channel);
        }
        self.ports.insert(channel, port);
        if joins {
            self.flush(channel, around);
        }
        if proved || (joins && early) {
            self.up(channel, around);
        }
    }

    fn up(&mut self, channel: ChannelId, around: &mut Around) {
        if let Some(port) = self.ports.get_mut(&channel).filter(|port| !port.up) {
            port.up = true;
            self.connected = true;
            self.session.on_channel(channel, around.now);
            self.pump(around);
        }
    }

    /// The regular look at the clock.
    pub fn on_tick(&mut self, around: &mut Around) {
        self.session.on_time(around.now);
        self.pump(around);
        let late = |port: &Port| !port.up && around.now.since(port.heard_at) >= around.plan.stall;
        let late: Vec<_> = self.ports.iter().filter(|(_, port)| late(port)).map(|(channel, _)| *channel).collect();
        for channel in late {
            self.lose(channel, ErrorKind::TimedOut, "JOIN takes too long", around);
        }
        // A connection in JOIN outlives its session until its deadline: the other end may have it up, and hears of the end
        // by its close alone.
        let unused = around.closing && !self.connected;
        if !self.ports.is_empty() || !(self.session.is_over() || unused) {
            around.schedule.add(around.now.after(around.plan.stall / 8), Event::Tick(self.who));
        }
    }

    /// The machine asked for this moment.
    pub fn on_timer(&mut self, around: &mut Around) {
        if self.timer != Some(around.now) {
            return;
        }
        self.timer = None;
        self.session.on_time(around.now);
        self.pump(around);
        if self.session.deadline().is_some_and(|deadline| deadline <= around.now) {
            let deadline = self.session.deadline();
            around.oracle.violation(|| format!("{:?}: the deadline {deadline:?} does not move on", self.who));
        }
    }

    /// Another pipeline of this side says something.
    pub fn on_pipeline_message(
        &mut self,
        from: u8,
        message: xdfs_proto::session::PipelineMessage,
        around: &mut Around,
    ) {
        around.trace.note(around.now, self.who, &message);
        self.session.on_pipeline_message(xdfs_proto::base::PipelineId(from), message);
        self.pump(around);
    }

    /// A storage call completes.
    pub fn on_job(&mut self, job: Job, around: &mut Around) {
        match job {
            Job::Open(id) => {
                let index = around.ids[&id];
                let wish = around.plan.operations[index].clone();
                let result = around.disk(self.who).open(id, index, &wish);
                self.session.on_opened(id, result);
            }
            Job::Stage(id) => {
                let index = around.ids[&id];
                let (wish, block) = (around.plan.operations[index].clone(), around.plan.block);
                let result = around.disk(self.who).stage(id, index, &wish, block);
                let resumed = result.as_ref().map_or(0, |(_, kept)| kept.iter().map(|range| range.length()).sum());
                around.oracle.resumed += resumed;
                let facts =
                    result.map(|(receive_window, kept)| StageFacts { receive_window, kept, ..StageFacts::default() });
                self.session.on_staged(id, facts);
            }
            Job::Execute(id) => {
                let begun = around.random.chance(500);
                let result = around.calls.answer(id, begun);
                self.session.on_answered(id, result);
            }
            Job::Write(id, extent, bytes) => return self.write(id, extent, bytes, around),
            Job::Check(id) => {
                let result = around.disk(self.who).check(id);
                self.session.set_digest(id, ContentDigest { root: Some([0; 32]), subtrees: Vec::new() });
                self.session.on_checked(id, result);
            }
            Job::Verify(id, length) => {
                let wish = around.plan.operations[around.ids[&id]].clone();
                let found = around.disks[self.who.side.index()].compare(id, &wish, length, around.plan.block);
                around.oracle.repaired += u64::from(!found.bad.is_empty());
                around.disk(self.who).void(id, &found.bad);
                self.session.on_verified(id, Ok(found));
            }
            Job::Commit(id) => match around.disk(self.who).commit(id) {
                Some(result) => {
                    let target = result.map(|version| TargetFacts { safety: Safety::Written, version });
                    self.session.on_committed(id, target);
                }
                None => around.oracle.violation(|| format!("commit of operation {id}, whose stage is gone")),
            },
        }
        self.pump(around);
    }

    /// One input was given: every output, then the time of the next look.
    pub fn pump(&mut self, around: &mut Around) {
        let mut count = 0;
        while let Some(output) = self.session.poll(around.now) {
            around.trace.note(around.now, self.who, &output);
            self.act(output, around);
            count += 1;
        }
        if count > OUTPUTS_MAX {
            around.oracle.violation(|| format!("{:?}: {count} outputs after one input", self.who));
        }
        let known = self.session.operations().count();
        if known > OPERATIONS_MAX_KNOWN * around.plan.operations_max.max(around.plan.operations.len()) {
            around.oracle.violation(|| format!("{:?} remembers {known} operations", self.who));
        }
        let deadline = self.session.deadline();
        if let Some(at) = deadline.filter(|at| self.timer.is_none_or(|timer| *at < timer)) {
            let at = at.max(around.now);
            self.timer = Some(at);
            around.schedule.add(at, Event::Timer(self.who));
        }
    }

    fn act(&mut self, output: Output, around: &mut Around) {
        match output {
            Output::Send { channel, head, payload } => self.send(channel, &head, payload, around),
            Output::Open { operation, request } => match disk::index_of(&request.name, &around.plan) {
                Some(index) if around.ids.get(&operation) == Some(&index) => {
                    around.oracle.asked(index);
                    around.job(self.who, Job::Open(operation));
                }
                _ => around.oracle.violation(|| format!("request of an unknown operation: {request:?}")),
            },
            Output::Stage { operation, grant, .. } => {
                if grant.is_none() {
                    around.oracle.asked(around.ids[&operation]);
                }
                around.notice(self.who, Notice::Milestone(operation, Milestone::Stage));
                around.job(self.who, Job::Stage(operation));
            }
            Output::Check { operation } => {
                around.disk(self.who).begin_check(operation);
                around.notice(self.who, Notice::Milestone(operation, Milestone::Check));
                around.job(self.who, Job::Check(operation));
            }
            Output::Verify { operation, length, .. } => around.job(self.who, Job::Verify(operation, length)),
            Output::Hash { .. } | Output::Again { .. } => {}
            Output::Commit { operation, length, .. } => {
                around.disk(self.who).begin_commit(operation, length);
                around.notice(self.who, Notice::Milestone(operation, Milestone::Commit));
                around.job(self.who, Job::Commit(operation));
            }
            Output::Execute { operation, .. } => {
                if let Err(wrong) = around.calls.on_execute(operation) {
                    around.oracle.violation(|| wrong);
                }
                around.job(self.who, Job::Execute(operation));
            }
            Output::Forget { .. } => {}
            Output::Abort { operation, .. } if around.calls.has(operation) => around.calls.abort(operation),
            Output::Abort { operation, keep } => {
                around.disk(self.who).abort(operation, keep);
                around.disk(self.who).close(operation);
            }
            Output::Close { channel, error } => {
                let port = self.ports.remove(&channel);
                if error.is_none() && port.is_some_and(|port| !port.out.is_empty()) {
                    around.oracle.violation(|| format!("channel {channel} is closed before its EOFT is out"));
                }
                around.oracle.closed(self.who, channel, error.as_ref());
                around.network.close(around.now, channel, self.who.side, error.is_some());
            }
            Output::Resume { channel } => around.soon(Event::Resume(self.who, channel)),
            Output::ToPipeline { to, message } => {
                let delay = Duration::from_nanos(around.random.magnitude(100, 200_000));
                self.pipeline_at = self.pipeline_at.max(around.now).after(delay);
                let to = Who { pipeline: to.0, ..self.who };
                around.schedule.add(self.pipeline_at, Event::ToPipeline { to, from: self.who.pipeline, message });
            }
            Output::Event(event) => {
                around.oracle.event(self.who, &event);
                around.notice(self.who, Notice::Session(event));
            }
        }
    }

    /// Whether the machine ended, or never had a channel to end.
    pub fn is_done(&self) -> bool {
        // The server's machine of such a pipeline is the session table's to drop.
        self.session.is_over() || !self.connected
    }

    /// Channels that are open at this end.
    pub fn channels(&self) -> impl Iterator<Item = ChannelId> {
        self.ports.keys().copied()
    }
}
