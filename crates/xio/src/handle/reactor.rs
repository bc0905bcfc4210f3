//! The one thread that drives registered operations and calls callbacks. It waits for the kernel
//! (`epoll`, edge-triggered, one entry a handle), for deadlines and for handles that somebody
//! changed; it never waits for a driver, a peer or a disk.

use super::IN_CALLBACK;
use super::close_step::{CloseStep, too_slow};
use super::core::{Core, Shared, Watched, milliseconds_until};
use super::step::STEPS_PER_TURN;
use crate::error::{Error, Result};
use crate::operations::{Lane, Phase};
use crate::pool;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Instant;
use xdfs_io::stack::Interest;

/// The token of the event that wakes the reactor.
const WAKE: u64 = 0;
/// Callbacks of one handle before others have their turn.
const CALLBACKS_PER_TURN: usize = 32;
/// Events that one call of the kernel returns.
const EVENTS: usize = 256;

static REACTOR: OnceLock<std::io::Result<Reactor>> = OnceLock::new();
static NEXT_TOKEN: AtomicU64 = AtomicU64::new(WAKE + 1);

/// A name for a handle.
pub(crate) fn new_token() -> u64 {
    NEXT_TOKEN.fetch_add(1, Ordering::Relaxed)
}

/// What other threads see of the reactor.
pub(crate) struct Reactor {
    wake: Arc<OwnedFd>,
    inbox: Arc<Mutex<Inbox>>,
}

/// What the reactor is told. At most one entry for each handle, and one for each that is dropped.
#[derive(Default)]
struct Inbox {
    changed: VecDeque<Arc<Shared>>,
    forgotten: Vec<u64>,
    /// The reactor works, or was woken: it will look here before it waits.
    awake: bool,
}

impl Reactor {
    /// Fails where the kernel has no descriptor or thread for the reactor.
    pub(crate) fn check() -> Result<()> {
        let started = REACTOR.get_or_init(Self::start).as_ref();
        started.map(drop).map_err(|error| Error::from_io(std::io::Error::from(error.kind())))
    }

    /// Something changed for this handle: it gets a turn.
    pub(crate) fn notify(shared: &Arc<Shared>) {
        if shared.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        Self::tell(|inbox| inbox.changed.push_back(shared.clone()));
    }

    /// The handle with this token is gone.
    pub(crate) fn forget(token: u64) {
        Self::tell(|inbox| inbox.forgotten.push(token));
    }

    fn tell(what: impl FnOnce(&mut Inbox)) {
        let Ok(reactor) = REACTOR.get_or_init(Self::start) else { return };
        let mut inbox = lock(&reactor.inbox);
        what(&mut inbox);
        if !std::mem::replace(&mut inbox.awake, true) {
            // It fails only where it is already set.
            let _ = rustix::io::write(&reactor.wake, &1u64.to_ne_bytes());
        }
    }

    fn start() -> std::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        let inbox = Arc::new(Mutex::new(Inbox::default()));
        let (handles, deadlines) = (HashMap::new(), BTreeSet::new());
        let own = Loop { epoll, wake: wake.clone(), inbox: inbox.clone(), handles, deadlines };
        std::thread::Builder::new().name("xio-reactor".to_owned()).spawn(|| own.run())?;
        Ok(Self { wake, inbox })
    }
}

fn lock(inbox: &Mutex<Inbox>) -> MutexGuard<'_, Inbox> {
    inbox.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The reactor's own side.
struct Loop {
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    inbox: Arc<Mutex<Inbox>>,
    /// The handles that the kernel or a deadline may name.
    handles: HashMap<u64, Weak<Shared>>,
    deadlines: BTreeSet<(Instant, u64)>,
}

