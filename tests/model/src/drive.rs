//! A driver for the machines as small as one can be: one input, then every output, then wait.

use crate::action::{ACK_IS_DUE, Action, PATIENCE_IS_OUT};
use crate::marked::Marked;
use crate::oracle::{Told, Violation, length_of};
use crate::setting::Setting;
use crate::world::{BLOCK, CALLS_BYTES, CLIENT, Job, NOW, Record, SERVER, SOURCE, Side, Step, World, plan_of};
use xdfs_proto::base::{ChannelId, Error, ErrorKind, Extent, Instant, OperationId};
use xdfs_proto::session::{
    ContentDigest, Fault, HeadVerdict, Output, Payload, Session, SessionEvent, SourceFacts, StageFacts, TargetFacts,
};
use xdfs_proto::wire::control::{Control, Safety};
use xdfs_proto::wire::{Event, Flags};

impl World {
    /// Takes what every machine wants at first.
    pub fn start(&mut self, setting: &Setting) {
        for side in [CLIENT, SERVER] {
            for pipeline in 0..self.ends[side].len() {
                self.drain(setting, side, pipeline, NOW);
            }
        }
        self.ends.iter_mut().flatten().for_each(Marked::mark);
    }

    /// Lets one thing happen.
    pub fn apply(&mut self, setting: &Setting, action: Action) {
        self.happen(setting, action);
        self.ends.iter_mut().flatten().for_each(Marked::mark);
    }

    fn happen(&mut self, setting: &Setting, action: Action) {
        match action {
            Action::Deliver(side, channel) => self.deliver(setting, side, channel),
            Action::Alter(side, channel) => {
                self.flips -= 1;
                self.altering = true;
                self.deliver(setting, side, channel);
                self.altering = false;
            }
            Action::Accept(side, channel) => {
                self.lines[side][index_of(channel)].busy = false;
                self.input(setting, side, self.pipeline_of(channel), |session| session.on_sent(channel, NOW));
            }
            Action::ToPipeline(side, from, to) => {
                let queue = &mut self.to_pipelines[side]
                    [usize::from(from.0) * usize::from(setting.pipelines) + usize::from(to.0)];
                let Some(message) = queue.pop_front() else { return };
                self.input(setting, side, usize::from(to.0), |session| session.on_pipeline_message(from, message));
            }
            Action::Storage(job, well) => self.storage(setting, job, well),
            Action::Source(operation) => self.source(setting, operation),
            Action::Lose(side, channel) => {
                if !self.lines[1 - side][index_of(channel)].broken {
                    self.breaks -= 1;
                }
                self.lose(setting, side, channel);
            }
            Action::CutAll => {
                self.cut_all = false;
                for line in self.lines.iter_mut().flatten() {
                    line.queue.clear();
                }
                for side in [CLIENT, SERVER] {
                    for channel in 1..=setting.channels {
                        self.lose(setting, side, ChannelId(channel));
                    }
                }
            }
            Action::Cancel(side, operation) => {
                self.cancels -= 1;
                let pipeline = usize::from(setting.plans[plan_of(setting, operation)].coordinator);
                let error = Error::new(ErrorKind::Cancelled, "cancelled");
                self.input(setting, side, pipeline, |session| session.fail(operation, error));
            }
            Action::Repeat(side, pipeline) => {
                self.repeats -= 1;
                self.drain(setting, side, usize::from(pipeline.0), PATIENCE_IS_OUT);
            }
            Action::Tick(side, pipeline) => {
                self.input(setting, side, usize::from(pipeline.0), |session| session.on_time(ACK_IS_DUE));
            }
            Action::Close => {
                self.closing = true;
                for pipeline in 0..usize::from(setting.pipelines) {
                    self.input(setting, CLIENT, pipeline, Session::close);
                }
            }
            Action::Drain => {
                self.drain = false;
                for pipeline in 0..usize::from(setting.pipelines) {
                    self.input(setting, SERVER, pipeline, |session| session.drain(0));
                }
            }
        }
    }

    fn input(&mut self, setting: &Setting, side: Side, pipeline: usize, input: impl FnOnce(&mut Session)) {
        input(self.ends[side][pipeline].change());
        self.drain(setting, side, pipeline, NOW);
    }

    fn lose(&mut self, setting: &Setting, side: Side, channel: ChannelId) {
        let error = Error::new(ErrorKind::ConnectionLost, "broken");
        self.input(setting, side, self.pipeline_of(channel), |session| session.on_lost(channel, error));
    }

