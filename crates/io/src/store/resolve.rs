//! The only place where a path becomes a descriptor. Nothing else in this crate passes a path to
//! the kernel.
//!
//! A [`Root`] is an open directory. Everything below it is opened with `openat2`, beneath the root
//! and without following any symbolic link; everything that changes a directory is a call on an
//! open [`Parent`] and one single component (to
//! protect only `open` has never been enough). The result of an earlier check of a path is never trusted: what counts is `fstat`
//! of the opened descriptor.
//!
//! Must not: follow a link inside a root (but see [`Links::Followed`]), accept a path that is not a
//! [`RelPath`], open a file that is not regular. Paths typed on the command line are resolved in
//! `typed`, with the kernel's usual rules, and so is the `folder` of a user's own settings.

pub(super) mod append;
mod blocked;
pub(super) mod folder;
pub(super) mod names;
mod opened;
mod parent;
mod pipe;
mod small;
pub(super) mod staging;
pub(super) mod trees;
pub(super) mod typed;
mod watch;

pub(super) use blocked::{Blocked, Cause};
pub(super) use parent::Parent;

use super::medium::is_generated;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use xdfs_proto::base::RelPath;

/// Maximum number of tries: `openat2` returns EAGAIN when a rename raced with the walk; after that
/// the path is reported as busy.
const RACE_TRIES_MAX: usize = 64;

/// Longest path that the kernel accepts, in bytes (PATH_MAX less the NUL); a longer one is opened
/// in steps.
const KERNEL_PATH_BYTES_MAX: usize = 4095;

/// What a symbolic link in the middle of a path means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Links {
    /// An error: an export ends at its top, and nothing in it may lead out of it.
    Refused,
    /// What it means to every program of this user, who has no other rights here than their own.
    /// The last component is still not followed, except to read a file or list a directory.
    Followed,
}

/// A directory that is held open: the top of an export, or the directory that the user named.
#[derive(Debug)]
pub(super) struct Root {
    top: Arc<Parent>,
    links: Links,
    /// The only staged tree that paths of this root may lead into, given by the directory that
    /// holds it.
    inside: Option<RelPath>,
}

impl Root {
    /// Opens the directory `path`, following links: the user who configures or types it means the
    /// link's target.
    pub(super) fn open(path: &[u8]) -> Result<Self, Errno> {
        // O_PATH: a directory that may be searched but not listed is a valid root.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = Arc::new(Parent::new(rustix::fs::open(path, flags, Mode::empty())?));
        Ok(Self { top, links: Links::Refused, inside: None })
    }

    /// The same directory, with links followed on the way to what a path names.
    pub(super) fn following_links(self) -> Self {
        Self { links: Links::Followed, ..self }
    }

    /// The same directory, for paths in `holder` only: a directory of [`Parent::hold_staged_tree`].
    pub(super) fn inside(&self, holder: RelPath) -> Self {
        Self { top: Arc::clone(&self.top), links: self.links, inside: Some(holder) }
    }

    /// Refuses a path that contains a reserved name, except for paths to the tree that this root is
    /// restricted to. A restricted root also refuses every path that is neither in that tree nor
    /// one of its parent directories, which are allowed because they are synced.
    ///
    /// [`Self::parent_of`] and whatever else takes a whole path do so themselves. Who holds a directory
    /// and uses names in it has to.
    pub(super) fn must_not_be_reserved(&self, path: &RelPath) -> Result<(), Blocked> {
        let Some(holder) = &self.inside else { return staging::must_not_be_reserved(path, 0) };
        match path.is_within(holder) {
            true => staging::must_not_be_reserved(path, holder.depth()),
            false if holder.is_within(path) => Ok(()),
            false => Err(Blocked { depth: 0, cause: Cause::Reserved }),
        }
    }

    /// The directory itself.
    pub(super) fn top(&self) -> &Arc<Parent> {
        &self.top
    }

