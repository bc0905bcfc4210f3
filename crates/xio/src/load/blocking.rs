//! Wrapblock: a blocking transport becomes an element that never waits (PERF-25). Two threads for each
//! connection call the driver, one that reads and one that writes, so that a read that waits starves no
//! write. Each has a buffer of its own; the element copies, and tells the kernel by two event counters.
//!
//! One counter is readable when there is something to read. The other is full, and so not writable, while
//! there is something to write.

use super::abi::{Blocking, Element, named, nonsense};
use super::machine::{Life, Machine, Reading, Writing};
use crate::error::{Error, ErrorKind, Result};
use rustix::event::{EventfdFlags, eventfd};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use xdfs_io::stack::{Flow, ReadInfo, WriteInfo};

/// Bytes of each direction's buffer.
const BUFFER_BYTES: usize = 256 * 1024;

/// Most connections of blocking drivers at a time; each has two threads.
const CONNECTIONS_MAX: usize = 256;

/// Calls that are interrupted one after the other before each further one waits for [`PAUSE`].
const INTERRUPTIONS_AT_ONCE: u32 = 64;
/// A driver whose calls are interrupted for ever takes no more of a processor than this leaves.
const PAUSE: Duration = Duration::from_millis(1);

/// Connections whose threads have not ended.
static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);

/// A counter that cannot take more.
const FULL: u64 = u64::MAX - 1;

/// An element of a connection that the driver opens.
pub(super) fn opened(name: &str, calls: Blocking, contact: String, attributes: String) -> Result<Box<dyn Flow>> {
    let connection = Arc::new(Connection::new(name, calls)?);
    let opening = connection.clone();
    Ok(Box::new(connection.run(move || {
        opening.on_open(opening.again(|| opening.calls.open(&contact, &attributes)));
        opening.read();
    })?))
}

/// An element of a connection that the driver has accepted. It is closed where there is no room for it.
pub(super) fn accepted(name: &str, calls: Blocking, element: Element) -> Result<Box<dyn Flow>> {
    let connection = Arc::new(Connection::new(name, calls).inspect_err(|_| calls.close(element))?);
    let reading = connection.clone();
    // Open from the beginning, so that it is closed where no thread can be started.
    connection.on_open(Ok(element));
    Ok(Box::new(connection.run(move || reading.read())?))
}

fn start(name: &str, connection: Arc<Connection>, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let ending = connection.clone();
    let run = move || {
        // Our own code may panic, and the connection must be closed all the same.
        let _ = catch_unwind(AssertUnwindSafe(run));
        ending.end_thread();
    };
    thread::Builder::new().name(name.to_owned()).spawn(run).map(drop).inspect_err(|_| connection.end_thread())
}

/// One connection, as its element and its threads share it.
struct Connection {
    name: String,
    calls: Blocking,
    state: Mutex<State>,
    changed: Condvar,
    readable: OwnedFd,
    writable: OwnedFd,
}

struct State {
    machine: Machine<Element, io::Error>,
    /// The buffers, which the threads take while they call the driver.
    received: Vec<u8>,
    to_send: Vec<u8>,
}

impl Connection {
    /// Starts the two threads, of which `read` is one. Where one cannot be started, the element is dropped,
    /// and with it what the other waits for.
    fn run(self: Arc<Self>, read: impl FnOnce() + Send + 'static) -> io::Result<BlockingFlow> {
        let flow = BlockingFlow { connection: self.clone() };
        start("xio-block-read", self.clone(), read).inspect_err(|_| self.end_thread())?;
        let writing = self.clone();
        start("xio-block-write", self, move || writing.write())?;
        Ok(flow)
    }

    fn new(name: &str, calls: Blocking) -> Result<Self> {
        if CONNECTIONS.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
            CONNECTIONS.fetch_sub(1, Ordering::AcqRel);
            let what = format!("{CONNECTIONS_MAX} connections of blocking drivers are open: close some first");
            return Err(Error::new(ErrorKind::TooMany, what));
        }
        let counters = counter(0).and_then(|readable| Ok((readable, counter(FULL)?)));
        let (readable, writable) = counters.inspect_err(|_| {
            CONNECTIONS.fetch_sub(1, Ordering::AcqRel);
        })?;
        let state = State {
            machine: Machine::new(),
            received: vec![0; BUFFER_BYTES],
            to_send: Vec::with_capacity(BUFFER_BYTES),
        };
        let (name, state, changed) = (name.to_owned(), Mutex::new(state), Condvar::new());
        Ok(Self { name, calls, state, changed, readable, writable })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_open(&self, opened: io::Result<Element>) {
        let mut state = self.lock();
        state.machine.on_open(opened.map_err(|error| self.judged(error)));
        self.tell(&self.readable, &self.writable);
        self.changed.notify_all();
    }

