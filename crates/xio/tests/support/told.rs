//! What was told of the operations of one handle, and whether that was as `docs/xio.md` promises it.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use xdfs_xio::{ErrorKind, OperationId, Timeouts};

use crate::faults::{PATIENCE, Random};

/// The directions, as places in arrays.
pub const READ: usize = 0;
pub const WRITE: usize = 1;

/// Held by the callback that runs, of whatever handle.
static RUNNING: Mutex<()> = Mutex::new(());
/// The thread of the first callback.
static THREAD: OnceLock<ThreadId> = OnceLock::new();

thread_local! {
    /// This thread is inside `register_*`.
    static REGISTERING: Cell<bool> = const { Cell::new(false) };
}

/// What an operation came to: the bytes that it read, or how many it wrote, or that it did not begin.
pub enum Ended {
    Read(Vec<u8>),
    Wrote(usize),
    Refused,
}

struct Operation {
    direction: usize,
    asked: Instant,
    /// What a write would write; nothing for reads.
    content: Arc<[u8]>,
    ended: Option<Ended>,
}

/// What is known of the operations of one handle.
#[derive(Default)]
struct Book {
    /// By the order in which they were asked for.
    operations: Vec<Operation>,
    outstanding: usize,
    /// Registered ones that were not told, by direction and in their order.
    waiting: [VecDeque<usize>; 2],
    ids: Vec<OperationId>,
    /// Operations that began, cancels and closes.
    steps: u64,
    /// How the close ended, once that was told.
    closed: Option<Result<(), String>>,
    /// What callbacks found wrong.
    broken: Vec<String>,
}

/// The book of one handle, and what its callbacks may do.
pub struct Told {
    book: Mutex<Book>,
    changed: Condvar,
    /// Held while an operation of that direction begins, so that the book has the handle's order.
    order: [Mutex<()>; 2],
    closing: AtomicBool,
    timeouts: [Duration; 2],
    pub seed: u64,
    /// It writes at all.
    pub writes: bool,
    /// A callback may close it.
    pub may_close: bool,
}

impl Told {
    pub fn new(timeouts: Timeouts, seed: u64, writes: bool, may_close: bool) -> Self {
        let timeouts = [timeouts.read, timeouts.write].map(|timeout| timeout.unwrap_or(Duration::MAX));
        let (book, changed, order, closing) = Default::default();
        Self { book, changed, order, closing, timeouts, seed, writes, may_close }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Operations of a direction run out of time sooner than anybody's patience.
    pub fn is_short(&self, direction: usize) -> bool {
        self.timeouts[direction] < PATIENCE
    }

    /// None where a callback would have to wait for a thread that waits.
    pub fn order(&self, direction: usize) -> Option<MutexGuard<'_, ()>> {
        let order = &self.order[direction];
        if THREAD.get() == Some(&thread::current().id()) { order.try_lock().ok() } else { order.lock().ok() }
    }

    pub fn begin(&self, direction: usize, registered: bool, content: Arc<[u8]>) -> usize {
        let mut book = self.book();
        let at = book.operations.len();
        book.operations.push(Operation { direction, asked: Instant::now(), content, ended: None });
        book.outstanding += 1;
        if registered {
            book.waiting[direction].push_back(at);
        }
        at
    }

    /// Whether the operation began. It need not, once the handle is closed.
    pub fn begun(&self, at: usize, begun: xdfs_xio::Result<OperationId>) {
        let mut book = self.book();
        match begun {
            Ok(id) => {
                book.ids.push(id);
                book.steps += 1;
            }
            Err(error) => self.refuse(&mut book, at, error.kind()),
        }
    }

    fn refuse(&self, book: &mut Book, at: usize, kind: ErrorKind) {
        assert_eq!(kind, ErrorKind::Closed, "it did not begin");
        assert!(self.is_closing(), "it was closed before anybody closed it");
        let direction = book.operations[at].direction;
        book.waiting[direction].retain(|waiting| *waiting != at);
        assert!(book.operations[at].ended.replace(Ended::Refused).is_none(), "it was refused and told");
        book.outstanding -= 1;
    }