    fn deliver(&mut self, setting: &Setting, side: Side, channel: ChannelId) {
        let pipeline = self.pipeline_of(channel);
        let line = &mut self.lines[side][index_of(channel)];
        let Some(record) = line.queue.front().cloned() else { return };
        if !line.open {
            let judged = self.ends[side][pipeline].change().on_head(channel, &record.head, NOW);
            match judged {
                Err(fault) => return self.oracle.wrong(Violation::Fault(fault)),
                Ok(HeadVerdict::Park) => {
                    line.parked = true;
                    return;
                }
                Ok(HeadVerdict::Block { .. }) if setting.halves => {
                    line.open = true;
                    return;
                }
                Ok(verdict) => self.complete(setting, side, channel, &record, verdict),
            }
        } else {
            line.open = false;
            let Payload::Block(extent) = record.payload else { return };
            let (offset, length) = (extent.offset(), extent.length() as u32);
            let verdict = HeadVerdict::Block { operation: record.head.operation, offset, length };
            self.complete(setting, side, channel, &record, verdict);
        }
        self.drain(setting, side, pipeline, NOW);
    }

    fn complete(&mut self, setting: &Setting, side: Side, channel: ChannelId, record: &Record, verdict: HeadVerdict) {
        let pipeline = self.pipeline_of(channel);
        self.lines[side][index_of(channel)].queue.pop_front();
        self.oracle.on_processed(side, channel);
        let (head, session) = (&record.head, self.ends[side][pipeline].change());
        let result = match (verdict, &record.payload) {
            (HeadVerdict::Control, Payload::Control(bytes)) => {
                if let Some(Control::Fence { channel, processed }) = decoded(head.event, head.flags, bytes) {
                    self.oracle.on_fence_heard(side, channel, processed);
                }
                session.on_control(channel, bytes, NOW)
            }
            (HeadVerdict::Skip, payload) => {
                let ledger = matches!(payload, Payload::Block(_)).then(|| plan_of(setting, head.operation));
                if ledger.is_some_and(|plan| self.oracle.ledgers[plan].told[side].is_none()) {
                    self.oracle.dropped = true;
                }
                session.on_skipped(channel)
            }
            (HeadVerdict::Block { operation, offset, length }, Payload::Block(extent)) => {
                if (offset, u64::from(length)) != (extent.offset(), extent.length()) {
                    self.oracle.wrong(Violation::Place);
                }
                let result = session.on_block(channel);
                match result {
                    Ok(true) => self.write(setting, side, pipeline, operation, *extent),
                    _ => self.oracle.dropped = true,
                }
                result.map(|_| ())
            }
            (HeadVerdict::Calls { .. }, Payload::Calls) => session.on_calls(channel, NOW).map(|_| ()),
            (_, _) => Err(Fault::Channel),
        };
        if let Err(fault) = result {
            self.oracle.wrong(Violation::Fault(fault));
        }
    }

    fn write(&mut self, setting: &Setting, side: Side, pipeline: usize, operation: OperationId, extent: Extent) {
        let job = Job { side, pipeline: pipeline as u8, step: Step::Write, operation, extent };
        if setting.slow_writes {
            return self.ask(job);
        }
        self.oracle.on_written(plan_of(setting, operation), extent, self.altering);
        self.ends[side][pipeline].change().on_written(operation, extent, Ok(()), NOW);
    }

    fn ask(&mut self, job: Job) {
        self.jobs.push(job);
        self.jobs.sort_unstable();
    }

