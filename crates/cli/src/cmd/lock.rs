//! `xdfs lock`: a command that runs while a file on a server is locked.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode};
use std::sync::atomic::Ordering;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use xdfs_client::file::{File, OpenOptions, Remote};
use xdfs_client::{Error, ErrorKind, in_full};
use xdfs_io::process::Process;

use super::connect::SessionRequest;
use super::remote::{Sessions, wire_name};
use crate::exit::{Exit, Failure, Side};
use crate::output::complain;
use crate::plan::LockPlan;
use crate::signal::{self, SIGINT, StopFlag};

/// How often the lock is looked at while the command runs.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// As shells tell of a program that is not there, and of one that cannot be started.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;

/// As shells tell of a program that a signal ended.
const BY_SIGNAL: i32 = 128;

pub(crate) fn run(plan: &LockPlan) -> Result<ExitCode, Failure> {
    let sessions = Sessions::new(SessionRequest::default(), plan.login.clone());
    let (session, _tunnel) = sessions.own(&plan.url).map_err(|(failure, _)| failure)?;
    // Its locks end with the session: it is not made again.
    let remote = Remote::over(session);
    let failed = |error: Error| {
        let text = format!("{}: {}", plan.url, in_full(error.kind));
        Failure::new(Exit::of_error(&error, Side::Peer), text)
    };
    let options = match plan.shared {
        true => OpenOptions::new().read(true),
        false => OpenOptions::new().read(true).write(true).create(true),
    };
    let file = File::open(&remote, wire_name(&plan.url), &options).map_err(failed)?;
    match file.lock(!plan.shared, plan.patience) {
        Err(error) if error.kind == ErrorKind::Locked => return Ok(ExitCode::from(plan.conflict)),
        outcome => outcome.map_err(failed)?,
    }
    let stops = Stops::new()?;
    let child = match Command::new(&plan.program).args(&plan.arguments).spawn() {
        Ok(child) => child,
        Err(error) => {
            complain(&format!("cannot run '{}': {error}", plan.program.display()));
            let missing = error.kind() == io::ErrorKind::NotFound;
            return Ok(ExitCode::from(if missing { NOT_FOUND } else { NOT_STARTED }));
        }
    };
    let ended = run_locked(plan, child, &file, &stops)?;
    // The command is over: how the session ends makes no difference.
    let _ = file.close();
    let _ = remote.close();
    Ok(ended)
}

/// Signals that would end this program, and leave the command alone without its lock.
struct Stops {
    flags: Vec<(i32, StopFlag)>,
    wake: UnixStream,
}

impl Stops {
    fn new() -> Result<Self, Failure> {
        let wake = signal::wake_on_stop().and_then(|wake| wake.set_nonblocking(true).map(|()| wake));
        let wake = wake.map_err(|error| Failure::new(Exit::Local, format!("cannot handle signals: {error}")))?;
        Ok(Self { flags: signal::stop_flags()?, wake })
    }

    /// Passes on what came. A terminal sends Ctrl-C to the command, too.
    fn pass_on(&self, process: &Process) {
        let _ = (&self.wake).read(&mut [0; 64]);
        for (number, _) in self.flags.iter().filter(|(_, flag)| flag.swap(false, Ordering::Relaxed)) {
            if let Some(signal) = Signal::from_named_raw(*number).filter(|_| *number != SIGINT) {
                // It may just have ended.
                let _ = process.signal(signal);
            }
        }
    }
}

/// Waits for the command's end, looks at the lock meanwhile, and passes signals on.
fn run_locked(plan: &LockPlan, mut child: Child, file: &File, stops: &Stops) -> Result<ExitCode, Failure> {
    let local = |error: io::Error| Failure::new(Exit::Local, format!("cannot wait for the command: {error}"));
    let process = Process::of(&child).map_err(local)?;
    let mut lost = false;
    loop {
        let mut ends = [PollFd::new(&process, PollFlags::IN), PollFd::new(&stops.wake, PollFlags::IN)];
        let found = poll(&mut ends, Some(&LOOK_EVERY));
        let [ended, stopped] = ends.map(|end| !end.revents().is_empty());
        match found {
            Ok(_) if ended => break,
            Ok(_) if stopped => stops.pass_on(&process),
            Ok(0) if !lost => {}
            Ok(_) | Err(Errno::INTR) => continue,
            Err(errno) => return Err(local(errno.into())),
        }
        if let Err(error) = file.length() {
            lost = true;
            complain(&format!("{}: the lock is lost ({}); the command gets SIGTERM", plan.url, error.kind.text()));
            // It may just have ended by itself.
            let _ = process.signal(Signal::TERM);
        }
    }
    let status = child.wait().map_err(local)?;
    if lost {
        return Ok(Exit::ConnectionLost.into());
    }
    let code = status.code().or_else(|| status.signal().map(|signal| BY_SIGNAL + signal));
    Ok(ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)))
}
