//! Who has a file open: what users see of the handles of others.

use super::locks::WholeLock;
use super::{Handle, OpenFiles, lock};
use crate::files::leases::FileKey;
use std::sync::{Arc, Weak};
use xdfs_proto::lease::LeaseKind;
use xdfs_proto::limits;
use xdfs_proto::wire::path::OpenedFor;

/// One handle of a file.
pub(crate) struct OpenerFacts {
    /// Empty for visitors.
    pub user: Arc<str>,
    pub does: OpenedFor,
    /// Ranges that it has locked.
    pub ranges: u64,
}

impl OpenFiles {
    /// The handles of a file, and whether these are all. Waits for nobody: of a handle that is about to lock something, with a
    /// disk that may hang, the locks are not told.
    pub(crate) fn openers(&self, file: &FileKey) -> (Vec<OpenerFacts>, bool) {
        // Dropped outside of the lock: the last one of a handle takes it.
        let (handles, complete) = {
            let known = lock(&self.handles);
            let mut of_file = known.values().filter(|one| one.identity[..file.len()] == *file);
            let handles: Vec<Arc<Handle>> =
                of_file.by_ref().filter_map(|one| Weak::upgrade(&one.handle)).take(limits::OPENERS_MAX).collect();
            (handles, of_file.next().is_none())
        };
        (handles.iter().map(|handle| self.facts(handle)).collect(), complete)
    }

    fn facts(&self, handle: &Handle) -> OpenerFacts {
        let (sharing, whole) = (handle.opened.sharing, handle.whole_lock());
        let lease = self.lease_kind(handle);
        let does = OpenedFor::default()
            .and_if(sharing.read, OpenedFor::READING)
            .and_if(sharing.write, OpenedFor::WRITING)
            .and_if(sharing.deny_read, OpenedFor::DENYING_READING)
            .and_if(sharing.deny_write, OpenedFor::DENYING_WRITING)
            .and_if(whole != WholeLock::None, OpenedFor::LOCK)
            .and_if(whole == WholeLock::Exclusive, OpenedFor::EXCLUSIVE_LOCK)
            .and_if(lease.is_some(), OpenedFor::LEASE)
            .and_if(lease == Some(LeaseKind::Write), OpenedFor::WRITE_LEASE);
        OpenerFacts { user: handle.shown().into(), does, ranges: handle.locked_ranges() }
    }
}
