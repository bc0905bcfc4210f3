//! Exit codes, and the error that carries one to `main`.
//!
//! Nothing else in the program ends the process (except a second Ctrl-C, see `signal`).

use std::fmt;
use std::process::ExitCode;

use xdfs_proto::base::{Error, ErrorKind};

/// How the program ended. The numbers are part of the command line's contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Everything requested was done.
    Done = 0,
    /// Some files were copied, some were not.
    SomeFailed = 1,
    /// The command line is invalid.
    Usage = 2,
    /// The peer refused: rights, a missing file, its full disk, a broken rule.
    Refused = 3,
    /// No connection, or all connections were lost.
    ConnectionLost = 4,
    /// An error of a file or directory of this machine.
    LocalStorage = 5,
    /// Ctrl-C: 128 + SIGINT, as in shells.
    Cancelled = 130,
}

/// Which side detected an error first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// This program.
    Here,
    /// The program at the other end.
    Peer,
}

impl Exit {
    /// The code for one failed operation.
    pub(crate) fn of_error(error: &Error, side: Side) -> Self {
        match error.kind {
            ErrorKind::Cancelled => Self::Cancelled,
            ErrorKind::ConnectionLost | ErrorKind::TimedOut => Self::ConnectionLost,
            // Faults of the peer are detected here, and are not errors of local storage.
            ErrorKind::Protocol
            | ErrorKind::Unsupported
            | ErrorKind::LimitExceeded
            | ErrorKind::Busy
            | ErrorKind::Draining
            | ErrorKind::SessionUnknown
            | ErrorKind::Downgrade
            | ErrorKind::LoginRefused
            | ErrorKind::Refused => Self::Refused,
            _ if side == Side::Peer => Self::Refused,
            _ => Self::LocalStorage,
        }
    }

    /// The meaning of a child's exit code.
    pub(crate) fn from_code(code: i32) -> Option<Self> {
        use Exit::*;
        [Done, SomeFailed, Usage, Refused, ConnectionLost, LocalStorage, Cancelled]
            .into_iter()
            .find(|&exit| exit as i32 == code)
    }

    /// The code for several operations: cancelled first, then a lost connection (the rest could not
    /// be tried), then the one reason that stopped all of them, else "some".
    pub(crate) fn of_all(outcomes: &[Exit]) -> Self {
        let failed = || outcomes.iter().copied().filter(|&exit| exit != Self::Done);
        let Some(first) = failed().next() else { return Self::Done };
        for severe in [Self::Cancelled, Self::ConnectionLost] {
            if failed().any(|exit| exit == severe) {
                return severe;
            }
        }
        let all_for_one_reason = outcomes.iter().all(|&exit| exit == first);
        if all_for_one_reason { first } else { Self::SomeFailed }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command failed: the exit code, and the message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    /// How the program ends.
    pub(crate) exit: Exit,
    /// What happened, to which object, and what to do; empty if it was reported already.
    pub(crate) message: String,
}

impl Failure {
    /// A failure with `message`.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// Standard output cannot be written to: a reader that closed the pipe needs no more, and that
    /// is success.
    pub(crate) fn from_output(error: &std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Done, "");
        }
        Self::new(Exit::LocalStorage, format!("cannot write to standard output: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_has_the_code_that_the_help_promises() {
        for &kind in ErrorKind::ALL {
            let here = Exit::of_error(&Error::new(kind, ""), Side::Here);
            let peer = Exit::of_error(&Error::new(kind, ""), Side::Peer);
            match kind as u16 {
                8 | 9 => assert_eq!((here, peer), (Exit::ConnectionLost, Exit::ConnectionLost), "{kind:?}"),
                10 => assert_eq!((here, peer), (Exit::Cancelled, Exit::Cancelled), "{kind:?}"),
                1..=7 | 11 | 12 => assert_eq!((here, peer), (Exit::Refused, Exit::Refused), "{kind:?}"),
                _ => assert_eq!((here, peer), (Exit::LocalStorage, Exit::Refused), "{kind:?}"),
            }
        }
    }

    #[test]
    fn several_outcomes_end_in_one_code() {
        use Exit::*;
        for (outcomes, exit) in [
            (&[][..], Done),
            (&[Done, Done], Done),
            (&[Refused], Refused),
            (&[Refused, Refused], Refused),
            (&[Done, Refused], SomeFailed),
            (&[Refused, LocalStorage], SomeFailed),
            (&[Done, Refused, ConnectionLost], ConnectionLost),
            (&[ConnectionLost, Done, Cancelled], Cancelled),
        ] {
            assert_eq!(Exit::of_all(outcomes), exit, "{outcomes:?}");
        }
    }

    #[test]
    fn a_reader_of_standard_output_that_went_away_is_success() {
        assert_eq!(Failure::from_output(&std::io::ErrorKind::BrokenPipe.into()), Failure::new(Exit::Done, ""));
        assert_eq!(Failure::from_output(&std::io::ErrorKind::StorageFull.into()).exit, Exit::LocalStorage);
    }
}
