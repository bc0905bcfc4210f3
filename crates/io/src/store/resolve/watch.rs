//! Watches of directories: by the kernel's path to the directory that was opened, so that no name is
//! resolved twice.

use super::{Blocked, Root};
use rustix::fs::OFlags;
use rustix::fs::inotify::{WatchFlags, add_watch};
use std::os::fd::{AsFd, AsRawFd};
use xdfs_proto::base::RelPath;

impl Root {
    /// Has `events` tell of the directory at `path`; returns the kernel's number of it.
    pub(in crate::store) fn watch_directory(
        &self,
        path: &RelPath,
        events: impl AsFd,
        flags: WatchFlags,
    ) -> Result<i32, Blocked> {
        let held = self.beneath(path, OFlags::PATH | OFlags::DIRECTORY | self.last())?;
        let link = format!("/proc/self/fd/{}", held.as_raw_fd());
        add_watch(events, link, flags).map_err(|errno| Blocked::at(path, errno))
    }
}
