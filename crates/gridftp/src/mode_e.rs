//! Mode E of GridFTP (GFD.20): blocks with offsets on any number of connections.
//!
//! A block has a head of 17 bytes: a descriptor, the number of its bytes, and their offset in the file.
//! Each connection ends with the bit EOD; one block carries the bit EOF, and in its offset the number
//! of EODs that the receiver waits for, over all connections.

use crate::ranges::{Range, RangeError, Ranges};

/// Bytes of a head.
pub const HEAD_BYTES: usize = 17;

/// Most data connections of one transfer.
pub const STREAMS_MAX: u16 = 64;

/// The connection is closed after this block.
const CLOSE: u8 = 0x04;
/// The last block of its connection.
const EOD: u8 = 0x08;
/// The offset is the number of EODs.
const EOF: u8 = 0x40;

/// The head of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Head {
    /// File bytes follow.
    Data {
        /// How many.
        count: u64,
        /// Where they belong.
        offset: u64,
        /// Whether they are the last of this connection.
        last: bool,
    },
    /// The connection has no more data.
    End,
    /// The file has ended, and so many connections end.
    File {
        /// How many EODs there are over all connections.
        ends: u64,
        /// Whether this connection ends too.
        last: bool,
    },
}

/// What is wrong with the blocks of a transfer.
#[derive(Clone, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum BlockError {
    /// Bits without a meaning here.
    #[error("the server sent a block whose descriptor is {0:#04x}, which Mode E does not have")]
    Descriptor(u8),
    /// A block that marks the end of the file and has data.
    #[error("the server marked the end of the file in a block with {0} bytes")]
    EndWithData(u64),
    /// Bytes outside the file.
    #[error("the server sent {count} bytes at offset {offset}, outside the file or the part that was asked for")]
    Outside {
        /// How many.
        count: u64,
        /// Where.
        offset: u64,
    },
    /// Bytes twice, or in too many parts.
    #[error("the server sent {count} bytes at offset {offset}, and {error}")]
    Range {
        /// How many.
        count: u64,
        /// Where.
        offset: u64,
        /// Why they are refused.
        error: RangeError,
    },
    /// A number of ends that cannot be.
    #[error("the server announced that {0} data connections end; at most {STREAMS_MAX} can, and at least one must")]
    Ends(u64),
    /// The end of the file twice.
    #[error("the server marked the end of the file twice")]
    EndTwice,
    /// More connections than allowed.
    #[error("the server opened more than {0} data connections")]
    Connections(u16),
    /// More EODs than announced.
    #[error("more data connections ended than the server announced ({0})")]
    MoreEnds(u64),
    /// A connection that closed in the middle.
    #[error("a data connection closed before its end was marked")]
    Cut,
    /// Data behind the last block of a connection.
    #[error("the server sent data on a connection whose end it had marked")]
    AfterEnd,
    /// All connections have ended and bytes are missing.
    #[error("the server ended the transfer and {0} bytes are missing")]
    Missing(u64),
}

impl Head {
    /// The bytes of a head.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let (descriptor, count, offset) = match *self {
            Self::Data { count, offset, last } => (if last { EOD } else { 0 }, count, offset),
            Self::End => (EOD, 0, 0),
            Self::File { ends, last } => (if last { EOF | EOD } else { EOF }, 0, ends),
        };
        let mut bytes = [0; HEAD_BYTES];
        bytes[0] = descriptor;
        bytes[1..9].copy_from_slice(&count.to_be_bytes());
        bytes[9..].copy_from_slice(&offset.to_be_bytes());
        bytes
    }

    /// Reads a head.
    ///
    /// # Errors
    /// If no sender of Mode E means it.
    pub fn decode(bytes: &[u8; HEAD_BYTES]) -> Result<Self, BlockError> {
        let number = |from: usize| bytes[from..from + 8].iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        let (descriptor, count, offset) = (bytes[0], number(1), number(9));
        if descriptor & !(CLOSE | EOD | EOF) != 0 {
            return Err(BlockError::Descriptor(descriptor));
        }
        let last = descriptor & EOD != 0;
        match descriptor & EOF != 0 {
            true if count > 0 => Err(BlockError::EndWithData(count)),
            true => Ok(Self::File { ends: offset, last }),
            false if last && count == 0 => Ok(Self::End),
            false => Ok(Self::Data { count, offset, last }),
        }
    }
}

/// One connection of a download.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Connection {
    /// A head is arriving.
    Head { bytes: Vec<u8> },
    /// File bytes are arriving.
    Data { offset: u64, left: u64, last: bool },
    /// Its end was marked.
    Ended,
    /// It was closed.
    Closed,
}

/// What the next bytes of a connection are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Piece {
    /// File bytes for this place.
    Data {
        /// Where they belong.
        offset: u64,
        /// How many of the bytes given.
        length: usize,
    },
    /// So many bytes were no file bytes and are done with.
    Control {
        /// How many.
        length: usize,
    },
}

