//! An open directory and the calls that change it: each takes single components, so no path is
//! resolved twice and no link is followed.

use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The directory that a new file is created in.
#[derive(Debug)]
pub(in crate::store) struct Parent {
    pub(super) directory: OwnedFd,
}

impl Parent {
    pub(in crate::store) fn new(directory: OwnedFd) -> Self {
        Self { directory }
    }

    /// The directory itself.
    pub(in crate::store) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Whether this process may create names in it.
    pub(in crate::store) fn may_change(&self) -> bool {
        let access = Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::accessat(&self.directory, ".", access, AtFlags::EACCESS).is_ok()
    }

    /// The type of `name`, if it exists; a link is reported as a link.
    pub(in crate::store) fn kind_of(&self, name: &[u8]) -> Result<Option<FileType>, Errno> {
        Ok(self.look(name)?.map(|stat| FileType::from_raw_mode(stat.st_mode)))
    }

    /// The attributes of `name`, if it exists; for a link, those of the link.
    pub(in crate::store) fn look(&self, name: &[u8]) -> Result<Option<Stat>, Errno> {
        match self.stat(name) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Whether `name` still refers to the file with this `stat`. While its lock is held, that does not
    /// change.
    pub(in crate::store) fn is_still(&self, name: &[u8], stat: &Stat) -> bool {
        let found = self.look(name).ok().flatten();
        found.is_some_and(|found| (found.st_dev, found.st_ino) == (stat.st_dev, stat.st_ino))
    }

    /// Opens the regular file `name` for reading; ESTALE if the name refers to something else.
    pub(in crate::store) fn open_regular(&self, name: &[u8]) -> Result<(OwnedFd, Stat), Errno> {
        let must_be_regular = |stat: Stat| match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(stat),
            _ => Err(Errno::STALE),
        };
        // Checked before the open, which may have side effects on anything but a file.
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

    /// Creates `name`, which must not exist in any form, readable and writable by the owner only.
    pub(in crate::store) fn create_new(&self, name: &[u8]) -> Result<OwnedFd, Errno> {
        single(name)?;
        // O_EXCL: the result is a new regular file or an error, so there is no FIFO to wait for and
        // no device with side effects.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR)
    }

    /// Creates `name`, which must not exist in any form, with this access.
    pub(super) fn create_to_open(&self, name: &[u8], access: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        single(name)?;
        let flags = access | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, name, flags, mode)
    }

    /// Opens the file `name` for reading and writing if this store created it: regular, with a
    /// single link, owned by this user. None if it is something else or does not exist.
    pub(in crate::store) fn open_own(&self, name: &[u8]) -> Result<Option<(OwnedFd, Stat)>, Errno> {
        match self.stat(name) {
            // Checked before the open, which may have side effects on anything but a file.
            Ok(stat) if !is_own(&stat) => return Ok(None),
            Ok(_) => {}
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno),
        }
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = |flags| rustix::fs::openat(&self.directory, name, flags, Mode::empty());
        let opened = match open(flags) {
            // A killed commit had set the target's mode, which may forbid its owner to write.
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

    /// Renames `from` to `to`, atomically, replacing the existing file.
    pub(in crate::store) fn replace(&self, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        single(from)?;
        single(to)?;
        rustix::fs::renameat(&self.directory, from, &self.directory, to)
    }

    /// Renames `from` to `to` in `target`; EEXIST if that exists, decided by the kernel.
    pub(in crate::store) fn keep(&self, from: &[u8], target: &Self, to: &[u8]) -> Result<(), Errno> {
        single(from)?;
        single(to)?;
        match rustix::fs::renameat_with(&self.directory, from, &target.directory, to, RenameFlags::NOREPLACE) {
            // Not supported by this file system (NFS, some FUSE) or kernel. A hard link fails just
            // as atomically when the name exists.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(&self.directory, from, &target.directory, to, AtFlags::empty())?;
                // The file has its name: it is committed, even if the second name cannot be
                // removed.
                let _ = self.remove(from);
                Ok(())
            }
            other => other,
        }
    }

    /// Waits until the names in this directory are on stable storage; `file` is on the same file
    /// system.
    pub(in crate::store) fn sync(&self, file: &OwnedFd) -> Result<(), Errno> {
        // The held descriptor is O_PATH and cannot be synced.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let synced = rustix::fs::openat(&self.directory, ".", flags, Mode::empty())
            .and_then(|directory| rustix::io::retry_on_intr(|| rustix::fs::fsync(&directory)));
        match synced {
            // A directory that may be written but not read, or whose file system does not sync
            // directories: the whole file system is synced instead.
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

/// Last line of defence: even with a bug in a caller, the directory is never left.
pub(super) fn single(name: &[u8]) -> Result<(), Errno> {
    match name {
        b"" | b"." | b".." => Err(Errno::INVAL),
        _ if name.contains(&b'/') => Err(Errno::INVAL),
        _ => Ok(()),
    }
}

/// A regular file of ours with a single link: it cannot have been planted from elsewhere.
fn is_own(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_nlink == 1
        && stat.st_uid == rustix::process::geteuid().as_raw()
}
