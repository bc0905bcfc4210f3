//! Channels that break: nothing is lost while one is left, and both ends know when none is.

use super::pair::{BLOCK, CLIENT, Pair, SERVER, Step};
use crate::base::{ChannelId, ErrorKind};
use crate::session::Session;
use crate::wire::Event;
use alloc::vec;
use core::time::Duration;

#[test]
fn all_but_one_channel_may_break_during_a_transfer() {
    for upload in [true, false] {
        for survivor in 1..=4 {
            let mut pair = Pair::with_window(4, 1, 6);
            let length = 30 * BLOCK + 1;
            let id = if upload { pair.upload(Some(length)) } else { pair.download(length) };
            for channel in (1..=4).filter(|channel| *channel != survivor) {
                for _ in 0..9 {
                    pair.deliver();
                    pair.drain();
                }
                // One side notices by itself, the other learns it from the peer.
                pair.cut_for(ChannelId(channel), usize::from(channel % 2 == 0));
            }
            pair.run();
            pair.assert_moved(id, upload, length);
            pair.assert_closes();
        }
    }
}

#[test]
fn a_request_on_a_channel_that_breaks_is_asked_again() {
    for upload in [true, false] {
        let mut pair = Pair::new(2, 1);
        let id = if upload { pair.upload(Some(BLOCK)) } else { pair.download(BLOCK) };
        pair.drain();
        pair.cut(ChannelId(1));
        pair.run();
        pair.assert_moved(id, upload, BLOCK);
        pair.assert_closes();
    }
}

#[test]
fn an_outcome_on_a_channel_that_breaks_is_told_again() {
    for upload in [true, false] {
        for lost in [1, 2] {
            let mut pair = Pair::new(2, 1);
            let target = if upload { SERVER } else { CLIENT };
            pair.hold(target, Step::Commit);
            let id = if upload { pair.upload(Some(3 * BLOCK)) } else { pair.download(3 * BLOCK) };
            pair.run();
            pair.frozen.extend([(1 - target, ChannelId(1)), (1 - target, ChannelId(2))]);
            pair.release(target, Step::Commit);
            pair.turn();
            pair.cut(ChannelId(lost));
            pair.frozen.clear();
            pair.run();
            pair.assert_moved(id, upload, 3 * BLOCK);
            pair.assert_closes();
        }
    }
}

#[test]
fn the_last_end_mark_on_a_channel_that_breaks_does_not_leave_the_operation_behind() {
    for lost in [1, 2] {
        let mut pair = Pair::new(2, 1);
        let id = pair.upload(Some(0));
        pair.frozen.extend([(SERVER, ChannelId(1)), (SERVER, ChannelId(2))]);
        pair.frozen.clear();
        pair.hold(SERVER, Step::Commit);
        pair.run();
        pair.release(SERVER, Step::Commit);
        pair.frozen.extend([(SERVER, ChannelId(1)), (SERVER, ChannelId(2))]);
        pair.turn();
        assert!(pair.story(CLIENT, id).outcome.is_some(), "the end mark is under way");
        pair.cut(ChannelId(lost));
        pair.frozen.clear();
        pair.run();
        pair.assert_moved(id, true, 0);
        pair.assert_closes();
    }
}

