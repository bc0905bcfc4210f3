//! What CI runs, in order, each step with its name and duration.
//!
//! Cheap steps come first. All steps run even after one has failed, unless told otherwise: a second look at a failed
//! run costs more than the rest of it.

use crate::process::{cargo, run as run_command, run_without_warnings};
use crate::{
    Failure, Outcome, deny, generated, hops, layers, metadata, programs, reqs, seeded_bugs, setup, tally::Tally, tidy,
};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What attacks a server, copies real trees and feeds the decoders has so much of a run; it could take any time.
const OPEN_ENDED: [&str; 3] = ["tests/cli/attack", "tests/cli/real", "fuzz"];
const OPEN_ENDED_MAX: Duration = Duration::from_secs(8 * 60);

/// Programs of tests that run at once, and tests within each of them for each core.
const PROGRAMS_AT_ONCE: usize = 3;
const TESTS_PER_CORE: usize = 1;

/// The programs that are tested, and the one that fuzzes: with the features of the Python package, too, which the wheel then
/// reuses, and not with those of the tests. The profile is that of the tests, so that libraries are built once, and assertions
/// are tested, too.
const BUILD: [&str; 19] = [
    "build",
    "--quiet",
    "--profile",
    "test",
    "--locked",
    "--package",
    "xdfs",
    "--package",
    "xdfs-python",
    "--package",
    "xdfs-bench-xio",
    "--package",
    "xdfs-fuzz",
    "--bin",
    "xdfs",
    "--bin",
    "xdfs-fuzz",
    "--bin",
    "xio-bench",
];

/// Builds the programs that are tested; the path of one of them.
pub(crate) fn built(name: &str) -> Result<PathBuf, Failure> {
    run_command(&mut cargo(&BUILD))?;
    Ok(metadata::target_directory()?.join("debug").join(name))
}

/// Builds a program that is tested, and copies it: what the tests build in its place later has more features.
pub(crate) fn tested(name: &str) -> Result<PathBuf, Failure> {
    let built = built(name)?;
    let target = metadata::target_directory()?;
    let kept = target.join("tested").join(name);
    let text = |error: std::io::Error| Failure(format!("{}: {error}", kept.display()));
    std::fs::create_dir_all(target.join("tested")).map_err(text)?;
    // A program that runs cannot be written to.
    let new = kept.with_extension("new");
    std::fs::copy(&built, &new).and_then(|_| std::fs::rename(&new, &kept)).map_err(text)?;
    Ok(kept)
}

/// A step's function; test results go into the tally.
type Action = fn(&mut Tally) -> Outcome;

/// One step of CI.
struct Step {
    name: &'static str,
    action: Action,
    /// False where the tree has nothing for it yet.
    present: bool,
}

fn steps() -> Vec<Step> {
    let always = |name, action| Step { name, action, present: true };
    vec![
        always("fmt", |_| fmt()),
        always("tidy", |_| tidy::check()),
        always("layers", |_| layers::check()),
        always("clippy", |_| clippy()),
        always("build", |_| tested("xdfs").map(|_| String::new())),
        always("test", |tally| test(tally, "")),
        always("bugs", |_| seeded_bugs::short()),
        always("docs", |_| docs()),
        Step { name: "states", action: |_| generated::states(), present: generated::exists("states") },
        Step { name: "vectors", action: |_| generated::vectors(), present: generated::exists("vectors") },
        Step { name: "reqs", action: |_| reqs::check(), present: reqs::exists() },
        always("fuzz", |tally| generated::fuzz(&["--short"], tally)),
        always("hops", |_| hops::check()),
        always("stacks", |_| hops::stacks()),
        always("deny", |_| deny::check()),
    ]
}

