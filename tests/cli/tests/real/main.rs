//! Trees of this machine, changed at random, up and down by every command that copies trees. rsync is the judge.
//!
//! The short form takes a part of each tree and as many runs as it takes until every pair of values occurs; it changes from day to
//! day. `XDFS_REAL_RUNS=30` takes whole trees and so many runs of each command in each direction; `XDFS_REAL_KILLS=50` kills the
//! client, the server and both so often. A seed is printed; `XDFS_REAL_SEED` asks for the same again, and `XDFS_REAL_RUN` for one
//! run of it, `XDFS_REAL_FROM` for that one and those behind it.

mod array;
mod change;
mod judge;
mod random;
mod run;
mod source;

use std::time::{Duration, SystemTime};

use random::Random;
use run::{Bench, Plan, Victims};
use source::Bounds;
use xdfs_test_cli::with_file_systems;

/// Of each tree in the short form.
const PART: Bounds = Bounds { names: 900, bytes: 24 << 20 };
/// Room for the copies of a part, and of whole trees.
const PART_DISK_BYTES: u64 = 2 << 30;
const WHOLE_DISK_BYTES: u64 = 64 << 30;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}='{text}' is no number")))
}

/// Another one every day.
fn seed_of_the_date() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("the clock is right");
    since.as_secs() / (24 * 60 * 60)
}

/// Does `one` for each of the runs that were asked for, and tells which of them failed.
fn all(seed: u64, count: usize, mut one: impl FnMut(usize, u64) -> (String, String)) {
    let (only, from) = (number("XDFS_REAL_RUN"), number("XDFS_REAL_FROM").unwrap_or(0));
    let wanted = |index: usize| index as u64 >= from && only.is_none_or(|only| only == index as u64);
    println!("XDFS_REAL_SEED={seed}: {count} runs");
    let mut failed = Vec::new();
    for index in (0..count).filter(|index| wanted(*index)) {
        let (what, fault) = one(index, seed.wrapping_add((index as u64) << 32));
        println!("run {index}: {what}: {}", if fault.is_empty() { "equal" } else { &fault });
        failed.extend((!fault.is_empty()).then_some(index));
    }
    assert!(failed.is_empty(), "XDFS_REAL_SEED={seed}: {} of {count} runs failed: {failed:?}", failed.len());
}

#[test]
fn every_command_makes_real_trees_like_their_source() {
    let runs = number("XDFS_REAL_RUNS");
    let disk_bytes = if runs.is_some() { WHOLE_DISK_BYTES } else { PART_DISK_BYTES };
    with_file_systems("every_command_makes_real_trees_like_their_source", disk_bytes, |mounted| {
        let seed = number("XDFS_REAL_SEED").unwrap_or_else(seed_of_the_date);
        let bounds = if runs.is_some() { Bounds { names: usize::MAX, bytes: u64::MAX } } else { PART };
        let plans = runs.map_or_else(|| Plan::some(seed), |runs| Plan::of_each(runs as usize, seed));
        let mut bench = Bench::new(mounted, bounds, seed);
        all(seed, plans.len(), |index, seed| (plans[index].to_string(), bench.run(&plans[index], seed)));
    });
}

/// Kills of each kind in the short form.
const KILLS: u64 = 3;
/// Later than this a command has done its work on a part of a tree, but for the slowest.
const MOMENT_MAX: Duration = Duration::from_millis(2_500);

#[test]
fn a_copy_that_was_killed_is_finished_by_the_same_command() {
    with_file_systems("a_copy_that_was_killed_is_finished_by_the_same_command", PART_DISK_BYTES, |mounted| {
        let seed = number("XDFS_REAL_SEED").unwrap_or_else(seed_of_the_date);
        let kills = number("XDFS_REAL_KILLS").unwrap_or(KILLS) as usize;
        let victims = [Victims::Client, Victims::Server, Victims::Both];
        let plans: Vec<Plan> = (0..).flat_map(|round| Plan::some(seed.wrapping_add(round))).take(3 * kills).collect();
        let mut bench = Bench::new(mounted, PART, seed);
        all(seed, plans.len(), |index, seed| {
            let (plan, victims) = (&plans[index], victims[index % victims.len()]);
            let moment = MOMENT_MAX.mul_f64(Random::new(seed).below(1000) as f64 / 1000.0);
            let what = format!("{plan}, killed after {} ms: {victims:?}", moment.as_millis());
            (what, bench.run_killed(plan, victims, moment, seed))
        });
    });
}
