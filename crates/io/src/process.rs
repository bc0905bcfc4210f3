//! A process that this one started, as a descriptor: it can be waited for with a deadline, beside
//! other descriptors, and a signal never reaches another process that got its number.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::time::Duration;

/// A child. It is readable once it has ended; [`Child::wait`] then answers at once.
#[derive(Debug)]
pub struct Process(OwnedFd);

impl Process {
    /// The process of a child that was not waited for.
    pub fn of(child: &Child) -> io::Result<Self> {
        Ok(Self(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?))
    }

    /// Waits until it ends, at most so long. Whether it has ended.
    pub fn ends_within(&self, time: Duration) -> io::Result<bool> {
        let timeout = Timespec::try_from(time).map_err(|_| io::ErrorKind::InvalidInput)?;
        let ended = retry_on_intr(|| poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&timeout)))?;
        Ok(ended > 0)
    }

    /// Sends it a signal; an error if it has ended.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.0, signal)?)
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    #[test]
    fn a_process_is_waited_for_with_a_deadline_and_gets_its_signals() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::of(&child).unwrap();
        assert!(!process.ends_within(Duration::from_millis(1)).unwrap());
        process.signal(Signal::TERM).unwrap();
        assert!(process.ends_within(Duration::from_secs(30)).unwrap());
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
        assert!(process.signal(Signal::TERM).is_err());
    }
}
