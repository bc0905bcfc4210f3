//! The real binary under strace, killed at a call on the file system, or told that the call failed: every call of every
//! [`crate::scenario::Scenario`], in turn, several at a time. One run walks the first call of each kind and one slice of the
//! others, which a seed chooses; the seed is the day, so that the runs of [`SLICES`] days walk all of them.

use crate::scenario::{Point, scenarios};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Calls by which a file is received, and what each may say instead of being made, in turn: errors, and of writes that nothing was
/// taken.
pub const CALLS: &[(&str, &[&str])] = &[
    // Seven: with six, which have a divisor in common with the slices, every second slice has no write that takes nothing.
    (
        "pwrite64",
        &["retval=0", "error=EIO", "error=ENOSPC", "error=EDQUOT", "error=EINTR", "error=ESTALE", "error=EROFS"],
    ),
    ("fsync", &["error=EIO", "error=ENOSPC", "error=EDQUOT", "error=EINTR", "error=ESTALE"]),
    ("fdatasync", &["error=EIO", "error=ENOSPC", "error=EDQUOT", "error=EINTR", "error=ESTALE"]),
    ("renameat", &["error=EIO", "error=ENOSPC", "error=EDQUOT", "error=EROFS", "error=ESTALE"]),
    ("renameat2", &["error=EIO", "error=ENOSPC", "error=EDQUOT", "error=EROFS", "error=ESTALE"]),
    ("linkat", &["error=EIO", "error=ENOSPC", "error=EDQUOT"]),
    ("mkdirat", &["error=EIO", "error=ENOSPC"]),
    (
        "openat",
        &["error=EMFILE", "error=EIO", "error=EINTR", "error=ENOSPC", "error=EDQUOT", "error=EROFS", "error=ESTALE"],
    ),
    (
        "openat2",
        &["error=EMFILE", "error=EIO", "error=EINTR", "error=ENOSPC", "error=EDQUOT", "error=EROFS", "error=ESTALE"],
    ),
    ("ftruncate", &["error=EIO", "error=EINTR", "error=ESTALE"]),
    ("fallocate", &["error=ENOSPC", "error=EDQUOT", "error=EIO", "error=EINTR", "error=EROFS"]),
    ("fchmod", &["error=EIO", "error=EINTR", "error=EROFS", "error=ESTALE"]),
    ("utimensat", &["error=EIO", "error=EINTR", "error=EROFS", "error=ESTALE"]),
    ("flock", &["error=EINTR", "error=EIO"]),
    ("unlinkat", &["error=EIO", "error=EINTR", "error=EROFS", "error=ESTALE"]),
    ("newfstatat", &["error=EIO", "error=EINTR", "error=ESTALE"]),
    ("fstatfs", &["error=EIO", "error=EINTR"]),
    ("pread64", &["error=EIO", "error=EINTR", "error=ESTALE"]),
];
/// Every error of [`CALLS`].
pub const ERRORS: &[&str] = &[
    "error=EIO",
    "error=ENOSPC",
    "error=EDQUOT",
    "error=EINTR",
    "error=EMFILE",
    "error=EROFS",
    "error=ESTALE",
    "retval=0",
];

/// What is done at the points.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strike {
    /// The program is killed.
    Kill,
    /// The call says something else, another thing at each index.
    Error,
}

/// A row of calls (one call in one scenario) is cut in so many slices; each run takes one of each row.
pub const SLICES: u64 = 4;

/// Which slice is walked, and which of its errors each call says: the seed of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Walk(u64);

impl Walk {
    /// That of `XDFS_CRASH_SEED`, or else of the day.
    pub fn of_today() -> Self {
        let asked =
            std::env::var("XDFS_CRASH_SEED").ok().map(|text| text.parse().expect("XDFS_CRASH_SEED is a number"));
        let day = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 86_400);
        Self(asked.unwrap_or_else(day))
    }

    /// The call of the slice that follows the call `index` of the row `row`.
    fn after(self, row: usize, index: usize) -> usize {
        let in_slice = |index: &usize| (self.0 + (row + index) as u64).is_multiple_of(SLICES);
        (index + 1..).find(in_slice).unwrap_or(usize::MAX)
    }

    fn injection(self, strike: Strike, row: usize, index: usize) -> &'static str {
        let (_, errors) = CALLS[row];
        let turn = (self.0 / SLICES) as usize;
        if strike == Strike::Kill { "signal=SIGKILL" } else { errors[(row + index + turn) % errors.len()] }
    }

    fn next(self) -> Self {
        Self(self.0 + 1)
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
    /// Rows (scenario, call) behind whose last call a run was made.
    pub exhausted: usize,
    /// All rows of the walk.
    pub rows: usize,
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
    walk: Walk,
    /// Points to try, each with the row of its call.
    open: VecDeque<(usize, Point)>,
    points: Points,
    failed: Option<String>,
}

