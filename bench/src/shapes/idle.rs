//! What an open session of 1000 channels costs while nothing happens.
//!
//! The command line has no way to hold a session without an operation, so an upload from standard input is opened and
//! nothing is written to it: stricter than an idle session, since an operation is open and waits.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::error::{Error, Result};
use crate::peers::{System, Xdfs, xdfs_copy};
use crate::process::{Account, Sampler, SideSample};
use crate::report::Report;
use crate::sockets;
use crate::world::World;

/// All channels must be there within this time.
const OPEN_LIMIT: Duration = Duration::from_secs(20);

/// After the last channel: accepting, timers of the handshake and the allocator's work are not idling.
const SETTLE: Duration = Duration::from_secs(2);

const QUICK_SECONDS: u64 = 5;

/// What came out.
#[derive(Debug, Clone, Serialize)]
pub struct IdleReport {
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
    let done = match measure(world, channels) {
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(error) => {
            eprintln!("xdfs-bench: idle: {error}");
            IdleReport { failure: Some(error.to_string()), ..empty(channels) }
        }
        Ok(done) => done,
    };
    print!("{}", text(&done));
    report.idle.push(done);
    Ok(())
}

/// One line for people.
pub fn text(report: &IdleReport) -> String {
    if let Some(failure) = &report.failure {
        return format!("\nidle session of {} channels\n  failed: {failure}\n", report.channels);
    }
    format!(
        "\nidle session of {} channels, {:.0} s\n  CPU {:.1} ms client, {:.1} ms server; {} connections; peak {:.1} / {:.1} MiB; \
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

fn empty(channels: u32) -> IdleReport {
    IdleReport {
        channels,
        connections: 0,
        seconds: 0.0,
        client_cpu_ms: 0.0,
        server_cpu_ms: 0.0,
        client: SideSample::default(),
        server: SideSample::default(),
        socket_kib: 0,
        failure: None,
    }
}

fn measure(world: &World, channels: u32) -> Result<IdleReport> {
    let system = Xdfs::default();
    crate::peers::check_installed(&system, world)?;
    let wrong = |detail: String| Error::Wrong { system: system.label(), detail };
    let Some(server) = system.serve(world, None)? else { return Err(wrong("no server".to_owned())) };
    let mut account = Account::open("idle-client");
    let command = xdfs_copy(world, channels, "clear")
        .arg("-")
        .arg(format!("xdfs://127.0.0.1:{}/m/null{}", server.port, server.pin));
    let mut client = command.start(world.scratch.path(), "idle-client", &mut account, Stdio::piped())?;
    // Held open until the end of this function: the operation waits for it.
    let input = client.take_input();
    let deadline = Instant::now() + OPEN_LIMIT;
    while sockets::established(server.port) < channels as usize {
        world.interrupt.check()?;
        if client.has_ended() {
            return Err(client.ended_early());
        }
        if Instant::now() > deadline {
            let open = sockets::established(server.port);
            return Err(wrong(format!("{open} of {channels} channels after {} s", OPEN_LIMIT.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
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
        connections,
        seconds,
        client_cpu_ms: (after.0.saturating_sub(before.0)).as_secs_f64() * 1e3,
        server_cpu_ms: (after.1.saturating_sub(before.1)).as_secs_f64() * 1e3,
        client: sampled.client,
        server: sampled.server,
        socket_kib: sampled.socket_kib,
        ..empty(channels)
    })
}
