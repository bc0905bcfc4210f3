//! Servers that ssh starts: `ssh HOST xdfs serve --stdio`, for one session. ssh authenticates both
//! ends; the keys of the session are made for it and travel inside ssh. Channel 1 is ssh's pipe;
//! the others connect to the host directly where they can.

mod said;

use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use xdfs_client::{Address, ConnectOptions, Error, ErrorKind, Fingerprint, Offer, Pinned, hexadecimal};
use xdfs_io::process::Process;
use xdfs_secure::identity::KeyPair;

use self::said::Cause;
use super::connect::SessionRequest;
use super::connect::{ConnectResult, OpenFn};
use super::login::variable;
use crate::exit::{Exit, Failure};
use crate::greeting::{self, Greeting, Request, VERSION};
use crate::plan::LoginPlan;
use crate::text::{printable, shell_word};
use crate::url::Url;

/// Time for a person to answer ssh's questions, and for the program there to start.
const GREETING_DEADLINE: Duration = Duration::from_secs(180);

/// A session that lasts longer would have gained by more channels.
const WORTH_A_NOTE: Duration = Duration::from_secs(1);

/// How often it is looked whether ssh has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Time for ssh to end after its input has ended.
const END_DEADLINE: Duration = Duration::from_secs(5);

/// Time for what ssh said to be shown, after its end.
const SAID_DEADLINE: Duration = Duration::from_millis(500);

/// The exit code of a shell that does not find a program.
const NOT_FOUND: i32 = 127;

/// The exit code of ssh for its own failures.
const SSH_FAILED: i32 = 255;

/// The ssh process of a session. Dropped after the session, it is waited for.
#[derive(Debug)]
pub(crate) struct Tunnel {
    ssh: Child,
    /// Disconnected when all that ssh said was shown. A receiver alone cannot be shared among threads, and with it no session.
    said: Option<Mutex<Receiver<()>>>,
    /// The words that start it by hand.
    by_hand: String,
    host: String,
    /// What ssh's own words say about its failure.
    cause: Arc<Mutex<Cause>>,
    /// What `--remote-command` named, if it was given.
    remote_command: Option<String>,
    /// Where the other channels connect to, if there may be others.
    address: Option<SocketAddr>,
    channels: u16,
    since: Instant,
}

impl Tunnel {
    /// Waits for the end of ssh, and until what it said is shown; its exit code, if it ended in time.
    fn end(&mut self) -> Option<i32> {
        let code = end(&mut self.ssh, END_DEADLINE);
        // A connection that other commands share may keep the pipe open.
        if let Some(said) = &mut self.said {
            let _ = said.get_mut().unwrap_or_else(PoisonError::into_inner).recv_timeout(SAID_DEADLINE);
        }
        code
    }

    /// What a user should know of how the data moved, unless it took too short a time to matter.
    /// `failure` says why no other channel joined.
    pub(super) fn note(&self, joined: usize, failure: Option<&Error>) -> Option<String> {
        if self.channels < 2 || joined > 1 || self.since.elapsed() < WORTH_A_NOTE {
            return None;
        }
        let host = &self.host;
        let reason = match (self.address, failure) {
            (Some(address), Some(error)) => format!("{address} cannot be reached from here ({error})"),
            // They are still connecting.
            (Some(_), None) => return None,
            (None, _) => format!("no address of {host} is known for more channels"),
        };
        Some(format!(
            "all data went through ssh itself, which is slower than {} channels: {reason}. Open a range of ports there, \
             and name it with --remote-command 'xdfs serve --stdio --ports 2800-2899'",
            self.channels
        ))
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        // The session's end of the pipe is closed by now, so that the server there ends, and ssh
        // with it.
        if self.end().is_none() {
            let _ = self.ssh.kill();
            let _ = self.ssh.wait();
        }
    }
}