    /// The reading thread of a connection that is open.
    fn read(&self) {
        let mut state = self.lock();
        let mut interruptions = 0;
        while let Some(element) = state.machine.element().filter(|_| !state.machine.dropped) {
            if !state.machine.has_to_read() {
                if matches!(state.machine.reading, Reading::Over(_)) {
                    return;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let mut buffer = std::mem::take(&mut state.received);
            drop(state);
            let read = self.calls.read(element, &mut buffer);
            state = self.lock();
            state.received = buffer;
            if is_interrupted(&read) {
                state = pause(&self.changed, state, &mut interruptions);
                continue;
            }
            interruptions = 0;
            state.machine.on_read(read.map_err(|error| self.judged(error)));
            let _ = rustix::io::write(&self.readable, &1u64.to_ne_bytes());
        }
    }

    /// The writing thread.
    fn write(&self) {
        let mut state = self.lock();
        while !state.machine.dropped && !state.machine.writes_no_more() {
            let Some(element) = state.machine.element().filter(|_| state.machine.has_to_write()) else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let finishing = matches!(state.machine.life, Life::Opened { writing: Writing::Finishing, .. });
            let mut buffer = std::mem::take(&mut state.to_send);
            drop(state);
            let written =
                if finishing { self.again(|| self.calls.finish(element)) } else { self.write_all(element, &buffer) };
            buffer.clear();
            state = self.lock();
            state.to_send = buffer;
            state.machine.on_written(written);
            empty(&self.writable);
        }
    }

    fn write_all(&self, element: Element, mut from: &[u8]) -> io::Result<()> {
        let mut interruptions = 0;
        while !from.is_empty() {
            let written = self.calls.write(element, from);
            let mut state = self.lock();
            if is_interrupted(&written) {
                state = pause(&self.changed, state, &mut interruptions);
            } else {
                from = &from[written?..];
                interruptions = 0;
            }
            if state.machine.dropped {
                return Err(io::ErrorKind::NotConnected.into());
            }
        }
        Ok(())
    }

    /// A call that is made again where it was interrupted, as long as there is an element.
    fn again<T>(&self, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let mut interruptions = 0;
        loop {
            let called = call();
            if !is_interrupted(&called) {
                return called;
            }
            if pause(&self.changed, self.lock(), &mut interruptions).machine.dropped {
                return Err(io::ErrorKind::NotConnected.into());
            }
        }
    }

    /// Both directions can be tried.
    fn tell(&self, readable: &OwnedFd, writable: &OwnedFd) {
        let _ = rustix::io::write(readable, &1u64.to_ne_bytes());
        empty(writable);
    }

    fn judged(&self, error: io::Error) -> io::Error {
        judged(error, &self.name)
    }

    fn end_thread(&self) {
        let mut state = self.lock();
        let last = state.machine.on_thread_end();
        let element = if last { state.machine.take_element() } else { None };
        drop(state);
        if let Some(element) = element {
            self.calls.close(element);
        }
        if last {
            CONNECTIONS.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Whether a call of a driver was broken off and is to be made again.
pub(super) fn is_interrupted<T>(called: &io::Result<T>) -> bool {
    matches!(called, Err(error) if error.kind() == io::ErrorKind::Interrupted)
}

/// Before a call is made again that was interrupted. Where that comes again and again it waits, unless
/// something changes.
pub(super) fn pause<'a, T>(changed: &Condvar, state: MutexGuard<'a, T>, interruptions: &mut u32) -> MutexGuard<'a, T> {
    *interruptions = interruptions.saturating_add(1);
    if *interruptions <= INTERRUPTIONS_AT_ONCE {
        return state;
    }
    changed.wait_timeout(state, PAUSE).unwrap_or_else(PoisonError::into_inner).0
}

/// An error that means waiting has no meaning here, and would never be told again.
pub(super) fn judged(error: io::Error, driver: &str) -> io::Error {
    let error = if error.kind() == io::ErrorKind::WouldBlock {
        nonsense("it would have to wait, and a blocking driver waits itself".to_owned())
    } else {
        error
    };
    named(error, driver)
}

/// A counter of events.
pub(super) fn counter(value: u64) -> io::Result<OwnedFd> {
    let counter = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    if value > 0 {
        rustix::io::write(&counter, &value.to_ne_bytes())?;
    }
    Ok(counter)
}

/// Takes everything out of a counter.
pub(super) fn empty(counter: &OwnedFd) {
    // It fails only where it is empty.
    let _ = rustix::io::read(counter, &mut [0; 8]);
}

/// The element.
struct BlockingFlow {
    connection: Arc<Connection>,
}

impl Drop for BlockingFlow {
    fn drop(&mut self) {
        let mut state = self.connection.lock();
        state.machine.dropped = true;
        // Interrupted with the lock held: the last thread closes it only after it had the lock.
        if let Some(element) = state.machine.element() {
            self.connection.calls.interrupt(element);
        }
        drop(state);
        self.connection.changed.notify_all();
    }
}

impl Flow for BlockingFlow {
    fn connected(&mut self) -> io::Result<()> {
        let mut state = self.connection.lock();
        match state.machine.life {
            Life::Opening => Err(io::ErrorKind::WouldBlock.into()),
            Life::NeverOpen | Life::Opened { element: None, .. } => {
                let failed = state.machine.take_read_error();
                Err(failed.unwrap_or_else(|| io::ErrorKind::NotConnected.into()))
            }
            Life::Opened { element: Some(_), .. } => {
                if state.machine.has_to_read() {
                    empty(&self.connection.readable);
                }
                Ok(())
            }
        }
    }

    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        let mut state = self.connection.lock();
        let State { machine, received, .. } = &mut *state;
        match machine.reading {
            Reading::Waiting => {
                empty(&self.connection.readable);
                Err(io::ErrorKind::WouldBlock.into())
            }
            Reading::Over(ref mut error) => match error.take() {
                Some(error) => Err(error),
                None => {
                    info.end = true;
                    Ok(0)
                }
            },
            Reading::Bytes { start, end } => {
                let mut taken = 0;
                for slice in into {
                    let count = slice.len().min(end - start - taken);
                    slice[..count].copy_from_slice(&received[start + taken..][..count]);
                    taken += count;
                }
                if machine.on_taken(taken) {
                    empty(&self.connection.readable);
                    self.connection.changed.notify_all();
                }
                Ok(taken)
            }
        }
    }

    fn send(&mut self, from: &[IoSlice<'_>], _: &WriteInfo) -> io::Result<usize> {
        let mut state = self.connection.lock();
        let State { machine, to_send, .. } = &mut *state;
        let writing = self.writing(&mut machine.life)?;
        match writing {
            Writing::Free => {}
            Writing::Busy(_) | Writing::Finishing => return Err(io::ErrorKind::WouldBlock.into()),
            Writing::Finished => return Err(io::ErrorKind::BrokenPipe.into()),
            Writing::Failed(error) => return Err(self.connection.judged(same_as(error))),
        }
        for slice in from {
            let count = slice.len().min(BUFFER_BYTES - to_send.len());
            to_send.extend_from_slice(&slice[..count]);
        }
        let taken = to_send.len();
        if taken > 0 {
            *writing = Writing::Busy(taken);
            self.make_busy();
        }
        Ok(taken)
    }

    fn holds_back(&self) -> bool {
        true
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut state = self.connection.lock();
        match self.writing(&mut state.machine.life)? {
            Writing::Free | Writing::Finished => Ok(()),
            Writing::Busy(_) | Writing::Finishing => Err(io::ErrorKind::WouldBlock.into()),
            Writing::Failed(error) => Err(self.connection.judged(same_as(error))),
        }
    }

    fn finish_sending(&mut self) -> io::Result<()> {
        let mut state = self.connection.lock();
        match self.writing(&mut state.machine.life)? {
            Writing::Finished => Ok(()),
            Writing::Failed(error) => Err(self.connection.judged(same_as(error))),
            writing @ Writing::Free => {
                *writing = Writing::Finishing;
                self.make_busy();
                Err(io::ErrorKind::WouldBlock.into())
            }
            Writing::Busy(_) | Writing::Finishing => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.connection.readable.as_fd())
    }

    fn sending_descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.connection.writable.as_fd())
    }
}

impl BlockingFlow {
    /// What there is to write to a connection that was opened.
    fn writing<'a>(&self, life: &'a mut Life<Element, io::Error>) -> io::Result<&'a mut Writing<io::Error>> {
        match life {
            Life::Opening => Err(io::ErrorKind::WouldBlock.into()),
            Life::NeverOpen => Err(self.connection.judged(io::ErrorKind::NotConnected.into())),
            Life::Opened { writing, .. } => Ok(writing),
        }
    }

    /// The writing thread has something to do.
    fn make_busy(&self) {
        let _ = rustix::io::write(&self.connection.writable, &FULL.to_ne_bytes());
        self.connection.changed.notify_all();
    }
}

/// The error once more. Each who asks what ended the writing is told: the one before may be a layer above that
/// tells nobody.
fn same_as(error: &io::Error) -> io::Error {
    match (error.raw_os_error(), error.get_ref().and_then(|inner| inner.downcast_ref::<Error>())) {
        (Some(number), _) => io::Error::from_raw_os_error(number),
        (None, Some(own)) => own.again().into(),
        (None, None) => io::Error::new(error.kind(), error.to_string()),
    }
}
