//! Staged trees that are not published yet: each in its own directory in a staging directory, `<32
//! digits>-<16 digits>.tree`, as `t`.
//!
//! The digits cannot be guessed, and only paths of a root for this one tree lead there. Must not:
//! follow a link, remove anything outside of the directory that is to be removed.

use super::Parent;
use super::parent::single;
use super::staging::is_private;
use crate::store::locked_file::LockedFile;
use rustix::fs::{FlockOperation, Mode, OFlags, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, OwnedFd};

/// The tree's name in the directory that holds it.
pub(in crate::store) const TOP: &[u8] = b"t";

/// Maximum number of names removed between two scans of what is left.
const NAMES_AT_ONCE: usize = 4096;
/// Maximum number of scans of a directory that another program fills as fast as it is emptied.
const LOOKS_MAX: usize = 1 << 20;

/// The name of the directory that holds a tree.
pub(in crate::store) fn name_of(id: [u8; 16], owner: [u8; 8]) -> Vec<u8> {
    format!("{:032x}-{:016x}.tree", u128::from_be_bytes(id), u64::from_be_bytes(owner)).into_bytes()
}

/// Whether it is the name of such a directory.
pub(in crate::store) fn is_tree(name: &[u8]) -> bool {
    owner_in(name).is_some()
}

/// The digits of such a name that identify the owner.
pub(in crate::store) fn owner_in(name: &[u8]) -> Option<&[u8]> {
    let stem = name.strip_suffix(b".tree")?;
    let (id, owner) = (stem.get(..32)?, stem.get(33..)?);
    let hexadecimal = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    let formed = stem.len() == 49 && stem.get(32) == Some(&b'-') && hexadecimal(id) && hexadecimal(owner);
    formed.then_some(owner)
}

impl Parent {
    /// Opens the directory `name` of a tree in this staging directory, and with `make` creates it.
    /// It is not removed while the second value exists.
    pub(in crate::store) fn hold_staged_tree(&self, name: &[u8], make: bool) -> Result<(Self, LockedFile), Errno> {
        if make {
            match self.make_directory(name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        let lock = self.open_below(name)?;
        let stat = rustix::fs::fstat(&lock)?;
        // No other user has access here: a directory whose attributes have changed is not used.
        if stat.st_uid != rustix::process::geteuid().as_raw() || (stat.st_mode & 0o077 != 0 && !is_known_loose(self)) {
            return Err(Errno::PERM);
        }
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK) {
            // It is being removed.
            return Err(Errno::BUSY);
        }
        let lock = LockedFile::new(lock);
        // Its age is counted from now.
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        rustix::fs::futimens(&lock, &Timestamps { last_access: now, last_modification: now })?;
        // If it was removed before it was locked, the name no longer refers to it.
        if self.look(name)?.is_none_or(|there| there.st_ino != stat.st_ino) {
            return Err(Errno::NOENT);
        }
        Ok((self.hold_below(name)?, lock))
    }

    /// Gives the tree in this directory a free name in another one. Only who may change a directory
    /// can move it there: a mode that forbids that is given back when it has its name.
    pub(in crate::store) fn publish_tree(&self, to: &Self, target: &[u8]) -> Result<(), Errno> {
        match self.rename_to_free(TOP, to, target) {
            Err(Errno::ACCESS) => {}
            outcome => return outcome,
        }
        let tree = self.hold_below(TOP)?;
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&tree.directory)?.st_mode & 0o7777);
        tree.unlock();
        let renamed = self.rename_to_free(TOP, to, target);
        let restored = tree.change_mode(mode);
        renamed.and(restored)
    }

    /// Removes the directory `name` of a tree and everything in it, if it is not in use and was
    /// last used before `expired`.
    pub(in crate::store) fn remove_old_tree(&self, name: &[u8], expired: i64) -> bool {
        let Ok(lock) = self.open_below(name) else { return false };
        let old = |lock: &OwnedFd| rustix::fs::fstat(lock).ok().filter(|stat| stat.st_mtime < expired);
        // A younger one is not locked: somebody may be about to use it.
        if old(&lock).is_none()
            || rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
        {
            return false;
        }
        let lock = LockedFile::new(lock);
        // Somebody may have used it meanwhile, or removed it and made another one.
        old(&lock).is_some_and(|stat| self.is_still(name, &stat))
            && self.empty(name).is_ok()
            && self.remove_directory(name).is_ok()
    }

    /// Empties the directory `name`. Whatever its depth, few descriptors are open: deep directories
    /// are moved up first.
    fn empty(&self, name: &[u8]) -> Result<(), Errno> {
        let holder = self.hold_below(name)?;
        let mut serial = 0_u64;
        for _ in 0..LOOKS_MAX {
            let names = holder.names(NAMES_AT_ONCE)?;
            if names.is_empty() {
                return Ok(());
            }
            for name in names {
                match holder.remove(&name) {
                    Err(Errno::ISDIR | Errno::PERM) => holder.flatten(&name, &mut serial)?,
                    outcome => outcome?,
                }
            }
        }
        Err(Errno::BUSY)
    }

    /// Removes the directory `name`; its subdirectories are moved into this one.
    fn flatten(&self, name: &[u8], serial: &mut u64) -> Result<(), Errno> {
        let inner = self.hold_below(name)?;
        inner.unlock();
        loop {
            let names = inner.names(NAMES_AT_ONCE)?;
            if names.is_empty() {
                return self.remove_directory(name);
            }
            for one in names {
                match inner.remove(&one) {
                    Err(Errno::ISDIR | Errno::PERM) => inner.lift(&one, self, serial)?,
                    outcome => outcome?,
                }
            }
        }
    }

    fn lift(&self, name: &[u8], to: &Self, serial: &mut u64) -> Result<(), Errno> {
        self.hold_below(name)?.unlock();
        loop {
            *serial += 1;
            match self.rename_to_free(name, to, format!("d{serial}").as_bytes()) {
                Err(Errno::EXIST) => {}
                outcome => return outcome,
            }
        }
    }

    /// Modes of a copied tree may forbid its owner to change it. If that cannot be altered, the
    /// next call reports it.
    fn unlock(&self) {
        let _ = self.change_mode(Mode::RWXU);
    }

    fn change_mode(&self, mode: Mode) -> Result<(), Errno> {
        rustix::fs::chmod(format!("/proc/self/fd/{}", self.directory.as_raw_fd()), mode)
    }

    fn open_below(&self, name: &[u8]) -> Result<OwnedFd, Errno> {
        single(name)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, name, flags, Mode::empty())
    }

    fn hold_below(&self, name: &[u8]) -> Result<Self, Errno> {
        single(name)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self::new(rustix::fs::openat(&self.directory, name, flags, Mode::empty())?))
    }
}

