//! A handle: what a program opens, reads, writes, cancels and closes. Waiting, `wait_for`, timeouts,
//! cancel and the close barrier are here, once for all drivers.
//!
//! A blocking call drives the drivers on the caller's own thread; a registered one is driven by the
//! reactor, which calls its callback. Both kinds follow each other in one queue for each direction.

mod buffers;
mod close_step;
mod closing;
pub(crate) mod core;
mod flow_state;
pub(crate) mod reactor;
mod registered;
mod step;

pub use buffers::{Buffers, Lent};

use self::core::{Core, Shared};
use self::reactor::Reactor;
use self::step::Step;
use crate::error::{Error, ErrorKind, Result};
use crate::operations::{Lane, OperationId, Owner, Phase, Refused};
use crate::stack::{Prepared, Stack};
use std::cell::Cell;
use std::io::{IoSlice, IoSliceMut};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};
use xdfs_io::stack::{Answer, Command, Flow, ReadInfo, WriteInfo};

/// How long close waits, unless told otherwise, for what the drivers still have to send.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Calls of a driver for one blocking operation before the clock is looked at, and others get the lock.
const STEPS_PER_LOOK: usize = 64;

/// How long operations may take, counted from when they are asked for. None is for ever.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Timeouts {
    /// Opening, with all handshakes.
    pub open: Option<Duration>,
    /// A read.
    pub read: Option<Duration>,
    /// A write.
    pub write: Option<Duration>,
    /// What the drivers have to send before they are closed.
    pub close: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { open: None, read: None, write: None, close: Some(CLOSE_TIMEOUT) }
    }
}

/// How a handle is opened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Options {
    /// The timeouts of its operations.
    pub timeouts: Timeouts,
}

/// What a read or a write came to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Received {
    /// Bytes that moved. A read has fewer than it waited for only at an end.
    pub bytes: usize,
    /// What came with the bytes of a read.
    pub info: ReadInfo,
}

/// The end of a registered operation.
#[derive(Debug)]
pub struct Completed {
    /// Which one.
    pub operation: OperationId,
    /// What it came to. An error says how many bytes had moved ([`Error::transferred`]).
    pub result: Result<Received>,
    /// The buffers that it was given; a read has filled them from the front.
    pub buffers: Buffers,
}

/// What is called when a registered operation is finished.
pub(crate) type Callback = Box<dyn FnOnce(&Handle, Completed) + Send>;

/// An open stack. Clones are the same handle; dropping the last one closes it at once, without
/// telling the peer more than the kernel does.
#[derive(Clone)]
pub struct Handle {
    owner: Arc<SharedOwner>,
}

/// What all clones own together: its drop is the handle's.
struct SharedOwner {
    shared: Arc<Shared>,
}

impl Drop for SharedOwner {
    fn drop(&mut self) {
        // Every outstanding operation holds a clone, so there is none.
        let mut core = self.shared.lock();
        let flow = std::mem::take(&mut core.flow);
        let watched = core.watched.take().is_some() || core.noted.is_some();
        drop(core);
        drop(flow);
        if watched {
            Reactor::forget(self.shared.token);
        }
    }
}

