//! Content that is compared before it is committed, and which parts are sent again.

use super::pair::{BLOCK, CLIENT, Pair, SERVER, Step};
use crate::base::{ChannelId, Error, ErrorKind, Extent};
use crate::limits;
use crate::session::{Comparison, ContentDigest, Mismatch};
use crate::wire::Event;
use alloc::vec;
use alloc::vec::Vec;

fn extent(from: u64, to: u64) -> Extent {
    Extent::new(from, to - from).unwrap()
}

fn differing(ranges: &[(u64, u64)]) -> Comparison {
    let bad = ranges.iter().map(|(from, to)| extent(*from, *to)).collect();
    Comparison { bad, root: Some([1; 32]), place: Mismatch::OnTheWay }
}

fn hashing(channels: u16, pipelines: u8) -> Pair {
    let mut pair = Pair::new(channels, pipelines);
    pair.hash = true;
    pair
}

#[test]
fn what_differs_comes_again_in_whole_blocks_and_is_committed_once() {
    for upload in [true, false] {
        for pipelines in [1, 2] {
            let mut pair = hashing(4, pipelines);
            pair.found.push_back(differing(&[(BLOCK + 5, BLOCK + 6), (6 * BLOCK, 7 * BLOCK + 9)]));
            let length = 7 * BLOCK + 9;
            let id = if upload { pair.upload(Some(length)) } else { pair.download(length) };
            pair.run();
            let target = if upload { SERVER } else { CLIENT };
            pair.assert_moved(id, upload, length);
            assert_eq!(pair.blocks, 8 + 3);
            let again = vec![vec![extent(BLOCK, 2 * BLOCK), extent(6 * BLOCK, length)]];
            for side in [CLIENT, SERVER] {
                assert_eq!(pair.story(side, id).again, again, "both ends forget what they had hashed");
            }
            assert_eq!(pair.sent[&Event::Again], 1);
            assert_eq!(pair.sent[&Event::Finish], 2);
            let root = pair.story(target, id).outcome.clone().unwrap().unwrap().root;
            assert_eq!(pair.story(1 - target, id).outcome.clone().unwrap().unwrap().root, root);
            pair.assert_closes();
        }
    }
}

#[test]
fn nothing_is_committed_before_it_was_compared() {
    let mut pair = hashing(2, 1);
    pair.hold(SERVER, Step::Verify);
    let id = pair.upload(Some(3 * BLOCK));
    pair.turn();
    assert_eq!(pair.story(SERVER, id).committed, None);
    pair.release(SERVER, Step::Verify);
    pair.turn();
    pair.assert_moved(id, true, 3 * BLOCK);
}

#[test]
fn content_that_stays_different_fails_after_three_tries_with_its_place() {
    for place in [Mismatch::OnTheWay, Mismatch::InStorage] {
        let mut pair = hashing(2, 1);
        let found = Comparison { place, ..differing(&[(BLOCK, 2 * BLOCK)]) };
        pair.found.extend(vec![found; 4]);
        let id = pair.upload(Some(3 * BLOCK));
        pair.run();
        pair.assert_failed(id, [ErrorKind::Corrupted; 2]);
        assert_eq!(pair.story(SERVER, id).committed, None);
        assert!(pair.story(SERVER, id).aborted);
        assert_eq!(pair.story(SERVER, id).again.len(), usize::from(limits::AGAIN_MAX));
        let error = pair.story(CLIENT, id).outcome.clone().unwrap().unwrap_err();
        assert!(error.message.contains("bytes 65536..131072"), "{error}");
        assert_eq!(error.message.contains("storage"), place == Mismatch::InStorage, "{error}");
        pair.assert_closes();
    }
}

#[test]
fn a_root_that_differs_without_a_place_brings_everything_again() {
    let mut pair = hashing(1, 1);
    pair.found.push_back(Comparison { root: Some([2; 32]), ..Comparison::default() });
    pair.found.push_back(Comparison { root: Some([3; 32]), ..Comparison::default() });
    pair.hold(CLIENT, Step::Check);
    let id = pair.upload(Some(2 * BLOCK));
    pair.turn();
    for _ in 0..2 {
        pair.client().set_digest(id, ContentDigest { root: Some([3; 32]), subtrees: Vec::new() });
        pair.release(CLIENT, Step::Check);
        pair.turn();
    }
    pair.run();
    pair.assert_moved(id, true, 2 * BLOCK);
    assert_eq!(pair.story(CLIENT, id).again, [[extent(0, 2 * BLOCK)]]);
    assert_eq!(pair.story(CLIENT, id).outcome.clone().unwrap().unwrap().root, Some([3; 32]));
}

#[test]
fn a_stream_cannot_be_sent_again_and_fails_at_once() {
    let mut pair = hashing(2, 1);
    pair.found.push_back(differing(&[(0, 5)]));
    let id = pair.upload(None);
    pair.turn();
    pair.client().on_source(id, 9, true);
    pair.run();
    pair.assert_failed(id, [ErrorKind::Corrupted; 2]);
    pair.assert_closes();
}

#[test]
fn a_source_that_changed_ends_the_repetition() {
    let mut pair = hashing(2, 1);
    pair.found.push_back(differing(&[(0, 5)]));
    let id = pair.upload(Some(BLOCK));
    pair.hold(CLIENT, Step::Check);
    pair.turn();
    pair.release(CLIENT, Step::Check);
    pair.refuse(CLIENT, Step::Check);
    pair.run();
    pair.assert_failed(id, [ErrorKind::NoSpace; 2]);
    assert_eq!(pair.story(SERVER, id).committed, None);
    pair.assert_closes();
}

#[test]
fn messages_of_a_round_that_is_over_change_nothing() {
    // FINISH and AGAIN are sent again when a channel that may have carried them is lost; old ones
    // arrive late.
    for cut in 1..=2 {
        let mut pair = hashing(2, 1);
        pair.found.push_back(differing(&[(0, BLOCK)]));
        pair.hold(SERVER, Step::Write);
        let id = pair.upload(Some(3 * BLOCK));
        pair.turn();
        pair.release(SERVER, Step::Write);
        pair.hold(SERVER, Step::Write);
        pair.turn();
        pair.cut(ChannelId(cut));
        pair.turn();
        pair.release(SERVER, Step::Write);
        pair.run();
        pair.assert_moved(id, true, 3 * BLOCK);
        pair.assert_closes();
    }
}

#[test]
fn a_comparison_that_cannot_be_made_fails_the_transfer() {
    let mut pair = hashing(1, 1);
    pair.refuse(SERVER, Step::Verify);
    let id = pair.upload(Some(BLOCK));
    pair.run();
    pair.assert_failed(id, [ErrorKind::NoSpace; 2]);
    assert!(pair.story(SERVER, id).aborted);
    pair.assert_closes();
}

#[test]
fn a_failure_while_content_is_compared_leaves_the_target_alone() {
    let mut pair = hashing(1, 1);
    pair.hold(SERVER, Step::Verify);
    let id = pair.upload(Some(BLOCK));
    pair.turn();
    pair.client().fail(id, Error::new(ErrorKind::Cancelled, "no more"));
    pair.turn();
    pair.release(SERVER, Step::Verify);
    pair.run();
    pair.assert_failed(id, [ErrorKind::Cancelled; 2]);
    assert_eq!(pair.story(SERVER, id).committed, None);
    pair.assert_closes();
}
