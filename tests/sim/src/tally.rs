//! Many runs: what they showed together, and how a failure is told.

use crate::simulation::Report;
use crate::transition::{Fault, Options};
use std::collections::BTreeMap;
use std::fmt;
use xdfs_proto::base::Duration;

/// Blocks that a session has to move to be counted.
pub const BLOCKS_MIN: u64 = 3;

/// The summary of many runs.
#[derive(Clone, Default, Debug)]
pub struct Tally {
    /// Sessions that moved enough.
    pub sessions: u64,
    /// Sessions that a fault ended before they moved enough.
    pub short: u64,
    /// Blocks of all.
    pub blocks: u64,
    /// Sessions in which a channel's key was followed by another.
    pub rekeyed: u64,
    /// Sessions in which content was another and came again.
    pub repaired: u64,
    /// Sessions that went on behind a restart with what an earlier attempt had left.
    pub resumed: u64,
    /// Faults of all kinds in all runs, each time that one struck; what lasts counts once in a session.
    pub strikes: u64,
    /// Events of all.
    pub events: u64,
    /// Sessions in which each kind of fault struck.
    pub faults: BTreeMap<Fault, u64>,
    /// Runs in which something was wrong.
    pub failures: Vec<Report>,
    /// What a command line says for the options of the runs.
    pub options: &'static str,
}

impl Tally {
    /// Runs seeds from `first` on until `sessions` have moved enough blocks, or `failures_max` failed.
    pub fn collect(first: u64, sessions: u64, options: &Options, failures_max: usize) -> Self {
        let mut tally = Self { options: options.name, ..Self::default() };
        let mut seed = first;
        while tally.sessions < sessions && tally.failures.len() < failures_max {
            tally.add(run_caught(seed, options));
            seed += 1;
        }
        tally
    }

    fn add(&mut self, report: Report) {
        self.events += report.events;
        self.blocks += report.blocks;
        if report.violation.is_some() {
            return self.failures.push(report);
        }
        self.strikes += report.fired.iter().filter(|(fault, _)| fault.hurts()).map(|(_, count)| count).sum::<u64>();
        if report.blocks < BLOCKS_MIN {
            self.short += 1;
            return;
        }
        self.sessions += 1;
        self.rekeyed += u64::from(report.rekeyed > 0);
        self.repaired += u64::from(report.repaired > 0);
        self.resumed += u64::from(report.resumed > 0);
        for fault in report.fired.into_keys() {
            *self.faults.entry(fault).or_default() += 1;
        }
    }

    /// Sessions of a thousand in which `fault` struck.
    pub fn per_mille(&self, fault: Fault) -> u64 {
        self.faults.get(&fault).copied().unwrap_or(0) * 1000 / self.sessions.max(1)
    }
}

/// Runs `seed`; an assertion that fails in a machine is a violation like any other.
pub fn run_caught(seed: u64, options: &Options) -> Report {
    let result = std::panic::catch_unwind(|| crate::run(seed, options, false));
    result.unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<String>().cloned();
        let text = text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default();
        let violation = Some(format!("panic: {text}"));
        Report {
            seed,
            violation,
            blocks: 0,
            rekeyed: 0,
            repaired: 0,
            resumed: 0,
            fired: BTreeMap::new(),
            time: Duration::ZERO,
            events: 0,
            trace: 0,
        }
    })
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} sessions with at least {BLOCKS_MIN} blocks ({} more ended before), {} blocks, {} events, {} faults; keys changed in {}, content repaired in {}, \
             resumed behind a restart in {}",
            self.sessions,
            self.short,
            self.blocks,
            self.events,
            self.strikes,
            self.rekeyed,
            self.repaired,
            self.resumed
        )?;
        for fault in Fault::ALL {
            let count = self.faults.get(fault).copied().unwrap_or(0);
            let per_mille = self.per_mille(*fault);
            writeln!(f, "{:>32} {count:>8} {:>3}.{} %", fault.text(), per_mille / 10, per_mille % 10)?;
        }
        for failure in &self.failures {
            writeln!(f, "seed {}: {}", failure.seed, failure.violation.as_deref().unwrap_or(""))?;
            writeln!(
                f,
                "    again, with every step: cargo run -p xdfs-test-sim -- {}--seed {}",
                self.options, failure.seed
            )?;
        }
        Ok(())
    }
}
