//! Whole trees, copied in both directions by the code of the product between two trees in memory:
//! answers come late and in any order, calls are refused, reply rooms are full, sessions are lost
//! at any step, and the source changes meanwhile. The oracle of `expected` judges what is left.
//!
//! `XDFS_TREES` is the number of trees, `XDFS_SEED` the first seed; a failure names the seed that
//! repeats it.

mod expected;
mod files;
mod generate;
mod random;
mod remote;
mod server;
mod store;

use super::main_loop;
use super::scheduler::TreeCopy;
use super::{Download, Ended, Upload};
use expected::{Heard, Outcome};
use generate::{Changes, Scenario};
use random::Random;
use remote::SimulatedRemote;
use server::{Refusals, SimulatedServer};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Trees of a usual run.
const TREES: u64 = 100_000;
/// After so many lost sessions one lasts.
const SESSIONS_MAX: usize = 60;
/// `EXPORT` of the server's tree.
const BASE: &[u8] = b"data";

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}='{text}' is no number")))
}

/// Copies over as many sessions as it takes; none if it was stopped.
fn copy<C: TreeCopy>(
    mut copy: C,
    scenario: &Scenario,
    server: &SimulatedServer,
    patience: Option<u64>,
    (changes, random): (&mut Changes, &mut Random),
) -> Option<(super::Summary, Heard)> {
    let local = if scenario.up { scenario.source.clone() } else { scenario.target.clone() };
    let (mut heard, mut now) = (Heard { patience, ..Heard::default() }, std::time::Duration::ZERO);
    for session in 0.. {
        let life =
            scenario.life.filter(|_| session < SESSIONS_MAX).map_or(u64::MAX, |most| 1 + random.below(most) as u64);
        let mut interfere = |random: &mut Random| changes.step(random);
        let bounds = (BASE.len() + 1, scenario.batch_bytes_max, life);
        let mut remote = SimulatedRemote::new(server, local.clone(), bounds, &mut interfere, random);
        (remote.now, remote.slow) = (now, scenario.slow);
        match main_loop::run(&mut copy, &mut remote, &mut heard) {
            Ended::Complete(summary) => return Some((summary, heard)),
            Ended::Stopped(_) => {
                remote.leave();
                return None;
            }
            // The top could not be made, or nothing was settled for a minute: it says so and stops.
            Ended::Refused(error) if scenario.refusals != Refusals::default() => {
                heard.notes.push(error.to_string());
                heard.stopped = true;
                return Some((super::Summary { failed: 1, ..super::Summary::default() }, heard));
            }
            Ended::Lost(_) if life < u64::MAX => now = remote.now,
            ended => panic!("it ended with {ended:?}"),
        }
    }
    unreachable!("the last session lasts")
}

fn try_seed(seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let scenario = Scenario::new(&mut random);
    let (source, before) = (scenario.source.walk(), scenario.target.walk());
    let (here, there) = (scenario.source.clone(), scenario.target.clone());
    let files = if scenario.up { there.clone() } else { here.clone() };
    let (refusals, greedy, page) = (scenario.refusals, scenario.greedy, scenario.page);
    let server = SimulatedServer { files, refusals, greedy, page };
    let mut changes = Changes::new(here.clone(), scenario.changes);
    let mut command = |fresh: bool, patience: Option<u64>| -> Result<_, String> {
        let (base, options, ends) = (BASE.to_vec(), scenario.options.clone(), (&mut changes, &mut random));
        Ok(if scenario.up {
            let upload = Upload::over(Arc::new(here.clone()), base, fresh, options);
            copy(upload.map_err(|error| error.to_string())?, &scenario, &server, patience, ends)
        } else {
            let download = Download::over(Arc::new(there.clone()), base, fresh, options);
            copy(download, &scenario, &server, patience, ends)
        })
    };
    let mut ended = command(scenario.fresh, scenario.patience)?;
    let repeated = ended.is_none();
    if repeated {
        // The top may be there since.
        ended = command(false, None)?;
    }
    let (summary, heard) = ended.ok_or("nobody stopped it, and it stopped")?;
    let after = there.walk();
    let outcome = Outcome { scenario: &scenario, source, before, after, summary, heard, repeated, changes };
    outcome.judge().map_err(|wrong| format!("the copy is not what it must be: {wrong}\n{outcome}"))
}

/// The seeds of one of several threads that share them.
fn try_seeds(seeds: impl Iterator<Item = u64>) -> Option<String> {
    for seed in seeds {
        let tried = catch_unwind(AssertUnwindSafe(|| try_seed(seed)));
        let wrong = match tried {
            Ok(Ok(())) => continue,
            Ok(Err(wrong)) => wrong,
            Err(_) => "a panic, above".to_owned(),
        };
        return Some(format!("XDFS_TREES=1 XDFS_SEED={seed}: {wrong}"));
    }
    None
}

#[test]
fn copies_of_random_trees_leave_what_they_must_whatever_happens_on_the_way() {
    let (first, count) = (number("XDFS_SEED").unwrap_or(0), number("XDFS_TREES").unwrap_or(TREES));
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let run = |index: u64| scope.spawn(move || try_seeds((first + index..first + count).step_by(threads as usize)));
        let all: Vec<_> = (0..threads).map(run).collect();
        all.into_iter().filter_map(|thread| thread.join().expect("panics are caught")).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
