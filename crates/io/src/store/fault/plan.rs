//! Decides which call fails, and how: by a list, a seed, or a disk of a given size. It uses no
//! clock and no randomness except the seed's, so a run is reproduced by its seed.

use rustix::io::Errno;
use std::collections::BTreeMap;
use std::time::Duration;

/// A call on a store or on what it returned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Call {
    /// Attributes of a name.
    Attributes,
    /// Open a source.
    Open,
    /// Prepare a file.
    Stage,
    /// Read some bytes.
    Read,
    /// Write some bytes.
    Write,
    /// Name the file.
    Commit,
    /// Make its bytes durable.
    Sync,
    /// Make everything durable that was written to the file system.
    SyncSystem,
    /// Make written data survive the program.
    Checkpoint,
    /// Make its name durable.
    SyncDirectory,
    /// Check whether the source has changed.
    Revalidate,
}

/// A fault.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// The call fails with this errno and has no effect.
    Errno(i32),
    /// A read or write moves at most this many bytes, at least one; the rest needs another call.
    Short(usize),
    /// A read or write is interrupted before it has moved a byte.
    Interrupted,
    /// A read reports the end, a write accepts nothing.
    Nothing,
    /// A write reports success and discards everything.
    Lost,
    /// A write accepts everything, with its first bit flipped.
    Flipped,
    /// The source has changed ([`Call::Revalidate`]).
    Changed,
}

impl Fault {
    /// The name in the list of faults.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Errno(_) => "error",
            Self::Short(_) => "short",
            Self::Interrupted => "interrupted",
            Self::Nothing => "nothing",
            Self::Lost => "lost",
            Self::Flipped => "flipped",
            Self::Changed => "changed",
        }
    }
}

/// Rates of a seeded plan, in calls per million.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    /// Reads and writes that are short.
    pub short: u32,
    /// Reads and writes that are interrupted.
    pub interrupted: u32,
    /// Reads that report an early end.
    pub early_end: u32,
    /// Revalidations that find another file.
    pub changed: u32,
    /// Errors of each kind of call; see [`Rates::errors`] for the numbers.
    pub error: BTreeMap<Call, u32>,
    /// The errnos that errors are drawn from; EIO when empty.
    pub errors: Vec<i32>,
    /// Each call takes less than this time.
    pub delay_max: Duration,
}

/// Decides about every call of one store, in order.
#[derive(Debug)]
pub struct Plan {
    listed: Vec<(Call, u64, Fault)>,
    seeded: Option<(Seed, Rates)>,
    /// Bytes that writes may still take; the write that would exceed it is shortened, the next gets
    /// ENOSPC.
    room: Option<u64>,
    /// Calls so far.
    calls: BTreeMap<Call, u64>,
    /// Faults so far, by call and name.
    injected: BTreeMap<(Call, &'static str), u64>,
    delay: Duration,
}

impl Plan {
    /// A plan without faults.
    pub fn none() -> Self {
        Self {
            listed: Vec::new(),
            seeded: None,
            room: None,
            calls: BTreeMap::new(),
            injected: BTreeMap::new(),
            delay: Duration::ZERO,
        }
    }

    /// Faults drawn from `seed`, at these `rates`.
    pub fn seeded(seed: u64, rates: Rates) -> Self {
        Self { seeded: Some((Seed(seed), rates)), ..Self::none() }
    }

    /// In addition, the `nth` call (from 1) of `call` gets `fault`.
    pub fn at(mut self, call: Call, nth: u64, fault: Fault) -> Self {
        self.listed.push((call, nth, fault));
        self
    }

    /// In addition, the disk is full after `bytes` written bytes.
    pub fn room(mut self, bytes: u64) -> Self {
        self.room = Some(bytes);
        self
    }

    /// Counts a call that would move `length` bytes, and decides about it.
    pub(super) fn decide(&mut self, call: Call, length: usize) -> Option<Fault> {
        let nth = self.calls.entry(call).or_default();
        *nth += 1;
        let nth = *nth;
        self.delay = match &mut self.seeded {
            Some((seed, rates)) => seed.below_duration(rates.delay_max),
            None => Duration::ZERO,
        };
        let listed =
            self.listed.iter().find(|(at, number, _)| *at == call && *number == nth).map(|(_, _, fault)| *fault);
        let fault = listed.or_else(|| self.draw(call, length)).or_else(|| self.full(call, length));
        if let Some(fault) = fault {
            *self.injected.entry((call, fault.name())).or_default() += 1;
        }
        fault
    }

    /// `count` bytes were written.
    pub(super) fn written(&mut self, count: usize) {
        if let Some(room) = &mut self.room {
            *room = room.saturating_sub(count as u64);
        }
    }

    fn draw(&mut self, call: Call, length: usize) -> Option<Fault> {
        let (seed, rates) = self.seeded.as_mut()?;
        if let Some(&rate) = rates.error.get(&call)
            && seed.hits(rate)
        {
            let index = seed.below(rates.errors.len() as u64) as usize;
            return Some(Fault::Errno(rates.errors.get(index).copied().unwrap_or(Errno::IO.raw_os_error())));
        }
        match call {
            Call::Revalidate if seed.hits(rates.changed) => Some(Fault::Changed),
            Call::Read if seed.hits(rates.early_end) => Some(Fault::Nothing),
            Call::Read | Call::Write if seed.hits(rates.interrupted) => Some(Fault::Interrupted),
            Call::Read | Call::Write if length > 1 && seed.hits(rates.short) => {
                Some(Fault::Short(1 + seed.below(length as u64 - 1) as usize))
            }
            _ => None,
        }
    }

    fn full(&self, call: Call, length: usize) -> Option<Fault> {
        let room = self.room.filter(|&room| call == Call::Write && (length as u64) > room)?;
        // Below `length`, so it fits.
        Some(if room == 0 { Fault::Errno(Errno::NOSPC.raw_os_error()) } else { Fault::Short(room as usize) })
    }

    pub(super) fn delay(&self) -> Duration {
        self.delay
    }

    pub(super) fn injected(&self) -> &BTreeMap<(Call, &'static str), u64> {
        &self.injected
    }

    pub(super) fn calls(&self, call: Call) -> u64 {
        self.calls.get(&call).copied().unwrap_or(0)
    }
}

/// SplitMix64: one word of state, every seed is as good as any other.
#[derive(Debug)]
struct Seed(u64);

impl Seed {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `bound`, 0 when there is none. The bias of the remainder does not matter to a
    /// fault.
    fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    fn hits(&mut self, per_million: u32) -> bool {
        self.below(1_000_000) < u64::from(per_million)
    }

    fn below_duration(&mut self, bound: Duration) -> Duration {
        Duration::from_nanos(self.below(u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX)))
    }
}