    /// How a registered operation ended: those of a direction in their order, unless they are broken off.
    pub fn end(&self, at: usize, error: Option<ErrorKind>, ended: Ended) {
        let mut book = self.book();
        assert!(book.closed.is_none(), "an operation was told after the close");
        let direction = book.operations[at].direction;
        let place = book.waiting[direction].iter().position(|waiting| *waiting == at);
        let place = place.expect("an operation was told twice");
        let early = matches!(error, Some(ErrorKind::Cancelled | ErrorKind::TimedOut));
        assert!(place == 0 || early, "an operation was told before one that was asked for earlier");
        book.waiting[direction].remove(place);
        self.note(&mut book, at, error, ended);
    }

    /// How one ended that this thread waited for.
    pub fn end_blocking(&self, at: usize, error: Option<ErrorKind>, ended: Ended) {
        let mut book = self.book();
        if error == Some(ErrorKind::Closed) {
            return self.refuse(&mut book, at, ErrorKind::Closed);
        }
        book.steps += 1;
        self.note(&mut book, at, error, ended);
    }

    fn note(&self, book: &mut Book, at: usize, error: Option<ErrorKind>, ended: Ended) {
        let operation = &mut book.operations[at];
        let early =
            error == Some(ErrorKind::TimedOut) && operation.asked.elapsed() < self.timeouts[operation.direction];
        assert!(!early, "an operation ran out of time before its time");
        assert!(operation.ended.replace(ended).is_none(), "an operation was told twice");
        book.outstanding -= 1;
    }

    pub fn outstanding(&self) -> usize {
        self.book().outstanding
    }

    /// One of the last operations, which may be over.
    pub fn recent(&self, random: &mut Random) -> Option<OperationId> {
        let book = self.book();
        let last = book.ids.len().saturating_sub(8);
        book.ids.get(last + random.below(8) as usize).copied()
    }

    /// Something was cancelled or closed.
    pub fn count(&self) {
        self.book().steps += 1;
    }

    pub fn steps(&self) -> u64 {
        self.book().steps
    }

    /// True for the first who is about to close.
    pub fn closes(&self) -> bool {
        !self.closing.swap(true, Ordering::AcqRel)
    }

    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub fn on_closed(&self, closed: xdfs_xio::Result<()>) {
        let mut book = self.book();
        // Whoever is told after this finds it: some may be on their way to be refused.
        let closed = closed.map_err(|error| error.to_string());
        assert!(book.closed.replace(closed).is_none(), "closed twice");
        self.changed.notify_all();
    }

    /// Waits for the close; how it ended.
    pub fn closed(&self) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        let mut book = self.book();
        loop {
            assert!(book.broken.is_empty(), "in callbacks: {:?}", book.broken);
            if let Some(closed) = &book.closed {
                assert_eq!(book.outstanding, 0, "operations that were never told");
                return closed.clone();
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no close: {} of {} were told", book.outstanding, book.operations.len());
            book = self.changed.wait_timeout(book, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Runs what a callback does, which is to find the promises about callbacks kept. A panic would be the
    /// callback's own, so it is written down.
    pub fn callback(&self, what: impl FnOnce()) {
        let result = catch_unwind(AssertUnwindSafe(|| {
            let running = RUNNING.try_lock();
            assert!(!matches!(running, Err(TryLockError::WouldBlock)), "callbacks run one at a time");
            let thread = thread::current().id();
            assert_eq!(*THREAD.get_or_init(|| thread), thread, "callbacks run on one thread");
            assert!(!REGISTERING.get(), "a callback runs inside `register_*`");
            what();
        }));
        if let Err(panic) = result {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            self.book().broken.push(text.unwrap_or_default());
            self.changed.notify_all();
        }
    }

    /// What was read, in the order of the reads.
    pub fn received(&self) -> Vec<u8> {
        let book = self.book();
        let parts = book.operations.iter().map(|operation| match &operation.ended {
            Some(Ended::Read(bytes)) => &bytes[..],
            _ => &[],
        });
        parts.collect::<Vec<_>>().concat()
    }

    /// What the other end should have read, or will.
    pub fn sent(&self) -> Vec<u8> {
        let book = self.book();
        let parts = book.operations.iter().map(|operation| match operation.ended {
            Some(Ended::Wrote(moved)) => &operation.content[..moved],
            _ => &[],
        });
        parts.collect::<Vec<_>>().concat()
    }
}

/// Calls `register_*`.
pub fn registering<T>(register: impl FnOnce() -> T) -> T {
    REGISTERING.set(true);
    let result = register();
    REGISTERING.set(false);
    result
}
