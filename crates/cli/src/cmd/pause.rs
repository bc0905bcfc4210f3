//! Pauses between the attempts of a command, and waits that a signal or something to read ends.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use xdfs_client::retry::Backoff;

use crate::signal;

/// Waits. False if a stop was requested meanwhile.
pub(super) fn paused(pause: Duration) -> bool {
    signal::wake_on_stop().is_ok_and(|stopped| !wait_to_read(stopped.as_fd(), Some(pause)))
}

/// What is said of the attempts behind the cause of a failure.
pub(super) fn attempts_told(backoff: &Backoff) -> String {
    match backoff.attempts() {
        0 => String::new(),
        1 => " (tried once more)".to_owned(),
        more => format!(" (tried {more} times more)"),
    }
}

/// Whether something can be read from `file` within `time`.
pub(super) fn wait_to_read(file: BorrowedFd<'_>, time: Option<Duration>) -> bool {
    let time = time.and_then(|time| Timespec::try_from(time).ok());
    let mut files = [PollFd::new(&file, PollFlags::IN)];
    loop {
        match poll(&mut files, time.as_ref()) {
            Err(Errno::INTR) => {}
            answer => return answer.is_ok_and(|ready| ready > 0),
        }
    }
}
