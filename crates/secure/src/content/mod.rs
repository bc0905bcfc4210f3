//! The hash of a transfer's content, from pieces in any order: BLAKE3, whose tree has a value for
//! every aligned piece.
//!
//! A [`Tree`] holds the largest complete subtrees of what it was given; neighbours are merged at
//! once, up to a bound that leaves enough of them to tell where two copies differ
//! ([`differences`]). It knows no block size: who hashes by other blocks gets the same tree.
//!
//! It must not hold content, nor trust an offset: input that does not fit the tree is refused where
//! the library would panic.

mod compare;
mod fold;
#[cfg(test)]
mod tests;
mod tree;

pub use compare::differences;
pub use tree::{Leaf, Misplaced, Tree};

use xdfs_proto::base::Digest;

/// Bytes of the tree's smallest piece: pieces begin at multiples of it.
pub const CHUNK_BYTES: u64 = 1024;

/// The hash of bytes that lie together, as `b3sum` prints it.
pub fn hash(bytes: &[u8]) -> Digest {
    *blake3::hash(bytes).as_bytes()
}

/// A value by which somebody who knows it recognizes it, and from which nobody else learns it.
pub fn blinded(value: &Digest) -> Digest {
    blake3::derive_key("xdfs 1 blinded subtree of a transfer", value)
}

/// The hash of bytes that come one after the other.
#[derive(Clone, Debug, Default)]
pub struct Running(blake3::Hasher);

impl Running {
    /// These bytes follow.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of everything so far.
    pub fn hash(&self) -> Digest {
        *self.0.finalize().as_bytes()
    }
}

/// A hash as it is printed.
pub fn hexadecimal(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
