//! Errors of opening a connection; messages name the address or the value.

use super::Address;
use std::io;
use xdfs_proto::base::{Error, ErrorKind};

/// A transport that could not be opened or configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// A call on an address failed.
    #[error("cannot {action} {address}: {source}")]
    Address {
        /// "listen at", "connect to".
        action: &'static str,
        /// The address.
        address: Address,
        /// The cause.
        source: io::Error,
    },
    /// The address is of another transport.
    #[error("{address} is no address of the transport {transport}")]
    WrongKind {
        /// The address.
        address: Address,
        /// The requested transport.
        transport: &'static str,
    },
    /// The path is longer than the name of a Unix socket may be.
    #[error("the socket path {address} is too long (108 bytes with the final zero)")]
    PathTooLong {
        /// The path.
        address: Address,
    },
    /// A socket option could not be set.
    #[error("cannot set {option} to {value}: {source}")]
    Option {
        /// The option's name.
        option: &'static str,
        /// The requested value.
        value: String,
        /// The cause.
        source: io::Error,
    },
    /// The system does not have that congestion control, or this user may not use it.
    #[error("no congestion control '{}' here; there are: {available}", name.escape_debug())]
    Congestion {
        /// The requested control.
        name: String,
        /// The available controls.
        available: String,
    },
}

impl TransportError {
    /// The underlying error of the operating system, if any.
    pub fn io(&self) -> Option<&io::Error> {
        match self {
            Self::Address { source, .. } | Self::Option { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<TransportError> for Error {
    fn from(error: TransportError) -> Self {
        let kind = match (&error, error.io().map(io::Error::kind)) {
            (TransportError::Congestion { .. }, _) => ErrorKind::Unsupported,
            (TransportError::WrongKind { .. } | TransportError::PathTooLong { .. }, _) => ErrorKind::InvalidPath,
            (_, Some(io::ErrorKind::PermissionDenied)) => ErrorKind::PermissionDenied,
            (_, Some(io::ErrorKind::NotFound)) => ErrorKind::NotFound,
            (_, Some(io::ErrorKind::AddrInUse)) => ErrorKind::AlreadyExists,
            (_, Some(io::ErrorKind::WouldBlock)) => ErrorKind::Busy,
            (_, Some(io::ErrorKind::TimedOut)) => ErrorKind::TimedOut,
            (_, Some(io::ErrorKind::OutOfMemory)) => ErrorKind::Resources,
            (_, Some(_)) if exhausted(&error) => ErrorKind::Resources,
            _ => ErrorKind::ConnectionLost,
        };
        let errno = error.io().and_then(io::Error::raw_os_error).and_then(|number| u16::try_from(number).ok());
        Error::new(kind, error.to_string()).with_errno(errno.unwrap_or(0))
    }
}

/// Out of descriptors, for which `io::ErrorKind` has no name.
fn exhausted(error: &TransportError) -> bool {
    let number = error.io().and_then(io::Error::raw_os_error);
    [libc::EMFILE, libc::ENFILE, libc::ENOBUFS].iter().any(|limit| number == Some(*limit))
}
