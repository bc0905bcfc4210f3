//! A thousand small files that survive a power cut, each round in a fresh directory: in one session of xdfs, and through the store that
//! its server uses, beside the loops that people write. Nothing is removed before the end: ext4 makes files ten times as slowly behind a mass deletion.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use serde::Serialize;

use super::login::holder;
use super::{failure, rounds};
use crate::args::FileSystem;
use crate::error::{Context, Error, Result};
use crate::files;
use crate::peers::{System, Xdfs, json_events};
use crate::process::{Account, Command};
use crate::report::Report;
use crate::stats::median;
use crate::world::{ScratchDir, World};

const FILES: u32 = 1000;
const BYTES: u32 = 4096;

/// A session; the store alone; and the two loops: open, write, fsync, close; and with a temporary name, rename and fsync of the
/// directory. With `--before` also a session with a server of the other build, by the same client.
pub const WAYS: [&str; 5] = ["session", "store", "plain", "careful", BEFORE];

const BEFORE: &str = "before";

const LIMIT: Duration = Duration::from_secs(300);

/// What came out.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SmallFilesReport {
    /// Files of each run.
    pub files: u32,
    /// Bytes of each file.
    pub size: u32,
    /// Seconds of each round, by [`WAYS`].
    pub seconds: [Vec<f64>; 5],
    /// Why it ended early.
    pub failure: Option<String>,
}

impl SmallFilesReport {
    /// Median over the rounds of the time of a way over that of the session.
    pub fn ratio(&self, way: usize) -> Option<f64> {
        let pairs = self.seconds.first()?.iter().zip(self.seconds.get(way)?);
        median(&pairs.map(|(session, other)| other / session).collect::<Vec<_>>())
    }

    /// The rate of the session over that with the server of the other build: of the best rounds, and of the medians.
    pub fn kept(&self) -> Option<(f64, f64)> {
        let [own, .., before] = &self.seconds;
        let least = |seconds: &[f64]| seconds.iter().copied().reduce(f64::min);
        Some((least(before)? / least(own)?, median(before)? / median(own)?))
    }
}

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    if !world.args.filesystems.contains(&FileSystem::Ext4) {
        return Ok(());
    }
    let mut one = SmallFilesReport { files: FILES, size: BYTES, ..SmallFilesReport::default() };
    one.failure = failure("small files", measure(world, &mut one))?;
    print!("{}", text(&one));
    report.small_files.push(one);
    Ok(())
}

/// Two lines for people.
pub fn text(report: &SmallFilesReport) -> String {
    let rate = |way: usize| {
        let seconds = report.seconds.get(way).and_then(|seconds| median(seconds)).unwrap_or(f64::NAN);
        let ratio = report.ratio(way).unwrap_or(f64::NAN);
        let of_it = if way == 0 { String::new() } else { format!(" ({ratio:.2} of it)") };
        format!("{} {:.0}/s{of_it}", WAYS.get(way).unwrap_or(&""), f64::from(report.files) / seconds)
    };
    let tried = |way: &usize| report.seconds.get(*way).is_some_and(|seconds| !seconds.is_empty());
    let rates: Vec<String> = (0..WAYS.len()).filter(tried).map(rate).collect();
    let failure = report.failure.as_ref().map(|failure| format!("\n  failed: {failure}")).unwrap_or_default();
    format!("\n{} durable files of {} bytes on ext4\n  {}{failure}\n", report.files, report.size, rates.join(", "))
}

fn measure(world: &World, report: &mut SmallFilesReport) -> Result<()> {
    files::check_file_system(&world.args.ext4_dir, FileSystem::Ext4)?;
    let scratch = ScratchDir::create(&world.args.ext4_dir, "small-files")?;
    let server = Xdfs::default().serve(world, Some(scratch.path()))?;
    let before = match world.args.before {
        Some(_) => Xdfs { before: true, ..Xdfs::default() }.serve(world, Some(scratch.path()))?,
        None => None,
    };
    let ways = if before.is_some() { WAYS.len() } else { WAYS.len() - 1 };
    for round in 0..rounds(&world.args) {
        for turn in 0..ways {
            let way = (turn + round as usize) % ways;
            let name = format!("{round}-{}", WAYS[way]);
            let directory = scratch.path().join(&name);
            fs::create_dir(&directory).context(|| directory.display().to_string())?;
            let mut account = Account::open("small-files");
            let session = match WAYS[way] {
                "session" => server.as_ref(),
                BEFORE => before.as_ref(),
                _ => None,
            };
            let command = match session {
                Some(server) => holder(world, server, "put-small").arg("--base").arg(format!("f/{name}")),
                None => Command::new(&world.small_files).arg(WAYS[way]).arg("--directory").arg(&directory),
            };
            let command = command.args(["--files", &report.files.to_string(), "--size", &report.size.to_string()]);
            let mut running = command.start(world.scratch.path(), "small-files", &mut account, Stdio::null())?;
            running.wait(LIMIT, &world.interrupt)?;
            running.finish()?;
            report.seconds[way].push(seconds(&running.output())?);
            // What one run left to be written is not the next one's.
            rustix::fs::sync();
            let made = fs::read_dir(&directory).context(|| directory.display().to_string())?.count();
            if made != report.files as usize {
                let detail = format!("{made} of {} files are there", report.files);
                return Err(Error::Wrong { system: WAYS[way].to_owned(), detail });
            }
        }
    }
    Ok(())
}

fn seconds(output: &str) -> Result<f64> {
    let unreadable = || Error::Unreadable { program: "small-files".to_owned(), detail: "no seconds".to_owned() };
    json_events(output).iter().find_map(|event| event["seconds"].as_f64()).ok_or_else(unreadable)
}
