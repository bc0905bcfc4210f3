//! Limits of bandwidth: how many bytes may move now, and when the next ones may.
//!
//! A [`Bucket`] is a value without clock, thread or I/O. Who wants to move bytes gets a *turn*: a
//! few bytes from a certain moment on. Turns follow each other on one line of time at the limited
//! rate, and a flow (a session) has at most one, so flows that always have something to send get
//! equal shares, and what one does not use the others get. All turns together are never worth more
//! than [`TURN`], and a line that was idle, or whose flows came late, is [`CATCH_UP`] behind at
//! most: in any span of time, the limit is exceeded by less than the bytes of 100 ms.
//!
//! A [`Limit`] is a bucket that threads share, a [`Flow`] is what shares it with others (a session),
//! and a [`Pacer`] is the way of a flow through one or several limits.

pub mod rate;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
pub const SMALL_CALL_BYTES: u32 = 16 << 10;
/// They do unless those before them, which are paid for like all bytes, took the time of this much:
/// small calls are no way past a limit.
pub const OVERTAKEN: Duration = Duration::from_millis(40);

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
        let share = self.turns.len() as u128 + 1;
        let bytes = u128::from(self.rate) * TURN.as_nanos() / 1_000_000_000 / share;
        // Below the rate, since a turn is far shorter than a second.
        let turn = Turn { at: self.next.max(oldest(now)), bytes: (bytes as u64).max(1) };
        self.next = turn.at.after(self.worth(turn.bytes));
        self.turns.insert(flow, turn);
        turn
    }

    /// `flow` moved `bytes` in its turn; what is left of it goes to the next one. What moved without
    /// a turn, since another rate held when it was given, is paid for like the rest.
    pub fn moved(&mut self, flow: FlowId, bytes: u64) {
        let given = self.turns.remove(&flow).map_or(0, |turn| turn.bytes);
        self.next = match given.checked_sub(bytes) {
            Some(left) => Instant(self.next.0.saturating_sub(self.worth(left).as_nanos() as u64)),
            None => self.next.after(self.worth(bytes - given)),
        };
    }

    /// Whether a small call may move without a turn now.
    pub fn is_overtaken(&self, now: Instant) -> bool {
        self.rate == 0 || self.next <= now.after(OVERTAKEN)
    }

    /// These bytes of a small call move without a turn.
    pub fn overtake(&mut self, bytes: u64, now: Instant) {
        if self.rate > 0 {
            self.next = self.next.max(oldest(now)).after(self.worth(bytes));
        }
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

/// The time from which on lost time is made up for.
fn oldest(now: Instant) -> Instant {
    Instant(now.0.saturating_sub(CATCH_UP.as_nanos() as u64))
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

    /// The bucket, at the rate that holds.
    fn bucket_at(&self, now: Instant) -> MutexGuard<'_, Bucket> {
        let mut bucket = self.bucket();
        bucket.set_rate(self.rate(), now);
        bucket
    }
}

/// When a thread asks again that found another one of its flow moving bytes: soon against a turn.
const BUSY: Duration = Duration::from_millis(1);

/// A session, as its limits see it: whatever its threads do, it has one turn at a time.
#[derive(Debug)]
pub struct Flow {
    id: FlowId,
    /// One of its threads moves the bytes of the turn.
    moving: AtomicBool,
}

impl Default for Flow {
    fn default() -> Self {
        static FLOWS: AtomicU64 = AtomicU64::new(0);
        Self { id: FLOWS.fetch_add(1, Ordering::Relaxed), moving: AtomicBool::new(false) }
    }
}

/// The way of a flow through all limits that hold for some of its bytes.
#[derive(Debug)]
pub struct Pacer {
    flow: Arc<Flow>,
    limits: Vec<Arc<Limit>>,
}

impl Pacer {
    /// The way of a flow of its own through all `limits`; none if there is no limit.
    pub fn new(limits: Vec<Arc<Limit>>) -> Option<Arc<Self>> {
        (!limits.is_empty()).then(|| Arc::new(Self::of(Arc::default(), limits)))
    }

    /// The way of `flow` through all `limits`.
    pub const fn of(flow: Arc<Flow>, limits: Vec<Arc<Limit>>) -> Self {
        Self { flow, limits }
    }

    /// Whether the payload of a small call moves at once, overtaking what waits for its turn.
    pub fn overtakes(&self, bytes: u32, now: Instant) -> bool {
        let may = bytes <= SMALL_CALL_BYTES && self.limits.iter().all(|limit| limit.bucket_at(now).is_overtaken(now));
        if may {
            self.limits.iter().for_each(|limit| limit.bucket_at(now).overtake(bytes.into(), now));
        }
        may
    }

    /// Whether any of its limits has a rate now.
    pub fn is_limited(&self) -> bool {
        self.limits.iter().any(|limit| limit.rate() > 0)
    }
}

impl Pace for Pacer {
    fn ask(&self, now: Instant) -> Allowance {
        if self.flow.moving.swap(true, Ordering::Acquire) {
            return Allowance::From(now.after(BUSY));
        }
        let mut all = Allowance::Bytes(u64::MAX);
        for limit in &self.limits {
            all = all.and(limit.bucket_at(now).ask(self.flow.id, now));
        }
        if matches!(all, Allowance::From(_)) {
            self.flow.moving.store(false, Ordering::Release);
        }
        all
    }

    fn moved(&self, bytes: u64) {
        for limit in &self.limits {
            limit.bucket().moved(self.flow.id, bytes);
        }
        self.flow.moving.store(false, Ordering::Release);
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        for limit in &self.limits {
            limit.bucket().leave(self.flow.id);
        }
    }
}

#[cfg(test)]
mod tests;
