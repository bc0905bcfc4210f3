//! A run: both ends, the wire between them, the application above them, from the first connection to the last word.

use crate::application::Application;
use crate::calls::Calls;
use crate::disk::Disk;
use crate::network::{Network, Side, Wake};
use crate::oracle::Oracle;
use crate::plan::Plan;
use crate::random::Random;
use crate::schedule::{Event, Schedule, Who};
use crate::trace::Trace;
use crate::transition::{Fault, Options};
use crate::world::{Around, Notice, World};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use xdfs_proto::base::{ChannelId, Duration, Instant};

/// A run that has not ended by then hangs. The longest fault is a stall, and a handful of them may follow each other.
const TIME_MAX: Duration = Duration::from_secs(60);
/// A run of this many events hangs without letting time pass.
const EVENTS_MAX: u64 = 2_000_000;

/// What a run showed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// What was wrong, if something was.
    pub violation: Option<String>,
    /// Blocks that arrived.
    pub blocks: u64,
    /// Keys that were followed by another.
    pub rekeyed: u64,
    /// Comparisons that found another content.
    pub repaired: u64,
    /// Bytes that attempts went on with behind a restart.
    pub resumed: u64,
    /// Kinds of fault that struck, and how often.
    pub fired: BTreeMap<Fault, u64>,
    /// Virtual time.
    pub time: Duration,
    /// Events.
    pub events: u64,
    /// Equal for equal runs.
    pub trace: u64,
}

/// Both ends and all between them.
pub(crate) struct Simulation {
    pub(crate) worlds: Vec<World>,
    pub(crate) around: Around,
    pub(crate) application: Application,
}

/// Runs `seed`.
pub fn run(seed: u64, options: &Options, print: bool) -> Report {
    let plan = Plan::draw(seed, options);
    if print {
        println!("{plan:#?}");
    }
    let mut simulation = Simulation::new(seed, plan, print);
    simulation.start();
    simulation.run(seed, options)
}

impl Simulation {
    fn new(seed: u64, plan: Plan, print: bool) -> Self {
        let random = Random::new(seed);
        let machines =
            Side::BOTH.into_iter().flat_map(|side| (0..plan.pipelines).map(move |p| Who { side, pipeline: p }));
        let worlds = machines.map(|who| World::new(who, &plan)).collect();
        let application = Application::new(random.fork(2), &plan);
        let around = Around {
            now: Instant(0),
            schedule: Schedule::new(random.fork(3)),
            network: Network::new(random.fork(4)),
            disks: [Disk::new(random.fork(5), plan.slow_disk), Disk::new(random.fork(6), plan.slow_disk)],
            oracle: Oracle::new(&plan),
            random: random.fork(7),
            trace: Trace::new(print),
            notices: VecDeque::new(),
            ids: BTreeMap::new(),
            calls: Calls::default(),
            closing: false,
            plan,
        };
        Self { worlds, around, application }
    }

    fn start(&mut self) {
        let secret = [1; 32];
        let links = self.around.plan.links.clone();
        self.around.network.open(ChannelId(1), &links[0]);
        for side in Side::BOTH {
            let who = self.owner(side, ChannelId(1));
            self.worlds[who].connect(ChannelId(1), &secret, true, false, &mut self.around);
        }
        for (index, link) in links.iter().enumerate().skip(1) {
            self.around.schedule.add(link.at, Event::Join(ChannelId(index as u16 + 1), secret));
        }
        let first = usize::from(self.around.plan.first_in_handshake);
        if first > 0 {
            self.open_in_handshake();
        }
        for (index, operation) in self.around.plan.operations.iter().enumerate().skip(first) {
            if !operation.done {
                self.around.schedule.add(operation.at, Event::Open(index));
            }
        }
        self.schedule_calls();
        for side in Side::BOTH {
            for pipeline in 0..self.around.plan.pipelines {
                self.around.schedule.add(Instant(0), Event::Tick(Who { side, pipeline }));
            }
        }
    }

    /// Lets things happen until nothing is left, something is wrong, or an end is gone; how many did.
    fn go(&mut self) -> u64 {
        let mut events = 0;
        let end = Instant(0).after(TIME_MAX);
        self.settle();
        while let Some((at, event)) = self.around.schedule.pop() {
            if at > end || events > EVENTS_MAX {
                self.around.oracle.violation(|| "the run does not end".to_owned());
                break;
            }
            events += 1;
            self.around.now = at;
            self.step(event);
            self.settle();
            if self.around.oracle.verdict().is_some() || self.application.restart.is_some() {
                break;
            }
        }
        events
    }

