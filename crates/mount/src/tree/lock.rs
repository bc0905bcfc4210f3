//! Locks, which the server's own programs and other clients see: of whole files (flock), where each
//! open file has its own, and of ranges (fcntl), where each process has its own through whichever
//! open file it asks.

use super::data::OpenFile;
use super::recent_changes::RecentChanges;
use super::{Outcomes, Tree, refused};
use crate::errno;
use crate::kernel::{Answer, LockRequest, Outcome, Waiting};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard, PoisonError};
use xdfs_client::file::{Extent, File, OpenOptions, RangeLock, range_to_the_end};
use xdfs_client::{Error, ErrorKind};

/// Kinds of locks, as in fcntl(2).
const SHARED: u32 = 0;
const EXCLUSIVE: u32 = 1;
const UNLOCKED: u32 = 2;

/// The last byte of a lock that reaches to the end, wherever that is.
const TO_THE_END: u64 = i64::MAX as u64;

/// The one open file through which all locks of ranges of an inode go: the server tells owners apart
/// by it, and the same process may ask through several files here.
#[derive(Debug)]
pub(super) struct RangeLocker {
    open: Arc<OpenFile>,
    /// Who asked for a lock.
    owners: BTreeSet<u64>,
}

impl RangeLocker {
    fn for_owner(&mut self, owner: u64) -> Arc<OpenFile> {
        self.owners.insert(owner);
        Arc::clone(&self.open)
    }
}

/// A lock that is tried until somebody else ends theirs.
struct WaitingLock {
    open: Arc<OpenFile>,
    /// None locks the whole file.
    range: Option<(u64, Extent)>,
    exclusive: bool,
    /// Those of the tree.
    changes: Arc<RecentChanges>,
}

impl WaitingLock {
    fn lock(&self) -> Result<(), Error> {
        match self.range {
            None => self.open.file.try_lock(self.exclusive),
            Some((owner, range)) => {
                self.open.file.try_lock_range(owner, RangeLock { range, exclusive: self.exclusive })
            }
        }
    }
}

impl Waiting for WaitingLock {
    fn attempt(&mut self) -> Option<Result<Answer, Errno>> {
        match self.lock() {
            Ok(()) => {
                // What was listed before may be older than what was written under the lock before.
                self.changes.note_all();
                Some(Ok(Answer::Locked { inode: self.open.inode }))
            }
            Err(error) if error.kind == ErrorKind::Locked => None,
            Err(error) => Some(Err(why_not(&error))),
        }
    }

    fn undo(&mut self) {
        // Otherwise it ends when the file is closed.
        let _ = match self.range {
            None => self.open.file.unlock(),
            Some((owner, range)) => self.open.file.unlock_range(owner, range),
        };
    }
}

/// The number of an error of a lock: too many locks, or too many that wait, have one of their own (fcntl(2)).
fn why_not(error: &Error) -> Errno {
    if error.kind == ErrorKind::LimitExceeded { Errno::NOLCK } else { errno::of(error) }
}

/// The bytes of a lock.
fn range(request: &LockRequest) -> Result<Extent, Errno> {
    match request.end {
        TO_THE_END.. => range_to_the_end(request.start).ok_or(Errno::OVERFLOW),
        end => {
            let length = end.checked_sub(request.start).ok_or(Errno::INVAL)? + 1;
            Extent::new(request.start, length).map_err(|_| Errno::OVERFLOW)
        }
    }
}

impl Tree {
    fn lockers(&self) -> MutexGuard<'_, BTreeMap<u64, RangeLocker>> {
        self.lockers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock(&self, request: &LockRequest) -> Outcome {
        // What was written before a lock is gained, or ended, is seen by whoever has it next.
        if let Ok(open) = self.file(request.handle) {
            self.settle(open.inode);
        }
        let mut waiting = match self.wanted(request) {
            Ok(waiting) => waiting,
            Err(errno) => return Outcome::Now(Err(errno)),
        };
        if request.kind == UNLOCKED {
            let open = &waiting.open.file;
            let done = match waiting.range {
                None => open.unlock(),
                Some((owner, range)) => open.unlock_range(owner, range),
            };
            return Outcome::Now(done.map(|()| Answer::Done).map_err(|error| why_not(&error)));
        }
        match waiting.attempt() {
            Some(outcome) => Outcome::Now(outcome),
            None if request.wait => Outcome::Later(Box::new(waiting)),
            None => Outcome::Now(Err(Errno::AGAIN)),
        }
    }

