//! The hashes of one operation on one side: what was hashed so far, shared by the pipelines that
//! move it.
//!
//! A block is hashed where its bytes pass: from the buffer that is sent, or that arrived. If the
//! kernel moves them, a job of the pool hashes the page cache in parallel ([`super::parallel`]).

use std::sync::{Mutex, MutexGuard, PoisonError};
use xdfs_io::buf::Buffer;
use xdfs_io::store::{Hashes, StoredRange};
use xdfs_proto::base::{Digest, Error, ErrorKind, Extent, Subtree};
use xdfs_proto::session::{Comparison, ContentDigest, Mismatch};
use xdfs_proto::{limits, plan};
use xdfs_secure::content::{Leaf, Tree, blinded, differences};

/// The most subtrees into which a transfer is divided: a fault costs at most this share of it, or
/// [`PIECE_BYTES_MIN`].
const PIECES: u64 = 512;
/// The smallest piece that is compared on its own.
const PIECE_BYTES_MIN: u64 = 1 << 20;
/// Bytes that are read back at a time: a multiple of every page, and small enough to stay in the
/// core's cache.
pub(super) const BACK_BYTES: usize = 256 << 10;

/// Neighbours are merged up to this length, so that FINISH can list the remaining subtrees. A
/// stream's subtrees need not be compared separately.
pub fn piece_bytes(length: Option<u64>, block: u32) -> u64 {
    match length {
        Some(length) => length.div_ceil(PIECES).next_power_of_two().max(PIECE_BYTES_MIN).max(block.into()),
        None => u64::MAX,
    }
}

/// The hashes of one operation on one side, shared by the pipelines that move it.
#[derive(Debug)]
pub struct Hashing {
    state: Mutex<HashState>,
    piece: u64,
    /// Receiving: the ranges that an earlier attempt left.
    granted: Vec<Extent>,
    /// The ranges that the receiver of an upload claims to have: they are hashed separately from
    /// what is sent.
    claimed: Vec<Extent>,
    /// Values of [`Hashing::claimed`] are sent blinded; else they are hashed for the root alone.
    blinded: bool,
    /// The received content is what was sent: an attempt that resumes this one need not compare it
    /// again.
    proved: bool,
}

#[derive(Debug)]
struct HashState {
    /// The hashes that both sides compute.
    tree: Tree,
    /// Hashes of an earlier attempt, which are not computed again.
    kept: Vec<Subtree>,
    /// The hashes of [`Hashing::claimed`].
    apart: Tree,
}

impl Hashing {
    /// The state before anything was hashed.
    pub fn new(piece: u64) -> Self {
        let state = HashState { tree: Tree::new(piece), kept: Vec::new(), apart: Tree::new(piece) };
        Self {
            state: Mutex::new(state),
            piece,
            granted: Vec::new(),
            claimed: Vec::new(),
            blinded: false,
            proved: false,
        }
    }

    /// The receiver's unverified data is compared, and neither side reveals a value that the other
    /// one does not know (P-63).
    pub fn blinding(mut self) -> Self {
        self.blinded = true;
        self
    }

    /// The same at the sender, whose receiver claims to have `claimed` and must know its hash
    /// without receiving it.
    pub fn sending(mut self, claimed: &[Extent]) -> Self {
        self.claimed = claimed.to_vec();
        self
    }

    /// The same at the receiver, where `granted` is present from an earlier attempt that recorded
    /// `kept`. In `doubt` the sender hashes it too, and it is compared. At levels that are
    /// `protected` the received content is what was sent.
    pub fn receiving(
        mut self,
        kept: &[StoredRange],
        granted: &[Extent],
        doubt: bool,
        protected: bool,
        length: Option<u64>,
    ) -> Self {
        let HashState { tree, kept: known, apart } = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let counts = |extent: Extent| granted.iter().any(|range| range.contains(extent));
        // The root of a transfer cannot be computed from a value of the whole transfer.
        let whole = |extent: Extent| extent.offset() == 0 && Some(extent.length()) == length;
        for one in kept.iter().filter(|one| counts(one.extent) && !whole(one.extent)) {
            match one.subtree() {
                // A longer one cannot be compared with the sender's.
                Some(subtree) if self.blinded && one.extent.length() <= self.piece => drop(apart.adopt(subtree)),
                Some(_) if self.blinded => {}
                Some(subtree) if doubt => drop(tree.adopt(subtree)),
                Some(subtree) if one.proved => known.push(subtree),
                _ => {}
            }
        }
        self.granted = granted.to_vec();
        if self.blinded {
            self.claimed = granted.to_vec();
        }
        self.proved = protected && !doubt && self.unread(granted).is_empty();
        self
    }

