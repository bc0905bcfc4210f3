//! All tests once while random threads of theirs get almost nothing of a processor for a moment, beside busy processes: what
//! another thread is expected to have done comes late. Whoever depends on that shows itself sooner than by many plain runs. It must
//! not decide what a test is.

use crate::repeated::Busy;
use crate::tally::Tally;
use crate::{Failure, Outcome, ci, metadata};
use rustix::process::{Pid, setpriority_process};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Busy processes: one for each of two processors, so that who is slow waits.
const BUSY: usize = 2;
/// How often threads are chosen.
const TURN: Duration = Duration::from_millis(20);
/// One in so many threads is chosen at each turn: each about once a second.
const ONE_IN: u64 = 50;
/// Longest time that a thread is slow.
const SLOW: Duration = Duration::from_millis(400);
/// The priority of a thread that is slow; it has a seventieth of what others have.
const LEAST: i32 = 19;

/// Runs the tests. `seed` chooses the threads; without it the time does, and it is printed.
pub(crate) fn run(seed: Option<&str>) -> Outcome {
    let seed = match seed {
        None => SystemTime::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_secs()),
        Some(text) => text.parse().map_err(|_| format!("'{text}' is not a number that chooses threads"))?,
    };
    may_raise()?;
    println!("threads are chosen by {seed}");
    let _busy = Busy::start(BUSY)?;
    let _delays = Delays::start(metadata::target_directory()?, seed);
    let mut tally = Tally::default();
    ci::test(&mut tally, "")
}

/// A thread that was made slow must become as fast as before.
fn may_raise() -> Result<(), Failure> {
    let own = Some(rustix::thread::gettid());
    let raised = setpriority_process(own, 1).and_then(|()| setpriority_process(own, 0));
    raised.map_err(|error| format!("a thread's priority cannot be raised again ({error}): run this as root").into())
}

/// Makes threads slow until this is dropped.
struct Delays {
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Delays {
    fn start(folder: PathBuf, seed: u64) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let told = is_over.clone();
        let thread = thread::spawn(move || {
            let mut chosen = Chosen { random: seed | 1, slow: HashMap::new() };
            while !told.load(Ordering::Relaxed) {
                chosen.turn(&folder);
                thread::park_timeout(TURN);
            }
            chosen.slow.into_keys().for_each(|thread| set(thread, 0));
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Delays {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Threads that are slow now, and until when.
struct Chosen {
    random: u64,
    slow: HashMap<Pid, Instant>,
}

impl Chosen {
    fn turn(&mut self, folder: &Path) {
        let now = Instant::now();
        self.slow.retain(|thread, until| {
            let is_slow = *until > now;
            if !is_slow {
                set(*thread, 0);
            }
            is_slow
        });
        for thread in threads_below(folder) {
            if !self.slow.contains_key(&thread) && self.next().is_multiple_of(ONE_IN) {
                set(thread, LEAST);
                let time = SLOW.mul_f64((self.next() % 1000) as f64 / 1000.0);
                self.slow.insert(thread, now + time);
            }
        }
    }

    /// Xorshift: it need not be better.
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 20
    }
}

/// It may have ended meanwhile.
fn set(thread: Pid, priority: i32) {
    let _ = setpriority_process(Some(thread), priority);
}

/// The threads of the processes whose program is in that folder, without this one.
fn threads_below(folder: &Path) -> Vec<Pid> {
    let own = std::process::id().to_string();
    let numbers = |path: &Path| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).collect::<Vec<_>>()
    };
    let processes = numbers(Path::new("/proc")).into_iter().map(|number| Path::new("/proc").join(number.to_string()));
    let ours = processes.filter(|process| {
        !process.ends_with(&own) && fs::read_link(process.join("exe")).is_ok_and(|program| program.starts_with(folder))
    });
    ours.flat_map(|process| numbers(&process.join("task"))).filter_map(Pid::from_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_found_by_the_folder_of_their_program_and_chosen_by_the_seed() {
        assert!(threads_below(Path::new("/nowhere")).is_empty());
        // Not of this process.
        let child = std::process::Command::new("sleep").arg("60").spawn();
        let mut child = child.unwrap();
        let program = fs::read_link(format!("/proc/{}/exe", child.id())).unwrap();
        let folder = program.parent().unwrap();
        let number = Pid::from_child(&child);
        while !threads_below(folder).contains(&number) {
            thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let order = |seed| {
            let mut chosen = Chosen { random: seed, slow: HashMap::new() };
            (0..100).map(|_| chosen.next() % ONE_IN).collect::<Vec<_>>()
        };
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(9));
    }
}
