//! A thread that hashes ranges of a file beside the pipeline that moves it: what the kernel sends without showing it to us, and
//! what is there from an earlier attempt.
//!
//! It reads the page cache, at most a little ahead of what was sent, so that a file is read from its disk once.

use super::hashing::{Hashing, buffer, leaf, pieces};
use crate::mail::{Mail, Post};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use xdfs_proto::base::{Error, Extent, OperationId};
use xdfs_xio::buf::Buffer;
use xdfs_xio::dispatch::Wake;
use xdfs_xio::store::{ReadBack, Source};

/// Bytes that are hashed ahead of what was sent: they are in the cache when their turn to be sent comes.
const AHEAD_BYTES: u64 = 32 << 20;

/// Where the bytes are read.
#[derive(Debug)]
pub enum From {
    /// What is sent; byte 0 of the transfer is byte `offset` of it.
    Source {
        /// The source.
        source: Arc<Source>,
        /// Where the transfer begins in it.
        offset: u64,
    },
    /// What was written by an earlier attempt.
    Stage(ReadBack),
}

impl From {
    fn read(&self, buffer: &mut Buffer, extent: Extent) -> Result<(), Error> {
        // Pieces are no longer than the buffer.
        let length = extent.length() as usize;
        match self {
            Self::Source { source, offset } => {
                source.read_exact_at(&mut buffer.payload_mut()[..length], offset + extent.offset())
            }
            Self::Stage(back) => back.read(buffer, length, extent.offset()),
        }
    }
}

#[derive(Debug)]
struct Signals {
    /// Hash up to here; no further than a little ahead of what was sent.
    upto: AtomicU64,
    stop: AtomicBool,
}

/// See the module. Dropping it stops the thread at its next piece.
#[derive(Debug)]
pub struct Beside {
    signals: Arc<Signals>,
    thread: thread::Thread,
}

impl Beside {
    /// Hashes `ranges`, ascending, into `hashing`; then `Mail::Hashed` comes. With `paced` it waits for [`Self::sent`].
    pub fn start<L: Send + 'static, W: Wake>(
        operation: OperationId,
        from: From,
        ranges: Vec<Extent>,
        hashing: Arc<Hashing>,
        paced: bool,
        post: Post<L, W>,
    ) -> std::io::Result<Self> {
        let first = ranges.first().map_or(0, |range| range.offset());
        let upto = if paced { first.saturating_add(AHEAD_BYTES) } else { u64::MAX };
        let signals = Arc::new(Signals { upto: AtomicU64::new(upto), stop: AtomicBool::new(false) });
        let seen = Arc::clone(&signals);
        // Not joined: it may be within a read of a slow disk.
        let thread = thread::Builder::new().name("xdfs-hash".into()).spawn(move || {
            let result = work(&from, &ranges, &hashing, &seen);
            let _ = post.send(Mail::Hashed(operation, result));
        })?;
        Ok(Self { signals, thread: thread.thread().clone() })
    }

    /// A block that ends here was handed to the transport.
    pub fn sent(&self, end: u64) {
        let upto = end.saturating_add(AHEAD_BYTES);
        if self.signals.upto.fetch_max(upto, Ordering::Release) < upto {
            self.thread.unpark();
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.signals.stop.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

fn work(from: &From, ranges: &[Extent], hashing: &Hashing, signals: &Signals) -> Result<(), Error> {
    let mut buffer = buffer()?;
    for piece in ranges.iter().copied().flat_map(pieces) {
        while signals.upto.load(Ordering::Acquire) < piece.end() && !signals.stop.load(Ordering::Acquire) {
            thread::park();
        }
        if signals.stop.load(Ordering::Acquire) {
            return Ok(());
        }
        from.read(&mut buffer, piece)?;
        hashing.add(leaf(&buffer.payload()[..piece.length() as usize], piece.offset())?);
    }
    Ok(())
}
