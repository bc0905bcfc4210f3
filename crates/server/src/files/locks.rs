//! Locks: of the whole file, as flock(2) does, and of ranges, as fcntl(2) does.
//!
//! The kernel keeps them, so that programs of this machine take part, and ends them with the last
//! descriptor, which is why a close unlocks first. An owner of ranges has an open file description of its own, which tells its locks from
//! those of the other owners.

use super::call::{FileCalls, OpenedHandle};
use super::waiting::{Scope, Waiter, Wanted};
use super::{Handle, Object, OpenFiles, Reservation, lock, stale};
use crate::authorise::Authorized;
use crate::descriptor_slots::DescriptorSlot;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use xdfs_io::store::OpenFile;
use xdfs_proto::base::{Error, ErrorKind, Extent};
use xdfs_proto::range_locks::{RangeLock, RangeLocks};
use xdfs_proto::wire::file::{FileAnswer, FileCall, LockOwner, range_to_the_end};

/// Ranges that one user may have locked in all files: each takes some memory of the kernel.
pub(super) const RANGES_MAX: usize = 4096;

/// The locks of ranges that one owner has.
struct RangeOwner {
    file: OpenFile,
    held: RangeLocks,
    slot: Slot,
}

/// The lock of a whole file that a handle has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum WholeLock {
    #[default]
    None,
    Shared,
    Exclusive,
}

/// The locks of a handle.
#[derive(Default)]
pub(super) struct HandleLocks {
    /// That of the whole file.
    whole: Mutex<WholeLock>,
    /// Those of ranges.
    ranges: Mutex<RangeOwners>,
}

/// The owners that have locks through one handle.
#[derive(Default)]
struct RangeOwners(BTreeMap<LockOwner, RangeOwner>);

/// A descriptor that stays open, and some ranges, of a user's limits, given back when it is dropped.
struct Slot {
    server: Arc<OpenFiles>,
    user: Arc<str>,
    ranges: usize,
    _descriptor: DescriptorSlot,
}

fn too_many() -> Error {
    Error::new(ErrorKind::LimitExceeded, "you hold too many locks and pipes; give some up first")
}

fn locked() -> Error {
    Error::new(ErrorKind::Locked, "somebody else has a lock on the file; try again later")
}

impl Slot {
    /// For one more owner of ranges.
    fn new(handle: &Handle) -> Result<Self, Error> {
        let Reservation { server, user, .. } = &handle.reserved;
        let descriptor = handle.descriptor_slot()?;
        Ok(Self { server: Arc::clone(server), user: Arc::clone(user), ranges: 0, _descriptor: descriptor })
    }

    /// The owner has this many ranges from now on.
    fn resize(&mut self, ranges: usize) -> Result<(), Error> {
        let mut usage = lock(&self.server.usage);
        let one = usage.entry(Arc::clone(&self.user)).or_default();
        let all = one.ranges - self.ranges + ranges;
        if all > RANGES_MAX && ranges > self.ranges {
            return Err(too_many());
        }
        one.ranges = all;
        self.ranges = ranges;
        Ok(())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // Fewer are never refused.
        let _ = self.resize(0);
    }
}

impl Handle {
    /// Takes a lock when it is the turn of `who`, and with `wait` keeps its place in line otherwise.
    /// Whoever `holds` locks already goes first: others may wait for these.
    fn in_turn(
        &self,
        (who, wanted): (Waiter, Wanted),
        wait: bool,
        holds: bool,
        take: impl FnOnce() -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let waiting = &self.reserved.server.waiting;
        let turn = holds || lock(waiting).is_turn(&self.opened.identity, who, wanted, Instant::now());
        let taken = if turn { take() } else { Ok(false) };
        let mut waiting = lock(waiting);
        if wait && matches!(taken, Ok(false)) {
            let kept = waiting.wait(&self.opened.identity, who, wanted, &self.reserved.user, Instant::now());
            return Err(if kept {
                locked()
            } else {
                Error::new(ErrorKind::LimitExceeded, "you wait for too many locks; give some up first")
            });
        }
        waiting.leave(&self.opened.identity, who, wanted);
        if taken? { Ok(()) } else { Err(locked()) }
    }

