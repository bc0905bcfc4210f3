//! The calls about a lease, and what the other calls of a batch are to the leases of others.

use super::Handle;
use super::call::{BatchFile, FileCalls, OpenedHandle, change_of};
use super::leases::{AccessGuard, FileKey, too_late};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::lease::{Access, LeaseAnswer, LeaseKind};
use xdfs_proto::wire::file::{FileBatch, FileCall, FileIdentity, LeaseCall, LeaseTold, OpenFile as OpenCall};
use xdfs_proto::wire::path::Wanted;

/// What a call does with the bytes and attributes of its file.
pub(super) fn access_of(call: &FileCall<'_>) -> Option<Access> {
    match call {
        FileCall::Write { .. }
        | FileCall::Append { .. }
        | FileCall::SetLength { .. }
        | FileCall::Allocate { .. }
        | FileCall::Punch { .. } => Some(Access::Change),
        FileCall::Open(open) if open.truncate => Some(Access::Change),
        // Its answer is what the file was for the lost session: whoever had a lease comes back for it.
        FileCall::Open(open) if open.again.is_some() || open.pipe => None,
        FileCall::Open(_) | FileCall::Read { .. } | FileCall::Attributes { .. } | FileCall::Seek { .. } => {
            Some(Access::Look)
        }
        _ => None,
    }
}

/// The same for a whole batch, on a file that is open to write or not: a change of one that is not is refused, and nobody has
/// to give a lease up for it. The change number behind a lock is that of what is here: who has a lease gives it up for nobody
/// who only tries to lock.
pub(super) fn access_of_batch(batch: &FileBatch<'_>, writes: bool) -> Option<Access> {
    let granted = |access: &Access| writes || *access == Access::Look;
    match batch.calls.as_slice() {
        [FileCall::Lock { .. } | FileCall::LockRange { .. }, FileCall::Attributes { wanted: Wanted::CHANGE }] => None,
        calls => calls.iter().filter_map(access_of).filter(granted).max(),
    }
}

fn key_of(identity: &FileIdentity) -> FileKey {
    let mut key = [0; 16];
    key.copy_from_slice(&identity[..16]);
    key
}

/// Begins a batch on an open file, which `wants` this: Busy if somebody else has a lease that excludes it. The
/// handle's own lease is kept from ending if the batch is to be executed under it; the call itself answers that
/// there is none.
pub(super) fn begin_on_handle(
    batch: &FileBatch<'_>,
    handle: Arc<Handle>,
    wants: Option<Access>,
) -> Result<BatchFile, Error> {
    let server = &handle.reserved.server;
    let under = is_under(batch);
    let pinned = if under { server.pin_lease(&handle) } else { None };
    let access = match wants.filter(|_| !under || pinned.is_some()) {
        Some(access) => Some(server.access(|| Some(handle.key()), Some(&handle), access)?),
        None => None,
    };
    Ok(BatchFile { handle, access, pinned })
}

/// Whether the batch is to be executed under its handle's lease.
pub(super) fn is_under(batch: &FileBatch<'_>) -> bool {
    matches!(batch.calls.first(), Some(FileCall::Lease(LeaseCall::Under)))
}

impl FileCalls {
    /// The slice is over: until the next one the batch keeps its lease from ending no more. A lease for whose end nobody waits
    /// lasts for its whole time from now on.
    pub(super) fn pause(&mut self) {
        if let Some(BatchFile { handle, pinned, .. }) = &mut self.file
            && pinned.is_some()
        {
            handle.reserved.server.lease(handle, LeaseCall::Renew);
            *pinned = None;
        }
    }

    /// The next slice begins. The lease is over by now if it was waited for, or this took longer than its time.
    pub(super) fn resume(&mut self) {
        if let Some(BatchFile { handle, pinned, .. }) = self.file.as_mut().filter(|_| self.under) {
            *pinned = handle.reserved.server.pin_lease(handle);
        }
    }

    /// Whether the lease is over that it is executed under.
    pub(super) fn is_too_late(&self) -> bool {
        self.under && self.file.as_ref().is_some_and(|file| file.pinned.is_none())
    }

    /// The same for a batch that opens its file, now that it is known which one that is. Of one that was
    /// created just now nobody has a lease.
    pub(super) fn access_of_opened(
        &self,
        open: &OpenCall<'_>,
        identity: &FileIdentity,
        created: bool,
    ) -> Result<Option<AccessGuard>, Error> {
        let Some(access) = self.wants else { return Ok(None) };
        let begun = self.caller.files.server().access(|| Some(key_of(identity)), None, access);
        match begun {
            Err(_) if created || open.exclusive => Ok(None),
            begun => begun.map(Some),
        }
    }

    /// One of the calls about the handle's lease.
    pub(super) fn lease(&self, call: LeaseCall) -> Result<LeaseTold, Error> {
        let BatchFile { handle, pinned, .. } = self.file()?;
        let server = &handle.reserved.server;
        if !server.has_leases() {
            return Err(Error::new(ErrorKind::Unsupported, "this server grants no leases"));
        }
        let answer = match call {
            LeaseCall::GiveBack => {
                server.give_back(handle);
                LeaseAnswer::Refused
            }
            LeaseCall::Under if pinned.is_some() => server.lease(handle, LeaseCall::Renew),
            LeaseCall::Under => return Err(too_late()),
            LeaseCall::Ask(_) | LeaseCall::Renew | LeaseCall::Reclaim { .. } => self.ask(call)?,
        };
        // Programs of this machine do not wait for its end: the kernel is not asked for a lease.
        Ok(LeaseTold { answer, local: false })
    }

    fn ask(&self, call: LeaseCall) -> Result<LeaseAnswer, Error> {
        let OpenedHandle { handle, file, .. } = self.opened_anyhow()?;
        self.must_shut_others_out(&handle.opened.name, handle.opened.is_own())?;
        let writes =
            matches!(call, LeaseCall::Ask(LeaseKind::Write) | LeaseCall::Reclaim { kind: LeaseKind::Write, .. });
        if writes && !handle.opened.sharing.write {
            return Err(Error::new(ErrorKind::Refused, "the handle is not open to write"));
        }
        let server = &handle.reserved.server;
        let leased_change = &handle.file()?.leased_change;
        let before = leased_change.load(Ordering::Relaxed);
        if call == LeaseCall::Renew && change_of(&file.node()?) != before {
            // A program of this machine changed the file.
            server.give_back(handle);
            return Ok(LeaseAnswer::Refused);
        }
        let answer = server.lease(handle, call);
        if call != LeaseCall::Renew && answer != LeaseAnswer::Refused {
            // What the client read before it had the lease is not covered by it.
            leased_change.store(change_of(&file.node()?), Ordering::Relaxed);
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_what_is_not_open_to_write_takes_a_lease_from_nobody() {
        let open = OpenCall { path: b"data/f", read: true, ..OpenCall::default() };
        let write = || FileCall::Write { offset: 0, data: b"x" };
        let access = |calls, writes| access_of_batch(&FileBatch { calls, ..FileBatch::default() }, writes);
        assert_eq!(access(vec![FileCall::Open(open), write()], false), Some(Access::Look));
        assert_eq!(access(vec![FileCall::Open(open), write()], true), Some(Access::Change));
        assert_eq!((access(vec![write()], false), access(vec![write()], true)), (None, Some(Access::Change)));
    }
}
