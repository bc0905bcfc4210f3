//! Requests that are being worked on, and which of them the kernel interrupts.
//!
//! A program that a signal reaches while it waits for the file system is let go: the kernel then asks
//! to interrupt its request. Most requests are answered in a moment, and a program that did not expect
//! EINTR (any signal causes it, also one with a handler) would take it for an error. So a request has a
//! grace before it is answered so; then its late result is dropped.
//!
//! Only who waits for a lock expects EINTR. A thread that is not ending waits for other answers as it does on a
//! file system of its own machine, where there is no EINTR: to look at something for some seconds, since its
//! server may be lost, and to change something until it is known what became of the change. That was sent and
//! cannot be called back, and who is told EINTR takes it for a change that was not made, and makes it again.
//!
//! A process that a signal has ended closes its files and gives up its locks. The signal is gone by then, so that the kernel
//! interrupts none of these requests, and the process would be there until each is answered: of those it is seen without that
//! whether their caller is ending.

use std::collections::BTreeMap;

/// How long an interrupted request may still be answered as usual, in milliseconds. A process that
/// is killed waits for this at most.
pub(super) const GRACE_MS: u64 = 400;

/// After how long it is seen again whether the caller of an interrupted request is ending.
pub(super) const AGAIN_MS: u64 = 200;

/// After how long it is seen for the first time whether the caller of a request that ends something is ending itself.
pub(super) const LOOK_MS: u64 = 100;

/// How long a thread that handles a signal waits on for an answer that changes nothing, in milliseconds.
pub(super) const PATIENCE_MS: u64 = 5_000;

/// Who waits for a request, and for what.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Waiter {
    /// Somebody who waits for a lock, and is told that it was interrupted.
    Locking,
    /// This thread looks at something, and may do so again.
    Looking(u32),
    /// This thread has to know what became of its change.
    Changing(u32),
}

