//! The demo's processes: this same program as a server and as a client, with the options that a
//! user would type.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Measured, say};
use crate::exit::{Exit, Failure};
use crate::plan::DemoPlan;
use crate::text::printable;

/// The user who logs in.
const USER: &str = "demo";

/// Longest line of a child's output, in bytes: a transfer of 4096 channels with 20 digits each.
const LINE_BYTES_MAX: u64 = 256 << 10;

/// A server in a separate process, killed when this value is dropped.
#[derive(Debug)]
pub(super) struct ServerProcess {
    child: Child,
    address: String,
    host_key: String,
}

/// The state folders of the demo's server and client: it uses no keys or users of others.
#[derive(Debug)]
pub(super) struct States {
    server: PathBuf,
    client: PathBuf,
}

impl States {
    /// Makes a key for the client and admits it at the server, as two users would.
    pub(super) fn prepare(server: PathBuf, client: PathBuf) -> Result<Self, Failure> {
        let states = Self { server, client };
        let create: [&OsStr; 4] = ["key".as_ref(), "create".as_ref(), "--state".as_ref(), states.client.as_ref()];
        run(&create)?;
        let mut public = states.identity();
        public.as_mut_os_string().push(".pub");
        let add: [&OsStr; 7] = [
            "user".as_ref(),
            "add".as_ref(),
            USER.as_ref(),
            "--key".as_ref(),
            public.as_ref(),
            "--state".as_ref(),
            states.server.as_ref(),
        ];
        run(&add)?;
        Ok(states)
    }

    fn identity(&self) -> PathBuf {
        self.client.join("id_ed25519")
    }
}

/// The results that a copy reported.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Report {
    pub(super) measured: Measured,
    pub(super) channels: u64,
    pub(super) protection: String,
    pub(super) congestion: String,
}

impl ServerProcess {
    /// Starts `xdfs serve` for `directory` on a free port, and waits until it reports that it is
    /// ready.
    pub(super) fn start(directory: &Path, states: &States) -> Result<Self, Failure> {
        let mut export = OsString::from("demo=");
        export.push(directory);
        let words: [&OsStr; 8] = [
            "serve".as_ref(),
            "--state".as_ref(),
            states.server.as_ref(),
            "--json".as_ref(),
            "--listen".as_ref(),
            "127.0.0.1:0".as_ref(),
            "--export".as_ref(),
            &export,
        ];
        let child = start(&words)?;
        // Owned from here on: whatever fails below, the process is killed.
        let mut server = Self { child, address: String::new(), host_key: String::new() };
        let line = read_line(&mut server.child)?;
        let word = |name| line.get(name).and_then(Value::as_str).ok_or_else(|| unexpected("the server", &line));
        (server.address, server.host_key) = (word("address")?.to_owned(), word("host_key")?.to_owned());
        Ok(server)
    }

    /// The URL of a file in its export, with its key pinned.
    pub(super) fn url(&self, name: &str) -> String {
        format!("xdfs://{USER}@{}/demo/{name}#{}", self.address, self.host_key)
    }

