//! Running the programs that are measured: start, wait without polling, stop, and account for all they started.
//!
//! Every process is in its own process group, so that stopping it stops what it forked, and nothing else. Whatever
//! ends a run (success, failure, Ctrl-C), the drop of [`Running`] ends its processes.

mod account;
mod held;
mod sample;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::error::{Context, Error, Result};
use crate::world::Interrupt;
pub use account::Account;
pub use held::Held;
pub use sample::{Sampled, Sampler, SideSample};

/// How long a program may take to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(3);

/// Lines of a failed program's output that are shown.
const TAIL_BYTES: usize = 600;

/// A command line.
#[derive(Debug, Clone)]
pub struct Command {
    program: OsString,
    arguments: Vec<OsString>,
    variables: Vec<(String, OsString)>,
}

impl Command {
    /// A program without arguments.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self { program: program.as_ref().to_owned(), arguments: Vec::new(), variables: Vec::new() }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds several arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// The program and its arguments.
    pub fn words(&self) -> impl Iterator<Item = &OsString> {
        std::iter::once(&self.program).chain(&self.arguments)
    }

    /// The line as one would type it.
    pub fn line(&self) -> String {
        self.words().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    /// Starts it with both outputs in files under `directory`, its processes on `account`.
    pub fn start(&self, directory: &Path, name: &str, account: &mut Account, input: Stdio) -> Result<Running> {
        let output = directory.join(format!("{name}.out"));
        let errors = directory.join(format!("{name}.err"));
        let open = |path: &PathBuf| File::create(path).context(|| path.display().to_string());
        let mut command = std::process::Command::new(&self.program);
        command
            .args(&self.arguments)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(input)
            .stdout(open(&output)?)
            .stderr(open(&errors)?)
            .process_group(0);
        let (started, child) = account.spawn(&mut command).context(|| self.line())?;
        let pid = Pid::from_child(&child);
        let mut running = Running { child, pidfd: None, pid, started, line: self.line(), output, errors, ended: None };
        // The child cannot be reaped by anybody else, so its number is still its own here.
        running.pidfd = Some(pidfd_open(pid, PidfdFlags::empty()).context(|| self.line())?);
        Ok(running)
    }
}

/// A started program. Dropping it ends its whole process group.
#[derive(Debug)]
pub struct Running {
    child: Child,
    pidfd: Option<OwnedFd>,
    pid: Pid,
    started: Instant,
    line: String,
    output: PathBuf,
    errors: PathBuf,
    ended: Option<ExitStatus>,
}

impl Running {
    /// Process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// When it was started.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Its standard input, where it was opened as a pipe.
    pub fn take_input(&mut self) -> Option<std::process::ChildStdin> {
        self.child.stdin.take()
    }

    /// What it has written to standard output so far.
    pub fn output(&self) -> String {
        fs::read(&self.output).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// What it has written to standard error so far, or to standard output when it said nothing there.
    pub fn complaint(&self) -> String {
        let errors = fs::read(&self.errors).unwrap_or_default();
        let text = if errors.is_empty() { self.output() } else { String::from_utf8_lossy(&errors).into_owned() };
        let start = (text.len().saturating_sub(TAIL_BYTES)..text.len()).find(|at| text.is_char_boundary(*at));
        text[start.unwrap_or(0)..].trim().replace('\n', "\n  ")
    }

    /// Waits until it has ended, but does not reap it: /proc still has its figures. Returns the time of the end.
    ///
    /// The wait is one `poll` on a process descriptor, so the time is exact; polling with sleeps is up to a step late.
    pub fn wait(&self, limit: Duration, interrupt: &Interrupt) -> Result<Instant> {
        let Some(pidfd) = &self.pidfd else { return Ok(Instant::now()) };
        let deadline = self.started + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            let mut descriptors = [PollFd::new(pidfd, PollFlags::IN)];
            let polled = poll(&mut descriptors, Some(&timeout));
            let now = Instant::now();
            interrupt.check()?;
            match polled {
                Ok(0) => return Err(Error::Deadline { command: self.line.clone(), seconds: limit.as_secs() }),
                Ok(_) => return Ok(now),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context(|| self.line.clone()),
            }
        }
    }

    /// True when it has ended on its own.
    pub fn has_ended(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended.is_some()
    }

    /// Reaps it and fails unless it succeeded. Call after [`Running::wait`].
    pub fn finish(&mut self) -> Result<()> {
        let status = match self.ended {
            Some(status) => status,
            None => self.child.wait().context(|| self.line.clone())?,
        };
        self.ended = Some(status);
        if status.success() {
            return Ok(());
        }
        let status = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, signal) => format!("signal {}", signal.unwrap_or_default()),
        };
        Err(Error::Failed { command: self.line.clone(), status, output: self.complaint() })
    }

    /// The error of a program that ended when it should have gone on.
    pub fn ended_early(&mut self) -> Error {
        match self.finish() {
            Err(error) => error,
            Ok(()) => Error::Failed {
                command: self.line.clone(),
                status: "exit code 0, too early".to_owned(),
                output: self.complaint(),
            },
        }
    }

    /// Asks it to end, insists after its patience, and reaps it.
    pub fn stop(&mut self) {
        if self.has_ended() {
            // What it forked may still run in its group.
            let _ = kill_process_group(self.pid, Signal::KILL);
            return;
        }
        let _ = kill_process_group(self.pid, Signal::TERM);
        if let Some(pidfd) = &self.pidfd {
            let timeout = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
            let _ = poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&timeout));
        }
        let _ = kill_process_group(self.pid, Signal::KILL);
        self.ended = self.child.wait().ok();
    }
}

impl Running {
    /// Kills its whole process group, and reaps it: nothing that it would do at its end is done.
    pub fn kill(&mut self) {
        let _ = kill_process_group(self.pid, Signal::KILL);
        if self.ended.is_none() {
            self.ended = self.child.wait().ok();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}
