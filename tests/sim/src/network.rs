//! The simulated wire: one byte pipe per channel and direction, with a bandwidth, a delay, a buffer that fills, and faults
//! that strike after so many bytes, in the middle of whatever is passing.
//!
//! It must not know what the bytes mean. What it wants to tell an endpoint it leaves in [`Network::take_wakes`].

use crate::random::Random;
use crate::transition::{Fault, LinkPlan, PipeFault};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use xdfs_proto::base::{ChannelId, Duration, Instant};

/// When a kernel gives up a connection whose peer is gone and of which it hears nothing.
const GIVE_UP: Duration = Duration::from_secs(5);

/// One end of the session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// Opens operations and connections.
    Client,
    /// Answers.
    Server,
}

impl Side {
    /// Both.
    pub const BOTH: [Side; 2] = [Side::Client, Side::Server];

    /// The peer.
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// Place in a pair.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// What an endpoint finds out about a channel, and when.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Wake {
    /// Bytes, or the end of the stream, can be read.
    Readable(Side, ChannelId),
    /// There is room again.
    Writable(Side, ChannelId),
    /// The connection is reset.
    Broken(Side, ChannelId),
}

/// Bytes that arrived, as parts of what was written.
pub type Piece = (Rc<Vec<u8>>, Range<usize>);

/// What a read finds.
pub struct Read {
    /// The bytes.
    pub pieces: Vec<Piece>,
    /// The stream ended behind them.
    pub end: bool,
}

struct Segment {
    at: Instant,
    bytes: Rc<Vec<u8>>,
    range: Range<usize>,
}

struct Pipe {
    segments: VecDeque<Segment>,
    /// Bytes written and not read.
    queued: usize,
    capacity: usize,
    delay: Duration,
    nanos_per_kib: u64,
    /// When the last byte written so far has left.
    free_at: Instant,
    /// Most bytes of one read or write are drawn up to this; 0 for no such limit.
    short_reads: bool,
    short_writes: bool,
    /// Bytes written since the start.
    written: u64,
    fault: Option<(u64, PipeFault)>,
    /// What is written from now on vanishes.
    void: bool,
    /// What is written stays in the buffer for ever.
    stalled: bool,
    /// The stream ends at this moment, behind what arrived before.
    end_at: Option<Instant>,
    /// The writer found no room.
    blocked: bool,
}

/// The simulated network: one byte pipe per channel and direction, with faults.
pub struct Network {
    pipes: BTreeMap<(ChannelId, Side), Pipe>,
    random: Random,
    wakes: Vec<(Instant, Wake)>,
    fired: Vec<(ChannelId, Fault)>,
}

impl Network {
    /// No connection yet.
    pub fn new(random: Random) -> Self {
        Self { pipes: BTreeMap::new(), random, wakes: Vec::new(), fired: Vec::new() }
    }

    /// A connection is made.
    pub fn open(&mut self, channel: ChannelId, plan: &LinkPlan) {
        for side in Side::BOTH {
            let fault = plan.fault.filter(|(faulty, ..)| *faulty == side).map(|(_, after, fault)| (after, fault));
            let pipe = Pipe {
                segments: VecDeque::new(),
                queued: 0,
                capacity: plan.capacity,
                delay: plan.delay,
                nanos_per_kib: plan.nanos_per_kib,
                free_at: Instant(0),
                short_reads: plan.short_reads,
                short_writes: plan.short_writes,
                written: 0,
                fault,
                void: false,
                stalled: false,
                end_at: None,
                blocked: false,
            };
            self.pipes.insert((channel, side), pipe);
        }
    }

    /// What the endpoints find out because of the last calls.
    pub fn take_wakes(&mut self) -> Vec<(Instant, Wake)> {
        std::mem::take(&mut self.wakes)
    }

    /// Faults that struck because of the last calls.
    pub fn take_fired(&mut self) -> Vec<(ChannelId, Fault)> {
        std::mem::take(&mut self.fired)
    }

    /// Takes bytes of `bytes` from `start`; how many. After 0 a [`Wake::Writable`] follows once there is room.
    pub fn write(&mut self, now: Instant, channel: ChannelId, from: Side, bytes: &Rc<Vec<u8>>, start: usize) -> usize {
        let Some(pipe) = self.pipes.get_mut(&(channel, from)) else { return bytes.len() - start };
        let wanted = bytes.len() - start;
        if pipe.void {
            return wanted;
        }
        let mut count = wanted.min(pipe.capacity.saturating_sub(pipe.queued));
        if count == 0 {
            pipe.blocked = true;
            return 0;
        }
        if pipe.short_writes && count > 1 {
            let short = self.random.magnitude(1, count as u64) as usize;
            if short < count {
                self.fired.push((channel, Fault::ShortWrites));
            }
            count = short;
        }
        let strikes = match pipe.fault {
            Some((after, fault)) if fault != PipeFault::Flip && pipe.written + count as u64 > after => {
                let passes = (after - pipe.written) as usize;
                pipe.fault = None;
                Some((passes, fault))
            }
            _ => None,
        };
        let passes = strikes.map_or(count, |(passes, _)| passes);
        self.send(now, channel, from, bytes, start..start + passes);
        if let Some((_, fault)) = strikes {
            self.strike(now, channel, from, fault);
            if matches!(fault, PipeFault::StallFor(_)) {
                self.send(now, channel, from, bytes, start + passes..start + count);
            }
        }
        if let Some(pipe) = self.pipes.get_mut(&(channel, from)) {
            pipe.written += count as u64;
        }
        count
    }

