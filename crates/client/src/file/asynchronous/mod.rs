//! Remote files whose calls are futures, of any runtime.
//!
//! A call begins when it is made, not when its [`Outcome`] is first polled, and is carried out by one of at most 16 threads of its
//! server. Dropping an outcome does not call its call back. Reads of a file that wait at the same time are carried out
//! together: a thousand of them take few round trips and one thread.
//!
//! Offsets are explicit: there is no position that tasks would share. What is not here ([`File`] has locks, leases, and
//! more) is a call of [`AsyncFile::call`].
//!
//! ```
//! # use std::sync::Arc;
//! use xdfs_client::file::{AsyncRemote, OpenOptions, Remote};
//!
//! async fn first_and_last(remote: Arc<Remote>) -> Result<(Vec<u8>, Vec<u8>), xdfs_client::Error> {
//!     let server = AsyncRemote::new(remote);
//!     let file = server.open("export/data", &OpenOptions::new().read(true)).await?;
//!     let length = file.length().await?;
//!     // Both are on their way before the first one is waited for.
//!     let (first, last) = (file.read_at(0, 4096), file.read_at(length.saturating_sub(4096), 4096));
//!     let both = (first.await?, last.await?);
//!     file.close().await?;
//!     Ok(both)
//! }
//! ```

mod workers;

use super::core::Core;
use super::{File, OpenOptions, Remote};
use crate::callback::Callback;
use crate::retry::is_lost;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
pub use workers::Outcome;
use workers::{WAITING_MAX, Workers, too_many};
use xdfs_proto::base::Error;

/// Reads that are carried out by one call of a thread.
const TOGETHER_MAX: usize = 1024;

/// A read waits for others for this part of the time that answers take, within bounds: for less no thread sleeps.
const HOLD_PART: u32 = 128;
const HOLD_MIN: Duration = Duration::from_micros(100);
const HOLD_MAX: Duration = Duration::from_millis(1);

/// A server whose files are used by tasks.
#[derive(Clone)]
pub struct AsyncRemote {
    remote: Arc<Remote>,
    workers: Arc<Workers>,
}

impl std::fmt::Debug for AsyncRemote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.remote.fmt(f)
    }
}

impl AsyncRemote {
    /// The files of this server.
    pub fn new(remote: Arc<Remote>) -> Self {
        Self { remote, workers: Arc::default() }
    }

    /// Opens `path` as [`File::open`] does.
    pub fn open(&self, path: impl Into<Vec<u8>>, options: &OpenOptions) -> Outcome<AsyncFile> {
        let (remote, path, options, workers) =
            (Arc::clone(&self.remote), path.into(), *options, Arc::clone(&self.workers));
        self.workers.begin(move || Ok(AsyncFile::new(File::open(&remote, path, &options)?, workers)))
    }
}

/// A read that waits for a thread.
struct WaitingRead {
    offset: u64,
    length: usize,
    outcome: Callback<Vec<u8>>,
}

/// Until when a file is used. It is closed behind the last call that was begun before.
enum Use {
    Open { calls: usize },
    Closing { calls: usize, told: Callback<()> },
    Closed,
}

/// Reads of a file that are carried out together.
#[derive(Default)]
struct Reads {
    waiting: Vec<WaitingRead>,
    /// Those that a thread has taken and that are not answered.
    on_their_way: usize,
    /// How long the last answer took.
    took: Duration,
}

impl Reads {
    /// How long the first of those that wait may wait for others: they are likely to come if there are others already, and
    /// it costs little beside the answer.
    fn hold(&self) -> Duration {
        let hold = if self.on_their_way == 0 { Duration::ZERO } else { self.took / HOLD_PART };
        if hold < HOLD_MIN { Duration::ZERO } else { hold.min(HOLD_MAX) }
    }
}

/// An open file, as the calls on it share it.
struct Shared {
    core: Arc<Core>,
    used: Mutex<Use>,
    reads: Mutex<Reads>,
    /// As many reads wait as are carried out together.
    full: Condvar,
}

