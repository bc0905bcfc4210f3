//! A remote file as a program uses it through the client's crate: copied in its order, beside what `xdfs cp` needs for the same,
//! and read at random through a relay with a round trip of 20 ms, beside the most that so many reads on their way can be.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde::Serialize;

use super::login::holder;
use super::{failure, rounds, size};
use crate::error::{Error, Result};
use crate::files;
use crate::peers::{Server, System, Xdfs, json_events, state};
use crate::process::{Account, Command};
use crate::report::Report;
use crate::stats::median;
use crate::world::{ScratchDir, World};

const BYTES: u64 = 2_000_000_000;

/// Of the file that is read at random, and reads of a round.
const RANDOM_BYTES: u64 = 256 << 20;
const RANDOM_READS: usize = 16_000;

/// Reads on their way, the relay's delay of each direction, and what that allows a second.
const IN_FLIGHT: usize = 32;
const DELAY: Duration = Duration::from_millis(10);

const LIMIT: Duration = Duration::from_secs(300);

/// Which way the file goes.
pub const WAYS: [&str; 2] = ["down", "up"];

/// Who copies it.
const SYSTEMS: [&str; 2] = ["File", "xdfs cp"];

/// Who reads at random: tasks of one thread, and a thread for each read that is on its way.
pub const READERS: [&str; 2] = ["tasks", "threads"];

/// What came out.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RemoteFilesReport {
    /// Bytes of the file that is copied.
    pub bytes: u64,
    /// Seconds of each round, by `WAYS`: a program with an open file, and `xdfs cp`.
    pub seconds: [[Vec<f64>; 2]; 2],
    /// Reads a second of each round, by `READERS`.
    pub random_reads: [Vec<f64>; 2],
    /// The same over what so many reads on their way could be, if each took the relay's round trip and nothing else.
    pub random_ratios: [Vec<f64>; 2],
    /// Why it ended early.
    pub failure: Option<String>,
}

impl RemoteFilesReport {
    /// Of the best rounds, the rate of the program over that of `xdfs cp`.
    pub fn ratio(&self, way: usize) -> Option<f64> {
        let [own, other] = self.seconds.get(way)?;
        Some(best(other)? / best(own)?)
    }

    /// Of the best round, reads a second of the tasks over what the round trip allows.
    pub fn random_ratio(&self) -> Option<f64> {
        most(&self.random_ratios[0])
    }
}

fn best(seconds: &[f64]) -> Option<f64> {
    seconds.iter().copied().reduce(f64::min)
}

fn most(rates: &[f64]) -> Option<f64> {
    rates.iter().copied().reduce(f64::max)
}

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    let mut one = RemoteFilesReport { bytes: size(&world.args, BYTES), ..RemoteFilesReport::default() };
    one.failure = failure("remote files", measure(world, &mut one))?;
    print!("{}", text(&one));
    report.remote_files = Some(one);
    Ok(())
}

/// A line for each way, and one for the reads at random.
pub fn text(report: &RemoteFilesReport) -> String {
    let mut text = format!("\na remote file of {} MB on tmpfs, private\n", report.bytes / 1_000_000);
    for (way, seconds) in WAYS.iter().zip(&report.seconds) {
        text += &format!("  {way:4}");
        for (system, seconds) in SYSTEMS.iter().zip(seconds) {
            let (Some(middle), Some(best)) = (median(seconds), best(seconds)) else { continue };
            text += &format!("  {system} {middle:.3} s (best {best:.3})");
        }
        text.push('\n');
    }
    for (at, readers) in READERS.iter().enumerate() {
        let (rates, ratios) = (&report.random_reads[at], &report.random_ratios[at]);
        let (Some(middle), Some(best)) = (median(rates), most(rates)) else { continue };
        let (Some(ratio), Some(best_ratio)) = (median(ratios), most(ratios)) else { continue };
        text += &format!(
            "  {IN_FLIGHT} reads of 4 KiB on their way over 20 ms, by {readers}: {middle:.0}/s (best {best:.0}), {ratio:.3} \
             (best {best_ratio:.3}) of what the relay's round trip allows\n"
        );
    }
    text + &report.failure.as_ref().map(|failure| format!("  failed: {failure}\n")).unwrap_or_default()
}

fn measure(world: &World, report: &mut RemoteFilesReport) -> Result<()> {
    let (served, local) =
        (ScratchDir::create(&world.args.tmpfs_dir, "served")?, ScratchDir::create(&world.args.tmpfs_dir, "local")?);
    let source = served.path().join("source");
    files::create_random(&source, report.bytes, &world.interrupt)?;
    files::create_random(&served.path().join("random"), RANDOM_BYTES.min(report.bytes), &world.interrupt)?;
    let missing = || Error::Wrong { system: "xdfs".to_owned(), detail: "no server".to_owned() };
    let server = Xdfs::default().serve(world, Some(served.path()))?.ok_or_else(missing)?;
    let copied = local.path().join("copied");
    let uploaded = served.path().join("uploaded");
    for round in 0..rounds(&world.args) as usize {
        for turn in 0..SYSTEMS.len() {
            let system = (turn + round) % SYSTEMS.len();
            for (way, name) in WAYS.iter().enumerate() {
                let (target, near) = if *name == "down" { (&copied, &copied) } else { (&uploaded, &source) };
                files::remove(target)?;
                files::warm_memory(&world.args.tmpfs_dir, report.bytes)?;
                let command = copying(world, &server, system, name, near);
                report.seconds[way][system].push(time(world, command)?.0);
                files::check_equal(SYSTEMS[system], &source, target)?;
            }
        }
        for (at, readers) in READERS.iter().enumerate() {
            let command = holder(world, &server, "random-reads")
                .args(["--readers", readers, "--in-flight", &IN_FLIGHT.to_string()])
                .args(["--count", &RANDOM_READS.to_string(), "--delay-ms", &DELAY.as_millis().to_string()])
                .arg("f/random")
                .arg(served.path().join("random"));
            let (_, output) = time(world, command)?;
            let unreadable = || Error::Unreadable { program: "holder".to_owned(), detail: "no rate".to_owned() };
            let events = json_events(&output);
            let told = |key: &str| events.iter().find_map(|event| event[key].as_f64()).ok_or_else(unreadable);
            let (rate, round_trip) = (told("per_second")?, told("round_trip")?);
            report.random_reads[at].push(rate);
            report.random_ratios[at].push(rate * round_trip / IN_FLIGHT as f64);
        }
        files::remove(&copied)?;
        files::remove(&uploaded)?;
    }
    Ok(())
}

/// The command that copies the file down to `near`, or up from it.
fn copying(world: &World, server: &Server, system: usize, way: &str, near: &Path) -> Command {
    let far = if way == "down" { "source" } else { "uploaded" };
    if SYSTEMS[system] == "File" {
        return holder(world, server, "copy").args([way, &format!("f/{far}")]).arg(near);
    }
    let url = format!("xdfs://127.0.0.1:{}/f/{far}{}", server.port, server.pin);
    let command = Command::new(&world.xdfs).arg("cp").arg("--state").arg(state(world));
    if way == "down" { command.arg(url).arg(near) } else { command.arg(near).arg(url) }
}

/// Seconds of a command, and what it printed.
fn time(world: &World, command: Command) -> Result<(f64, String)> {
    let mut account = Account::open("remote-files");
    let mut running = command.start(world.scratch.path(), "remote-files", &mut account, Stdio::null())?;
    let ended = running.wait(LIMIT, &world.interrupt)?;
    let seconds = ended.duration_since(running.started()).as_secs_f64();
    running.finish()?;
    Ok((seconds, running.output()))
}