/// Whether the staging directory itself has changed attributes: its file system gives every
/// directory the same owner and mode.
fn is_known_loose(staging: &Parent) -> bool {
    rustix::fs::fstat(&staging.directory).is_ok_and(|stat| !is_private(&stat))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn staging_in(scratch: &tempfile::TempDir) -> Parent {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Parent::new(rustix::fs::open(scratch.path(), flags, Mode::empty()).unwrap())
    }

    #[test]
    fn a_tree_that_is_held_keeps_what_is_in_it_while_others_remove_old_ones() {
        let scratch = tempfile::tempdir().unwrap();
        let staging = staging_in(&scratch);
        let name = name_of([0; 16], [0; 8]);
        let ended = AtomicBool::new(false);
        let remove = || {
            while !ended.load(Ordering::Relaxed) {
                staging.remove_old_tree(&name, i64::MAX);
            }
        };
        let (mut held, mut lost) = (0, 0);
        std::thread::scope(|scope| {
            (0..2).for_each(|_| _ = scope.spawn(remove));
            while held < 600 && lost == 0 {
                // It is being removed, or was removed before it was locked.
                let Ok((tree, _lock)) = staging.hold_staged_tree(&name, true) else { continue };
                held += 1;
                lost += usize::from(tree.create_new(b"file").is_err());
                std::thread::yield_now();
                lost += usize::from(tree.remove(b"file").is_err());
            }
            ended.store(true, Ordering::Relaxed);
        });
        assert_eq!(lost, 0, "the {held}th was emptied while it was held");
    }

    #[test]
    fn a_tree_is_had_while_others_see_that_it_is_not_old() {
        let scratch = tempfile::tempdir().unwrap();
        let staging = staging_in(&scratch);
        let name = name_of([0; 16], [0; 8]);
        drop(staging.hold_staged_tree(&name, true).unwrap());
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| (0..10_000).any(|_| staging.remove_old_tree(&name, 0)));
            while !looking.is_finished() {
                staging.hold_staged_tree(&name, false).unwrap();
            }
            assert!(!looking.join().unwrap(), "it is not old");
        });
        assert!(staging.remove_old_tree(&name, i64::MAX));
    }

    #[test]
    fn only_names_of_trees_are_taken_for_such() {
        let name = name_of([0xab; 16], [1; 8]);
        assert_eq!(name, [&b"abababababababababababababababab-0101010101010101"[..], b".tree"].concat());
        assert_eq!(owner_in(&name), Some(&b"0101010101010101"[..]));
        for other in
            [&name[1..], &name[..53], b"t", b".tree", b"abababababababababababababababab-010101010101010g.tree"]
        {
            assert!(!is_tree(other), "{}", other.escape_ascii());
        }
    }
}
