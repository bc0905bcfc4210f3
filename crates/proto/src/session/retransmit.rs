//! The retransmission timer of an operation (P-48).
//!
//! A channel that stops without closing still accepts what is sent on it. If that is an
//! acknowledgement that the other end needs before it may send more, no block ever triggers the
//! next acknowledgement, and both ends wait for each other until the channel's deadline, with other
//! channels idle. So after some time without progress the state is sent again, on the next free
//! channel.

use crate::base::Instant;
use crate::limits;

/// The retransmission timer of an operation. Its interval doubles with every repetition; progress
/// resets it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct RetransmitTimer {
    /// When something was last sent or received.
    since: Instant,
    /// Repetitions since the operation last made progress.
    retries: u8,
}

/// Number of repetitions after which only the channel's deadline helps: together they take more
/// than half a minute.
const DOUBTS_MAX: u8 = 7;

impl RetransmitTimer {
    /// When the timer expires; none once repetition is of no use.
    pub(super) fn over_at(self) -> Option<Instant> {
        (self.retries < DOUBTS_MAX).then(|| self.since.after(limits::QUIET * (1 << self.retries)))
    }

    /// Something was sent or received.
    pub(super) fn on_word(&mut self, now: Instant) {
        self.since = self.since.max(now);
    }

    /// The operation made progress.
    pub(super) fn on_step(&mut self, now: Instant) {
        self.on_word(now);
        self.retries = 0;
    }

    /// The state is sent again.
    pub(super) fn on_retry(&mut self, now: Instant) {
        self.on_word(now);
        self.retries = self.retries.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn pauses_double_until_there_is_no_use_in_them_and_are_short_again_after_a_step() {
        let mut silence = RetransmitTimer::default();
        let mut now = Instant(0);
        let mut pauses = alloc::vec::Vec::new();
        while let Some(at) = silence.over_at() {
            pauses.push(at.since(now));
            now = at;
            silence.on_retry(now);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64].map(|times| limits::QUIET * times));
        silence.on_step(now.after(Duration::from_secs(1)));
        assert_eq!(silence.over_at(), Some(now.after(Duration::from_secs(1)).after(limits::QUIET)));
    }
}
