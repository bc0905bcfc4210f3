//! Sealing and opening of records, one direction of one channel at a time.
//!
//! A record is a head of 32 bytes, a tag of 16 bytes and a payload. The head is authenticated at every level and never
//! encrypted; the level says what happens to the payload:
//!
//! | level | additional authenticated data | plain text |
//! |---|---|---|
//! | `clear` | head | none; the payload is not looked at |
//! | `integrity` | head, payload | none (this is GMAC) |
//! | `private` | head | payload, encrypted in place |
//!
//! AES-256-GCM with a nonce of 12 bytes: the direction's iv, its last 8 bytes xored with the record's sequence number
//! (big-endian). The sequence starts at 0 in every epoch and is consumed by every record of every level, so no nonce
//! serves twice under one key. It is never read from the wire.
//!
//! Head and payload lie beside each other in the buffer (`headed`), the tag lies apart: a buffer whose payload is
//! aligned has 32 free bytes before it, and neither sealing nor opening copies a payload.
//!
//! What callers must do: compare the head's sequence, epoch and level with what they expect *after* the record was
//! opened, and act on nothing in a head before that.

mod epoch;
mod opener;
mod sealer;

pub use opener::Opener;
pub use sealer::Sealer;
/// How much one key may protect. Sealer and opener keep to records and bytes; they know no clock, so the age is their
/// caller's.
pub use xdfs_proto::base::KeyLimits as Limits;

/// Bytes of a record's head.
pub const HEAD_BYTES: usize = 32;
/// Bytes of a record's tag.
pub const TAG_BYTES: usize = 16;

/// A record's tag, as it stands on the wire.
pub type Tag = [u8; TAG_BYTES];
