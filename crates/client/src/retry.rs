//! What is worth another try, how long to wait for it, and the loops that make it.
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

/// What a failure says of another attempt at the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailureClass {
    /// That would fail, too.
    Permanent,
    /// That may succeed: a server had answered.
    Transient,
    /// No server answered. One that was there before may come back; one that never was is not waited for.
    Unanswered,
}

impl FailureClass {
    /// Of a copy that failed so, before or after a server had answered.
    pub fn of_copy(kind: ErrorKind, answered: bool) -> Self {
        match (passes(kind), answered) {
            (false, _) => Self::Permanent,
            (true, true) => Self::Transient,
            (true, false) => Self::Unanswered,
        }
    }
}

/// Failures between which nothing moves are one outage, of which people want to hear once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outage {
    /// This is its first failure.
    Begins,
    /// This is another one.
    Lasts,
}

/// What is attempted until it succeeds, and whoever waits for that.
pub trait Attempts {
    /// What comes of it.
    type Done;
    /// Why it failed.
    type Failure;

    /// Makes one attempt. Those behind a loss need another session, and go on with what is there.
    fn attempt(&mut self) -> Result<Self::Done, Self::Failure>;

    /// What a failure says of the next attempt.
    fn classify(&self, failure: &Self::Failure) -> FailureClass;

    /// How far all attempts together have come.
    fn progress(&self) -> u64;

    /// Waits. False if another attempt is not wanted any more.
    fn pause(&mut self, time: Duration) -> bool;

    /// Another attempt follows.
    fn on_retry(&mut self, failure: Self::Failure, outage: Outage);
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

    /// Makes attempts until one succeeds, or none is left. The last failure is that of all of them.
    pub fn retry<A: Attempts>(&mut self, attempts: &mut A) -> Result<A::Done, A::Failure> {
        loop {
            let failure = match attempts.attempt() {
                Ok(done) => return Ok(done),
                Err(failure) => failure,
            };
            let (class, reached) = (attempts.classify(&failure), attempts.progress());
            let outage = if self.is_first_loss(reached) { Outage::Begins } else { Outage::Lasts };
            let pause = if self.is_worth_it(class) { self.next(reached, Instant::now()) } else { None };
            if !pause.is_some_and(|pause| attempts.pause(pause)) {
                return Err(failure);
            }
            attempts.on_retry(failure, outage);
        }
    }

    /// Makes a call of a program, and again while its error is worth that.
    pub(crate) fn retry_call<T>(
        &mut self,
        is_worth_it: impl Fn(&Error) -> bool,
        mut call: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        loop {
            match call() {
                Err(error) if is_worth_it(&error) => self.wait(error)?,
                outcome => return outcome,
            }
        }
    }

    fn is_worth_it(&self, class: FailureClass) -> bool {
        match class {
            FailureClass::Permanent => false,
            FailureClass::Transient => true,
            FailureClass::Unanswered => self.attempts > 0,
        }
    }

    /// Nothing failed since something moved.
    fn is_first_loss(&self, reached: u64) -> bool {
        reached > self.reached || self.until.is_none()
    }

    /// How long to wait before the next attempt, when so much was reached; none to give up.
    fn next(&mut self, reached: u64, now: Instant) -> Option<Duration> {
        if self.limit.is_zero() {
            return None;
        }
        if self.is_first_loss(reached) {
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

    /// Attempts that fail as they are told to, and then succeed.
    struct Script {
        /// The kind of each failure, and whether a server had answered; the last one is the first.
        failures: Vec<(ErrorKind, bool)>,
        /// What the attempt reaches that fails so late.
        moves_at: usize,
        /// What was told of each further attempt.
        told: Vec<Outage>,
    }

    impl Script {
        fn of(failures: &[(ErrorKind, bool)]) -> Self {
            Self { failures: failures.iter().rev().copied().collect(), moves_at: 0, told: Vec::new() }
        }

        fn run(&mut self) -> Result<(), (ErrorKind, bool)> {
            Backoff::since_progress(Duration::from_secs(60)).retry(self)
        }
    }

    impl Attempts for Script {
        type Done = ();
        type Failure = (ErrorKind, bool);

        fn attempt(&mut self) -> Result<(), Self::Failure> {
            self.failures.pop().map_or(Ok(()), Err)
        }

        fn classify(&self, &(kind, answered): &Self::Failure) -> FailureClass {
            FailureClass::of_copy(kind, answered)
        }

        fn progress(&self) -> u64 {
            u64::from(self.failures.len() < self.moves_at)
        }

        fn pause(&mut self, _: Duration) -> bool {
            true
        }

        fn on_retry(&mut self, _: Self::Failure, outage: Outage) {
            self.told.push(outage);
        }
    }

    #[test]
    fn what_does_not_pass_or_never_began_is_not_tried_again() {
        for failure in [(ErrorKind::ConnectionLost, false), (ErrorKind::NoSpace, true), (ErrorKind::Superseded, true)] {
            let mut script = Script::of(&[failure]);
            assert_eq!((script.run(), script.told.len()), (Err(failure), 0));
        }
        // The server is not back yet at the second attempt.
        let mut script = Script::of(&[(ErrorKind::Draining, true), (ErrorKind::ConnectionLost, false)]);
        assert_eq!((script.run(), script.told.len()), (Ok(()), 2));
    }

    #[test]
    fn an_outage_lasts_until_something_moves() {
        let mut script = Script::of(&[(ErrorKind::ConnectionLost, true); 4]);
        script.moves_at = 2;
        assert_eq!(script.run(), Ok(()));
        assert_eq!(script.told, [Outage::Begins, Outage::Lasts, Outage::Begins, Outage::Lasts]);
    }

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