/// Runs the steps, then says what failed; the last line is `N passed, M failed`.
pub(crate) fn run(fail_fast: bool) -> ExitCode {
    let started = Instant::now();
    let mut tally = Tally::default();
    let mut failed: Vec<&str> = Vec::new();
    let mut done = 0;
    for step in steps().iter().filter(|step| step.present) {
        println!("\n=== {}", step.name);
        let began = Instant::now();
        let outcome = (step.action)(&mut tally);
        done += 1;
        let took = began.elapsed();
        tally.took.push((step.name.to_owned(), took));
        let took = took.as_secs_f64();
        match outcome {
            Ok(note) => {
                println!("--- {}: passed in {took:.1} s{}{note}", step.name, if note.is_empty() { "" } else { ": " })
            }
            Err(Failure(message)) => {
                println!("{message}\n--- {}: FAILED after {took:.1} s", step.name);
                failed.push(step.name);
                if fail_fast {
                    break;
                }
            }
        }
    }
    println!("\n{done} steps in {:.0} s; {} tests left out", started.elapsed().as_secs_f64(), tally.left_out);
    println!("{}", open_ended(&tally));
    if !failed.is_empty() {
        println!("failed steps: {}", failed.join(", "));
    }
    for failure in &tally.failures {
        println!("failed test: {}", failure.name);
        failure.excerpt.iter().for_each(|line| println!("    {line}"));
    }
    let line = last_line(&tally, &failed);
    leave_for_caller(&line);
    println!("{line}");
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How long the parts took that could take any time. A busy machine takes longer, so too much of it is no failure.
fn open_ended(tally: &Tally) -> String {
    let took = tally.took.iter().filter(|(name, _)| OPEN_ENDED.contains(&name.as_str())).map(|(_, took)| *took);
    let took: Duration = took.sum();
    let judged = if took <= OPEN_ENDED_MAX { "met" } else { "missed" };
    let (names, most) = (OPEN_ENDED.join(", "), OPEN_ENDED_MAX.as_secs());
    format!("{names}: {:.0} s together, at most {most}: {judged}", took.as_secs_f64())
}

/// Tests are counted one by one. A failed step counts as one more failure, but for a test step whose tests tell why.
fn last_line(tally: &Tally, failed: &[&str]) -> String {
    let told = failed.contains(&"test") && tally.failed > 0;
    let steps = failed.len() as u64 - u64::from(told);
    format!("{} passed, {} failed", tally.passed, tally.failed + steps)
}

/// make prints a complaint of its own behind our last line when we fail; `.ci/run` repeats ours from this file.
fn leave_for_caller(line: &str) {
    if let Some(path) = std::env::var_os("XTASK_TALLY_FILE")
        && let Err(error) = std::fs::write(&path, format!("{line}\n"))
    {
        eprintln!("cannot write {}: {error}", path.to_string_lossy());
    }
}

fn fmt() -> Outcome {
    run_command(&mut cargo(&["fmt", "--all", "--check"]))?;
    Ok(String::new())
}

/// With the profile of the tests, which then use what its build scripts have made: libraries in C take a minute. With the tests
/// that only their long form runs.
fn clippy() -> Outcome {
    let words = ["clippy", "--profile", "test", "--locked", "--workspace", "--all-targets"];
    run_without_warnings(cargo(&words).args(["--features", "xdfs-test-cli/long,xdfs-bench/passthrough"]))?;
    Ok(String::new())
}

fn docs() -> Outcome {
    run_without_warnings(&mut cargo(&["doc", "--profile", "test", "--locked", "--workspace", "--no-deps"]))?;
    Ok(String::new())
}

/// Runs the programs of tests whose names contain `only`, on what is built for them.
pub(crate) fn test(tally: &mut Tally, only: &str) -> Outcome {
    let mut variables = vec![("XDFS_BINARY", tested("xdfs")?)];
    variables.extend(setup::python().map(|python| ("XDFS_PYTHON", python.into())));
    test_with(tally, only, variables)
}

/// The same with a program that is there, which `variables` name.
pub(crate) fn test_with(tally: &mut Tally, only: &str, variables: Vec<(&'static str, PathBuf)>) -> Outcome {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = std::env::var_os("RUST_TEST_THREADS").is_none().then_some(TESTS_PER_CORE * cores);
    programs::run(&programs::Options { at_once: PROGRAMS_AT_ONCE, threads, only: only.to_owned(), variables }, tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_that_could_take_any_time_are_added() {
        let tally = |seconds: &[u64]| {
            let names = ["tests/cli/attack", "tests/cli/real", "fuzz", "clippy"].map(str::to_owned);
            let mut tally = Tally::of(0, 0, 0);
            tally.took = names.into_iter().zip(seconds.iter().copied().map(Duration::from_secs)).collect();
            tally
        };
        assert!(open_ended(&tally(&[100, 200, 180, 900])).ends_with(": 480 s together, at most 480: met"));
        assert!(open_ended(&tally(&[100, 200, 181, 900])).ends_with(": 481 s together, at most 480: missed"));
    }

    #[test]
    fn a_failed_step_shows_in_the_last_line_and_failed_tests_are_not_counted_twice() {
        let good = Tally::of(5, 0, 1);
        assert_eq!(last_line(&good, &[]), "5 passed, 0 failed");
        assert_eq!(last_line(&good, &["fmt", "test"]), "5 passed, 2 failed");
        let bad = Tally::of(5, 3, 0);
        assert_eq!(last_line(&bad, &["test"]), "5 passed, 3 failed");
        assert_eq!(last_line(&bad, &["fmt", "test"]), "5 passed, 4 failed");
    }
}
