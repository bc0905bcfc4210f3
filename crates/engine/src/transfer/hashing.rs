//! The hashes of one operation on one side: what was hashed so far, shared by the pipelines that move it, and what this side is
//! to do about them (design rules 5 and 7).
//!
//! A block is hashed where its bytes pass: from the buffer that is sent, or that arrived. Where the kernel moves them, a thread
//! beside the pipeline's hashes the page cache ([`super::beside`]).

use super::beside::Beside;
use std::sync::{Mutex, MutexGuard, PoisonError};
use xdfs_proto::base::{Digest, Error, ErrorKind, Extent, PipelineId, Subtree};
use xdfs_proto::limits;
use xdfs_proto::session::{Comparison, GroupMessage, Proof, Where};
use xdfs_secure::content::{Leaf, Tree, differences};
use xdfs_xio::buf::Buffer;
use xdfs_xio::store::Stage;

/// Subtrees that a transfer is told apart by, at most: a fault costs so small a share of it, or [`PIECE_BYTES_MIN`].
const PIECES: u64 = 512;
/// The smallest piece that is told apart.
const PIECE_BYTES_MIN: u64 = 1 << 20;
/// Bytes that are read back at a time: a multiple of every page, and small enough to stay in the core's cache.
const BACK_BYTES: usize = 256 << 10;

/// Neighbours are merged up to this length: as many subtrees stay as FINISH can list. A stream's need not be told apart.
pub fn piece_bytes(length: Option<u64>, block: u32) -> u64 {
    match length {
        Some(length) => length.div_ceil(PIECES).next_power_of_two().max(PIECE_BYTES_MIN).max(block.into()),
        None => u64::MAX,
    }
}

/// See the module.
#[derive(Debug)]
pub struct Hashing {
    tree: Mutex<Tree>,
    piece: u64,
    /// What is there from an earlier attempt and was hashed by it: nobody hashes it again.
    kept: Vec<Subtree>,
}

impl Hashing {
    /// Nothing is hashed yet, but what an earlier attempt `kept`.
    pub fn new(piece: u64, kept: Vec<Subtree>) -> Self {
        Self { tree: Mutex::new(Tree::new(piece)), piece, kept }
    }

