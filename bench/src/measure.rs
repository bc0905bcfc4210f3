//! One run of one system: the only place where time, CPU, memory and bytes on the wire are taken.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::error::{Error, Result};
use crate::machine::Busy;
use crate::peers::{Server, System, Work};
use crate::process::{Account, Sampled, Sampler, SideSample};
use crate::sockets;
use crate::world::World;

/// No system here is slower than this, so a run that takes longer hangs.
const RATE_MIN_BYTES_PER_SECOND: u64 = 50_000_000;

/// Added to the limit for programs to start and end.
const LIMIT_BASE: Duration = Duration::from_secs(20);

/// A server that forks per session needs a moment to reap; its CPU is read after that.
const SETTLE_LIMIT: Duration = Duration::from_millis(500);

/// Time between two looks at the sockets. One look at 2000 sockets takes about 15 ms.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// What one run gave.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// Round it belongs to, from 0.
    pub round: u32,
    /// Start of the client program to its end.
    pub wall_seconds: f64,
    /// The program's own clock, where it has one.
    pub own_seconds: Option<f64>,
    /// Seconds that count in this shape: own clock from memory to memory where there is one, else wall.
    pub seconds: f64,
    /// Payload bytes.
    pub bytes: u64,
    /// Bytes per nanosecond by `seconds`.
    pub gigabytes_per_second: f64,
    /// CPU of the client's processes.
    pub client_cpu_seconds: f64,
    /// CPU of the server's processes during the run.
    pub server_cpu_seconds: f64,
    /// Memory, threads and switches of the client.
    pub client: SideSample,
    /// Memory, threads and switches of the server.
    pub server: SideSample,
    /// Peak kernel memory for TCP, KiB, the whole machine.
    pub socket_kib: u64,
    /// Octets that crossed the IP layer during the run, in a network of our own.
    pub wire_octets: Option<u64>,
    /// Channels the program says it got.
    pub channels: Option<u32>,
    /// Congestion control the program reports.
    pub congestion: Option<String>,
    /// Part of the machine that was busy with something else or stolen by its host, 0 to 1.
    pub others: f64,
}

/// Runs the client of `system` once. `round` is only written down.
pub fn run(world: &World, system: &dyn System, server: Option<&Server>, work: &Work, round: u32) -> Result<Run> {
    let command = system.command(world, server, work)?;
    let limit = LIMIT_BASE + Duration::from_secs(work.bytes() / RATE_MIN_BYTES_PER_SECOND);
    let mut account = Account::open("client");
    let calm = server.map(|server| server.account.processes().len());
    let octets_before = sockets::octets();
    let cpu_before = server.map(|server| server.account.cpu());
    let sampler = Sampler::start(
        account.lister(),
        match server {
            Some(server) => server.account.lister(),
            None => Box::new(Vec::new),
        },
    );
    let busy_before = Busy::now();
    let mut client = command.start(world.scratch.path(), "client", &mut account, Stdio::null())?;
    let ended = client.wait(limit, &world.interrupt)?;
    let busy = Busy::now();
    let sampled = sampler.stop();
    let client_cpu = account.cpu();
    let octets = sockets::octets().saturating_sub(octets_before);
    client.finish()?;
    settle(server, calm);
    let server_cpu =
        server.map(|server| server.account.cpu()).zip(cpu_before).map(|(now, then)| now.saturating_sub(then));
    let outcome = system.outcome(&client.output())?;
    let bytes = outcome.bytes.unwrap_or(work.bytes());
    check_bytes(world, system, work, bytes, octets)?;
    let wall_seconds = ended.duration_since(client.started()).as_secs_f64();
    let seconds = match work {
        Work::Memory { .. } => outcome.seconds.unwrap_or(wall_seconds),
        Work::File { .. } | Work::Tree { .. } | Work::Same { .. } => wall_seconds,
    };
    let own_cpu = client_cpu + server_cpu.unwrap_or_default();
    let Sampled { client: client_sample, server: server_sample, socket_kib } = sampled;
    Ok(Run {
        round,
        wall_seconds,
        own_seconds: outcome.seconds,
        seconds,
        bytes,
        gigabytes_per_second: bytes as f64 / seconds / 1e9,
        client_cpu_seconds: client_cpu.as_secs_f64(),
        server_cpu_seconds: server_cpu.unwrap_or_default().as_secs_f64(),
        client: client_sample,
        server: server_sample,
        socket_kib,
        wire_octets: world.own_network.then_some(octets),
        channels: outcome.channels,
        congestion: outcome.congestion,
        others: others(busy_before, busy, own_cpu.as_secs_f64(), wall_seconds),
    })
}

/// Runs the client once more, not for the figures: looks at the sockets while it runs.
pub fn look_at_sockets(
    world: &World,
    system: &dyn System,
    server: Option<&Server>,
    work: &Work,
) -> Result<Vec<Vec<u64>>> {
    let command = system.command(world, server, work)?;
    let limit = LIMIT_BASE + Duration::from_secs(work.bytes() / RATE_MIN_BYTES_PER_SECOND);
    let mut account = Account::open("client");
    let mut client = command.start(world.scratch.path(), "client", &mut account, Stdio::null())?;
    let done = AtomicBool::new(false);
    let looks = std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut looks = Vec::new();
            while !done.load(Ordering::Relaxed) {
                looks.push(sockets::carried());
                std::thread::sleep(LOOK_PAUSE);
            }
            looks
        });
        let ended = client.wait(limit, &world.interrupt);
        done.store(true, Ordering::Relaxed);
        let looks = looking.join().unwrap_or_default();
        ended.map(|_| looks)
    })?;
    client.finish()?;
    Ok(looks)
}

/// Every byte must have been moved, and must have crossed the network; none, where all were there.
fn check_bytes(world: &World, system: &dyn System, work: &Work, bytes: u64, octets: u64) -> Result<()> {
    let wrong = |detail: String| Err(Error::Wrong { system: system.label(), detail });
    let asked = work.bytes();
    if bytes + system.unreceived_max(work) < asked {
        return wrong(format!("says it moved {bytes} of {asked} bytes"));
    }
    if matches!(work, Work::Same { .. }) {
        // What is sent of a file where nothing has changed is not the names and times.
        let sent = world.own_network && octets > bytes / 10;
        return if sent {
            wrong(format!("{octets} octets crossed the network, and nothing had changed"))
        } else {
            Ok(())
        };
    }
    if world.own_network && system.uses_network() && octets < bytes {
        return wrong(format!("{bytes} bytes are said to have moved, and only {octets} octets crossed the network"));
    }
    Ok(())
}

/// Part of the machine's capacity that neither side had.
fn others(before: Busy, after: Busy, own: f64, wall: f64) -> f64 {
    let capacity = wall * std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64);
    let foreign = (after.used - before.used - own).max(0.0) + (after.stolen - before.stolen);
    if capacity > 0.0 { (foreign / capacity).min(1.0) } else { 0.0 }
}

fn settle(server: Option<&Server>, calm: Option<usize>) {
    let (Some(server), Some(calm)) = (server, calm) else { return };
    let deadline = Instant::now() + SETTLE_LIMIT;
    while server.account.processes().len() > calm && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
}