    fn storage(&mut self, setting: &Setting, job: Job, well: bool) {
        let Some(at) = self.jobs.iter().position(|other| *other == job) else { return };
        self.jobs.remove(at);
        if matches!(job.step, Step::Execute | Step::Spare) {
            // One of the two happens.
            self.jobs.retain(|other| other.operation != job.operation);
        }
        self.storage_faults -= u8::from(!well);
        let Job { side, pipeline, step, operation, extent } = job;
        let plan = plan_of(setting, operation);
        let result = if well { Ok(()) } else { Err(Error::new(ErrorKind::NoSpace, "full")) };
        match step {
            Step::Write if well => self.oracle.on_written(plan, extent, false),
            Step::Commit | Step::Execute if well => self.oracle.on_committed(plan),
            _ => {}
        }
        let size = Some(length_of(setting.plans[plan].blocks));
        let found = self.oracle.compare(plan);
        let kept = self.kept.clone();
        self.input(setting, side, usize::from(pipeline), |session| match step {
            Step::Open => {
                let version = if setting.resumes { SOURCE.to_vec() } else { Vec::new() };
                let facts = SourceFacts { size, version, ..SourceFacts::default() };
                session.on_opened(operation, result.map(|()| facts));
            }
            Step::Stage => {
                let facts = StageFacts { kept, ..StageFacts::default() };
                session.on_staged(operation, result.map(|()| facts));
            }
            Step::Check => {
                session.set_digest(operation, ContentDigest { root: Some([0; 32]), subtrees: Vec::new() });
                session.on_checked(operation, result);
            }
            Step::Verify => session.on_verified(operation, result.map(|()| found)),
            Step::Commit => {
                let safety = if setting.resumes { Safety::Durable } else { Safety::Written };
                let target = TargetFacts { safety, version: Vec::new() };
                session.on_committed(operation, result.map(|()| target));
            }
            Step::Execute => session.on_answered(operation, result.map(|()| CALLS_BYTES)),
            Step::Spare => session.on_answered(operation, Err(Error::new(ErrorKind::Cancelled, "not begun"))),
            Step::Write => session.on_written(operation, extent, result, NOW),
        });
    }

    /// The commit that was asked for comes to its end, by a plan that is carried out outside of this world.
    pub fn commit_returns(&mut self, setting: &Setting, job: Job, result: Result<(), Error>) {
        self.jobs.retain(|other| *other != job);
        if result.is_ok() {
            self.oracle.on_committed(plan_of(setting, job.operation));
        }
        let target = TargetFacts { safety: Safety::Durable, version: Vec::new() };
        let result = result.map(|()| target);
        self.input(setting, job.side, usize::from(job.pipeline), |session| {
            session.on_committed(job.operation, result);
        });
        self.ends.iter_mut().flatten().for_each(Marked::mark);
    }

    /// Storage of the first operation's target fails beside every call that it was asked for.
    pub fn storage_fails(&mut self, setting: &Setting, error: Error) {
        let (side, plan) = (self.oracle.ledgers[0].target, &setting.plans[0]);
        let operation = crate::world::number(setting, 0);
        self.input(setting, side, usize::from(plan.coordinator), |session| session.fail(operation, error));
        self.ends.iter_mut().flatten().for_each(Marked::mark);
    }

    fn source(&mut self, setting: &Setting, operation: OperationId) {
        let index = plan_of(setting, operation);
        let plan = &setting.plans[index];
        self.shown[index] += 1;
        let ended = self.shown[index] > plan.blocks;
        let available =
            if ended { length_of(plan.blocks) } else { (self.shown[index] * BLOCK).min(length_of(plan.blocks)) };
        self.input(setting, CLIENT, usize::from(plan.coordinator), |session| {
            session.on_source(operation, available, ended);
        });
    }

    /// Takes every output of one machine.
    fn drain(&mut self, setting: &Setting, side: Side, pipeline: usize, now: Instant) {
        while self.oracle.violation.is_none() {
            let Some(output) = self.ends[side][pipeline].change().poll(now) else { return };
            self.output(setting, side, pipeline, output, now);
        }
    }

