//! A copy with every default on is killed when nine tenths have passed, the client in one round and the server in the next: how much the
//! same command then sends, and how soon it begins.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::{failure, rounds, size};
use crate::args::FileSystem;
use crate::error::{Context, Error, Result};
use crate::files;
use crate::peers::{Server, System, Xdfs, json_events};
use crate::process::{Account, Command, Running};
use crate::report::Report;
use crate::sockets;
use crate::stats::median;
use crate::world::{ScratchDir, World};

const BYTES: u64 = 5 << 30;

/// Killed when so much of the file has crossed the network: nine tenths.
const KILLED_AT: f64 = 0.9;

/// The command sends when so much has crossed; the opening of a session is a few KiB.
const SENDS_OCTETS: u64 = 1 << 20;

/// The sockets are empty when nothing has crossed for so long.
const CALM: Duration = Duration::from_millis(100);

/// Rounds at most: each moves 5 GiB and makes them durable.
const ROUNDS_MAX: u32 = 4;

const LIMIT: Duration = Duration::from_secs(600);

/// What came out, one entry of each list per round.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ResumeReport {
    /// Bytes of the file.
    pub bytes: u64,
    /// Share that had not crossed the network when the first attempt was killed, heads counted as bytes of the file.
    pub missing: Vec<f64>,
    /// Share of the file that the second attempt sent.
    pub moved: Vec<f64>,
    /// Seconds from its start to its first MiB.
    pub start_seconds: Vec<f64>,
    /// Why it ended early.
    pub failure: Option<String>,
}

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    if !world.args.filesystems.contains(&FileSystem::Ext4) {
        return Ok(());
    }
    let mut one = ResumeReport { bytes: size(&world.args, BYTES), ..ResumeReport::default() };
    one.failure = failure("resume", measure(world, &mut one))?;
    print!("{}", text(&one));
    report.resumes.push(one);
    Ok(())
}

/// Two lines for people.
pub fn text(report: &ResumeReport) -> String {
    let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
    let failure = report.failure.as_ref().map(|failure| format!("\n  failed: {failure}")).unwrap_or_default();
    format!(
        "\n{} bytes, killed at 90 %, and the same command again, ext4\n  sends {:.1} % (missing {:.1} %), begins within {:.3} s{failure}\n",
        report.bytes,
        100.0 * middle(&report.moved),
        100.0 * middle(&report.missing),
        middle(&report.start_seconds),
    )
}

fn measure(world: &World, report: &mut ResumeReport) -> Result<()> {
    files::check_file_system(&world.args.ext4_dir, FileSystem::Ext4)?;
    let scratch = ScratchDir::create(&world.args.ext4_dir, "resume")?;
    let (source, served) = (scratch.path().join("source"), scratch.path().join("served"));
    files::create_random(&source, report.bytes, &world.interrupt)?;
    for round in 0..rounds(&world.args).min(ROUNDS_MAX) {
        fs::create_dir_all(&served).context(|| served.display().to_string())?;
        let mut attempts = Attempts { world, source: &source, served: &served, server: None };
        let missing = attempts.killed(report.bytes, round % 2 == 1)?;
        let (moved, seconds) = attempts.again()?;
        files::check_equal("xdfs", &source, &served.join("target"))?;
        drop(attempts);
        files::remove(&served.join("target"))?;
        report.missing.push(missing);
        report.moved.push(moved / report.bytes as f64);
        report.start_seconds.push(seconds);
    }
    Ok(())
}

struct Attempts<'a> {
    world: &'a World,
    source: &'a Path,
    served: &'a Path,
    server: Option<Server>,
}

impl Attempts<'_> {
    /// The command of both attempts, with nothing but defaults.
    fn start(&mut self) -> Result<(Running, Account)> {
        if self.server.is_none() {
            self.server = Xdfs::default().serve(self.world, Some(self.served))?;
        }
        let (port, pin) = self.server.as_ref().map_or((0, ""), |server| (server.port, server.pin.as_str()));
        let url = format!("xdfs://127.0.0.1:{port}/f/target{pin}");
        let command = Command::new(&self.world.xdfs)
            .args(["cp", "--json", "--progress", "none", "--retry", "0"])
            .arg(self.source)
            .arg(url);
        let mut account = Account::open("resume");
        let running = command.start(self.world.scratch.path(), "resume", &mut account, Stdio::null())?;
        Ok((running, account))
    }

    /// Waits until so many octets have crossed; false where the program has ended before.
    fn crossed(&self, running: &mut Running, octets: u64) -> Result<bool> {
        let deadline = Instant::now() + LIMIT;
        while sockets::octets() < octets {
            self.world.interrupt.check()?;
            if running.has_ended() || Instant::now() > deadline {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(true)
    }

    /// The first attempt, killed with SIGKILL. The share that it has not sent.
    fn killed(&mut self, bytes: u64, server: bool) -> Result<f64> {
        let before = sockets::octets();
        let (mut running, _account) = self.start()?;
        let there = before + (bytes as f64 * KILLED_AT) as u64;
        if !self.crossed(&mut running, there)? {
            let detail = format!("the first attempt ended early: {}", running.complaint());
            return Err(Error::Wrong { system: "xdfs".to_owned(), detail });
        }
        if server {
            // Dropped, a program gets a moment to end in order; killed, it does not.
            if let Some(mut server) = self.server.take() {
                server.running.kill();
            }
        }
        running.kill();
        Ok(1.0 - (sockets::octets() - before) as f64 / bytes as f64)
    }

    /// Waits until what the sockets of the killed program still held has crossed; the octets so far.
    fn calm(&self) -> Result<u64> {
        let mut before = sockets::octets();
        loop {
            self.world.interrupt.check()?;
            std::thread::sleep(CALM);
            let now = sockets::octets();
            if now - before < SENDS_OCTETS / 16 {
                return Ok(now);
            }
            before = now;
        }
    }

    /// The second attempt: bytes that it sent, and seconds until it did.
    fn again(&mut self) -> Result<(f64, f64)> {
        let before = self.calm()?;
        let (mut running, _account) = self.start()?;
        if !self.crossed(&mut running, before + SENDS_OCTETS)? {
            let detail = format!("the second attempt sent nothing: {}", running.complaint());
            return Err(Error::Wrong { system: "xdfs".to_owned(), detail });
        }
        let seconds = running.started().elapsed().as_secs_f64();
        running.wait(LIMIT, &self.world.interrupt)?;
        running.finish()?;
        let output = running.output();
        let unreadable = || Error::Unreadable { program: "xdfs".to_owned(), detail: output.clone() };
        let transfer =
            json_events(&output).into_iter().find(|event| event["event"] == "transfer").ok_or_else(unreadable)?;
        let sent = transfer["channel_bytes"].as_array().ok_or_else(unreadable)?;
        Ok((sent.iter().filter_map(serde_json::Value::as_f64).sum(), seconds))
    }
}
