//! Limits how fast a user's calls may fill the audit log: a user who exceeds the rate waits, and no
//! other user does.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time by which a user may exceed the rate: a burst of this many seconds' worth of log bytes.
const BURST: Duration = Duration::from_secs(2);

/// Longest wait that is requested at a time: to a user, a long wait looks like a server that hangs.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The longest debt of a user. It is more than one user can cause at once at the shipped rate (384
/// s: the batches of 32 sessions, 8 MiB each, 12 bytes of log for a byte), so that the rate holds;
/// and if the rate is set far lower, no user waits for days for what was written in a moment.
const DEBT_MAX: Duration = Duration::from_secs(10 * 60);

/// The debt of each user: the time that the log takes for what the user had written. Users without
/// debt are forgotten.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    paid_at: Mutex<BTreeMap<String, Instant>>,
}

impl Pace {
    /// Charges `user` for `bytes` written to a log that takes `rate` bytes per second of each user.
    pub(crate) fn charge(&self, user: &str, bytes: usize, rate: u64, now: Instant) {
        if bytes == 0 {
            return;
        }
        let seconds = bytes as f64 / rate.max(1) as f64;
        let cost = Duration::from_secs_f64(seconds.min(DEBT_MAX.as_secs_f64()));
        let mut paid_at = self.paid_at.lock().unwrap_or_else(PoisonError::into_inner);
        match paid_at.get_mut(user) {
            Some(at) => *at = ((*at).max(now) + cost).min(now + DEBT_MAX),
            None => {
                // The users left are those with log lines of the last moments, and those who wait.
                paid_at.retain(|_, at| *at > now);
                paid_at.insert(user.to_owned(), now + cost);
            }
        }
    }

    /// How long `user` waits before the next calls.
    pub(crate) fn wait(&self, user: &str, now: Instant) -> Duration {
        let paid_at = self.paid_at.lock().unwrap_or_else(PoisonError::into_inner);
        let owed = paid_at.get(user).map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        owed.saturating_sub(BURST).min(WAIT_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 1 << 20;

    #[test]
    fn who_writes_more_than_the_rate_waits_until_it_is_paid_and_nobody_else_does() {
        let (pace, start) = (Pace::default(), Instant::now());
        pace.charge("ada", 2 << 20, RATE, start);
        assert_eq!(pace.wait("ada", start), Duration::ZERO, "a burst is free");
        pace.charge("ada", 512 << 10, RATE, start);
        assert_eq!(pace.wait("ada", start), Duration::from_millis(500));
        assert_eq!(pace.wait("bob", start), Duration::ZERO);
        assert_eq!(pace.wait("ada", start + Duration::from_millis(500)), Duration::ZERO);
        pace.charge("ada", 100 << 20, RATE, start);
        assert_eq!(pace.wait("ada", start), WAIT_MAX, "and asks again");
    }

    #[test]
    fn nobody_waits_for_ever_whatever_was_written() {
        let (pace, start) = (Pace::default(), Instant::now());
        for _ in 0..100 {
            pace.charge("ada", 1 << 30, 1, start);
        }
        assert_eq!(pace.wait("ada", start), WAIT_MAX);
        assert_eq!(pace.wait("ada", start + DEBT_MAX - BURST), Duration::ZERO);
        pace.charge("bob", usize::MAX, 0, start);
        assert_eq!(pace.wait("bob", start + DEBT_MAX - BURST), Duration::ZERO, "the first time as well");
    }

    #[test]
    fn who_owes_nothing_is_forgotten() {
        let (pace, start) = (Pace::default(), Instant::now());
        for number in 0..1000 {
            pace.charge(&format!("u{number}"), 1000, RATE, start + Duration::from_millis(number));
        }
        assert!(pace.paid_at.lock().unwrap().len() < 10);
    }
}
