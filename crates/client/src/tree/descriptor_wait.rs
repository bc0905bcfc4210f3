//! Waiting for descriptors that are in use by other clients of the server, or by other parts of
//! this process.

use super::Summary;
use std::time::Duration;

/// The first wait; each further one takes twice as long, up to the second of these.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const WAIT_MAX: Duration = Duration::from_secs(2);
/// How long a copy waits without settling a name.
const PATIENCE: Duration = Duration::from_secs(60);

/// The backoff of a copy that ran out of descriptors.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct DescriptorWait {
    /// When the wait began, and the summary at that time.
    began: Option<(Duration, Summary)>,
    wait: Duration,
    until: Option<Duration>,
}

impl DescriptorWait {
    /// A descriptor was refused, and nothing of this copy is in flight that could release one.
    /// False if it has waited long enough.
    pub(super) fn refused(&mut self, now: Duration, summary: Summary) -> bool {
        match self.began {
            Some((began, before)) if before == summary => {
                if now.saturating_sub(began) >= PATIENCE {
                    return false;
                }
                self.wait = (2 * self.wait).min(WAIT_MAX);
            }
            _ => (self.began, self.wait) = (Some((now, summary)), FIRST_WAIT),
        }
        self.until = Some(now + self.wait);
        true
    }

    /// How long nothing new is begun.
    pub(super) fn pause(&mut self, now: Duration) -> Option<Duration> {
        self.until = self.until.filter(|until| *until > now);
        self.until.map(|until| until - now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_longer_each_time_gives_up_at_last_and_has_new_patience_for_every_name_that_is_settled() {
        let (mut wait, begin) = (DescriptorWait::default(), Duration::from_secs(1));
        let (mut now, mut summary, mut waited) = (begin, Summary::default(), Vec::new());
        assert_eq!(wait.pause(now), None);
        while wait.refused(now, summary) {
            let pause = wait.pause(now).unwrap();
            waited.push(pause);
            now += pause;
            assert_eq!(wait.pause(now), None);
        }
        assert!(waited.is_sorted() && waited.len() < 50, "{waited:?}");
        assert_eq!((waited[0], *waited.last().unwrap()), (FIRST_WAIT, WAIT_MAX));
        assert!(now - begin >= PATIENCE && now - begin <= PATIENCE + WAIT_MAX);
        summary.files += 1;
        assert!(wait.refused(now, summary));
        assert_eq!(wait.pause(now), Some(FIRST_WAIT));
    }
}
