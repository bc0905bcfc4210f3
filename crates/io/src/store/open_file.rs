//! Files that are read and written in place, where transfers stage a new file: what remote files
//! need from a store.
//!
//! An [`OpenFile`] can be used from several threads. Reads and writes at an offset run beside each
//! other; what needs the descriptor's own position (append, seek) takes turns.

use super::Result;
use super::errors::{self, Verb};
use super::io_loops::{Stuck, read_full, write_full};
use super::stat::node_of;
use super::tree::Node;
use crate::sys::{self, LockRange};
use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, SeekFrom, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use xdfs_proto::base::{ErrorKind, Extent};

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenRequest {
    /// To read.
    pub read: bool,
    /// To write.
    pub write: bool,
    /// A missing file is created.
    pub create: bool,
    /// The file must be missing.
    pub exclusive: bool,
    /// Permission bits of a new file, less the process's umask.
    pub mode: u32,
}

/// The next data, or the next hole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seek {
    /// Data.
    Data,
    /// A hole; the end of the file is one.
    Hole,
}

/// A regular file that is open.
#[derive(Debug)]
pub struct OpenFile {
    file: OwnedFd,
    /// Its name in messages.
    shown: String,
    /// Held while the descriptor's own position is used.
    position: Mutex<()>,
}

impl OpenFile {
    pub(super) fn new(file: OwnedFd, shown: String) -> Self {
        Self { file, shown, position: Mutex::new(()) }
    }

    fn failed(&self, verb: Verb, errno: Errno) -> xdfs_proto::base::Error {
        errors::failed(verb, &self.shown, errno)
    }

    /// Which file it is, as long as it exists: device, inode and time of birth (zero where the file
    /// system does not tell it).
    pub fn identity(&self) -> Result<[u8; 24]> {
        identity_of(&self.file).map_err(|errno| self.failed(Verb::Look, errno))
    }

    /// Its present attributes.
    pub fn node(&self) -> Result<Node> {
        let stat = rustix::fs::fstat(&self.file).map_err(|errno| self.failed(Verb::Look, errno))?;
        Ok(node_of(&stat))
    }

