//! Coverage-guided runs: builds `guided.rs` with the compiler's own counters of branches, which the stable toolchain has, and
//! lets libFuzzer look for inputs that reach more of them, a process for each target. What it finds on the way is kept in
//! `target/guided/corpus` and used by the next run.

use crate::corpus;
use crate::target::{CANARIES, Target};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Counters of branches and of comparisons, where libFuzzer looks for them.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";
/// Longest input: above every message's limit, except where only the first part of one can matter.
const INPUT_BYTES_MAX: usize = 20_000;
/// One input may take so long, in seconds; a session of the longest program takes milliseconds.
const INPUT_SECONDS_MAX: usize = 20;
/// The canaries are found within this many executions each, or the guidance is broken.
const CANARY_EXECUTIONS: u64 = 500_000;

/// Runs every target so long, as many at a time as there are cores, and then the canaries.
pub(crate) fn run(targets: &[Target], seconds: u64) -> Result<String, String> {
    let program = build()?;
    let executions = side_by_side(targets, |target| {
        let output = start(&program, target, &[format!("-max_total_time={seconds}")])?;
        output.executions.ok_or_else(|| format!("{}: {}", target.name, output.text))
    })?;
    for canary in CANARIES {
        if start(&program, canary, &[format!("-runs={CANARY_EXECUTIONS}")])?.executions.is_some() {
            return Err(format!("{} was not found out by guidance: the harness cannot fail", canary.name));
        }
    }
    let sum: u64 = executions.iter().sum();
    Ok(format!("{sum} guided executions of {} targets, {seconds} s each", targets.len()))
}

/// How a process ended.
struct Output {
    /// None where something broke.
    executions: Option<u64>,
    /// The end of what it said.
    text: String,
}

fn start(program: &Path, target: &Target, more: &[String]) -> Result<Output, String> {
    let home = corpus::home();
    let found = home.join("target/guided/corpus").join(target.name);
    let artifacts = home.join("artifacts");
    for folder in [&found, &artifacts] {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut command = Command::new(program);
    command.env("XDFS_FUZZ_TARGET", target.name).args(more).args([
        format!("-max_len={INPUT_BYTES_MAX}"),
        format!("-timeout={INPUT_SECONDS_MAX}"),
        format!("-artifact_prefix={}/{}-", artifacts.display(), target.name),
        "-print_final_stats=1".to_owned(),
    ]);
    command.arg(found);
    let committed = home.join("corpus").join(target.name);
    if committed.is_dir() {
        command.arg(committed);
    }
    let output = command.output().map_err(|error| format!("{}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let counted = text.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let executions = counted.and_then(|count| count.trim().parse().ok()).filter(|_| output.status.success());
    let tail = text.lines().rev().take(40).collect::<Vec<_>>();
    Ok(Output { executions, text: tail.into_iter().rev().collect::<Vec<_>>().join("\n") })
}

/// Does `work` for every target, as many at a time as there are cores; the first error ends it.
fn side_by_side(targets: &[Target], work: impl Fn(&Target) -> Result<u64, String> + Sync) -> Result<Vec<u64>, String> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = work(target);
                    results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect()
}

fn build() -> Result<PathBuf, String> {
    let version = output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc names no host")?;
    let folder = corpus::home().join("target/guided");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--locked", "--profile", "fuzz", "--bin", "guided", "--features", "guided"]);
    // For a named host the flags are not those of build scripts and macros, which have nobody who reads their counters.
    cargo.args(["--target", host, "--target-dir"]).arg(&folder);
    cargo.arg("--manifest-path").arg(corpus::home().join("Cargo.toml")).env("RUSTFLAGS", FLAGS);
    output(&mut cargo)?;
    Ok(folder.join(host).join("fuzz/guided"))
}

/// What a command that succeeded printed.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{shown}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{shown}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{shown}: its output is no text"))
}