    fn lock(&self) -> MutexGuard<'_, HashState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a part of `extent` was hashed.
    pub fn touches(&self, extent: Extent) -> bool {
        self.lock().tree.touches(extent)
    }

    /// Adds the hash of a piece; if the piece was received, it is written, too.
    pub fn add(&self, leaf: Leaf) {
        self.lock().tree.add(leaf);
    }

    /// Adds the hash of a piece that was read in parallel to the transfer.
    pub fn add_read(&self, leaf: Leaf) {
        let apart = self.claimed.iter().any(|range| range.contains(leaf.extent()));
        let mut state = self.lock();
        if apart {
            state.apart.add(leaf)
        } else {
            state.tree.add(leaf)
        };
    }

    /// The parts of the receiver's claimed ranges, ascending, that are neither hashed nor sent
    /// `again`.
    pub fn unread_claims(&self, again: &[Extent]) -> Vec<Extent> {
        let mut known: Vec<Extent> = self.lock().apart.subtrees().map(|one| one.extent).collect();
        known.extend(again);
        known.sort_unstable_by_key(|one| one.offset());
        self.claimed.iter().flat_map(|range| between(&plan::within(&known, *range), *range)).collect()
    }

    /// The parts of `kept`, which is present, that have not been hashed yet.
    pub fn unread(&self, kept: &[Extent]) -> Vec<Extent> {
        self.lock().unread(kept)
    }

    /// Forgets the hashes of ranges that are sent again.
    pub fn forget(&self, ranges: &[Extent]) {
        let mut state = self.lock();
        for range in ranges {
            state.tree.forget(*range);
            state.apart.forget(*range);
            state.kept.retain(|one| one.extent.intersection(*range).is_none());
        }
    }

    /// Forgets the ranges that differ from what was sent, or all if they are unknown.
    pub fn forget_differing(&self, found: &Comparison, length: u64) {
        let whole: Vec<Extent> = Extent::new(0, length).into_iter().collect();
        self.forget(if found.bad.is_empty() { &whole } else { &found.bad });
    }

    /// The digest that the sender can send. `length` is that of the transfer.
    pub fn proof(&self, length: u64) -> Result<ContentDigest, Error> {
        let state = self.lock();
        let (root, subtrees) = (state.root(length), state.told(self.blinded));
        if subtrees.len() <= limits::SUBTREES_MAX {
            return Ok(ContentDigest { root, subtrees });
        }
        // Only with hundreds of gaps: then the root alone must suffice, if it is sent.
        let many = || Error::new(ErrorKind::LimitExceeded, "the parts of an earlier attempt are too many to be hashed");
        root.filter(|_| state.apart.is_empty())
            .map(|root| ContentDigest { root: Some(root), subtrees: Vec::new() })
            .ok_or_else(many)
    }

    /// Compares what arrived with what was sent.
    pub fn compare(&self, length: u64, sent: &ContentDigest) -> Comparison {
        let state = self.lock();
        let root = state.root(length);
        if sent.subtrees.is_empty() && sent.root.is_some() {
            return Comparison { root, ..Comparison::default() };
        }
        let mine = state.told(self.blinded);
        Comparison { root, bad: differences(&mine, &sent.subtrees), place: Mismatch::OnTheWay }
    }

    /// The ranges in which `found` differs from what arrived.
    pub(super) fn differing(&self, found: &[Subtree]) -> Vec<Extent> {
        differences(found, &self.lock().subtrees())
    }

    /// An empty tree, for a second pass of hashing.
    pub(super) fn empty_tree(&self) -> Tree {
        Tree::new(self.piece)
    }
}

