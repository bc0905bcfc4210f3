//! What it costs to log in: CPU beside that of a bare TLS 1.3 handshake, and time over a long way.
//!
//! Also the set-up that other shapes with logins share: users made with the command line in the state of the bench's
//! servers, and the holder's command line.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::rounds;
use crate::error::{Context, Error, Result};
use crate::peers::{Rustls, Server, System, Xdfs, json_events, state};
use crate::process::{Account, Command, Running};
use crate::report::Report;
use crate::stats::median;
use crate::world::World;

const QUICK_LOGINS: u32 = 100;

/// First bytes of each kind of login.
const FIRST_BYTES: u32 = 5;

/// A login costs a few milliseconds; thousands of them end far below this.
const LIMIT: Duration = Duration::from_secs(300);

const USER: &str = "anna";
const PASSWORD: &str = "a password of the bench, for nobody";

/// CPU of one side, milliseconds per login or handshake, one entry per round.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SideCost {
    /// xdfs.
    pub login_ms: Vec<f64>,
    /// Plain rustls.
    pub handshake_ms: Vec<f64>,
}

impl SideCost {
    /// Median over the rounds of login over handshake.
    pub fn ratio(&self) -> Option<f64> {
        let pairs = self.login_ms.iter().zip(&self.handshake_ms);
        median(&pairs.map(|(login, handshake)| login / handshake).collect::<Vec<_>>())
    }
}

/// What came out.
#[derive(Debug, Clone, Default, Serialize)]
pub struct LoginReport {
    /// Logins of each round, and handshakes.
    pub count: u32,
    /// CPU of the client.
    pub client: SideCost,
    /// CPU of the server.
    pub server: SideCost,
    /// Milliseconds from connect to the first byte with 50 ms in each direction, by the kind of login.
    pub first_byte_ms: Vec<(String, Vec<f64>)>,
    /// Why it ended early.
    pub failure: Option<String>,
}

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    let count = if world.args.quick { world.args.logins.min(QUICK_LOGINS) } else { world.args.logins };
    let mut done = LoginReport { count, ..LoginReport::default() };
    match measure(world, &mut done) {
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(error) => {
            eprintln!("xdfs-bench: login: {error}");
            done.failure = Some(error.to_string());
        }
        Ok(()) => {}
    }
    print!("{}", text(&done));
    report.logins.push(done);
    Ok(())
}

/// A few lines for people.
pub fn text(report: &LoginReport) -> String {
    let mut text = format!("\n{} logins by key, and as many bare TLS 1.3 handshakes\n", report.count);
    let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
    for (side, cost) in [("client", &report.client), ("server", &report.server)] {
        text.push_str(&format!(
            "  {side}: {:.3} ms of CPU a login, {:.3} a handshake, ratio {:.2}\n",
            middle(&cost.login_ms),
            middle(&cost.handshake_ms),
            cost.ratio().unwrap_or(f64::NAN),
        ));
    }
    for (kind, times) in &report.first_byte_ms {
        text.push_str(&format!("  first byte over 50 ms each way, {kind}: {:.1} ms\n", middle(times)));
    }
    if let Some(failure) = &report.failure {
        text.push_str(&format!("  failed: {failure}\n"));
    }
    text
}

/// Where the secrets of the bench's user are.
#[derive(Debug)]
pub(super) struct Logins {
    key: PathBuf,
    token: PathBuf,
    password: PathBuf,
}

impl Logins {
    /// A holder's command line that logs in by key.
    pub(super) fn key(&self, command: Command) -> Command {
        command.args(["--user", USER, "--identity"]).arg(&self.key)
    }

    fn kinds(&self) -> [(&'static str, Vec<String>); 4] {
        let path = |path: &Path| path.display().to_string();
        let named = |option: &str, file: &Path| vec!["--user".into(), USER.into(), option.into(), path(file)];
        [
            ("anonymous", Vec::new()),
            ("token", vec!["--token-file".to_owned(), path(&self.token)]),
            ("key", named("--identity", &self.key)),
            ("password", named("--password-file", &self.password)),
        ]
    }
}

/// Makes the user, once, in the state that every server of this run uses.
pub(super) fn prepare(world: &World) -> Result<Logins> {
    let own = world.scratch.path().join("client-state");
    let logins = Logins { key: own.join("id_ed25519"), token: own.join("token"), password: own.join("password") };
    if logins.token.exists() {
        return Ok(logins);
    }
    let xdfs = |arguments: &[&str], state: &Path| {
        let mut command = std::process::Command::new(&world.xdfs);
        command.args(arguments).arg("--state").arg(state).stdin(Stdio::null());
        let output = command.output().context(|| format!("xdfs {}", arguments.join(" ")))?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(Error::Failed { command: arguments.join(" "), status: output.status.to_string(), output: text })
    };
    let shown = |path: &Path| path.display().to_string();
    xdfs(&["key", "create"], &own)?;
    fs::write(&logins.password, format!("{PASSWORD}\n")).context(|| shown(&logins.password))?;
    fs::set_permissions(&logins.password, fs::Permissions::from_mode(0o600)).context(|| shown(&logins.password))?;
    let server = state(world);
    let public = shown(&logins.key.with_extension("pub"));
    xdfs(&["user", "add", USER, "--key", &public, "--password-file", &shown(&logins.password)], &server)?;
    xdfs(&["user", "token", USER, "--export", "m", "--out", &shown(&logins.token)], &server)?;
    Ok(logins)
}

/// The holder's command line for a server.
pub(super) fn holder(world: &World, server: &Server, subcommand: &str) -> Command {
    Command::new(&world.holder)
        .args([subcommand, "--connect", &format!("127.0.0.1:{}", server.port)])
        .args(["--host-key", server.pin.trim_start_matches('#')])
}

/// Waits until a program has printed the event, and returns it.
pub(super) fn wait_for_event(
    world: &World,
    running: &mut Running,
    name: &str,
    limit: Duration,
) -> Result<serde_json::Value> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(event) = json_events(&running.output()).into_iter().find(|event| event["event"] == name) {
            return Ok(event);
        }
        if running.has_ended() {
            return Err(running.ended_early());
        }
        if Instant::now() > deadline {
            return Err(Error::Deadline { command: name.to_owned(), seconds: limit.as_secs() });
        }
        world.interrupt.sleep(Duration::from_millis(20))?;
    }
}

