//! What happens in one run, drawn from a seed before anything runs. A plan can be printed; two runs of one are equal.

use crate::calls::CallsPlan;
use crate::network::Side;
use crate::random::Random;
use crate::transition::{
    Action, ActionPlan, Fault, LinkPlan, Milestone, OperationPlan, Options, PipeFault, Task, When,
};
use xdfs_proto::base::{ChannelId, Duration, Instant, KeyLimits, Level};

/// Everything that was decided before the run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Channels of the session.
    pub channels: u16,
    /// Pipelines.
    pub pipelines: u8,
    /// Block size.
    pub block: u32,
    /// Window of a receiver in bytes, 0 for the machine's own.
    pub window: u64,
    /// Operations at a time.
    pub operations_max: usize,
    /// Stall deadline.
    pub stall: Duration,
    /// How much one key may protect: often a few records, a few blocks, or a moment.
    pub keys: KeyLimits,
    /// The first connections, channel 1 first.
    pub links: Vec<LinkPlan>,
    /// Lost channels are replaced, at most this often.
    pub replacements: u16,
    /// Operations in the order of their numbers here.
    pub operations: Vec<OperationPlan>,
    /// Calls beside them.
    pub calls: Vec<CallsPlan>,
    /// Faults that wait.
    pub actions: Vec<ActionPlan>,
    /// Storage answers late.
    pub slow_disk: bool,
    /// Blocks are written by another thread and complete later.
    pub writer_thread: bool,
    /// The first operation of pipeline 0 travels inside the handshake.
    pub first_in_handshake: bool,
}

/// Stall deadline of the runs: long against every delay here, short for the virtual clock.
pub const STALL: Duration = Duration::from_secs(2);

impl Plan {
    /// The plan of `seed`.
    pub fn draw(seed: u64, options: &Options) -> Self {
        let random = &mut Random::new(seed).fork(1);
        let channels = if random.chance(120) { 1 } else { random.between(2, 8) as u16 };
        let pipelines =
            if channels > 1 && random.chance(350) { random.between(2, u64::from(channels.min(3))) as u8 } else { 1 };
        let block = if random.chance(60) { 128 << 10 } else { 64 << 10 };
        let window = if random.chance(350) { 0 } else { random.between(1, 8) * u64::from(block) };
        let count = random.magnitude(1, 5) as usize;
        let first = OperationPlan::draw(random, pipelines, block, true);
        let mut operations = vec![first];
        operations.extend((1..count).map(|_| OperationPlan::draw(random, pipelines, block, false)));
        let first_in_handshake = random.chance(250);
        if first_in_handshake {
            operations[0].pipeline = 0;
        }
        let mut plan = Self {
            channels,
            pipelines,
            block,
            window,
            operations_max: if random.chance(250) { random.between(1, 3) as usize } else { 128 },
            stall: STALL,
            keys: draw_keys(&mut Random::new(seed).fork(8), block),
            links: Vec::new(),
            replacements: if options.draw(Fault::Replaced, random) { 6 } else { 0 },
            operations,
            calls: CallsPlan::draw(&mut Random::new(seed).fork(20), pipelines),
            actions: Vec::new(),
            slow_disk: options.draw(Fault::SlowDisk, random),
            writer_thread: random.chance(500),
            first_in_handshake,
        };
        plan.draw_links(options, random);
        plan.draw_disk_faults(options, random);
        plan.draw_actions(options, random);
        plan
    }

    /// The session behind a restart: other channels and blocks, faults of the wire alone, and of the operations those that are not done.
    pub fn again(&self, done: &[bool], options: &Options, random: &mut Random) -> Self {
        let mut plan = self.clone();
        plan.channels = random.between(u64::from(self.pipelines), 8) as u16;
        plan.block = if random.chance(300) { 128 << 10 } else { 64 << 10 };
        plan.keys = draw_keys(random, plan.block);
        for (operation, done) in plan.operations.iter_mut().zip(done) {
            (operation.done, operation.disk) = (*done, None);
        }
        plan.first_in_handshake = false;
        plan.calls.clear();
        plan.actions.clear();
        plan.links.clear();
        plan.draw_links(options, random);
        plan
    }

    /// Bytes that all operations move together.
    pub fn bytes(&self) -> u64 {
        self.operations.iter().map(OperationPlan::bytes).sum()
    }