/// Makes transfers with a strike at each call of the slice of `walk`, and then, with `XDFS_CRASH_STRIKES`, of the next ones until
/// there were so many.
pub fn sweep(strike: Strike, walk: Walk) -> Points {
    println!("slice {} of {SLICES}, seed {} (XDFS_CRASH_SEED): {strike:?}", walk.0 % SLICES, walk.0);
    let strikes: Option<usize> = std::env::var("XDFS_CRASH_STRIKES").ok().and_then(|text| text.parse().ok());
    let open = first_points(strike, walk);
    let points = Points { rows: open.len(), ..Points::default() };
    let work = Mutex::new(Work { walk, open, points, failed: None });
    let more = |work: &mut Work| {
        let Some(strikes) = strikes else { return true };
        if work.open.is_empty() {
            work.walk = work.walk.next();
            work.open = first_points(strike, work.walk);
            work.points.rows += work.open.len();
        }
        work.points.strikes < strikes
    };
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| worker(&work, strike, &more));
        }
    });
    let work = work.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(work.failed, None, "seed {}", work.walk.0);
    work.points
}

/// The first call of each row.
fn first_points(strike: Strike, walk: Walk) -> VecDeque<(usize, Point)> {
    let mut open = VecDeque::new();
    for (row, (call, _)) in CALLS.iter().enumerate() {
        for scenario in scenarios() {
            let (index, injection) = (1, walk.injection(strike, row, 1));
            open.push_back((row, Point { scenario, call, injection, index }));
        }
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
        let walk = state.walk;
        drop(state);
        let outcome = std::panic::catch_unwind(|| point.run());
        let mut state = lock(work);
        match outcome {
            Ok(ending) if ending.reached => {
                state.points.completed += usize::from(ending.completed);
                state.points.strikes += 1;
                state.points.injected.insert(point);
                let index = walk.after(row, point.index);
                let injection = walk.injection(strike, row, index);
                state.open.push_back((row, Point { index, injection, ..point }));
            }
            Ok(_) => state.points.exhausted += 1,
            // What was wrong is on standard error already.
            Err(_) => state.failed = Some(format!("{point:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slices_of_successive_runs_are_all_calls_once() {
        for row in 0..3 * SLICES as usize {
            let calls =
                |walk: Walk| std::iter::successors(Some(walk.after(row, 0)), move |&at| Some(walk.after(row, at)));
            let days = (20_000..20_000 + SLICES).map(Walk);
            let mut all: Vec<usize> = days.flat_map(|walk| calls(walk).take_while(|index| *index <= 100)).collect();
            all.sort_unstable();
            assert_eq!(all, (1..=100).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_writes_of_every_slice_say_every_error() {
        let (_, errors) = CALLS[0];
        for walk in (20_000..20_000 + 4 * SLICES).map(Walk) {
            let calls = std::iter::successors(Some(walk.after(0, 0)), |&at| Some(walk.after(0, at)));
            let said = calls.take(errors.len()).map(|index| walk.injection(Strike::Error, 0, index));
            assert_eq!(said.collect::<BTreeSet<_>>().len(), errors.len());
        }
    }

    #[test]
    fn a_call_says_every_error_over_successive_walks() {
        for (row, (_, errors)) in CALLS.iter().enumerate() {
            let walks = (0..errors.len() as u64).map(|turn| Walk(turn * SLICES));
            let said: BTreeSet<_> = walks.map(|walk| walk.injection(Strike::Error, row, 1)).collect();
            assert_eq!(said.len(), errors.len());
        }
    }
}
