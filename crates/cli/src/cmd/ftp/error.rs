//! What an FTP server says, in the kinds of errors that the command knows.

use xdfs_client::retry::is_outage;
use xdfs_client::{Error, ErrorKind};
use xdfs_gridftp::client;
use xdfs_gridftp::control::ControlError;
use xdfs_gridftp::mode_e::BlockError;
use xdfs_secure::handshake::tls::byte_stream::StreamError;

/// The error of a session, in its own words.
pub(in crate::cmd) fn error_of(error: client::Error) -> Error {
    let kind = match &error {
        client::Error::Connect { .. }
        | client::Error::Lost(_)
        | client::Error::Block(BlockError::Cut)
        | client::Error::ListingCut => ErrorKind::ConnectionLost,
        client::Error::Silent(_) => ErrorKind::TimedOut,
        client::Error::Cancelled => ErrorKind::Cancelled,
        client::Error::Refused { code, reply, .. } => kind_of(*code, reply),
        client::Error::Control(ControlError::Login(_) | ControlError::NoGsi(_) | ControlError::Certificate(_)) => {
            ErrorKind::LoginRefused
        }
        client::Error::Control(ControlError::Name(_)) => ErrorKind::InvalidPath,
        client::Error::Control(ControlError::Closing(_)) => ErrorKind::Draining,
        client::Error::TooManyNames(_) | client::Error::ListingTruncated(_) => ErrorKind::LimitExceeded,
        client::Error::Length { .. } => ErrorKind::SourceChanged,
        client::Error::Local(_) => ErrorKind::Storage,
        client::Error::Control(_)
        | client::Error::Address(_)
        | client::Error::Block(_)
        | client::Error::Listing(_)
        | client::Error::Tls(StreamError::Protocol(_))
        | client::Error::Answer { .. } => ErrorKind::Protocol,
        client::Error::Tls(_) => ErrorKind::Refused,
        #[allow(unreachable_patterns, reason = "the crate may learn of more")]
        _ => ErrorKind::Protocol,
    };
    Error::new(kind, error.to_string())
}

/// Whether a transfer ended because something between was lost, and not because the server does not want it: the same
/// again may do better, and what has arrived is continued.
pub(in crate::cmd) fn is_cut(error: &Error) -> bool {
    is_outage(error.kind)
}

/// What globus-gridftp-server says of a data channel that was cut; of several it cancels the others, and may tell that.
const CUT: [&str; 6] = [
    "end-of-file",
    "end of file",
    "connection reset",
    "broken pipe",
    "connection refused",
    "i/o operation was cancelled",
];

/// Codes say little: 550 stands for most of what can be wrong with a name, so the text decides
/// between the usual reasons.
pub(super) fn kind_of(code: u16, reply: &str) -> ErrorKind {
    let text = reply.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    match code {
        425 | 426 => ErrorKind::ConnectionLost,
        421 => ErrorKind::Draining,
        450 => ErrorKind::Busy,
        452 | 552 => ErrorKind::NoSpace,
        500 if says(&CUT) => ErrorKind::ConnectionLost,
        530 | 532 => ErrorKind::LoginRefused,
        _ if says(&["no space", "quota"]) => ErrorKind::NoSpace,
        // It knows the command, and something failed while it did it.
        500 if says(&["command failed"]) && !says(&["permission", "denied"]) => ErrorKind::Storage,
        500 | 501 | 502 | 504 => ErrorKind::Unsupported,
        _ if says(&["permission", "denied", "not permitted", "failed to open"]) => ErrorKind::PermissionDenied,
        _ if says(&["not empty"]) => ErrorKind::NotEmpty,
        _ if says(&["is a directory"]) => ErrorKind::IsDirectory,
        _ if says(&["not a directory"]) => ErrorKind::NotDirectory,
        _ if says(&["no such", "not found", "path_not_found"]) => ErrorKind::NotFound,
        _ if says(&["exists", "already"]) => ErrorKind::AlreadyExists,
        550 => ErrorKind::NotFound,
        553 => ErrorKind::PermissionDenied,
        451 => ErrorKind::Storage,
        _ => ErrorKind::Refused,
    }
}

/// Whether a server may have refused a temporary name, or to rename it: then the final name is tried, which brings out what
/// else may be wrong. Whatever failed while the file was read or written is no such refusal: under the final name it would fail
/// again, and what is there would be lost.
pub(in crate::cmd) fn is_refused_name(error: &Error) -> bool {
    let is_other = matches!(
        error.kind,
        ErrorKind::SourceChanged
            | ErrorKind::NoSpace
            | ErrorKind::Corrupted
            | ErrorKind::Cancelled
            | ErrorKind::Busy
            | ErrorKind::Storage
            | ErrorKind::Stale
    );
    !is_other && !is_cut(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_that_failed_is_no_refused_name() {
        let refused = |code, text| is_refused_name(&Error::new(kind_of(code, text), text));
        for text in [
            "451 Local error.",
            "500-Command failed. : System error in write: Input/output error",
            "500 quota exceeded",
        ] {
            assert!(!refused(text[..3].parse().unwrap(), text), "{text}");
        }
        for text in ["553 Could not create file.", "550 Permission denied.", "502 RNFR not implemented."] {
            assert!(refused(text[..3].parse().unwrap(), text), "{text}");
        }
        assert!(!is_refused_name(&Error::new(ErrorKind::Storage, "f: input/output error")));
    }

    #[test]
    fn what_real_servers_say_has_the_kind_that_is_meant() {
        for (code, text, kind) in [
            (550, "550 Could not get file size.", ErrorKind::NotFound),
            (550, "550 Permission denied.", ErrorKind::PermissionDenied),
            (550, "550 GlobusError: v=1 c=PATH_NOT_FOUND No such file or directory", ErrorKind::NotFound),
            (553, "553 GlobusError: v=1 c=PATH_EXISTS File exists End.", ErrorKind::AlreadyExists),
            (451, "451 System error in rmdir Directory not empty End.", ErrorKind::NotEmpty),
            (550, "550 System error in unlink Is a directory End.", ErrorKind::IsDirectory),
            (226, "226 Transfer done (but failed to open directory).", ErrorKind::PermissionDenied),
            (553, "553 Could not create file.", ErrorKind::PermissionDenied),
            (552, "552 full", ErrorKind::NoSpace),
            (500, "500 Unknown command.", ErrorKind::Unsupported),
            (500, "500 Command failed. : callback failed. an end-of-file was reached", ErrorKind::ConnectionLost),
            (500, "500 Command failed. : callback failed. an I/O operation was cancelled", ErrorKind::ConnectionLost),
            (426, "426 Failure writing network stream.", ErrorKind::ConnectionLost),
            (500, "500-Command failed. : System error in write: No space left on device", ErrorKind::NoSpace),
            (500, "500-Command failed. : System error in write: Input/output error", ErrorKind::Storage),
            (500, "500-Command failed. : System error in open: Permission denied", ErrorKind::Unsupported),
            (451, "451 Local error.", ErrorKind::Storage),
            (455, "455 what", ErrorKind::Refused),
        ] {
            assert_eq!(kind_of(code, text), kind, "{text}");
        }
    }
}
