//! The locks that the program has: of the whole file, and of ranges. They are had again in another
//! session, or the file fails.

use super::{Core, Reply, change_told, lock, restarts};
use crate::retry::Backoff;
use crate::session::Session;
use std::collections::BTreeMap;
use std::time::Duration;
use xdfs_proto::base::{Error, ErrorKind, Extent};
use xdfs_proto::range_locks::{RangeLock, RangeLocks};
use xdfs_proto::wire::file::{FileAnswer, FileBatch, FileCall, LockOwner};
use xdfs_proto::wire::path::Wanted;

/// How long a lost lock is tried again: the server that had it may take a moment to end.
const LOCK_AGAIN: Duration = Duration::from_secs(2);

/// Locks that are had again with one call each: a round trip for so many.
const LOCKS_AT_ONCE: usize = 64;

/// The lock of the whole file that the program believes to have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
enum WholeLock {
    #[default]
    Unlocked,
    Shared,
    Exclusive,
}

/// The locks that the program believes to have.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Locks {
    whole: WholeLock,
    ranges: BTreeMap<LockOwner, RangeLocks>,
}

impl Locks {
    /// Whether the whole file is locked against everybody else.
    pub(super) fn all_is_exclusive(&self) -> bool {
        self.whole == WholeLock::Exclusive
    }

    /// Whether nobody else may have changed something meanwhile.
    pub(super) fn any_is_exclusive(&self) -> bool {
        self.all_is_exclusive() || self.ranges.values().any(RangeLocks::any_exclusive)
    }

    /// The calls that make them.
    fn calls(&self) -> Vec<FileCall<'static>> {
        let wait = false;
        let whole = match self.whole {
            WholeLock::Unlocked => None,
            whole => Some(FileCall::Lock { exclusive: whole == WholeLock::Exclusive, wait }),
        };
        let ranges = self.ranges.iter().flat_map(|(owner, locks)| locks.iter().map(move |lock| (*owner, lock)));
        whole.into_iter().chain(ranges.map(|(owner, lock)| FileCall::LockRange { owner, lock, wait })).collect()
    }
}

/// Whether nobody else may change what the call locks.
fn locks_out_others(call: &FileCall<'_>) -> bool {
    match call {
        FileCall::Lock { exclusive, .. } => *exclusive,
        FileCall::LockRange { lock, .. } => lock.exclusive,
        _ => false,
    }
}

/// Asks for a lock again and again, in line with the others who wait for it; in the end once without
/// a place in line, which gives it up.
fn wait_for(patience: Duration, take: impl Fn(bool) -> Result<(), Error>) -> Result<(), Error> {
    let mut backoff = Backoff::in_line(patience);
    loop {
        match take(true) {
            Err(error) if error.kind == ErrorKind::Locked => {
                if backoff.wait(error).is_err() {
                    return take(false);
                }
            }
            outcome => return outcome,
        }
    }
}

impl Core {
    /// Locks the file if that is possible now.
    pub(in super::super) fn lock_now(&self, exclusive: bool) -> Result<(), Error> {
        self.lock_whole(exclusive, false)
    }

    /// The same; waits for it.
    pub(in super::super) fn lock_within(&self, exclusive: bool, patience: Duration) -> Result<(), Error> {
        wait_for(patience, |wait| self.lock_whole(exclusive, wait))
    }

    fn lock_whole(&self, exclusive: bool, wait: bool) -> Result<(), Error> {
        self.settle()?;
        let kind = if exclusive { WholeLock::Exclusive } else { WholeLock::Shared };
        let done = self.have_lock(&FileCall::Lock { exclusive, wait }, |locks| locks.whole = kind);
        let mut connection = lock(&self.connection);
        match done {
            // Who had the lock before may have moved the end, and need not have been seen.
            Ok(()) => connection.end_is_old |= exclusive,
            Err(_) => connection.locks.whole = WholeLock::Unlocked,
        }
        done
    }

    /// Asks for a lock, and notes that the program has it. One of a session that was lost before it was noted is over, and is
    /// asked for again: it was not among those that the next session was asked for.
    fn have_lock(&self, call: &FileCall<'static>, note: impl Fn(&mut Locks)) -> Result<(), Error> {
        let backoff = self.remote.backoff();
        // What others changed before is none of those changes that the lock keeps away.
        let look = locks_out_others(call).then_some(FileCall::Attributes { wanted: Wanted::CHANGE });
        let calls: Vec<FileCall<'static>> = [call.clone()].into_iter().chain(look).collect();
        loop {
            let Reply { answered, generation } = self.exchange([0; 16], calls.clone())?;
            self.answer(&answered, "lock", |_| Some(()))?;
            // The lock is had whether this is known or not.
            let change = self.answer_at(&answered, 1, "look at", change_told).ok();
            self.changes().add();
            let is_had = {
                let mut connection = lock(&self.connection);
                let is_had = generation >= connection.locks_since;
                if is_had {
                    note(&mut connection.locks);
                }
                is_had
            };
            if is_had {
                change.into_iter().for_each(|change| self.accept_others(change));
                return Ok(());
            }
            backoff.try_at_once(&restarts())?;
        }
    }

