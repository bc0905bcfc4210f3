//! Files that are unnamed until they get their final name, and files that are read with few calls.

use super::Parent;
use super::parent::single;
use crate::store::medium::in_memory;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;

/// How an unnamed file can be linked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Linking {
    /// By its descriptor alone: with a privilege, or since Linux 6.10 by the process that opened
    /// it.
    Descriptor,
    /// By its link below /proc.
    Process,
    /// Not at all: no privilege, an older kernel, and no /proc.
    Not,
}

impl Parent {
    /// A new unnamed file in this directory, with this mode as far as process and directory permit;
    /// none if the file system has no such files, or they could not be linked.
    pub(in crate::store) fn create_unnamed(&self, mode: Mode) -> Result<Option<OwnedFd>, Errno> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.directory, ".", flags, mode) {
            Ok(file) => Ok((self.linking(&file) != Linking::Not).then_some(file)),
            // EISDIR is returned by kernels that interpret the flag as another one.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Whether files here are only in memory: writing them is copying, without a device.
    pub(in crate::store) fn in_memory(&self) -> bool {
        in_memory(&self.directory)
    }

    /// Opens a file that was just seen to be regular, for one read; the caller must check
    /// afterwards that it still was.
    pub(in crate::store) fn open_to_read(&self, name: &[u8]) -> Result<OwnedFd, Errno> {
        single(name)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, name, flags, Mode::empty())
    }

    /// Links an unnamed file as `to`; EEXIST if that exists, decided by the kernel.
    pub(in crate::store) fn link_unnamed(&self, file: &OwnedFd, to: &[u8]) -> Result<(), Errno> {
        single(to)?;
        self.link_by(self.linking(file), file, to)
    }

    /// Tested once for the process, without side effects: every directory has a name `.`, so a
    /// permitted link returns EEXIST.
    fn linking(&self, file: &OwnedFd) -> Linking {
        static KNOWN: OnceLock<Linking> = OnceLock::new();
        let may = |how: &Linking| self.link_by(*how, file, b".") == Err(Errno::EXIST);
        *KNOWN.get_or_init(|| [Linking::Descriptor, Linking::Process].into_iter().find(may).unwrap_or(Linking::Not))
    }

    fn link_by(&self, how: Linking, file: &OwnedFd, to: &[u8]) -> Result<(), Errno> {
        match how {
            Linking::Descriptor => rustix::fs::linkat(file, "", &self.directory, to, AtFlags::EMPTY_PATH),
            Linking::Process => {
                let link = format!("/proc/self/fd/{}", file.as_raw_fd());
                rustix::fs::linkat(CWD, link, &self.directory, to, AtFlags::SYMLINK_FOLLOW)
            }
            Linking::Not => Err(Errno::OPNOTSUPP),
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "sets the scene with a directory of its own")]
mod tests {
    use super::*;
    use crate::store::resolve::Root;
    use std::os::unix::ffi::OsStrExt;
    use xdfs_proto::base::RelPath;

    #[test]
    fn both_ways_give_a_name_once_and_looking_for_them_leaves_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        let parent = Root::open(folder.as_os_str().as_bytes()).unwrap().hold_directory(&RelPath::default()).unwrap();
        let mut ways = 0;
        for how in [Linking::Descriptor, Linking::Process] {
            let Some(file) = parent.create_unnamed(Mode::RUSR | Mode::WUSR).unwrap() else { continue };
            rustix::io::write(&file, b"content").unwrap();
            if parent.link_by(how, &file, b".") != Err(Errno::EXIST) {
                continue;
            }
            assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
            assert_eq!(parent.link_by(how, &file, b"name"), Ok(()), "{how:?}");
            assert_eq!(parent.link_by(how, &file, b"name"), Err(Errno::EXIST));
            assert_eq!(std::fs::read(folder.join("name")).unwrap(), b"content");
            std::fs::remove_file(folder.join("name")).unwrap();
            ways += 1;
        }
        assert!(ways > 0, "neither way works on {}", folder.display());
    }
}
