//! Limits of bandwidth: how many bytes may move now, and when the next ones may.
//!
//! A [`Bucket`] is a value without clock, thread or I/O. Who wants to move bytes gets a *turn*: a
//! few bytes from a certain moment on. Turns follow each other on one line of time at the limited
//! rate, and a flow (a session) has at most one, so flows that always have something to send get
//! equal shares, and what one does not use the others get. All turns together are never worth more
//! than [`TURN`], and a line that was idle, or whose flows came late, is [`CATCH_UP`] behind at
//! most: in any span of time, the limit is exceeded by less than the bytes of 100 ms.
//!
//! A [`Limit`] is a bucket that threads share, and a [`Pacer`] is one flow through one or several
//! of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use xdfs_io::dispatch::{Allowance, Pace};
use xdfs_proto::base::Instant;

/// The time that all turns together are worth: short against 100 ms, and long against the time
/// that a thread needs to wake up.
pub const TURN: Duration = Duration::from_millis(20);
/// How much lost time is made up for: a busy machine wakes threads late.
pub const CATCH_UP: Duration = Duration::from_millis(60);
/// Payloads of calls up to this length move at once: a listing overtakes what is copied.
pub const FREE_CALL_BYTES: u32 = 16 << 10;

/// One flow of bytes through a bucket: a session.
pub type FlowId = u64;

/// A few bytes that a flow may move from a moment on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Turn {
    at: Instant,
    bytes: u64,
}

/// A limit of bytes per second, shared evenly by the flows that want more than they get.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Bucket {
    /// Bytes per second; 0 is no limit.
    rate: u64,
    /// When the next turn may begin.
    next: Instant,
    turns: BTreeMap<FlowId, Turn>,
}

impl Bucket {
    /// A limit of `rate` bytes per second; 0 is none.
    pub const fn new(rate: u64) -> Self {
        Self { rate, next: Instant(0), turns: BTreeMap::new() }
    }

    /// Another rate holds from now on.
    pub fn set_rate(&mut self, rate: u64, now: Instant) {
        if rate != self.rate {
            (self.rate, self.next) = (rate, now);
            self.turns.clear();
        }
    }

    /// What `flow` may move now. A flow that must wait asks again at that time.
    pub fn ask(&mut self, flow: FlowId, now: Instant) -> Allowance {
        if self.rate == 0 {
            return Allowance::Bytes(u64::MAX);
        }
        let turn = match self.turns.get(&flow) {
            Some(turn) => *turn,
            None => self.next_turn(flow, now),
        };
        if turn.at <= now { Allowance::Bytes(turn.bytes) } else { Allowance::From(turn.at) }
    }

    fn next_turn(&mut self, flow: FlowId, now: Instant) -> Turn {
        let oldest = Instant(now.0.saturating_sub(CATCH_UP.as_nanos() as u64));
        let share = self.turns.len() as u128 + 1;
        let bytes = u128::from(self.rate) * TURN.as_nanos() / 1_000_000_000 / share;
        // Below the rate, since a turn is far shorter than a second.
        let turn = Turn { at: self.next.max(oldest), bytes: (bytes as u64).max(1) };
        self.next = turn.at.after(self.worth(turn.bytes));
        self.turns.insert(flow, turn);
        turn
    }

    /// `flow` moved `bytes` in its turn; what is left of it goes to the next one.
    pub fn moved(&mut self, flow: FlowId, bytes: u64) {
        let Some(turn) = self.turns.remove(&flow) else { return };
        self.next = match turn.bytes.checked_sub(bytes) {
            Some(left) => Instant(self.next.0.saturating_sub(self.worth(left).as_nanos() as u64)),
            None => self.next.after(self.worth(bytes - turn.bytes)),
        };
    }

    /// `flow` has ended.
    pub fn leave(&mut self, flow: FlowId) {
        self.moved(flow, 0);
    }

    /// The time that `bytes` take.
    fn worth(&self, bytes: u64) -> Duration {
        let nanos = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(self.rate.max(1)));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// A bucket that several threads share.
#[derive(Debug)]
pub struct Limit {
    rate: AtomicU64,
    bucket: Mutex<Bucket>,
}

impl Limit {
    /// A limit of `rate` bytes per second; 0 is none.
    pub const fn new(rate: u64) -> Self {
        Self { rate: AtomicU64::new(rate), bucket: Mutex::new(Bucket::new(rate)) }
    }

    /// Another rate holds from the next turns on.
    pub fn set_rate(&self, rate: u64) {
        self.rate.store(rate, Ordering::Relaxed);
    }

    /// The rate that holds; 0 is no limit.
    pub fn rate(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }

    fn bucket(&self) -> MutexGuard<'_, Bucket> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One flow through the limits that hold for it.
#[derive(Debug)]
pub struct Pacer {
    flow: FlowId,
    limits: Vec<Arc<Limit>>,
}

impl Pacer {
    /// A flow of its own through all `limits`; none if there is no limit.
    pub fn new(limits: Vec<Arc<Limit>>) -> Option<Arc<Self>> {
        static FLOWS: AtomicU64 = AtomicU64::new(0);
        let flow = FLOWS.fetch_add(1, Ordering::Relaxed);
        (!limits.is_empty()).then(|| Arc::new(Self { flow, limits }))
    }
}

impl Pace for Pacer {
    fn ask(&self, now: Instant) -> Allowance {
        let mut all = Allowance::Bytes(u64::MAX);
        for limit in &self.limits {
            let mut bucket = limit.bucket();
            bucket.set_rate(limit.rate(), now);
            all = all.and(bucket.ask(self.flow, now));
        }
        all
    }

    fn moved(&self, bytes: u64) {
        for limit in &self.limits {
            limit.bucket().moved(self.flow, bytes);
        }
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        for limit in &self.limits {
            limit.bucket().leave(self.flow);
        }
    }
}

#[cfg(test)]
mod tests;