fn measure(world: &World, report: &mut LoginReport) -> Result<()> {
    let system = Xdfs::default();
    crate::peers::check_installed(&system, world)?;
    let logins = prepare(world)?;
    let missing = || Error::Wrong { system: system.label(), detail: "no server".to_owned() };
    let server = system.serve(world, None)?.ok_or_else(missing)?;
    for (kind, options) in logins.kinds() {
        let command = holder(world, &server, "first-byte").args(&options).args(["--count", &FIRST_BYTES.to_string()]);
        let times = read_times(&finish(world, &command)?)?;
        report.first_byte_ms.push((kind.to_owned(), times));
    }
    let bare = Rustls.serve(world, None)?.ok_or_else(missing)?;
    let count = report.count.to_string();
    let login = logins.key(holder(world, &server, "logins")).args(["--count", &count]);
    let handshake = Rustls::client(world, bare.port, "handshakes").args(["--count", &count]);
    for round in 0..rounds(&world.args) {
        for turn in 0..2 {
            let of_xdfs = (turn + round) % 2 == 0;
            let (command, server) = if of_xdfs { (&login, &server) } else { (&handshake, &bare) };
            let (client_ms, server_ms) = cost(world, command, server, report.count)?;
            let sides = [(&mut report.client, client_ms), (&mut report.server, server_ms)];
            for (side, found) in sides {
                if of_xdfs { side.login_ms.push(found) } else { side.handshake_ms.push(found) }
            }
        }
    }
    Ok(())
}

/// CPU of both sides for one of `count` pieces of work, in milliseconds. The client's start is part of it: a few
/// milliseconds among thousands of logins.
fn cost(world: &World, command: &Command, server: &Server, count: u32) -> Result<(f64, f64)> {
    let mut account = Account::open("login-client");
    let before = server.account.cpu();
    let mut client = command.start(world.scratch.path(), "login-client", &mut account, Stdio::null())?;
    client.wait(LIMIT, &world.interrupt)?;
    let own = account.cpu();
    let servers = server.account.cpu().saturating_sub(before);
    client.finish()?;
    let each = |time: Duration| time.as_secs_f64() * 1e3 / f64::from(count.max(1));
    Ok((each(own), each(servers)))
}

fn finish(world: &World, command: &Command) -> Result<String> {
    let mut account = Account::open("login-client");
    let mut client = command.start(world.scratch.path(), "login-client", &mut account, Stdio::null())?;
    client.wait(LIMIT, &world.interrupt)?;
    client.finish()?;
    Ok(client.output())
}

fn read_times(output: &str) -> Result<Vec<f64>> {
    let unreadable = || Error::Unreadable { program: "holder".to_owned(), detail: "no first_byte object".to_owned() };
    let events = json_events(output);
    let event = events.iter().find(|event| event["event"] == "first_byte").ok_or_else(unreadable)?;
    let times: Option<Vec<f64>> =
        event["milliseconds"].as_array().ok_or_else(unreadable)?.iter().map(serde_json::Value::as_f64).collect();
    times.filter(|times| !times.is_empty()).ok_or_else(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_compared_with_themselves() {
        let cost = SideCost { login_ms: vec![3.0, 1.0, 8.0], handshake_ms: vec![2.0, 1.0, 2.0] };
        assert_eq!(cost.ratio(), Some(1.5));
        assert_eq!(SideCost::default().ratio(), None);
    }

    #[test]
    fn times_are_read_from_the_line_that_has_them() {
        let output = "noise\n{\"event\":\"first_byte\",\"milliseconds\":[201.5,202]}\n";
        assert_eq!(read_times(output).expect("times"), [201.5, 202.0]);
        assert!(read_times("{\"event\":\"first_byte\",\"milliseconds\":[]}").is_err());
        assert!(read_times("{\"event\":\"other\"}").is_err());
    }
}
