//! What an open session of 1000 channels costs while nothing happens.
//!
//! Twice: idle, held by the holder after one tiny operation, with no operation open; and waiting, with an upload from a
//! standard input to which nothing is written, which is what the command line can show.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::login::{holder, wait_for_event};
use crate::error::{Error, Result};
use crate::peers::{Server, System, Xdfs};
use crate::process::{Account, Command, Running, Sampler, SideSample};
use crate::report::Report;
use crate::sockets;
use crate::world::World;

/// All channels must be there within this time.
const OPEN_LIMIT: Duration = Duration::from_secs(20);

/// After the last channel: accepting, timers of the handshake and the allocator's work are not idling.
const SETTLE: Duration = Duration::from_secs(2);

const QUICK_SECONDS: u64 = 5;

/// What the session does not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Anything: no operation is open.
    #[default]
    Idle,
    /// Move anything: an operation is open and has nothing to send.
    Waiting,
}

/// What came out.
#[derive(Debug, Clone, Default, Serialize)]
pub struct IdleReport {
    /// Idle or waiting.
    pub kind: Kind,
    /// Channels asked for.
    pub channels: u32,
    /// Connections that the server had while it was measured.
    pub connections: usize,
    /// How long.
    pub seconds: f64,
    /// CPU of the client in that time, milliseconds.
    pub client_cpu_ms: f64,
    /// CPU of the server in that time, milliseconds.
    pub server_cpu_ms: f64,
    /// Client: memory, threads, switches.
    pub client: SideSample,
    /// Server: memory, threads, switches.
    pub server: SideSample,
    /// Kernel memory for TCP, KiB, the whole machine.
    pub socket_kib: u64,
    /// Why it did not work.
    pub failure: Option<String>,
}

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    let channels = world.args.channels.as_ref().and_then(|channels| channels.last().copied()).unwrap_or(1000);
    for kind in [Kind::Idle, Kind::Waiting] {
        let done = match measure(world, kind, channels) {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => {
                eprintln!("xdfs-bench: idle: {error}");
                IdleReport { kind, channels, failure: Some(error.to_string()), ..IdleReport::default() }
            }
            Ok(done) => done,
        };
        print!("{}", text(&done));
        report.idle.push(done);
    }
    Ok(())
}

/// One line for people.
pub fn text(report: &IdleReport) -> String {
    let title = match report.kind {
        Kind::Idle => "idle session",
        Kind::Waiting => "session whose one upload waits",
    };
    if let Some(failure) = &report.failure {
        return format!("\n{title} of {} channels\n  failed: {failure}\n", report.channels);
    }
    format!(
        "\n{title} of {} channels, {:.0} s\n  CPU {:.1} ms client, {:.1} ms server; {} connections; peak {:.1} / {:.1} MiB; \
         {} / {} threads; TCP memory {} KiB\n",
        report.channels,
        report.seconds,
        report.client_cpu_ms,
        report.server_cpu_ms,
        report.connections,
        report.client.peak_rss_kib as f64 / 1024.0,
        report.server.peak_rss_kib as f64 / 1024.0,
        report.client.threads,
        report.server.threads,
        report.socket_kib,
    )
}

fn command(world: &World, server: &Server, kind: Kind, channels: u32) -> Command {
    match kind {
        Kind::Idle => holder(world, server, "hold").args(["--channels", &channels.to_string()]),
        Kind::Waiting => {
            let url = format!("xdfs://127.0.0.1:{}/m/null{}", server.port, server.pin);
            Xdfs::default().copy(world, channels).arg("-").arg(url)
        }
    }
}

/// Until all channels are there, and the tiny operation is over.
fn wait_open(world: &World, server: &Server, client: &mut Running, kind: Kind, channels: u32) -> Result<()> {
    if kind == Kind::Idle {
        wait_for_event(world, client, "held", OPEN_LIMIT)?;
    }
    let deadline = Instant::now() + OPEN_LIMIT;
    while sockets::established(server.port) < channels as usize {
        if client.has_ended() {
            return Err(client.ended_early());
        }
        if Instant::now() > deadline {
            let open = sockets::established(server.port);
            let detail = format!("{open} of {channels} channels after {} s", OPEN_LIMIT.as_secs());
            return Err(Error::Wrong { system: Xdfs::default().label(), detail });
        }
        world.interrupt.sleep(Duration::from_millis(20))?;
    }
    Ok(())
}

fn measure(world: &World, kind: Kind, channels: u32) -> Result<IdleReport> {
    let system = Xdfs::default();
    crate::peers::check_installed(&system, world)?;
    let missing = || Error::Wrong { system: system.label(), detail: "no server".to_owned() };
    let server = system.serve(world, None)?.ok_or_else(missing)?;
    let mut account = Account::open("idle-client");
    let command = command(world, &server, kind, channels);
    let mut client = command.start(world.scratch.path(), "idle-client", &mut account, Stdio::piped())?;
    // Held open until the end of this function: the session lives as long.
    let input = client.take_input();
    wait_open(world, &server, &mut client, kind, channels)?;
    world.interrupt.sleep(SETTLE)?;
    let before = (account.cpu(), server.account.cpu());
    let began = Instant::now();
    let seconds = if world.args.quick { world.args.idle_seconds.min(QUICK_SECONDS) } else { world.args.idle_seconds };
    world.interrupt.sleep(Duration::from_secs(seconds))?;
    let after = (account.cpu(), server.account.cpu());
    let seconds = began.elapsed().as_secs_f64();
    if client.has_ended() {
        return Err(client.ended_early());
    }
    let connections = sockets::established(server.port);
    // Memory is looked at afterwards: reading /proc of a process is not its idle work, but it costs it page walks.
    let sampled = Sampler::start(account.lister(), server.account.lister()).stop();
    drop(input);
    Ok(IdleReport {
        kind,
        channels,
        connections,
        seconds,
        client_cpu_ms: (after.0.saturating_sub(before.0)).as_secs_f64() * 1e3,
        server_cpu_ms: (after.1.saturating_sub(before.1)).as_secs_f64() * 1e3,
        client: sampled.client,
        server: sampled.server,
        socket_kib: sampled.socket_kib,
        failure: None,
    })
}