    /// Fills `buf` from `offset`; fewer bytes are read only at the end of the file.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.must_end_below_limit(Verb::Read, offset, buf.len())?;
        read_full(buf, offset, |part, at| rustix::io::pread(&self.file, part, at))
            .map_err(|errno| self.failed(Verb::Read, errno))
    }

    /// Writes all of `buf` at `offset`.
    pub fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.must_end_below_limit(Verb::Write, offset, buf.len())?;
        write_full(buf, offset, |part, at| rustix::io::pwrite(&self.file, part, at))
            .map_err(|stuck| self.failed(Verb::Write, errno_of(stuck)))
    }

    /// Writes all of `buf` in one place at the end, and returns where it begins.
    pub fn append(&self, buf: &[u8]) -> Result<u64> {
        let _turn = self.position.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |errno| self.failed(Verb::Write, errno);
        // The kernel decides where the end is, and moves the descriptor's position behind the data.
        let written = loop {
            match rustix::io::pwritev2(&self.file, &[IoSlice::new(buf)], u64::MAX, ReadWriteFlags::APPEND) {
                Err(Errno::INTR) => {}
                other => break other.map_err(failed)?,
            }
        };
        let end = rustix::fs::seek(&self.file, SeekFrom::Current(0)).map_err(failed)?;
        if written < buf.len() {
            return Err(failed(Errno::NOSPC));
        }
        Ok(end - written as u64)
    }

    /// Cuts or extends it.
    pub fn set_length(&self, length: u64) -> Result<()> {
        self.must_end_below_limit(Verb::Change, length, 0)?;
        rustix::io::retry_on_intr(|| rustix::fs::ftruncate(&self.file, length))
            .map_err(|errno| self.failed(Verb::Change, errno))
    }

    /// Waits until everything written to it is on stable storage.
    pub fn sync(&self, data_only: bool) -> Result<()> {
        let sync = || if data_only { rustix::fs::fdatasync(&self.file) } else { rustix::fs::fsync(&self.file) };
        rustix::io::retry_on_intr(sync).map_err(|errno| self.failed(Verb::Sync, errno))
    }

    /// Reserves space.
    pub fn allocate(&self, offset: u64, length: u64, keep_size: bool) -> Result<()> {
        self.fallocate(if keep_size { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() }, offset, length)
    }

    /// Makes a hole; the length stays.
    pub fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.fallocate(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length)
    }

    fn fallocate(&self, flags: FallocateFlags, offset: u64, length: u64) -> Result<()> {
        let end = usize::try_from(length).map_err(|_| self.failed(Verb::Change, Errno::FBIG))?;
        self.must_end_below_limit(Verb::Change, offset, end)?;
        rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.file, flags, offset, length))
            .map_err(|errno| self.failed(Verb::Change, errno))
    }

    /// The next data or hole at or behind `offset`; none if there is none up to the end.
    pub fn seek(&self, offset: u64, what: Seek) -> Result<Option<u64>> {
        self.must_end_below_limit(Verb::Read, offset, 0)?;
        let _turn = self.position.lock().unwrap_or_else(PoisonError::into_inner);
        let from = match what {
            Seek::Data => SeekFrom::Data(offset),
            Seek::Hole => SeekFrom::Hole(offset),
        };
        match rustix::fs::seek(&self.file, from) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NXIO) => Ok(None),
            Err(errno) => Err(self.failed(Verb::Read, errno)),
        }
    }

    /// Locks the whole file for this descriptor; false if others exclude that now. A lock that it has
    /// is replaced, and lost if that fails.
    pub fn lock(&self, exclusive: bool) -> Result<bool> {
        let operation = match exclusive {
            true => FlockOperation::NonBlockingLockExclusive,
            false => FlockOperation::NonBlockingLockShared,
        };
        match rustix::io::retry_on_intr(|| rustix::fs::flock(&self.file, operation)) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(errno) => Err(self.failed(Verb::Change, errno)),
        }
    }

    /// Ends that lock.
    pub fn unlock(&self) -> Result<()> {
        let unlock = || rustix::fs::flock(&self.file, FlockOperation::NonBlockingUnlock);
        rustix::io::retry_on_intr(unlock).map_err(|errno| self.failed(Verb::Change, errno))
    }

    /// Locks a range for this open file description, as fcntl(2) with F_OFD_SETLK; false if others
    /// exclude that now, and then nothing changes. A lock that it has there is replaced. The
    /// descriptor must be open to read for a shared lock, and to write for an exclusive one.
    pub fn lock_range(&self, range: Extent, exclusive: bool) -> Result<bool> {
        let kind = if exclusive { libc::F_WRLCK } else { libc::F_RDLCK };
        match sys::set_lock(&self.file, &kernel_range(range, kind)) {
            Ok(()) => Ok(true),
            Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
            Err(Errno::NOLCK) => {
                Err(errors::refused(ErrorKind::LimitExceeded, Verb::Change, &self.shown, "there are too many locks"))
            }
            Err(errno) => Err(self.failed(Verb::Change, errno)),
        }
    }

    /// Ends the locks that this description has in a range.
    pub fn unlock_range(&self, range: Extent) -> Result<()> {
        sys::set_lock(&self.file, &kernel_range(range, libc::F_UNLCK)).map_err(|errno| self.failed(Verb::Change, errno))
    }

    /// A lock that keeps this description from locking a range, and whether it is exclusive.
    pub fn find_lock(&self, range: Extent, exclusive: bool) -> Result<Option<(Extent, bool)>> {
        let kind = if exclusive { libc::F_WRLCK } else { libc::F_RDLCK };
        let found =
            sys::find_lock(&self.file, &kernel_range(range, kind)).map_err(|errno| self.failed(Verb::Look, errno))?;
        if found.kind == libc::F_UNLCK {
            return Ok(None);
        }
        let offset = u64::try_from(found.offset).unwrap_or(0);
        let length = match u64::try_from(found.length) {
            Ok(0) | Err(_) => LAST - offset,
            Ok(length) => length.min(LAST - offset),
        };
        Ok(Extent::new(offset, length).ok().map(|range| (range, found.kind == libc::F_WRLCK)))
    }

    /// A file ends below 2^63, whatever a peer says.
    fn must_end_below_limit(&self, verb: Verb, offset: u64, length: usize) -> Result<()> {
        match offset.checked_add(length as u64) {
            Some(end) if i64::try_from(end).is_ok() => Ok(()),
            _ => Err(errors::refused(ErrorKind::TooLarge, verb, &self.shown, "the range ends behind 2^63 - 1")),
        }
    }
}

/// The end of the largest file.
const LAST: u64 = i64::MAX as u64;

/// A range that ends with the largest file has no end for the kernel.
fn kernel_range(range: Extent, kind: i32) -> LockRange {
    let length = if range.end() == LAST { 0 } else { range.length() };
    // An extent ends below 2^63: both fit.
    LockRange { kind, offset: range.offset() as i64, length: length as i64 }
}

pub(super) fn identity_of(file: &OwnedFd) -> std::result::Result<[u8; 24], Errno> {
    let wanted = StatxFlags::INO | StatxFlags::BTIME;
    let stat = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, wanted)?;
    let device = rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
    let born = match stat.stx_mask & StatxFlags::BTIME.bits() {
        0 => 0,
        _ => stat.stx_btime.tv_sec.wrapping_mul(1_000_000_000).wrapping_add(stat.stx_btime.tv_nsec.into()),
    };
    let mut identity = [0; 24];
    identity[..8].copy_from_slice(&device.to_be_bytes());
    identity[8..16].copy_from_slice(&stat.stx_ino.to_be_bytes());
    identity[16..].copy_from_slice(&born.to_be_bytes());
    Ok(identity)
}

fn errno_of(stuck: Stuck) -> Errno {
    match stuck {
        Stuck::Errno(errno) => errno,
        Stuck::NoProgress => Errno::IO,
    }
}
