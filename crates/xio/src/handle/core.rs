//! What a handle consists of, and one step of an operation. The lock is held while a driver is
//! called, which never waits, and never while somebody waits.

use super::flow_state::FlowState;
use super::step::{Moved, PooledCall, STEPS_PER_TURN, Step, read_once, write_once};
use super::{Buffers, Callback, Completed, Handle, Received};
use crate::error::{Error, ErrorKind, Result};
use crate::operations::{EarlyEnd, Finished, Lane, OperationId, Operations, Outcome, Owner};
use rustix::event::{EventfdFlags, eventfd};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use xdfs_io::stack::{Flow, Interest, PollEntry, ReadInfo, WriteInfo, poll};

/// How long a thread waits that cannot be woken because there is no descriptor left for it.
const UNWAKEABLE_WAIT: Duration = Duration::from_millis(20);

/// A handle, as its owners and the reactor share it.
pub(crate) struct Shared {
    core: Mutex<Core>,
    /// Something changed that a thread may wait for.
    pub(super) changed: Condvar,
    /// Wakes the thread that polls for the first operation of each lane.
    wakers: [OnceLock<Option<OwnedFd>>; 3],
    pub(crate) stack: Arc<str>,
    pub(crate) timeouts: super::Timeouts,
    /// Its name at the reactor.
    pub(crate) token: u64,
    /// It waits for its turn at the reactor.
    pub(crate) queued: AtomicBool,
    /// A thread of the pool works on it.
    pub(crate) pooled: AtomicBool,
}

/// The part that is locked.
pub(crate) struct Core {
    pub(crate) operations: Operations<Error>,
    /// The drivers.
    pub(super) flow: FlowState,
    /// What the reactor needs of its operations, in no order.
    pub(crate) slots: Vec<Slot>,
    pub(crate) closing: Option<Closing>,
    /// Directions in which trying is worth it, as far as the reactor knows.
    pub(crate) ready: Interest,
    /// What the reactor watches.
    pub(crate) watched: Option<Watched>,
    /// The deadline of the element that it was told of.
    told_deadline: Option<Instant>,
    /// The deadline that the reactor has noted.
    pub(crate) noted: Option<Instant>,
    polling: [bool; 3],
}

/// The descriptors of an element, by their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Watched {
    first: RawFd,
    /// The one for sending, where that is another.
    sending: Option<RawFd>,
}

impl Watched {
    pub(crate) fn of(flow: &dyn Flow) -> Option<Self> {
        let first = flow.descriptor()?.as_raw_fd();
        Some(Self { first, sending: flow.sending_descriptor().map(|sending| sending.as_raw_fd()) })
    }

    /// What to wait for. A descriptor of which nothing is asked is left out: it might report an end
    /// that nobody takes.
    fn entries(self, interest: Interest) -> [PollEntry; 2] {
        let entry = |number, asked: Interest| {
            if asked == Interest::NONE { PollEntry::NONE } else { PollEntry::new(number, asked.read, asked.write) }
        };
        match self.sending {
            None => [entry(self.first, interest), PollEntry::NONE],
            Some(sending) => {
                let (read, write) = (interest.without(Interest::WRITE), interest.without(Interest::READ));
                [entry(self.first, read), entry(sending, write)]
            }
        }
    }
}

/// A registered operation.
pub(crate) struct Slot {
    pub(crate) id: OperationId,
    pub(crate) buffers: Buffers,
    pub(crate) read: ReadInfo,
    pub(crate) write: WriteInfo,
    pub(crate) deadline: Option<Instant>,
    pub(crate) callback: Callback,
    /// Keeps the handle alive until the callback was called.
    pub(crate) handle: Handle,
}

/// A registered close.
pub(crate) struct Closing {
    pub(crate) callback: Box<dyn FnOnce(Result<()>) + Send>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) _handle: Handle,
}

