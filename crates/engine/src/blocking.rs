//! The bounded pool for storage calls that may take long: open, stage, check, commit (design rule 11). A pipeline's thread
//! never waits for a disk that does not answer; a share per export keeps one hung export from taking every thread.

use crate::bounds;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

/// Cores that this process may use.
pub fn cores() -> usize {
    // Asked once: the system's answer is spread over several files.
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// What a thread of the pool runs.
pub type Task = Box<dyn FnOnce() + Send>;

/// Names the storage that a call goes to: an export on the server, the local side on a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Share(pub u32);

#[derive(Default)]
struct State {
    waiting: VecDeque<(Share, Task)>,
    running: Vec<Share>,
    threads: usize,
    idle: usize,
    closed: bool,
}

struct Inner {
    state: Mutex<State>,
    changed: Condvar,
    threads_max: usize,
}

/// See the module. Clones share the threads; they end when the last clone is gone.
#[derive(Clone)]
pub struct Blocking {
    inner: Arc<Inner>,
    /// Threads of their own for calls that read a whole file: the others do not wait behind them.
    long: Arc<Inner>,
    /// And threads for batches of calls, which are many and short.
    calls: Arc<Inner>,
    _closer: Arc<Closer>,
}

struct Closer([Arc<Inner>; 3]);

impl Drop for Closer {
    fn drop(&mut self) {
        for inner in &self.0 {
            lock(&inner.state).closed = true;
            inner.changed.notify_all();
        }
    }
}

/// A panicking task holds no lock of ours: the state is whole even then.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Blocking {
    fn default() -> Self {
        Self::new(bounds::BLOCKING_THREADS)
    }
}

impl std::fmt::Debug for Blocking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = lock(&self.inner.state);
        write!(f, "Blocking({} waiting, {} running)", state.waiting.len(), state.running.len())
    }
}

impl Blocking {
    /// A pool of at most `threads_max` threads, started when they are needed.
    pub fn new(threads_max: usize) -> Self {
        let inner = |threads_max: usize| {
            Arc::new(Inner { state: Mutex::default(), changed: Condvar::new(), threads_max: threads_max.max(1) })
        };
        let (long, calls) = (inner(bounds::LONG_THREADS), inner(crate::pump::call_threads()));
        let inner = inner(threads_max);
        let closer = Closer([Arc::clone(&inner), Arc::clone(&long), Arc::clone(&calls)]);
        Self { _closer: Arc::new(closer), inner, long, calls }
    }

    /// Runs `task` on a thread of the pool. False when too many wait: the caller answers "busy".
    #[must_use]
    pub fn submit(&self, share: Share, task: Task) -> bool {
        submit(&self.inner, share, task)
    }

    /// The same for a task that reads a file from end to end.
    #[must_use]
    pub fn submit_long(&self, share: Share, task: Task) -> bool {
        submit(&self.long, share, task)
    }

    /// The same for a batch of calls.
    #[must_use]
    pub fn submit_calls(&self, share: Share, task: Task) -> bool {
        submit(&self.calls, share, task)
    }
}

fn submit(pool: &Arc<Inner>, share: Share, task: Task) -> bool {
    let mut state = lock(&pool.state);
    if state.waiting.len() >= bounds::BLOCKING_QUEUE {
        return false;
    }
    state.waiting.push_back((share, task));
    if state.waiting.len() > state.idle && state.threads < pool.threads_max {
        let inner = Arc::clone(pool);
        let started = thread::Builder::new().name("xdfs-storage".into()).spawn(move || work(&inner));
        if started.is_ok() {
            state.threads += 1;
        } else if state.threads == 0 {
            state.waiting.pop_back();
            return false;
        }
    }
    // Who is at work looks for more before it sleeps.
    let wake = state.idle > 0;
    drop(state);
    if wake {
        pool.changed.notify_one();
    }
    true
}

/// The next task whose share is not used up: one share gets all threads but one, unless there is only one thread.
fn next_task(state: &mut State, threads_max: usize) -> Option<(Share, Task)> {
    let most = (threads_max - 1).max(1);
    let free = |share: Share, running: &[Share]| running.iter().filter(|one| **one == share).count() < most;
    let index = state.waiting.iter().position(|(share, _)| free(*share, &state.running))?;
    state.waiting.remove(index)
}

fn work(inner: &Inner) {
    let mut state = lock(&inner.state);
    loop {
        if let Some((share, task)) = next_task(&mut state, inner.threads_max) {
            state.running.push(share);
            drop(state);
            // A task that panics takes its answer with it, not the pool.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(task));
            state = lock(&inner.state);
            if let Some(index) = state.running.iter().position(|one| *one == share) {
                state.running.swap_remove(index);
            }
            continue;
        }
        if state.closed && state.waiting.is_empty() {
            state.threads -= 1;
            return;
        }
        state.idle += 1;
        state = inner.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn a_hung_share_leaves_a_thread_for_the_others() {
        let pool = Blocking::new(3);
        let (release, hung) = sync_channel::<()>(0);
        let hung = Arc::new(Mutex::new(hung));
        for _ in 0..10 {
            let hung = Arc::clone(&hung);
            assert!(pool.submit(Share(1), Box::new(move || drop(hung.lock().map(|hung| hung.recv())))));
        }
        let (done, finished) = sync_channel(1);
        assert!(pool.submit(Share(2), Box::new(move || assert!(done.send(()).is_ok()))));
        finished.recv().unwrap();
        drop(release);
    }

    #[test]
    fn calls_that_take_long_leave_the_others_alone() {
        let pool = Blocking::new(1);
        let (release, hung) = sync_channel::<()>(0);
        let hang = move || {
            let _ = hung.recv();
        };
        assert!(pool.submit_long(Share(1), Box::new(hang)));
        let (done, finished) = sync_channel(1);
        assert!(pool.submit(Share(1), Box::new(move || assert!(done.send(()).is_ok()))));
        finished.recv().unwrap();
        drop(release);
    }

    #[test]
    fn a_panicking_task_does_not_end_the_pool() {
        let pool = Blocking::new(1);
        assert!(pool.submit(Share(0), Box::new(|| panic!("on purpose"))));
        let (done, finished) = sync_channel(1);
        assert!(pool.submit(Share(0), Box::new(move || assert!(done.send(7).is_ok()))));
        assert_eq!(finished.recv(), Ok(7));
    }
}
