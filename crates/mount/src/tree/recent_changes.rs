//! What this mount has changed lately: of that, what the server told before is not used any more.

use super::Tree;
use crate::kernel::{Call, Operation};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most changes that are told apart.
const CHANGES_MAX: usize = 4096;

/// What was changed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Changed {
    /// Content or attributes of an inode; of a directory also its names.
    Inode(u64),
    /// What a name in a directory leads to.
    Name(u64, Vec<u8>),
}

/// The last changes. Each moment has a number, which grows with every change.
#[derive(Default, Debug)]
pub(super) struct RecentChanges(Mutex<Log>);

#[derive(Default, Debug)]
struct Log {
    now: u64,
    last: BTreeMap<Changed, (u64, Instant)>,
    /// Before it anything may have changed.
    all: u64,
}

impl RecentChanges {
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present moment.
    pub(super) fn now(&self) -> u64 {
        self.lock().now
    }

    /// These were changed: noted before whoever changed them knows.
    pub(super) fn note(&self, changed: impl IntoIterator<Item = Changed>) {
        let mut log = self.lock();
        log.now += 1;
        let now = (log.now, Instant::now());
        log.last.extend(changed.into_iter().map(|one| (one, now)));
        if log.last.len() > CHANGES_MAX {
            log.last.clear();
            log.all = log.now;
        }
    }

    /// Anything may have been changed.
    pub(super) fn note_all(&self) {
        let mut log = self.lock();
        log.now += 1;
        log.last.clear();
        log.all = log.now;
    }

    /// Whether something was changed after a moment.
    pub(super) fn is_after(&self, then: u64, changed: &Changed) -> bool {
        let log = self.lock();
        then < log.all || log.last.get(changed).is_some_and(|(number, _)| *number > then)
    }

    /// The kernel forgets an inode, and has another number for it the next time.
    pub(super) fn forget(&self, inode: u64, valid: Duration) {
        let is_recent =
            |log: &Log| log.last.get(&Changed::Inode(inode)).is_some_and(|(_, when)| when.elapsed() < valid);
        if is_recent(&self.lock()) {
            self.note_all();
        }
    }
}

impl Tree {
    /// The present moment, for what is asked of the server now.
    pub(super) fn now(&self) -> u64 {
        self.changes.now()
    }

    /// What a call may change, whether it succeeds or not. None if it moves or removes whole directories: anything.
    pub(super) fn may_change(&self, call: &Call<'_>) -> Option<Vec<Changed>> {
        let inodes = self.inodes();
        let name = |parent: u64, name: &[u8]| {
            let leads_to = inodes.named(parent, name).map(Changed::Inode);
            [Changed::Inode(parent), Changed::Name(parent, name.to_vec())].into_iter().chain(leads_to)
        };
        let is_directory =
            |parent: u64, name: &[u8]| inodes.named(parent, name).is_none_or(|id| inodes.is_directory(id));
        Some(match call.operation {
            Operation::SetAttributes(_) | Operation::SetXattr { .. } | Operation::RemoveXattr { .. } => {
                vec![Changed::Inode(call.inode)]
            }
            Operation::Symlink { name: made, .. }
            | Operation::MakeNode { name: made, .. }
            | Operation::MakeDirectory { name: made, .. }
            | Operation::Create { name: made, .. }
            | Operation::Unlink { name: made } => name(call.inode, made).collect(),
            Operation::Link { inode, name: made } => name(call.inode, made).chain([Changed::Inode(inode)]).collect(),
            Operation::Rename { name: from, parent, to, .. } if !is_directory(call.inode, from) => {
                name(call.inode, from).chain(name(parent, to)).collect()
            }
            Operation::Rename { .. } | Operation::RemoveDirectory { .. } => return None,
            _ => Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: Duration = Duration::from_secs(3600);

    #[test]
    fn what_was_told_before_a_change_is_old_and_nothing_else() {
        let changes = RecentChanges::default();
        let (before, name) = (changes.now(), Changed::Name(1, b"a".to_vec()));
        changes.note([Changed::Inode(1), name.clone()]);
        assert!(changes.is_after(before, &Changed::Inode(1)) && changes.is_after(before, &name));
        assert!(!changes.is_after(before, &Changed::Inode(2)));
        assert!(!changes.is_after(changes.now(), &name));
        changes.note_all();
        assert!(changes.is_after(before, &Changed::Inode(2)) && !changes.is_after(changes.now(), &name));
    }

    #[test]
    fn more_changes_than_are_told_apart_are_changes_of_anything() {
        let changes = RecentChanges::default();
        let before = changes.now();
        (0..=CHANGES_MAX as u64).for_each(|inode| changes.note([Changed::Inode(inode)]));
        assert!(changes.is_after(before, &Changed::Inode(u64::MAX)));
        assert!(changes.lock().last.len() <= CHANGES_MAX);
    }

    #[test]
    fn an_inode_that_was_changed_and_is_forgotten_may_be_any() {
        let changes = RecentChanges::default();
        changes.note([Changed::Inode(1)]);
        let now = changes.now();
        changes.forget(2, VALID);
        changes.forget(1, Duration::ZERO);
        assert!(!changes.is_after(now, &Changed::Inode(3)));
        changes.forget(1, VALID);
        assert!(changes.is_after(now, &Changed::Inode(3)));
    }
}
