//! What this mount has changed lately: of that, what the server told before is not used any more.

use super::Tree;
use crate::kernel::{Call, Operation};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use xdfs_client::Facts;

/// Most changes that are told apart.
const CHANGES_MAX: usize = 4096;

/// How often something is looked for whose directory is moved again and again.
const MOVES_MAX: usize = 16;

/// Attributes, and when they were asked for: by [`Tree::now`], and by this machine's clock.
pub(super) struct Found {
    pub(super) facts: Facts,
    pub(super) then: u64,
    pub(super) asked: Instant,
}

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
    /// Directories that are being moved: paths below them lead nowhere, or will.
    moving: usize,
}

impl Log {
    fn note_all(&mut self) {
        self.now += 1;
        self.last.clear();
        self.all = self.now;
    }
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
            log.note_all();
        }
    }

    /// Anything may have been changed.
    pub(super) fn note_all(&self) {
        self.lock().note_all();
    }

    /// A directory is moved: until it is done, and then, everything that was asked for before is old.
    fn moving<T>(&self, move_it: impl FnOnce() -> T) -> T {
        self.lock().moving += 1;
        let moved = move_it();
        let mut log = self.lock();
        log.moving -= 1;
        log.note_all();
        moved
    }

    /// Whether something was changed after a moment.
    pub(super) fn is_after(&self, then: u64, changed: &Changed) -> bool {
        let log = self.lock();
        log.moving > 0 || then < log.all || log.last.get(changed).is_some_and(|(number, _)| *number > then)
    }

    /// Whether a path of that moment may lead nowhere since.
    fn may_have_moved(&self, then: u64) -> bool {
        let log = self.lock();
        log.moving > 0 || then < log.all
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

    /// Makes a call, and notes what may be another now than the server told before.
    pub(super) fn noting<T>(&self, call: &Call<'_>, make: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        let Some(before) = self.may_change(call) else {
            let _alone = self.moving.write().unwrap_or_else(PoisonError::into_inner);
            return self.changes.moving(make);
        };
        let outcome = make();
        match &outcome {
            // A name leads elsewhere than was told. The kernel looks it up again.
            Err(Errno::STALE) => self.changes.note_all(),
            _ if before.is_empty() => {}
            // What has a name now may have another number.
            _ => self.changes.note(before.into_iter().chain(self.may_change(call).unwrap_or_default())),
        }
        outcome
    }

    /// What the path of something leads to, and when that was asked for. Nothing is found on a path of which this mount moves a
    /// directory meanwhile: then it has another one, and that is asked for.
    pub(super) fn facts_at(&self, path: impl Fn(&Self) -> Result<Vec<u8>, Errno>) -> Result<Found, Errno> {
        for _ in 1..MOVES_MAX {
            let (then, asked) = (self.now(), Instant::now());
            match self.facts_of(&path(self)?) {
                Err(Errno::NOENT) if self.changes.may_have_moved(then) => {
                    drop(self.moving.read().unwrap_or_else(PoisonError::into_inner));
                }
                facts => return facts.map(|facts| Found { facts, then, asked }),
            }
        }
        let (then, asked) = (self.now(), Instant::now());
        Ok(Found { facts: self.facts_of(&path(self)?)?, then, asked })
    }

    /// What a call may change, whether it succeeds or not. None if it moves a directory: anything.
    fn may_change(&self, call: &Call<'_>) -> Option<Vec<Changed>> {
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
            | Operation::Unlink { name: made }
            | Operation::RemoveDirectory { name: made } => name(call.inode, made).collect(),
            Operation::Link { inode, name: made } => name(call.inode, made).chain([Changed::Inode(inode)]).collect(),
            Operation::Rename { name: from, parent, to, .. } if !is_directory(call.inode, from) => {
                name(call.inode, from).chain(name(parent, to)).collect()
            }
            Operation::Rename { .. } => return None,
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
        let asked = changes.moving(|| {
            assert!(changes.is_after(changes.now(), &Changed::Inode(2)));
            changes.now()
        });
        assert!(changes.is_after(asked, &Changed::Inode(2)) && !changes.is_after(changes.now(), &name));
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
