//! Runs targets on inputs and says what broke. A broken promise is a panic of the target, or memory beyond its rule.

use crate::random::Random;
use crate::target::{Memory, Target};
use crate::{corpus, heap, mutate};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// When to stop.
#[derive(Clone, Copy)]
pub(crate) enum Stop {
    /// After so many executions over all targets, by their shares.
    Executions(u64),
    /// After this time.
    After(Duration),
}

/// A run.
pub(crate) struct Plan {
    pub(crate) targets: Vec<Target>,
    pub(crate) seed: u64,
    pub(crate) stop: Stop,
}

/// What a decoder may take besides four times its input: the harness's own lists and the texts of errors are within.
const MEMORY_BASE: usize = 64 * 1024;
/// What no run may take: a claim of so much was believed.
const MEMORY_MAX: usize = 64 * 1024 * 1024;
/// Executions between two looks at the clock.
const ROUND: u64 = 500;

/// Runs one input. The error says what broke.
pub(crate) fn once(target: &Target, input: &[u8]) -> Result<(), String> {
    let before = heap::reset();
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let taken = heap::peak() - before;
    if let Err(payload) = outcome {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without words");
        return Err(text.to_owned());
    }
    let most = match target.memory {
        Memory::Decoder => 4 * input.len() + MEMORY_BASE,
        Memory::Own => MEMORY_MAX,
    };
    if taken > most { Err(format!("{taken} bytes of memory for {} bytes of input", input.len())) } else { Ok(()) }
}

/// Runs the committed corpus once. Returns how many inputs there were.
pub(crate) fn replay(targets: &[Target]) -> Result<usize, String> {
    let mut count = 0;
    for target in targets {
        for input in corpus::load(target.name)? {
            once(target, &input).map_err(|what| format!("{}: {what}", target.name))?;
            count += 1;
        }
    }
    Ok(count)
}

/// Like [`all`], without the messages of panics.
pub(crate) fn quietly(plan: &Plan) -> Result<u64, String> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let result = all(plan);
    panic::set_hook(hook);
    result
}

/// Makes inputs from the corpus and runs them, on two threads. Returns the number of executions.
pub(crate) fn all(plan: &Plan) -> Result<u64, String> {
    let shares: u64 = plan.targets.iter().map(|target| u64::from(target.share)).sum();
    let jobs: Vec<(Target, Vec<Vec<u8>>, Stop)> = plan
        .targets
        .iter()
        .map(|target| {
            let stop = match plan.stop {
                Stop::Executions(total) if shares == 0 => Stop::Executions(total),
                Stop::Executions(total) => Stop::Executions(total * u64::from(target.share) / shares),
                Stop::After(time) => Stop::After(time * target.share.max(50) / shares.max(50) as u32),
            };
            let inputs = if target.share == 0 { Ok(vec![vec![0; 8]]) } else { corpus::load(target.name) };
            Ok((*target, inputs?, stop))
        })
        .collect::<Result<_, String>>()?;
    let failure = Mutex::new(None);
    let failed = AtomicBool::new(false);
    let timed = std::env::var_os("XDFS_FUZZ_TIMES").is_some();
    let done = std::thread::scope(|scope| {
        let half = |part: u64| {
            let (jobs, failure, failed) = (&jobs, &failure, &failed);
            move || {
                let mut done = 0;
                for (target, inputs, stop) in jobs {
                    // Another generator for each target and thread, from the one seed.
                    let name =
                        target.name.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(131).wrapping_add(byte.into()));
                    let random = Random::new(plan.seed ^ name << 8 ^ part);
                    let started = Instant::now();
                    let worked = work(target, inputs, *stop, random, failed);
                    if timed {
                        println!("{part} {:>16}: {:.1} s", target.name, started.elapsed().as_secs_f64());
                    }
                    match worked {
                        Ok(count) => done += count,
                        Err(what) => {
                            failed.store(true, Ordering::Relaxed);
                            failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
                        }
                    }
                }
                done
            }
        };
        let other = scope.spawn(half(1));
        half(0)() + other.join().unwrap_or(0)
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(what) => Err(what),
        None => Ok(done),
    }
}

/// One thread's half of a target.
fn work(
    target: &Target,
    inputs: &[Vec<u8>],
    stop: Stop,
    mut random: Random,
    failed: &AtomicBool,
) -> Result<u64, String> {
    let started = Instant::now();
    let mut done = 0;
    let mut input = Vec::new();
    loop {
        let enough = match stop {
            Stop::Executions(total) => done >= total.div_ceil(2),
            Stop::After(time) => started.elapsed() >= time,
        };
        if enough || failed.load(Ordering::Relaxed) {
            return Ok(done);
        }
        for _ in 0..ROUND {
            input.clone_from(&inputs[random.below(inputs.len())]);
            mutate::mutate(&mut input, inputs, &mut random);
            if let Err(what) = once(target, &input) {
                if target.share == 0 {
                    // A canary: it is meant to break.
                    return Err(format!("{}: {what}", target.name));
                }
                let file = corpus::keep(target.name, &input)?;
                return Err(format!("{}: {what}\nthe input is {}", target.name, file.display()));
            }
        }
        done += ROUND;
    }
}