    fn run(mut self, seed: u64, options: &Options) -> Report {
        let mut events = self.go();
        let mut before = Duration::ZERO;
        if let Some((side, power)) = self.application.restart.take().filter(|_| self.around.oracle.verdict().is_none())
        {
            before = self.around.now.since(Instant(0));
            if self.restart(seed, options, side, power) {
                self.start();
                events += self.go();
            }
        }
        if self.around.oracle.verdict().is_some() {
            for world in &self.worlds {
                self.around.trace.remark(self.around.now, || format!("{:#?}", world.session));
            }
        }
        let ended = self.worlds.iter().all(World::is_done);
        self.around.oracle.finish(&self.around.plan, &self.around.disks, ended);
        if let Err(wrong) = self.around.calls.finish(ended) {
            self.around.oracle.violation(|| wrong);
        }
        let mut hasher = crate::trace::Mixer(self.around.trace.hash());
        self.worlds.iter().for_each(|world| world.session.hash(&mut hasher));
        Report {
            seed,
            violation: self.around.oracle.verdict().map(str::to_owned),
            blocks: self.around.oracle.blocks,
            rekeyed: self.around.oracle.rekeyed,
            repaired: self.around.oracle.repaired,
            resumed: self.around.oracle.resumed,
            fired: self.around.oracle.fired.clone(),
            time: before + self.around.now.since(Instant(0)),
            events,
            trace: hasher.finish(),
        }
    }

    /// Place of the machine that has `channel` at `side`.
    pub(crate) fn owner(&self, side: Side, channel: ChannelId) -> usize {
        let pipelines = self.around.plan.pipelines;
        let pipeline = self.worlds[0].session.pipeline_of(channel).0;
        side.index() * usize::from(pipelines) + usize::from(pipeline)
    }

    pub(crate) fn place(&self, who: Who) -> usize {
        who.side.index() * usize::from(self.around.plan.pipelines) + usize::from(who.pipeline)
    }

    fn step(&mut self, event: Event) {
        let around = &mut self.around;
        match event {
            Event::Wake(wake) => {
                let (side, channel) = match &wake {
                    Wake::Readable(side, channel) | Wake::Writable(side, channel) | Wake::Broken(side, channel) => {
                        (*side, *channel)
                    }
                };
                let world = self.owner(side, channel);
                let (world, around) = (&mut self.worlds[world], &mut self.around);
                match wake {
                    Wake::Readable(..) => world.on_readable(channel, around),
                    Wake::Writable(..) => world.on_writable(channel, around),
                    Wake::Broken(..) => world.on_broken(channel, around),
                }
            }
            Event::Sent(who, channel) => self.with(who, |world, around| world.on_sent(channel, around)),
            Event::Resume(who, channel) => self.with(who, |world, around| world.on_resume(channel, around)),
            Event::Disk(who, job) => self.with(who, |world, around| world.on_job(job, around)),
            Event::ToPipeline { to, from, message } => {
                self.with(to, |world, around| world.on_pipeline_message(from, message, around))
            }
            Event::Tick(who) => self.with(who, World::on_tick),
            Event::Timer(who) => self.with(who, World::on_timer),
            Event::Join(channel, secret) => self.join(channel, &secret),
            Event::Open(index) => self.open(index),
            Event::Calls(index) => self.make_calls(index),
            Event::Stream(index) => self.deliver(index),
            Event::Act(index) => {
                let action = around.plan.actions[index].action;
                self.strike(action);
            }
            Event::Close => self.close(),
        }
    }

    pub(crate) fn with(&mut self, who: Who, call: impl FnOnce(&mut World, &mut Around)) {
        let place = self.place(who);
        call(&mut self.worlds[place], &mut self.around);
    }

    /// Hands around what the last step left: wake-ups, faults, notices, until nothing is left.
    pub(crate) fn settle(&mut self) {
        loop {
            for (at, wake) in self.around.network.take_wakes() {
                self.around.schedule.add(at, Event::Wake(wake));
            }
            for (channel, fault) in self.around.network.take_fired() {
                let joined = self.around.oracle.has_joined(channel);
                self.around.trace.remark(self.around.now, || format!("channel {channel}: {fault:?}"));
                self.around.oracle.wire_fault(channel, fault);
                if !joined && fault.cuts() {
                    self.around.oracle.struck(Fault::JoinCut);
                }
            }
            for side in Side::BOTH {
                for (index, fault) in self.around.disks[side.index()].take_fired() {
                    self.around.trace.remark(self.around.now, || format!("{side:?} disk: {fault:?} {index:?}"));
                    self.around.oracle.fault(index, fault);
                }
            }
            let Some((who, notice)) = self.around.notices.pop_front() else { break };
            self.notice(who, notice);
        }
    }

    fn notice(&mut self, who: Who, notice: Notice) {
        match notice {
            Notice::Block => self.trigger(None),
            Notice::Milestone(id, milestone) => {
                let index = self.around.ids[&id];
                self.trigger(Some((index, milestone)));
            }
            Notice::Session(event) => self.session_event(who, event),
        }
    }
}
