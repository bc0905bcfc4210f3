//! Reading a part file back: what its device has, as far as this machine can be made to ask it.
//!
//! What was written is synced first, then the kernel is told to forget the pages, and they are read past the page cache
//! (O_DIRECT) where the file system offers that. A drive may still answer from a cache of its own, and on a file system in memory
//! there is nothing but memory: `docs/durability.md` says what that proves.

use crate::buf::Buffer;
use crate::store::Result;
use crate::store::errors::{self, Verb};
use crate::store::io_loops::read_full;
use rustix::fs::{Advice, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// A descriptor of its own, so that nobody else's calls change with it.
#[derive(Debug)]
pub struct ReadBack {
    file: OwnedFd,
    shown: String,
    /// Reads go past the page cache, and have to be aligned.
    direct: AtomicBool,
}

impl ReadBack {
    /// Reads through `file`. Where it is to be `fresh` its bytes are synced: then not from the page cache, and past it where
    /// nobody else has this descriptor (`alone`) and it works.
    pub(super) fn new(file: OwnedFd, shown: String, fresh: bool, alone: bool) -> Self {
        if fresh {
            // The pages are clean: they go, but for those that somebody maps.
            let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
        }
        let direct = fresh && alone && rustix::fs::fcntl_setfl(&file, OFlags::DIRECT).is_ok();
        Self { file, shown, direct: AtomicBool::new(direct) }
    }

    /// Fills the buffer's first `length` bytes from `offset` on, a multiple of a page; zeros where the file ends before.
    pub fn read(&self, buffer: &mut Buffer, length: usize, offset: u64) -> Result<()> {
        let count = match self.read_some(buffer.payload_mut(), offset) {
            Err(Errno::INVAL) if self.direct.swap(false, Ordering::Relaxed) => {
                // The file system says so only now, or at a tail that its blocks do not divide.
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
            // In one call: where it ends within the buffer there the file ends, at no boundary to go on from.
            return rustix::io::retry_on_intr(|| rustix::io::pread(&self.file, &mut *buffer, offset));
        }
        read_full(buffer, offset, |part, at| rustix::io::pread(&self.file, part, at))
    }
}
