//! The real binary under strace, killed at a call on the file system, or told that the call failed: every call of every
//! [`Scenario`], in turn, several at a time.

use crate::scenario::{Point, Scenario, scenarios};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Calls by which a file is received.
pub const CALLS: &[&str] = &[
    "pwrite64",
    "fsync",
    "fdatasync",
    "renameat",
    "renameat2",
    "openat",
    "openat2",
    "ftruncate",
    "fallocate",
    "fchmod",
    "utimensat",
    "flock",
    "unlinkat",
    "newfstatat",
    "fstatfs",
];
/// What a call may say instead of being made: errors, and for writes that nothing was taken.
pub const ERRORS: &[&str] = &["error=EIO", "error=ENOSPC", "error=EDQUOT", "error=EINTR", "error=EMFILE", "retval=0"];

/// Runs at the same time: they wait for one another's processes and syncs more than they compute.
const WORKERS: usize = 6;

/// What was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Points {
    /// Points at which something was done.
    pub injected: BTreeSet<Point>,
    /// Runs that ended in a complete file all the same.
    pub completed: usize,
    /// Rows (scenario, call, injection) behind whose last call a run was made.
    pub exhausted: usize,
}

impl Points {
    /// Distinct programs, calls and indexes, whatever was injected there.
    pub fn places(&self) -> usize {
        let place = |point: &Point| (point.scenario, point.call, point.index);
        self.injected.iter().map(place).collect::<BTreeSet<_>>().len()
    }
}

struct Work {
    open: VecDeque<Point>,
    points: Points,
    failed: Option<String>,
}

/// Makes transfers with each injection at the first call of each kind, then the second, and so on until no kind has more, or
/// `enough` points were reached; with `XDFS_CRASH_SECONDS`, until that time is over instead.
pub fn sweep(injections: &[&'static str], enough: usize) -> Points {
    let seconds: Option<u64> = std::env::var("XDFS_CRASH_SECONDS").ok().and_then(|text| text.parse().ok());
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let row =
        |scenario: Scenario, call: &'static str, injection: &'static str| Point { scenario, call, injection, index: 1 };
    let mut open = VecDeque::new();
    for call in CALLS {
        for injection in injections {
            // A return value of nothing is a failure of writes only; of other calls it is their success.
            if !injection.starts_with("retval") || *call == "pwrite64" {
                open.extend(scenarios().into_iter().map(|scenario| row(scenario, call, injection)));
            }
        }
    }
    let work = Mutex::new(Work { open, points: Points::default(), failed: None });
    let more = |work: &Work| match until {
        Some(until) => Instant::now() < until,
        None => work.points.injected.len() < enough,
    };
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| worker(&work, &more));
        }
    });
    let work = work.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(work.failed, None);
    work.points
}

fn lock(work: &Mutex<Work>) -> MutexGuard<'_, Work> {
    work.lock().unwrap_or_else(PoisonError::into_inner)
}

fn worker(work: &Mutex<Work>, more: &impl Fn(&Work) -> bool) {
    loop {
        let mut state = lock(work);
        if state.failed.is_some() || !more(&state) {
            return;
        }
        let Some(point) = state.open.pop_front() else { return };
        drop(state);
        let outcome = std::panic::catch_unwind(|| point.run());
        let mut state = lock(work);
        match outcome {
            Ok(ending) if ending.reached => {
                state.points.completed += usize::from(ending.completed);
                state.points.injected.insert(point);
                state.open.push_back(Point { index: point.index + 1, ..point });
            }
            Ok(_) => state.points.exhausted += 1,
            // What was wrong is on standard error already.
            Err(_) => state.failed = Some(format!("{point:?}")),
        }
    }
}
