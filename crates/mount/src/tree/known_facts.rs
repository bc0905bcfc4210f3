//! Attributes that the kernel was told of a moment ago. It asks for them again after each read, since that changes the time of
//! the last access.

use super::Tree;
use super::generations::Generations;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use xdfs_client::Facts;

/// Files of which they are known.
const KNOWN_MAX: usize = 8192;

/// What is known, for as long as attributes may be used without another look, and until this mount changes anything.
#[derive(Debug)]
pub(super) struct KnownFacts(Mutex<Generations<u64, Known>>);

impl Default for KnownFacts {
    fn default() -> Self {
        Self(Mutex::new(Generations::new(KNOWN_MAX)))
    }
}

#[derive(Debug)]
struct Known {
    facts: Facts,
    /// When they were asked for, by [`Tree::now`].
    then: u64,
    until: Instant,
}

impl KnownFacts {
    fn lock(&self) -> MutexGuard<'_, Generations<u64, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn keep(&self, inode: u64, facts: &Facts, then: u64, until: Instant) {
        self.lock().insert(inode, Known { facts: facts.clone(), then, until });
    }

    /// They, when they were asked for, and how long they may be used.
    fn find(&self, inode: u64) -> Option<(Facts, u64, Duration)> {
        let known = self.lock();
        let found = known.get(&inode)?;
        let left = found.until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        Some((found.facts.clone(), found.then, left))
    }

    /// The server tells the file's change number. Facts with another one are old. Whether they are known, and not: then they are
    /// good for as long as it is said.
    fn compare(&self, inode: u64, change: u64, until: Option<Instant>) -> bool {
        let mut all = self.lock();
        match all.get_mut(&inode) {
            Some(known) if known.facts.change == Some(change) => {
                known.until = until.unwrap_or(known.until);
                true
            }
            _ => {
                all.remove(&inode);
                false
            }
        }
    }
}

impl Tree {
    pub(super) fn known_facts(&self, inode: u64) -> Option<(Facts, Duration)> {
        let (facts, then, left) = self.known.facts.find(inode)?;
        (!self.is_newer(inode, then)).then_some((facts, left))
    }

    /// A file was opened, and `change` was its change number after `then`. Whether the kernel was told what is still so.
    pub(super) fn compare_known_facts(&self, inode: u64, change: u64, then: Instant) -> bool {
        self.known.facts.compare(inode, change, Some(then + self.settings.valid))
    }

    /// Bytes of a file came with this change number. Whether the kernel was told the attributes that it had then.
    pub(super) fn are_known_facts(&self, inode: u64, change: u64) -> bool {
        self.known.facts.compare(inode, change, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xdfs_client::wire::{Attributes, FileType};

    const VALID: Duration = Duration::from_secs(3600);

    fn facts(change: u64) -> Facts {
        Facts::from(&Attributes { change: Some(change), ..Attributes::of(FileType::Regular) })
    }

    #[test]
    fn facts_hold_for_a_time_and_until_the_server_tells_another_change() {
        let (known, now) = (KnownFacts::default(), Instant::now());
        known.keep(1, &facts(7), 0, now + VALID);
        known.keep(2, &facts(7), 0, now);
        assert!(known.find(1).is_some_and(|(told, then, left)| (told, then) == (facts(7), 0) && left <= VALID));
        assert!(known.find(2).is_none() && known.find(3).is_none());
        assert!(known.compare(2, 7, Some(now + VALID)));
        assert!(known.find(2).is_some(), "the server has said that they are those of now");
        assert!(!known.compare(2, 8, Some(now + VALID)));
        assert!(known.find(2).is_none());
    }

    #[test]
    fn what_is_known_has_a_bound() {
        let (known, now) = (KnownFacts::default(), Instant::now());
        (0..KNOWN_MAX as u64 + 9).for_each(|inode| known.keep(inode, &facts(0), 0, now + VALID));
        assert!(known.lock().len() < KNOWN_MAX);
        assert!(known.find(KNOWN_MAX as u64 + 8).is_some() && known.find(0).is_none());
    }
}