    /// The attributes of `path`; a link is reported as a link.
    pub(super) fn look(&self, path: &RelPath) -> Result<Stat, Blocked> {
        let held = self.beneath(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        rustix::fs::fstat(held).map_err(|errno| Blocked::at(path, errno))
    }

    /// Opens the regular file at `path` for reading.
    pub(super) fn open_regular(&self, path: &RelPath) -> Result<(OwnedFd, Stat), Blocked> {
        // Opening a device or a FIFO can have side effects (it wakes a waiting writer, arms a
        // watchdog), so the type is checked before, and once more on the opened descriptor, which
        // counts.
        let at = |errno| Blocked::at(path, errno);
        let held = self.beneath(path, OFlags::PATH | self.last())?;
        must_be_regular(path, &rustix::fs::fstat(held).map_err(at)?)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | self.last();
        let file = self.beneath(path, flags)?;
        let stat = rustix::fs::fstat(&file).map_err(at)?;
        must_be_regular(path, &stat)?;
        if stat.st_size == 0 && is_generated(&file).map_err(at)? {
            return Err(Blocked { depth: path.depth(), cause: Cause::KernelFile });
        }
        // The flag was needed only for the open; some file systems would return EAGAIN for a later
        // read.
        rustix::fs::fcntl_setfl(&file, OFlags::empty()).map_err(at)?;
        Ok((file, stat))
    }

    /// Opens the directory that contains `path`, and returns the last component. `path` is not the
    /// root.
    pub(super) fn parent_of<'a>(&self, path: &'a RelPath) -> Result<(Parent, &'a [u8]), Blocked> {
        let (Some(above), Some(name)) = (path.parent(), path.name()) else {
            return Err(Blocked { depth: 0, cause: Cause::Kind(FileType::Directory) });
        };
        self.must_not_be_reserved(path)?;
        let directory = self.beneath(&above, OFlags::PATH | OFlags::DIRECTORY | self.last())?;
        Ok((Parent::new(directory), name))
    }

    /// The flag for the last component where its own content is wanted and not the link.
    fn last(&self) -> OFlags {
        match self.links {
            Links::Refused => OFlags::NOFOLLOW,
            Links::Followed => OFlags::empty(),
        }
    }

    /// Opens `path` below the root; on failure reports the blocking component.
    fn beneath(&self, path: &RelPath, flags: OFlags) -> Result<OwnedFd, Blocked> {
        self.must_not_be_reserved(path)?;
        match self.beneath_at_once(path, flags) {
            Ok(held) => Ok(held),
            // Kernels before 5.6 and some sandboxes lack openat2. Single components without links
            // resolve the same way: a relative path has no "..", so a walk cannot leave the root.
            Err(Errno::NOSYS) => self.walk(path, flags),
            Err(errno @ (Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS)) => {
                // Only to name the component in the message. If it has appeared meanwhile, the
                // first error is reported.
                Err(self.walk(path, flags).err().unwrap_or_else(|| Blocked::at(path, errno)))
            }
            Err(errno) => Err(Blocked::at(path, errno)),
        }
    }

    fn beneath_at_once(&self, path: &RelPath, flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut held: Option<OwnedFd> = None;
        let mut part = Vec::new();
        for component in path.components() {
            if part.len() + 1 + component.len() > KERNEL_PATH_BYTES_MAX {
                let at = held.as_ref().map_or(self.top.directory.as_fd(), AsFd::as_fd);
                held = Some(self.open_part(at, &part, OFlags::PATH | OFlags::DIRECTORY)?);
                part.clear();
            }
            if !part.is_empty() {
                part.push(b'/');
            }
            part.extend_from_slice(component);
        }
        let at = held.as_ref().map_or(self.top.directory.as_fd(), AsFd::as_fd);
        self.open_part(at, if part.is_empty() { b"." } else { &part }, flags)
    }