    /// Requests it to stop, and waits until it has.
    pub(super) fn stop(mut self) -> Result<(), Failure> {
        let asked = Pid::from_raw(self.child.id() as i32).map(|pid| kill_process(pid, Signal::TERM));
        if !matches!(asked, Some(Ok(()))) {
            return Err(Failure::new(Exit::Local, "the demo's server cannot be asked to stop"));
        }
        let status = self.child.wait().map_err(|error| child_failure("the server", &error))?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::new(Exit::SomeFailed, format!("the demo's server did not end well: {status}")))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `xdfs cp` and reads what it reports.
pub(super) fn copy(plan: &DemoPlan, states: &States, source: &OsStr, target: &OsStr) -> Result<Report, Failure> {
    let channels = plan.channels.to_string();
    let identity = states.identity();
    let words: [&OsStr; 14] = [
        "cp".as_ref(),
        "--json".as_ref(),
        "--progress".as_ref(),
        "none".as_ref(),
        "-P".as_ref(),
        channels.as_ref(),
        "--protection".as_ref(),
        plan.level.name().as_ref(),
        "--identity".as_ref(),
        identity.as_ref(),
        "--state".as_ref(),
        states.client.as_ref(),
        source,
        target,
    ];
    let child = start(&words)?;
    let output = child.wait_with_output().map_err(|error| child_failure("the client", &error))?;
    if !output.status.success() {
        // The client has reported the reason on standard error.
        let exit = output.status.code().and_then(Exit::from_code).unwrap_or(Exit::SomeFailed);
        return Err(Failure::new(exit, format!("the demo's client did not end well: {}", output.status)));
    }
    let line: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    report_of(&line).ok_or_else(|| unexpected("the client", &line))
}

/// Runs a command that only has to succeed.
fn run(words: &[&OsStr]) -> Result<(), Failure> {
    let mut child = start(words)?;
    // Its output is for interactive use; it fits into a pipe.
    let status = child.wait().map_err(|error| child_failure("this program", &error))?;
    if status.success() {
        return Ok(());
    }
    let exit = status.code().and_then(Exit::from_code).unwrap_or(Exit::SomeFailed);
    Err(Failure::new(exit, format!("the demo's preparation did not end well: {status}")))
}

fn report_of(line: &Value) -> Option<Report> {
    let seconds = line.get("seconds")?.as_f64()?;
    let measured =
        Measured { bytes: line.get("bytes")?.as_u64()?, elapsed: Duration::try_from_secs_f64(seconds).ok()? };
    Some(Report {
        measured,
        channels: line.get("channels")?.as_u64()?,
        protection: line.get("protection")?.as_str()?.to_owned(),
        congestion: line.get("congestion")?.as_str()?.to_owned(),
    })
}

fn start(words: &[&OsStr]) -> Result<Child, Failure> {
    let shown: Vec<String> = words.iter().map(|word| printable(word.as_encoded_bytes())).collect();
    say(&format!("$ xdfs {}", shown.join(" ")));
    let program = std::env::current_exe().map_err(|error| child_failure("this program", &error))?;
    Command::new(program)
        .args(words)
        // It needs no token from the environment.
        .env_remove("XDFS_TOKEN")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| child_failure("this program", &error))
}

/// The first line of a child's output.
fn read_line(child: &mut Child) -> Result<Value, Failure> {
    use std::io::Read;
    let mut line = String::new();
    if let Some(output) = child.stdout.as_mut() {
        let mut output = BufReader::new(output.take(LINE_BYTES_MAX));
        output.read_line(&mut line).map_err(|error| child_failure("the server", &error))?;
    }
    if line.is_empty() {
        // It ended, and has reported the reason on standard error.
        return Err(Failure::new(Exit::SomeFailed, "the demo's server did not start"));
    }
    Ok(serde_json::from_str(&line).unwrap_or(Value::String(line)))
}

fn child_failure(who: &str, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Local, format!("{who} cannot be run: {error}"))
}

fn unexpected(who: &str, line: &Value) -> Failure {
    Failure::new(Exit::SomeFailed, format!("{who} said something unexpected: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_line_becomes_a_report() {
        let line = serde_json::json!({
            "event": "transfer", "bytes": 10, "seconds": 0.5, "channels": 8, "protection": "clear", "congestion": "cubic",
        });
        let report = report_of(&line).unwrap();
        assert_eq!(report.measured, Measured { bytes: 10, elapsed: Duration::from_millis(500) });
        assert_eq!((report.channels, report.protection.as_str(), report.congestion.as_str()), (8, "clear", "cubic"));
    }

    #[test]
    fn a_line_without_its_fields_is_no_report() {
        for line in [serde_json::json!({}), serde_json::json!({"bytes": 1, "seconds": -1.0}), Value::Null] {
            assert_eq!(report_of(&line), None);
        }
    }
}
