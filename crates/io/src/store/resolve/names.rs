//! The operations of a tree as calls on an open directory and one single component, or on an open
//! file itself.

use super::{Blocked, Parent, Root, parent::single};
use crate::store::medium::is_on_disk;
use crate::store::tree::{AttributeChange, ListControl, Special};
use rustix::buffer::{SpareCapacity, spare_capacity};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, RawDir, SeekFrom, Stat, StatVfs, Timespec, Timestamps, UTIME_OMIT, Uid,
    XattrFlags,
};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use xdfs_proto::base::{RelPath, Timestamp};

/// Buffer for the names that one call of the kernel returns: large enough that the number of calls
/// is negligible, small enough that reading beyond the end of a page costs nothing.
const NAMES_BYTES: usize = 32 * 1024;

/// A file that is held without being opened, so that this has no side effects.
#[derive(Debug)]
pub(in crate::store) struct Held {
    fd: OwnedFd,
    stat: Stat,
    /// Directory and name of a symbolic link, which some calls need.
    link: Option<(Parent, Vec<u8>)>,
}

impl Root {
    /// Opens the directory at `path` for listing or syncing.
    pub(in crate::store) fn open_directory(&self, path: &RelPath) -> Result<OwnedFd, Blocked> {
        self.beneath(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | self.last())
    }

    /// The same, and never what a symbolic link leads to.
    pub(in crate::store) fn open_directory_itself(&self, path: &RelPath) -> Result<OwnedFd, Blocked> {
        self.beneath(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW)
    }

    /// Holds the file at `path`.
    pub(in crate::store) fn hold(&self, path: &RelPath) -> Result<Held, Blocked> {
        let at = |errno| Blocked::at(path, errno);
        let fd = self.beneath(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        let stat = rustix::fs::fstat(&fd).map_err(at)?;
        let link = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => self.parent_of(path).map(|(parent, name)| Some((parent, name.to_vec())))?,
            _ => None,
        };
        Ok(Held { fd, stat, link })
    }

    /// Creates every missing directory of `path`, outermost first, without resolving any of it
    /// twice, and opens the last one; `make` is called for each missing one with its path and the
    /// function that creates it.
    pub(in crate::store) fn make_directories(
        &self,
        path: &RelPath,
        mode: Mode,
        mut make: impl FnMut(&RelPath, &dyn Fn() -> Result<(), Errno>) -> Result<(), Errno>,
    ) -> Result<Parent, Blocked> {
        self.must_not_be_reserved(path)?;
        let mut held: Option<OwnedFd> = None;
        let mut reached = RelPath::default();
        for (index, component) in path.components().enumerate() {
            let at = held.as_ref().map_or(self.top.directory.as_fd(), AsFd::as_fd);
            // Came from a path, so it is a valid component.
            let _ = reached.push(component);
            let open = || self.open_component(at, component, OFlags::PATH | OFlags::DIRECTORY | self.last());
            let next = enter(open, || make(&reached, &|| rustix::fs::mkdirat(at, component, mode)));
            held = Some(next.map_err(|errno| super::why(at, component, index + 1, errno))?);
        }
        match held {
            Some(directory) => Ok(Parent::new(directory)),
            None => self.hold_directory(path),
        }
    }

    /// Opens the directory `path`.
    pub(in crate::store) fn hold_directory(&self, path: &RelPath) -> Result<Parent, Blocked> {
        Ok(Parent::new(self.beneath(path, OFlags::PATH | OFlags::DIRECTORY | self.last())?))
    }
}

/// Opens an existing directory, or creates it.
fn enter(
    open: impl Fn() -> Result<OwnedFd, Errno>,
    make: impl FnOnce() -> Result<(), Errno>,
) -> Result<OwnedFd, Errno> {
    match open() {
        Err(Errno::NOENT) => {}
        other => return other,
    }
    match make() {
        Ok(()) => {}
        // Another process was faster: what counts is that it exists.
        Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    open()
}

/// Lists the entries of `directory` after the position `from`; none at the end, else the position
/// before the entry that was not taken.
pub(in crate::store) fn list(
    directory: &Parent,
    from: u64,
    take: &mut dyn FnMut(&[u8], &Stat) -> ListControl,
) -> Result<Option<u64>, Errno> {
    let directory = &directory.directory;
    // It may have been read before.
    rustix::fs::seek(directory, SeekFrom::Start(from))?;
    let mut room = Vec::with_capacity(NAMES_BYTES);
    let mut entries = RawDir::new(directory, room.spare_capacity_mut());
    let mut before = from;
    while let Some(entry) = entries.next() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(Errno::INTR) => continue,
            // Also that it was removed: another one may have its name now, which is not empty.
            Err(errno) => return Err(errno),
        };
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if take(name, &stat) == ListControl::Stop => return Ok(Some(before)),
                Ok(_) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        before = entry.next_entry_cookie();
    }
    Ok(None)
}

