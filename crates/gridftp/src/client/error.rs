//! What fails at an FTP server, with the thing and the remedy.

use std::io;
use std::net::SocketAddr;

use xdfs_secure::handshake::tls::byte_stream::StreamError;

use crate::address::AddressError;
use crate::command::NameError;
use crate::control::ControlError;
use crate::listing::ListingError;
use crate::mode_e::BlockError;

/// What fails at an FTP server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody answers there.
    #[error("cannot connect to {address}: {error}; check host and port, and that no firewall is between")]
    Connect {
        /// Where.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The control channel broke a rule, or the server ended the session.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The server refused a command; the session goes on.
    #[error("the server refused {verb}: {reply}")]
    Refused {
        /// The command.
        verb: &'static str,
        /// Its code.
        code: u16,
        /// Its code and text, printable.
        reply: String,
    },
    /// The address of the data channel is not used.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A block breaks a rule.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// A listing breaks a rule.
    #[error(transparent)]
    Listing(#[from] ListingError),
    /// A reply has not what was asked for.
    #[error("the server's answer to {verb} cannot be used: {reply}")]
    Answer {
        /// The command.
        verb: &'static str,
        /// The reply, printable.
        reply: String,
    },
    /// The file is not as long as the server said.
    #[error("the server sent {received} bytes of a file that should have {expected}; it may be changing: try again")]
    Length {
        /// How many arrived.
        received: u64,
        /// How many the server had said.
        expected: u64,
    },
    /// The file ends before the part that is asked for.
    #[error("the server's file has {length} bytes and {start} are here already; it was replaced: copy it anew")]
    Shorter {
        /// Where the part begins.
        start: u64,
        /// How many bytes the server has.
        length: u64,
    },
    /// The listing ended in the middle of a line.
    #[error("the server's listing ended in the middle of a line; try again")]
    ListingCut,
    /// The server has ended the listing at a limit of its own, and says so behind it.
    #[error("the server lists only some of the names of this directory: {0}; its limit is to be raised there")]
    ListingTruncated(String),
    /// More names than are taken.
    #[error("the server lists more than {0} names in one directory")]
    TooManyNames(usize),
    /// The connection was lost.
    #[error("the connection to the server was lost: {0}")]
    Lost(io::Error),
    /// A reply of a protected session that is not protected.
    #[error("the server answered without protection: {0}; somebody may be between")]
    Bare(String),
    /// TLS could not be set up, or was broken.
    #[error(transparent)]
    Tls(#[from] StreamError),
    /// Nothing arrived in time.
    #[error("the server has sent and taken nothing for {0} seconds")]
    Silent(u64),
    /// The caller has asked to stop.
    #[error("cancelled")]
    Cancelled,
    /// What is ours could not be read or written.
    #[error("{0}")]
    Local(io::Error),
}

impl From<NameError> for Error {
    fn from(error: NameError) -> Self {
        Self::Control(error.into())
    }
}
