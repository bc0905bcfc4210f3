//! A few threads for calls that may take as long as a disk or a name server does. Each handle has
//! one such call at a time, so the queue is no longer than the list of handles.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Most threads. They spend their time waiting; more would not make a disk faster.
const THREADS_MAX: usize = 8;

/// A piece of work.
type Job = Box<dyn FnOnce() + Send>;

struct Pool {
    state: Mutex<State>,
    work: Condvar,
}

struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

static POOL: Pool =
    Pool { state: Mutex::new(State { jobs: VecDeque::new(), threads: 0, idle: 0 }), work: Condvar::new() };

/// Runs `job` on a thread that may wait.
pub(crate) fn submit(job: Job) {
    let mut state = lock();
    state.jobs.push_back(job);
    if state.idle < state.jobs.len() && state.threads < THREADS_MAX {
        let started = std::thread::Builder::new().name("xio-pool".to_owned()).spawn(run);
        // Without a thread more, those that are there do it; without any, it waits for the next try.
        if started.is_ok() {
            state.threads += 1;
        }
    }
    drop(state);
    POOL.work.notify_one();
}

fn lock() -> MutexGuard<'static, State> {
    POOL.state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run() {
    let mut state = lock();
    loop {
        if let Some(job) = state.jobs.pop_front() {
            drop(state);
            // A panic of one job is not the others' concern; the drivers' are caught below.
            let _ = catch_unwind(AssertUnwindSafe(job));
            state = lock();
        } else {
            state.idle += 1;
            state = POOL.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}
