//! What CI runs and what keeps the tree in order: `cargo run -p xtask -- help`.
//!
//! Every check is a subcommand, so that a failing step of CI is repeated with one short command. Nothing here is part
//! of the product, and the product never depends on it.

mod ci;
mod compat;
mod delays;
mod deny;
mod dist;
mod generated;
mod hops;
mod layers;
mod lex;
mod long;
mod metadata;
mod pictures;
mod process;
mod programs;
mod python;
mod repeated;
mod reqs;
mod scratch;
mod seeded_bugs;
mod setup;
mod tally;
mod tidy;
mod tree;
mod unpack;

use std::process::ExitCode;
use tally::Tally;

/// Why a check did not pass: one line or several, ready to be shown.
#[derive(Debug)]
struct Failure(String);

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self(message)
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        Self(message.to_owned())
    }
}

/// What a check that passed has to say in one line; may be empty.
type Outcome = Result<String, Failure>;

/// Turns findings into an outcome: each is shown on a line of its own.
fn verdict(mut findings: Vec<String>, passed: String) -> Outcome {
    if findings.is_empty() {
        return Ok(passed);
    }
    findings.sort();
    let count = findings.len();
    Err(Failure(format!("{}\n{count} finding{}", findings.join("\n"), if count == 1 { "" } else { "s" })))
}

const HELP: &str = "\
usage: cargo run -p xtask -- COMMAND

  ci [--fail-fast]   all that CI runs, step by step, with a tally in the last line
  test [NAME]        the programs of tests whose names contain NAME, several at a time
  layers             which crate and which module may use what
  tidy               sizes of files and functions, headers, left-over marks, white space
  states             the drawn state machines are those of the code
  vectors            the golden frames are those of the code
  fuzz [--short]     feed the decoders made-up input; --short replays the corpus and stops after CI's share
  fuzz --guided [S]  the same, guided by coverage (libFuzzer), S seconds for each target; without S until stopped
  dist               build the static program and the packages, into target/dist
  dist PROGRAM DIR   package a program that is there, in haste, for the tests
  pictures [PROGRAM] record the pictures of the README, with PROGRAM or a release that is built for it
  bugs               deliberate mistakes in a copy of the protocol: the model finds each
  hops               what a block costs: the system calls of a real transfer
  stacks             what a driver costs: the short form of xio-bench, which finds gross misses alone
  deny               banned crates, licences and sources of the dependencies
  python             the Python package: its wheel, installed in a clean environment, and its tests
  reqs               requirements of docs/papers.md that name neither a test nor a reason, rows of docs/mount.md without a test
  long NAME [AMOUNT] a suite at length: seeds (1,000,000 sessions), tree-seeds (5,000,000 trees), bugs (deliberate
                     mistakes in a copy of the sources: each is found by a test), model (its large settings), crash (10,000 kills,
                     as many errors), cuts (power cuts, 7,200 s), kills (5 GiB, 40 kills), tree-kills (50), real-trees
                     (30 runs of each command in each direction), real-kills (50 of each side and of both), races
                     (20,000 rounds), compat (an earlier version beside this one), paths (1,000,000), login-timing
                     (2,000 logins each: whether their time tells who exists), file-operations (1,000,000 on a
                     remote file, whose server ends twice a second), file-cuts (the same with power cuts), stacked
                     (the tests of transfers over --stack tcp,tls), python (a Parquet file of 1 GiB), dist (install
                     and use what 'make dist' makes, and all tests of the command with its static program),
                     install (what 'cargo install' makes), mount (fsx, pjdfstest, fio, stress-ng, dbench, git
                     and cargo, 60 s each), ci (all of CI ten times in a row, every second time beside four
                     busy processes; an interrupted row of the same sources goes on), delays (all tests while
                     random threads are slow, which a number chooses)
  setup              install the Debian packages which the tests need
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["ci"] => return ci::run(false),
        ["ci", "--fail-fast"] => return ci::run(true),
        ["test"] => ci::test(&mut Tally::default(), ""),
        ["test", name] => ci::test(&mut Tally::default(), name),
        ["layers"] => layers::check(),
        ["tidy"] => tidy::check(),
        ["states"] => generated::states(),
        ["vectors"] => generated::vectors(),
        ["fuzz"] => generated::fuzz(&[], &mut Tally::default()),
        ["fuzz", "--short"] => generated::fuzz(&["--short"], &mut Tally::default()),
        ["fuzz", "--guided"] => generated::fuzz(&["--guided"], &mut Tally::default()),
        ["fuzz", "--guided", seconds] => generated::fuzz(&["--guided", "--seconds", seconds], &mut Tally::default()),
        ["dist"] => dist::run(),
        ["dist", program, folder] => dist::package(program.as_ref(), folder.as_ref()),
        ["pictures"] => pictures::record_release(),
        ["pictures", program] => pictures::record(program.as_ref()),
        ["bugs"] => seeded_bugs::short(),
        ["hops"] => hops::check(),
        ["stacks"] => hops::stacks(),
        ["deny"] => deny::check(),
        ["python"] => python::check(&mut Tally::default(), false),
        ["reqs"] => reqs::check(),
        ["long", name] => long::run(name, None),
        ["long", name, amount] => long::run(name, Some(amount)),
        ["setup"] => setup::install(),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(note) => {
            println!("{note}");
            ExitCode::SUCCESS
        }
        Err(Failure(message)) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
