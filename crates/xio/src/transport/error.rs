//! What can go wrong while a connection is opened, in words that name the address or the value.

use super::Address;
use std::io;
use xdfs_proto::base::{Error, ErrorKind};

/// A transport that could not be opened or configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// A call about an address failed.
    #[error("cannot {action} {address}: {source}")]
    Address {
        /// "listen at", "connect to".
        action: &'static str,
        /// Where.
        address: Address,
        /// Why.
        source: io::Error,
    },
    /// The transport was handed an address of another kind.
    #[error("{address} is no address of the transport {transport}")]
    WrongKind {
        /// The address.
        address: Address,
        /// The transport that was asked.
        transport: &'static str,
    },
    /// The path is longer than a Unix socket's name may be.
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
        /// What was asked.
        value: String,
        /// Why.
        source: io::Error,
    },
    /// The system does not have that congestion control, or does not let this user have it.
    #[error("no congestion control '{}' here; there are: {available}", name.escape_debug())]
    Congestion {
        /// What was asked.
        name: String,
        /// What there is.
        available: String,
    },
}

impl TransportError {
    /// The operating system's error, where one is behind it.
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

/// Out of descriptors, which `io::ErrorKind` has no name for.
fn exhausted(error: &TransportError) -> bool {
    let number = error.io().and_then(io::Error::raw_os_error);
    [libc::EMFILE, libc::ENFILE, libc::ENOBUFS].iter().any(|limit| number == Some(*limit))
}