    /// Reads what has arrived.
    pub fn read(&mut self, now: Instant, channel: ChannelId, to: Side, limit: usize) -> Read {
        let mut read = Read { pieces: Vec::new(), end: false };
        let from = to.other();
        let Some(pipe) = self.pipes.get_mut(&(channel, from)) else { return read };
        let mut left = limit;
        let arrived = pipe.segments.front().filter(|first| first.at <= now).map_or(0, |first| first.range.len());
        if pipe.short_reads && arrived > 1 {
            left = left.min(self.random.magnitude(1, arrived as u64) as usize);
            if left < arrived {
                self.fired.push((channel, Fault::ShortReads));
            }
        }
        while let Some(first) = pipe.segments.front_mut().filter(|first| first.at <= now && left > 0) {
            let count = first.range.len().min(left);
            let range = first.range.start..first.range.start + count;
            first.range.start += count;
            read.pieces.push((Rc::clone(&first.bytes), range));
            left -= count;
            pipe.queued -= count;
            if first.range.is_empty() {
                pipe.segments.pop_front();
            }
        }
        if !read.pieces.is_empty() && pipe.blocked {
            pipe.blocked = false;
            self.wakes.push((now.after(pipe.delay), Wake::Writable(from, channel)));
        }
        match pipe.segments.front() {
            Some(next) if next.at <= now => {
                self.wakes.push((now.after(Duration::from_micros(1)), Wake::Readable(to, channel)));
            }
            Some(_) => {}
            None => read.end = pipe.end_at.is_some_and(|end| end <= now),
        }
        read
    }

    /// `side` closes its socket: in order (what was written still arrives), or so that the peer finds it broken.
    pub fn close(&mut self, now: Instant, channel: ChannelId, side: Side, broken: bool) {
        let Some(pipe) = self.pipes.get_mut(&(channel, side)) else { return };
        let (stalled, void, delay) = (pipe.stalled, pipe.void, pipe.delay);
        let behind = pipe.free_at.max(now).after(delay);
        if !stalled && !void {
            pipe.end_at = Some(behind);
            pipe.void = true;
            let wake = if broken { Wake::Broken(side.other(), channel) } else { Wake::Readable(side.other(), channel) };
            self.wakes.push((behind, wake));
        } else if stalled {
            // Nothing passes any more, but the peer's kernel gives up in the end.
            self.wakes.push((now.after(GIVE_UP), Wake::Broken(side.other(), channel)));
        }
        // Nobody reads what still comes.
        if let Some(back) = self.pipes.get_mut(&(channel, side.other())) {
            back.void = true;
            back.segments.clear();
            back.queued = 0;
            if back.blocked {
                back.blocked = false;
                self.wakes.push((now.after(delay), Wake::Writable(side.other(), channel)));
            }
        }
    }

    /// Breaks the connection now, for both ends.
    pub fn cut(&mut self, now: Instant, channel: ChannelId) {
        let open = self.pipes.get(&(channel, Side::Client)).is_some_and(|pipe| !pipe.void || pipe.stalled);
        if open {
            self.strike(now, channel, Side::Client, PipeFault::Reset);
        }
    }

    /// How many of the next `length` bytes pass before a bit is to be flipped among them.
    pub fn flip_due(&mut self, channel: ChannelId, from: Side, length: usize) -> bool {
        let Some(pipe) = self.pipes.get_mut(&(channel, from)) else { return false };
        match pipe.fault {
            Some((after, PipeFault::Flip)) if pipe.written + length as u64 > after => {
                pipe.fault = None;
                self.fired.push((channel, Fault::BitFlip));
                true
            }
            _ => false,
        }
    }

    fn send(&mut self, now: Instant, channel: ChannelId, from: Side, bytes: &Rc<Vec<u8>>, range: Range<usize>) {
        let Some(pipe) = self.pipes.get_mut(&(channel, from)) else { return };
        if range.is_empty() || pipe.void {
            return;
        }
        pipe.queued += range.len();
        if pipe.stalled {
            return;
        }
        let nanos = range.len() as u64 * pipe.nanos_per_kib / 1024;
        pipe.free_at = pipe.free_at.max(now).after(Duration::from_nanos(nanos));
        let at = pipe.free_at.after(pipe.delay);
        pipe.segments.push_back(Segment { at, bytes: Rc::clone(bytes), range });
        self.wakes.push((at, Wake::Readable(from.other(), channel)));
    }

    fn strike(&mut self, now: Instant, channel: ChannelId, from: Side, fault: PipeFault) {
        let Some(pipe) = self.pipes.get_mut(&(channel, from)) else { return };
        let behind = pipe.free_at.max(now).after(pipe.delay);
        let kind = match fault {
            PipeFault::Finish | PipeFault::Half => {
                pipe.void = true;
                pipe.end_at = Some(behind);
                self.wakes.push((behind, Wake::Readable(from.other(), channel)));
                if fault == PipeFault::Finish {
                    // What is still written meets a closed connection.
                    self.wakes.push((behind.after(pipe.delay), Wake::Broken(from, channel)));
                }
                if fault == PipeFault::Finish { Fault::CutFinish } else { Fault::CutHalf }
            }
            PipeFault::Reset => {
                let at = now.after(pipe.delay);
                for side in Side::BOTH {
                    self.wakes.push((at, Wake::Broken(side, channel)));
                    if let Some(pipe) = self.pipes.get_mut(&(channel, side)) {
                        pipe.void = true;
                        pipe.stalled = false;
                    }
                }
                Fault::CutReset
            }
            PipeFault::Stall => {
                pipe.stalled = true;
                Fault::Stall
            }
            PipeFault::StallFor(time) => {
                pipe.free_at = pipe.free_at.max(now).after(time);
                Fault::Pause
            }
            // Strikes in `flip_due`.
            PipeFault::Flip => return,
        };
        self.fired.push((channel, kind));
    }
}
