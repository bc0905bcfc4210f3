//! `xio-bench`: what the framework costs beside plain sockets, and `xioperf` beside `globus-xioperf`.
//!
//! Inside a round every system runs once, one after the other; the order rotates. A ratio is of the best
//! of each system, since a machine that does other things as well adds to a run and never takes away;
//! the medians stand beside it. `bench/README.md` has the goals.
#![forbid(unsafe_code)]

mod bandwidth;
mod callbacks;
mod null;
mod ping_pong;
mod pinned;
mod programs;
mod site;
mod switches;

use std::io::{self, Write};
use std::process::ExitCode;

/// Rounds, unless told otherwise.
const ROUNDS: usize = 7;

/// A system: its name, and one run of it, in seconds an operation or a byte.
pub(crate) type System<'a> = (&'a str, Box<dyn FnMut() -> io::Result<f64> + 'a>);

/// What a system took: the best of the rounds, and their median.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) best: f64,
    pub(crate) median: f64,
}

/// Runs each system once a round.
pub(crate) fn rounds(rounds: usize, systems: &mut [System<'_>]) -> io::Result<Vec<Taken>> {
    let mut taken = vec![Vec::with_capacity(rounds); systems.len()];
    for round in 0..rounds {
        for step in 0..systems.len() {
            let at = (round + step) % systems.len();
            taken[at].push(systems[at].1()?);
        }
    }
    let judge = |mut taken: Vec<f64>| {
        taken.sort_unstable_by(f64::total_cmp);
        Taken { best: taken[0], median: taken[taken.len() / 2] }
    };
    Ok(taken.into_iter().map(judge).collect())
}

/// In a short run a goal is missed by so many times its bound: what it finds is a layer that suddenly costs
/// a call of the kernel, and never that the machine was busy.
const GROSS: f64 = 5.0;

/// Switches of an operation may be so many times what they must be: threads wait for a lock now and then.
const SWITCHES: f64 = 1.2;

/// What is printed, and the goals that were missed.
pub(crate) struct Table {
    missed: Vec<String>,
    is_short: bool,
}

impl Table {
    /// All of the work, or in a short run the share that takes little time.
    pub(crate) fn work<T>(&self, all: T, share: T) -> T {
        if self.is_short { share } else { all }
    }

    /// A goal: what was found must not exceed the bound.
    pub(crate) fn goal(&mut self, what: &str, found: f64, median: f64, bound: f64, unit: &str) {
        let bound = bound * self.work(1.0, GROSS);
        // What is no number is no success.
        let is_met = found <= bound;
        let met = if is_met { "met" } else { "missed" };
        // A closed output ends the next write too, and nothing is lost by it.
        let _ = writeln!(io::stdout(), "| {what} | {found:.3}{unit} | {median:.3}{unit} | {bound:.2}{unit} | {met} |");
        if !is_met {
            self.missed.push(what.to_owned());
        }
    }

    /// A goal for threads that wake each other. A short run shows it and judges the switches instead: on a machine that
    /// does other things as well, one system's threads have to wait for others each time, and the other's have not.
    fn time_of_threads(&mut self, what: &str, found: f64, median: f64, bound: f64) {
        if self.is_short {
            println!("| {what} | {found:.3} | {median:.3} | | |");
        } else {
            self.goal(what, found, median, bound, "");
        }
    }

    /// How often the kernel switches between threads in an operation: a layer that hands it to one more thread shows.
    fn switches(&mut self, what: &str, found: f64, bound: f64) {
        let bound = bound * SWITCHES;
        let met = if found <= bound { "met" } else { "missed" };
        println!("| switches of a message, {what} | {found:.2} | | {bound:.2} | {met} |");
        if found > bound {
            self.missed.push(format!("switches of a message, {what}"));
        }
    }
}

type Shape = fn(usize, &mut Table) -> io::Result<()>;

const SHAPES: [(&str, Shape); 5] = [
    ("noop", null::run),
    ("ping-pong", ping_pong::run),
    ("callbacks", callbacks::run),
    ("bandwidth", bandwidth::run),
    ("programs", programs::run),
];

/// What CI runs: seconds, with the bounds of [`GROSS`] and without other programs.
const SHORT: &str = "--short";

fn main() -> ExitCode {
    let (short, arguments): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|word| word == SHORT);
    let is_short = !short.is_empty();
    let (numbers, wanted): (Vec<_>, Vec<_>) = arguments.iter().partition(|word| word.parse::<usize>().is_ok());
    if let Some(unknown) = wanted.iter().find(|word| SHAPES.iter().all(|(name, _)| name != *word)) {
        let names = SHAPES.map(|(name, _)| name).join(", ");
        eprintln!("xio-bench: there is no shape '{unknown}'; name the number of rounds, {SHORT}, or some of {names}");
        return ExitCode::from(2);
    }
    let rounds = numbers.first().and_then(|word| word.parse().ok()).unwrap_or(if is_short { 3 } else { ROUNDS });
    let is_default = |name: &str| wanted.is_empty() && !(is_short && name == "programs");
    let is_wanted = |name: &str| is_default(name) || wanted.iter().any(|shape| *shape == name);
    println!("| what | of the bests | of the medians | goal | |\n|---|--:|--:|--:|---|");
    let mut table = Table { is_short, missed: Vec::new() };
    for (name, shape) in SHAPES.into_iter().filter(|(name, _)| is_wanted(name)) {
        if let Err(error) = shape(rounds.max(1), &mut table) {
            eprintln!("xio-bench: {name}: {error}");
            return ExitCode::FAILURE;
        }
    }
    for what in &table.missed {
        eprintln!("xio-bench: missed: {what}");
    }
    if table.missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
