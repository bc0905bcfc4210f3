//! Transfers that resume an earlier attempt: bytes that are present are not sent, whatever the
//! block size of that attempt.

use super::pair::{BLOCK, CLIENT, Pair, SERVER, Step, request};
use crate::base::{Extent, OperationId};
use crate::limits;
use crate::wire::request::{Request, Resume};
use alloc::vec::Vec;

impl Pair {
    /// An upload or a download that may resume an earlier one; all have version 5 of the source.
    fn resumed(&mut self, upload: bool, length: u64, kept: &[(u64, u64)]) -> OperationId {
        self.resumed_from(5, upload, length, kept)
    }

    /// As above, with the ranges that were kept from this version of the source.
    fn resumed_from(&mut self, version: u8, upload: bool, length: u64, kept: &[(u64, u64)]) -> OperationId {
        self.kept = kept.iter().map(|(offset, length)| Extent::new(*offset, *length).unwrap()).collect();
        self.source = Some(length);
        let said = if upload { Vec::new() } else { self.kept.clone() };
        let resume = Some(Resume { source: alloc::vec![version], kept: said });
        let (length, hash) = (Some(length), self.hash);
        self.client().open(upload, Request { length, resume, hash, credit: 2 * BLOCK, ..request() }).unwrap()
    }
}

/// The ranges sent and written, in order of offset.
fn moved(pair: &mut Pair, upload: bool, id: crate::base::OperationId) -> Vec<(u64, u64)> {
    let side = if upload { SERVER } else { CLIENT };
    let mut written: Vec<_> =
        pair.story(side, id).written.iter().map(|extent| (extent.offset(), extent.length())).collect();
    written.sort_unstable();
    written
}

#[test]
fn only_what_is_missing_moves_in_both_directions() {
    let length = 10 * BLOCK + 7;
    for (kept, missing) in [
        (&[(0, 4 * BLOCK)][..], (4..11).collect::<Vec<u64>>()),
        (&[(BLOCK, BLOCK), (5 * BLOCK, 5 * BLOCK + 7)], alloc::vec![0, 2, 3, 4]),
        // Not whole blocks: the halves are sent again.
        (&[(BLOCK / 2, 2 * BLOCK), (9 * BLOCK, BLOCK + 6)], alloc::vec![0, 2, 3, 4, 5, 6, 7, 8, 10]),
        (&[(0, 10 * BLOCK + 7)], Vec::new()),
        (&[], (0..11).collect()),
    ] {
        for (channels, pipelines) in [(1, 1), (3, 1), (4, 2), (3, 3)] {
            for upload in [true, false] {
                let mut pair = Pair::new(channels, pipelines);
                let id = pair.resumed(upload, length, kept);
                pair.run();
                let offsets: Vec<_> = moved(&mut pair, upload, id).into_iter().map(|(from, _)| from / BLOCK).collect();
                assert_eq!(offsets, missing, "{kept:?}, {channels} channels, {pipelines} pipelines, upload {upload}");
                let side = if upload { SERVER } else { CLIENT };
                assert_eq!(pair.story(side, id).committed, Some(length));
                assert!(pair.story(1 - side, id).outcome.as_ref().unwrap().is_ok());
                pair.assert_closes();
            }
        }
    }
}

#[test]
fn nothing_is_joined_with_another_version_of_the_source() {
    let mut pair = Pair::new(2, 1);
    let id = pair.resumed(false, 3 * BLOCK, &[(0, 2 * BLOCK)]);
    let other = pair.resumed_from(6, false, 3 * BLOCK, &[(0, 2 * BLOCK)]);
    pair.run();
    assert_eq!(moved(&mut pair, false, id).len(), 1);
    assert_eq!(moved(&mut pair, false, other).len(), 3);
    assert_eq!(pair.story(CLIENT, other).grant.as_ref().unwrap().kept, Vec::<Extent>::new());
}

#[test]
fn a_copy_counts_where_it_is_compared_and_both_sides_know_it() {
    for (hash, missing) in [(false, 3), (true, 1)] {
        let mut pair = Pair::new(2, 1);
        (pair.hash, pair.resembles) = (hash, true);
        let id = pair.resumed_from(6, false, 3 * BLOCK, &[(0, 2 * BLOCK)]);
        pair.run();
        assert_eq!(moved(&mut pair, false, id).len(), missing, "hash {hash}");
        assert_eq!(pair.story(CLIENT, id).grant.as_ref().unwrap().unverified, hash, "the server hashes it all");
    }
}

#[test]
fn a_transfer_with_a_hash_goes_on_with_the_longest_ranges_only() {
    // More gaps than FINISH has room for: every other block, one of them twice as long.
    let every = (0..40).filter(|index| *index != 31);
    let kept: Vec<_> = every.map(|index| (2 * index * BLOCK, if index == 30 { 2 * BLOCK } else { BLOCK })).collect();
    for (hash, most) in [(true, limits::KEPT_HASHED_MAX), (false, 39)] {
        for upload in [true, false] {
            let mut pair = Pair::new(1, 1);
            pair.hash = hash;
            let id = pair.resumed(upload, 90 * BLOCK, &kept);
            pair.run();
            let kept = &pair.story(CLIENT, id).grant.as_ref().unwrap().kept;
            assert_eq!(kept.len(), most, "upload {upload}");
            assert!(kept.iter().any(|range| range.offset() == 60 * BLOCK), "the longest is among them");
            assert_eq!(pair.story(if upload { SERVER } else { CLIENT }, id).committed, Some(90 * BLOCK));
        }
    }
}

#[test]
fn an_upload_that_does_not_ask_for_it_is_never_joined() {
    let mut pair = Pair::new(2, 1);
    pair.kept = alloc::vec![Extent::new(0, 2 * BLOCK).unwrap()];
    let id = pair.upload(Some(3 * BLOCK));
    pair.run();
    pair.assert_moved(id, true, 3 * BLOCK);
}

#[test]
fn what_has_gone_since_it_was_told_is_no_hole_in_the_target() {
    let mut pair = Pair::new(2, 1);
    pair.hold(CLIENT, Step::Stage);
    let id = pair.resumed(false, 3 * BLOCK, &[(0, 2 * BLOCK)]);
    pair.turn();
    pair.kept = Vec::new();
    pair.release(CLIENT, Step::Stage);
    pair.run();
    assert_eq!(pair.story(CLIENT, id).committed, None);
    assert!(pair.story(CLIENT, id).outcome.as_ref().unwrap().is_err());
    pair.assert_closes();
}