/// Waits for the end of a process; its exit code, if it ended in time.
fn end(process: &mut Child, within: Duration) -> Option<i32> {
    // Of one that was killed, what a shell says.
    let code = |status: ExitStatus| status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(SSH_FAILED);
    // Who looked before has its code, and the process is no more.
    if let Ok(Some(status)) = process.try_wait() {
        return Some(code(status));
    }
    let ended = Process::of(process).and_then(|process| process.ends_within(within)).ok()?;
    if ended { process.wait().ok().map(code) } else { None }
}

/// Starts a server over ssh and opens a session with it.
pub(super) fn connect<T>(
    url: &Url,
    wishes: &SessionRequest,
    login: &LoginPlan,
    open: OpenFn<'_, T>,
) -> ConnectResult<(T, Tunnel)> {
    let lost = |message: String| (Failure::new(Exit::ConnectionLost, message), ErrorKind::ConnectionLost);
    let failed = |Reason { exit, kind, text }| (Failure::new(exit, text), kind);
    let host = url.host.to_string();
    let key = KeyPair::generate().map_err(|error| lost(error.to_string()))?;
    let (mut socket, mut ssh, by_hand) = start(url, login).map_err(failed)?;
    let request = Request { version: VERSION, key: hexadecimal(&key.public().0), channels: wishes.channels > 1 };
    let remote_command = login.remote_command.clone();
    let channels = wishes.channels;
    let since = Instant::now();
    let cause = Arc::<Mutex<Cause>>::default();
    let said = ssh.stderr.take().map(|from| said::show(from, Arc::clone(&cause))).map(Mutex::new);
    let mut tunnel =
        Tunnel { ssh, said, by_hand, host: host.clone(), cause, remote_command, address: None, channels, since };
    let greeting = greet(&mut socket, &request, &mut tunnel)
        .map_err(|reason| failed(Reason { text: format!("{url}: {}", reason.text), ..reason }))?;
    let fingerprint = greeting.host_key.parse::<Fingerprint>().ok().filter(|_| greeting.version == VERSION);
    let another = || {
        let text = format!("{url}: the xdfs there is of another version\nhelp: install the same one at both ends");
        failed(Reason::no_xdfs(text))
    };
    let fingerprint = fingerprint.ok_or_else(another)?;
    (tunnel.address, tunnel.since) = (greeting.address, Instant::now());
    let options = ConnectOptions {
        connection: Some(Arc::new(OwnedFd::from(socket))),
        host,
        port: url.port,
        host_check: Arc::new(Pinned(fingerprint)),
        user: greeting.user,
        offers: vec![Offer::Key(Arc::new(key))],
        channels: if greeting.address.is_some() { wishes.channels } else { 1 },
        window: wishes.window,
        block: wishes.block,
        congestion: wishes.congestion.clone(),
        level: wishes.level,
        limit: wishes.limit.clone(),
        ..ConnectOptions::to(greeting.address.map_or_else(|| Address::Unix(PathBuf::from("ssh")), Address::from))
    };
    match open(&options) {
        Ok(session) => Ok((session, tunnel)),
        Err(error) => {
            let failure = Failure::new(Exit::of_error(&error, crate::exit::Side::Peer), format!("{url}: {error}"));
            Err((failure, error.kind))
        }
    }
}

