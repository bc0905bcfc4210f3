//! Errors of this crate, one variant per cause, and what is reported to the peer.
//!
//! No variant carries key material, a tag or a byte count of a secret.

use xdfs_proto::base::{self, ErrorKind};

/// Why sealing, opening, joining or drawing random bytes failed.
#[derive(thiserror::Error, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The peer's record is altered, moved, repeated, out of order, of another level or another
    /// channel. Which of these it was cannot be known.
    #[error("a record's tag is wrong")]
    BadTag,
    /// The peer's JOIN or its answer was not made with the key of this grant.
    #[error("the proof of a joining channel is wrong")]
    BadProof,
    /// A login message is malformed, or the server did not prove that it knows the password's
    /// verifier.
    #[error("the login went wrong")]
    BadLogin,
    /// The holder of the key (an agent, a device) returned no signature.
    #[error("no signature from the key's holder")]
    NoSignature,
    /// The epoch's limit is reached. The sender must rekey first; a peer that continues to send
    /// violates the protocol.
    #[error("the limit of records under one key is reached")]
    EpochFull,
    /// Misuse by this program: the slice is shorter than a record's head.
    #[error("a record is shorter than its head")]
    NoHead,
    /// An earlier failure ended this direction of the channel; its keys are no longer used for
    /// sealing or opening.
    #[error("this channel failed earlier")]
    Poisoned,
    /// The operating system returned no random bytes.
    #[error("no random bytes from the operating system")]
    NoRandomness,
    /// The cryptographic library failed, which happens only when memory is short.
    #[error("the cryptographic library failed")]
    Library,
}

impl Error {
    /// The kind under which it is reported to the peer and the log.
    pub const fn kind(self) -> ErrorKind {
        match self {
            Self::BadTag | Self::EpochFull => ErrorKind::Protocol,
            Self::NoHead | Self::Poisoned => ErrorKind::Internal,
            // The same text as for an unknown session: an unauthenticated peer does not learn which
            // sessions exist.
            Self::BadProof => ErrorKind::SessionUnknown,
            Self::BadLogin | Self::NoSignature => ErrorKind::Refused,
            Self::NoRandomness | Self::Library => ErrorKind::Resources,
        }
    }
}

impl From<Error> for base::Error {
    fn from(error: Error) -> Self {
        let message = match error {
            Error::BadProof => error.kind().text().to_owned(),
            _ => error.to_string(),
        };
        base::Error::new(error.kind(), message)
    }
}
