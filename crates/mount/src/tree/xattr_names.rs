//! The names of the extended attributes of what is in a directory that a program is reading, asked for together: `ls -l` asks
//! each file for its access control list, which would be a round trip for each.

use super::{Tree, refused};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use xdfs_client::Batch;
use xdfs_client::wire::{Answer as Told, Call};

/// Files that are asked at a time.
const ASKED_MAX: usize = 128;
/// Bytes of their paths: a batch has to fit in one message.
const PATHS_BYTES_MAX: usize = 16 << 10;
/// Room of each answer. A file with longer names is asked alone.
const NAMES_BYTES: usize = 256;
/// Files of which something is known.
const KNOWN_MAX: usize = 4096;

/// As programs are told: each name ends in a zero byte. None where the file has to be asked alone.
type Names = Option<Arc<[u8]>>;

/// What is known, for as long as attributes may be used without another look.
#[derive(Default, Debug)]
pub(super) struct KnownNames(Mutex<Known>);

#[derive(Default, Debug)]
struct Known {
    /// Counts changes: what was asked for before one is not kept after it.
    changes: u64,
    files: BTreeMap<u64, (Names, Instant)>,
}

impl KnownNames {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes attributes of a file.
    pub(super) fn changing<T>(&self, inode: u64, change: impl FnOnce() -> T) -> T {
        self.forget(inode);
        let changed = change();
        self.forget(inode);
        changed
    }

    fn forget(&self, inode: u64) {
        let mut known = self.lock();
        known.changes += 1;
        known.files.remove(&inode);
    }

    /// Paths begin or cease to lead to other files: an answer that is on its way may be about another one.
    pub(super) fn moving(&self) {
        self.lock().changes += 1;
    }
}

impl Known {
    fn find(&self, inode: u64, now: Instant) -> Option<Names> {
        self.files.get(&inode).filter(|(_, until)| now < *until).map(|(names, _)| names.clone())
    }

    /// What was asked for when there had been so many changes.
    fn keep(&mut self, changes: u64, told: Vec<(u64, Names)>, until: Instant, now: Instant) {
        if self.changes != changes {
            return;
        }
        if self.files.len() + told.len() > KNOWN_MAX {
            self.files.retain(|_, (_, until)| now < *until);
        }
        let room = KNOWN_MAX.saturating_sub(self.files.len());
        self.files.extend(told.into_iter().take(room).map(|(inode, names)| (inode, (names, until))));
    }
}

impl Tree {
    /// The names of a file's attributes, if they are known, or if a program is reading its directory: then those of others
    /// there are asked for with it.
    pub(super) fn known_xattr_names(&self, inode: u64) -> Result<Names, Errno> {
        if self.no_xattr.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let now = Instant::now();
        let (known, changes) = {
            let known = self.xattr_names.lock();
            (known.find(inode, now), known.changes)
        };
        if let Some(names) = known {
            return Ok(names);
        }
        let around = self.to_ask_with(inode, now);
        if around.is_empty() {
            return Ok(None);
        }
        let told = self.ask_for_names(around)?;
        let names = told.iter().find(|(id, _)| *id == inode).and_then(|(_, names)| names.clone());
        self.xattr_names.lock().keep(changes, told, now + self.settings.valid, now);
        Ok(names)
    }

    /// This file and others in its directory with their paths; nothing unless a program is reading that.
    fn to_ask_with(&self, inode: u64, now: Instant) -> Vec<(u64, Vec<u8>)> {
        let known = self.xattr_names.lock();
        let inodes = self.inodes();
        let is_read = |parent| self.directories.any(|directory| directory.inode == parent);
        if self.settings.valid.is_zero() || !inodes.parent(inode).is_some_and(is_read) {
            return Vec::new();
        }
        let mut around = inodes.around(inode, ASKED_MAX, |id| known.find(id, now).is_none());
        let mut bytes = 0;
        let fits = around.iter().take_while(|(_, path)| {
            bytes += path.len();
            bytes <= PATHS_BYTES_MAX
        });
        around.truncate(fits.count());
        around
    }

    fn ask_for_names(&self, files: Vec<(u64, Vec<u8>)>) -> Result<Vec<(u64, Names)>, Errno> {
        let mut batch = Batch::new(self.base.as_slice());
        for (_, path) in &files {
            batch.push_with_room(&Call::XattrNames { path }, NAMES_BYTES);
        }
        let reply = self.remote.call(&batch).map_err(|error| refused(&error))?;
        let outcomes = reply.read().map_err(|error| refused(&error))?.outcomes;
        let names = outcomes.into_iter().map(|outcome| match outcome {
            Ok(Told::Names(names)) => Some(names.flat_map(|name| [name, b"\0"].concat()).collect()),
            // Asked alone it tells why.
            _ => None,
        });
        Ok(files.into_iter().map(|(id, _)| id).zip(names).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn told(inodes: std::ops::Range<u64>) -> Vec<(u64, Names)> {
        inodes.map(|inode| (inode, Some(b"user.a\0".as_slice().into()))).collect()
    }

    #[test]
    fn what_is_known_has_a_bound_and_a_time() {
        let (mut known, now) = (Known::default(), Instant::now());
        let until = now + Duration::from_secs(1);
        known.keep(0, told(0..KNOWN_MAX as u64 + 9), until, now);
        assert_eq!(known.files.len(), KNOWN_MAX);
        assert!(known.find(7, now).is_some() && known.find(7, until).is_none());
        known.keep(0, told(10_000..10_001), until + Duration::from_secs(1), until);
        assert_eq!(known.files.len(), 1, "what is over makes room");
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
