//! Changes that a client watches and has not been told yet: gathered, and bounded whatever the client
//! does (P-100).
//!
//! A client that does not read, or whose files change faster than it reads, costs no more than this: what
//! is too much becomes "look again". Nothing is lost by it, since a notice says that something changed
//! and never what it is now. Knows neither messages nor a clock.

use crate::wire::notice::{Changes, Notice};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Names that are kept for all watches of a session: two messages, some 80 KiB with the longest names.
pub const NAMES_MAX: usize = 256;

/// Watches that are kept apart: as many as a session may have.
pub const WATCHES_MAX: usize = 4096;

/// What one watch has to tell.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Pending {
    /// About what is watched itself, or about all of it.
    itself: Changes,
    names: BTreeMap<Vec<u8>, Changes>,
}

/// What a client has not been told yet.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct PendingNotices {
    watches: BTreeMap<u64, Pending>,
    /// Names of all watches.
    names: usize,
    /// About every watch anything may have changed.
    all: bool,
    /// The watch that is told next: none waits for ever behind a busy one.
    next: u64,
}

impl PendingNotices {
    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        !self.all && self.watches.is_empty()
    }

    /// Whether a name would be told as nothing but "look again": then nobody need know which it is.
    pub fn is_full(&self, watch: u64) -> bool {
        let about_all = |pending: &Pending| pending.itself.is_about_all();
        self.names >= NAMES_MAX || self.watches.get(&watch).is_some_and(about_all)
    }

    /// This has changed.
    pub fn add(&mut self, notice: Notice) {
        let Notice { watch, changes, name } = notice;
        if watch == 0 || (self.watches.len() >= WATCHES_MAX && !self.watches.contains_key(&watch)) {
            self.all = true;
            return;
        }
        let pending = self.watches.entry(watch).or_default();
        if name.is_empty() {
            pending.itself = pending.itself.and(changes);
        } else if pending.itself.is_about_all() {
            return;
        } else if let Some(known) = pending.names.get_mut(&name) {
            *known = known.and(changes);
        } else if self.names < NAMES_MAX {
            pending.names.insert(name, changes);
            self.names += 1;
        } else {
            pending.itself = pending.itself.and(Changes::LOOK_AGAIN);
        }
        if pending.itself.is_about_all() {
            self.names -= pending.names.len();
            pending.names.clear();
        }
    }

    /// The watch is over, and its client knows.
    pub fn forget(&mut self, watch: u64) {
        if let Some(pending) = self.watches.remove(&watch) {
            self.names -= pending.names.len();
        }
    }

    /// At most this many of them, which is not 0; the watches take turns.
    pub fn take(&mut self, most: usize) -> Vec<Notice> {
        let mut taken = Vec::new();
        if core::mem::take(&mut self.all) {
            taken.push(Notice::of_all());
        }
        while taken.len() < most {
            let behind = self.watches.range(self.next..).next();
            let Some((&watch, _)) = behind.or_else(|| self.watches.iter().next()) else { break };
            self.next = watch + 1;
            let Some(pending) = self.watches.get_mut(&watch) else { break };
            while taken.len() < most
                && let Some((name, changes)) = pending.names.pop_first()
            {
                self.names -= 1;
                taken.push(Notice { watch, changes, name });
            }
            if taken.len() < most && pending.itself != Changes::NONE {
                let changes = core::mem::take(&mut pending.itself);
                taken.push(Notice { watch, changes, name: Vec::new() });
            }
            if *pending == Pending::default() {
                self.watches.remove(&watch);
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec;

    fn notice(watch: u64, changes: Changes, name: &[u8]) -> Notice {
        Notice { watch, changes, name: name.to_vec() }
    }

    #[test]
    fn changes_of_a_name_are_told_once_with_everything_that_changed() {
        let mut pending = PendingNotices::default();
        for _ in 0..1000 {
            pending.add(notice(3, Changes::CONTENT, b"log"));
        }
        pending.add(notice(3, Changes::NAME, b"log"));
        pending.add(notice(3, Changes::ATTRIBUTES, b""));
        let told = vec![notice(3, Changes::CONTENT.and(Changes::NAME), b"log"), notice(3, Changes::ATTRIBUTES, b"")];
        assert_eq!(pending.take(10), told);
        assert_eq!(pending, PendingNotices { next: 4, ..PendingNotices::default() });
    }

    #[test]
    fn names_that_are_too_many_become_look_again_and_cost_others_nothing() {
        let mut pending = PendingNotices::default();
        pending.add(notice(1, Changes::NAME, b"kept"));
        for number in 0..100_000 {
            pending.add(notice(2, Changes::NAME, format!("{number}").as_bytes()));
        }
        assert!(pending.is_full(2) && !pending.is_full(1), "the names of the second are given up, with their room");
        assert_eq!(pending.names, 1);
        let told = vec![notice(1, Changes::NAME, b"kept"), notice(2, Changes::LOOK_AGAIN, b"")];
        assert_eq!(pending.take(10), told);
        assert!(pending.is_empty());
    }

    #[test]
    fn whatever_is_added_what_is_kept_is_bounded() {
        let mut pending = PendingNotices::default();
        for number in 0..200_000_u64 {
            let (watch, name) = (number % 9973 + 1, format!("{}", number % 7));
            pending.add(notice(watch, Changes::CONTENT, name.as_bytes()));
            assert!(pending.names <= NAMES_MAX && pending.watches.len() <= WATCHES_MAX);
        }
        assert_eq!(pending.names, pending.watches.values().map(|one| one.names.len()).sum::<usize>());
        assert_eq!(pending.take(1), vec![Notice::of_all()], "more watches than it can keep apart");
    }

    #[test]
    fn a_watch_that_is_over_says_nothing_else_and_one_that_is_forgotten_nothing_at_all() {
        let mut pending = PendingNotices::default();
        pending.add(notice(1, Changes::NAME, b"a"));
        pending.add(notice(1, Changes::OVER, b""));
        pending.add(notice(1, Changes::NAME, b"b"));
        pending.add(notice(2, Changes::NAME, b"a"));
        pending.forget(2);
        assert_eq!(pending.take(10), vec![notice(1, Changes::OVER, b"")]);
        assert_eq!((pending.names, pending.is_empty()), (0, true));
    }

    #[test]
    fn a_busy_watch_does_not_keep_the_others_from_being_told() {
        let mut pending = PendingNotices::default();
        pending.add(notice(9, Changes::CONTENT, b"quiet"));
        for round in 0..10 {
            pending.add(notice(1, Changes::CONTENT, format!("{round}").as_bytes()));
            if pending.take(1).iter().any(|told| told.watch == 9) {
                return;
            }
        }
        panic!("the other watch was never told");
    }

    #[test]
    fn messages_are_filled_and_nothing_is_told_twice() {
        let mut pending = PendingNotices::default();
        for number in 0..NAMES_MAX {
            pending.add(notice(number as u64 % 3 + 1, Changes::NAME, format!("{number}").as_bytes()));
        }
        let mut told: Vec<Notice> = Vec::new();
        while !pending.is_empty() {
            let taken = pending.take(100);
            assert!(!taken.is_empty() && taken.len() <= 100);
            told.extend(taken);
        }
        told.sort();
        told.dedup();
        assert_eq!(told.len(), NAMES_MAX);
    }
}
