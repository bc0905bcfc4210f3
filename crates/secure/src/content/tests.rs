//! The tree against the library's own hash, for every order, size and block that fit into a test.

use super::*;
use proptest::prelude::*;
use xdfs_proto::base::{Extent, Subtree};

/// Bytes that no two places have alike.
fn content(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(b"content").finalize_xof().fill(&mut bytes);
    bytes
}

/// The blocks of a transfer, in order.
fn blocks(bytes: &[u8], block: usize) -> Vec<Leaf> {
    let leaf = |(index, part): (usize, &[u8])| Leaf::of(part, (index * block) as u64).unwrap();
    bytes.chunks(block).enumerate().map(leaf).collect()
}

fn filled(bytes: &[u8], block: usize, limit: u64) -> Tree {
    let mut tree = Tree::new(limit);
    blocks(bytes, block).into_iter().for_each(|leaf| assert!(tree.add(leaf)));
    tree
}

fn extent(from: u64, to: u64) -> Extent {
    Extent::new(from, to - from).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_order_size_and_block_the_root_is_the_hash_of_the_bytes(
        length in prop_oneof![0usize..5000, (0usize..40).prop_map(|n| n * 1024), 0usize..300_000],
        power in 0u32..6,
        limit in 0u32..12,
        order in any::<u64>(),
        repeated in any::<bool>(),
    ) {
        let bytes = content(length);
        let mut leaves = blocks(&bytes, 1024 << power);
        if repeated {
            leaves.extend(leaves.clone());
        }
        let key = |index: usize| blake3::hash(&[order.to_be_bytes(), index.to_be_bytes()].concat()).as_bytes()[0];
        let mut indexed: Vec<_> = leaves.into_iter().enumerate().collect();
        indexed.sort_by_key(|(index, _)| key(*index));
        let mut tree = Tree::new(1024 << limit);
        let mut there = std::collections::BTreeSet::new();
        for (_, leaf) in indexed {
            prop_assert_eq!(tree.add(leaf), there.insert(leaf.extent().offset()), "a piece counts once");
        }
        prop_assert_eq!(tree.root(length as u64, &[]), Some(hash(&bytes)));
        prop_assert_eq!(tree.root(length as u64 + 1, &[]), None);
    }

    #[test]
    fn trees_of_other_blocks_and_bounds_agree_and_a_changed_byte_is_found(
        length in 1usize..200_000,
        (one, other) in (0u32..6, 0u32..6),
        (limit, other_limit) in (0u32..10, 0u32..10),
        at in any::<prop::sample::Index>(),
    ) {
        let bytes = content(length);
        let mine: Vec<_> = filled(&bytes, 1024 << one, 1024 << limit).subtrees().collect();
        let theirs: Vec<_> = filled(&bytes, 1024 << other, 1024 << other_limit).subtrees().collect();
        prop_assert_eq!(differences(&mine, &theirs), vec![]);
        let mut altered = bytes;
        let at = at.index(length);
        altered[at] ^= 1;
        let theirs: Vec<_> = filled(&altered, 1024 << other, 1024 << other_limit).subtrees().collect();
        let bad = differences(&mine, &theirs);
        prop_assert_eq!(bad.len(), 1);
        let piece = 1024u64 << one.max(other).max(limit).max(other_limit);
        prop_assert!(bad[0].offset() <= at as u64 && (at as u64) < bad[0].end());
        prop_assert!(bad[0].length() <= piece, "{} of {}", bad[0].length(), piece);
    }

    #[test]
    fn what_was_forgotten_and_hashed_again_gives_the_same_root(
        length in 1usize..100_000,
        from in 0u64..100_000,
        count in 0u64..50_000,
    ) {
        let bytes = content(length);
        let mut tree = filled(&bytes, 4096, 16 << 10);
        tree.forget(extent(from, from + count));
        for leaf in blocks(&bytes, 4096) {
            let missing = !tree.touches(leaf.extent());
            prop_assert_eq!(tree.add(leaf), missing);
        }
        prop_assert_eq!(tree.root(length as u64, &[]), Some(hash(&bytes)));
    }

    #[test]
    fn no_list_of_a_peer_makes_the_comparison_panic_and_only_equal_ones_agree(
        mine in prop::collection::vec((0u64..50, 1u64..50, any::<bool>()), 0..8),
        theirs in prop::collection::vec((0u64..50, 1u64..50, any::<bool>()), 0..8),
    ) {
        let list = |parts: &[(u64, u64, bool)]| {
            let mut at = 0;
            parts.iter().map(|(gap, length, value)| {
                let from = at + gap * 512;
                at = from + length * 512;
                Subtree { extent: extent(from, at), value: [u8::from(*value); 32] }
            }).collect::<Vec<_>>()
        };
        let (mine, theirs) = (list(&mine), list(&theirs));
        let bad = differences(&mine, &theirs);
        prop_assert!(bad.windows(2).all(|pair| pair[0].end() < pair[1].offset()));
        let bytes = |side: &[Subtree]| side.iter().map(|one| one.extent.length()).sum::<u64>();
        prop_assert!(!bad.is_empty() || bytes(&mine) == bytes(&theirs));
        prop_assert_eq!(differences(&mine, &mine), vec![]);
    }
}

