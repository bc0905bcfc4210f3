//! Where a new file gets its name.

use super::unsynced_dirs::DirPath;
use crate::store::resolve::Parent;
use crate::store::{Base, Existing};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The location of a new file, opened and checked.
#[derive(Debug)]
pub(super) struct TargetPlace {
    /// The target's directory.
    pub(super) parent: Arc<Parent>,
    /// The target's name in it.
    pub(super) name: Vec<u8>,
    /// The target in messages.
    pub(super) shown: String,
    /// What to do if the target exists.
    pub(super) existing: Existing,
    /// The version that may be replaced, where specified.
    pub(super) base: Option<Base>,
    /// The umask applied to the mode.
    pub(super) umask: u32,
    /// The path to the directory; none where a group syncs it.
    pub(super) way: Option<DirPath>,
}

impl TargetPlace {
    /// Waits until the name is on stable storage, and the names of directories that were created
    /// for it; `file` has the name.
    pub(super) fn sync(&self, file: &OwnedFd) -> std::result::Result<(), Errno> {
        self.parent.sync(file)?;
        self.way.as_ref().map_or(Ok(()), |way| way.sync(file))
    }
}
