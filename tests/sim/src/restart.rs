//! An end that is killed, or loses its power, and comes back: its machines and its memory are gone, its disk has what a marker told of.
//! The other end loses every channel. What was not told done is tried again in another session.

use crate::application::Application;
use crate::network::{Network, Side};
use crate::random::Random;
use crate::schedule::{Event, Job, Schedule, Who};
use crate::simulation::Simulation;
use crate::transition::Options;
use crate::world::World;
use std::collections::BTreeSet;
use xdfs_proto::base::Instant;

impl Simulation {
    /// `side` is gone. Whether there is anything to try again; then the next session is ready to start.
    pub(crate) fn restart(&mut self, seed: u64, options: &Options, side: Side, power: bool) -> bool {
        let survivor = side.other();
        self.lose_all(survivor);
        self.around.disks[side.index()].restart(power);
        let around = &mut self.around;
        // An end that is gone has no outcome; what both said before must be true.
        if let Err(wrong) = std::mem::take(&mut around.calls).finish(false) {
            around.oracle.violation(|| wrong);
        }
        around.oracle.check_restart(&around.plan, &around.disks, survivor);
        // Of the survivor nothing but sources is left open.
        around.disks[survivor.index()].restart(false);
        let done = around.oracle.done();
        if around.oracle.verdict().is_some() || done.iter().all(|done| *done) {
            around.oracle.nothing_left();
            self.worlds.clear();
            return false;
        }
        let random = Random::new(seed);
        let plan = around.plan.again(&done, options, &mut random.fork(9));
        around.oracle.again(&plan, &around.disks);
        around.now = Instant(0);
        around.schedule = Schedule::new(random.fork(10));
        around.network = Network::new(random.fork(11));
        around.notices.clear();
        around.ids.clear();
        around.closing = false;
        self.application = Application::new(random.fork(12), &plan);
        let pipelines = plan.pipelines;
        let machines =
            Side::BOTH.into_iter().flat_map(|side| (0..pipelines).map(move |pipeline| Who { side, pipeline }));
        self.worlds = machines.map(|who| World::new(who, &plan)).collect();
        around.plan = plan;
        true
    }

    /// The end that is left loses its peer, and brings to an end what cannot be stopped: a target that gets its name.
    fn lose_all(&mut self, survivor: Side) {
        let channels: BTreeSet<_> = self.worlds.iter().flat_map(World::channels).collect();
        self.around.oracle.restarted(channels.iter().copied());
        for channel in channels {
            let world = self.owner(survivor, channel);
            self.worlds[world].on_broken(channel, &mut self.around);
        }
        let (mut later, around) = (Vec::new(), &mut self.around);
        while let Some((_, event)) = around.schedule.pop() {
            later.push(event);
        }
        for event in later {
            match event {
                Event::Disk(who, job @ Job::Commit(_)) if who.side == survivor => {
                    self.with(who, |world, around| world.on_job(job, around));
                }
                Event::ToPipeline { to, from, message } if to.side == survivor => {
                    self.with(to, |world, around| world.on_pipeline_message(from, message, around));
                }
                _ => {}
            }
        }
        self.settle();
    }
}