impl Shared {
    pub(super) fn new(
        stack: Arc<str>,
        timeouts: super::Timeouts,
        token: u64,
        owner: Owner,
        flow: Option<Box<dyn Flow>>,
    ) -> (Self, OperationId) {
        let (operations, opening) = Operations::new(owner);
        let core = Core {
            operations,
            flow: FlowState::opening(flow),
            slots: Vec::new(),
            closing: None,
            ready: Interest::BOTH,
            watched: None,
            told_deadline: None,
            noted: None,
            polling: [false; 3],
        };
        let shared = Self {
            core: Mutex::new(core),
            changed: Condvar::new(),
            wakers: Default::default(),
            stack,
            timeouts,
            token,
            queued: AtomicBool::new(false),
            pooled: AtomicBool::new(false),
        };
        (shared, opening)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        // Drivers' panics are caught below; what else panics under the lock is a bug of ours, and
        // the machine is consistent between its calls.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the operation `id` may have moved on: for the driver if it is the first of its
    /// lane, for those before it otherwise.
    pub(super) fn wait<'a>(
        &'a self,
        core: MutexGuard<'a, Core>,
        lane: Lane,
        id: OperationId,
        deadline: Option<Instant>,
    ) -> MutexGuard<'a, Core> {
        let first = core.operations.front(lane).is_some_and(|front| front.id == id);
        if first { self.wait_for_driver(core, lane, deadline) } else { self.wait_for_change(core, deadline) }
    }

    pub(super) fn wait_for_change<'a>(
        &'a self,
        core: MutexGuard<'a, Core>,
        deadline: Option<Instant>,
    ) -> MutexGuard<'a, Core> {
        match deadline {
            None => self.changed.wait(core).unwrap_or_else(PoisonError::into_inner),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                self.changed.wait_timeout(core, left).unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// Waits for what the driver waits for, without the lock.
    pub(super) fn wait_for_driver<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        lane: Lane,
        deadline: Option<Instant>,
    ) -> MutexGuard<'a, Core> {
        let Some(flow) = core.flow.get() else { return self.wait_for_change(core, deadline) };
        let interest = flow.wants(asked(lane));
        let descriptors = Watched::of(flow);
        let flow_deadline = core.flow_deadline();
        let waker = self.waker(lane);
        let until = [deadline, flow_deadline, waker.is_none().then(|| Instant::now() + UNWAKEABLE_WAIT)];
        let until = until.into_iter().flatten().min();
        core.polling[lane as usize] = true;
        drop(core);
        // The descriptors stay open: nothing closes them before this operation was told.
        let [first, second] = descriptors.map_or([PollEntry::NONE; 2], |watched| watched.entries(interest));
        let mut entries =
            [waker.map_or(PollEntry::NONE, |waker| PollEntry::new(waker.as_raw_fd(), true, false)), first, second];
        // An interrupted call is one that found nothing: the caller tries again.
        let _ = poll(&mut entries, until.map_or(-1, milliseconds_until));
        if let (Some(waker), (true, _)) = (waker, entries[0].found()) {
            let _ = rustix::io::read(waker, &mut [0; 8]);
        }
        let mut core = self.lock();
        core.polling[lane as usize] = false;
        core.expire_flow(Instant::now());
        core
    }

    /// None where no descriptor is left for one.
    fn waker(&self, lane: Lane) -> Option<&OwnedFd> {
        let create = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok();
        self.wakers[lane as usize].get_or_init(create).as_ref()
    }

    /// Tells waiting threads that something changed for them.
    pub(super) fn wake(&self, core: &Core) {
        self.changed.notify_all();
        for lane in Lane::ALL {
            if let (true, Some(Some(waker))) = (core.polling[lane as usize], self.wakers[lane as usize].get()) {
                // It fails only where it is already set.
                let _ = rustix::io::write(waker, &1u64.to_ne_bytes());
            }
        }
    }

    /// Tells threads that wait for others to be told.
    pub(crate) fn tell_waiting(&self) {
        self.changed.notify_all();
    }

    /// What an operation came to: the bytes that it moved, or why it did not end as it should.
    pub(super) fn result_of(&self, finished: Finished<Error>) -> Result<usize> {
        let error = match finished.outcome {
            Outcome::Done => return Ok(finished.moved),
            Outcome::Failed(error) => error,
            Outcome::Ended(EarlyEnd::Cancelled) => Error::new(ErrorKind::Cancelled, "the operation was cancelled"),
            Outcome::Ended(EarlyEnd::TimedOut) => {
                Error::new(ErrorKind::TimedOut, "the operation took longer than its timeout")
            }
        };
        Err(error.of_stack(&self.stack).after(finished.moved))
    }
}