    fn output(&mut self, setting: &Setting, side: Side, pipeline: usize, output: Output, now: Instant) {
        let job = |step, operation| Job { side, pipeline: pipeline as u8, step, operation, extent: Extent::default() };
        match output {
            Output::Send { channel, head, payload } => self.send(setting, side, channel, Record { head, payload }, now),
            Output::Open { operation, .. } => self.ask(job(Step::Open, operation)),
            Output::Stage { operation, .. } => self.ask(job(Step::Stage, operation)),
            Output::Check { operation } => self.ask(job(Step::Check, operation)),
            Output::Verify { operation, .. } => self.ask(job(Step::Verify, operation)),
            Output::Hash { .. } => {}
            Output::Again { operation, ranges } => {
                let plan = plan_of(setting, operation);
                if side != self.oracle.ledgers[plan].target {
                    self.oracle.on_again(plan, &ranges);
                }
            }
            Output::Commit { operation, length, .. } => {
                self.oracle.on_commit(plan_of(setting, operation), side, length);
                self.detach(side, operation);
                self.ask(job(Step::Commit, operation));
            }
            Output::Execute { operation, .. } => {
                self.oracle.on_commit(plan_of(setting, operation), side, 0);
                self.ask(job(Step::Execute, operation));
            }
            Output::Forget { .. } => {}
            Output::Abort { operation, keep } => {
                if setting.resumes && side == self.oracle.ledgers[plan_of(setting, operation)].target {
                    self.dropped = Some(keep);
                }
                if self.jobs.contains(&job(Step::Execute, operation)) {
                    self.ask(job(Step::Spare, operation));
                }
                self.detach(side, operation);
            }
            Output::Close { channel, error } => self.close(side, channel, error.is_some()),
            Output::Resume { channel } => self.lines[side][index_of(channel)].parked = false,
            Output::ToPipeline { to, message } => {
                let index = pipeline * usize::from(setting.pipelines) + usize::from(to.0);
                self.to_pipelines[side][index].push_back(message);
            }
            Output::Event(SessionEvent::Settled { operation, outcome }) => {
                let told = outcome.map_or_else(|error| Told::Failed(error.kind), |_| Told::Committed);
                let alone = self.ends[side][pipeline].is_over();
                self.oracle.on_told(plan_of(setting, operation), side, told, alone);
            }
            Output::Event(_) => {}
        }
    }

    fn send(&mut self, setting: &Setting, side: Side, channel: ChannelId, record: Record, now: Instant) {
        match &record.payload {
            Payload::Block(extent) => {
                // Every epoch but the present one was used up.
                let to = (channel, u64::from(record.head.epoch) * setting.epoch + record.head.sequence);
                self.oracle.on_block_sent(plan_of(setting, record.head.operation), *extent, to, now == PATIENCE_IS_OUT);
            }
            Payload::Control(bytes) => {
                if let Some(Control::Fence { channel, processed }) =
                    decoded(record.head.event, record.head.flags, bytes)
                {
                    self.oracle.on_fence_sent(side, channel, processed);
                }
            }
            Payload::Calls => {}
        }
        let there = &mut self.lines[1 - side][index_of(channel)];
        if !there.closed {
            there.queue.push_back(Marked::new(record));
        }
        if setting.slow_transport {
            self.lines[side][index_of(channel)].busy = true;
        } else {
            let pipeline = self.pipeline_of(channel);
            self.ends[side][pipeline].change().on_sent(channel, NOW);
        }
    }

    /// Nothing is written to a stage any more: what is still open on a channel is read and dropped.
    fn detach(&mut self, side: Side, operation: OperationId) {
        self.jobs.retain(|job| !(job.side == side && job.operation == operation && job.step == Step::Write));
    }

    fn close(&mut self, side: Side, channel: ChannelId, broken: bool) {
        let pipeline = self.pipeline_of(channel);
        let line = &mut self.lines[side][index_of(channel)];
        if let Some(late) = line.queue.front() {
            // Whatever the driver did with it, the machine would not have it.
            let refused = (*self.ends[side][pipeline]).clone().on_head(channel, &late.head, NOW);
            if refused != Err(Fault::Channel) {
                self.oracle.wrong(Violation::Fence);
            }
        }
        line.queue.clear();
        (line.closed, line.broken) = (true, broken);
        (line.busy, line.parked, line.open) = (false, false, false);
    }
}

fn index_of(channel: ChannelId) -> usize {
    usize::from(channel.0) - 1
}

/// A control message, or none for a request.
fn decoded(event: u8, flags: Flags, bytes: &[u8]) -> Option<Control> {
    if flags.has(Flags::REQUEST) {
        return None;
    }
    Control::decode(Event::from_code(event)?, bytes).ok().flatten()
}

impl World {
    /// Whether everything that was begun came to its end: every operation is settled where it is known, nothing is
    /// remembered about any, and a session that was closed is over.
    pub fn has_ended(&self, setting: &Setting) -> bool {
        let settled = |session: &Session| {
            session.live_operations() == 0 && (session.is_over() || session.operations().count() == 0)
        };
        let sessions = self.ends.iter().flatten().all(|session| settled(session));
        let told = self.oracle.ledgers.iter().all(|ledger| ledger.told[CLIENT].is_some());
        let closed = !setting.close || self.ends.iter().flatten().all(|session| session.is_over());
        let empty = self.lines.iter().flatten().all(|line| line.queue.is_empty());
        sessions && told && closed && empty
    }
}
