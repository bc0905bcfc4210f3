//! Errors as Python has them: `OSError` with a number and a file name, which makes Python choose
//! `FileNotFoundError` and its like, and a few subclasses for what no number says.

use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyPermissionError, PyValueError};
use pyo3::prelude::*;
use rustix::io::Errno;
use xdfs::access::{Reason, Refusal};
use xdfs_client::{Error, ErrorKind};

create_exception!(xdfs, NotTrustedError, PyPermissionError, "The server's key is not known, or not the expected one.");
create_exception!(xdfs, LoginRefusedError, PyPermissionError, "The server accepted no credential that was offered.");
create_exception!(xdfs, ChangedError, PyOSError, "Somebody else changed the file meanwhile.");
create_exception!(xdfs, CorruptedError, PyOSError, "What arrived is not what was sent.");

/// The number of an error that has none of the server's file system.
fn number(kind: ErrorKind) -> Errno {
    match kind {
        ErrorKind::NotFound => Errno::NOENT,
        ErrorKind::PermissionDenied | ErrorKind::Refused | ErrorKind::LoginRefused => Errno::ACCESS,
        ErrorKind::AlreadyExists => Errno::EXIST,
        ErrorKind::IsDirectory => Errno::ISDIR,
        ErrorKind::NotDirectory => Errno::NOTDIR,
        ErrorKind::NotEmpty => Errno::NOTEMPTY,
        ErrorKind::NotRegular | ErrorKind::InvalidPath | ErrorKind::OutOfRange => Errno::INVAL,
        ErrorKind::NoSpace => Errno::NOSPC,
        ErrorKind::QuotaExceeded => Errno::DQUOT,
        ErrorKind::TooLarge => Errno::FBIG,
        ErrorKind::ReadOnly => Errno::ROFS,
        ErrorKind::Resources => Errno::NOMEM,
        ErrorKind::Busy => Errno::BUSY,
        ErrorKind::Locked => Errno::AGAIN,
        ErrorKind::Cancelled => Errno::CANCELED,
        ErrorKind::TimedOut => Errno::TIMEDOUT,
        ErrorKind::ConnectionLost | ErrorKind::Draining | ErrorKind::SessionUnknown => Errno::CONNRESET,
        ErrorKind::Unsupported => Errno::OPNOTSUPP,
        ErrorKind::Protocol | ErrorKind::Downgrade => Errno::PROTO,
        ErrorKind::Stale | ErrorKind::SourceChanged | ErrorKind::TargetChanged | ErrorKind::Superseded => Errno::STALE,
        _ => Errno::IO,
    }
}

/// The exception for an error about a file or directory.
pub(crate) fn of_error(error: &Error, path: &str) -> PyErr {
    let errno = match error.errno {
        0 => number(error.kind).raw_os_error(),
        told => i32::from(told),
    };
    of_kind(error.kind, (errno, error.message.clone(), path.to_owned()))
}

fn of_kind(kind: ErrorKind, arguments: (i32, String, String)) -> PyErr {
    match kind {
        ErrorKind::LoginRefused => LoginRefusedError::new_err(arguments),
        ErrorKind::Stale | ErrorKind::SourceChanged | ErrorKind::TargetChanged | ErrorKind::Superseded => {
            ChangedError::new_err(arguments)
        }
        ErrorKind::Corrupted => CorruptedError::new_err(arguments),
        _ => PyOSError::new_err(arguments),
    }
}

/// The exception where there is no session.
pub(crate) fn of_refusal(refusal: Refusal, url: &str) -> PyErr {
    let arguments = |errno: Errno| (errno.raw_os_error(), refusal.message.clone(), url.to_owned());
    match refusal.reason {
        Reason::Usage => PyValueError::new_err(refusal.message),
        Reason::NotTrusted => NotTrustedError::new_err(arguments(Errno::ACCESS)),
        Reason::Error(ErrorKind::ConnectionLost) => PyOSError::new_err(arguments(Errno::CONNREFUSED)),
        Reason::Error(kind) => of_kind(kind, arguments(number(kind))),
    }
}
