//! The hash of a range of a transfer: a subtree of its BLAKE3 tree. Code that only passes it on
//! need not know how it is computed.

use super::Extent;

/// A hash of a whole transfer, or of a range of one.
pub type Digest = [u8; 32];

/// The chaining value of a range: a complete subtree aligned to itself, or the end of the transfer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Subtree {
    /// The bytes, counted from byte 0 of the transfer.
    pub extent: Extent,
    /// Their chaining value.
    pub value: Digest,
}
