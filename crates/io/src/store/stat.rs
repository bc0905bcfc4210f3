//! What the kernel tells of a file, as a store tells it: its attributes, and the version of its state.

use super::errors;
use super::tree::{Node, NodeKind};
use super::{Attributes, FileKind, Version};
use rustix::fs::{FileType, Stat};
use xdfs_proto::base::Timestamp;

/// Unit in which the kernel counts blocks, whatever the block size of the file system.
const COUNTED_BLOCK: u64 = 512;

/// The [`Attributes`] of a `stat`.
pub(super) fn attributes_of(stat: &Stat) -> Attributes {
    let kind = errors::file_kind(FileType::from_raw_mode(stat.st_mode));
    Attributes {
        kind,
        // The kernel has no negative sizes; the size of anything but a regular file is not
        // meaningful here.
        size: if kind == FileKind::Regular { u64::try_from(stat.st_size).ok() } else { None },
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
pub(super) fn likeness(version: &[u8]) -> Option<&[u8]> {
    // After device and inode, before the ctime: see `version_of`.
    if version.len() == VERSION_BYTES { version.get(16..36) } else { None }
}

/// Size of the versions that [`version_of`] returns.
const VERSION_BYTES: usize = 48;

/// The kernel keeps nanoseconds below 10^9, whatever the type of the field.
pub(super) fn nanoseconds(field: impl TryInto<u32>) -> u32 {
    field.try_into().unwrap_or(0)
}

/// The [`Node`] of a `stat`.
pub(super) fn node_of(stat: &Stat) -> Node {
    Node {
        kind: match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => NodeKind::Directory,
            FileType::Symlink => NodeKind::Symlink,
            FileType::Fifo => NodeKind::Fifo,
            FileType::CharacterDevice => NodeKind::CharacterDevice,
            FileType::BlockDevice => NodeKind::BlockDevice,
            FileType::RegularFile => NodeKind::Regular,
            // Linux has no other types; an unknown one could not be opened.
            FileType::Socket | FileType::Unknown => NodeKind::Socket,
        },
        mode: stat.st_mode & 0o7777,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        allocated: u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(COUNTED_BLOCK),
        links: stat.st_nlink,
        identity: (stat.st_dev, stat.st_ino),
        owner: (stat.st_uid, stat.st_gid),
        device: (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev)),
        accessed: Timestamp::new(stat.st_atime, nanoseconds(stat.st_atime_nsec)),
        modified: Timestamp::new(stat.st_mtime, nanoseconds(stat.st_mtime_nsec)),
        changed: Timestamp::new(stat.st_ctime, nanoseconds(stat.st_ctime_nsec)),
        version: version_of(stat),
    }
}