    fn lock(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether some of it was hashed.
    pub fn touches(&self, extent: Extent) -> bool {
        self.lock().touches(extent)
    }

    /// A piece was hashed; where it arrived, it is written, too.
    pub fn add(&self, leaf: Leaf) {
        self.lock().add(leaf);
    }

    /// A subtree that is known from elsewhere.
    pub fn adopt(&self, subtree: Subtree) {
        self.lock().adopt(subtree);
    }

    /// These ranges come again.
    pub fn forget(&self, ranges: &[Extent]) {
        let mut tree = self.lock();
        ranges.iter().for_each(|range| tree.forget(*range));
    }

    /// What the sender can say. `length` is that of the transfer.
    pub fn proof(&self, length: u64) -> Result<Proof, Error> {
        let tree = self.lock();
        let root = tree.root(length, &self.kept);
        if tree.len() <= limits::SUBTREES_MAX {
            return Ok(Proof { root, subtrees: tree.subtrees().collect() });
        }
        // Only with gaps by the hundred: then the root alone has to do.
        let many = || Error::new(ErrorKind::LimitExceeded, "the parts of an earlier attempt are too many to be hashed");
        root.map(|root| Proof { root: Some(root), subtrees: Vec::new() }).ok_or_else(many)
    }

    /// What arrived against what was sent.
    pub fn compare(&self, length: u64, sent: &Proof) -> Comparison {
        let tree = self.lock();
        let root = tree.root(length, &self.kept);
        if sent.subtrees.is_empty() && sent.root.is_some() {
            return Comparison { root, ..Comparison::default() };
        }
        let mine: Vec<Subtree> = tree.subtrees().collect();
        Comparison { root, bad: differences(&mine, &sent.subtrees), place: Where::OnTheWay }
    }

    /// What storage gives back against what arrived, and that against what was sent. May take long.
    pub fn compare_stored(&self, stage: &Stage, length: u64, sent: &Proof) -> Result<Comparison, Error> {
        let arrived = self.compare(length, sent);
        let same_root = sent.root.is_none_or(|root| arrived.root == Some(root));
        if !arrived.bad.is_empty() || !same_root {
            return Ok(arrived);
        }
        let stored = self.read_back(stage, length)?;
        let mut expected: Vec<Subtree> = self.lock().subtrees().chain(self.kept.iter().copied()).collect();
        expected.sort_unstable();
        let found: Vec<Subtree> = stored.subtrees().collect();
        let bad = differences(&found, &expected);
        Ok(Comparison { root: stored.root(length, &[]), bad, place: Where::InStorage })
    }

    fn read_back(&self, stage: &Stage, length: u64) -> Result<Tree, Error> {
        let reader = stage.read_back(true)?;
        let mut buffer = buffer()?;
        let mut tree = Tree::new(self.piece);
        for extent in pieces(Extent::new(0, length).unwrap_or_default()) {
            let count = extent.length() as usize;
            reader.read(&mut buffer, count, extent.offset())?;
            tree.add(leaf(&buffer.payload()[..count], extent.offset())?);
        }
        Ok(tree)
    }
}

/// A buffer for reading beside the pipeline.
pub(super) fn buffer() -> Result<Buffer, Error> {
    Buffer::new(BACK_BYTES).map_err(|error| Error::new(ErrorKind::Resources, format!("no memory to hash: {error}")))
}

/// A range in pieces that fit such a buffer and the tree. The range begins at a multiple of a block.
pub(super) fn pieces(range: Extent) -> impl Iterator<Item = Extent> {
    let step = BACK_BYTES as u64;
    // Blocks of 64 KiB begin where a longer piece could not.
    let next = move |at: u64| (at + step - at % step).min(range.end());
    let mut at = range.offset();
    std::iter::from_fn(move || {
        let mut end = next(at);
        while !at.is_multiple_of((end - at).next_power_of_two().max(1)) {
            end = at + (1 << at.trailing_zeros());
        }
        let piece = Extent::new(at, end - at).ok().filter(|piece| !piece.is_empty())?;
        at = end;
        Some(piece)
    })
}

/// A piece's hash; one that fits no tree is a mistake of ours, and fails the transfer.
pub fn leaf(bytes: &[u8], offset: u64) -> Result<Leaf, Error> {
    Leaf::of(bytes, offset).map_err(|misplaced| Error::new(ErrorKind::Protocol, misplaced.to_string()))
}

/// What waits until everything is hashed.
#[derive(Debug)]
pub enum Waiting {
    /// The source is looked at again.
    Check,
    /// The coordinator hears that this pipeline's range is done.
    Group(PipelineId, GroupMessage),
    /// What arrived is compared.
    Verify {
        /// Bytes of the transfer.
        length: u64,
        /// From what storage gives back.
        reread: bool,
        /// What the sender says.
        sent: Proof,
    },
}

/// What a pipeline does about the hashes of an operation.
#[derive(Debug)]
pub struct Hashed {
    /// Shared with the other pipelines.
    pub hashing: std::sync::Arc<Hashing>,
    /// Bytes of the transfer, where known; a pipeline that only takes part need not know.
    pub length: Option<u64>,
    /// The thread that hashes what passes no buffer here.
    pub beside: Option<Beside>,
    /// Blocks are hashed as they leave.
    pub inline: bool,
    /// What follows when the thread is done.
    pub waiting: Option<Waiting>,
}

/// The answer to a request for a hash: reads `length` bytes of `source` from `offset` on until `stopped` says so.
pub fn sum(
    source: &xdfs_xio::store::Source,
    offset: u64,
    length: u64,
    stopped: &dyn Fn() -> bool,
) -> Result<Digest, Error> {
    let mut running = xdfs_secure::content::Running::default();
    let mut buffer = buffer()?;
    let mut at = 0;
    while at < length {
        if stopped() {
            return Err(Error::new(ErrorKind::Cancelled, "nobody waits for the hash"));
        }
        let count = (length - at).min(BACK_BYTES as u64) as usize;
        let part = &mut buffer.payload_mut()[..count];
        source.read_exact_at(part, offset + at)?;
        running.add(part);
        at += count as u64;
    }
    source.revalidate()?;
    Ok(running.hash())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_range_and_each_fits_a_tree() {
        for (from, length) in
            [(0, 0), (0, 1), (0, 1 << 20), (65_536, 1_000_000), (3 << 16, 5 << 16), (1 << 20, 77), (5 << 18, 3 << 18)]
        {
            let range = Extent::new(from, length).unwrap();
            let bytes = vec![1; BACK_BYTES];
            let mut at = from;
            for piece in pieces(range) {
                assert_eq!(piece.offset(), at);
                assert!(Leaf::of(&bytes[..piece.length() as usize], at).is_ok(), "{piece:?}");
                at = piece.end();
            }
            assert_eq!(at, from + length);
        }
    }

    #[test]
    fn a_transfer_has_few_pieces_and_none_is_shorter_than_a_block() {
        assert_eq!(piece_bytes(Some(0), 65_536), 1 << 20);
        assert_eq!(piece_bytes(Some(5 << 30), 1 << 20), 16 << 20);
        assert_eq!(piece_bytes(Some(5 << 20), 4 << 20), 4 << 20);
        assert_eq!(piece_bytes(None, 1 << 20), u64::MAX);
        for length in [1u64, 1 << 30, (1 << 40) + 1, 1 << 60] {
            assert!(length.div_ceil(piece_bytes(Some(length), 65_536)) <= PIECES);
        }
    }

    #[test]
    fn what_is_asked_for_again_is_hashed_again() {
        let block = Extent::new(0, 4096).unwrap();
        let hashing = Hashing::new(1 << 20, Vec::new());
        hashing.add(leaf(&[1; 4096], 0).unwrap());
        let sent = Hashing::new(1 << 20, Vec::new());
        sent.add(leaf(&[2; 4096], 0).unwrap());
        let found = hashing.compare(4096, &sent.proof(4096).unwrap());
        assert_eq!(found.bad, [block]);
        hashing.forget(&found.bad);
        assert!(!hashing.touches(block));
        hashing.add(leaf(&[2; 4096], 0).unwrap());
        let found = hashing.compare(4096, &sent.proof(4096).unwrap());
        assert_eq!((found.bad, found.root), (vec![], Some(xdfs_secure::content::hash(&[2; 4096]))));
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test makes a folder of its own")]
    fn a_write_that_succeeds_falsely_is_found_by_reading_back_and_comes_again() {
        use xdfs_proto::base::RelPath;
        use xdfs_xio::store::fault::{Call, Fault, Plan};
        use xdfs_xio::store::{Existing, FaultStore, LocalStore, StageRequest, Store};
        let folder = std::env::temp_dir().join(format!("xdfs-reread-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let piece = 1 << 20;
        let content: Vec<u8> = (0..3 * piece + 5000).map(|at: usize| (at / 3 % 251) as u8).collect();
        for fault in [Fault::Lost, Fault::Flipped] {
            let store = FaultStore::new(
                std::sync::Arc::new(LocalStore::open_root(&folder, true).unwrap()),
                Plan::none().at(Call::Write, 2, fault),
            );
            let request = StageRequest {
                target: RelPath::parse(b"target").unwrap(),
                size: Some(content.len() as u64),
                existing: Existing::Replace,
                transfer: [fault.name().len() as u8; 16],
                resume: None,
            };
            let stage = store.stage(&request).unwrap();
            let (hashing, sent) = (Hashing::new(piece as u64, Vec::new()), Hashing::new(piece as u64, Vec::new()));
            let write = |index: usize| {
                let part = &content[index * piece..content.len().min((index + 1) * piece)];
                let offset = (index * piece) as u64;
                stage.write(part, offset).unwrap();
                hashing.add(leaf(part, offset).unwrap());
                sent.add(leaf(part, offset).unwrap());
            };
            (0..4).for_each(write);
            let length = content.len() as u64;
            let proof = sent.proof(length).unwrap();
            assert_eq!(hashing.compare(length, &proof).bad, [], "what arrived is right");
            let found = hashing.compare_stored(&stage, length, &proof).unwrap();
            assert_eq!(found.bad, [Extent::new(piece as u64, piece as u64).unwrap()], "{fault:?}");
            assert_eq!(found.place, Where::InStorage);
            hashing.forget(&found.bad);
            write(1);
            let found = hashing.compare_stored(&stage, length, &proof).unwrap();
            assert_eq!((found.bad, found.root), (vec![], Some(xdfs_secure::content::hash(&content))));
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
