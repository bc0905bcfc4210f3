//! The long form of the simulation, and one seed in slow motion.
//!
//! ```text
//! xdfs-test-sim [--from SEED] [--sessions COUNT]     runs that many sessions, prints the table
//! xdfs-test-sim --seed SEED                          runs one and prints every step
//! ```
//!
//! With `--stormy` the wire is at its worst, with `--calm` nothing goes wrong.

use std::process::ExitCode;
use xdfs_test_sim::tally::Tally;
use xdfs_test_sim::{Options, run};

/// Failures after which nothing new is learned.
const FAILURES_MAX: usize = 20;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    let is_given = |name: &str| arguments.iter().any(|argument| argument == name);
    let options = match (is_given("--stormy"), is_given("--calm")) {
        (true, _) => Options::stormy(),
        (_, true) => Options::calm(),
        _ => Options::default(),
    };
    if let Some(seed) = value("--seed") {
        let report = run(seed, &options, true);
        println!("{report:#?}");
        return if report.violation.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    let (from, sessions) = (value("--from").unwrap_or(0), value("--sessions").unwrap_or(100_000));
    let tally = Tally::collect(from, sessions, &options, FAILURES_MAX);
    print!("{tally}");
    if tally.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
