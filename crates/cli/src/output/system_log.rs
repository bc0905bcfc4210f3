//! The system's log, for a process that nobody sees the standard error of.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where the log's daemon listens.
const SOCKET: &str = "/dev/log";

/// An error of a daemon, as syslog(3) numbers them.
const PRIORITY: u8 = 3 << 3 | 3;

/// Messages go there, too.
static USED: AtomicBool = AtomicBool::new(false);

/// From now on messages go to the system's log as well.
pub(crate) fn use_system_log() {
    USED.store(true, Ordering::Release);
}

/// Sends a message there, if it is used. Where there is no log nobody is told.
pub(super) fn send(message: &str) {
    if USED.load(Ordering::Acquire) {
        let _ = send_to(Path::new(SOCKET), message);
    }
}

fn send_to(socket: &Path, message: &str) -> std::io::Result<()> {
    let log = UnixDatagram::unbound()?;
    // A log that is full is none: never wait for it.
    log.set_nonblocking(true)?;
    let text = format!("<{PRIORITY}>xdfs[{}]: {message}", std::process::id());
    log.send_to(text.as_bytes(), socket).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_sent_as_the_log_understands_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let log = UnixDatagram::bind(&path).unwrap();
        send_to(&path, "/mnt: lost").unwrap();
        let mut text = [0; 100];
        let length = log.recv(&mut text).unwrap();
        let expected = format!("<27>xdfs[{}]: /mnt: lost", std::process::id());
        assert_eq!(String::from_utf8_lossy(&text[..length]), expected);
        assert!(send_to(&directory.path().join("none"), "").is_err());
    }
}