/// Visits the names in `directory`, in no order, until `visit` wants no more.
pub(super) fn each_name(directory: &OwnedFd, mut visit: impl FnMut(&[u8]) -> bool) -> Result<(), Errno> {
    let mut room = Vec::with_capacity(NAMES_BYTES);
    let mut entries = RawDir::new(directory, room.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        match entry {
            Ok(entry) => {
                let name = entry.file_name().to_bytes();
                if !matches!(name, b"." | b"..") && !visit(name) {
                    return Ok(());
                }
            }
            Err(Errno::INTR) => {}
            // It was removed while it was read: it is empty.
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Whether `directory` has an entry of exactly this name.
pub(in crate::store) fn lists(directory: &OwnedFd, name: &[u8]) -> bool {
    let mut found = false;
    let seen = each_name(directory, |other| {
        found = other == name;
        !found
    });
    found && seen.is_ok()
}

/// A file whose name belongs to another one now, held so that it is freed when this is dropped.
///
/// A file of very many extents takes minutes to free. Within the rename the kernel would keep both
/// directories locked for as long, and with them every other rename of the file system.
#[must_use = "dropping it may take minutes: not under a lock"]
pub(in crate::store) struct Replaced(#[expect(dead_code, reason = "held until it is dropped")] Option<OwnedFd>);

impl Replaced {
    /// On disks of this machine alone: an NFS client renames a file that is held, in a step of its own,
    /// before it replaces it. Without a descriptor left the kernel frees the file at once.
    fn hold(parent: &Parent, name: &[u8]) -> Self {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = rustix::fs::openat(&parent.directory, name, flags, Mode::empty());
        Self(held.ok().filter(|file| is_on_disk(file)))
    }
}

impl Parent {
    /// Creates the directory `name`, which must not exist.
    pub(in crate::store) fn make_directory(&self, name: &[u8], mode: Mode) -> Result<(), Errno> {
        single(name)?;
        rustix::fs::mkdirat(&self.directory, name, mode)
    }

    /// Removes the empty directory `name`.
    pub(in crate::store) fn remove_directory(&self, name: &[u8]) -> Result<(), Errno> {
        single(name)?;
        rustix::fs::unlinkat(&self.directory, name, AtFlags::REMOVEDIR)
    }

    /// Renames `name` to `target` in `to`, atomically, replacing whatever the kernel allows. Returns what
    /// was replaced, to be dropped where nobody waits for it.
    pub(in crate::store) fn rename(&self, name: &[u8], to: &Self, target: &[u8]) -> Result<Replaced, Errno> {
        single(name)?;
        single(target)?;
        let replaced = Replaced::hold(to, target);
        rustix::fs::renameat(&self.directory, name, &to.directory, target)?;
        Ok(replaced)
    }

    /// The same if `target` does not exist.
    pub(in crate::store) fn rename_to_free(&self, name: &[u8], to: &Self, target: &[u8]) -> Result<(), Errno> {
        single(name)?;
        single(target)?;
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        rustix::fs::renameat_with(&self.directory, name, &to.directory, target, flags)
    }

    /// Creates another hard link to `name`; the new name must not exist.
    pub(in crate::store) fn link(&self, name: &[u8], to: &Self, target: &[u8]) -> Result<(), Errno> {
        single(name)?;
        single(target)?;
        rustix::fs::linkat(&self.directory, name, &to.directory, target, AtFlags::empty())
    }

    /// Creates a symbolic link.
    pub(in crate::store) fn make_symlink(&self, name: &[u8], text: &[u8]) -> Result<(), Errno> {
        single(name)?;
        rustix::fs::symlinkat(text, &self.directory, name)
    }

    /// The text of a symbolic link.
    pub(in crate::store) fn read_symlink(&self, name: &[u8]) -> Result<Vec<u8>, Errno> {
        single(name)?;
        rustix::fs::readlinkat(&self.directory, name, Vec::new()).map(|text| text.into_bytes())
    }

    /// Creates a file that is neither regular, directory nor link.
    pub(in crate::store) fn make_special(
        &self,
        name: &[u8],
        special: &Special,
        kind: FileType,
        mode: Mode,
    ) -> Result<(), Errno> {
        single(name)?;
        let (major, minor) = special.device;
        rustix::fs::mknodat(&self.directory, name, kind, mode, rustix::fs::makedev(major, minor))
    }
}

impl Held {
    /// The kernel's path to the held file itself, whatever has its original name by now.
    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd())
    }

    /// Changes attributes; owner first, since that clears bits of the mode, times last.
    pub(in crate::store) fn change(&self, change: &AttributeChange) -> Result<(), Errno> {
        if change.owner != (None, None) {
            let (user, group) = (change.owner.0.map(Uid::from_raw), change.owner.1.map(Gid::from_raw));
            match &self.link {
                Some((parent, name)) => {
                    let flags = AtFlags::SYMLINK_NOFOLLOW;
                    rustix::fs::chownat(&parent.directory, name.as_slice(), user, group, flags)?;
                }
                None => rustix::fs::chown(self.path(), user, group)?,
            }
        }
        if let Some(mode) = change.mode {
            if self.link.is_some() {
                return Err(Errno::OPNOTSUPP);
            }
            rustix::fs::chmod(self.path(), Mode::from_raw_mode(mode & 0o7777))?;
        }
        if let Some(length) = change.length {
            self.cut(length)?;
        }
        if change.accessed.is_some() || change.modified.is_some() {
            let times = Timestamps { last_access: time(change.accessed), last_modification: time(change.modified) };
            match &self.link {
                Some((parent, name)) => {
                    let flags = AtFlags::SYMLINK_NOFOLLOW;
                    rustix::fs::utimensat(&parent.directory, name.as_slice(), &times, flags)?;
                }
                None => rustix::fs::utimensat(CWD, self.path(), &times, AtFlags::empty())?,
            }
        }
        Ok(())
    }

    fn cut(&self, length: u64) -> Result<(), Errno> {
        match FileType::from_raw_mode(self.stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR),
            _ => return Err(Errno::INVAL),
        }
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::open(self.path(), flags, Mode::empty())?;
        rustix::fs::ftruncate(file, length)
    }

    pub(in crate::store) fn xattrs(&self, bytes_max: usize) -> Result<Vec<Vec<u8>>, Errno> {
        let list = match read_whole(bytes_max, |room| match &self.link {
            Some(link) => rustix::fs::llistxattr(beside(link), room),
            None => rustix::fs::listxattr(self.path(), room),
        }) {
            // A file system without extended attributes.
            Err(Errno::OPNOTSUPP) => Vec::new(),
            other => other?,
        };
        Ok(list.split(|&byte| byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
    }

    pub(in crate::store) fn xattr(&self, name: &[u8], bytes_max: usize) -> Result<Vec<u8>, Errno> {
        read_whole(bytes_max, |room| match &self.link {
            Some(link) => rustix::fs::lgetxattr(beside(link), name, room),
            None => rustix::fs::getxattr(self.path(), name, room),
        })
    }

    pub(in crate::store) fn set_xattr(&self, name: &[u8], value: &[u8]) -> Result<(), Errno> {
        match &self.link {
            Some(link) => rustix::fs::lsetxattr(beside(link), name, value, XattrFlags::empty()),
            None => rustix::fs::setxattr(self.path(), name, value, XattrFlags::empty()),
        }
    }

    pub(in crate::store) fn remove_xattr(&self, name: &[u8]) -> Result<(), Errno> {
        match &self.link {
            Some(link) => rustix::fs::lremovexattr(beside(link), name),
            None => rustix::fs::removexattr(self.path(), name),
        }
    }

    /// Usage of its file system.
    pub(in crate::store) fn space(&self) -> Result<StatVfs, Errno> {
        rustix::fs::fstatvfs(&self.fd)
    }
}

/// A link addressed through its open directory, for calls that take no descriptor and do not follow
/// the last component.
fn beside((parent, name): &(Parent, Vec<u8>)) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}/", parent.directory.as_raw_fd()).into_bytes();
    path.extend_from_slice(name);
    path
}

/// Collects the result of a call whose length is not known in advance: most are short.
fn read_whole(
    bytes_max: usize,
    read: impl Fn(SpareCapacity<'_, u8>) -> Result<usize, Errno>,
) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::with_capacity(512);
    match read(spare_capacity(&mut bytes)) {
        Err(Errno::RANGE) => {
            bytes.reserve_exact(bytes_max);
            read(spare_capacity(&mut bytes))?;
        }
        other => drop(other?),
    }
    Ok(bytes)
}

fn time(time: Option<Timestamp>) -> Timespec {
    match time {
        Some(Timestamp { seconds, nanoseconds }) => Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() },
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
    }
}
