//! Tests of what is hashed, sent and compared, on either side.

use super::*;
use crate::blocking::Slice;
use crate::transfer::stored::StoredCheck;
use std::sync::Arc;
use std::task::Poll;

#[test]
fn pieces_cover_the_range_and_each_fits_a_tree() {
    for (from, length) in
        [(0, 0), (0, 1), (0, 1 << 20), (65_536, 1_000_000), (3 << 16, 5 << 16), (1 << 20, 77), (5 << 18, 3 << 18)]
    {
        let range = Extent::new(from, length).unwrap();
        let bytes = vec![1; BACK_BYTES];
        let mut at = from;
        for piece in Pieces::of(range) {
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

/// Four pieces, all different, and the digest of a sender that sends the last two of them, or
/// hashes all.
fn four(all: bool) -> (Vec<u8>, ContentDigest) {
    let content: Vec<u8> = (0..4 << 20).map(|at: usize| (at / 1000 % 251) as u8).collect();
    let sent = Hashing::new(1 << 20);
    for piece in Pieces::of(Extent::new(0, 4 << 20).unwrap()).filter(|piece| all || piece.offset() >= 2 << 20) {
        sent.add(leaf(&content[piece.offset() as usize..piece.end() as usize], piece.offset()).unwrap());
    }
    (content, sent.proof(4 << 20).unwrap())
}

/// What an attempt recorded of the first two pieces.
fn noted(content: &[u8], proved: bool) -> Vec<StoredRange> {
    let earlier = Hashing::new(1 << 20);
    for piece in Pieces::of(Extent::new(0, 2 << 20).unwrap()) {
        earlier.add(leaf(&content[piece.offset() as usize..piece.end() as usize], piece.offset()).unwrap());
    }
    earlier.noted().into_iter().map(|one| StoredRange { proved, ..one }).collect()
}

fn arrive(hashing: &Hashing, content: &[u8], from: usize) {
    for piece in Pieces::of(Extent::new(from as u64, content.len() as u64 - from as u64).unwrap()) {
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
    // A value that differs from the source's is found although the bytes were not read.
    known[0].value = Some([1; 32]);
    let hashing = Hashing::new(1 << 20).receiving(&known, &granted, true, true, Some(4 << 20));
    arrive(&hashing, &content, 1 << 20);
    assert_eq!(hashing.compare(4 << 20, &sent).bad, [known[0].extent]);
}

#[test]
fn what_a_receiver_claims_is_hashed_for_the_root_alone_and_again_around_what_comes_again() {
    let (content, _) = four(true);
    let extent = |from: u64, to: u64| Extent::new(from << 20, (to - from) << 20).unwrap();
    let hashing = Hashing::new(1 << 20).sending(&[extent(0, 2)]);
    let piece = |at: usize| leaf(&content[at << 20..(at + 1) << 20], (at as u64) << 20).unwrap();
    (0..2).for_each(|at| hashing.add_read(piece(at)));
    (2..4).for_each(|at| hashing.add(piece(at)));
    let root = Some(xdfs_secure::content::hash(&content));
    let told = |proof: ContentDigest| (proof.root, proof.subtrees.iter().map(|one| one.extent).collect::<Vec<_>>());
    assert_eq!(told(hashing.proof(4 << 20).unwrap()), (root, vec![extent(2, 3), extent(3, 4)]));
    assert_eq!(hashing.unread_claims(&[]), []);
    // Half of a piece is sent again: its other half has to be read once more.
    let (half, other) = (Extent::new(0, 1 << 19).unwrap(), Extent::new(1 << 19, 1 << 19).unwrap());
    hashing.forget(&[half]);
    assert_eq!(hashing.unread_claims(&[half]), [other]);
    hashing.add(leaf(&content[..1 << 19], 0).unwrap());
    hashing.add_read(leaf(&content[1 << 19..1 << 20], 1 << 19).unwrap());
    let expected = (root, vec![half, extent(2, 3), extent(3, 4)]);
    assert_eq!(told(hashing.proof(4 << 20).unwrap()), expected);
}

#[test]
fn what_is_told_blinded_is_compared_and_shows_nobody_a_value() {
    let (content, _) = four(true);
    // The kept range ends in the middle of a piece, where both sides resume.
    let kept = [Extent::new(0, 5 << 19).unwrap()];
    let (at, end) = (kept[0].length() as usize, content.len());
    let add = |hashing: &Hashing, content: &[u8], from: usize, to: usize, read: bool| {
        for piece in Pieces::of(Extent::new(from as u64, (to - from) as u64).unwrap()) {
            let leaf = leaf(&content[piece.offset() as usize..piece.end() as usize], piece.offset()).unwrap();
            if read { hashing.add_read(leaf) } else { hashing.add(leaf) }
        }
    };
    let sending = Hashing::new(1 << 20).blinding().sending(&kept);
    add(&sending, &content, 0, at, true);
    add(&sending, &content, at, end, false);
    let proof = sending.proof(4 << 20).unwrap();
    let plain = Hashing::new(1 << 20);
    add(&plain, &content, 0, at, false);
    let values: Vec<_> = plain.proof(4 << 20).unwrap().subtrees;
    assert!(proof.subtrees.iter().all(|one| values.iter().all(|plain| plain.value != one.value)));
    // The content of FINISH: the root is not sent.
    let sent = ContentDigest { root: None, ..proof.clone() };
    let mut there = content.clone();
    for (flipped, bad) in [(None, vec![]), (Some(1 << 20), vec![Extent::new(1 << 20, 1 << 20).unwrap()])] {
        if let Some(flipped) = flipped {
            there[flipped] ^= 1;
        }
        // One value is known, another one only of more than a piece: the latter is read.
        let known = [
            StoredRange { proved: false, ..noted(&there, false)[0] },
            StoredRange { extent: Extent::new(1 << 20, 3 << 19).unwrap(), value: Some([7; 32]), proved: false },
        ];
        let receiving = Hashing::new(1 << 20).blinding().receiving(&known, &kept, true, true, Some(4 << 20));
        assert_eq!(receiving.unread(&kept), [Extent::new(1 << 20, 3 << 19).unwrap()]);
        add(&receiving, &there, 1 << 20, at, true);
        add(&receiving, &there, at, end, false);
        let found = receiving.compare(4 << 20, &sent);
        assert_eq!(found.bad, bad);
        assert_eq!(found.root == proof.root, flipped.is_none());
        assert_eq!(receiving.unread(&kept), []);
        let noted: u64 = receiving.noted().iter().map(|one| one.extent.length()).sum();
        assert_eq!(noted, 4 << 20, "the journal tells of all");
        // What differs is sent again, unblinded.
        receiving.forget(&found.bad);
        let again = Hashing::new(1 << 20).blinding().sending(&kept);
        add(&again, &content, 0, at, true);
        add(&again, &content, at, end, false);
        again.forget(&found.bad);
        for range in &found.bad {
            add(&again, &content, range.offset() as usize, range.end() as usize, false);
            add(&receiving, &content, range.offset() as usize, range.end() as usize, false);
        }
        let proof = again.proof(4 << 20).unwrap();
        let sent = ContentDigest { root: None, ..proof.clone() };
        let found = receiving.compare(4 << 20, &sent);
        assert_eq!((found.bad, found.root), (vec![], proof.root));
    }
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
    use xdfs_io::store::fault::{Call, Fault, Plan};
    use xdfs_io::store::{Existing, FaultStore, LocalStore, StageRequest, Store};
    use xdfs_proto::base::{RelPath, TransferId};
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let piece = 1 << 20;
    let content: Vec<u8> = (0..3 * piece + 5000).map(|at: usize| (at / 3 % 251) as u8).collect();
    for fault in [Fault::Lost, Fault::Flipped] {
        let store = FaultStore::new(
            Arc::new(LocalStore::open_root(folder, true).unwrap()),
            Plan::none().at(Call::Write, 2, fault),
        );
        let request = StageRequest {
            target: RelPath::parse(b"target").unwrap(),
            size: Some(content.len() as u64),
            existing: Existing::Replace,
            transfer: TransferId([fault.name().len() as u8; 16]),
            resume: None,
            base: None,
            holes: false,
        };
        let stage = Arc::new(store.stage(&request).unwrap());
        let (hashing, sent) = (Arc::new(Hashing::new(piece as u64)), Hashing::new(piece as u64));
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
        let stored = || {
            let mut check = StoredCheck::new(Arc::clone(&hashing), Arc::clone(&stage), length);
            loop {
                if let Poll::Ready(found) = check.advance(&Slice::start()).unwrap() {
                    return found;
                }
            }
        };
        let found = stored();
        assert_eq!(found.bad, [Extent::new(piece as u64, piece as u64).unwrap()], "{fault:?}");
        assert_eq!(found.place, Mismatch::InStorage);
        hashing.forget(&found.bad);
        write(1);
        let found = stored();
        assert_eq!((found.bad, found.root), (vec![], Some(xdfs_secure::content::hash(&content))));
    }
}

#[test]
fn a_range_that_ends_within_the_transfer_is_cut_into_subtrees() {
    // The last 192 KiB are no subtree where more follows.
    let content: Vec<u8> = (0..4_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let kept = Extent::new(0, (2 << 20) + (192 << 10)).unwrap();
    let sent = Extent::new(kept.end(), content.len() as u64 - kept.end()).unwrap();
    let mut tree = Tree::new(1 << 20);
    for piece in Pieces::of(kept).chain(Pieces::of(sent)) {
        let bytes = &content[piece.offset() as usize..piece.end() as usize];
        assert!(tree.add(leaf(bytes, piece.offset()).unwrap()));
    }
    assert_eq!(tree.root(content.len() as u64, &[]), Some(xdfs_secure::content::hash(&content)));
}
