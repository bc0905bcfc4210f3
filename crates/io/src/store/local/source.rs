//! A regular file as a source.

use crate::store::errors::{self, Verb};
use crate::store::io_loops::read_full;
use crate::store::{Attributes, Result, SourceCapability, SourceFile, Version};
use rustix::fs::{FileType, Stat};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use xdfs_proto::base::{Error, ErrorKind, Timestamp};

/// An open file and its attributes when it was opened.
#[derive(Debug)]
pub struct LocalSource {
    file: OwnedFd,
    /// Its name in messages.
    shown: String,
    /// The result of `fstat` right after the open.
    opened: Attributes,
    /// See [`super::preallocate::at_hand`].
    at_hand: bool,
}

impl LocalSource {
    pub(in crate::store) fn new(file: OwnedFd, shown: String, stat: &Stat) -> Self {
        let at_hand = super::preallocate::at_hand(&file);
        Self { file, shown, opened: attributes_of(stat), at_hand }
    }
}

impl SourceFile for LocalSource {
    fn capability(&self) -> SourceCapability {
        SourceCapability { local: self.at_hand, ..SourceCapability::default() }
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        read_full(buf, offset, |part, at| rustix::io::pread(&self.file, part, at))
            .map_err(|errno| errors::failed(Verb::Read, &self.shown, errno))
    }

    fn attributes(&self) -> &Attributes {
        &self.opened
    }

    fn identity(&self) -> Option<&[u8]> {
        Some(&self.opened.version.0)
    }

    /// Size and modification time.
    fn weak_part<'v>(&self, version: &'v [u8]) -> Option<&'v [u8]> {
        likeness(version)
    }

    fn as_local(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    /// Size, times and identity have not changed since the open.
    fn revalidate(&self) -> Result<()> {
        let stat = rustix::fs::fstat(&self.file).map_err(|errno| errors::failed(Verb::Read, &self.shown, errno))?;
        let now = attributes_of(&stat);
        if now == self.opened {
            return Ok(());
        }
        let what = match (self.opened.size, now.size) {
            (Some(before), Some(after)) if before != after => {
                format!("its size went from {before} to {after} bytes")
            }
            _ if stat.st_nlink == 0 => "it was removed".to_owned(),
            _ if self.opened.modified != now.modified => "it was written".to_owned(),
            _ => "its attributes were changed".to_owned(),
        };
        let message = format!("source '{}' changed while it was read: {what}", self.shown);
        Err(Error::new(ErrorKind::SourceChanged, message))
    }

    fn shown(&self) -> &str {
        &self.shown
    }
}

/// The [`Attributes`] of a `stat`.
pub(in crate::store) fn attributes_of(stat: &Stat) -> Attributes {
    let kind = errors::file_kind(FileType::from_raw_mode(stat.st_mode));
    Attributes {
        kind,
        // The kernel has no negative sizes; the size of anything but a regular file is not
        // meaningful here.
        size: if kind == crate::store::FileKind::Regular { u64::try_from(stat.st_size).ok() } else { None },
        mode: stat.st_mode & 0o7777,
        modified: Timestamp::new(stat.st_mtime, nanoseconds(stat.st_mtime_nsec)),
        version: version_of(stat),
    }
}

/// Device, inode, size, mtime and ctime, 48 bytes: what the file system provides to distinguish two
/// states. The ctime has full resolution for `write` since Linux 6.13; a store through a mapping
/// may not change it, which only a hash detects.
pub(super) fn version_of(stat: &Stat) -> Version {
    let mut bytes = Vec::with_capacity(VERSION_BYTES);
    bytes.extend_from_slice(&stat.st_dev.to_be_bytes());
    bytes.extend_from_slice(&stat.st_ino.to_be_bytes());
    bytes.extend_from_slice(&stat.st_size.to_be_bytes());
    bytes.extend_from_slice(&stat.st_mtime.to_be_bytes());
    bytes.extend_from_slice(&nanoseconds(stat.st_mtime_nsec).to_be_bytes());
    bytes.extend_from_slice(&stat.st_ctime.to_be_bytes());
    bytes.extend_from_slice(&nanoseconds(stat.st_ctime_nsec).to_be_bytes());
    Version(bytes)
}

/// The part of a version that a copy with preserved time shares with its original: size and mtime.
fn likeness(version: &[u8]) -> Option<&[u8]> {
    // After device and inode, before the ctime: see `version_of`.
    if version.len() == VERSION_BYTES { version.get(16..36) } else { None }
}

/// Size of the versions that [`version_of`] returns.
const VERSION_BYTES: usize = 48;

/// The kernel keeps nanoseconds below 10^9, whatever the type of the field.
pub(super) fn nanoseconds(field: impl TryInto<u32>) -> u32 {
    field.try_into().unwrap_or(0)
}