    /// Opens one component, through a link only where this root follows them and `flags` allow it.
    /// `component` contains no slash: it comes from a [`RelPath`].
    fn open_component(&self, at: BorrowedFd<'_>, component: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = match self.links {
            Links::Refused => flags | OFlags::NOFOLLOW,
            Links::Followed => flags,
        };
        rustix::fs::openat(at, component, flags | OFlags::CLOEXEC, Mode::empty())
    }

    fn open_part(&self, at: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        match self.links {
            Links::Refused => open_beneath(at, path, flags),
            Links::Followed => rustix::fs::openat(at, path, flags | OFlags::CLOEXEC, Mode::empty()),
        }
    }

    /// The same, one component at a time.
    fn walk(&self, path: &RelPath, flags: OFlags) -> Result<OwnedFd, Blocked> {
        let mut above = path.components();
        let Some(last) = above.next_back() else {
            return self
                .open_component(self.top.directory.as_fd(), b".", flags)
                .map_err(|errno| Blocked { depth: 0, cause: Cause::Errno(errno) });
        };
        let mut held: Option<OwnedFd> = None;
        for (index, component) in above.enumerate() {
            let at = held.as_ref().map_or(self.top.directory.as_fd(), AsFd::as_fd);
            let next = self
                .open_component(at, component, OFlags::PATH | OFlags::DIRECTORY | self.last())
                .map_err(|errno| why(at, component, index + 1, errno))?;
            held = Some(next);
        }
        let at = held.as_ref().map_or(self.top.directory.as_fd(), AsFd::as_fd);
        self.open_component(at, last, flags).map_err(|errno| why(at, last, path.depth(), errno))
    }
}

fn must_be_regular(path: &RelPath, stat: &Stat) -> Result<(), Blocked> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        kind => Err(Blocked { depth: path.depth(), cause: Cause::Kind(kind) }),
    }
}

/// One `openat2` beneath `at`, no links, bounded retry when a rename raced.
fn open_beneath(at: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let confine = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    for _ in 0..RACE_TRIES_MAX {
        match rustix::fs::openat2(at, path, flags | OFlags::CLOEXEC, Mode::empty(), confine) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

/// ENOTDIR and ELOOP mean that the component has another type; reporting that type makes the better
/// message.
fn why(at: BorrowedFd<'_>, component: &[u8], depth: usize, errno: Errno) -> Blocked {
    if matches!(errno, Errno::NOTDIR | Errno::LOOP)
        && let Ok(stat) = rustix::fs::statat(at, component, AtFlags::SYMLINK_NOFOLLOW)
    {
        return Blocked { depth, cause: Cause::Kind(FileType::from_raw_mode(stat.st_mode)) };
    }
    Blocked { depth, cause: Cause::Errno(errno) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The walk serves kernels without openat2, which no test machine has: it must return the same
    /// as openat2.
    #[test]
    fn walking_and_openat2_agree() {
        // A tree that every Linux has, with links, files and directories; it is only read.
        let root = Root::open(b"/proc/self").unwrap();
        let mut found = [0; 2];
        for text in [
            "", "status", "fd", "net", "cwd", "exe", "task", "fd/0", "cwd/x", "root/etc", "absent", "absent/x",
            "status/x",
        ] {
            let path = RelPath::parse(text.as_bytes()).unwrap();
            for flags in [OFlags::PATH | OFlags::NOFOLLOW, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW] {
                let inode = |file: &OwnedFd| rustix::fs::fstat(file).unwrap().st_ino;
                let kernel = root.beneath_at_once(&path, flags).map(|file| inode(&file)).ok();
                let walked = root.walk(&path, flags).map(|file| inode(&file)).ok();
                assert_eq!(walked, kernel, "'{text}' with {flags:?}");
                found[usize::from(walked.is_some())] += 1;
            }
        }
        assert!(found.iter().all(|&count| count > 4), "{found:?}");
    }
}
