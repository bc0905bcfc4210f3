//! Transfers that succeed, and the orderly end.

use super::pair::{BLOCK, CLIENT, Pair, SERVER, Step};
use crate::wire::Event;
use crate::wire::request::Request;

#[test]
fn uploads_and_downloads_of_every_length_arrive_whole() {
    for channels in [1, 3] {
        for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 10 * BLOCK, 10 * BLOCK + 7] {
            let mut pair = Pair::new(channels, 1);
            let up = pair.upload(Some(length));
            pair.run();
            pair.assert_moved(up, true, length);
            let down = pair.download(length);
            pair.run();
            pair.assert_moved(down, false, length);
            assert_eq!(pair.dropped, 0);
            pair.assert_closes();
        }
    }
}

#[test]
fn a_narrow_window_is_widened_by_acknowledgements() {
    let mut pair = Pair::with_window(3, 1, 2);
    let up = pair.upload(Some(40 * BLOCK));
    let down = pair.download(40 * BLOCK);
    pair.run();
    pair.assert_moved(up, true, 40 * BLOCK);
    pair.assert_moved(down, false, 40 * BLOCK);
    pair.assert_closes();
}

#[test]
fn an_upload_of_unknown_length_ends_where_its_source_ends() {
    for length in [0, 1, BLOCK, 3 * BLOCK, 3 * BLOCK + 5] {
        let mut pair = Pair::new(2, 1);
        let up = pair.upload(None);
        pair.turn();
        pair.client().on_source(up, length / 2, false);
        pair.turn();
        assert_eq!(pair.story(SERVER, up).committed, None);
        pair.client().on_source(up, length, true);
        pair.run();
        pair.assert_moved(up, true, length);
        pair.assert_closes();
    }
}

#[test]
fn a_source_that_was_read_before_the_grant_came_is_not_forgotten() {
    let mut pair = Pair::new(1, 1);
    pair.hold(SERVER, Step::Stage);
    let up = pair.upload(None);
    pair.turn();
    pair.client().on_source(up, BLOCK + 1, true);
    pair.turn();
    pair.release(SERVER, Step::Stage);
    pair.run();
    pair.assert_moved(up, true, BLOCK + 1);
}

#[test]
fn a_sum_is_told_and_nothing_moves() {
    let mut pair = Pair::new(2, 1);
    pair.source = Some(12_345);
    pair.sum = Some([7; 32]);
    let request = Request { name: b"e/f".to_vec(), sum: true, ..Request::default() };
    let sum = pair.client().open(false, request).unwrap();
    pair.run();
    let story = pair.story(CLIENT, sum);
    let grant = story.grant.as_ref().unwrap();
    assert_eq!((grant.size, grant.length, grant.sum), (Some(12_345), Some(0), Some([7; 32])));
    assert!(story.outcome.as_ref().unwrap().is_ok() && story.committed.is_none());
    assert_eq!(pair.blocks, 0);
    assert!(pair.story(SERVER, sum).outcome.as_ref().unwrap().is_ok());
    pair.assert_closes();
}

#[test]
fn many_operations_in_both_directions_share_the_channels() {
    let mut pair = Pair::with_window(4, 1, 3);
    let mut operations = alloc::vec![];
    for round in 0..10 {
        operations.push((pair.upload(Some(round * BLOCK + 1)), true, round * BLOCK + 1));
        operations.push((pair.download(9 * BLOCK), false, 9 * BLOCK));
    }
    pair.run();
    for (id, upload, length) in operations {
        pair.assert_moved(id, upload, length);
    }
    pair.assert_closes();
}

#[test]
fn requests_that_overtake_each_other_are_both_served() {
    let mut pair = Pair::new(2, 1);
    let first = pair.upload(Some(BLOCK));
    let second = pair.upload(Some(BLOCK));
    // Both were sent, each on a channel of its own; the first one's is slow.
    pair.frozen.insert((SERVER, crate::base::ChannelId(1)));
    pair.turn();
    assert!(pair.story(CLIENT, second).grant.is_some() && pair.story(CLIENT, first).grant.is_none());
    pair.frozen.clear();
    pair.run();
    pair.assert_moved(first, true, BLOCK);
    pair.assert_moved(second, true, BLOCK);
    pair.assert_closes();
}

#[test]
fn two_pipelines_share_one_file() {
    for (upload, length) in [(true, 9 * BLOCK + 3), (false, 9 * BLOCK), (true, 1), (false, 0)] {
        for channels in [2, 5] {
            let mut pair = Pair::with_window(channels, 2, 2);
            let id = if upload { pair.upload(Some(length)) } else { pair.download(length) };
            pair.run();
            pair.assert_moved(id, upload, length);
            pair.assert_closes();
        }
    }
}

#[test]
fn an_orderly_end_marks_every_channel_in_both_directions() {
    let mut pair = Pair::new(3, 1);
    let up = pair.upload(Some(5 * BLOCK));
    pair.turn();
    pair.client().close();
    assert!(pair.client().open(true, Request::default()).is_err());
    pair.run();
    pair.assert_moved(up, true, 5 * BLOCK);
    assert_eq!(pair.sent[&Event::EndOfTransfer], 6);
    assert_eq!(pair.over, [alloc::vec![None], alloc::vec![None]]);
}

#[test]
fn a_server_that_drains_finishes_what_it_took_and_refuses_the_rest() {
    let mut pair = Pair::new(2, 1);
    pair.hold(SERVER, Step::Commit);
    let up = pair.upload(Some(5 * BLOCK));
    pair.turn();
    // In flight while the server decides.
    let late = pair.upload(Some(1));
    pair.server().drain(100);
    pair.turn();
    pair.release(SERVER, Step::Commit);
    pair.run();
    pair.assert_moved(up, true, 5 * BLOCK);
    let late = pair.story(CLIENT, late).outcome.clone().unwrap().unwrap_err();
    assert_eq!(late.kind, crate::base::ErrorKind::Draining);
    assert_eq!(pair.over, [alloc::vec![None], alloc::vec![None]]);
}

#[test]
fn a_channel_that_joins_late_takes_part_and_one_that_joins_at_the_end_is_ended() {
    let mut pair = Pair::with_window(1, 1, 2);
    let up = pair.upload(Some(8 * BLOCK));
    pair.frozen.insert((SERVER, crate::base::ChannelId(1)));
    pair.turn();
    pair.join(crate::base::ChannelId(2));
    pair.frozen.clear();
    pair.run();
    pair.assert_moved(up, true, 8 * BLOCK);
    pair.client().close();
    pair.join(crate::base::ChannelId(3));
    pair.run();
    assert_eq!(pair.over, [alloc::vec![None], alloc::vec![None]]);
    assert_eq!(pair.sent[&Event::EndOfTransfer], 6);
}
