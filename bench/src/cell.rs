//! One cell of a table: several systems, the same work, rounds. Systems take turns inside a round and the order
//! rotates, because the machine changes its speed for tens of seconds at a time: only runs of one round compare.

use std::path::PathBuf;

use serde::Serialize;

use crate::args::{FileSystem, PeerName, Shape};
use crate::bound::Direction;
use crate::error::{Error, Result};
use crate::files;
use crate::measure::{self, Run};
use crate::peers::{self, Server, System, Work};
use crate::sockets::{self, Fairness};
use crate::stats::median;
use crate::world::World;

/// What to run.
pub struct Cell {
    /// Which shape it belongs to.
    pub shape: Shape,
    /// Heading of the table.
    pub title: String,
    /// The work, the same for all.
    pub work: Work,
    /// The systems; the first is what the others are compared with.
    pub systems: Vec<Box<dyn System>>,
    /// Rounds.
    pub rounds: u32,
    /// Directory that servers serve, for files.
    pub directory: Option<PathBuf>,
    /// A directory, and how many bytes of memory to warm there before each run.
    pub warm: Option<(PathBuf, u64)>,
    /// File system, for files.
    pub filesystem: Option<FileSystem>,
    /// Take a look at the evenness of the channels.
    pub fairness: bool,
}

/// What came out.
#[derive(Debug, Clone, Serialize)]
pub struct CellReport {
    /// Which shape it belongs to.
    pub shape: Shape,
    /// Heading of the table.
    pub title: String,
    /// Which way.
    pub direction: Direction,
    /// Channels asked for.
    pub channels: u32,
    /// File system, for files.
    pub filesystem: Option<FileSystem>,
    /// Bytes asked for.
    pub bytes: u64,
    /// Files, of a tree.
    pub files: Option<u64>,
    /// One entry per system, in the order of the table.
    pub systems: Vec<SystemReport>,
}

/// What one system did in a cell.
#[derive(Debug, Clone, Serialize)]
pub struct SystemReport {
    /// Which one.
    pub name: PeerName,
    /// Name in the tables.
    pub label: String,
    /// Every run that succeeded.
    pub runs: Vec<Run>,
    /// Why it stopped taking part.
    pub failure: Option<String>,
    /// True when its target was compared with the source byte by byte.
    pub compared: bool,
    /// Evenness of its channels at about half time, from a run of its own.
    pub fairness: Option<Fairness>,
    /// Medians.
    pub summary: Option<Summary>,
}

/// Medians over the rounds.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// Bytes per nanosecond.
    pub gigabytes_per_second: f64,
    /// Slowest and fastest round.
    pub range: (f64, f64),
    /// Seconds by the clock that counts.
    pub seconds: f64,
    /// Median of the per-round ratios: the first system's rate over this one's.
    pub reference_ratio: Option<f64>,
    /// CPU seconds per 10^9 bytes: client, server.
    pub cpu_per_gigabyte: (f64, f64),
    /// Peak resident KiB over all rounds: client, server.
    pub peak_rss_kib: (u64, u64),
    /// Peak threads over all rounds: client, server.
    pub threads: (u64, u64),
    /// Voluntary and involuntary context switches per 10^9 bytes, both sides.
    pub switches_per_gigabyte: (f64, f64),
    /// Peak kernel memory for TCP over all rounds, KiB.
    pub socket_kib: u64,
    /// Part of the machine that others had, 0 to 1.
    pub others: f64,
    /// Channels granted in the last round, where the program says so.
    pub channels: Option<u32>,
}

struct Contestant<'a> {
    system: &'a dyn System,
    server: Option<Server>,
    report: SystemReport,
}

/// Runs a cell. A system that fails is left out from then on; only Ctrl-C ends the cell.
pub fn run(world: &World, cell: &Cell) -> Result<CellReport> {
    let mut contestants = Vec::new();
    let before = world.args.before.iter().flat_map(|_| cell.systems.iter().filter_map(|system| system.before()));
    let before: Vec<_> = before.collect();
    for system in cell.systems.iter().chain(&before).filter(|system| system.can(&cell.work)) {
        contestants.push(admit(world, cell, system.as_ref())?);
    }
    let count = contestants.len();
    for round in 0..cell.rounds {
        for turn in 0..count {
            let contestant = &mut contestants[(turn + round as usize) % count];
            if contestant.report.failure.is_some() {
                continue;
            }
            match run_once(world, cell, contestant, round) {
                Ok(run) => contestant.report.runs.push(run),
                Err(error) => contestant.fail(error)?,
            }
        }
    }
    // Of xdfs alone, and not of its own reference with one channel.
    if let Some(first) = contestants.first_mut().filter(|first| cell.fairness && first.report.name == PeerName::Xdfs) {
        look(world, cell, first)?;
    }
    let mut systems: Vec<SystemReport> = contestants.into_iter().map(|contestant| contestant.report).collect();
    summarize(&mut systems);
    Ok(CellReport {
        shape: cell.shape,
        title: cell.title.clone(),
        direction: cell.work.direction(),
        channels: cell.work.channels(),
        filesystem: cell.filesystem,
        bytes: cell.work.bytes(),
        files: cell.work.files(),
        systems,
    })
}