/// Starts ssh with a socket as its standard input and output; also returns the words that start it by
/// hand, without what it runs there.
fn start(url: &Url, login: &LoginPlan) -> Result<(UnixStream, Child, String), Reason> {
    let local =
        |error: &std::io::Error, text| Reason { exit: Exit::of_io(error), kind: ErrorKind::ConnectionLost, text };
    let no_socket = |error: std::io::Error| local(&error, format!("no socket for ssh: {error}"));
    let (ours, theirs) = UnixStream::pair().map_err(no_socket)?;
    let theirs = OwnedFd::from(theirs);
    let both = theirs.try_clone().map_err(no_socket)?;
    let set = || variable("XDFS_SSH").and_then(|ssh| ssh.into_string().ok());
    let ssh = login.ssh.clone().or_else(set).unwrap_or_else(|| "ssh".to_owned());
    let mut words = ssh.split_whitespace();
    let program = words.next().ok_or_else(|| Reason {
        exit: Exit::Usage,
        kind: ErrorKind::Refused,
        text: "--ssh names no program\nhelp: leave it out, or name one such as 'ssh -4'".to_owned(),
    })?;
    let mut command = Command::new(program);
    command.args(words);
    if login.unattended {
        // Nobody answers questions.
        command.args(["-o", "BatchMode=yes"]);
    }
    if url.port != 0 {
        command.arg("-p").arg(url.port.to_string());
    }
    // Neither starts with '-', which ssh would take for an option: URLs refuse that.
    let host = url.host.to_string();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    command.arg(match &url.user {
        Some(user) => format!("{user}@{bare}"),
        None => bare.to_owned(),
    });
    let by_hand = std::iter::once(command.get_program()).chain(command.get_args());
    let by_hand = by_hand.map(|word| shell_word(&printable(word.as_encoded_bytes()))).collect::<Vec<_>>().join(" ");
    command.arg(login.remote_command.as_deref().unwrap_or("xdfs serve --stdio"));
    command.stdin(Stdio::from(theirs)).stdout(Stdio::from(both)).stderr(Stdio::piped());
    let ssh = command
        .spawn()
        .map_err(|error| local(&error, format!("cannot start {program}: {error}\nhelp: install OpenSSH's client")))?;
    // The command keeps the other end open otherwise, and the end of ssh would not be seen.
    drop(command);
    Ok((ours, ssh, by_hand))
}

/// Why there is no session, for people and as an exit code.
struct Reason {
    exit: Exit,
    kind: ErrorKind,
    text: String,
}

impl Reason {
    fn lost(text: impl Into<String>) -> Self {
        Self { exit: Exit::ConnectionLost, kind: ErrorKind::ConnectionLost, text: text.into() }
    }

    /// What answered does not speak the protocol.
    fn no_xdfs(text: impl Into<String>) -> Self {
        Self { exit: Exit::Refused, kind: ErrorKind::Protocol, text: text.into() }
    }

    /// ssh itself failed, and said why to people.
    fn of_ssh(cause: Cause, by_hand: &str) -> Self {
        let (exit, kind) = match cause {
            Cause::Connection => (Exit::ConnectionLost, ErrorKind::ConnectionLost),
            Cause::HostKey => (Exit::NotTrusted, ErrorKind::Refused),
            Cause::Login => (Exit::LoginRefused, ErrorKind::LoginRefused),
            // It may be quiet, or another ssh: a copy that had begun is tried again, and a script is not told to.
            Cause::Silent | Cause::Unknown => (Exit::LoginRefused, ErrorKind::ConnectionLost),
        };
        let why = if cause == Cause::Silent { ", and does not say why" } else { "; it says why above" };
        let text = format!("ssh could not connect or log in{why}\nhelp: try ssh alone first: {by_hand} true");
        Self { exit, kind, text }
    }
}

/// Exchanges the first lines.
fn greet(socket: &mut UnixStream, request: &Request, tunnel: &mut Tunnel) -> Result<Greeting, Reason> {
    let mut line = serde_json::to_vec(request).map_err(|error| Reason::lost(error.to_string()))?;
    line.push(b'\n');
    // If this fails ssh has ended, and its exit code tells more.
    let _ = socket.write_all(&line);
    let mut from = socket.try_clone().map_err(|error| Reason::lost(error.to_string()))?;
    let (tell, arrived) = sync_channel(1);
    thread::spawn(move || {
        // Nobody waits for it after the deadline.
        let _ = tell.send(greeting::read_marked(&mut from));
    });
    match wait_for(&arrived, &mut tunnel.ssh).map_err(Reason::lost)? {
        Ok(line) => serde_json::from_slice(&line).map_err(|_| Reason::no_xdfs("what answered over ssh is not xdfs")),
        Err((error, noise)) => Err(no_greeting(&error, &noise, tunnel)),
    }
}

