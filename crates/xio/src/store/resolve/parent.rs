//! A held directory and the calls that change it: each takes single components, so no path is resolved twice and no
//! link is followed.

use super::super::local::parts::is_own;
use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The directory that a new file goes into.
#[derive(Debug)]
pub(in crate::store) struct Parent {
    pub(super) directory: OwnedFd,
}

impl Parent {
    pub(super) fn new(directory: OwnedFd) -> Self {
        Self { directory }
    }

    /// The directory itself.
    pub(in crate::store) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Whether this process may make names in it.
    pub(in crate::store) fn may_change(&self) -> bool {
        let access = Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::accessat(&self.directory, ".", access, AtFlags::EACCESS).is_ok()
    }

    /// What stands at `name`, if anything; a link is reported as a link.
    pub(in crate::store) fn kind_of(&self, name: &[u8]) -> Result<Option<FileType>, Errno> {
        Ok(self.look(name)?.map(|stat| FileType::from_raw_mode(stat.st_mode)))
    }

    /// What stands at `name`, if anything; of a link, the link.
    pub(in crate::store) fn look(&self, name: &[u8]) -> Result<Option<Stat>, Errno> {
        match self.stat(name) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Opens the regular file `name` for reading; ESTALE where something else stands there.
    pub(in crate::store) fn open_regular(&self, name: &[u8]) -> Result<(OwnedFd, Stat), Errno> {
        let must_be_regular = |stat: Stat| match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(stat),
            _ => Err(Errno::STALE),
        };
        // Before the open, which may wake or arm what is no file.
        must_be_regular(self.stat(name)?)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, name, flags, Mode::empty())?;
        let stat = must_be_regular(rustix::fs::fstat(&file)?)?;
        rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
        Ok((file, stat))
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

    /// Opens the file `name` for reading and writing where it is one that this store made: regular, with one name, of this
    /// user. None where it is something else or not there.
    pub(in crate::store) fn open_own(&self, name: &[u8]) -> Result<Option<(OwnedFd, Stat)>, Errno> {
        match self.stat(name) {
            // Before the open, which may wake or arm what is no file.
            Ok(stat) if !is_own(&stat) => return Ok(None),
            Ok(_) => {}
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno),
        }
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = |flags| rustix::fs::openat(&self.directory, name, flags, Mode::empty());
        let opened = match open(flags) {
            // A commit that was killed had given it the target's mode, which may forbid its owner to write.
            Err(Errno::ACCESS) => {
                let readable = open(flags.difference(OFlags::RDWR))?;
                if is_own(&rustix::fs::fstat(&readable)?) {
                    rustix::fs::fchmod(&readable, Mode::RUSR | Mode::WUSR)?;
                }
                open(flags)
            }
            other => other,
        };
        let file = match opened {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        let stat = rustix::fs::fstat(&file)?;
        rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
        Ok(is_own(&stat).then_some((file, stat)))
    }

    /// Gives `from` the name `to`, in one step, whatever had that name.
    pub(in crate::store) fn replace(&self, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        single(from)?;
        single(to)?;
        rustix::fs::renameat(&self.directory, from, &self.directory, to)
    }

    /// Gives `from` the name `to` in `target`; EEXIST when anything has that name, decided by the kernel.
    pub(in crate::store) fn keep(&self, from: &[u8], target: &Self, to: &[u8]) -> Result<(), Errno> {
        single(from)?;
        single(to)?;
        match rustix::fs::renameat_with(&self.directory, from, &target.directory, to, RenameFlags::NOREPLACE) {
            // Not known to this file system (NFS, some FUSE) or kernel. A hard link fails as atomically when the name
            // is taken.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(&self.directory, from, &target.directory, to, AtFlags::empty())?;
                // The file has its name: it is committed, whatever becomes of the second one.
                let _ = self.remove(from);
                Ok(())
            }
            other => other,
        }
    }

    /// Waits until the names in this directory are on stable storage; `file` is one of the same file system.
    pub(in crate::store) fn sync(&self, file: &OwnedFd) -> Result<(), Errno> {
        // The held descriptor is for walking alone and cannot be synced.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let synced = rustix::fs::openat(&self.directory, ".", flags, Mode::empty())
            .and_then(|directory| rustix::io::retry_on_intr(|| rustix::fs::fsync(&directory)));
        match synced {
            // A directory that may be written but not read, or whose file system syncs no directories: everything of the
            // file system is synced instead.
            Err(Errno::ACCESS | Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::BADF) => {
                rustix::io::retry_on_intr(|| rustix::fs::syncfs(file))
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
pub(super) fn single(name: &[u8]) -> Result<(), Errno> {
    match name {
        b"" | b"." | b".." => Err(Errno::INVAL),
        _ if name.contains(&b'/') => Err(Errno::INVAL),
        _ => Ok(()),
    }
}
