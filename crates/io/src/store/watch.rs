//! Changes of names in the directories of a store, as the kernel tells them (inotify).
//!
//! One [`Watcher`] serves many directories of many stores: it is one descriptor, and the kernel's memory
//! for each directory. What it tells is no more than that something changed: nothing here looks at a file.

use super::Result;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, init, remove_watch};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use xdfs_proto::base::{Error, ErrorKind};

/// A directory that a [`Watcher`] tells of: two names of one directory have the same mark.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Mark(i32);

impl Mark {
    /// The lowest one, and the highest.
    pub const ENDS: (Self, Self) = (Self(i32::MIN), Self(i32::MAX));
}

/// What happened to a name in a watched directory, or to the directory itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happened {
    /// Bytes or the length changed.
    Content,
    /// Attributes changed.
    Attributes,
    /// The name appeared, went away, or belongs to another file.
    Name,
    /// The directory was moved or removed, or its file system is gone: nothing more is told of it.
    Gone,
    /// More happened than is told, in any directory.
    Lost,
}

/// Tells of changes in directories.
#[derive(Debug)]
pub struct Watcher {
    events: OwnedFd,
    wake: OwnedFd,
}

/// Directories that the kernel watches for the user of this process, in all; a usual number where
/// `/proc/sys` is hidden.
pub fn directories_max() -> usize {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let read = || {
        let file = rustix::fs::open("/proc/sys/fs/inotify/max_user_watches", flags, Mode::empty()).ok()?;
        let mut text = [0; 32];
        let count = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut text)).ok()?;
        std::str::from_utf8(text.get(..count)?).ok()?.trim().parse().ok()
    };
    read().unwrap_or(DIRECTORIES_USUAL)
}

/// What a kernel that was not told otherwise grants on a machine of 8 GiB; it counts with its memory.
const DIRECTORIES_USUAL: usize = 65_536;

/// Changes of a directory that is watched for its names.
const DIRECTORY: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(MOVED);

/// Changes of one above it: whether it still is there.
const MOVED: WatchFlags =
    WatchFlags::MOVE_SELF.union(WatchFlags::DELETE_SELF).union(WatchFlags::ONLYDIR).union(WatchFlags::MASK_ADD);

/// Bytes that one call of the kernel returns: some hundred changes.
const EVENT_BYTES: usize = 16 * 1024;

/// Changes that are read in a row: as many as the kernel keeps where nobody changed that.
const EVENTS_MAX: usize = 16_384;

impl Watcher {
    /// Watches nothing yet.
    pub fn new() -> Result<Self> {
        // The machine's limits, which nobody waits for.
        let cannot = |errno: Errno| {
            let text = format!("cannot watch for changes: {}", std::io::Error::from(errno));
            Error::new(ErrorKind::LimitExceeded, text).with_errno(errno.raw_os_error().try_into().unwrap_or(0))
        };
        let events = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(cannot)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(cannot)?;
        Ok(Self { events, wake })
    }

