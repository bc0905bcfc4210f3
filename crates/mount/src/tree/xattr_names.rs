//! The names of the extended attributes of what is in a directory that a program is reading, asked for together: `ls -l` asks
//! each file for its access control list, which would be a round trip for each.

use super::{Tree, refused};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use xdfs_client::Batch;
use xdfs_client::wire::{Answer as Told, Call};

/// Files that are asked at a time.
const ASKED_MAX: usize = 128;
/// Room of each answer. A file with longer names is asked alone.
const NAMES_BYTES: usize = 256;
/// Files whose names are kept.
const KNOWN_MAX: usize = 4096;

type Names = Arc<[Vec<u8>]>;

/// What is known, for as long as attributes may be used without another look.
#[derive(Default, Debug)]
pub(super) struct KnownNames(Mutex<Known>);

#[derive(Default, Debug)]
struct Known {
    /// Counts changes: what was asked for before one is not kept after it.
    changes: u64,
    names: BTreeMap<u64, (Names, Instant)>,
}

impl KnownNames {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes attributes of a file.
    pub(super) fn changing<T>(&self, inode: u64, change: impl FnOnce() -> T) -> T {
        self.lock().forget(inode);
        let changed = change();
        self.lock().forget(inode);
        changed
    }
}

impl Known {
    fn forget(&mut self, inode: u64) {
        self.changes += 1;
        self.names.remove(&inode);
    }

    fn find(&self, inode: u64, now: Instant) -> Option<Names> {
        self.names.get(&inode).filter(|(_, until)| now < *until).map(|(names, _)| Arc::clone(names))
    }

    /// What was asked for when there had been so many changes.
    fn keep(&mut self, changes: u64, told: Vec<(u64, Names)>, until: Instant, now: Instant) {
        if self.changes != changes {
            return;
        }
        if self.names.len() + told.len() > KNOWN_MAX {
            self.names.retain(|_, (_, until)| now < *until);
        }
        let room = KNOWN_MAX.saturating_sub(self.names.len());
        self.names.extend(told.into_iter().take(room).map(|(inode, names)| (inode, (names, until))));
    }
}

impl Tree {
    /// The names of a file's attributes, if they are known, or if a program is reading its directory: then those of others
    /// there are asked for with it.
    pub(super) fn xattr_names_of(&self, inode: u64) -> Option<Names> {
        let now = Instant::now();
        let (known, changes) = {
            let known = self.xattr_names.lock();
            (known.find(inode, now), known.changes)
        };
        if known.is_some() || self.settings.valid.is_zero() {
            return known;
        }
        let told = self.ask_around(inode, now)?;
        let names = told.iter().find(|(id, _)| *id == inode).map(|(_, names)| Arc::clone(names));
        self.xattr_names.lock().keep(changes, told, now + self.settings.valid, now);
        names
    }

    fn ask_around(&self, inode: u64, now: Instant) -> Option<Vec<(u64, Names)>> {
        let open = self.directories.all();
        let around = {
            let known = self.xattr_names.lock();
            let inodes = self.inodes();
            let parent = inodes.parent(inode)?;
            if !open.iter().any(|directory| directory.inode == parent) {
                return None;
            }
            inodes.around(inode, ASKED_MAX, |id| known.find(id, now).is_none())
        };
        let mut batch = Batch::new(self.base.as_slice());
        for (_, path) in &around {
            batch.push_with_room(&Call::XattrNames { path }, NAMES_BYTES);
        }
        // What cannot be told here is asked for alone, and fails there.
        let reply = self.remote.call(&batch).map_err(|error| refused(&error)).ok()?;
        let outcomes = reply.read().ok()?.outcomes;
        let names = outcomes.into_iter().map(|outcome| match outcome {
            Ok(Told::Names(names)) => Some(names.into_iter().map(<[u8]>::to_vec).collect()),
            _ => None,
        });
        Some(around.into_iter().zip(names).filter_map(|((id, _), names)| Some((id, names?))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn told(inodes: std::ops::Range<u64>) -> Vec<(u64, Names)> {
        inodes.map(|inode| (inode, Names::from([b"user.a".to_vec()]))).collect()
    }

    #[test]
    fn what_is_known_has_a_bound_and_a_time() {
        let (mut known, now) = (Known::default(), Instant::now());
        let until = now + Duration::from_secs(1);
        known.keep(0, told(0..KNOWN_MAX as u64 + 9), until, now);
        assert_eq!(known.names.len(), KNOWN_MAX);
        assert!(known.find(7, now).is_some() && known.find(7, until).is_none());
        known.keep(0, told(10_000..10_001), until + Duration::from_secs(1), until);
        assert_eq!(known.names.len(), 1, "what is over makes room");
    }

    #[test]
    fn what_was_asked_for_before_a_change_is_not_kept_after_it() {
        let (known, now) = (KnownNames::default(), Instant::now());
        let until = now + Duration::from_secs(1);
        known.lock().keep(0, told(1..3), until, now);
        let during = known.changing(1, || known.lock().changes);
        assert!(known.lock().find(1, now).is_none() && known.lock().find(2, now).is_some());
        known.lock().keep(during, told(1..2), until, now);
        assert!(known.lock().find(1, now).is_none());
    }
}
