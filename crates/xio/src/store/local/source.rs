//! A regular file that is read.

use crate::store::errors::{self, Verb};
use crate::store::io_loops::read_full;
use crate::store::{Attributes, Result, Version};
use rustix::fs::{FileType, Stat};
use std::os::fd::OwnedFd;
use xdfs_proto::base::{Error, ErrorKind};

/// An open file and what it was when it was opened.
#[derive(Debug)]
pub struct LocalSource {
    file: OwnedFd,
    /// Its name in messages.
    shown: String,
    /// As `fstat` told right after the open.
    opened: Attributes,
    /// See [`super::preallocate::at_hand`].
    at_hand: bool,
}

impl LocalSource {
    pub(in crate::store) fn new(file: OwnedFd, shown: String, stat: &Stat) -> Self {
        let at_hand = super::preallocate::at_hand(&file);
        Self { file, shown, opened: attributes_of(stat), at_hand }
    }

    pub(in crate::store) fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        read_full(buf, offset, |part, at| rustix::io::pread(&self.file, part, at))
            .map_err(|errno| errors::failed(Verb::Read, &self.shown, errno))
    }

    pub(in crate::store) fn attributes(&self) -> &Attributes {
        &self.opened
    }

    pub(in crate::store) fn descriptor(&self) -> Option<OwnedFd> {
        self.file.try_clone().ok()
    }

    /// D18: size, times and identity are what they were at the open.
    pub(in crate::store) fn revalidate(&self) -> Result<()> {
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

    pub(in crate::store) fn at_hand(&self) -> bool {
        self.at_hand
    }

    pub(in crate::store) fn shown(&self) -> &str {
        &self.shown
    }
}

/// What the room says about a `stat`.
pub(in crate::store) fn attributes_of(stat: &Stat) -> Attributes {
    let kind = errors::file_kind(FileType::from_raw_mode(stat.st_mode));
    Attributes {
        kind,
        // The kernel has no negative sizes; what is no regular file has no size that means anything here.
        size: if kind == crate::store::FileKind::Regular { u64::try_from(stat.st_size).ok() } else { None },
        mode: stat.st_mode & 0o7777,
        modified: (stat.st_mtime, nanoseconds(stat.st_mtime_nsec)),
        version: version_of(stat),
    }
}

/// Device, inode, size, mtime and ctime, 48 bytes: what the file system offers to tell two states apart. The ctime has
/// full resolution for `write` since Linux 6.13; a store through a mapping may escape it, which only a hash catches.
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

/// Of a version, what a copy that keeps the time has in common with its original: size and mtime.
pub(in crate::store) fn likeness(version: &[u8]) -> Option<&[u8]> {
    // Behind device and inode, before the ctime: see `version_of`.
    if version.len() == VERSION_BYTES { version.get(16..36) } else { None }
}

/// Bytes that [`version_of`] makes.
const VERSION_BYTES: usize = 48;

/// The kernel keeps nanoseconds below 10^9, whatever the type of the field.
pub(super) fn nanoseconds(field: impl TryInto<u32>) -> u32 {
    field.try_into().unwrap_or(0)
}
