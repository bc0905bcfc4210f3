//! The subtrees of the content hashed so far.

use super::fold::{is_complete, parent, root, root_of};
use super::{CHUNK_BYTES, hash};
use blake3::hazmat::{HasherExt, max_subtree_len};
use std::collections::BTreeMap;
use xdfs_proto::base::{Digest, Extent, Subtree};

/// An invalid piece: it begins within a chunk, is empty, or extends beyond the end of its subtree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a piece of {length} bytes at {offset} is no part of a tree")]
pub struct Misplaced {
    /// Where it begins.
    pub offset: u64,
    /// Its length.
    pub length: u64,
}

/// A piece that was hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaf {
    subtree: Subtree,
    /// The root of a transfer that is this piece alone; only at its beginning.
    alone: Option<Digest>,
}

impl Leaf {
    /// Hashes a piece of a transfer that begins at `offset`: at most as long as the offset is
    /// aligned.
    pub fn of(bytes: &[u8], offset: u64) -> Result<Self, Misplaced> {
        let length = bytes.len() as u64;
        let misplaced = Misplaced { offset, length };
        let extent = Extent::new(offset, length).map_err(|_| misplaced)?;
        if extent.is_empty() || !offset.is_multiple_of(CHUNK_BYTES) {
            return Err(misplaced);
        }
        if max_subtree_len(offset).is_some_and(|most| length > most) {
            return Err(misplaced);
        }
        let mut hasher = blake3::Hasher::new();
        // Panics for what was refused above.
        hasher.set_input_offset(offset).update(bytes);
        let subtree = Subtree { extent, value: hasher.finalize_non_root() };
        let alone = (offset == 0).then(|| *hasher.finalize().as_bytes());
        Ok(Self { subtree, alone })
    }

    /// Where it lies.
    pub const fn extent(&self) -> Extent {
        self.subtree.extent
    }
}

/// See [the module](super).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    /// By offset; no two overlap, and no two are siblings below `limit`.
    subtrees: BTreeMap<u64, Subtree>,
    /// The root of a transfer that is the first subtree alone.
    alone: Option<(Extent, Digest)>,
    /// Neighbours are merged up to this length.
    limit: u64,
}

impl Tree {
    /// An empty tree whose neighbours are merged up to `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self { subtrees: BTreeMap::new(), alone: None, limit }
    }

    /// Whether any byte of `extent` is in the tree.
    pub fn touches(&self, extent: Extent) -> bool {
        let before = self.subtrees.range(..extent.end()).next_back();
        before.is_some_and(|(_, last)| last.extent.end() > extent.offset())
    }

    /// Adds a piece. Returns false, and changes nothing, if part of it was already present.
    pub fn add(&mut self, leaf: Leaf) -> bool {
        if leaf.subtree.extent.is_empty() || self.touches(leaf.subtree.extent) {
            return false;
        }
        let (mut one, mut alone) = (leaf.subtree, leaf.alone);
        while is_complete(one.extent) && one.extent.length() < self.limit {
            let sibling = one.extent.offset() ^ one.extent.length();
            let found = self.subtrees.get(&sibling).filter(|other| other.extent.length() == one.extent.length());
            let Some(other) = found.copied() else { break };
            let (left, right) = if sibling < one.extent.offset() { (other, one) } else { (one, other) };
            let Ok(extent) = Extent::new(left.extent.offset(), left.extent.length() * 2) else { break };
            self.subtrees.remove(&sibling);
            alone = (extent.offset() == 0).then(|| root(&left.value, &right.value));
            one = Subtree { extent, value: parent(&left.value, &right.value) };
        }
        if one.extent.offset() == 0 {
            self.alone = alone.map(|alone| (one.extent, alone));
        }
        self.subtrees.insert(one.extent.offset(), one);
        true
    }

    /// Adds a subtree that was hashed elsewhere.
    pub fn adopt(&mut self, subtree: Subtree) -> bool {
        self.add(Leaf { subtree, alone: None })
    }

    /// Removes every subtree with a byte of `extent`.
    pub fn forget(&mut self, extent: Extent) {
        if extent.offset() == 0 {
            self.alone = None;
        }
        self.subtrees.retain(|_, one| one.extent.intersection(extent).is_none());
    }

    /// The present ranges, ascending.
    pub fn subtrees(&self) -> impl Iterator<Item = Subtree> {
        self.subtrees.values().copied()
    }

    /// The number of subtrees.
    pub fn len(&self) -> usize {
        self.subtrees.len()
    }

    /// Whether the tree is empty.
    pub fn is_empty(&self) -> bool {
        self.subtrees.is_empty()
    }

    /// The hash of a transfer of `length` bytes, together with subtrees that are not in the tree;
    /// none where some byte is missing.
    pub fn root(&self, length: u64, others: &[Subtree]) -> Option<Digest> {
        if length == 0 {
            return Some(hash(&[]));
        }
        let whole = Extent::new(0, length).ok()?;
        let alone = || self.alone.filter(|(extent, _)| *extent == whole).map(|(_, alone)| alone);
        if others.is_empty() {
            return root_of(self.subtrees(), whole, alone);
        }
        let mut all: Vec<Subtree> = self.subtrees().chain(others.iter().copied()).collect();
        all.sort_unstable();
        root_of(all.into_iter(), whole, alone)
    }
}
