//! The real binary under strace, killed at a call on the file system, or told that the call failed: every call of every
//! [`Scenario`], in turn, several at a time.

use crate::scenario::{Point, Scenario, scenarios};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Calls by which a file is received, and what each may say instead of being made, in turn: errors, and of writes that nothing was
/// taken.
pub const CALLS: &[(&str, &[&str])] = &[
    ("pwrite64", &["error=EIO", "error=ENOSPC", "error=EDQUOT", "error=EINTR", "retval=0"]),
    ("fsync", &["error=EIO", "error=ENOSPC", "error=EDQUOT", "error=EINTR"]),
    ("fdatasync", &["error=EIO", "error=ENOSPC", "error=EDQUOT", "error=EINTR"]),
    ("renameat", &["error=EIO", "error=ENOSPC", "error=EDQUOT"]),
    ("renameat2", &["error=EIO", "error=ENOSPC", "error=EDQUOT"]),
    ("openat", &["error=EMFILE", "error=EIO", "error=EINTR", "error=ENOSPC", "error=EDQUOT"]),
    ("openat2", &["error=EMFILE", "error=EIO", "error=EINTR", "error=ENOSPC", "error=EDQUOT"]),
    ("ftruncate", &["error=EIO", "error=EINTR"]),
    ("fallocate", &["error=ENOSPC", "error=EDQUOT", "error=EIO", "error=EINTR"]),
    ("fchmod", &["error=EIO", "error=EINTR"]),
    ("utimensat", &["error=EIO", "error=EINTR"]),
    ("flock", &["error=EINTR", "error=EIO"]),
    ("unlinkat", &["error=EIO", "error=EINTR"]),
    ("newfstatat", &["error=EIO", "error=EINTR"]),
    ("fstatfs", &["error=EIO", "error=EINTR"]),
    ("pread64", &["error=EIO", "error=EINTR"]),
];
/// Every error of [`CALLS`].
pub const ERRORS: &[&str] = &["error=EIO", "error=ENOSPC", "error=EDQUOT", "error=EINTR", "error=EMFILE", "retval=0"];

/// What is done at the points.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strike {
    /// The program is killed.
    Kill,
    /// The call says something else, another thing at each index.
    Error,
}

impl Strike {
    fn injection(self, row: usize, index: usize) -> &'static str {
        let (_, errors) = CALLS[row];
        if self == Self::Kill { "signal=SIGKILL" } else { errors[(row + index) % errors.len()] }
    }
}

/// Runs at the same time: they wait for one another's processes and syncs more than they compute.
const WORKERS: usize = 6;

/// What was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Points {
    /// Runs in which something was done.
    pub strikes: usize,
    /// Points at which it was.
    pub injected: BTreeSet<Point>,
    /// Runs that ended in a complete file all the same.
    pub completed: usize,
    /// Rows (scenario, call, injection) behind whose last call a run was made.
    pub exhausted: usize,
}

impl Points {
    /// Distinct programs with their transfers, calls and indexes, whatever was injected there.
    pub fn places(&self) -> usize {
        let place = |point: &Point| (point.scenario, point.call, point.index);
        self.injected.iter().map(place).collect::<BTreeSet<_>>().len()
    }

    /// How often each thing was injected.
    pub fn kinds(&self) -> BTreeMap<&'static str, usize> {
        let mut kinds = BTreeMap::new();
        self.injected.iter().for_each(|point| *kinds.entry(point.injection).or_default() += 1);
        kinds
    }
}

struct Work {
    /// Points to try, each with the row of its call.
    open: VecDeque<(usize, Point)>,
    points: Points,
    failed: Option<String>,
}

/// Makes transfers with a strike at the first call of each kind, then the second, and so on until no kind has more, or
/// `enough` points were reached; with `XDFS_CRASH_STRIKES`, from the first again until there were so many.
pub fn sweep(strike: Strike, enough: usize) -> Points {
    let strikes: Option<usize> = std::env::var("XDFS_CRASH_STRIKES").ok().and_then(|text| text.parse().ok());
    let work = Mutex::new(Work { open: first_points(strike), points: Points::default(), failed: None });
    let more = |work: &mut Work| match strikes {
        Some(strikes) => {
            if work.open.is_empty() {
                work.open = first_points(strike);
            }
            work.points.strikes < strikes
        }
        None => work.points.strikes < enough,
    };
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| worker(&work, strike, &more));
        }
    });
    let work = work.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(work.failed, None);
    work.points
}

/// The first call of each kind, in each scenario.
fn first_points(strike: Strike) -> VecDeque<(usize, Point)> {
    let mut open = VecDeque::new();
    for (row, (call, _)) in CALLS.iter().enumerate() {
        let injection = strike.injection(row, 1);
        let first = |scenario: Scenario| (row, Point { scenario, call, injection, index: 1 });
        open.extend(scenarios().into_iter().map(first));
    }
    open
}

fn lock(work: &Mutex<Work>) -> MutexGuard<'_, Work> {
    work.lock().unwrap_or_else(PoisonError::into_inner)
}

fn worker(work: &Mutex<Work>, strike: Strike, more: &impl Fn(&mut Work) -> bool) {
    loop {
        let mut state = lock(work);
        if state.failed.is_some() || !more(&mut state) {
            return;
        }
        let Some((row, point)) = state.open.pop_front() else { return };
        drop(state);
        let outcome = std::panic::catch_unwind(|| point.run());
        let mut state = lock(work);
        match outcome {
            Ok(ending) if ending.reached => {
                state.points.completed += usize::from(ending.completed);
                state.points.strikes += 1;
                state.points.injected.insert(point);
                let index = point.index + 1;
                state.open.push_back((row, Point { index, injection: strike.injection(row, index), ..point }));
            }
            Ok(_) => state.points.exhausted += 1,
            // What was wrong is on standard error already.
            Err(_) => state.failed = Some(format!("{point:?}")),
        }
    }
}