/// A call that was begun.
struct Call(Arc<Shared>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Call {
    fn begin(shared: &Arc<Shared>) -> Self {
        if let Use::Open { calls } = &mut *lock(&shared.used) {
            *calls += 1;
        }
        Self(Arc::clone(shared))
    }

    /// The file for this call, which does not close it.
    fn file(&self) -> File {
        File { core: Arc::clone(&self.0.core), position: 0, closed: true }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut used = lock(&self.0.used);
        match &mut *used {
            Use::Open { calls } => *calls -= 1,
            Use::Closing { calls, .. } if *calls > 1 => *calls -= 1,
            Use::Closing { .. } => {
                let last = std::mem::replace(&mut *used, Use::Closed);
                drop(used);
                if let Use::Closing { told, .. } = last {
                    told.complete(self.0.core.close());
                }
            }
            // Nothing is begun on it any more.
            Use::Closed => {}
        }
    }
}

impl Shared {
    /// Has it closed behind the calls that were begun; by a thread if there is none.
    fn close(self: &Arc<Self>, workers: &Workers, told: Callback<()>) {
        let mut used = lock(&self.used);
        match &*used {
            Use::Open { calls: 0 } => {
                *used = Use::Closed;
                drop(used);
                let core = Arc::clone(&self.core);
                // The callback says so if nobody does it.
                let _ = workers.post_last(move || told.complete(core.close()));
            }
            Use::Open { calls } => *used = Use::Closing { calls: *calls, told },
            // It is done already.
            Use::Closing { .. } | Use::Closed => {}
        }
    }

    /// Carries out reads that waited, as one call.
    fn read_together(&self) {
        let waiting: Vec<WaitingRead> = {
            let reads = lock(&self.reads);
            let hold = reads.hold();
            let held = self.full.wait_timeout_while(reads, hold, |reads| reads.waiting.len() < TOGETHER_MAX);
            let (mut reads, _) = held.unwrap_or_else(PoisonError::into_inner);
            let count = reads.waiting.len().min(TOGETHER_MAX);
            reads.on_their_way += count;
            reads.waiting.drain(..count).collect()
        };
        let (began, count) = (Instant::now(), waiting.len());
        let ranges: Vec<(u64, usize)> = waiting.iter().map(|read| (read.offset, read.length)).collect();
        let parts = self.core.read_ranges(&ranges);
        {
            let mut reads = lock(&self.reads);
            reads.on_their_way -= count;
            reads.took = began.elapsed();
        }
        match parts {
            Ok(parts) => waiting.into_iter().zip(parts).for_each(|(read, part)| read.outcome.complete(Ok(part))),
            // One of them may have failed for a reason of its own.
            Err(error) if count > 1 && !is_lost(&error) => waiting.into_iter().for_each(|read| {
                let part = self.core.read_ranges(&[(read.offset, read.length)]);
                read.outcome.complete(part.map(|mut parts| parts.pop().unwrap_or_default()));
            }),
            Err(error) => waiting.into_iter().for_each(|read| read.outcome.complete(Err(error.clone()))),
        }
    }
}

/// A remote file that is open. It is closed behind the calls that were begun, when it is dropped, too; then nobody hears of
/// errors. Calls that are on their way at the same time have no order.
pub struct AsyncFile {
    shared: Arc<Shared>,
    workers: Arc<Workers>,
}

impl std::fmt::Debug for AsyncFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AsyncFile({:?})", self.shared.core.options())
    }
}

impl AsyncFile {
    fn new(mut file: File, workers: Arc<Workers>) -> Self {
        file.closed = true;
        let (core, used) = (Arc::clone(&file.core), Mutex::new(Use::Open { calls: 0 }));
        Self { shared: Arc::new(Shared { core, used, reads: Mutex::default(), full: Condvar::new() }), workers }
    }

    /// Makes any call of [`File`]. It keeps one of the server's 16 threads until it returns: what waits for another task of this
    /// program, as a lock may, is better tried again than waited for.
    pub fn call<T: Send + 'static>(&self, act: impl FnOnce(&File) -> Result<T, Error> + Send + 'static) -> Outcome<T> {
        let call = Call::begin(&self.shared);
        self.workers.begin(move || act(&call.file()))
    }

    /// Reads `length` bytes from `offset` on; fewer only at the end of the file.
    pub fn read_at(&self, offset: u64, length: usize) -> Outcome<Vec<u8>> {
        let (callback, outcome) = Outcome::pending();
        if let Err(error) = super::must_be_below_limit(offset, 0) {
            callback.complete(Err(error));
            return outcome;
        }
        // It would keep those that are carried out with it.
        if length > self.shared.core.chunk() {
            return self.call(move |file| file.core.read_long(offset, length));
        }
        let mut reads = lock(&self.shared.reads);
        let count = reads.waiting.len();
        if count >= WAITING_MAX {
            drop(reads);
            callback.complete(Err(too_many()));
            return outcome;
        }
        // Whoever comes behind the first one is carried out with it.
        if count.is_multiple_of(TOGETHER_MAX) {
            let call = Call::begin(&self.shared);
            if let Err(error) = self.workers.post(move || call.0.read_together()) {
                drop(reads);
                callback.complete(Err(error));
                return outcome;
            }
        }
        // The thread that takes it waits for the lock.
        reads.waiting.push(WaitingRead { offset, length, outcome: callback });
        drop(reads);
        if count + 1 == TOGETHER_MAX {
            self.shared.full.notify_one();
        }
        outcome
    }

    /// Writes all of `data` at `offset`.
    pub fn write_at(&self, data: impl Into<Vec<u8>>, offset: u64) -> Outcome<()> {
        let data = data.into();
        self.call(move |file| file.write_at(&data, offset))
    }

    /// Writes all of `data` in one piece behind everything else in the file; where it begins.
    pub fn append(&self, data: impl Into<Vec<u8>>) -> Outcome<u64> {
        let data = data.into();
        self.call(move |file| file.append(&data))
    }

    /// Its length.
    pub fn length(&self) -> Outcome<u64> {
        self.call(File::length)
    }

    /// Cuts or extends it.
    pub fn set_len(&self, length: u64) -> Outcome<()> {
        self.call(move |file| file.set_len(length))
    }

    /// Waits until everything written so far is on stable storage, attributes included.
    pub fn sync_all(&self) -> Outcome<()> {
        self.call(File::sync_all)
    }

    /// Closes the file behind the calls that were begun. Nothing is synced.
    pub fn close(self) -> Outcome<()> {
        let (callback, outcome) = Outcome::pending();
        self.shared.close(&self.workers, callback);
        outcome
    }
}

impl Drop for AsyncFile {
    fn drop(&mut self) {
        // Nobody is there to tell.
        self.shared.close(&self.workers, Callback::new(drop));
    }
}
