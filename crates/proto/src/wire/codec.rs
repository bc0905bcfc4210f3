//! Reader and writer of control payloads. Integers have the variable-length form of RFC 9000
//! section 16, which is the papers' "strength reduction" of length fields (WIRE-52, WIRE-57..60) in
//! the field's standard form; byte strings are an integer length and the bytes (XDOPI-07: no type
//! tags, order fixed by the message, nothing nested).

use alloc::vec::Vec;
use core::fmt;

/// Largest integer that the variable-length form holds.
pub const INTEGER_MAX: u64 = (1 << 62) - 1;

/// Why bytes are not a valid message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WireError {
    /// The message ends inside a field.
    Truncated,
    /// Bytes follow the last field.
    Trailing,
    /// A length or count exceeds its limit; the field is named.
    TooLong(&'static str),
    /// A value has no meaning; the field is named.
    Invalid(&'static str),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("message ends inside a field"),
            Self::Trailing => f.write_str("bytes behind the last field"),
            Self::TooLong(field) => write!(f, "{field} is too long"),
            Self::Invalid(field) => write!(f, "{field} is invalid"),
        }
    }
}

impl core::error::Error for WireError {}

/// Takes fields off the front of a payload.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from the start.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    /// One byte.
    pub fn byte(&mut self) -> Result<u8, WireError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A variable-length integer. Longer forms than needed are accepted, as RFC 9000 does.
    pub fn integer(&mut self) -> Result<u64, WireError> {
        let first = *self.rest.first().ok_or(WireError::Truncated)?;
        let bytes = self.take(1 << (first >> 6))?;
        let value = bytes.iter().fold(0u64, |value, &byte| value << 8 | u64::from(byte));
        // The two top bits of the first byte are the width, not the value.
        Ok(value & (INTEGER_MAX >> (62 - (bytes.len() * 8 - 2))))
    }

    /// An integer of at most `limit`.
    pub fn integer_up_to(&mut self, limit: u64, field: &'static str) -> Result<u64, WireError> {
        let value = self.integer()?;
        if value > limit { Err(WireError::TooLong(field)) } else { Ok(value) }
    }

    /// Flags, of which only `known` ones may be set.
    pub fn flags(&mut self, known: u64, field: &'static str) -> Result<u64, WireError> {
        let flags = self.integer()?;
        if flags & !known == 0 { Ok(flags) } else { Err(WireError::Invalid(field)) }
    }

    /// A length and that many bytes, at most `limit`.
    pub fn bytes(&mut self, limit: usize, field: &'static str) -> Result<&'a [u8], WireError> {
        let length = self.integer_up_to(limit as u64, field)?;
        self.take(length as usize)
    }

    /// The message must end here.
    pub fn end(self) -> Result<(), WireError> {
        if self.rest.is_empty() { Ok(()) } else { Err(WireError::Trailing) }
    }
}

/// Appends fields to a payload.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty payload.
    pub const fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    /// An empty payload with this capacity.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    /// An empty payload in this memory; previous content is discarded.
    pub fn within(mut memory: Vec<u8>) -> Self {
        memory.clear();
        Self { bytes: memory }
    }

    /// What was written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Truncates the payload to the first `length` bytes; the memory is kept.
    pub fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
    }

    /// The payload.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Raw bytes.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// One byte.
    pub fn byte(&mut self, byte: u8) -> &mut Self {
        self.bytes.push(byte);
        self
    }

    /// An integer in its shortest form. Values above 2^62 - 1 have none: callers' types are smaller
    /// or checked.
    pub fn integer(&mut self, value: u64) -> &mut Self {
        let (bytes, width) = shortest(value);
        self.raw(&bytes[8 - width..])
    }

    /// A length and the bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.integer(bytes.len() as u64).raw(bytes)
    }

    /// A length and what `write` appends. Those are about `likely` bytes: where their length has another form than
    /// that of the guess, they are moved.
    pub fn counted(&mut self, likely: usize, write: impl FnOnce(&mut Self)) -> &mut Self {
        let at = self.bytes.len();
        let places = shortest(likely as u64).1;
        self.bytes.resize(at + places, 0);
        write(self);
        let length = self.bytes.len() - at - places;
        let (bytes, width) = shortest(length as u64);
        self.bytes.splice(at..at + places, bytes[8 - width..].iter().copied());
        self
    }

    /// Puts these bytes before all others.
    pub fn prepend(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.splice(..0, bytes.iter().copied());
        self
    }
}

/// The shortest form of an integer: the last bytes of these, and how many.
fn shortest(value: u64) -> ([u8; 8], usize) {
    debug_assert!(value <= INTEGER_MAX, "integer too large for the wire");
    let value = value.min(INTEGER_MAX);
    let (marked, width) = match value {
        0..=0x3f => (value, 1),
        0x40..=0x3fff => (value | 1 << 14, 2),
        0x4000..=0x3fff_ffff => (value | 2 << 30, 4),
        _ => (value | 3 << 62, 8),
    };
    (marked.to_be_bytes(), width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn integers_of_every_width_come_back() {
        for value in [0, 1, 0x3f, 0x40, 0x3fff, 0x4000, 0x3fff_ffff, 0x4000_0000, 1 << 53, INTEGER_MAX] {
            let mut writer = Writer::new();
            writer.integer(value);
            let bytes = writer.finish();
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.integer(), Ok(value));
            assert_eq!(reader.end(), Ok(()));
        }
    }

    #[test]
    fn what_is_counted_behind_its_start_is_what_is_counted_before() {
        for length in [0, 1, 0x3f, 0x40, 0x3fff, 0x4000] {
            for likely in [0, 0x40, 0x4000, 0x4000_0000] {
                let content = vec![7; length];
                let (mut before, mut behind) = (Writer::new(), Writer::new());
                before.byte(1).bytes(&content).byte(2);
                let write = |writer: &mut Writer| _ = writer.raw(&content);
                behind.byte(1).counted(likely, write).byte(2);
                assert_eq!(before, behind, "{length} bytes where {likely} were likely");
            }
        }
    }

    #[test]
    fn the_examples_of_rfc_9000_decode() {
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ] {
            assert_eq!(Reader::new(bytes).integer(), Ok(value));
        }
    }

    #[test]
    fn a_length_beyond_the_input_or_the_limit_is_refused_before_use() {
        assert_eq!(Reader::new(&[0x3f, 1]).bytes(100, "name"), Err(WireError::Truncated));
        assert_eq!(Reader::new(&[0x3f, 1]).bytes(10, "name"), Err(WireError::TooLong("name")));
        assert_eq!(Reader::new(&[]).integer(), Err(WireError::Truncated));
        assert_eq!(Reader::new(&[0xc0, 0]).integer(), Err(WireError::Truncated));
        assert_eq!(Reader::new(&[1]).end(), Err(WireError::Trailing));
    }
}