/// The directions in which an operation of that lane needs its driver.
pub(super) fn asked(lane: Lane) -> Interest {
    match lane {
        Lane::Open => Interest::BOTH,
        Lane::Read => Interest::READ,
        Lane::Write => Interest::WRITE,
    }
}

/// For `poll`: rounded up, so that the deadline is reached when it returns.
pub(crate) fn milliseconds_until(deadline: Instant) -> i32 {
    let left = deadline.saturating_duration_since(Instant::now());
    i32::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}

impl Core {
    /// When the element is to be told of its deadline. It is told once of each: one that stays due
    /// would take all the time there is.
    fn flow_deadline(&self) -> Option<Instant> {
        self.flow.get()?.deadline().filter(|deadline| self.told_deadline != Some(*deadline))
    }

    /// Tells the element if its deadline is reached.
    pub(super) fn expire_flow(&mut self, now: Instant) {
        let deadline = self.flow_deadline().filter(|deadline| *deadline <= now);
        if let (Some(deadline), Some(flow)) = (deadline, self.flow.get_mut()) {
            flow.on_deadline();
            self.told_deadline = Some(deadline);
            self.ready = Interest::BOTH;
        }
    }

    /// One step of the opening.
    pub(super) fn open_step(&mut self) -> Step {
        let Some(flow) = self.flow.get_mut() else { return Step::Blocked };
        match flow.connected() {
            Ok(()) => {
                self.flow.on_open();
                self.operations.on_moved(Lane::Open, 0, true);
                Step::Progress
            }
            Err(error) => Step::of(error),
        }
    }

