//! The threads for storage calls that may block. A pipeline's thread never waits for a disk that
//! does not answer, and one user's work does not delay the others': the [`Scheduler`] picks the
//! next job, and long work is cut into slices.

use crate::bounds;
use crate::schedule::{Limits, QuotaClass, SLICE, ScheduleStep, Scheduler, Ticket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

/// The time that a job may run before it yields.
#[derive(Debug)]
pub struct Slice(Instant);

impl Slice {
    /// Starts a slice now.
    pub fn start() -> Self {
        Self(Instant::now() + SLICE)
    }

    /// Whether the job must yield. Checked between two units of work, each of which takes a small
    /// part of a slice.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.0
    }
}

/// A task that a thread of the pool runs: it is called again, after the jobs of others, until it is
/// ready.
pub type PoolTask = Box<dyn FnMut(&Slice) -> Poll<()> + Send>;

struct PoolState {
    schedule: Scheduler<PoolTask>,
    threads: usize,
    /// Threads that will check the queue, now or when they are woken.
    idle: usize,
    closed: bool,
}

struct Pool {
    name: &'static str,
    state: Mutex<PoolState>,
    changed: Condvar,
    threads_max: usize,
    /// Time 0 of the schedule.
    began: Instant,
}

/// The thread pool for storage calls that may block. Clones share the threads; they end with the
/// last clone.
#[derive(Clone)]
pub struct Blocking {
    /// Calls that cannot be sliced: open, stage, check, commit.
    storage: Arc<Pool>,
    /// Work that is cut into slices: hashes and batches of calls.
    sliced: Arc<Pool>,
    _closer: Arc<Closer>,
}

struct Closer([Arc<Pool>; 2]);

impl Drop for Closer {
    fn drop(&mut self) {
        for pool in &self.0 {
            pool.lock().closed = true;
            pool.changed.notify_all();
        }
    }
}

impl Default for Blocking {
    fn default() -> Self {
        Self::of(bounds::storage_limits(), bounds::sliced_limits())
    }
}

impl std::fmt::Debug for Blocking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (storage, sliced) = (self.storage.lock(), self.sliced.lock());
        let (waiting, running) = (storage.schedule.waiting(), storage.schedule.running());
        write!(f, "Blocking({waiting} waiting, {running} running; ")?;
        write!(f, "sliced: {} waiting, {} running)", sliced.schedule.waiting(), sliced.schedule.running())
    }
}

impl Blocking {
    /// Threads for one purpose: at most `threads_max`, all of which any share may use.
    pub fn undivided(threads_max: usize) -> Self {
        let limits = Limits { running: threads_max.max(1), divided: false, ..bounds::storage_limits() };
        Self::of(limits, Limits { divided: false, ..bounds::sliced_limits() })
    }

    fn of(storage: Limits, sliced: Limits) -> Self {
        let (storage, sliced) = (Pool::new("xdfs-storage", storage), Pool::new("xdfs-sliced", sliced));
        let closer = Closer([Arc::clone(&storage), Arc::clone(&sliced)]);
        Self { _closer: Arc::new(closer), storage, sliced }
    }

    /// Runs `job` on a thread of the pool. Returns false when too many jobs of its user are
    /// waiting: the caller replies "busy".
    #[must_use]
    pub fn submit(&self, share: &QuotaClass, job: impl FnOnce() + Send + 'static) -> bool {
        let mut job = Some(job);
        let task = move |_: &Slice| {
            if let Some(job) = job.take() {
                job();
            }
            Poll::Ready(())
        };
        self.storage.add(|schedule| schedule.push(share, Box::new(task)))
    }

    /// The same for work that yields when its slice is over.
    #[must_use]
    pub fn submit_sliced(&self, share: &QuotaClass, task: PoolTask) -> bool {
        self.sliced.add(|schedule| schedule.push(share, task))
    }

    /// Resumes work that was submitted before and waited for something other than a thread.
    pub fn resume_sliced(&self, share: &QuotaClass, task: PoolTask) {
        let put_back = |schedule: &mut Scheduler<PoolTask>| {
            schedule.put_back(share, task);
            Ok(())
        };
        // Where no thread can be started, the job waits for a running one.
        let _ = self.sliced.add(put_back);
    }
}

impl Pool {
    fn new(name: &'static str, limits: Limits) -> Arc<Self> {
        let state = PoolState { schedule: Scheduler::new(limits), threads: 0, idle: 0, closed: false };
        let (state, changed, began) = (Mutex::new(state), Condvar::new(), Instant::now());
        Arc::new(Self { name, state, changed, threads_max: limits.running, began })
    }

    /// A panicking task holds none of these locks: the state is consistent even then.
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(self: &Arc<Self>, push: impl FnOnce(&mut Scheduler<PoolTask>) -> Result<(), PoolTask>) -> bool {
        let mut state = self.lock();
        // Without a thread nothing would ever run it.
        if state.threads == 0 && !self.start_thread(&mut state) {
            return false;
        }
        let taken = push(&mut state.schedule);
        self.call_another(&mut state);
        drop(state);
        // Dropping the contents of a rejected task may take time.
        taken.is_ok()
    }