/// What was read, within the deadline: a shorter one if ssh has ended, and something else keeps its output open.
fn wait_for<T>(arrived: &Receiver<T>, ssh: &mut Child) -> Result<T, String> {
    let mut until = Instant::now() + GREETING_DEADLINE;
    let mut ended = false;
    loop {
        match arrived.recv_timeout(LOOK_AGAIN.min(until.saturating_duration_since(Instant::now()))) {
            Ok(read) => return Ok(read),
            Err(_) if Instant::now() >= until && ended => return Err("ssh ended, and no xdfs answered".to_owned()),
            Err(_) if Instant::now() >= until => {
                return Err(format!("no xdfs answered over ssh within {} s", GREETING_DEADLINE.as_secs()));
            }
            // It may have said something before its end.
            Err(_) if !ended && matches!(ssh.try_wait(), Ok(Some(_))) => {
                ended = true;
                until = until.min(Instant::now() + END_DEADLINE);
            }
            Err(_) => {}
        }
    }
}

fn no_greeting(error: &std::io::Error, noise: &[u8], tunnel: &mut Tunnel) -> Reason {
    let install = "install it there, or name it with --remote-command '/path/to/xdfs serve --stdio'";
    let code = tunnel.end();
    let host = &tunnel.host;
    let command = tunnel.remote_command.as_deref();
    // Perhaps a program without its arguments.
    let bare = command.filter(|command| !command.contains(char::is_whitespace));
    match (code, bare) {
        (Some(NOT_FOUND), _) => {
            let command = command.unwrap_or("xdfs");
            let program = command.strip_suffix(" serve --stdio").unwrap_or(command);
            // Which of several words was not found, only the shell there knows.
            let of = if program.contains(char::is_whitespace) { " of" } else { "" };
            let text = format!("{host} has no program{of} '{}'\nhelp: {install}", printable(program.as_bytes()));
            // No file is missing: whoever asks whether one is there gets no answer.
            Reason { exit: Exit::NotFound, kind: ErrorKind::ConnectionLost, text }
        }
        (Some(SSH_FAILED), _) => {
            let cause = *tunnel.cause.lock().unwrap_or_else(PoisonError::into_inner);
            Reason::of_ssh(cause, &tunnel.by_hand)
        }
        // clap's code for an option that it does not know, and for no command at all.
        (Some(2), Some(program)) => Reason::no_xdfs(format!(
            "'{0}' did not start to serve on {host}\nhelp: write --remote-command '{0} serve --stdio'",
            printable(program.as_bytes())
        )),
        (Some(2), None) if command.is_some() => Reason::no_xdfs(format!(
            "'{}' did not start to serve on {host}\nhelp: a command that does ends in 'serve --stdio'; an xdfs that does not \
             know it is too old",
            printable(command.unwrap_or_default().as_bytes())
        )),
        (Some(2), None) => {
            Reason::no_xdfs(format!("the xdfs of {host} is too old for this\nhelp: install this version there"))
        }
        (code, _) => {
            let first = noise.split(|&byte| byte == b'\n').find(|line| !line.is_empty()).unwrap_or_default();
            let told = printable(&first[..first.len().min(200)]);
            let is_silent = told.is_empty();
            let told = match (is_silent, error.kind()) {
                (false, _) => format!("instead it said '{told}'"),
                (true, std::io::ErrorKind::UnexpectedEof) => "it ended without a word".to_owned(),
                (true, _) => error.to_string(),
            };
            let text = format!("no xdfs answered over ssh: {told}");
            // Without a word it is still running, was killed or had no memory: the next one may answer.
            match (code, is_silent) {
                (None, true) => Reason::lost(text),
                (Some(code), true) if code != 0 => Reason::lost(format!("{text} (ssh ended with {code})")),
                _ => Reason::no_xdfs(text),
            }
        }
    }
}
