//! Requests that are being worked on, and which of them the kernel interrupts.
//!
//! A program that a signal reaches while it waits for the file system is let go: the kernel then asks
//! to interrupt its request. Most requests are answered in a moment, and a program that did not expect
//! EINTR (any signal causes it, also one with a handler) would take it for an error. So a request has a
//! grace before it is answered so; then its late result is dropped.

use std::collections::BTreeMap;

/// How long an interrupted request may still be answered as usual, in milliseconds. A process that
/// is killed waits for this at most.
pub(super) const GRACE_MS: u64 = 400;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum CallState {
    Working,
    Interrupted {
        since_ms: u64,
    },
    /// Answered with EINTR.
    Abandoned,
}

/// The requests by their numbers, which are never used twice.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct InFlight {
    calls: BTreeMap<u64, CallState>,
}

impl InFlight {
    /// A request arrived.
    pub(super) fn begin(&mut self, unique: u64) {
        self.calls.insert(unique, CallState::Working);
    }

    /// The kernel wants it to end. One that was answered meanwhile is not known any more.
    pub(super) fn interrupt(&mut self, unique: u64, now_ms: u64) {
        if let Some(state @ CallState::Working) = self.calls.get_mut(&unique) {
            *state = CallState::Interrupted { since_ms: now_ms };
        }
    }

    /// Its result is there; whether the kernel waits for it.
    pub(super) fn finish(&mut self, unique: u64) -> bool {
        self.calls.remove(&unique).is_some_and(|state| state != CallState::Abandoned)
    }

    /// Whether nobody waits for it any more.
    pub(super) fn is_abandoned(&self, unique: u64) -> bool {
        self.calls.get(&unique) == Some(&CallState::Abandoned)
    }

    /// When the next interrupted request is answered, if there is one.
    pub(super) fn next_ms(&self) -> Option<u64> {
        let since = |state: &CallState| match state {
            CallState::Interrupted { since_ms } => Some(since_ms + GRACE_MS),
            _ => None,
        };
        self.calls.values().filter_map(since).min()
    }

    /// The requests that are answered with EINTR now.
    pub(super) fn due(&mut self, now_ms: u64) -> Vec<u64> {
        let mut due = Vec::new();
        for (unique, state) in &mut self.calls {
            if matches!(state, CallState::Interrupted { since_ms } if *since_ms + GRACE_MS <= now_ms) {
                *state = CallState::Abandoned;
                due.push(*unique);
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_request_is_answered_once_by_whichever_is_first() {
        let mut calls = InFlight::default();
        (1..=3).for_each(|unique| calls.begin(unique));
        calls.interrupt(1, 100);
        calls.interrupt(2, 200);
        calls.interrupt(9, 200);
        assert_eq!(calls.next_ms(), Some(100 + GRACE_MS));
        assert!(calls.finish(1), "its result came in time");
        assert_eq!(calls.due(199 + GRACE_MS), []);
        assert_eq!(calls.due(200 + GRACE_MS), [2]);
        assert!(calls.is_abandoned(2) && !calls.is_abandoned(3));
        assert_eq!(calls.due(10_000), [], "once");
        assert!(!calls.finish(2), "its result is late");
        assert!(calls.finish(3));
        assert_eq!(calls, InFlight::default());
    }

    #[test]
    fn a_second_signal_does_not_prolong_the_wait() {
        let mut calls = InFlight::default();
        calls.begin(1);
        calls.interrupt(1, 100);
        calls.interrupt(1, 300);
        assert_eq!(calls.next_ms(), Some(100 + GRACE_MS));
    }
}
