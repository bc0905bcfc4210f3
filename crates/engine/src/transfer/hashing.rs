//! The hashes of one operation on one side: what was hashed so far, shared by the pipelines that move it, and what this side is
//! to do about them (design rules 5 and 7).
//!
//! A block is hashed where its bytes pass: from the buffer that is sent, or that arrived. Where the kernel moves them, a thread
//! beside the pipeline's hashes the page cache ([`super::beside`]).

use super::beside::Beside;
use std::sync::{Mutex, MutexGuard, PoisonError};
use xdfs_proto::base::{Error, ErrorKind, Extent, PipelineId, Subtree};
use xdfs_proto::session::{Comparison, GroupMessage, Proof, Where};
use xdfs_proto::{limits, plan};
use xdfs_secure::content::{Leaf, Tree, differences};
use xdfs_xio::buf::Buffer;
use xdfs_xio::store::{Hashes, Noted, Stage};

/// Subtrees that a transfer is told apart by, at most: a fault costs so small a share of it, or [`PIECE_BYTES_MIN`].
const PIECES: u64 = 512;
/// The smallest piece that is told apart.
const PIECE_BYTES_MIN: u64 = 1 << 20;
/// Bytes that are read back at a time: a multiple of every page, and small enough to stay in the core's cache.
pub(super) const BACK_BYTES: usize = 256 << 10;

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
    state: Mutex<State>,
    piece: u64,
    /// Receiving: what is there from an earlier attempt.
    granted: Vec<Extent>,
    /// What arrived is what was sent: whoever goes on after this attempt need not compare it again.
    proved: bool,
}

#[derive(Debug)]
struct State {
    /// What both sides hash.
    tree: Tree,
    /// What an earlier attempt hashed and nobody hashes again.
    kept: Vec<Subtree>,
}

impl Hashing {
    /// Nothing is hashed yet.
    pub fn new(piece: u64) -> Self {
        let state = State { tree: Tree::new(piece), kept: Vec::new() };
        Self { state: Mutex::new(state), piece, granted: Vec::new(), proved: false }
    }

