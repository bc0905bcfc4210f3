//! What the simulated files contain: bytes that are cheap to make, different at every offset of the block grid, and
//! different in every version of every file, so that no block can stand in for another unnoticed.

use crate::random::Random;
use std::sync::OnceLock;

/// Bytes of the table. A prime, so that the same place of the block grid comes back only after as many blocks.
const TABLE_BYTES: usize = 262_147;

fn table() -> &'static [u8] {
    static TABLE: OnceLock<Vec<u8>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut random = Random::new(2799);
        (0..TABLE_BYTES).map(|_| random.bits() as u8).collect()
    })
}

/// The content of one version of one file, without an end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Content(pub u64);

impl Content {
    /// Pieces of the table that make up `length` bytes from `offset`.
    fn pieces(self, offset: u64, length: usize) -> impl Iterator<Item = &'static [u8]> {
        let start = (u128::from(self.0) * 104_729 + u128::from(offset)) % TABLE_BYTES as u128;
        let (mut at, mut left) = (start as usize, length);
        std::iter::from_fn(move || {
            let count = left.min(TABLE_BYTES - at);
            let piece = &table()[at..at + count];
            (at, left) = (0, left - count);
            (count > 0).then_some(piece)
        })
    }

    /// Appends `length` bytes from `offset` to `bytes`.
    pub fn append(self, offset: u64, length: usize, bytes: &mut Vec<u8>) {
        self.pieces(offset, length).for_each(|piece| bytes.extend_from_slice(piece));
    }

    /// The first place where `bytes` differ from what stands at `offset`.
    pub fn difference(self, offset: u64, bytes: &[u8]) -> Option<u64> {
        let mut at = 0;
        for piece in self.pieces(offset, bytes.len()) {
            let there = &bytes[at..at + piece.len()];
            if there != piece {
                let first = there.iter().zip(piece).position(|(one, other)| one != other);
                return first.map(|first| (at + first) as u64);
            }
            at += piece.len();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_files_and_blocks_differ_and_come_back() {
        let mut first = Vec::new();
        Content(4).append(777, 300_000, &mut first);
        assert_eq!(Content(4).difference(777, &first), None);
        assert!(Content(5).difference(777, &first).is_some());
        assert!(Content(4).difference(777 + 65_536, &first).is_some());
        first[299_999] ^= 1;
        assert_eq!(Content(4).difference(777, &first), Some(299_999));
    }
}
