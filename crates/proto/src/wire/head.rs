//! The 32-byte head of every record (WIRE-35, WIRE-52, WIRE-55). Fixed, so that the payload after
//! it is aligned and the whole head can be authenticated at every level. Big-endian (WIRE-01).
//!
//! ```text
//!  0 event      1 level     2 epoch (u16)
//!  4 operation (u32)
//!  8 sequence (u64)
//! 16 offset (u64)
//! 24 payload length (u32)
//! 28 flags (u16)           30 zero (u16)
//! ```

use super::codec::WireError;
use crate::base::{Level, OperationId};

/// Bytes of a head.
pub const HEAD_BYTES: usize = 32;
/// Bytes of the tag that follows it.
pub const TAG_BYTES: usize = 16;

/// Bits that change how a record is read. Unknown bits are an error: their meaning is unknown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// No bit.
    pub const NONE: Flags = Flags(0);
    /// xFTSMU, xFTSMD: the payload is a request, not a block.
    pub const REQUEST: Flags = Flags(1);
    /// NOOP, CHANNELS: a reply is requested.
    pub const ASK: Flags = Flags(2);
    /// All bits of version 1.
    pub const KNOWN: u16 = 15;
    /// Blocks: the number of AGAIN of the operation that the sender had received.
    const ROUND: u16 = 12;

    /// The flags of a block that is sent in this round, at most 3.
    pub const fn of_round(round: u16) -> Self {
        Self(round << 2 & Self::ROUND)
    }

    /// The round of a block.
    pub const fn round(self) -> u16 {
        (self.0 & Self::ROUND) >> 2
    }

    /// Whether every bit of `other` is set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A record's head. `event` is kept as the code, so that skippable unknown events can be told
/// apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Head {
    /// Code of the event.
    pub event: u8,
    /// What protects the payload.
    pub level: Level,
    /// Key epoch of the channel and direction.
    pub epoch: u16,
    /// The operation, 0 for the session itself.
    pub operation: OperationId,
    /// Count of records before this one on the channel, direction and epoch.
    pub sequence: u64,
    /// Blocks: offset from byte 0 of the transfer. Else 0.
    pub offset: u64,
    /// Bytes of payload.
    pub length: u32,
    /// See [`Flags`].
    pub flags: Flags,
}

impl Head {
    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[0] = self.event;
        bytes[1] = self.level as u8;
        bytes[2..4].copy_from_slice(&self.epoch.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.operation.0.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.length.to_be_bytes());
        bytes[28..30].copy_from_slice(&self.flags.0.to_be_bytes());
        bytes
    }

    /// Reads a head. Nothing in it may be used before its tag was verified.
    pub fn decode(bytes: &[u8; HEAD_BYTES]) -> Result<Self, WireError> {
        let u16_at = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) << 16 | u32::from(u16_at(at + 2));
        let u64_at = |at: usize| u64::from(u32_at(at)) << 32 | u64::from(u32_at(at + 4));
        let flags = u16_at(28);
        if flags & !Flags::KNOWN != 0 {
            return Err(WireError::Invalid("flags"));
        }
        if u16_at(30) != 0 {
            return Err(WireError::Invalid("reserved bytes of the head"));
        }
        Ok(Self {
            event: bytes[0],
            level: Level::from_code(bytes[1]).ok_or(WireError::Invalid("protection level"))?,
            epoch: u16_at(2),
            operation: OperationId(u32_at(4)),
            sequence: u64_at(8),
            offset: u64_at(16),
            length: u32_at(24),
            flags: Flags(flags),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_comes_back_and_reserved_bits_are_refused() {
        let head = Head {
            event: 1,
            level: Level::Integrity,
            epoch: 7,
            operation: OperationId(0x0102_0304),
            sequence: u64::MAX,
            offset: 1 << 62,
            length: 1 << 20,
            flags: Flags::ASK,
        };
        let bytes = head.encode();
        assert_eq!(Head::decode(&bytes), Ok(head));
        for (at, value) in [(1, 3), (28, 0x80), (29, 16), (30, 1), (31, 1)] {
            let mut bad = bytes;
            bad[at] = value;
            assert!(Head::decode(&bad).is_err(), "byte {at}");
        }
    }
}
