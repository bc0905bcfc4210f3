//! Exit codes, and the error that carries one to `main`.
//!
//! Nothing else in the program ends the process (except a second Ctrl-C, see `signal`). The table for
//! people is docs/exit-codes.md; a test of this file compares it with [`Exit`].

use std::fmt;
use std::process::ExitCode;

use xdfs_proto::base::{Error, ErrorKind};

/// How the program ended. The numbers are part of the command line's contract: they never change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Everything requested was done.
    Done = 0,
    /// Some of it was done, or it failed for several reasons.
    SomeFailed = 1,
    /// The command line or the configuration is invalid.
    Usage = 2,
    /// The server refused, or failed for a reason without a code of its own.
    Refused = 3,
    /// No connection, or all connections were lost.
    ConnectionLost = 4,
    /// An error of a file, a directory or the system of this machine without a code of its own.
    Local = 5,
    /// Something that was named does not exist, at either end.
    NotFound = 6,
    /// The mode of a file, or the user's rights on the server, do not allow it.
    PermissionDenied = 7,
    /// A disk is full or a quota used up, at either end.
    NoSpace = 8,
    /// The server's key is unknown or has changed, or its certificate is not valid.
    NotTrusted = 9,
    /// The server accepted none of the offered logins.
    LoginRefused = 10,
    /// Something exists that may not be replaced or removed.
    Exists = 11,
    /// Somebody else changed the source or the target meanwhile, or continues the transfer.
    Changed = 12,
    /// What arrived is not what was sent.
    Corrupted = 13,
    /// The server, or a lock of somebody else, does not allow it now.
    Busy = 14,
    /// Ctrl-C: 128 + SIGINT, as in shells.
    Cancelled = 130,
}

/// What the help of a command says about exit codes, to be joined with other text.
macro_rules! exit_codes {
    () => {
        "\
Exit codes: 0 done, 1 some failed, 2 usage, 3 refused by the server,
4 connection lost, 5 local error, 6 not found, 7 permission denied,
8 no space, 9 server not trusted, 10 login refused, 11 exists,
12 changed meanwhile, 13 corrupted, 14 busy, 130 cancelled."
    };
}
pub(crate) use exit_codes;

/// Which side detected an error first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// This program.
    Here,
    /// The program at the other end.
    Peer,
}

impl Exit {
    /// Every code, in the order of the numbers.
    pub(crate) const ALL: [Self; 16] = [
        Self::Done,
        Self::SomeFailed,
        Self::Usage,
        Self::Refused,
        Self::ConnectionLost,
        Self::Local,
        Self::NotFound,
        Self::PermissionDenied,
        Self::NoSpace,
        Self::NotTrusted,
        Self::LoginRefused,
        Self::Exists,
        Self::Changed,
        Self::Corrupted,
        Self::Busy,
        Self::Cancelled,
    ];

    /// The code for one failed operation.
    pub(crate) fn of_error(error: &Error, side: Side) -> Self {
        match error.kind {
            ErrorKind::Cancelled => Self::Cancelled,
            ErrorKind::ConnectionLost | ErrorKind::TimedOut | ErrorKind::UnknownOutcome => Self::ConnectionLost,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnly | ErrorKind::Refused => Self::PermissionDenied,
            ErrorKind::NoSpace | ErrorKind::QuotaExceeded => Self::NoSpace,
            ErrorKind::LoginRefused => Self::LoginRefused,
            ErrorKind::AlreadyExists | ErrorKind::NotEmpty => Self::Exists,
            ErrorKind::SourceChanged | ErrorKind::TargetChanged | ErrorKind::Superseded | ErrorKind::Stale => {
                Self::Changed
            }
            ErrorKind::Corrupted => Self::Corrupted,
            ErrorKind::Busy | ErrorKind::Draining | ErrorKind::Locked => Self::Busy,
            ErrorKind::IsDirectory | ErrorKind::NotDirectory => Self::Usage,
            ErrorKind::Internal if error.of_peer => Self::Refused,
            // What was asked of a server may fail by a mistake of this program.
            ErrorKind::Internal => Self::Local,
            // Faults of the peer are detected here, and are not errors of this machine.
            _ if side == Side::Peer || is_of_peer(error.kind) => Self::Refused,
            _ => Self::Local,
        }
    }

    /// The code for an error of the operating system of this machine.
    pub(crate) fn of_io(error: &std::io::Error) -> Self {
        use std::io::ErrorKind::{AlreadyExists, NotFound, PermissionDenied, QuotaExceeded, StorageFull};
        match error.kind() {
            NotFound => Self::NotFound,
            PermissionDenied => Self::PermissionDenied,
            StorageFull | QuotaExceeded => Self::NoSpace,
            AlreadyExists => Self::Exists,
            _ => Self::Local,
        }
    }

    /// The code that mount(8) expects of its helpers, and returns itself.
    pub(crate) fn for_mount(self) -> ExitCode {
        match self {
            Self::Done => ExitCode::SUCCESS,
            // Incorrect invocation.
            Self::Usage => ExitCode::from(1),
            // Failure of the mount.
            _ => ExitCode::from(32),
        }
    }

    /// The meaning of a child's exit code.
    pub(crate) fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|&exit| exit as i32 == code)
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