thread_local! {
    /// The thread is in a callback.
    pub(crate) static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// An operation that waits must not be called from a callback: it would wait for its own thread.
pub(crate) fn may_wait() -> Result<()> {
    if IN_CALLBACK.get() {
        let what = "a callback must not wait: register the operation instead";
        return Err(Error::new(ErrorKind::Usage, what));
    }
    Ok(())
}

impl Handle {
    /// Opens a stack (XIO-07). `contact` says where the other end is.
    pub fn open(stack: &Stack, contact: &str, options: &Options) -> Result<Self> {
        may_wait()?;
        let prepared = stack.prepared()?;
        let deadline = deadline(options.timeouts.open);
        let flow = prepared.open(contact)?;
        Self::finish_open(&prepared, flow, options, deadline)
    }

    /// Waits until `flow` is open.
    pub(crate) fn finish_open(
        stack: &Prepared,
        flow: Box<dyn Flow>,
        options: &Options,
        deadline: Option<Instant>,
    ) -> Result<Self> {
        let (handle, id) = Self::start(stack.name.clone(), options, Owner::Caller, Some(flow));
        let core = handle.shared().lock();
        handle.finish(core, Lane::Open, id, deadline, |core| (0, core.open_step()))?;
        Ok(handle)
    }

    fn start(stack: Arc<str>, options: &Options, owner: Owner, flow: Option<Box<dyn Flow>>) -> (Self, OperationId) {
        let (shared, id) = Shared::new(stack, options.timeouts, reactor::new_token(), owner, flow);
        (Self { owner: Arc::new(SharedOwner { shared: Arc::new(shared) }) }, id)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.owner.shared
    }

    /// Reads at least `wait_for` bytes into `buffer`, fewer only at an end; with zero, what is there.
    pub fn read(&self, buffer: &mut [u8], wait_for: usize) -> Result<Received> {
        self.readv(&mut [IoSliceMut::new(buffer)], wait_for)
    }

    /// Reads into several buffers, in order. Those that are filled become empty slices.
    pub fn readv(&self, mut buffers: &mut [IoSliceMut<'_>], wait_for: usize) -> Result<Received> {
        may_wait()?;
        let asked = buffers.iter().map(|buffer| buffer.len()).sum();
        check_wait_for(wait_for, asked)?;
        let mut core = self.shared().lock();
        let id = core.operations.begin(Lane::Read, wait_for, Owner::Caller).map_err(|error| self.refused(error))?;
        let mut info = ReadInfo::default();
        let deadline = deadline(self.shared().timeouts.read);
        let bytes = self.finish(core, Lane::Read, id, deadline, |core| {
            let (bytes, step) = core.read_step(buffers, &mut info);
            IoSliceMut::advance_slices(&mut buffers, bytes);
            (bytes, step)
        })?;
        Ok(Received { bytes, info })
    }

    /// Writes all of `buffer`.
    pub fn write(&self, buffer: &[u8]) -> Result<usize> {
        self.writev(&mut [IoSlice::new(buffer)], &WriteInfo::default())
    }

    /// Writes several buffers, in order; `info` goes to the drivers with them. Those that were
    /// written become empty slices.
    pub fn writev(&self, mut buffers: &mut [IoSlice<'_>], info: &WriteInfo) -> Result<usize> {
        may_wait()?;
        let mut core = self.shared().lock();
        let begun = core.operations.begin(Lane::Write, usize::MAX, Owner::Caller);
        let id = begun.map_err(|error| self.refused(error))?;
        let deadline = deadline(self.shared().timeouts.write);
        self.finish(core, Lane::Write, id, deadline, |core| {
            let (bytes, step) = core.write_step(buffers, info);
            IoSlice::advance_slices(&mut buffers, bytes);
            (bytes, step)
        })
    }

    /// Drives an operation of this thread's until it is finished; how many bytes it moved.
    fn finish<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        lane: Lane,
        id: OperationId,
        deadline: Option<Instant>,
        mut step: impl FnMut(&mut Core) -> (usize, Step),
    ) -> Result<usize> {
        let shared = self.shared();
        loop {
            let mut steps = 0;
            while !core.flow.is_lent() && core.operations.front(lane).is_some_and(|front| front.id == id) {
                match step(&mut core).1 {
                    // A peer that never lets it wait does not keep it for ever.
                    Step::Progress if steps == STEPS_PER_LOOK => {
                        drop(core);
                        core = shared.lock();
                        core.expire_flow(Instant::now());
                        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                            core.operations.on_timeout(id);
                        }
                        steps = 0;
                    }
                    Step::Progress => steps += 1,
                    Step::Blocked => {
                        core.operations.on_blocked(lane);
                        break;
                    }
                    Step::Failed(error) => core.operations.on_failed(lane, error),
                }
            }
            if let Some(finished) = core.operations.take(id) {
                self.pass_on(core, lane);
                return shared.result_of(finished);
            }
            core = shared.wait(core, lane, id, deadline);
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                core.operations.on_timeout(id);
            }
        }
    }

    /// An operation of `lane` is over: somebody else may be next, or wait for that to close.
    fn pass_on(&self, core: MutexGuard<'_, Core>, lane: Lane) {
        let next = core.operations.front(lane).map(|front| front.owner);
        let closing = core.operations.phase() == Phase::Closing;
        let by_reactor = core.closing.is_some();
        drop(core);
        if next == Some(Owner::Caller) || closing {
            self.shared().changed.notify_all();
        }
        if next == Some(Owner::Reactor) || closing && by_reactor {
            Reactor::notify(self.shared());
        }
    }

    /// Cancels a registered operation; false where it is finished. Its callback is called with the
    /// bytes that had moved.
    pub fn cancel(&self, operation: OperationId) -> bool {
        let mut core = self.shared().lock();
        let cancelled = core.operations.cancel(operation);
        self.after_cancel(&core, cancelled);
        cancelled
    }

    /// Cancels a registered opening; false where it is over.
    pub fn cancel_open(&self) -> bool {
        self.cancel_all(Lane::Open) > 0
    }

    /// Cancels every outstanding read, also those that threads wait for; how many there were.
    pub fn cancel_reads(&self) -> usize {
        self.cancel_all(Lane::Read)
    }

    /// Cancels every outstanding write, also those that threads wait for; how many there were.
    pub fn cancel_writes(&self) -> usize {
        self.cancel_all(Lane::Write)
    }

    fn cancel_all(&self, lane: Lane) -> usize {
        let mut core = self.shared().lock();
        let count = core.operations.cancel_lane(lane);
        self.after_cancel(&core, count > 0);
        count
    }

    fn after_cancel(&self, core: &Core, any: bool) {
        if any {
            self.shared().wake(core);
            if !core.slots.is_empty() {
                Reactor::notify(self.shared());
            }
        }
    }

    /// Asks one driver of the stack for something (XIO-16): the highest that knows `name`, or the
    /// one that is called `driver`.
    pub fn control(&self, driver: Option<&str>, name: &str, value: Option<&str>) -> Result<Answer> {
        let command =
            Command { driver: driver.map(str::to_owned), name: name.to_owned(), value: value.map(str::to_owned) };
        let mut core = self.shared().lock();
        while core.flow.is_lent() {
            core = self.shared().wait_for_change(core, None);
        }
        let Some(flow) = core.flow.get_mut() else { return Err(self.refused(Refused::Closed)) };
        flow.control(&command).map_err(|error| {
            let error = if error.kind() == std::io::ErrorKind::Unsupported && error.get_ref().is_none() {
                let of = driver.unwrap_or("no driver of the stack");
                Error::new(ErrorKind::Unsupported, format!("{of}: there is no command '{}'", name.escape_debug()))
            } else {
                Error::from_io(error)
            };
            error.of_stack(&self.shared().stack)
        })
    }

    /// The names of the stack's drivers, bottom first.
    pub fn stack(&self) -> &str {
        &self.shared().stack
    }

    /// The error of an operation that could not begin.
    fn refused(&self, refused: Refused) -> Error {
        let error = match refused {
            Refused::NotOpen => Error::new(ErrorKind::Usage, "the handle is not open yet"),
            Refused::Closed => Error::new(ErrorKind::Closed, "the handle is closed"),
            Refused::TooMany => Error::new(ErrorKind::TooMany, "too many operations are outstanding"),
        };
        error.of_stack(&self.shared().stack)
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Handle({})", self.shared().stack)
    }
}

fn check_wait_for(wait_for: usize, asked: usize) -> Result<()> {
    if wait_for > asked {
        let what = format!("a buffer of {asked} bytes cannot take the {wait_for} that are waited for");
        return Err(Error::new(ErrorKind::Usage, what));
    }
    Ok(())
}

pub(crate) fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}
