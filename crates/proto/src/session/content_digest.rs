//! What each end knows about the content of a transfer. Hashes are opaque here.

use crate::base::{Digest, Extent, Subtree};
use alloc::vec::Vec;

/// What a sender knows about the content that it sent.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ContentDigest {
    /// The hash of the whole transfer, if it knows all of it.
    pub root: Option<Digest>,
    /// The subtrees of what it hashed.
    pub subtrees: Vec<Subtree>,
}

/// Where content changed, as far as the receiver can tell.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mismatch {
    /// Before it arrived: in transit, or at the sender.
    #[default]
    OnTheWay,
    /// After it arrived: storage reads back something other than what was written.
    InStorage,
}

/// The receiver's result of the comparison.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Comparison {
    /// The hash of the complete content, if it is known.
    pub root: Option<Digest>,
    /// Where it differs from what was sent, ascending.
    pub bad: Vec<Extent>,
    /// Where the change happened.
    pub place: Mismatch,
}

impl Comparison {
    /// Whether the content is identical to what was sent.
    pub fn agrees_with(&self, sent: &ContentDigest) -> bool {
        self.bad.is_empty() && sent.root.is_none_or(|root| self.root == Some(root))
    }
}
