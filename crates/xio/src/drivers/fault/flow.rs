//! A faulty connection as an element of a stack.

use crate::drivers::queues::{Outgoing, unless_blocked};
use std::io::{self, IoSlice, IoSliceMut};
use std::time::{Duration, Instant};
use xdfs_io::stack::{Answer, Command, Flow, Interest, ReadInfo, WriteInfo};

/// Most bytes that are kept in a direction, and most that a short call moves.
const KEPT_BYTES_MAX: usize = 4096;

/// How often what happens, in thousandths.
#[derive(Clone, Copy)]
pub(super) struct Odds {
    pub(super) errors: u64,
    pub(super) short: u64,
    pub(super) blocked: u64,
    pub(super) late: u64,
    /// How long what is not ready is not.
    pub(super) delay: Duration,
}

/// Numbers drawn from a seed: SplitMix64.
struct Random(u64);

impl Random {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn happens(&mut self, thousandths: u64) -> bool {
        self.draw() % 1000 < thousandths
    }

    /// From one up to `most`, which is more than zero.
    fn length(&mut self, most: usize) -> usize {
        1 + (self.draw() % most.min(KEPT_BYTES_MAX) as u64) as usize
    }
}

/// When a call is worth trying again; none while it is.
#[derive(Clone, Copy, Default)]
struct Pause(Option<Instant>);

impl Pause {
    fn check(&mut self, random: &mut Random, odds: &Odds) -> io::Result<()> {
        self.end(Instant::now());
        if self.0.is_none() && random.happens(odds.blocked) {
            self.0 = Instant::now().checked_add(odds.delay);
        }
        if self.0.is_some() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }

    /// It ends if its time is up. One that began in this moment lasts until the deadline is told.
    fn end(&mut self, now: Instant) {
        self.0 = self.0.filter(|until| *until >= now);
    }
}

/// How far the own direction is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Open,
    /// Its end is on its way.
    Ending,
    Ended,
}

/// Bytes that were received and are told later.
#[derive(Default)]
struct Ahead {
    bytes: Vec<u8>,
    taken: usize,
    /// The end came with them.
    ended: bool,
}

impl Ahead {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }
}

/// A connection with faults.
pub(super) struct FaultFlow {
    below: Box<dyn Flow>,
    random: Random,
    odds: Odds,
    opening: Pause,
    receiving: Pause,
    sending: Pause,
    ahead: Ahead,
    /// Bytes that were taken and are sent later.
    behind: Outgoing,
    direction: Direction,
}

impl FaultFlow {
    pub(super) fn new(below: Box<dyn Flow>, seed: u64, odds: Odds) -> Self {
        let (opening, receiving, sending) = Default::default();
        let (ahead, behind) = Default::default();
        Self {
            below,
            random: Random(seed),
            odds,
            opening,
            receiving,
            sending,
            ahead,
            behind,
            direction: Direction::Open,
        }
    }

    fn may_fail(&mut self) -> io::Result<()> {
        if self.random.happens(self.odds.errors) {
            return Err(io::Error::other("a fault that was drawn: nothing was moved, and everything goes on"));
        }
        Ok(())
    }

    /// Sends what was kept, and the end.
    fn finish(&mut self) -> io::Result<()> {
        if self.direction == Direction::Open {
            self.direction = Direction::Ending;
        }
        self.behind.pass_on(&mut *self.below)?;
        if self.direction == Direction::Ending {
            self.below.finish_sending()?;
            self.direction = Direction::Ended;
        }
        Ok(())
    }

    /// How much of `most` this call moves.
    fn length(&mut self, most: usize) -> usize {
        if self.random.happens(self.odds.short) { self.random.length(most) } else { most }
    }
}

impl Flow for FaultFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        if self.direction == Direction::Ending {
            // That it cannot be sent is told by the close.
            let _ = self.finish();
        }
        self.receiving.check(&mut self.random, &self.odds)?;
        self.may_fail()?;
        let Some(first) = into.iter_mut().find(|slice| !slice.is_empty()) else { return Ok(0) };
        let length = self.length(first.len());
        let first = &mut first[..length];
        if self.ahead.rest().is_empty() && !self.ahead.ended {
            if !self.random.happens(self.odds.late) {
                return self.below.receive(&mut [IoSliceMut::new(first)], info);
            }
            self.ahead.bytes.resize(KEPT_BYTES_MAX, 0);
            self.ahead.taken = self.ahead.bytes.len();
            let mut came = ReadInfo::default();
            let bytes = self.below.receive(&mut [IoSliceMut::new(&mut self.ahead.bytes)], &mut came)?;
            self.ahead = Ahead { bytes: self.ahead.bytes[..bytes].to_vec(), taken: 0, ended: came.end };
        }
        let bytes = first.len().min(self.ahead.rest().len());
        first[..bytes].copy_from_slice(&self.ahead.rest()[..bytes]);
        self.ahead.taken += bytes;
        info.end = self.ahead.ended && self.ahead.rest().is_empty();
        Ok(bytes)
    }

    fn send(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize> {
        if self.direction != Direction::Open {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "sending was finished"));
        }
        self.sending.check(&mut self.random, &self.odds)?;
        self.behind.pass_on(&mut *self.below)?;
        self.may_fail()?;
        let Some(first) = from.iter().find(|slice| !slice.is_empty()) else { return self.below.send(from, info) };
        let length = self.length(first.len());
        if self.random.happens(self.odds.late) {
            let length = length.min(KEPT_BYTES_MAX);
            self.behind.end().extend_from_slice(&first[..length]);
            return Ok(length);
        }
        self.below.send(&[IoSlice::new(&first[..length])], info)
    }

    fn below(&self) -> Option<&dyn Flow> {
        Some(&*self.below)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Flow> {
        Some(&mut *self.below)
    }

    fn connected(&mut self) -> io::Result<()> {
        self.opening.check(&mut self.random, &self.odds)?;
        self.may_fail()?;
        self.below.connected()
    }

    fn holds_back(&self) -> bool {
        true
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sending.check(&mut self.random, &self.odds)?;
        self.may_fail()?;
        self.behind.pass_on(&mut *self.below)?;
        self.below.flush()
    }

    fn holds(&self) -> bool {
        let own = self.ahead.ended || !self.ahead.rest().is_empty();
        self.receiving.0.is_none() && (own || self.below.holds())
    }

    fn wants(&self, asked: Interest) -> Interest {
        if self.opening.0.is_some() {
            return Interest::NONE;
        }
        let paused = Interest { read: self.receiving.0.is_some(), write: self.sending.0.is_some() };
        let left = asked.without(paused);
        if left == Interest::NONE { left } else { self.below.wants(left) }
    }

    fn deadline(&self) -> Option<Instant> {
        let own = [self.opening, self.receiving, self.sending].map(|pause| pause.0);
        own.into_iter().chain([self.below.deadline()]).flatten().min()
    }

    fn on_deadline(&mut self) {
        let now = Instant::now();
        for pause in [&mut self.opening, &mut self.receiving, &mut self.sending] {
            pause.0 = pause.0.filter(|until| *until > now);
        }
        if self.below.deadline().is_some_and(|deadline| deadline <= now) {
            self.below.on_deadline();
        }
    }

    fn finish_sending(&mut self) -> io::Result<()> {
        self.sending.check(&mut self.random, &self.odds)?;
        self.finish()
    }

    fn control(&mut self, command: &Command) -> io::Result<Answer> {
        if command.name == "finish_sending" {
            // What is left goes with the next reads.
            return unless_blocked(self.finish()).map(|()| Answer::Done);
        }
        Err(io::ErrorKind::Unsupported.into())
    }
}