    /// Locks the whole file, of which `file` is a descriptor.
    pub(super) fn lock(&self, file: &Arc<OpenFile>, exclusive: bool, wait: bool) -> Result<(), Error> {
        let mut whole = lock(&self.file()?.locks.whole);
        let who = Waiter { handle: self.id, owner: [0; 8] };
        let holds = self.descriptors().pinned(self.id).is_some();
        self.in_turn((who, Wanted { scope: Scope::File, exclusive }), wait, holds, || {
            let slot = || self.descriptor_slot();
            let file = self.descriptors().pin(self.id, &self.reserved.user, file, slot)?;
            match file.lock(exclusive) {
                Ok(true) => {
                    *whole = if exclusive { WholeLock::Exclusive } else { WholeLock::Shared };
                    Ok(true)
                }
                refused => {
                    // A lock that it had may be lost or not: what the handle has is none, in any case.
                    self.end_lock(&file)?;
                    *whole = WholeLock::None;
                    refused
                }
            }
        })
    }

    pub(super) fn unlock(&self) -> Result<(), Error> {
        let mut whole = lock(&self.file()?.locks.whole);
        let pinned = self.descriptors().pinned(self.id);
        pinned.map_or(Ok(()), |file| self.end_lock(&file))?;
        *whole = WholeLock::None;
        Ok(())
    }

    fn end_lock(&self, file: &OpenFile) -> Result<(), Error> {
        file.unlock()?;
        let closed = self.descriptors().unpin(self.id);
        drop(closed);
        Ok(())
    }

    /// Locks a range; a new owner gets a descriptor of its own from `open`.
    pub(super) fn lock_range(
        &self,
        owner: LockOwner,
        wanted: RangeLock,
        wait: bool,
        open: impl FnOnce() -> Result<OpenFile, Error>,
    ) -> Result<(), Error> {
        let mut owners = lock(&self.file()?.locks.ranges);
        let who = Waiter { handle: self.id, owner };
        let holds = owners.0.contains_key(&owner);
        let place = Wanted { scope: Scope::Range(wanted.range), exclusive: wanted.exclusive };
        self.in_turn((who, place), wait, holds, || {
            if let Some(known) = owners.0.get_mut(&owner) {
                return known.lock(wanted);
            }
            let slot = Slot::new(self)?;
            let mut new = RangeOwner { file: open()?, held: RangeLocks::default(), slot };
            let taken = new.lock(wanted)?;
            if taken {
                owners.0.insert(owner, new);
            }
            Ok(taken)
        })
    }

    fn unlock_range(&self, owner: LockOwner, range: Extent) -> Result<(), Error> {
        let mut owners = lock(&self.file()?.locks.ranges);
        let Some(known) = owners.0.get_mut(&owner) else { return Ok(()) };
        known.unlock(range)?;
        let closed = if known.held.is_empty() { owners.0.remove(&owner) } else { None };
        drop(owners);
        drop(closed);
        Ok(())
    }

    /// Whether it denies something to others, or they are at the other end of its pipe, now and until
    /// it is closed or says otherwise.
    ///
    /// Waits for nobody: whoever is about to lock something, with a disk that may hang, counts.
    pub(super) fn excludes_others(&self) -> bool {
        if self.retired.try_read().is_ok_and(|retired| *retired) {
            return false;
        }
        let Object::File(file) = &self.object else { return true }; // A pipe has another end.
        file.locks.ranges.try_lock().map_or(true, |owners| !owners.0.is_empty())
            || self.opened.sharing.deny_read
            || self.opened.sharing.deny_write
            || self.descriptors().pinned(self.id).is_some()
    }

    /// How many ranges are locked through it, unless that is changing just now.
    pub(super) fn locked_ranges(&self) -> u64 {
        let Object::File(file) = &self.object else { return 0 }; // A pipe has no ranges.
        let count = |owners: &RangeOwners| owners.0.values().map(|owner| owner.held.len() as u64).sum();
        file.locks.ranges.try_lock().map_or(0, |owners| count(&owners))
    }

    /// The lock of the whole file that it has, unless that is changing just now.
    pub(super) fn whole_lock(&self) -> WholeLock {
        let Object::File(file) = &self.object else { return WholeLock::None }; // A pipe has no locks.
        file.locks.whole.try_lock().map_or(WholeLock::None, |lock| *lock)
    }

