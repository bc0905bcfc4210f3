//! Reads a part file back from its device, as far as this machine can force that.
//!
//! The written data is synced first, then the kernel is told to drop the pages, and they are read
//! bypassing the page cache (O_DIRECT) where the file system supports that. A drive may still
//! answer from a cache of its own, and a file system in memory has nothing but memory:
//! `docs/durability.md` states what that proves.

use super::Result;
use super::errors::{self, Verb};
use super::io_loops::read_full;
use crate::buf::Buffer;
use rustix::fs::{Advice, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Has its own descriptor, so that its flags do not affect other users of the file.
#[derive(Debug)]
pub struct ReadBack {
    file: OwnedFd,
    shown: String,
    /// Reads bypass the page cache, and must be aligned.
    direct: AtomicBool,
}

impl ReadBack {
    /// Reads through `file`. With `fresh` its bytes are synced and then not read from the page
    /// cache; O_DIRECT is used if the descriptor is not shared (`alone`) and the file system
    /// supports it.
    pub(super) fn new(file: OwnedFd, shown: String, fresh: bool, alone: bool) -> Self {
        if fresh {
            // The pages are clean: they are dropped, unless they are mapped.
            let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
        }
        let direct = fresh && alone && rustix::fs::fcntl_setfl(&file, OFlags::DIRECT).is_ok();
        Self { file, shown, direct: AtomicBool::new(direct) }
    }

    /// Fills the first `length` bytes of the buffer from `offset`, a multiple of a page; zeros
    /// after the end of the file.
    pub fn read(&self, buffer: &mut Buffer, length: usize, offset: u64) -> Result<()> {
        let count = match self.read_some(buffer.payload_mut(), offset) {
            Err(Errno::INVAL) if self.direct.swap(false, Ordering::Relaxed) => {
                // The file system reports this only now, or at a tail that is not a multiple of its
                // blocks.
                let plain = rustix::fs::fcntl_setfl(&self.file, OFlags::empty());
                plain.and_then(|()| self.read_some(buffer.payload_mut(), offset))
            }
            other => other,
        };
        let count = count.map_err(|errno| errors::failed(Verb::Read, &self.shown, errno))?;
        if let Some(missing) = buffer.payload_mut().get_mut(count.min(length)..length) {
            missing.fill(0);
        }
        Ok(())
    }

    fn read_some(&self, buffer: &mut [u8], offset: u64) -> std::result::Result<usize, Errno> {
        if self.direct.load(Ordering::Relaxed) {
            // In one call: a short read means the end of the file, at an unaligned offset where no
            // direct read could continue.
            return rustix::io::retry_on_intr(|| rustix::io::pread(&self.file, &mut *buffer, offset));
        }
        read_full(buffer, offset, |part, at| rustix::io::pread(&self.file, part, at))
    }
}
