//! A directory of a million names: listed through a server, in short and at length, and summed up, beside the same without a
//! network.

use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

use serde::Serialize;

use super::{failure, rounds};
use crate::error::{Context, Error, Result};
use crate::peers::{Server, System, Xdfs, state};
use crate::process::{Account, Command};
use crate::report::Report;
use crate::stats::median;
use crate::world::{ScratchDir, World};

const NAMES: u32 = 1_000_000;
const QUICK_NAMES: u32 = 20_000;

/// The commands, each behind the one that it is compared with: its place among them.
const WAYS: [(&[&str], usize); 6] = [
    (&["ls"], 0),
    (&["xdfs", "ls"], 0),
    (&["ls", "-l"], 2),
    (&["xdfs", "ls", "-l"], 2),
    (&["du", "-s"], 4),
    (&["xdfs", "du"], 4),
];

const LIMIT: Duration = Duration::from_secs(300);

/// What came out.
#[derive(Debug, Clone, Default, Serialize)]
pub struct NamesReport {
    /// Names in the directory.
    pub names: u32,
    /// Seconds of each round, by `WAYS`.
    pub seconds: [Vec<f64>; WAYS.len()],
    /// Why it ended early.
    pub failure: Option<String>,
}

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    let names = if world.args.quick { QUICK_NAMES } else { NAMES };
    let mut one = NamesReport { names, ..NamesReport::default() };
    one.failure = failure("names", measure(world, &mut one))?;
    print!("{}", text(&one));
    report.names.push(one);
    Ok(())
}

/// A line for each command: median and best, and how many times longer than its own without a network.
pub fn text(report: &NamesReport) -> String {
    let mut text = format!("\na directory of {} names on tmpfs\n", report.names);
    for ((words, reference), seconds) in WAYS.iter().zip(&report.seconds) {
        let best = seconds.iter().copied().reduce(f64::min);
        let (Some(middle), Some(best)) = (median(seconds), best) else { continue };
        let other = report.seconds.get(*reference).into_iter().flatten();
        let ratios: Vec<f64> = seconds.iter().zip(other).map(|(own, other)| own / other).collect();
        let ratio = median(&ratios).unwrap_or(f64::NAN);
        text += &format!("  {:12} {middle:7.3} s (best {best:.3}), {ratio:.2} times\n", words.join(" "));
    }
    text + &report.failure.as_ref().map(|failure| format!("  failed: {failure}\n")).unwrap_or_default()
}

fn measure(world: &World, report: &mut NamesReport) -> Result<()> {
    let scratch = ScratchDir::create(&world.args.tmpfs_dir, "names")?;
    for number in 0..report.names {
        let path = scratch.path().join(format!("name-{number:07}"));
        File::create(&path).context(|| path.display().to_string())?;
        world.interrupt.check()?;
    }
    let server = Xdfs::default().serve(world, Some(scratch.path()))?;
    for round in 0..rounds(&world.args) {
        for turn in 0..WAYS.len() {
            let way = (turn + round as usize) % WAYS.len();
            let command = command(world, &scratch, server.as_ref(), WAYS[way].0);
            let mut account = Account::open("names");
            let mut running = command.start(world.scratch.path(), "names", &mut account, Stdio::null())?;
            let ended = running.wait(LIMIT, &world.interrupt)?;
            report.seconds[way].push(ended.duration_since(running.started()).as_secs_f64());
            running.finish()?;
            let (lines, told) = (running.output().lines().count(), WAYS[way].0.contains(&"ls"));
            if told && lines < report.names as usize {
                let detail = format!("{lines} of {} names were told", report.names);
                return Err(Error::Wrong { system: WAYS[way].0.join(" "), detail });
            }
        }
    }
    Ok(())
}

fn command(world: &World, scratch: &ScratchDir, server: Option<&Server>, words: &[&str]) -> Command {
    match (words, server) {
        (["xdfs", words @ ..], Some(server)) => {
            let url = format!("xdfs://127.0.0.1:{}/f/{}", server.port, server.pin);
            Command::new(&world.xdfs).args(words).arg("--state").arg(state(world)).arg(url)
        }
        _ => Command::new(words[0]).args(&words[1..]).arg(scratch.path()),
    }
}