    fn draw_links(&mut self, options: &Options, random: &mut Random) {
        let common = LinkPlan::draw(Instant(0), random);
        let (short_reads, short_writes) =
            (options.draw(Fault::ShortReads, random), options.draw(Fault::ShortWrites, random));
        for number in 0..self.channels {
            let own = random.chance(300).then(|| LinkPlan::draw(Instant(0), random));
            let mut link = own.unwrap_or_else(|| common.clone());
            // Channel 1 is there from the start; the others join when the session is open.
            link.at = if number == 0 { Instant(0) } else { Instant(0).after(2 * link.delay) };
            (link.short_reads, link.short_writes) = (short_reads, short_writes);
            self.links.push(link);
        }
        if self.channels > 1 {
            let late = options.draw(Fault::LateJoin, random);
            let slow = options.draw(Fault::SlowChannel, random);
            let join_cut = options.draw(Fault::JoinCut, random);
            let last = self.links.len() - 1;
            if slow {
                let link = &mut self.links[random.below(last as u64 + 1) as usize];
                link.delay = Duration::from_millis(random.between(50, 200));
                link.nanos_per_kib = link.nanos_per_kib.max(random.between(200_000, 1_000_000));
                link.capacity = LinkPlan::room(link.capacity.min(256 << 10), link.delay);
            }
            if late {
                self.links[last].at = Instant(0).after(Duration::from_micros(random.magnitude(1_000, 300_000)));
            }
            if join_cut {
                let fault = random.pick(&[PipeFault::Finish, PipeFault::Reset, PipeFault::Half, PipeFault::Stall]);
                let side = random.pick(&Side::BOTH);
                self.links[last].fault = Some((side, random.below(100), fault));
            }
        }
        self.draw_pipe_faults(options, random);
    }

    fn draw_pipe_faults(&mut self, options: &Options, random: &mut Random) {
        let share = self.bytes() / u64::from(self.channels) + 1000;
        let pause = PipeFault::StallFor(Duration::from_millis(random.between(50, 900)));
        for (kind, fault) in [
            (Fault::CutFinish, PipeFault::Finish),
            (Fault::CutReset, PipeFault::Reset),
            (Fault::CutHalf, PipeFault::Half),
            (Fault::Stall, PipeFault::Stall),
            (Fault::Pause, pause),
            (Fault::BitFlip, PipeFault::Flip),
        ] {
            if !options.draw(kind, random) {
                continue;
            }
            let link = random.below(self.links.len() as u64) as usize;
            // Three of four among the blocks of one direction, the others among the first records.
            let after = if random.chance(750) { random.below(share) } else { random.magnitude(1, 2000) };
            let side = random.pick(&Side::BOTH);
            if self.links[link].fault.is_none() {
                self.links[link].fault = Some((side, after, fault));
            }
        }
    }

    fn draw_disk_faults(&mut self, options: &Options, random: &mut Random) {
        for kind in [
            Fault::WriteError,
            Fault::NoSpace,
            Fault::StageRefused,
            Fault::CommitRefused,
            Fault::SourceMissing,
            Fault::SourceUnreadable,
        ] {
            if !options.draw(kind, random) {
                continue;
            }
            let victim = self.victim(random);
            let operation = &mut self.operations[victim];
            if operation.disk.is_none() {
                operation.disk = Some((kind, random.below(operation.bytes().max(1))));
            }
        }
    }

    /// An operation for a fatal fault: the first one seldom, since every session is to move blocks.
    fn victim(&self, random: &mut Random) -> usize {
        let count = self.operations.len() as u64;
        if count == 1 || random.chance(150) { 0 } else { random.between(1, count - 1) as usize }
    }

    fn draw_actions(&mut self, options: &Options, random: &mut Random) {
        let blocks = self.bytes() / u64::from(self.block) + 1;
        for (kind, make) in [
            (Fault::CancelClient, (|_, victim| Action::Cancel(Side::Client, victim)) as fn(ChannelId, usize) -> Action),
            (Fault::CancelServer, |_, victim| Action::Cancel(Side::Server, victim)),
            (Fault::SourceChanged, |_, victim| Action::ChangeSource(victim)),
            (Fault::SourceShrank, |_, victim| Action::ShrinkSource(victim)),
            (Fault::AllCut, |_, _| Action::CutAll),
            (Fault::CloseEarly, |_, _| Action::Close),
            (Fault::Drain, |_, _| Action::Drain),
            (Fault::ServerRestart, |_, _| Action::Restart(Side::Server)),
            (Fault::ClientRestart, |_, _| Action::Restart(Side::Client)),
        ] {
            if !options.draw(kind, random) {
                continue;
            }
            let victim = random.below(self.operations.len() as u64) as usize;
            let milestone = random.pick(&[Milestone::Stage, Milestone::Check, Milestone::Finish, Milestone::Commit]);
            let when = if random.chance(550) {
                When::Milestone(victim, milestone)
            } else {
                When::Blocks(random.between(3.min(blocks), blocks))
            };
            let delay = Duration::from_micros(random.magnitude(1, 30_000));
            self.actions.push(ActionPlan { when, delay, action: make(ChannelId(0), victim) });
        }
        if options.draw(Fault::ManyCut, random) && self.channels > 1 {
            let mut at = random.between(3.min(blocks), blocks);
            let spared = random.below(u64::from(self.channels));
            for number in (0..self.channels).filter(|number| u64::from(*number) != spared) {
                let delay = Duration::from_micros(random.magnitude(1, 3_000));
                let action = Action::Cut(ChannelId(number + 1));
                self.actions.push(ActionPlan { when: When::Blocks(at), delay, action });
                at += random.below(2);
            }
        }
    }
}

