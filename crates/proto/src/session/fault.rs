//! Protocol violations of an authenticated peer. Each ends the session, and its cause is reported
//! to the peer.

use super::block_receiver::InvalidBlock;
use crate::base::{Error, ErrorKind, Level};
use crate::channel::life::Refused;
use crate::wire::WireError;
use alloc::format;
use core::fmt;

/// The cause of the violation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// The bytes are not a valid message.
    Wire(WireError),
    /// The sequence number is not the next one.
    Sequence,
    /// A key epoch that was not negotiated.
    Epoch,
    /// An event that must be understood but is unknown, or is reserved.
    UnknownEvent(u8),
    /// An event that the present state does not allow.
    Refused(Refused),
    /// A record that this side may not send (a GRANT from a client, a request from a server...).
    WrongSide(&'static str),
    /// The payload is longer than its event allows.
    TooLong,
    /// An invalid block.
    Block(InvalidBlock),
    /// A record protected less than was granted.
    Level(Level),
    /// An operation number that was never opened, or not in order.
    Operation,
    /// An acknowledgement of something that was never sent.
    AckBeyondSent,
    /// FINISH that does not match what arrived.
    Finish,
    /// COMMITTED of something that cannot have been committed.
    Committed,
    /// AGAIN that requests something that cannot be sent again.
    Again,
    /// EOFR or EOFT whose count differs from what arrived: something was cut out.
    Count,
    /// A record on a channel that is not up.
    Channel,
}

impl From<WireError> for Fault {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl From<Refused> for Fault {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<InvalidBlock> for Fault {
    fn from(bad: InvalidBlock) -> Self {
        Self::Block(bad)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wire(error) => write!(f, "malformed record: {error}"),
            Self::Sequence => f.write_str("record out of sequence"),
            Self::Epoch => f.write_str("record of an unknown key epoch"),
            Self::UnknownEvent(code) => write!(f, "event {code} is unknown or reserved"),
            Self::Refused(refused) => {
                write!(f, "{} is not allowed in state {} of {}", refused.event, refused.state, refused.machine)
            }
            Self::WrongSide(event) => write!(f, "{event} from the wrong side"),
            Self::TooLong => f.write_str("payload longer than its event allows"),
            Self::Block(InvalidBlock::Length) => f.write_str("block is empty or longer than granted"),
            Self::Block(InvalidBlock::Misplaced) => f.write_str("block does not lie on the block grid"),
            Self::Block(InvalidBlock::OutsideRange) => f.write_str("block outside the range of the transfer"),
            Self::Block(InvalidBlock::OutsideCredit) => f.write_str("block beyond the granted credit"),
            Self::Level(level) => write!(f, "record at level '{}', below what was granted", level.name()),
            Self::Operation => f.write_str("operation number that was never opened, or out of order"),
            Self::AckBeyondSent => f.write_str("acknowledgement of bytes that were never sent"),
            Self::Finish => f.write_str("FINISH does not fit the blocks that arrived"),
            Self::Committed => f.write_str("COMMITTED before FINISH, or without the length and hash of what was sent"),
            Self::Again => f.write_str("AGAIN asks for what cannot be sent again"),
            Self::Count => f.write_str("end mark counts other records than arrived"),
            Self::Channel => f.write_str("record on a channel that is not up"),
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Error::new(ErrorKind::Protocol, format!("protocol error: {fault}"))
    }
}
