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
pub(super) struct DescriptorWait(Option<Wait>);

/// Pauses between which no name is settled.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Wait {
    /// When the first one began, and the summary at that time.
    began: Duration,
    summary: Summary,
    /// The last one, and when it ends.
    pause: Duration,
    until: Duration,
}

impl DescriptorWait {
    /// A descriptor was refused, and nothing of this copy is in flight that could release one.
    /// False if it has waited long enough.
    pub(super) fn refused(&mut self, now: Duration, summary: Summary) -> bool {
        let (began, pause) = match &self.0 {
            Some(wait) if wait.summary == summary => {
                if now.saturating_sub(wait.began) >= PATIENCE {
                    return false;
                }
                (wait.began, (2 * wait.pause).min(WAIT_MAX))
            }
            _ => (now, FIRST_WAIT),
        };
        self.0 = Some(Wait { began, summary, pause, until: now + pause });
        true
    }

    /// How long nothing new is begun.
    pub(super) fn pause(&self, now: Duration) -> Option<Duration> {
        let until = self.0.as_ref()?.until;
        until.checked_sub(now).filter(|left| !left.is_zero())
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