    fn wanted(&self, request: &LockRequest) -> Result<WaitingLock, Errno> {
        let open = self.file(request.handle)?;
        let exclusive = match request.kind {
            EXCLUSIVE => true,
            SHARED | UNLOCKED => false,
            _ => return Err(Errno::INVAL),
        };
        let changes = Arc::clone(&self.changes);
        if request.whole_file {
            return Ok(WaitingLock { open, range: None, exclusive, changes });
        }
        let range = Some((request.owner, range(request)?));
        Ok(WaitingLock { open: self.locker(&open, request.owner), range, exclusive, changes })
    }

    /// The file through which an inode's ranges are locked. Nothing is written through it, so that it has
    /// nothing to write again after a loss.
    fn locker(&self, open: &Arc<OpenFile>, owner: u64) -> Arc<OpenFile> {
        let known = self.lockers().get_mut(&open.inode).map(|locker| locker.for_owner(owner));
        known.unwrap_or_else(|| {
            // Outside of the lock: this may wait for a lost server.
            let through = self.writable(open);
            let mut lockers = self.lockers();
            let locker = lockers.entry(open.inode);
            locker.or_insert(RangeLocker { open: through, owners: BTreeSet::new() }).for_owner(owner)
        })
    }

    /// The file opened once more to write, since whoever locks next may want that; or the same one if
    /// that is not allowed.
    fn writable(&self, open: &Arc<OpenFile>) -> Arc<OpenFile> {
        let options = OpenOptions::new().read(true).write(true);
        match self.open_file(open.inode, &options, 0) {
            Ok(file) => Arc::new(OpenFile::new(open.inode, file, true)),
            Err(_) => Arc::clone(open),
        }
    }

    pub(super) fn find_lock(&self, request: &LockRequest) -> Outcomes {
        let WaitingLock { open, range, exclusive, .. } = self.wanted(request)?;
        let Some((owner, range)) = range else { return Err(Errno::NOSYS) };
        let found = open.file.find_lock(owner, RangeLock { range, exclusive }).map_err(|error| refused(&error))?;
        Ok(match found {
            None => Answer::Lock { start: request.start, end: request.end, kind: UNLOCKED },
            Some(lock) => {
                let end = lock.range.end();
                let last = if end == TO_THE_END { end } else { end.saturating_sub(1) };
                let kind = if lock.exclusive { EXCLUSIVE } else { SHARED };
                Answer::Lock { start: lock.range.offset(), end: last, kind }
            }
        })
    }

    pub(super) fn has_locker(&self, inode: u64) -> bool {
        self.lockers().contains_key(&inode)
    }

    /// An inode was changed through an open file of this mount, which is no reason to give up its locks
    /// after a loss.
    pub(super) fn tell_locker(&self, inode: u64, through: &File) {
        let locker = self.lockers().get(&inode).map(|locker| Arc::clone(&locker.open));
        if let Some(locker) = locker {
            locker.file.changed_through(through);
        }
    }

    /// A process closed a file: its locks of ranges end, as POSIX wants it.
    pub(super) fn end_locks_of(&self, inode: u64, owner: u64) {
        let open = {
            let mut lockers = self.lockers();
            lockers.get_mut(&inode).and_then(|locker| locker.owners.remove(&owner).then(|| Arc::clone(&locker.open)))
        };
        if let (Some(open), Some(all)) = (open, range_to_the_end(0)) {
            // A session that is lost has no locks.
            let _ = open.file.unlock_range(owner, all);
        }
    }

    /// Nobody has the inode open any more.
    pub(super) fn end_locker(&self, inode: u64) {
        // Its file is closed outside of the lock.
        let ended = self.lockers().remove(&inode);
        drop(ended);
    }

    /// The files through which ranges are locked.
    pub(super) fn locking_files(&self) -> Vec<Arc<OpenFile>> {
        self.lockers().values().map(|locker| Arc::clone(&locker.open)).collect()
    }
}