impl Contestant<'_> {
    fn fail(&mut self, error: Error) -> Result<()> {
        if matches!(error, Error::Interrupted) {
            return Err(error);
        }
        eprintln!("xdfs-bench: {}: {error}", self.report.label);
        self.report.failure = Some(error.to_string());
        // A server that has failed once may hold a port, memory or a core.
        self.server = None;
        Ok(())
    }
}

fn admit<'a>(world: &World, cell: &Cell, system: &'a dyn System) -> Result<Contestant<'a>> {
    let report = SystemReport {
        name: system.name(),
        label: system.label(),
        runs: Vec::new(),
        failure: None,
        compared: false,
        fairness: None,
        summary: None,
    };
    let mut contestant = Contestant { system, server: None, report };
    let started = peers::check_installed(system, world).and_then(|()| system.serve(world, cell.directory.as_deref()));
    match started {
        Ok(server) => contestant.server = server,
        Err(error) => contestant.fail(error)?,
    }
    Ok(contestant)
}

fn run_once(world: &World, cell: &Cell, contestant: &mut Contestant<'_>, round: u32) -> Result<Run> {
    let label = contestant.report.label.clone();
    match &cell.work {
        Work::File { target, .. } => files::remove(target)?,
        Work::Tree { target, .. } => files::remove_tree(target)?,
        Work::Memory { .. } | Work::Same { .. } => {}
    }
    if let Some((directory, bytes)) = &cell.warm {
        files::warm_memory(directory, *bytes)?;
    }
    let run = measure::run(world, contestant.system, contestant.server.as_ref(), &cell.work, round)?;
    if let Work::Tree { source, target, .. } = &cell.work {
        files::check_tree(&label, source, target)?;
        files::remove_tree(target)?;
        // What the removal has left to be done is not the next run's.
        rustix::fs::sync();
        return Ok(run);
    }
    if let Work::Same { source, target, .. } = &cell.work {
        if !contestant.report.compared {
            files::check_tree(&label, source, target)?;
            contestant.report.compared = true;
        }
        return Ok(run);
    }
    let Work::File { source, target, bytes, .. } = &cell.work else { return Ok(run) };
    files::check_length(&label, target, *bytes)?;
    if !contestant.report.compared {
        files::check_equal(&label, source, target)?;
        contestant.report.compared = true;
    }
    // At once: dirty pages of this target must not be written back during the next run.
    files::remove(target)?;
    Ok(run)
}

fn look(world: &World, cell: &Cell, contestant: &mut Contestant<'_>) -> Result<()> {
    if contestant.report.failure.is_some() || contestant.report.runs.is_empty() {
        return Ok(());
    }
    match measure::look_at_sockets(world, contestant.system, contestant.server.as_ref(), &cell.work) {
        Ok(looks) => {
            let channels = contestant.report.runs.last().and_then(|run| run.channels).unwrap_or(cell.work.channels());
            contestant.report.fairness = sockets::fairness(&looks, channels, cell.work.bytes());
            Ok(())
        }
        Err(error) => contestant.fail(error),
    }
}

/// Fills in the medians; the first system that ran is the reference of the ratios.
fn summarize(systems: &mut [SystemReport]) {
    let reference: Vec<(u32, f64)> = systems
        .iter()
        .find(|system| !system.runs.is_empty())
        .map(|first| first.runs.iter().map(|run| (run.round, run.gigabytes_per_second)).collect())
        .unwrap_or_default();
    for system in systems {
        let runs = &system.runs;
        let of = |value: fn(&Run) -> f64| median(&runs.iter().map(value).collect::<Vec<_>>()).unwrap_or(0.0);
        if runs.is_empty() {
            continue;
        }
        let ratios: Vec<f64> = runs
            .iter()
            .filter_map(|run| {
                let (_, rate) = reference.iter().find(|(round, _)| *round == run.round)?;
                Some(rate / run.gigabytes_per_second)
            })
            .collect();
        let rates = runs.iter().map(|run| run.gigabytes_per_second);
        let highest = |value: fn(&Run) -> u64| runs.iter().map(value).max().unwrap_or(0);
        system.summary = Some(Summary {
            gigabytes_per_second: of(|run| run.gigabytes_per_second),
            range: (rates.clone().fold(f64::INFINITY, f64::min), rates.fold(0.0, f64::max)),
            seconds: of(|run| run.seconds),
            reference_ratio: median(&ratios),
            cpu_per_gigabyte: (
                of(|run| run.client_cpu_seconds / run.bytes as f64 * 1e9),
                of(|run| run.server_cpu_seconds / run.bytes as f64 * 1e9),
            ),
            peak_rss_kib: (highest(|run| run.client.peak_rss_kib), highest(|run| run.server.peak_rss_kib)),
            threads: (highest(|run| run.client.threads), highest(|run| run.server.threads)),
            switches_per_gigabyte: (
                of(|run| {
                    (run.client.voluntary_switches + run.server.voluntary_switches) as f64 / run.bytes as f64 * 1e9
                }),
                of(|run| {
                    (run.client.involuntary_switches + run.server.involuntary_switches) as f64 / run.bytes as f64 * 1e9
                }),
            ),
            socket_kib: highest(|run| run.socket_kib),
            others: of(|run| run.others),
            channels: runs.last().and_then(|run| run.channels),
        });
    }
}