impl Loop {
    fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            self.serve_inbox();
            self.serve_deadlines();
            let timeout = self.timeout().map(|milliseconds| Timespec {
                tv_sec: i64::from(milliseconds / 1000),
                tv_nsec: i64::from(milliseconds % 1000) * 1_000_000,
            });
            // An interrupted call returned nothing.
            let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref());
            lock(&self.inbox).awake = true;
            for event in events.drain(..) {
                self.on_event(event.data.u64(), event.flags);
            }
        }
    }

    /// How long to wait for the kernel, milliseconds.
    fn timeout(&self) -> Option<i32> {
        let mut inbox = lock(&self.inbox);
        if !inbox.changed.is_empty() || !inbox.forgotten.is_empty() {
            return Some(0);
        }
        inbox.awake = false;
        self.deadlines.first().map(|first| milliseconds_until(first.0))
    }

    fn on_event(&mut self, token: u64, flags: EventFlags) {
        if token == WAKE {
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
            return;
        }
        let Some(shared) = self.handles.get(&token).and_then(Weak::upgrade) else { return };
        let failed = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        let read = failed || flags.intersects(EventFlags::IN | EventFlags::RDHUP);
        let write = failed || flags.contains(EventFlags::OUT);
        self.turn(&shared, Interest { read, write });
    }

    /// Gives each handle that changed a turn.
    fn serve_inbox(&mut self) {
        let (changed, forgotten) = {
            let mut inbox = lock(&self.inbox);
            (std::mem::take(&mut inbox.changed), std::mem::take(&mut inbox.forgotten))
        };
        for token in forgotten {
            self.handles.remove(&token);
        }
        for shared in changed {
            shared.queued.store(false, Ordering::Release);
            self.turn(&shared, Interest::NONE);
        }
    }

    fn serve_deadlines(&mut self) {
        // What becomes due meanwhile, or is due again, has its turn after the kernel's events.
        let later = self.deadlines.split_off(&(Instant::now(), u64::MAX));
        for (_, token) in std::mem::replace(&mut self.deadlines, later) {
            if let Some(shared) = self.handles.get(&token).and_then(Weak::upgrade) {
                self.turn(&shared, Interest::NONE);
            }
        }
    }

    /// Drives a handle and calls its callbacks until there is nothing to do, or others have waited
    /// long enough.
    fn turn(&mut self, shared: &Arc<Shared>, ready: Interest) {
        if shared.pooled.load(Ordering::Acquire) {
            // It has no descriptor, so no event is lost. Its thread gives it another turn.
            return;
        }
        let mut core = shared.lock();
        core.ready = core.ready.with(ready);
        for _ in 0..CALLBACKS_PER_TURN {
            self.watch(shared, &mut core);
            if core.deadline().is_some() {
                core.expire(Instant::now());
            }
            let may_wait = core.flow.get().is_some_and(|flow| flow.descriptor().is_none());
            if !may_wait {
                core.drive();
                // It may have another descriptor now: that of the next address of a name.
                self.watch(shared, &mut core);
            }
            if let Some((callback, handle, completed)) = core.take_completion(shared) {
                if core.caller_is_next() {
                    shared.tell_waiting();
                }
                drop(core);
                call(|| callback(&handle, completed));
                drop(handle);
                core = shared.lock();
                core.operations.on_told();
                if core.operations.phase() == Phase::Closing {
                    shared.tell_waiting();
                }
                continue;
            }
            if core.has_work() {
                if may_wait {
                    submit(shared);
                    return;
                }
                break;
            }
            if let Some(mut core) = self.close(shared, core) {
                self.note_deadline(shared, &mut core);
            }
            return;
        }
        drop(core);
        Reactor::notify(shared);
    }

    /// Asks the kernel to report on the handle's descriptors, which change while it opens.
    fn watch(&mut self, shared: &Arc<Shared>, core: &mut Core) {
        let Some(flow) = core.flow.get() else { return };
        let Some(watched) = Watched::of(flow) else { return };
        if core.watched == Some(watched) {
            return;
        }
        let descriptors = [flow.descriptor(), flow.sending_descriptor()];
        let added = descriptors.into_iter().flatten().try_for_each(|descriptor| self.add(shared, descriptor));
        match added {
            Ok(()) => {
                core.watched = Some(watched);
                core.ready = Interest::BOTH;
                self.handles.insert(shared.token, Arc::downgrade(shared));
            }
            Err(error) => core.fail_registered(error.into()),
        }
    }

    fn add(&self, shared: &Shared, descriptor: BorrowedFd<'_>) -> rustix::io::Result<()> {
        let data = EventData::new_u64(shared.token);
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        match epoll::add(&self.epoll, descriptor, data, flags) {
            Err(rustix::io::Errno::EXIST) => epoll::modify(&self.epoll, descriptor, data, flags),
            result => result,
        }
    }

    fn note_deadline(&mut self, shared: &Arc<Shared>, core: &mut Core) {
        if let Some(old) = core.noted.take() {
            self.deadlines.remove(&(old, shared.token));
        }
        if let Some(deadline) = core.deadline() {
            core.noted = Some(deadline);
            self.deadlines.insert((deadline, shared.token));
            self.handles.entry(shared.token).or_insert_with(|| Arc::downgrade(shared));
        }
    }

    /// Closes the drivers if that is due, and tells; the lock comes back where it is not.
    fn close<'a>(&mut self, shared: &Arc<Shared>, mut core: MutexGuard<'a, Core>) -> Option<MutexGuard<'a, Core>> {
        let Some(closing) = core.closing.as_ref().filter(|_| core.operations.is_quiet()) else { return Some(core) };
        let late = closing.deadline.is_some_and(|deadline| deadline <= Instant::now());
        let result = match core.close_step() {
            CloseStep::Done(result) => result,
            _ if late => Err(too_slow()),
            step => {
                // It may have another descriptor now: that of the program's end.
                self.watch(shared, &mut core);
                if matches!(step, CloseStep::Again) {
                    Reactor::notify(shared);
                }
                return Some(core);
            }
        };
        let flow = std::mem::take(&mut core.flow);
        let closing = core.closing.take();
        core.operations.on_closed();
        core.watched = None;
        if let Some(noted) = core.noted.take() {
            self.deadlines.remove(&(noted, shared.token));
        }
        drop(core);
        drop(flow);
        self.handles.remove(&shared.token);
        if let Some(closing) = closing {
            call(|| (closing.callback)(result.map_err(|error| error.of_stack(&shared.stack))));
        }
        None
    }
}

/// Calls a callback. Its panic is its own: other handles go on.
fn call(callback: impl FnOnce()) {
    IN_CALLBACK.set(true);
    let _ = catch_unwind(AssertUnwindSafe(callback));
    IN_CALLBACK.set(false);
}

/// Drives a handle without a descriptor on a thread that may wait for a disk.
fn submit(shared: &Arc<Shared>) {
    shared.pooled.store(true, Ordering::Release);
    let shared = shared.clone();
    pool::submit(Box::new(move || {
        drive_pooled(&shared);
        shared.pooled.store(false, Ordering::Release);
        Reactor::notify(&shared);
    }));
}

/// Drives the registered operations of a handle without a descriptor, on a thread that may wait.
fn drive_pooled(shared: &Shared) {
    shared.lock().drive_lane(Lane::Open);
    for lane in [Lane::Read, Lane::Write] {
        for _ in 0..STEPS_PER_TURN {
            let Some(mut call) = shared.lock().begin_call(lane) else { break };
            let moved = call.run();
            let mut core = shared.lock();
            let again = core.end_call(call, moved);
            shared.wake(&core);
            if !again {
                break;
            }
        }
    }
}