    /// One step of the first read.
    pub(super) fn read_step(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> (usize, Step) {
        let Some(flow) = self.flow.get_mut() else { return (0, Step::Blocked) };
        let moved = read_once(flow, into, info);
        (moved.bytes, moved.apply(&mut self.operations, Lane::Read))
    }

    /// One step of the first write.
    pub(super) fn write_step(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> (usize, Step) {
        let (FlowState::Open { flow, holds_back }, Some(front)) = (&mut self.flow, self.operations.front(Lane::Write))
        else {
            return (0, Step::Blocked);
        };
        let moved = write_once(&mut **flow, front, *holds_back, from, info);
        (moved.bytes, moved.apply(&mut self.operations, Lane::Write))
    }

    /// Drives the first operation of each lane, if it is the reactor's and trying is worth it, until
    /// it is finished, blocks or had its share.
    pub(crate) fn drive(&mut self) {
        Lane::ALL.into_iter().for_each(|lane| self.drive_lane(lane));
    }

    /// The same for one lane.
    pub(super) fn drive_lane(&mut self, lane: Lane) {
        let front = self.operations.front(lane).filter(|front| front.owner == Owner::Reactor);
        let Some(id) = front.map(|front| front.id) else { return };
        for _ in 0..STEPS_PER_TURN {
            let first = self.operations.front(lane).is_some_and(|front| front.id == id);
            if !first || !self.is_ready(lane) || !self.reactor_step(lane, id) {
                return;
            }
        }
    }

    /// One step of a registered operation; false where it blocked.
    fn reactor_step(&mut self, lane: Lane, id: OperationId) -> bool {
        let Some(at) = self.slots.iter().position(|slot| slot.id == id) else { return false };
        let Some(front) = self.operations.front(lane) else { return false };
        let step = match (lane, &mut self.flow) {
            (Lane::Open, _) => self.open_step(),
            (Lane::Read, FlowState::Open { flow, .. }) => {
                let Slot { buffers, read, .. } = &mut self.slots[at];
                let moved = buffers.rest_mut(front.moved, |into| read_once(&mut **flow, into, read));
                moved.apply(&mut self.operations, lane)
            }
            (Lane::Write, FlowState::Open { flow, holds_back }) => {
                let Slot { buffers, write, .. } = &self.slots[at];
                let send = |from: &[IoSlice<'_>]| write_once(&mut **flow, front, *holds_back, from, write);
                buffers.rest(front.moved, send).apply(&mut self.operations, lane)
            }
            (_, FlowState::Absent | FlowState::Opening(_) | FlowState::Lent) => Step::Blocked,
        };
        self.after_step(lane, step)
    }

    /// What a step of a registered operation leads to; false where nothing more is to be tried.
    fn after_step(&mut self, lane: Lane, step: Step) -> bool {
        match step {
            Step::Progress => return true,
            Step::Blocked => {
                let wants = self.flow.get().map_or(Interest::NONE, |flow| flow.wants(asked(lane)));
                self.ready = self.ready.without(wants);
                self.operations.on_blocked(lane);
            }
            Step::Failed(error) => self.operations.on_failed(lane, error),
        }
        false
    }

    /// Takes out what the next call for a registered operation of `lane` needs, if one is worth trying.
    pub(super) fn begin_call(&mut self, lane: Lane) -> Option<PooledCall> {
        let front = self.operations.front(lane).filter(|front| front.owner == Owner::Reactor).copied()?;
        if !self.is_ready(lane) {
            return None;
        }
        let slot = self.slots.iter_mut().find(|slot| slot.id == front.id)?;
        let (flow, holds_back) = self.flow.lend()?;
        self.operations.on_called(lane);
        let buffers = std::mem::replace(&mut slot.buffers, Buffers::One(Vec::new()));
        let (read, write) = (slot.read, slot.write);
        Some(PooledCall { lane, front, flow, buffers, read, write, holds_back })
    }

    /// Puts it back, and notes what the call came to; false where nothing more is to be tried.
    pub(super) fn end_call(&mut self, call: PooledCall, moved: Moved) -> bool {
        let PooledCall { lane, front, flow, buffers, read, holds_back, .. } = call;
        self.flow.give_back(flow, holds_back);
        let Some(at) = self.slots.iter().position(|slot| slot.id == front.id) else { return false };
        self.slots[at].buffers = buffers;
        self.slots[at].read = read;
        if self.operations.on_returned(lane, moved.bytes) {
            return true;
        }
        let step = moved.apply(&mut self.operations, lane);
        self.after_step(lane, step)
    }

    /// The kernel cannot watch the descriptor: what the reactor drives cannot go on.
    pub(crate) fn fail_registered(&mut self, error: io::Error) {
        let kind = error.kind();
        for lane in Lane::ALL {
            while self.operations.front(lane).is_some_and(|front| front.owner == Owner::Reactor) {
                self.operations.on_failed(lane, Error::from_io(kind.into()));
            }
        }
    }

    fn is_ready(&self, lane: Lane) -> bool {
        self.flow
            .get()
            .is_some_and(|flow| lane == Lane::Read && flow.holds() || flow.wants(asked(lane)).meets(self.ready))
    }

    /// The next registered operation that is finished.
    pub(crate) fn take_completion(&mut self, shared: &Shared) -> Option<(Callback, Handle, Completed)> {
        let finished = self.operations.take_for_reactor()?;
        let at = self.slots.iter().position(|slot| slot.id == finished.id)?;
        let Slot { id, buffers, read, callback, handle, .. } = self.slots.swap_remove(at);
        let result = shared.result_of(finished).map(|bytes| Received { bytes, info: read });
        Some((callback, handle, Completed { operation: id, result, buffers }))
    }

    /// When the reactor has to look at it again, whatever the kernel says.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let slots = self.slots.iter().filter_map(|slot| slot.deadline);
        let closing = self.closing.as_ref().and_then(|closing| closing.deadline);
        let serves = !self.slots.is_empty() || self.closing.is_some();
        let flow = if serves { self.flow_deadline() } else { None };
        slots.chain(closing).chain(flow).min()
    }

    /// Ends what has run out of time.
    pub(crate) fn expire(&mut self, now: Instant) {
        let late = |slot: &&Slot| slot.deadline.is_some_and(|deadline| deadline <= now);
        let late: Vec<_> = self.slots.iter().filter(late).map(|slot| slot.id).collect();
        for id in late {
            self.operations.on_timeout(id);
        }
        self.expire_flow(now);
    }

    /// Whether an operation of the reactor's is to be tried.
    pub(crate) fn has_work(&self) -> bool {
        let mine = |lane: &Lane| self.operations.front(*lane).is_some_and(|front| front.owner == Owner::Reactor);
        Lane::ALL.iter().filter(|lane| mine(lane)).any(|lane| self.is_ready(*lane))
    }

    /// Whether an operation that a thread waits for is the first of its lane.
    pub(crate) fn caller_is_next(&self) -> bool {
        let mut fronts = Lane::ALL.into_iter().filter_map(|lane| self.operations.front(lane));
        fronts.any(|front| front.owner == Owner::Caller)
    }
}
