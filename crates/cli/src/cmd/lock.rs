//! `xdfs lock`: a command that runs while a file on a server is locked.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use xdfs_client::file::{File, OpenOptions, Remote};
use xdfs_client::{Error, ErrorKind};

use super::remote::{SessionRequest, Sessions, wire_name};
use crate::exit::{Exit, Failure, Side};
use crate::output::complain;
use crate::plan::LockPlan;

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
    let failed =
        |error: Error| Failure::new(Exit::of_error(&error, Side::Peer), format!("{}: {}", plan.url, error.kind.text()));
    let options = match plan.shared {
        true => OpenOptions::new().read(true),
        false => OpenOptions::new().read(true).write(true).create(true),
    };
    let file = File::open(&remote, wire_name(&plan.url), &options).map_err(failed)?;
    match file.lock(!plan.shared, plan.patience) {
        Err(error) if error.kind == ErrorKind::Locked => return Ok(ExitCode::from(plan.conflict)),
        outcome => outcome.map_err(failed)?,
    }
    let child = match Command::new(&plan.program).args(&plan.arguments).spawn() {
        Ok(child) => child,
        Err(error) => {
            complain(&format!("cannot run '{}': {error}", plan.program.display()));
            let missing = error.kind() == io::ErrorKind::NotFound;
            return Ok(ExitCode::from(if missing { NOT_FOUND } else { NOT_STARTED }));
        }
    };
    let ended = run_locked(plan, child, &file)?;
    // The command is over: how the session ends makes no difference.
    let _ = file.close();
    let _ = remote.close();
    Ok(ended)
}

/// Waits for the command's end, and looks at the lock meanwhile.
fn run_locked(plan: &LockPlan, mut child: Child, file: &File) -> Result<ExitCode, Failure> {
    let local = |error: io::Error| Failure::new(Exit::Local, format!("cannot wait for the command: {error}"));
    let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).map_err(|errno| local(errno.into()))?;
    let mut lost = false;
    loop {
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&LOOK_EVERY)) {
            Ok(0) if !lost => {}
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => break,
            Err(errno) => return Err(local(errno.into())),
        }
        if let Err(error) = file.length() {
            lost = true;
            complain(&format!("{}: the lock is lost, and the command is ended: {}", plan.url, error.kind.text()));
            // It may just have ended by itself.
            let _ = pidfd_send_signal(&process, Signal::TERM);
        }
    }
    let status = child.wait().map_err(local)?;
    if lost {
        return Ok(Exit::ConnectionLost.into());
    }
    let code = status.code().or_else(|| status.signal().map(|signal| BY_SIGNAL + signal));
    Ok(ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)))
}