impl Waiter {
    /// Whether it waits on, so long after the first signal.
    fn waits_on(self, waited_ms: u64, is_dying: impl Fn(u32) -> bool) -> bool {
        match self {
            Self::Locking => false,
            Self::Looking(thread) => waited_ms < PATIENCE_MS && !is_dying(thread),
            Self::Changing(thread) => !is_dying(thread),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum CallState {
    Working(Waiter),
    /// Answered with EINTR at this time, unless its caller waits on.
    Interrupted {
        since_ms: u64,
        at_ms: u64,
        waiter: Waiter,
    },
    /// Answered with EINTR.
    Abandoned,
}

/// The requests by their numbers, which are never used twice.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct InFlight {
    calls: BTreeMap<u64, CallState>,
    /// The thread that was found to be ending last: it may have more to end.
    ending: Option<u32>,
    /// Until when whoever answers interrupted requests sleeps; none if until it is woken.
    sleeps_until_ms: Option<u64>,
}

impl InFlight {
    /// A request arrived.
    pub(super) fn begin(&mut self, unique: u64, waiter: Waiter) {
        self.calls.insert(unique, CallState::Working(waiter));
    }

    /// A request arrived that ends something: its caller may be ending itself. True if whoever answers interrupted requests
    /// sleeps too long for it.
    pub(super) fn begin_ending(&mut self, unique: u64, thread: u32, now_ms: u64) -> bool {
        // Nothing can be seen of a thread of another namespace.
        if thread == 0 {
            self.begin(unique, Waiter::Changing(thread));
            return false;
        }
        let at_ms = if self.ending == Some(thread) { now_ms } else { now_ms + LOOK_MS };
        let waiter = Waiter::Changing(thread);
        self.calls.insert(unique, CallState::Interrupted { since_ms: now_ms, at_ms, waiter });
        self.sleeps_until_ms.is_none_or(|until_ms| until_ms > at_ms)
    }

    /// Whoever answers interrupted requests sleeps until then.
    pub(super) fn sleep(&mut self, until_ms: Option<u64>) {
        self.sleeps_until_ms = until_ms;
    }

    /// The kernel wants it to end. One that was answered meanwhile is not known any more.
    pub(super) fn interrupt(&mut self, unique: u64, now_ms: u64) {
        if let Some(state) = self.calls.get_mut(&unique)
            && let CallState::Working(waiter) = *state
        {
            *state = CallState::Interrupted { since_ms: now_ms, at_ms: now_ms + GRACE_MS, waiter };
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
        let at = |state: &CallState| match state {
            CallState::Interrupted { at_ms, .. } => Some(*at_ms),
            _ => None,
        };
        self.calls.values().filter_map(at).min()
    }

    /// The requests that are answered with EINTR now. `is_dying` tells whether a thread is ending.
    pub(super) fn due(&mut self, now_ms: u64, is_dying: impl Fn(u32) -> bool) -> Vec<u64> {
        let mut due = Vec::new();
        for (unique, state) in &mut self.calls {
            match state {
                CallState::Interrupted { at_ms, .. } if *at_ms > now_ms => {}
                CallState::Interrupted { since_ms, at_ms, waiter }
                    if waiter.waits_on(now_ms - *since_ms, &is_dying) =>
                {
                    *at_ms = now_ms + AGAIN_MS;
                }
                CallState::Interrupted { waiter, .. } => {
                    if let Waiter::Changing(thread) = *waiter {
                        self.ending = Some(thread);
                    }
                    *state = CallState::Abandoned;
                    due.push(*unique);
                }
                CallState::Working(_) | CallState::Abandoned => {}
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Waiter::{Changing, Locking, Looking};

    const NOBODY_DIES: fn(u32) -> bool = |_| false;

    #[test]
    fn the_caller_of_a_change_is_told_what_became_of_it_unless_it_is_ending() {
        let mut calls = InFlight::default();
        calls.begin(1, Changing(7));
        calls.begin(2, Changing(8));
        calls.interrupt(1, 100);
        calls.interrupt(2, 100);
        assert_eq!(calls.due(100 + GRACE_MS, |thread| thread == 8), [2]);
        assert_eq!(calls.next_ms(), Some(100 + GRACE_MS + AGAIN_MS));
        assert_eq!(calls.due(100 + GRACE_MS + AGAIN_MS, NOBODY_DIES), []);
        let mut killed = calls.clone();
        assert_eq!(killed.due(10_000, |thread| thread == 7), [1], "a later signal ends it");
        assert!(calls.finish(1) && !killed.finish(1));
    }

    #[test]
    fn who_looks_waits_on_for_seconds_unless_it_is_ending() {
        let mut calls = InFlight::default();
        calls.begin(1, Looking(7));
        calls.begin(2, Looking(8));
        calls.interrupt(1, 100);
        calls.interrupt(2, 100);
        assert_eq!(calls.due(100 + GRACE_MS, |thread| thread == 8), [2]);
        assert_eq!(calls.due(99 + PATIENCE_MS, NOBODY_DIES), []);
        assert_eq!(calls.due(99 + PATIENCE_MS + AGAIN_MS, NOBODY_DIES), [1]);
    }

    #[test]
    fn an_interrupted_request_is_answered_once_by_whichever_is_first() {
        let mut calls = InFlight::default();
        (1..=3).for_each(|unique| calls.begin(unique, Locking));
        calls.interrupt(1, 100);
        calls.interrupt(2, 200);
        calls.interrupt(9, 200);
        assert_eq!(calls.next_ms(), Some(100 + GRACE_MS));
        assert!(calls.finish(1), "its result came in time");
        assert_eq!(calls.due(199 + GRACE_MS, NOBODY_DIES), []);
        assert_eq!(calls.due(200 + GRACE_MS, NOBODY_DIES), [2]);
        assert!(calls.is_abandoned(2) && !calls.is_abandoned(3));
        assert_eq!(calls.due(10_000, NOBODY_DIES), [], "once");
        assert!(!calls.finish(2), "its result is late");
        assert!(calls.finish(3));
        assert_eq!(calls, InFlight::default());
    }

    #[test]
    fn a_second_signal_does_not_prolong_the_wait() {
        let mut calls = InFlight::default();
        calls.begin(1, Locking);
        calls.interrupt(1, 100);
        calls.interrupt(1, 300);
        assert_eq!(calls.next_ms(), Some(100 + GRACE_MS));
    }

    #[test]
    fn a_process_that_is_ending_waits_for_none_of_its_files() {
        let mut calls = InFlight::default();
        assert!(calls.begin_ending(1, 7, 100), "who answers sleeps");
        calls.sleep(Some(100 + LOOK_MS));
        assert!(!calls.begin_ending(2, 8, 100 + LOOK_MS), "it wakes in time");
        assert_eq!(calls.due(99 + LOOK_MS, |_| true), []);
        assert_eq!(calls.due(100 + LOOK_MS, |thread| thread == 7), [1]);
        calls.sleep(calls.next_ms());
        assert!(calls.begin_ending(3, 7, 150 + LOOK_MS));
        assert_eq!(
            calls.due(150 + LOOK_MS, |thread| thread == 7),
            [3],
            "its other files are not waited for so long again"
        );
        assert_eq!(calls.due(100 + 2 * LOOK_MS, |thread| thread == 7), [], "the other process waits on");
        assert_eq!(calls.next_ms(), Some(100 + 2 * LOOK_MS + AGAIN_MS));
        assert!(calls.finish(2));
    }
}
