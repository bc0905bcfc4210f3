//! A held directory and the calls that change it: each takes single components, so no path is resolved twice and no
//! link is followed.

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// The directory that a new file goes into.
#[derive(Debug)]
pub(in crate::store) struct Parent {
    directory: OwnedFd,
}

impl Parent {
    pub(super) fn new(directory: OwnedFd) -> Self {
        Self { directory }
    }

    /// What stands at `name`, if anything; a link is reported as a link.
    pub(in crate::store) fn kind_of(&self, name: &[u8]) -> Result<Option<FileType>, Errno> {
        match self.stat(name) {
            Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    fn stat(&self, name: &[u8]) -> Result<Stat, Errno> {
        single(name)?;
        rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Creates `name`, which must not exist in any form, for reading and writing by the owner alone.
    pub(in crate::store) fn create_new(&self, name: &[u8]) -> Result<OwnedFd, Errno> {
        single(name)?;
        // O_EXCL: it is a new regular file or nothing, so there is no FIFO to wait for and no device to act.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR)
    }

    /// Gives `from` the name `to`, in one step, whatever had that name.
    pub(in crate::store) fn replace(&self, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        single(from)?;
        single(to)?;
        rustix::fs::renameat(&self.directory, from, &self.directory, to)
    }

    /// Gives `from` the name `to`; EEXIST when anything has that name, decided by the kernel.
    pub(in crate::store) fn keep(&self, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        single(from)?;
        single(to)?;
        match rustix::fs::renameat_with(&self.directory, from, &self.directory, to, RenameFlags::NOREPLACE) {
            // Not known to this file system (NFS, some FUSE) or kernel. A hard link fails as atomically when the name
            // is taken.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(&self.directory, from, &self.directory, to, AtFlags::empty())?;
                // The file has its name: it is committed, whatever becomes of the second one.
                let _ = self.remove(from);
                Ok(())
            }
            other => other,
        }
    }

    /// Removes the file `name`.
    pub(in crate::store) fn remove(&self, name: &[u8]) -> Result<(), Errno> {
        single(name)?;
        rustix::fs::unlinkat(&self.directory, name, AtFlags::empty())
    }
}

/// Last line of defence: whatever a caller got wrong, a directory is never left.
fn single(name: &[u8]) -> Result<(), Errno> {
    match name {
        b"" | b"." | b".." => Err(Errno::INVAL),
        _ if name.contains(&b'/') => Err(Errno::INVAL),
        _ => Ok(()),
    }
}