    /// What others changed until `change` is none of what a lock keeps away. An own change that may have to be made again must
    /// not go over it: it is on stable storage before, or what others changed is not accepted.
    fn accept_others(&self, change: u64) {
        let is_kept = || {
            let mut connection = lock(&self.connection);
            let is_kept = change > connection.change && !connection.unsynced.is_empty();
            if !is_kept {
                connection.change = connection.change.max(change);
            }
            is_kept
        };
        if is_kept() && self.sync_quietly() {
            is_kept();
        }
    }

    /// Waits for what was written, and ends the lock.
    pub(in super::super) fn unlock(&self) -> Result<(), Error> {
        self.settle()?;
        // Not locked again in another session from now on.
        lock(&self.connection).locks.whole = WholeLock::Unlocked;
        self.call(FileCall::Unlock, "unlock", |_| Some(()))
    }

    /// Locks a range if that is possible now; with `wait` a place in line is kept otherwise.
    fn lock_range(&self, owner: LockOwner, wanted: RangeLock, wait: bool) -> Result<(), Error> {
        self.settle()?;
        self.have_lock(&FileCall::LockRange { owner, lock: wanted, wait }, |locks| {
            locks.ranges.entry(owner).or_default().lock(wanted);
        })
    }

    /// Locks a range if that is possible now.
    pub(in super::super) fn lock_range_now(&self, owner: LockOwner, wanted: RangeLock) -> Result<(), Error> {
        self.lock_range(owner, wanted, false)
    }

    /// The same; waits for it.
    pub(in super::super) fn lock_range_within(
        &self,
        owner: LockOwner,
        wanted: RangeLock,
        patience: Duration,
    ) -> Result<(), Error> {
        wait_for(patience, |wait| self.lock_range(owner, wanted, wait))
    }

    /// Waits for what was written, and ends the owner's locks in a range.
    pub(in super::super) fn unlock_range(&self, owner: LockOwner, range: Extent) -> Result<(), Error> {
        self.settle()?;
        {
            let mut connection = lock(&self.connection);
            let ranges = &mut connection.locks.ranges;
            if let Some(held) = ranges.get_mut(&owner) {
                // Not locked again in another session from now on.
                held.unlock(range);
                if held.is_empty() {
                    ranges.remove(&owner);
                }
            }
        }
        self.call(FileCall::UnlockRange { owner, range }, "unlock", |_| Some(()))
    }

    /// A lock that keeps the owner from having this one.
    pub(in super::super) fn find_lock(&self, owner: LockOwner, lock: RangeLock) -> Result<Option<RangeLock>, Error> {
        self.call(FileCall::FindLock { owner, lock }, "look at the locks of", |answer| match answer {
            FileAnswer::FoundLock { lock } => Some(*lock),
            _ => None,
        })
    }

    /// Has the locks again, in another session. Whether one of them keeps others from writing.
    pub(super) fn lock_again(&self, session: &Session, handle: u64) -> Result<bool, Error> {
        let (all, is_exclusive) = {
            let mut connection = lock(&self.connection);
            connection.locks_since = connection.generation + 1;
            (connection.locks.calls(), connection.locks.any_is_exclusive())
        };
        for calls in all.chunks(LOCKS_AT_ONCE) {
            let mut backoff = Backoff::within(LOCK_AGAIN);
            while let Err(error) = self.lock_all(session, handle, calls) {
                if error.kind != ErrorKind::Locked {
                    return Err(error);
                }
                let text = "the lock was lost with the session, and somebody else has it now";
                backoff.wait(error).map_err(|_| Error::new(ErrorKind::TargetChanged, text))?;
            }
        }
        Ok(is_exclusive)
    }

    fn lock_all(&self, session: &Session, handle: u64, calls: &[FileCall<'static>]) -> Result<(), Error> {
        let batch = FileBatch { stop: true, handle, calls: calls.to_vec(), ..FileBatch::default() };
        let answered = session.call_file(batch)?.wait()?;
        (0..calls.len()).try_for_each(|index| self.answer_at(&answered, index, "lock again", |_| Some(())))
    }
}
