//! All tests once while random threads of theirs get almost nothing of a processor for a moment, beside busy processes: what
//! another thread is expected to have done comes late. Whoever depends on that shows itself sooner than by many plain runs. It must
//! not decide what a test is.

use crate::repeated::Busy;
use crate::tally::Tally;
use crate::{Failure, Outcome, ci, metadata};
use rustix::process::{Pid, getpriority_process, setpriority_process};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// How often threads are chosen.
const TURN: Duration = Duration::from_millis(20);
/// One in so many threads is chosen at each turn: each about once a second.
const ONE_IN: u64 = 50;
/// Longest time that a thread is slow.
const SLOW: Duration = Duration::from_millis(400);
/// Turns after which what slow threads have started is looked for.
const TURNS: u64 = 10;
/// The priority of a thread that is slow; it has a seventieth of what others have.
const LEAST: i32 = 19;

/// Runs the tests. `seed` chooses the threads; without it the time does, and it is printed.
pub(crate) fn run(seed: Option<&str>) -> Outcome {
    let seed = match seed {
        None => SystemTime::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_secs()),
        Some(text) => text.parse().map_err(|_| format!("'{text}' is not a number that chooses threads"))?,
    };
    for name in ["CI", "XDFS_TESTS_MAY_LEAVE_OUT"] {
        if std::env::var_os(name).is_some() {
            return Err(format!("unset {name}: nothing may be left out here, nor be late").into());
        }
    }
    let usual = priority()?;
    println!("threads are chosen by {seed}");
    // One for each processor, so that who is slow waits.
    let _busy = Busy::start(thread::available_parallelism().map_or(1, usize::from))?;
    let folder = metadata::target_directory()?;
    let folder = fs::canonicalize(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let delays = Delays::start(folder, Chosen::new(seed, usual));
    let outcome = ci::test(&mut Tally::default(), "");
    match delays.stop() {
        0 => Err("no thread was slow".into()),
        _ => outcome,
    }
}

/// The priority of this thread, which can be raised again, as a thread that was slow must become as fast as before.
fn priority() -> Result<i32, Failure> {
    let own = Some(rustix::thread::gettid());
    let raised = getpriority_process(own).and_then(|usual| {
        setpriority_process(own, LEAST).and_then(|()| setpriority_process(own, usual)).map(|()| usual)
    });
    raised.map_err(|error| format!("a thread's priority cannot be raised again ({error}): run this as root").into())
}

/// Makes threads slow until it is stopped.
struct Delays {
    is_over: Arc<AtomicBool>,
    thread: thread::JoinHandle<u64>,
}

impl Delays {
    fn start(folder: PathBuf, mut chosen: Chosen) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let told = is_over.clone();
        let thread = thread::spawn(move || {
            for turn in 1.. {
                if told.load(Ordering::Relaxed) {
                    break;
                }
                chosen.turn(&folder);
                if turn % TURNS == 0 {
                    chosen.put_back();
                }
                thread::park_timeout(TURN);
            }
            chosen.end()
        });
        Self { is_over, thread }
    }

    /// How many threads were slow.
    fn stop(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or(0)
    }
}

/// A thread that is slow.
struct Slow {
    until: Instant,
    /// Its own priority.
    before: i32,
}

/// Threads that are slow now.
struct Chosen {
    random: u64,
    /// The priority of threads that have none of their own.
    usual: i32,
    slow: HashMap<Pid, Slow>,
    count: u64,
}

impl Chosen {
    fn new(seed: u64, usual: i32) -> Self {
        // Zero would stay zero.
        Self { random: seed.wrapping_mul(2) | 1, usual, slow: HashMap::new(), count: 0 }
    }

