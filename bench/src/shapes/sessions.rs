//! Many logged-in sessions in which nothing happens: what each costs the server in memory, and that none costs a thread.

use std::process::{ChildStdin, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::login::{self, Logins};
use crate::error::{Error, Result};
use crate::peers::{Server, System, Xdfs};
use crate::process::{Account, Held, Running};
use crate::report::Report;
use crate::sockets;
use crate::world::World;

/// Sessions of one client process: its descriptors are several per session, and the limit is per process.
const SESSIONS_PER_CLIENT: u32 = 1000;

/// A session takes some milliseconds of two cores; this is far above it, and below the server's limit for idle ones.
const OPEN_LIMIT: Duration = Duration::from_secs(400);

/// The server takes back the threads of the openings within this time.
const SETTLE: Duration = Duration::from_secs(3);

const QUICK_SESSIONS: u32 = 500;

/// What came out.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SessionsReport {
    /// Sessions asked for.
    pub sessions: u32,
    /// Connections that the server had.
    pub connections: usize,
    /// Seconds until all were open.
    pub open_seconds: f64,
    /// Private memory of the server, KiB: without sessions, with all of them.
    pub private_kib: (u64, u64),
    /// Threads of the server: without sessions, with all of them.
    pub threads: (u64, u64),
    /// Why it did not work.
    pub failure: Option<String>,
}

impl SessionsReport {
    /// KiB of private memory for each session.
    pub fn kib_each(&self) -> f64 {
        self.private_kib.1.saturating_sub(self.private_kib.0) as f64 / f64::from(self.sessions.max(1))
    }
}

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    let sessions = if world.args.quick { world.args.sessions.min(QUICK_SESSIONS) } else { world.args.sessions };
    let done = match measure(world, sessions) {
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(error) => {
            eprintln!("xdfs-bench: sessions: {error}");
            SessionsReport { sessions, failure: Some(error.to_string()), ..SessionsReport::default() }
        }
        Ok(done) => done,
    };
    print!("{}", text(&done));
    report.sessions.push(done);
    Ok(())
}

/// One line for people.
pub fn text(report: &SessionsReport) -> String {
    let title = format!("\n{} idle sessions of one channel, logged in by key\n", report.sessions);
    if let Some(failure) = &report.failure {
        return format!("{title}  failed: {failure}\n");
    }
    format!(
        "{title}  server: {:.1} KiB of private memory each ({} to {} KiB), {} to {} threads; {} connections, open after {:.1} s\n",
        report.kib_each(),
        report.private_kib.0,
        report.private_kib.1,
        report.threads.0,
        report.threads.1,
        report.connections,
        report.open_seconds,
    )
}

fn measure(world: &World, sessions: u32) -> Result<SessionsReport> {
    let system = Xdfs::default();
    crate::peers::check_installed(&system, world)?;
    let wrong = |detail: String| Error::Wrong { system: system.label(), detail };
    let logins = login::prepare(world)?;
    let Some(server) = system.serve(world, None)? else { return Err(wrong("no server".to_owned())) };
    let mut account = Account::open("sessions-client");
    // What the first session brings along for all, such as the thread for files, is not the others' cost.
    let (mut first, input) = hold(world, &server, &logins, &mut account, "sessions-first", 1)?;
    drop(input);
    first.wait(OPEN_LIMIT, &world.interrupt)?;
    first.finish()?;
    world.interrupt.sleep(SETTLE)?;
    let before = look(&server);
    let started = Instant::now();
    let mut clients = Vec::new();
    let mut left = sessions;
    while left > 0 {
        let part = left.min(SESSIONS_PER_CLIENT);
        let name = format!("sessions-client-{}", clients.len());
        clients.push(hold(world, &server, &logins, &mut account, &name, part)?);
        left -= part;
    }
    let open_seconds = started.elapsed().as_secs_f64();
    world.interrupt.sleep(SETTLE)?;
    let after = look(&server);
    for (client, _) in &mut clients {
        if client.has_ended() {
            return Err(client.ended_early());
        }
    }
    let connections = sockets::established(server.port);
    if connections != sessions as usize {
        return Err(wrong(format!("{connections} of {sessions} sessions are open")));
    }
    Ok(SessionsReport {
        sessions,
        connections,
        open_seconds,
        private_kib: (before.private_kib, after.private_kib),
        threads: (before.threads, after.threads),
        failure: None,
    })
}

/// Starts a client that holds `sessions` until the input that is returned is dropped, and waits until it has them.
fn hold(
    world: &World,
    server: &Server,
    logins: &Logins,
    account: &mut Account,
    name: &str,
    sessions: u32,
) -> Result<(Running, Option<ChildStdin>)> {
    let command = logins.key(login::holder(world, server, "hold")).args(["--sessions", &sessions.to_string()]);
    let mut client = command.start(world.scratch.path(), name, account, Stdio::piped())?;
    let input = client.take_input();
    login::wait_for_event(world, &mut client, "held", OPEN_LIMIT)?;
    Ok((client, input))
}

fn look(server: &Server) -> Held {
    server.account.processes().into_iter().map(Held::of).fold(Held::default(), |sum, one| Held {
        private_kib: sum.private_kib + one.private_kib,
        threads: sum.threads + one.threads,
    })
}