    pub(super) fn events(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// The flags for a directory whose names are watched, or for one above it.
    pub(super) const fn flags(names: bool) -> WatchFlags {
        if names { DIRECTORY } else { MOVED }
    }

    pub(super) const fn mark(number: i32) -> Mark {
        Mark(number)
    }

    /// Nobody is interested in this directory any more.
    pub fn release(&self, mark: Mark) {
        // Fails only if the directory is gone, and the mark with it.
        let _ = remove_watch(&self.events, mark.0);
    }

    /// Ends a wait, now or the next one.
    pub fn wake(&self) {
        // Fails only where it was woken 2^64 times.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Waits until something happens, somebody wakes it, or `patience` is over (none: for ever); without
    /// `events` changes do not end the wait.
    pub fn wait(&self, patience: Option<Duration>, events: bool) {
        let patience = patience.map(|time| Timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        let mut ends = [PollFd::new(&self.wake, PollFlags::IN), PollFd::new(&self.events, PollFlags::IN)];
        let awaited = if events { &mut ends[..] } else { &mut ends[..1] };
        // A signal only ends the wait.
        let _ = rustix::event::poll(awaited, patience.as_ref());
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.wake, &mut count);
    }

    /// Takes what happened, without waiting: `each` gets the directory, the name in it (empty for the
    /// directory itself), and what happened.
    pub fn read(&self, mut each: impl FnMut(Mark, &[u8], Happened)) {
        let mut buffer = [MaybeUninit::uninit(); EVENT_BYTES];
        let mut reader = Reader::new(&self.events, &mut buffer);
        for _ in 0..EVENTS_MAX {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(_) => return,
            };
            let (mark, flags) = (Mark(event.wd()), event.events());
            let name = event.file_name().map_or(&b""[..], |name| name.to_bytes());
            for (_, happened) in KINDS.iter().filter(|(flag, _)| flags.intersects(*flag)) {
                each(mark, name, *happened);
            }
        }
    }
}

/// What the kernel's words mean here.
const KINDS: [(ReadFlags, Happened); 5] = [
    (ReadFlags::MODIFY, Happened::Content),
    (ReadFlags::ATTRIB, Happened::Attributes),
    (
        ReadFlags::CREATE.union(ReadFlags::DELETE).union(ReadFlags::MOVED_FROM).union(ReadFlags::MOVED_TO),
        Happened::Name,
    ),
    (
        ReadFlags::MOVE_SELF.union(ReadFlags::DELETE_SELF).union(ReadFlags::UNMOUNT).union(ReadFlags::IGNORED),
        Happened::Gone,
    ),
    (ReadFlags::QUEUE_OVERFLOW, Happened::Lost),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "sets the scene with a directory of its own")]

    use super::*;
    use crate::store::{LocalStore, Store};
    use xdfs_proto::base::RelPath;

    fn path(path: &str) -> RelPath {
        RelPath::parse(path.as_bytes()).unwrap()
    }

    fn told(watcher: &Watcher) -> Vec<(Mark, Vec<u8>, Happened)> {
        let mut all = Vec::new();
        watcher.read(|mark, name, happened| all.push((mark, name.to_vec(), happened)));
        all
    }

    #[test]
    fn a_directory_tells_of_its_names_and_those_above_it_only_of_their_end() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(scratch.path().join("a/b")).unwrap();
        let store = LocalStore::open_root(scratch.path(), false).unwrap();
        let (watcher, mut marks) = (Watcher::new().unwrap(), Vec::new());
        store.watch(&path("a/b"), &watcher, &mut marks).unwrap();
        let [above, here] = marks[..] else { panic!("{marks:?}") };
        std::fs::write(scratch.path().join("a/beside"), b"x").unwrap();
        assert_eq!(told(&watcher), vec![], "a directory above it tells nothing of its names");
        std::fs::write(scratch.path().join("a/b/f"), b"x").unwrap();
        let name = || b"f".to_vec();
        assert_eq!(told(&watcher), vec![(here, name(), Happened::Name), (here, name(), Happened::Content)]);
        std::fs::rename(scratch.path().join("a/b/f"), scratch.path().join("a/g")).unwrap();
        assert_eq!(told(&watcher), vec![(here, name(), Happened::Name)]);
        std::fs::rename(scratch.path().join("a"), scratch.path().join("elsewhere")).unwrap();
        assert_eq!(told(&watcher), vec![(above, vec![], Happened::Gone)]);
        watcher.release(here);
        std::fs::write(scratch.path().join("elsewhere/b/f"), b"x").unwrap();
        assert_eq!(told(&watcher), vec![(here, vec![], Happened::Gone)], "released, and nothing more");
    }

    #[test]
    fn only_directories_are_watched_and_none_that_is_reserved_or_behind_a_link() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(scratch.path().join(".xdfs-staging")).unwrap();
        std::fs::write(scratch.path().join("f"), b"").unwrap();
        std::os::unix::fs::symlink("/", scratch.path().join("link")).unwrap();
        let store = LocalStore::open_root(scratch.path(), false).unwrap();
        let watcher = Watcher::new().unwrap();
        for name in ["f", "link", "missing", ".xdfs-staging"] {
            assert!(store.watch(&path(name), &watcher, &mut Vec::new()).is_err(), "{name}");
        }
    }

    #[test]
    fn waiting_ends_when_it_is_woken_or_something_happens() {
        let scratch = tempfile::tempdir().unwrap();
        let store = LocalStore::open_root(scratch.path(), false).unwrap();
        let watcher = Watcher::new().unwrap();
        watcher.wake();
        watcher.wait(None, true);
        store.watch(&RelPath::default(), &watcher, &mut Vec::new()).unwrap();
        std::fs::write(scratch.path().join("f"), b"").unwrap();
        watcher.wait(None, true);
        assert_eq!(told(&watcher).len(), 1);
    }
}