#[test]
fn a_sender_that_lost_every_channel_never_claims_success() {
    for upload in [true, false] {
        let mut pair = Pair::new(2, 1);
        let (source, target) = if upload { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        pair.hold(target, Step::Commit);
        let id = if upload { pair.upload(Some(3 * BLOCK)) } else { pair.download(3 * BLOCK) };
        pair.run();
        pair.cut(ChannelId(1));
        pair.cut(ChannelId(2));
        pair.turn();
        pair.release(target, Step::Commit);
        pair.run();
        let told = pair.story(source, id).outcome.clone().unwrap();
        assert_eq!(told.unwrap_err().kind, ErrorKind::ConnectionLost);
        assert!(pair.story(target, id).outcome.as_ref().unwrap().is_ok(), "no way back from a commit");
        assert!(pair.ends.iter().flatten().all(|session| session.is_over()));
    }
}

#[test]
fn a_receiver_that_lost_every_channel_drops_its_stage() {
    for upload in [true, false] {
        let mut pair = Pair::new(2, 1);
        let target = if upload { SERVER } else { CLIENT };
        pair.hold(target, Step::Write);
        let id = if upload { pair.upload(Some(3 * BLOCK)) } else { pair.download(3 * BLOCK) };
        pair.run();
        pair.cut(ChannelId(1));
        pair.cut(ChannelId(2));
        pair.run();
        pair.assert_failed(id, [ErrorKind::ConnectionLost; 2]);
        assert!(pair.story(target, id).aborted);
        pair.release(target, Step::Write);
        pair.run();
        assert_eq!(pair.story(target, id).committed, None);
    }
}

#[test]
fn a_member_pipeline_that_lost_its_channels_fails_the_operation() {
    for upload in [true, false] {
        let mut pair = Pair::with_window(4, 2, 2);
        let target = if upload { SERVER } else { CLIENT };
        pair.hold(target, Step::Write);
        let id = if upload { pair.upload(Some(8 * BLOCK)) } else { pair.download(8 * BLOCK) };
        pair.turn();
        // Channels 2 and 4 belong to the second pipeline.
        pair.cut(ChannelId(2));
        pair.cut(ChannelId(4));
        pair.run();
        pair.assert_failed(id, [ErrorKind::ConnectionLost; 2]);
        assert!(pair.story(target, id).aborted);
    }
}

#[test]
fn a_block_that_waits_too_long_is_repeated_and_the_late_copy_dropped() {
    let mut pair = Pair::new(2, 1);
    let id = pair.upload(Some(2 * BLOCK));
    pair.hold(SERVER, Step::Stage);
    pair.turn();
    pair.frozen.insert((SERVER, ChannelId(2)));
    pair.release(SERVER, Step::Stage);
    pair.run();
    let written: u64 = pair.story(SERVER, id).written.iter().map(|extent| extent.length()).sum();
    assert_eq!((written, pair.blocks), (2 * BLOCK, 2), "the copy on the other channel did it");
    pair.frozen.clear();
    pair.run();
    pair.assert_moved(id, true, 2 * BLOCK);
    assert_eq!(pair.dropped, 1);
    pair.assert_closes();
}

#[test]
fn channels_that_nothing_moves_on_are_lost_at_their_deadline() {
    let mut pair = Pair::with_window(2, 1, 4);
    let id = pair.upload(Some(20 * BLOCK));
    pair.drain();
    // Channel 1 silently drops everything, in both directions.
    pair.frozen.extend([(CLIENT, ChannelId(1)), (SERVER, ChannelId(1))]);
    pair.run();
    pair.pass_stall();
    pair.pass_stall();
    pair.run();
    pair.assert_moved(id, true, 20 * BLOCK);
}

#[test]
fn a_stalled_channel_holds_back_neither_the_outcome_nor_the_end_until_its_deadline() {
    for upload in [true, false] {
        for (stalled, full) in (1..=4).flat_map(|stalled| [(stalled, false), (stalled, true)]) {
            let mut pair = Pair::with_window(4, 1, 6);
            let length = 60 * BLOCK;
            let id = if upload { pair.upload(Some(length)) } else { pair.download(length) };
            for _ in 0..40 {
                pair.deliver();
                pair.drain();
            }
            pair.frozen.extend([(CLIENT, ChannelId(stalled)), (SERVER, ChannelId(stalled))]);
            if full {
                pair.full = pair.frozen.clone();
            }
            let began = pair.now;
            let step = Duration::from_millis(20);
            pair.pass(step, |pair| [CLIENT, SERVER].iter().all(|side| pair.story(*side, id).outcome.is_some()));
            pair.assert_moved(id, upload, length);
            pair.ends[CLIENT].iter_mut().for_each(Session::close);
            pair.pass(step, |pair| pair.ends.iter().flatten().all(Session::is_over));
            assert_eq!(pair.over, [vec![None], vec![None]]);
            let took = pair.now.since(began);
            assert!(took < pair.client().limits().stall / 2, "channel {stalled}, {upload}, {full}: {took:?}");
        }
    }
}

#[test]
fn nothing_told_on_a_channel_that_just_fell_silent_is_waited_for_until_its_deadline() {
    for upload in [true, false] {
        for (stalled, moved) in (1..=3).flat_map(|stalled| (0..60).map(move |moved| (stalled, moved))) {
            let mut pair = Pair::with_window(3, 1, 4);
            let length = 20 * BLOCK;
            let id = if upload { pair.upload(Some(length)) } else { pair.download(length) };
            for _ in 0..moved {
                pair.drain();
                pair.deliver();
            }
            pair.frozen.extend([(CLIENT, ChannelId(stalled)), (SERVER, ChannelId(stalled))]);
            let began = pair.now;
            let settled = |pair: &mut Pair| [CLIENT, SERVER].iter().all(|side| pair.story(*side, id).outcome.is_some());
            pair.pass(Duration::from_millis(5), settled);
            pair.assert_moved(id, upload, length);
            let took = pair.now.since(began);
            assert!(took < pair.client().limits().stall / 6, "channel {stalled} after {moved}, {upload}: {took:?}");
        }
    }
}

#[test]
fn one_block_comes_on_the_credit_of_its_request_and_behind_a_loss_on_any_channel() {
    let credits = |pair: &Pair| pair.sent.get(&Event::Credit).copied().unwrap_or(0);
    let mut pair = Pair::new(2, 1);
    for (length, told) in [(BLOCK, 0), (2 * BLOCK, 1), (1, 1)] {
        let id = pair.download(length);
        pair.run();
        pair.assert_moved(id, false, length);
        assert_eq!(credits(&pair), told, "{length}");
    }
    for (lost, staged) in [(1, false), (1, true), (2, false), (2, true)] {
        let mut pair = Pair::new(2, 1);
        pair.hold(SERVER, Step::Open);
        pair.hold(CLIENT, Step::Stage);
        let id = pair.download(BLOCK);
        pair.turn();
        pair.frozen.insert((CLIENT, ChannelId(1)));
        pair.release(SERVER, Step::Open);
        pair.turn();
        // GRANT arrives, and the block after it does not.
        pair.frozen.clear();
        assert!(pair.deliver());
        if staged {
            pair.drain();
            pair.release(CLIENT, Step::Stage);
        }
        assert_eq!(credits(&pair), 0);
        pair.cut(ChannelId(lost));
        pair.drain();
        pair.release(CLIENT, Step::Stage);
        pair.run();
        pair.assert_moved(id, false, BLOCK);
        assert_eq!(credits(&pair), 1, "channel {lost}, staged before: {staged}");
        pair.assert_closes();
    }
}
