//! What is worth another try, and how long to wait for it.
//!
//! An error that passes by itself is retried; one that would come again is told at once.

use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use xdfs_proto::base::{Error, ErrorKind};

/// The first pause of a copy: a server that is restarted is back within moments. The longest one: a server that is down for long
/// is tried now and then.
const OF_COPIES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

/// The same for a call of a program, which waits.
const OF_CALLS: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(2)];

/// The same for somebody who is in line for a lock: the server keeps the place for five seconds.
const IN_LINE: [Duration; 2] = [OF_CALLS[0], Duration::from_millis(500)];

/// Whether it is the connection that failed, or a server that ends: nothing is known to be wrong with what was asked for.
pub fn is_outage(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionLost | ErrorKind::TimedOut | ErrorKind::Draining)
}

/// Whether a copy that failed so may succeed when it is tried again, in a new session if need be.
pub fn passes(kind: ErrorKind) -> bool {
    is_outage(kind) || kind == ErrorKind::Busy
}

/// The same for the copy of a tree: an error of the system about a file in use concerns that name, and not the others.
pub(crate) fn passes_for_tree(error: &Error) -> bool {
    is_outage(error.kind) || is_busy(error)
}

/// Whether nothing was done: xdfs has no room for it now, another copy has it, or somebody else's lease excludes it.
pub(crate) fn is_busy(error: &Error) -> bool {
    error.kind == ErrorKind::Busy && error.errno == 0
}

/// Whether the same may succeed in a new session.
pub(crate) fn is_lost(error: &Error) -> bool {
    is_outage(error.kind) || error.kind == ErrorKind::SessionUnknown
}

/// Longer than anybody waits.
pub(crate) const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The moment that is `limit` later; one that no clock reaches is none.
pub(crate) fn after(now: Instant, limit: Duration) -> Instant {
    now.checked_add(limit).unwrap_or(now + FOREVER)
}

/// Pauses that grow, until a deadline.
#[derive(Clone, Debug)]
pub struct Backoff {
    limit: Duration,
    /// The first one, and the longest.
    pauses: [Duration; 2],
    pause: Duration,
    until: Option<Instant>,
    /// Progress when it failed last.
    reached: u64,
    attempts: u64,
}

impl Backoff {
    /// Of a copy: gives up when nothing has moved for `limit`, which counts from the first failure.
    pub fn since_progress(limit: Duration) -> Self {
        Self::new(limit, OF_COPIES)
    }

    /// Of a call: gives up after `limit` from now on.
    pub(crate) fn within(limit: Duration) -> Self {
        Self { until: Some(after(Instant::now(), limit)), ..Self::new(limit, OF_CALLS) }
    }

    /// The same for a lock that is waited for.
    pub(crate) fn in_line(limit: Duration) -> Self {
        Self { pauses: IN_LINE, ..Self::within(limit) }
    }

    fn new(limit: Duration, pauses: [Duration; 2]) -> Self {
        Self { limit, pauses, pause: pauses[0], until: None, reached: 0, attempts: 0 }
    }

    /// Attempts after the first.
    pub fn attempts(&self) -> u64 {
        self.attempts
    }

    /// How long to wait before the next attempt, when so much was reached; none to give up.
    pub fn next(&mut self, reached: u64, now: Instant) -> Option<Duration> {
        if self.limit.is_zero() {
            return None;
        }
        if reached > self.reached || self.until.is_none() {
            (self.until, self.pause) = (Some(after(now, self.limit)), self.pauses[0]);
            self.reached = self.reached.max(reached);
        }
        let left = self.until?.saturating_duration_since(now);
        if left.is_zero() {
            return None;
        }
        let pause = self.pause.min(left);
        self.pause = (self.pause * 2).min(self.pauses[1]);
        self.attempts += 1;
        Some(pause)
    }

    /// The next attempt follows at once, since the server answers; an error if there is none.
    pub(crate) fn try_at_once(&self, error: &Error) -> Result<(), Error> {
        if self.until.is_none_or(|until| Instant::now() < until) { Ok(()) } else { Err(error.clone()) }
    }

    /// Waits before the next attempt; an error if there is none.
    pub(crate) fn wait(&mut self, error: Error) -> Result<(), Error> {
        let Some(pause) = self.next(0, Instant::now()) else { return Err(error) };
        // A channel that nobody sends on: the wait is its timeout.
        let (_sender, receiver) = sync_channel::<()>(0);
        let _ = receiver.recv_timeout(pause);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_end_at_the_deadline() {
        let (mut backoff, start) = (Backoff::since_progress(Duration::from_secs(60)), Instant::now());
        let (mut now, mut pauses) = (start, Vec::new());
        while let Some(pause) = backoff.next(0, now) {
            assert!(pause <= OF_COPIES[1]);
            now += pause;
            pauses.push(pause);
        }
        assert_eq!(pauses[..4].iter().map(Duration::as_millis).collect::<Vec<_>>(), [100, 200, 400, 800]);
        assert_eq!(now - start, Duration::from_secs(60));
        assert!(pauses.len() < 25, "{pauses:?}");
    }

    #[test]
    fn what_moves_gets_a_new_deadline_and_short_pauses() {
        let (mut backoff, start) = (Backoff::since_progress(Duration::from_secs(1)), Instant::now());
        for step in 1..100u32 {
            let now = start + Duration::from_secs(10) * step;
            assert_eq!(backoff.next(step.into(), now), Some(OF_COPIES[0]));
        }
        assert_eq!(backoff.next(99, start + Duration::from_secs(2000)), None);
    }

    #[test]
    fn no_time_is_no_second_attempt() {
        assert_eq!(Backoff::since_progress(Duration::ZERO).next(0, Instant::now()), None);
        let error = Error::new(ErrorKind::ConnectionLost, "gone");
        assert_eq!(Backoff::within(Duration::ZERO).wait(error.clone()), Err(error.clone()));
        let mut backoff = Backoff::within(Duration::from_millis(1));
        while backoff.wait(error.clone()).is_ok() {}
        assert_eq!(backoff.try_at_once(&error), Err(error));
        // For ever is longer than any clock tells.
        assert!(Backoff::within(Duration::MAX).next(0, Instant::now()).is_some());
    }
}
