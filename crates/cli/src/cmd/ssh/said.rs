//! What ssh and the other end say on standard error: shown line by line, bounded and made printable. Questions are not
//! among it: ssh asks them on the terminal.

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::output::pass_on;
use crate::text::printable;

/// Bytes of a line; what is longer takes several.
const LINE_BYTES_MAX: u64 = 1024;

/// Bytes of a session that are shown.
const BYTES_MAX: usize = 64 << 10;

/// Why ssh failed, as far as OpenSSH's own words tell, which are in English everywhere. What is later in
/// this list is more certain: a connection is closed after every refusal, too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) enum Cause {
    /// It said nothing.
    #[default]
    Silent,
    /// It said nothing that is known here.
    Unknown,
    /// No connection could be made or kept.
    Connection,
    /// The user was not let in.
    Login,
    /// The key of the host is not known, or another one.
    HostKey,
}

impl Cause {
    fn of_line(line: &str) -> Self {
        let is_any = |parts: &[&str]| parts.iter().any(|part| line.contains(part));
        // With StrictHostKeyChecking=no it warns of a changed key and goes on.
        if line.contains("Host key verification failed") {
            Self::HostKey
        } else if is_any(&["Permission denied (", "Too many authentication failures"]) {
            Self::Login
        } else if is_any(&[
            "connect to host ",
            "Could not resolve hostname ",
            "kex_exchange_identification: ",
            "Connection closed by ",
            "closed by remote host",
            "Connection reset by ",
            " timed out",
            "Disconnected from ",
            "Read from remote host ",
            "Timeout, server ",
            "Broken pipe",
        ]) {
            Self::Connection
        } else {
            Self::Unknown
        }
    }
}

/// Shows what arrives, in a thread of its own, and what it tells of the cause; the receiver is
/// disconnected when all of it was shown.
pub(super) fn show(from: impl Read + Send + 'static, cause: Arc<Mutex<Cause>>) -> Receiver<()> {
    let (shown, wait) = sync_channel(0);
    thread::spawn(move || {
        each_line(from, |line| {
            // First: whoever reads standard error may be slow.
            {
                let mut cause = cause.lock().unwrap_or_else(PoisonError::into_inner);
                *cause = (*cause).max(Cause::of_line(line));
            }
            pass_on(line);
        });
        drop(shown);
    });
    wait
}

fn each_line(from: impl Read, mut tell: impl FnMut(&str)) {
    let (mut from, mut line, mut left) = (BufReader::new(from), Vec::new(), Some(BYTES_MAX));
    // Ends with the pipe. What is not shown is read, too: the other end would wait.
    while let Ok(1..) = from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
        if let Some(bytes) = left {
            left = bytes.checked_sub(line.len());
            let text = printable(line.trim_ascii_end());
            tell(if left.is_some() { &text } else { "what ssh says further is not shown" });
        }
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        each_line(bytes, |line| lines.push(line.to_owned()));
        lines
    }

    #[test]
    fn lines_are_printable_and_bounded_in_length_and_number() {
        assert_eq!(told(b"one\r\n\x1b]0;owned\x07two"), ["one", "\\u{1b}]0;owned\\u{7}two"]);
        let long = told(&[b'x'; 3000]);
        assert_eq!(long.iter().map(String::len).collect::<Vec<_>>(), [1024, 1024, 952]);
        let many = told(&b"0123456\n".repeat(BYTES_MAX));
        assert_eq!(
            (many.len(), many.last().map(String::as_str)),
            (BYTES_MAX / 8 + 1, Some("what ssh says further is not shown"))
        );
    }

    #[test]
    fn the_cause_is_what_openssh_says() {
        for (line, cause) in [
            ("Host key verification failed.", Cause::HostKey),
            ("@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @", Cause::Unknown),
            ("anna@far: Permission denied (publickey,password).", Cause::Login),
            ("Received disconnect from 1.2.3.4 port 22:2: Too many authentication failures", Cause::Login),
            ("ssh: connect to host far port 22: Connection refused", Cause::Connection),
            ("ssh: Could not resolve hostname far: Name or service not known", Cause::Connection),
            ("kex_exchange_identification: Connection closed by remote host", Cause::Connection),
            ("Connection closed by 1.2.3.4 port 22", Cause::Connection),
            ("Connection to 1.2.3.4 closed by remote host.", Cause::Connection),
            ("Connection to 1.2.3.4 port 22 timed out", Cause::Connection),
            ("Disconnected from 1.2.3.4 port 22", Cause::Connection),
            ("Read from remote host far: Connection reset by peer", Cause::Connection),
            ("Welcome", Cause::Unknown),
        ] {
            assert_eq!(Cause::of_line(line), cause, "{line}");
        }
        assert!(Cause::HostKey > Cause::Connection && Cause::Login > Cause::Connection);
        assert!(Cause::Unknown > Cause::Silent);
    }
}
