//! One channel of several stops without closing: the others must keep the rate. (The command itself ends two seconds later: so
//! long it waits for the silent channel's last word.)

mod relay;

use std::process::Stdio;
use std::time::Duration;

use serde::Serialize;

use super::memory::direction_name;
use super::{rounds, size};
use crate::bound::Direction;
use crate::error::{Error, Result};
use crate::peers::{Server, System, Work, Xdfs};
use crate::process::Account;
use crate::report::Report;
use crate::stats::median;
use crate::world::World;
use relay::{Relay, Stop};

const CHANNELS: u32 = 8;

/// The fourth connection stops after this share of all bytes.
const STOPPED: usize = 3;
const AFTER: u64 = 24;

/// Some 10 s at the rate that the relay lets through; a stop that is waited for adds half a minute.
const BYTES: u64 = 24_000_000_000;

const LIMIT: Duration = Duration::from_secs(300);

/// What came out, one entry per direction.
#[derive(Debug, Clone, Serialize)]
pub struct StallReport {
    /// Which way.
    pub direction: Direction,
    /// Channels of the session.
    pub channels: u32,
    /// Bytes of each transfer.
    pub bytes: u64,
    /// Seconds from the first connect to the last acknowledgement through the relay, per round.
    pub free_seconds: Vec<f64>,
    /// The same while one connection stops.
    pub stopped_seconds: Vec<f64>,
    /// Median of the per-round ratios of the rates: stopped over free.
    pub ratio: Option<f64>,
    /// The worst of them.
    pub worst: Option<f64>,
    /// Why it ended early.
    pub failure: Option<String>,
}

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    for direction in &world.args.directions {
        let mut one = StallReport {
            direction: *direction,
            channels: CHANNELS,
            bytes: size(&world.args, BYTES),
            free_seconds: Vec::new(),
            stopped_seconds: Vec::new(),
            ratio: None,
            worst: None,
            failure: None,
        };
        match measure(world, &mut one) {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => {
                eprintln!("xdfs-bench: stall: {error}");
                one.failure = Some(error.to_string());
            }
            Ok(()) => {}
        }
        print!("{}", text(&one));
        report.stalls.push(one);
    }
    Ok(())
}

/// Two lines for people.
pub fn text(report: &StallReport) -> String {
    let nothing = f64::NAN;
    let failure = report.failure.as_ref().map(|failure| format!("\n  failed: {failure}")).unwrap_or_default();
    format!(
        "\none of {} channels stops, {} bytes through a relay, {}\n  all run {:.3} s, one stops {:.3} s, rate {:.2} of the \
         other (worst {:.2}){failure}\n",
        report.channels,
        report.bytes,
        direction_name(report.direction),
        median(&report.free_seconds).unwrap_or(nothing),
        median(&report.stopped_seconds).unwrap_or(nothing),
        report.ratio.unwrap_or(nothing),
        report.worst.unwrap_or(nothing),
    )
}

fn measure(world: &World, report: &mut StallReport) -> Result<()> {
    let system = Xdfs::default();
    crate::peers::check_installed(&system, world)?;
    let Some(mut server) = system.serve(world, None)? else { return Ok(()) };
    let mut ratios = Vec::new();
    for round in 0..rounds(&world.args) {
        let mut seconds = [0.0; 2];
        for turn in 0..2 {
            let stops = (turn + round) % 2 == 1;
            seconds[usize::from(stops)] = transfer(world, &mut server, report, stops)?;
        }
        let [free, stopped] = seconds;
        ratios.push(free / stopped);
        report.free_seconds.push(free);
        report.stopped_seconds.push(stopped);
    }
    report.ratio = median(&ratios);
    report.worst = ratios.into_iter().reduce(f64::min);
    Ok(())
}

/// The program's own clock of one transfer through a relay of its own.
fn transfer(world: &World, server: &mut Server, report: &StallReport, stops: bool) -> Result<f64> {
    let system = Xdfs::default();
    let stop = Stop { connection: STOPPED, after: report.bytes / AFTER };
    let relay = Relay::start(server.port, stops.then_some(stop))?;
    let own = std::mem::replace(&mut server.port, relay.port());
    let work = Work::Memory { direction: report.direction, channels: report.channels, bytes: report.bytes };
    let command = system.command(world, Some(server), &work);
    server.port = own;
    let mut account = Account::open("stall");
    let mut client = command?.start(world.scratch.path(), "stall", &mut account, Stdio::null())?;
    client.wait(LIMIT, &world.interrupt)?;
    client.finish()?;
    let outcome = system.outcome(&client.output())?;
    let moved = outcome.bytes;
    if moved != Some(report.bytes) || stops != relay.has_stopped() {
        let detail = format!("moved {moved:?} of {} bytes; stopped: {}", report.bytes, relay.has_stopped());
        return Err(Error::Wrong { system: system.label(), detail });
    }
    // Read from the output, which would be no outcome without it.
    Ok(outcome.seconds.unwrap_or(f64::NAN))
}