fn draw_keys(random: &mut Random, block: u32) -> KeyLimits {
    let mut keys = KeyLimits::STANDARD;
    if random.chance(400) {
        keys.records = random.between(2, 9);
    }
    if random.chance(200) {
        // Room for one record and REKEY at least.
        keys.bytes = random.between(1, 5) * u64::from(block) + 1024;
    }
    if random.chance(150) {
        keys.age = Duration::from_micros(random.magnitude(1, 500_000));
    }
    keys
}

impl OperationPlan {
    fn draw(random: &mut Random, pipelines: u8, block: u32, main: bool) -> Self {
        let task = match random.below(100) {
            0..38 => Task::Upload,
            38..55 => Task::UploadStream,
            55..90 => Task::Download,
            _ if main => Task::Download,
            _ => Task::Sum,
        };
        let block_bytes = u64::from(block);
        let blocks = if main { random.between(3, 14) } else { random.magnitude(1, 8) };
        let tail = random.pick(&[0, 0, 1, block_bytes - 1, 777]);
        let mut size = blocks * block_bytes + tail;
        if !main && random.chance(250) {
            size = random.pick(&[0, 0, 1, block_bytes - 1, block_bytes]);
        }
        let (mut offset, mut length) = (0, None);
        if task == Task::Download && random.chance(350) {
            // The range has the size that was drawn; the source has more around it.
            offset = random.pick(&[0, 1, 777, block_bytes, 1 << 40]);
            length = random.chance(500).then_some(size);
            size += offset + if length.is_some() { random.pick(&[0, 1, 100_000]) } else { 0 };
            if !main && random.chance(120) {
                // Outside.
                offset = size + 1;
            }
        }
        Self {
            at: Instant(random.magnitude(1, 50_000_000)),
            pipeline: random.below(pipelines.into()) as u8,
            task,
            size,
            offset,
            length,
            level: random.pick(&[Level::Clear, Level::Integrity]),
            credit_blocks: random.between(0, 4),
            // A target that takes bytes in order has one pipeline, and a client that has such a target asks for no more.
            in_order: (random.chance(200) && (pipelines == 1 || task != Task::Download)).then(|| random.between(1, 6)),
            disk: None,
            done: false,
        }
    }

    /// Bytes that it moves.
    pub fn bytes(&self) -> u64 {
        match self.task {
            Task::Sum => 0,
            _ => self.length.unwrap_or(self.size.saturating_sub(self.offset)),
        }
    }

    /// The range is not in the source.
    pub fn is_out_of_range(&self) -> bool {
        self.task != Task::Sum && self.offset + self.length.unwrap_or(0) > self.size
    }

    /// The end that sends the bytes.
    pub fn sender(&self) -> Side {
        match self.task {
            Task::Upload | Task::UploadStream => Side::Client,
            Task::Download | Task::Sum => Side::Server,
        }
    }
}

impl LinkPlan {
    /// At least as much as moves 400 kB in a second: the virtual clock is bounded.
    fn room(capacity: usize, delay: Duration) -> usize {
        capacity.max(2 * delay.as_millis() as usize * 400)
    }

    /// A connection without faults.
    pub fn draw(at: Instant, random: &mut Random) -> Self {
        let delay = Duration::from_micros(random.magnitude(20, 40_000));
        Self {
            at,
            capacity: Self::room(random.magnitude(4 << 10, 512 << 10) as usize, delay),
            delay,
            // 4 GiB/s to 8 MiB/s.
            nanos_per_kib: random.magnitude(256, 128_000),
            short_reads: false,
            short_writes: false,
            fault: None,
        }
    }
}