    fn turn(&mut self, folder: &Path) {
        let now = Instant::now();
        self.slow.retain(|thread, slow| {
            let is_slow = slow.until > now;
            if !is_slow {
                set(*thread, slow.before);
            }
            is_slow
        });
        for thread in below(folder).iter().flat_map(|process| threads(process)) {
            if self.slow.contains_key(&thread) || !self.next().is_multiple_of(ONE_IN) {
                continue;
            }
            // It may have ended meanwhile.
            let Ok(before) = getpriority_process(Some(thread)) else { continue };
            set(thread, LEAST);
            let time = SLOW.mul_f64((self.next() % 1000) as f64 / 1000.0);
            self.slow.insert(thread, Slow { until: now + time, before });
            self.count += 1;
        }
    }

    /// A priority is inherited: what slow threads have started is not chosen, and as fast as others. A program that has left our
    /// tree of processes is not found.
    fn put_back(&self) {
        for thread in descendants().iter().flat_map(|process| threads(process)) {
            if !self.slow.contains_key(&thread) && getpriority_process(Some(thread)) == Ok(LEAST) {
                set(thread, self.usual);
            }
        }
    }

    /// How many threads were slow, of which none is now.
    fn end(self) -> u64 {
        self.put_back();
        self.slow.iter().for_each(|(thread, slow)| set(*thread, slow.before));
        self.count
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

/// The processes whose program is in that folder, without this one.
fn below(folder: &Path) -> Vec<PathBuf> {
    let own = std::process::id().to_string();
    let is_ours = |process: &PathBuf| {
        !process.ends_with(&own) && fs::read_link(process.join("exe")).is_ok_and(|program| program.starts_with(folder))
    };
    processes().filter(is_ours).collect()
}

/// The processes that this one has started, and those that they have, and so on.
fn descendants() -> Vec<PathBuf> {
    let parents: HashMap<i32, i32> = processes().filter_map(|process| parent(&process)).collect();
    let own = std::process::id().cast_signed();
    let is_ours = |number: &&i32| {
        let ancestors = std::iter::successors(parents.get(number), |number| parents.get(number));
        ancestors.take(parents.len()).any(|number| *number == own)
    };
    parents.keys().filter(is_ours).map(|number| Path::new("/proc").join(number.to_string())).collect()
}

/// The numbers of a process and of its parent, which follows the name and the state.
fn parent(process: &Path) -> Option<(i32, i32)> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
    Some((process.file_name()?.to_str()?.parse().ok()?, parent))
}

fn processes() -> impl Iterator<Item = PathBuf> {
    numbers(Path::new("/proc")).map(|number| Path::new("/proc").join(number.to_string()))
}

fn threads(process: &Path) -> impl Iterator<Item = Pid> + use<> {
    numbers(&process.join("task")).filter_map(Pid::from_raw)
}

/// Entries that are numbers. What the directory is about may have ended.
fn numbers(directory: &Path) -> impl Iterator<Item = i32> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_slow_and_what_it_started_is_as_fast_as_before() {
        if !xdfs_test_needs::root("priorities are raised again") {
            return;
        }
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let number = Pid::from_child(&child);
        let process = Path::new("/proc").join(child.id().to_string());
        let program = fs::read_link(process.join("exe")).unwrap();
        assert!(
            below(program.parent().unwrap()).contains(&process) && !below(Path::new("/nowhere")).contains(&process)
        );
        assert!(threads(&process).eq([number]) && descendants().contains(&process));
        let priority = || getpriority_process(Some(number)).unwrap();
        // As if a slow thread had started it.
        set(number, LEAST);
        Chosen::new(1, 3).put_back();
        let inherited = priority();
        set(number, 5);
        let mut chosen = Chosen::new(1, 3);
        chosen.slow.insert(number, Slow { until: Instant::now(), before: priority() });
        set(number, LEAST);
        chosen.put_back();
        let slow = priority();
        chosen.end();
        let own = priority();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!([inherited, slow, own], [3, LEAST, 5]);
    }

    #[test]
    fn the_seed_chooses() {
        let order = |seed| {
            let mut chosen = Chosen::new(seed, 0);
            (0..100).map(|_| chosen.next() % ONE_IN).collect::<Vec<_>>()
        };
        assert_eq!(order(7), order(7));
        assert_ne!(order(6), order(7));
    }
}