impl HashState {
    /// The hash of the whole transfer, if all of it was hashed.
    fn root(&self, length: u64) -> Option<Digest> {
        if self.tree.is_empty() && self.kept.is_empty() {
            return self.apart.root(length, &[]);
        }
        let others: Vec<Subtree> = self.kept.iter().copied().chain(self.apart.subtrees()).collect();
        self.tree.root(length, &others)
    }

    /// The hashes to compare, ascending: those of the tree, and the separate ones only as blinded
    /// values.
    fn told(&self, blinding: bool) -> Vec<Subtree> {
        let mut all: Vec<Subtree> = self.tree.subtrees().collect();
        if blinding {
            all.extend(self.apart.subtrees().map(|one| Subtree { value: blinded(&one.value), ..one }));
            all.sort_unstable_by_key(|one| one.extent.offset());
        }
        all
    }

    /// Everything that was hashed, ascending.
    fn subtrees(&self) -> Vec<Subtree> {
        let mut all: Vec<Subtree> =
            self.tree.subtrees().chain(self.kept.iter().copied()).chain(self.apart.subtrees()).collect();
        all.sort_unstable();
        all
    }

    fn unread(&self, kept: &[Extent]) -> Vec<Extent> {
        let known: Vec<Extent> = self.subtrees().iter().map(|one| one.extent).collect();
        kept.iter().flat_map(|range| between(&plan::within(&known, *range), *range)).collect()
    }
}

impl Hashes for Hashing {
    fn noted(&self) -> Vec<StoredRange> {
        let state = self.lock();
        let hashed = |one: Subtree, proved| StoredRange { extent: one.extent, value: Some(one.value), proved };
        let mut all: Vec<StoredRange> = state.kept.iter().map(|one| hashed(*one, true)).collect();
        all.extend(state.tree.subtrees().chain(state.apart.subtrees()).map(|one| hashed(one, self.proved)));
        // It is still present, and still to be read.
        let unread = state.unread(&self.granted).into_iter();
        all.extend(unread.map(|extent| StoredRange { extent, value: None, proved: false }));
        all.sort_unstable_by_key(|one| one.extent.offset());
        all
    }
}

/// The parts of `range` that are not in `known`, which is ascending and within it.
pub fn between(known: &[Extent], range: Extent) -> Vec<Extent> {
    let mut at = range.offset();
    let mut rest = Vec::with_capacity(known.len() + 1);
    for one in known.iter().copied().chain(Extent::new(range.end(), 0).ok()) {
        rest.extend(Extent::new(at, one.offset().saturating_sub(at)).ok().filter(|gap| !gap.is_empty()));
        at = one.end();
    }
    rest
}

/// A buffer for reading in parallel to the pipeline.
pub(super) fn buffer() -> Result<Buffer, Error> {
    Buffer::new(BACK_BYTES).map_err(|error| Error::new(ErrorKind::Resources, format!("no memory to hash: {error}")))
}

/// Bytes of a chunk of BLAKE3.
const CHUNK_BYTES: u64 = 1024;

/// A range in pieces that fit that buffer and the tree. The range begins at a multiple of a block.
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    at: u64,
    end: u64,
}

impl Pieces {
    pub(super) fn of(range: Extent) -> Self {
        Self { at: range.offset(), end: range.end() }
    }
}

impl Iterator for Pieces {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        let (at, step) = (self.at, BACK_BYTES as u64);
        let rest = (at + step - at % step).min(self.end).saturating_sub(at);
        // A piece is a subtree: a power of two of whole chunks at a multiple of its length, or the
        // rest of the last chunk.
        let mut length = if rest < CHUNK_BYTES { rest } else { 1 << rest.ilog2() };
        while length > CHUNK_BYTES && !at.is_multiple_of(length) {
            length /= 2;
        }
        let end = at + length;
        let piece = Extent::new(at, end - at).ok().filter(|piece| !piece.is_empty())?;
        self.at = end;
        Some(piece)
    }
}

/// A piece's hash; a piece that fits no tree is a bug, and fails the transfer.
pub fn leaf(bytes: &[u8], offset: u64) -> Result<Leaf, Error> {
    Leaf::of(bytes, offset).map_err(|misplaced| Error::internal(misplaced.to_string()))
}

#[cfg(test)]
mod tests;
