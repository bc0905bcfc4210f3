//! Many clients at once against one session that moves the same bytes: does the server stay fair and fast?

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::memory::direction_name;
use super::rounds;
use crate::bound::Direction;
use crate::error::{Error, Result};
use crate::peers::{Server, System, Work, Xdfs};
use crate::process::{Account, Sampler, SideSample};
use crate::report::Report;
use crate::stats::median;
use crate::world::World;

/// Of each client, and of the one session.
const CHANNELS: u32 = 5;

/// A hung client must not hold the bench: 500 clients on two cores need well under a minute.
const LIMIT: Duration = Duration::from_secs(300);

/// What came out, one entry per direction.
#[derive(Debug, Clone, Serialize)]
pub struct ClientsReport {
    /// Which way.
    pub direction: Direction,
    /// Number of clients.
    pub clients: u32,
    /// Channels of each, and of the one session.
    pub channels: u32,
    /// Bytes of all clients together.
    pub bytes: u64,
    /// Seconds from the first start to the last end, per round.
    pub clients_seconds: Vec<f64>,
    /// Seconds of the one session with the same bytes, per round.
    pub session_seconds: Vec<f64>,
    /// Median of the per-round ratios.
    pub ratio: Option<f64>,
    /// Server CPU seconds per 10^9 bytes: many clients, one session.
    pub server_cpu_per_gigabyte: (f64, f64),
    /// The server with many clients, highest of all rounds.
    pub server: SideSample,
    /// Why it ended early.
    pub failure: Option<String>,
}

struct Batch {
    seconds: f64,
    server_cpu: f64,
    server: SideSample,
}

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    let args = &world.args;
    let clients = if args.quick { args.clients.min(50) } else { args.clients };
    let each = if args.quick { args.client_size / 10 } else { args.client_size };
    for direction in &args.directions {
        let one = one_direction(world, *direction, clients, each)?;
        print!("{}", text(&one));
        report.clients.push(one);
    }
    Ok(())
}

/// One line for people.
pub fn text(report: &ClientsReport) -> String {
    let title = format!(
        "{} clients x {} channels, {} bytes in all, {}",
        report.clients,
        report.channels,
        report.bytes,
        direction_name(report.direction)
    );
    let many = median(&report.clients_seconds).unwrap_or(f64::NAN);
    let one = median(&report.session_seconds).unwrap_or(f64::NAN);
    let failure = report.failure.as_ref().map(|failure| format!("\n  failed: {failure}")).unwrap_or_default();
    format!(
        "\n{title}\n  clients {many:.3} s, one session {one:.3} s, ratio {:.2}; server CPU s/GB {:.3} against {:.3}; \
         server peak {:.1} MiB, {} threads{failure}\n",
        report.ratio.unwrap_or(f64::NAN),
        report.server_cpu_per_gigabyte.0,
        report.server_cpu_per_gigabyte.1,
        report.server.peak_rss_kib as f64 / 1024.0,
        report.server.threads,
    )
}

fn one_direction(world: &World, direction: Direction, clients: u32, each: u64) -> Result<ClientsReport> {
    let mut report = ClientsReport {
        direction,
        clients,
        channels: CHANNELS,
        bytes: u64::from(clients) * each,
        clients_seconds: Vec::new(),
        session_seconds: Vec::new(),
        ratio: None,
        server_cpu_per_gigabyte: (0.0, 0.0),
        server: SideSample::default(),
        failure: None,
    };
    match rounds_of(world, &mut report, each) {
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(error) => {
            eprintln!("xdfs-bench: clients: {error}");
            report.failure = Some(error.to_string());
        }
        Ok(()) => {}
    }
    Ok(report)
}

fn rounds_of(world: &World, report: &mut ClientsReport, each: u64) -> Result<()> {
    crate::peers::check_installed(&Xdfs::default(), world)?;
    let Some(server) = Xdfs::default().serve(world, None)? else { return Ok(()) };
    let (mut ratios, mut many_cpu, mut one_cpu) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds(&world.args) {
        let many_first = round % 2 == 0;
        let (mut many, mut one) = (None, None);
        for turn in 0..2 {
            if (turn == 0) == many_first {
                many = Some(batch(world, &server, report.direction, report.clients, each)?);
            } else {
                one = Some(batch(world, &server, report.direction, 1, report.bytes)?);
            }
        }
        let (Some(many), Some(one)) = (many, one) else { continue };
        ratios.push(many.seconds / one.seconds);
        report.clients_seconds.push(many.seconds);
        report.session_seconds.push(one.seconds);
        many_cpu.push(many.server_cpu / report.bytes as f64 * 1e9);
        one_cpu.push(one.server_cpu / report.bytes as f64 * 1e9);
        report.server.peak_rss_kib = report.server.peak_rss_kib.max(many.server.peak_rss_kib);
        report.server.threads = report.server.threads.max(many.server.threads);
    }
    report.ratio = median(&ratios);
    report.server_cpu_per_gigabyte = (median(&many_cpu).unwrap_or(0.0), median(&one_cpu).unwrap_or(0.0));
    Ok(())
}

/// Starts `clients` programs one right after the other and waits for all.
fn batch(world: &World, server: &Server, direction: Direction, clients: u32, each: u64) -> Result<Batch> {
    let system = Xdfs::default();
    let work = Work::Memory { direction, channels: CHANNELS, bytes: each };
    let command = system.command(world, Some(server), &work)?;
    let mut account = Account::open("clients");
    let cpu_before = server.account.cpu();
    // Looking at 500 clients would disturb them; the server is what counts here.
    let sampler = Sampler::start(Box::new(Vec::new), server.account.lister());
    let mut running = Vec::with_capacity(clients as usize);
    for index in 0..clients {
        running.push(command.start(world.scratch.path(), &format!("client-{index}"), &mut account, Stdio::null())?);
    }
    let mut last = Instant::now();
    for client in &running {
        last = last.max(client.wait(LIMIT, &world.interrupt)?);
    }
    let sampled = sampler.stop();
    let server_cpu = server.account.cpu().saturating_sub(cpu_before).as_secs_f64();
    let started = running.first().map_or(last, crate::process::Running::started);
    for client in &mut running {
        client.finish()?;
        let moved = system.outcome(&client.output())?.bytes;
        if moved != Some(each) {
            let detail = format!("a client moved {moved:?} of {each} bytes");
            return Err(Error::Wrong { system: system.label(), detail });
        }
    }
    Ok(Batch { seconds: last.duration_since(started).as_secs_f64(), server_cpu, server: sampled.server })
}