    /// The same at the receiver, where `granted` is there from an earlier attempt that noted `kept`. In `doubt` the sender hashes
    /// that, too, and it is compared. At levels that are `protected` what arrives is what was sent.
    pub fn receiving(
        mut self,
        kept: &[Noted],
        granted: &[Extent],
        doubt: bool,
        protected: bool,
        length: Option<u64>,
    ) -> Self {
        let State { tree, kept: known } = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let counts = |extent: Extent| granted.iter().any(|range| range.contains(extent));
        // The root of a transfer cannot be made of the value of all of it.
        let whole = |extent: Extent| extent.offset() == 0 && Some(extent.length()) == length;
        for one in kept.iter().filter(|one| counts(one.extent) && !whole(one.extent)) {
            match one.subtree() {
                Some(subtree) if doubt => drop(tree.adopt(subtree)),
                Some(subtree) if one.proved => known.push(subtree),
                _ => {}
            }
        }
        self.granted = granted.to_vec();
        self.proved = protected && !doubt && self.unread(granted).is_empty();
        self
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether some of it was hashed.
    pub fn touches(&self, extent: Extent) -> bool {
        self.lock().tree.touches(extent)
    }

    /// A piece was hashed; where it arrived, it is written, too.
    pub fn add(&self, leaf: Leaf) {
        self.lock().tree.add(leaf);
    }

    /// The parts of `kept`, which is there, that nobody has hashed yet.
    pub fn unread(&self, kept: &[Extent]) -> Vec<Extent> {
        self.lock().unread(kept)
    }

    /// These ranges come again.
    pub fn forget(&self, ranges: &[Extent]) {
        let mut state = self.lock();
        for range in ranges {
            state.tree.forget(*range);
            state.kept.retain(|one| one.extent.intersection(*range).is_none());
        }
    }

    /// What differs from what was sent is not told of any more; where nobody knows what that is, nothing.
    pub fn forget_differing(&self, found: &Comparison, length: u64) {
        let whole: Vec<Extent> = Extent::new(0, length).into_iter().collect();
        self.forget(if found.bad.is_empty() { &whole } else { &found.bad });
    }

    /// What the sender can say. `length` is that of the transfer.
    pub fn proof(&self, length: u64) -> Result<Proof, Error> {
        let state = self.lock();
        let root = state.tree.root(length, &state.kept);
        if state.tree.len() <= limits::SUBTREES_MAX {
            return Ok(Proof { root, subtrees: state.tree.subtrees().collect() });
        }
        // Only with gaps by the hundred: then the root alone has to do.
        let many = || Error::new(ErrorKind::LimitExceeded, "the parts of an earlier attempt are too many to be hashed");
        root.map(|root| Proof { root: Some(root), subtrees: Vec::new() }).ok_or_else(many)
    }

    /// What arrived against what was sent.
    pub fn compare(&self, length: u64, sent: &Proof) -> Comparison {
        let state = self.lock();
        let root = state.tree.root(length, &state.kept);
        if sent.subtrees.is_empty() && sent.root.is_some() {
            return Comparison { root, ..Comparison::default() };
        }
        let mine: Vec<Subtree> = state.tree.subtrees().collect();
        Comparison { root, bad: differences(&mine, &sent.subtrees), place: Where::OnTheWay }
    }

    /// What storage gives back against what arrived. May take long.
    pub fn compare_stored(&self, stage: &Stage, length: u64) -> Result<Comparison, Error> {
        let stored = self.read_back(stage, length)?;
        let found: Vec<Subtree> = stored.subtrees().collect();
        let bad = differences(&found, &self.lock().subtrees());
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

impl State {
    /// Everything that was hashed, ascending.
    fn subtrees(&self) -> Vec<Subtree> {
        let mut all: Vec<Subtree> = self.tree.subtrees().chain(self.kept.iter().copied()).collect();
        all.sort_unstable();
        all
    }

    fn unread(&self, kept: &[Extent]) -> Vec<Extent> {
        let known: Vec<Extent> = self.subtrees().iter().map(|one| one.extent).collect();
        kept.iter().flat_map(|range| between(&plan::within(&known, *range), *range)).collect()
    }
}

impl Hashes for Hashing {
    fn noted(&self) -> Vec<Noted> {
        let state = self.lock();
        let hashed = |one: Subtree, proved| Noted { extent: one.extent, value: Some(one.value), proved };
        let mut all: Vec<Noted> = state.kept.iter().map(|one| hashed(*one, true)).collect();
        all.extend(state.tree.subtrees().map(|one| hashed(one, self.proved)));
        // It is still there, and still to be read.
        let unread = state.unread(&self.granted).into_iter();
        all.extend(unread.map(|extent| Noted { extent, value: None, proved: false }));
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
        let hashing = Hashing::new(1 << 20);
        hashing.add(leaf(&[1; 4096], 0).unwrap());
        let sent = Hashing::new(1 << 20);
        sent.add(leaf(&[2; 4096], 0).unwrap());
        let found = hashing.compare(4096, &sent.proof(4096).unwrap());
        assert_eq!(found.bad, [block]);
        hashing.forget(&found.bad);
        assert!(!hashing.touches(block));
        hashing.add(leaf(&[2; 4096], 0).unwrap());
        let found = hashing.compare(4096, &sent.proof(4096).unwrap());
        assert_eq!((found.bad, found.root), (vec![], Some(xdfs_secure::content::hash(&[2; 4096]))));
    }

    /// Four pieces, all different, and the proof of whoever sends the last two of them, or hashes all.
    fn four(all: bool) -> (Vec<u8>, Proof) {
        let content: Vec<u8> = (0..4 << 20).map(|at: usize| (at / 1000 % 251) as u8).collect();
        let sent = Hashing::new(1 << 20);
        for piece in pieces(Extent::new(0, 4 << 20).unwrap()).filter(|piece| all || piece.offset() >= 2 << 20) {
            sent.add(leaf(&content[piece.offset() as usize..piece.end() as usize], piece.offset()).unwrap());
        }
        (content, sent.proof(4 << 20).unwrap())
    }

    /// What an attempt noted of the first two pieces.
    fn noted(content: &[u8], proved: bool) -> Vec<Noted> {
        let earlier = Hashing::new(1 << 20);
        for piece in pieces(Extent::new(0, 2 << 20).unwrap()) {
            earlier.add(leaf(&content[piece.offset() as usize..piece.end() as usize], piece.offset()).unwrap());
        }
        earlier.noted().into_iter().map(|one| Noted { proved, ..one }).collect()
    }

    fn arrive(hashing: &Hashing, content: &[u8], from: usize) {
        for piece in pieces(Extent::new(from as u64, content.len() as u64 - from as u64).unwrap()) {
            hashing.add(leaf(&content[piece.offset() as usize..piece.end() as usize], piece.offset()).unwrap());
        }
    }

    #[test]
    fn what_is_known_and_proved_is_hashed_by_nobody_and_the_root_is_that_of_all() {
        let (content, sent) = four(false);
        let granted = [Extent::new(0, 2 << 20).unwrap()];
        let hashing = Hashing::new(1 << 20).receiving(&noted(&content, true), &granted, false, true, Some(4 << 20));
        assert_eq!(hashing.unread(&granted), []);
        arrive(&hashing, &content, 2 << 20);
        let found = hashing.compare(4 << 20, &sent);
        assert_eq!((found.agrees_with(&sent), found.root), (true, Some(xdfs_secure::content::hash(&content))));
        let told = hashing.noted();
        assert!(told.len() == 4 && told.iter().all(|one| one.proved && one.value.is_some()), "{told:?}");
    }

    #[test]
    fn what_is_in_doubt_is_compared_and_what_nobody_hashed_is_read() {
        let (content, sent) = four(true);
        let granted = [Extent::new(0, 2 << 20).unwrap()];
        let mut known = noted(&content, false);
        known[1].value = None;
        let hashing = Hashing::new(1 << 20).receiving(&known, &granted, true, true, Some(4 << 20));
        assert_eq!(hashing.unread(&granted), [known[1].extent]);
        let told = hashing.noted();
        assert_eq!(told, known, "until it was read nothing more is known of it");
        let mut there = content.clone();
        there[(1 << 20) + 5] ^= 1;
        arrive(&hashing, &there, 1 << 20);
        let found = hashing.compare(4 << 20, &sent);
        assert_eq!(found.bad, [known[1].extent]);
        assert!(hashing.noted().iter().all(|one| !one.proved), "nothing counts without a comparison");
        hashing.forget_differing(&found, 4 << 20);
        assert_eq!(hashing.unread(&granted), [known[1].extent], "the journal does not tell of it what was wrong");
        // Another value than the source's is found although nobody read the bytes.
        known[0].value = Some([1; 32]);
        let hashing = Hashing::new(1 << 20).receiving(&known, &granted, true, true, Some(4 << 20));
        arrive(&hashing, &content, 1 << 20);
        assert_eq!(hashing.compare(4 << 20, &sent).bad, [known[0].extent]);
    }

    #[test]
    fn what_arrived_at_clear_or_is_all_of_a_transfer_has_to_be_looked_at() {
        let (content, _) = four(true);
        let granted = [Extent::new(0, 2 << 20).unwrap()];
        let hashing = Hashing::new(1 << 20).receiving(&noted(&content, true), &granted, false, false, Some(4 << 20));
        arrive(&hashing, &content, 2 << 20);
        let proved: Vec<_> = hashing.noted().iter().map(|one| one.proved).collect();
        assert_eq!(proved, [true, true, false, false]);
        let one = Hashing::new(1 << 20);
        one.add(leaf(&content[..1000], 0).unwrap());
        let all = [Extent::new(0, 1000).unwrap()];
        let hashing = Hashing::new(1 << 20).receiving(&one.noted(), &all, false, true, Some(1000));
        assert_eq!(hashing.unread(&all), all, "a root is no chaining value");
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
                base: None,
                holes: false,
            };
            let stage = store.stage(&request).unwrap();
            let (hashing, sent) = (Hashing::new(piece as u64), Hashing::new(piece as u64));
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
            let found = hashing.compare_stored(&stage, length).unwrap();
            assert_eq!(found.bad, [Extent::new(piece as u64, piece as u64).unwrap()], "{fault:?}");
            assert_eq!(found.place, Where::InStorage);
            hashing.forget(&found.bad);
            write(1);
            let found = hashing.compare_stored(&stage, length).unwrap();
            assert_eq!((found.bad, found.root), (vec![], Some(xdfs_secure::content::hash(&content))));
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