#[test]
fn what_fits_no_tree_is_refused_and_does_not_panic() {
    let bytes = vec![0; 5000];
    for (offset, length) in
        [(1, 10), (512, 512), (1024, 1025), (2048, 2049), (0, 0), (3072, 4096), (u64::MAX - 1023, 1)]
    {
        let refused = Leaf::of(&bytes[..length], offset);
        assert_eq!(refused, Err(Misplaced { offset, length: length as u64 }));
    }
    assert!(Leaf::of(&bytes, 0).is_ok() && Leaf::of(&bytes[..2000], 2048).is_ok());
}

#[test]
fn a_tree_stays_as_small_as_its_gaps_and_its_bound_allow() {
    let bytes = content(1 << 20);
    assert_eq!(filled(&bytes, 1024, u64::MAX).len(), 1);
    assert_eq!(filled(&bytes, 1024, 64 << 10).len(), 16);
    let mut tree = Tree::new(u64::MAX);
    for leaf in blocks(&bytes, 64 << 10).into_iter().filter(|leaf| leaf.extent().offset() != 0) {
        tree.add(leaf);
    }
    // 1 + 2 + 4 + 8 of sixteen.
    assert_eq!(tree.len(), 4);
    assert_eq!(tree.root(1 << 20, &[]), None);
}

#[test]
fn adopted_subtrees_and_those_beside_the_tree_make_the_root_complete() {
    let bytes = content(300_000);
    let all: Vec<_> = filled(&bytes, 1024, 32 << 10).subtrees().collect();
    let (kept, new) = all.split_at(4);
    let mut tree = Tree::new(32 << 10);
    new.iter().for_each(|one| assert!(tree.adopt(*one)));
    assert_eq!(tree.root(300_000, &[]), None);
    assert_eq!(tree.root(300_000, kept), Some(hash(&bytes)));
    kept.iter().for_each(|one| assert!(tree.adopt(*one)));
    assert_eq!(tree.root(300_000, &[]), Some(hash(&bytes)));
    assert!(!tree.adopt(kept[0]));
    // A root cannot be made of the value of everything: that is another number.
    let one: Vec<_> = filled(&bytes[..65536], 1024, u64::MAX).subtrees().collect();
    let mut alone = Tree::new(u64::MAX);
    alone.adopt(one[0]);
    assert_eq!(alone.root(65536, &[]), None);
}

#[test]
fn the_published_vectors_come_out() {
    assert_eq!(hexadecimal(&hash(b"")), "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
    let pattern: Vec<u8> = (0..102_400u32).map(|index| (index % 251) as u8).collect();
    for (length, expected) in [
        (1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"),
        (1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"),
        (1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"),
        (102_400, "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085"),
    ] {
        assert_eq!(hexadecimal(&hash(&pattern[..length])), expected);
        let tree = filled(&pattern[..length], 1024, 4096);
        assert_eq!(tree.root(length as u64, &[]), Some(hash(&pattern[..length])));
    }
}