    /// Ends its locks, and its places in line.
    ///
    /// Closing is not enough: a child that this process has just forked has the descriptors, too, until
    /// it executes its program.
    pub(super) fn end_locks(&self) {
        if let Object::File(file) = &self.object {
            let owners = std::mem::take(&mut *lock(&file.locks.ranges));
            owners.0.values().for_each(RangeOwner::end);
            drop(owners);
            let pinned = self.descriptors().pinned(self.id);
            // One that cannot be unlocked loses its lock when it is closed.
            let _ = pinned.map(|file| file.unlock());
        }
        lock(&self.reserved.server.waiting).close(&self.opened.identity, self.id);
    }
}

impl RangeOwner {
    /// False if others exclude it now.
    fn lock(&mut self, wanted: RangeLock) -> Result<bool, Error> {
        let mut after = self.held.clone();
        after.lock(wanted);
        self.slot.resize(after.len().max(self.held.len()))?;
        let taken = self.file.lock_range(wanted.range, wanted.exclusive);
        if matches!(taken, Ok(true)) {
            self.held = after;
        }
        // Fewer are never refused.
        self.slot.resize(self.held.len())?;
        taken
    }

    /// Ends all its locks.
    fn end(&self) {
        // Without it they end when the file is closed.
        let _ = range_to_the_end(0).map(|all| self.file.unlock_range(all));
    }

    fn unlock(&mut self, range: Extent) -> Result<(), Error> {
        let mut after = self.held.clone();
        after.unlock(range);
        // A lock whose middle is released becomes two.
        self.slot.resize(after.len().max(self.held.len()))?;
        self.file.unlock_range(range)?;
        self.held = after;
        self.slot.resize(self.held.len())
    }
}

impl FileCalls {
    /// The calls about locks.
    pub(super) fn lock(&self, call: &FileCall<'_>) -> Result<FileAnswer<'static>, Error> {
        let OpenedHandle { handle, file, at } = self.opened_anyhow()?;
        // A shared one shuts out those who want it for themselves.
        let may_lock = || self.must_shut_others_out(&handle.opened.name, handle.opened.is_own());
        match *call {
            FileCall::Lock { exclusive, wait } => {
                may_lock()?;
                handle.lock(&file, exclusive, wait)?;
            }
            FileCall::Unlock => handle.unlock()?,
            FileCall::LockRange { owner, lock, wait } => {
                must_be_open_for(handle, lock.exclusive)?;
                may_lock()?;
                handle.lock_range(owner, lock, wait, || open_beside(handle, &at))?;
            }
            FileCall::UnlockRange { owner, range } => handle.unlock_range(owner, range)?,
            FileCall::FindLock { owner, lock: RangeLock { range, exclusive } } => {
                let owners = lock(&handle.file()?.locks.ranges);
                let own = owners.0.get(&owner).map_or(&*file, |own| &own.file);
                let found = own.find_lock(range, exclusive)?;
                let lock = found.map(|(range, exclusive)| RangeLock { range, exclusive });
                return Ok(FileAnswer::FoundLock { lock });
            }
            _ => return Err(Error::new(ErrorKind::Unsupported, "no such call")),
        }
        Ok(FileAnswer::Done)
    }
}

/// As fcntl(2) has it.
fn must_be_open_for(handle: &Handle, exclusive: bool) -> Result<(), Error> {
    let (granted, text) = match exclusive {
        true => {
            (handle.opened.sharing.write, "the handle is not open to write, which an exclusive lock of a range needs")
        }
        false => (handle.opened.sharing.read, "the handle is not open to read, which a shared lock of a range needs"),
    };
    if granted { Ok(()) } else { Err(Error::new(ErrorKind::Refused, text)) }
}

/// The same file once more.
fn open_beside(handle: &Handle, at: &Authorized) -> Result<OpenFile, Error> {
    let file = match at.store().open_file(at.path(), &handle.opened.request()) {
        Ok((file, _)) => file,
        Err(error) if error.kind == ErrorKind::NotFound => return Err(stale("its name is gone")),
        Err(error) => return Err(error),
    };
    if file.identity()? != handle.opened.identity {
        return Err(stale("its name belongs to another file now"));
    }
    Ok(file)
}
