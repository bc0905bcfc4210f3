//! A file that is locked for as long as somebody holds it here.

use rustix::fs::FlockOperation;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A file that its holder has locked with flock(2). Dropped, it is unlocked.
///
/// Closing it is not enough: a child that this process has just forked has the descriptor, too, until
/// it executes its program.
#[derive(Debug)]
pub struct LockedFile(OwnedFd);

impl LockedFile {
    /// `file` has its lock already, or is on a file system without locks.
    #[must_use]
    pub const fn new(file: OwnedFd) -> Self {
        Self(file)
    }
}

impl Deref for LockedFile {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        &self.0
    }
}

impl AsFd for LockedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        unlock(&self.0);
    }
}

/// Where that fails there are no locks, or it ends when the file is closed.
pub(super) fn unlock(file: &OwnedFd) {
    let _ = rustix::fs::flock(file, FlockOperation::NonBlockingUnlock);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_lock_ends_with_it_whoever_else_has_the_descriptor() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lock = |file: &OwnedFd| rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
        let (one, other) = (OwnedFd::from(file.reopen().unwrap()), OwnedFd::from(file.reopen().unwrap()));
        lock(&one).unwrap();
        // As a child has it.
        let _same = one.try_clone().unwrap();
        let one = LockedFile::new(one);
        assert!(lock(&other).is_err());
        drop(one);
        lock(&other).unwrap();
    }
}
