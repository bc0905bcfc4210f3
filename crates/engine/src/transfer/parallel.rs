//! A job of the pool that hashes ranges of a file in parallel to the pipeline that moves it: what
//! the kernel sends without exposing it, and what an earlier attempt left.
//!
//! It reads the page cache, at most a little ahead of what was sent, so that a file is read from
//! its disk once. While it is that far ahead it occupies no thread.

use super::hashing::{Hashing, Pieces, buffer, leaf};
use crate::blocking::{Blocking, Slice};
use crate::schedule::QuotaClass;
use std::iter::{FlatMap, Peekable};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::vec::IntoIter;
use xdfs_io::buf::Buffer;
use xdfs_io::store::{ReadBack, Source};
use xdfs_proto::base::{Error, ErrorKind, Extent};

/// Bytes that are hashed ahead of sending: they are in the cache when they are sent.
const AHEAD_BYTES: u64 = 32 << 20;
/// Bytes that must be sent before the job gets a thread again.
const RESUME_BYTES: u64 = AHEAD_BYTES / 2;
/// Used instead of a position: the job waits for none.
const NOT_PARKED: u64 = u64::MAX;

/// Where the bytes are read.
#[derive(Debug)]
pub enum From {
    /// The source of the transfer; byte 0 of the transfer is byte `offset` of it.
    Source {
        /// The source.
        source: Arc<Source>,
        /// The offset of the transfer in it.
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

/// What is to be hashed.
#[derive(Debug)]
pub struct Ranges {
    /// Where it is read.
    pub from: From,
    /// The ranges, ascending.
    pub ranges: Vec<Extent>,
    /// Where the hashes are added.
    pub into: Arc<Hashing>,
    /// Whether the job waits for [`ParallelHash::sent`].
    pub paced: bool,
}

/// Called once with the result.
type DoneFn = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// The pieces of all ranges, in order.
type AllPieces = Peekable<FlatMap<IntoIter<Extent>, Pieces, fn(Extent) -> Pieces>>;

/// The state that one slice passes to the next.
struct SliceState {
    from: From,
    pieces: AllPieces,
    into: Arc<Hashing>,
    tell: Option<DoneFn>,
}

struct HashJob {
    blocking: Blocking,
    share: QuotaClass,
    work: Mutex<SliceState>,
    /// Hash up to here, which is only a little ahead of what was sent.
    upto: AtomicU64,
    /// The job has no thread until `upto` reaches this position.
    parked: AtomicU64,
    stop: AtomicBool,
}

/// A job that hashes ranges of a file in parallel to its transfer. Dropping it stops the job at its
/// next piece.
pub struct ParallelHash(Arc<HashJob>);

impl std::fmt::Debug for ParallelHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Beside")
    }
}

impl ParallelHash {
    /// Starts a job that hashes `what`; when it ends or fails, `tell` is called. None if the pool
    /// accepts no more jobs of this user.
    pub fn start(blocking: &Blocking, share: QuotaClass, what: Ranges, tell: DoneFn) -> Option<Self> {
        let first = what.ranges.first().map_or(0, |range| range.offset());
        let upto = if what.paced { first.saturating_add(AHEAD_BYTES) } else { u64::MAX };
        let pieces = what.ranges.into_iter().flat_map(Pieces::of as fn(Extent) -> Pieces).peekable();
        let work = SliceState { from: what.from, pieces, into: what.into, tell: Some(tell) };
        let job = Arc::new(HashJob {
            blocking: blocking.clone(),
            share,
            work: Mutex::new(work),
            upto: AtomicU64::new(upto),
            parked: AtomicU64::new(NOT_PARKED),
            stop: AtomicBool::new(false),
        });
        blocking.submit_sliced(&job.share, job.task()).then_some(Self(job))
    }

    /// A block that ends here was passed to the transport.
    pub fn sent(&self, end: u64) {
        let upto = end.saturating_add(AHEAD_BYTES);
        let before = self.0.upto.fetch_max(upto, Ordering::SeqCst);
        if before.max(upto) >= self.0.parked.load(Ordering::SeqCst) {
            self.0.resume();
        }
    }
}

impl Drop for ParallelHash {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
        self.0.resume();
    }
}

impl HashJob {
    fn task(self: &Arc<Self>) -> crate::blocking::PoolTask {
        let job = Arc::clone(self);
        Box::new(move |slice| job.run(slice))
    }

    /// Gives the job a thread again if it waits.
    fn resume(self: &Arc<Self>) {
        if self.parked.swap(NOT_PARKED, Ordering::SeqCst) != NOT_PARKED {
            self.blocking.resume_sliced(&self.share, self.task());
        }
    }

    /// Ready when it is complete, and also when it waits: then another task resumes it.
    fn run(&self, slice: &Slice) -> Poll<()> {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let result = match catch_unwind(AssertUnwindSafe(|| self.hash(&mut work, slice))) {
            Ok(Ok(HashStep::GiveWay)) => return Poll::Pending,
            Ok(Ok(HashStep::Wait)) => return Poll::Ready(()),
            Ok(Ok(HashStep::Done)) => Ok(()),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(Error::new(ErrorKind::Storage, "hashing failed unexpectedly")),
        };
        if let Some(tell) = work.tell.take() {
            tell(result);
        }
        Poll::Ready(())
    }

    fn hash(&self, work: &mut SliceState, slice: &Slice) -> Result<HashStep, Error> {
        let mut buffer = buffer()?;
        while let Some(piece) = work.pieces.peek().copied() {
            if self.stop.load(Ordering::SeqCst) {
                break;
            }
            if self.upto.load(Ordering::SeqCst) < piece.end() && self.park(piece.end()) {
                return Ok(HashStep::Wait);
            }
            if slice.is_over() {
                return Ok(HashStep::GiveWay);
            }
            work.pieces.next();
            work.from.read(&mut buffer, piece)?;
            work.into.add_read(leaf(&buffer.payload()[..piece.length() as usize], piece.offset())?);
        }
        Ok(HashStep::Done)
    }

    /// Releases the thread until half of what is hashed ahead was sent. Returns false if that is
    /// the case already.
    fn park(&self, end: u64) -> bool {
        let at = end.saturating_add(RESUME_BYTES).min(NOT_PARKED - 1);
        self.parked.store(at, Ordering::SeqCst);
        let goes_on = self.upto.load(Ordering::SeqCst) >= at || self.stop.load(Ordering::SeqCst);
        // The side that takes the mark back owns the job.
        !(goes_on && self.parked.swap(NOT_PARKED, Ordering::SeqCst) != NOT_PARKED)
    }
}

enum HashStep {
    /// There is more to do, and the slice is over.
    GiveWay,
    /// The next piece is not sent yet.
    Wait,
    Done,
}