/// Whether an error is about what goes over the connection, whoever detects it.
pub(crate) const fn is_of_peer(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Protocol
            | ErrorKind::Unsupported
            | ErrorKind::LimitExceeded
            | ErrorKind::Busy
            | ErrorKind::Draining
            | ErrorKind::SessionUnknown
            | ErrorKind::Downgrade
            | ErrorKind::ConnectionLost
            | ErrorKind::TimedOut
            | ErrorKind::UnknownOutcome
            | ErrorKind::LoginRefused
            | ErrorKind::Refused
            | ErrorKind::Cancelled
    )
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// What stands between the cause of a failure and each of its remedies.
pub(crate) const HELP: &str = "\nhelp: ";

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

    /// The same with what to do about it: a sentence, with a command that can be pasted where there
    /// is one.
    pub(crate) fn help(mut self, remedy: impl fmt::Display) -> Self {
        self.message.push_str(&format!("{HELP}{remedy}"));
        self
    }

    /// Adds to the cause, in front of the remedies.
    pub(crate) fn add_to_cause(&mut self, text: &str) {
        let end = self.message.find(HELP).unwrap_or(self.message.len());
        self.message.insert_str(end, text);
    }

    /// An error of this machine's files: no peer is involved.
    pub(crate) fn local(error: &Error) -> Self {
        // A limit that is exceeded here is not the server's.
        let exit = match Exit::of_error(error, Side::Here) {
            Exit::Refused => Exit::Local,
            other => other,
        };
        Self::new(exit, error.to_string())
    }

    /// Standard output cannot be written to: a reader that closed the pipe needs no more, and that
    /// is success.
    pub(crate) fn from_output(error: &std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Done, "");
        }
        Self::new(Exit::of_io(error), format!("cannot write to standard output: {error}"))
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
    fn every_kind_of_error_has_the_code_of_its_cause_on_either_side() {
        for &kind in ErrorKind::ALL {
            let here = Exit::of_error(&Error::new(kind, ""), Side::Here);
            let peer = Exit::of_error(&Error::new(kind, "").reported(), Side::Peer);
            let expected = match kind as u16 {
                1..=3 | 6 | 7 => (Exit::Refused, Exit::Refused),
                4 | 5 | 42 => (Exit::Busy, Exit::Busy),
                8 | 9 | 40 => (Exit::ConnectionLost, Exit::ConnectionLost),
                10 => (Exit::Cancelled, Exit::Cancelled),
                11 | 21 | 30 => (Exit::PermissionDenied, Exit::PermissionDenied),
                12 => (Exit::LoginRefused, Exit::LoginRefused),
                20 => (Exit::NotFound, Exit::NotFound),
                22 | 38 => (Exit::Exists, Exit::Exists),
                23 | 24 => (Exit::Usage, Exit::Usage),
                27 | 28 => (Exit::NoSpace, Exit::NoSpace),
                31 | 35 | 37 | 41 => (Exit::Changed, Exit::Changed),
                36 => (Exit::Corrupted, Exit::Corrupted),
                _ => (Exit::Local, Exit::Refused),
            };
            assert_eq!((here, peer), expected, "{kind:?}");
        }
    }

    #[test]
    fn an_internal_error_has_the_code_of_the_program_that_made_it() {
        let own = Error::new(ErrorKind::Internal, "");
        for side in [Side::Here, Side::Peer] {
            assert_eq!(Exit::of_error(&own, side), Exit::Local);
            assert_eq!(Exit::of_error(&own.clone().reported(), side), Exit::Refused);
        }
    }

    #[test]
    fn the_numbers_are_those_of_the_documented_table() {
        let page = include_str!("../../../docs/exit-codes.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
        let listed: Vec<u8> = rows.filter_map(|(code, _)| code.parse().ok()).collect();
        assert_eq!(listed, Exit::ALL.map(|exit| exit as u8));
        for exit in Exit::ALL {
            let named = exit_codes!().split([' ', '\n']).any(|word| word.parse() == Ok(exit as u8));
            assert!(named, "the help does not name {exit:?}");
            assert_eq!(Exit::from_code(exit as i32), Some(exit));
        }
        assert_eq!(Exit::from_code(15), None);
    }

    #[test]
    fn the_cause_comes_first_and_each_remedy_has_a_line() {
        let mut failure = Failure::new(Exit::Local, "cannot open 'x'").help("make it").help("or name another");
        failure.add_to_cause(" (tried twice)");
        assert_eq!(failure.message, "cannot open 'x' (tried twice)\nhelp: make it\nhelp: or name another");
        failure = Failure::new(Exit::Local, "no remedy");
        failure.add_to_cause(" at all");
        assert_eq!(failure.message, "no remedy at all");
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
            (&[Refused, Local], SomeFailed),
            (&[Done, Refused, ConnectionLost], ConnectionLost),
            (&[ConnectionLost, Done, Cancelled], Cancelled),
        ] {
            assert_eq!(Exit::of_all(outcomes), exit, "{outcomes:?}");
        }
    }

    #[test]
    fn a_reader_of_standard_output_that_went_away_is_success() {
        assert_eq!(Failure::from_output(&std::io::ErrorKind::BrokenPipe.into()), Failure::new(Exit::Done, ""));
        assert_eq!(Failure::from_output(&std::io::ErrorKind::StorageFull.into()).exit, Exit::NoSpace);
    }
}
