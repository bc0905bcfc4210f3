//! Feeds the decoders and the session machine made-up input, in one process, with the stable toolchain. README.md says
//! how; the targets say what is promised. It must not read a clock to choose inputs: a seed is a run.

#[cfg(not(debug_assertions))]
compile_error!("what is fuzzed besides the public interface comes with debug assertions: build with --profile fuzz");

mod conversations;
mod corpus;
mod coverage;
mod guide;
mod heap;
mod mutate;
mod random;
mod run;
mod seeds;
mod target;

use run::{Plan, Stop};
use std::process::ExitCode;
use std::time::Duration;
use target::{CANARIES, TARGETS, Target};

#[global_allocator]
static HEAP: heap::Counting = heap::Counting;

const USAGE: &str = "\
xdfs-fuzz [--short] [--seconds N] [--executions N] [--seed N] [--target NAME]...
    without --short, --guided, --seconds or --executions: until stopped, with a new seed every minute
xdfs-fuzz --guided [--seconds N]          guided by coverage, N seconds for each target; without N until stopped
xdfs-fuzz --replay             run the committed corpus once
xdfs-fuzz --coverage           replay it with counters, and fail below 95 % of the decoders' lines
xdfs-fuzz --target NAME --input FILE      run one input
xdfs-fuzz --write-corpus       write the seeds into the corpus";

/// Executions of CI's share, over all targets.
const SHORT_EXECUTIONS: u64 = 10_200_000;
/// Seconds of each target in a round that goes on until stopped.
const GUIDED_ROUND_SECONDS: u64 = 60;
/// The canaries are found within this many executions each, or the harness is broken.
const CANARY_EXECUTIONS: u64 = 200_000;

fn main() -> ExitCode {
    if let Some(what) = coverage::wrap() {
        eprintln!("{what}");
        return ExitCode::FAILURE;
    }
    match start() {
        Ok(note) => {
            println!("{note}");
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Default)]
struct Arguments {
    short: bool,
    guided: bool,
    replay: bool,
    coverage: bool,
    write_corpus: bool,
    seconds: Option<u64>,
    executions: Option<u64>,
    seed: u64,
    targets: Vec<Target>,
    input: Option<String>,
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments { seed: 1, ..Arguments::default() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"));
        let number = |text: String| text.parse().map_err(|_| format!("{text} is no number"));
        match word.as_str() {
            "--short" => arguments.short = true,
            "--guided" => arguments.guided = true,
            "--replay" => arguments.replay = true,
            "--coverage" => arguments.coverage = true,
            "--write-corpus" => arguments.write_corpus = true,
            "--seconds" => arguments.seconds = Some(number(value()?)?),
            "--executions" => arguments.executions = Some(number(value()?)?),
            "--seed" => arguments.seed = number(value()?)?,
            "--input" => arguments.input = Some(value()?),
            "--target" => {
                let name = value()?;
                let known = TARGETS.iter().chain(CANARIES).find(|target| target.name == name);
                arguments.targets.push(*known.ok_or_else(|| format!("there is no target {name}"))?);
            }
            _ => return Err(USAGE.to_owned()),
        }
    }
    if arguments.targets.is_empty() {
        arguments.targets = TARGETS.to_vec();
    }
    Ok(arguments)
}

fn start() -> Result<String, String> {
    let arguments = arguments()?;
    if arguments.write_corpus {
        return Ok(format!("{} seeds written", corpus::write()?));
    }
    if let Some(file) = &arguments.input {
        let input = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
        if arguments.targets.iter().any(|target| target.name == "session") {
            println!("{}", target::program(&input));
        }
        let found = arguments.targets.iter().find_map(|target| run::once(target, &input).err());
        return found.map_or(Ok("nothing broke".to_owned()), Err);
    }
    if arguments.replay {
        return Ok(format!("{} inputs of the corpus replayed", run::replay(&arguments.targets)?));
    }
    if arguments.coverage {
        return coverage::measure();
    }
    if arguments.guided {
        return guided(&arguments);
    }
    if arguments.short {
        return short(&arguments);
    }
    long(&arguments)
}

/// The corpus, then a fixed number of executions, then the canaries, then the lines.
fn short(arguments: &Arguments) -> Result<String, String> {
    let replayed = run::replay(&arguments.targets)?;
    let stop = Stop::Executions(arguments.executions.unwrap_or(SHORT_EXECUTIONS));
    let done = run::all(&Plan { targets: arguments.targets.clone(), seed: arguments.seed, stop })?;
    for canary in CANARIES {
        let plan = Plan { targets: vec![*canary], seed: 1, stop: Stop::Executions(CANARY_EXECUTIONS) };
        if run::quietly(&plan).is_ok() {
            return Err(format!("{} was not found out: the harness cannot fail", canary.name));
        }
    }
    let lines = coverage::measure()?;
    Ok(format!("{replayed} inputs replayed, {done} executions, {} canaries found out; {lines}", CANARIES.len()))
}

fn guided(arguments: &Arguments) -> Result<String, String> {
    if let Some(seconds) = arguments.seconds {
        return guide::run(&arguments.targets, seconds);
    }
    loop {
        println!("{}", guide::run(&arguments.targets, GUIDED_ROUND_SECONDS)?);
    }
}

fn long(arguments: &Arguments) -> Result<String, String> {
    if let Some(executions) = arguments.executions {
        let plan =
            Plan { targets: arguments.targets.clone(), seed: arguments.seed, stop: Stop::Executions(executions) };
        return Ok(format!("{} executions", run::all(&plan)?));
    }
    let mut seed = arguments.seed;
    loop {
        let stop = Stop::After(Duration::from_secs(arguments.seconds.unwrap_or(60)));
        let done = run::all(&Plan { targets: arguments.targets.clone(), seed, stop })?;
        println!("seed {seed}: {done} executions");
        if arguments.seconds.is_some() {
            return Ok("nothing broke".to_owned());
        }
        seed += 1;
    }
}