/// What a download in Mode E has received: the receiver of all its connections.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Assembly {
    wanted: Range,
    connections_max: u16,
    connections: Vec<Connection>,
    /// What heads have announced; a block is refused before any of its bytes is taken.
    announced: Ranges,
    received: u64,
    ended: u64,
    ends: Option<u64>,
}

impl Assembly {
    /// A download of `wanted`, on at most `connections_max` connections.
    pub fn new(wanted: Range, connections_max: u16) -> Self {
        Self {
            wanted,
            connections_max: connections_max.min(STREAMS_MAX),
            connections: Vec::new(),
            announced: Ranges::default(),
            received: 0,
            ended: 0,
            ends: None,
        }
    }

    /// A new connection. Returns its number.
    ///
    /// # Errors
    /// If there are enough.
    pub fn open(&mut self) -> Result<usize, BlockError> {
        if self.connections.len() >= usize::from(self.connections_max) {
            return Err(BlockError::Connections(self.connections_max));
        }
        self.connections.push(Connection::Head { bytes: Vec::new() });
        Ok(self.connections.len() - 1)
    }

    /// What the first of these bytes of a connection are. Call it again with the rest.
    ///
    /// # Errors
    /// If the server breaks a rule: the transfer has failed.
    ///
    /// # Panics
    /// If no connection has this number.
    pub fn take(&mut self, connection: usize, bytes: &[u8]) -> Result<Piece, BlockError> {
        match &mut self.connections[connection] {
            Connection::Ended | Connection::Closed => {
                if bytes.is_empty() {
                    Ok(Piece::Control { length: 0 })
                } else {
                    Err(BlockError::AfterEnd)
                }
            }
            Connection::Data { offset, left, last } => {
                let length = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                let piece = Piece::Data { offset: *offset, length };
                let (taken, is_last) = (length as u64, *last);
                (*offset, *left) = (*offset + taken, *left - taken);
                let is_done = *left == 0;
                self.received += taken;
                if is_done {
                    self.end_block(connection, is_last)?;
                }
                Ok(piece)
            }
            Connection::Head { bytes: head } => {
                let length = bytes.len().min(HEAD_BYTES - head.len());
                head.extend_from_slice(&bytes[..length]);
                if let Ok(whole) = <[u8; HEAD_BYTES]>::try_from(head.as_slice()) {
                    self.on_head(connection, Head::decode(&whole)?)?;
                }
                Ok(Piece::Control { length })
            }
        }
    }

    /// Where the next file bytes of a connection belong, while a block arrives on it.
    ///
    /// # Panics
    /// If no connection has this number.
    pub fn position(&self, connection: usize) -> Option<u64> {
        if let Connection::Data { offset, .. } = self.connections[connection] { Some(offset) } else { None }
    }

    /// The server closed a connection.
    ///
    /// # Errors
    /// If it had not marked its end.
    ///
    /// # Panics
    /// If no connection has this number.
    pub fn close(&mut self, connection: usize) -> Result<(), BlockError> {
        match std::mem::replace(&mut self.connections[connection], Connection::Closed) {
            Connection::Ended | Connection::Closed => Ok(()),
            Connection::Head { .. } | Connection::Data { .. } => Err(BlockError::Cut),
        }
    }

    /// Whether the end of the file and of every connection was marked.
    ///
    /// # Errors
    /// If it was, and bytes are missing.
    pub fn is_complete(&self) -> Result<bool, BlockError> {
        if self.ends != Some(self.ended) {
            return Ok(false);
        }
        let missing = self.wanted.end.saturating_sub(self.wanted.start) - self.received;
        if missing > 0 { Err(BlockError::Missing(missing)) } else { Ok(true) }
    }

    fn on_head(&mut self, connection: usize, head: Head) -> Result<(), BlockError> {
        match head {
            Head::Data { count, offset, last } => {
                let end = offset.checked_add(count).filter(|end| *end <= self.wanted.end);
                let end = end.filter(|_| offset >= self.wanted.start).ok_or(BlockError::Outside { count, offset })?;
                let added = self.announced.add(Range { start: offset, end });
                added.map_err(|error| BlockError::Range { count, offset, error })?;
                self.connections[connection] = Connection::Data { offset, left: count, last };
                if count == 0 { self.end_block(connection, last) } else { Ok(()) }
            }
            Head::End => self.end_block(connection, true),
            Head::File { ends, last } => {
                if ends == 0 || ends > u64::from(self.connections_max) {
                    return Err(BlockError::Ends(ends));
                }
                if self.ends.replace(ends).is_some() {
                    return Err(BlockError::EndTwice);
                }
                self.end_block(connection, last)
            }
        }
    }

    fn end_block(&mut self, connection: usize, last: bool) -> Result<(), BlockError> {
        self.connections[connection] = if last { Connection::Ended } else { Connection::Head { bytes: Vec::new() } };
        self.ended += u64::from(last);
        match self.ends {
            Some(ends) if self.ended > ends => Err(BlockError::MoreEnds(ends)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "mode_e_tests.rs"]
mod tests;