    /// Makes sure that a thread checks the queue: it runs the job, or waits until the job may run.
    fn call_another(self: &Arc<Self>, state: &mut PoolState) {
        if state.schedule.waiting() == 0 {
            return;
        }
        if state.idle > 0 {
            self.changed.notify_one();
        } else if state.threads < self.threads_max {
            self.start_thread(state);
        }
    }

    fn start_thread(self: &Arc<Self>, state: &mut PoolState) -> bool {
        let pool = Arc::clone(self);
        let started = thread::Builder::new().name(self.name.into()).spawn(move || pool.work()).is_ok();
        state.threads += usize::from(started);
        state.idle += usize::from(started);
        started
    }

    fn work(self: &Arc<Self>) {
        let mut state = self.lock();
        state.idle -= 1;
        loop {
            let now = self.began.elapsed();
            state = match state.schedule.next(now) {
                ScheduleStep::Run(ticket, task) => self.run(state, ticket, task),
                ScheduleStep::At(then) => self.wait(state, Some(then.saturating_sub(now))),
                ScheduleStep::Nothing if state.closed && state.schedule.waiting() == 0 => {
                    state.threads -= 1;
                    return;
                }
                ScheduleStep::Nothing => self.wait(state, None),
            };
        }
    }

    fn run<'s>(
        self: &'s Arc<Self>,
        mut state: MutexGuard<'s, PoolState>,
        ticket: Ticket,
        task: PoolTask,
    ) -> MutexGuard<'s, PoolState> {
        self.call_another(&mut state);
        drop(state);
        let again = run(task);
        let mut state = self.lock();
        state.schedule.on_end(ticket, self.began.elapsed(), again);
        if state.closed {
            // The others may have been waiting for this job alone.
            self.changed.notify_all();
        }
        state
    }

    fn wait<'s>(&self, mut state: MutexGuard<'s, PoolState>, time: Option<Duration>) -> MutexGuard<'s, PoolState> {
        state.idle += 1;
        let mut state = match time {
            Some(time) => self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0,
            None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        };
        state.idle -= 1;
        state
    }
}

/// Runs a task for one slice and returns it if work is left. If it panics, its reply is lost, but
/// the pool is not.
fn run(mut task: PoolTask) -> Option<PoolTask> {
    let slice = Slice::start();
    match catch_unwind(AssertUnwindSafe(|| task(&slice))) {
        Ok(Poll::Pending) => Some(task),
        Ok(Poll::Ready(())) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::sync_channel;

    fn share(user: &str, export: u32) -> QuotaClass {
        QuotaClass { user: user.into(), export }
    }

    /// Blocks until the returned sender is dropped.
    fn hang() -> (std::sync::mpsc::SyncSender<()>, impl Fn() + Clone + Send) {
        let (release, hung) = sync_channel::<()>(0);
        let hung = Arc::new(Mutex::new(hung));
        (release, move || drop(hung.lock().map(|hung| hung.recv())))
    }

    fn answers(pool: &Blocking, share: &QuotaClass) {
        let (done, finished) = sync_channel(1);
        let sliced = done.clone();
        assert!(pool.submit(share, move || assert!(done.send("a call").is_ok())));
        assert_eq!(finished.recv(), Ok("a call"));
        let task = move |_: &Slice| {
            assert!(sliced.send("a slice").is_ok());
            Poll::Ready(())
        };
        assert!(pool.submit_sliced(share, Box::new(task)));
        assert_eq!(finished.recv(), Ok("a slice"));
    }

    #[test]
    fn exports_that_hang_leave_threads_to_the_others() {
        let pool = Blocking::default();
        let (release, hang) = hang();
        for export in 1..4 {
            for _ in 0..100 {
                let (hang, sliced) = (hang.clone(), hang.clone());
                assert!(pool.submit(&share("ada", export), hang));
                let task = move |_: &Slice| {
                    sliced();
                    Poll::Ready(())
                };
                assert!(pool.submit_sliced(&share("ada", export), Box::new(task)));
            }
        }
        answers(&pool, &share("ada", 4));
        answers(&pool, &share("bob", 5));
        drop(release);
    }

    #[test]
    fn work_without_an_end_leaves_the_others_alone() {
        let pool = Blocking::default();
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..50 {
            let stop = Arc::clone(&stop);
            let task = move |slice: &Slice| {
                while !slice.is_over() {
                    std::hint::spin_loop();
                }
                if stop.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }
            };
            assert!(pool.submit_sliced(&share("ada", 1), Box::new(task)));
        }
        for _ in 0..5 {
            answers(&pool, &share("bob", 1));
        }
        stop.store(true, Ordering::Relaxed);
    }

    #[test]
    fn a_panicking_task_does_not_end_the_pool() {
        let pool = Blocking::undivided(1);
        assert!(pool.submit(&QuotaClass::default(), || panic!("on purpose")));
        answers(&pool, &QuotaClass::default());
    }

    #[test]
    fn one_user_who_fills_the_queue_is_told_so_and_nobody_else() {
        let pool = Blocking::undivided(1);
        let (release, hang) = hang();
        let many = (0..=bounds::WAITING_PER_USER + 1).map(|_| pool.submit(&share("ada", 1), hang.clone()));
        assert!(many.collect::<Vec<_>>().contains(&false));
        assert!(pool.submit(&share("bob", 1), || ()));
        drop(release);
    }
}
