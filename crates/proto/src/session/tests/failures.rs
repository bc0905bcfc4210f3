//! Refusals, storage failures and cancellations: both ends learn the same outcome, and nothing
//! partial is left.

use super::pair::{BLOCK, CLIENT, Pair, SERVER, Step};
use crate::base::{ChannelId, Error, ErrorKind};
use crate::wire::request::Request;

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "cancelled")
}

#[test]
fn a_refused_stage_or_source_is_told_and_the_session_goes_on() {
    for (upload, side, step) in [(true, SERVER, Step::Stage), (false, SERVER, Step::Open), (false, CLIENT, Step::Stage)]
    {
        let mut pair = Pair::new(2, 1);
        pair.refuse(side, step);
        let id = if upload { pair.upload(Some(3 * BLOCK)) } else { pair.download(3 * BLOCK) };
        pair.run();
        pair.assert_failed(id, [ErrorKind::NoSpace; 2]);
        pair.release(side, step);
        let next = pair.upload(Some(BLOCK));
        pair.run();
        pair.assert_moved(next, true, BLOCK);
        pair.assert_closes();
    }
}

#[test]
fn storage_that_fails_later_fails_the_operation_on_both_sides() {
    for upload in [true, false] {
        for (at_target, step) in [(true, Step::Write), (true, Step::Commit), (false, Step::Check)] {
            let mut pair = Pair::new(3, 1);
            let side = if at_target == upload { SERVER } else { CLIENT };
            pair.refuse(side, step);
            let id = if upload { pair.upload(Some(7 * BLOCK)) } else { pair.download(7 * BLOCK) };
            pair.run();
            pair.assert_failed(id, [ErrorKind::NoSpace; 2]);
            pair.release(side, step);
            pair.assert_closes();
        }
    }
}

#[test]
fn a_member_whose_storage_fails_fails_the_operation() {
    for upload in [true, false] {
        let mut pair = Pair::with_window(4, 2, 2);
        let target = if upload { SERVER } else { CLIENT };
        pair.refuse(target, Step::Write);
        let id = if upload { pair.upload(Some(7 * BLOCK)) } else { pair.download(7 * BLOCK) };
        pair.run();
        pair.assert_failed(id, [ErrorKind::NoSpace; 2]);
        pair.assert_closes();
    }
}

#[test]
fn a_cancel_before_the_commit_wins_on_both_sides() {
    for upload in [true, false] {
        for side in [CLIENT, SERVER] {
            let mut pair = Pair::with_window(2, 1, 2);
            let target = if upload { SERVER } else { CLIENT };
            pair.hold(target, Step::Write);
            let id = if upload { pair.upload(Some(9 * BLOCK)) } else { pair.download(9 * BLOCK) };
            pair.run();
            pair.ends[side][0].fail(id, cancelled());
            pair.run();
            pair.assert_failed(id, [ErrorKind::Cancelled; 2]);
            assert!(pair.story(target, id).aborted);
            pair.release(target, Step::Write);
            pair.assert_closes();
        }
    }
}

#[test]
fn a_cancel_behind_the_commit_loses_on_both_sides() {
    for upload in [true, false] {
        for side in [CLIENT, SERVER] {
            let mut pair = Pair::new(2, 1);
            let target = if upload { SERVER } else { CLIENT };
            pair.hold(target, Step::Commit);
            let id = if upload { pair.upload(Some(3 * BLOCK)) } else { pair.download(3 * BLOCK) };
            pair.run();
            pair.ends[side][0].fail(id, cancelled());
            pair.run();
            pair.release(target, Step::Commit);
            pair.run();
            pair.assert_moved(id, upload, 3 * BLOCK);
            pair.assert_closes();
        }
    }
}

#[test]
fn a_cancel_while_storage_prepares_drops_what_it_prepared() {
    for (upload, side, step) in [(true, SERVER, Step::Stage), (false, SERVER, Step::Open), (false, CLIENT, Step::Stage)]
    {
        let mut pair = Pair::new(2, 1);
        pair.hold(side, step);
        let id = if upload { pair.upload(Some(3 * BLOCK)) } else { pair.download(3 * BLOCK) };
        pair.run();
        pair.client().fail(id, cancelled());
        pair.run();
        pair.release(side, step);
        pair.run();
        pair.assert_failed(id, [ErrorKind::Cancelled; 2]);
        assert!(pair.story(side, id).aborted);
        pair.assert_closes();
    }
}

#[test]
fn the_first_reason_to_drop_a_stage_counts() {
    let mut pair = Pair::new(2, 1);
    pair.hold(SERVER, Step::Stage);
    let id = pair.upload(Some(3 * BLOCK));
    pair.run();
    pair.client().fail(id, cancelled());
    pair.run();
    pair.ends[SERVER][0].fail(id, Error::new(ErrorKind::NoSpace, "the disk is full"));
    pair.release(SERVER, Step::Stage);
    pair.run();
    pair.assert_failed(id, [ErrorKind::Cancelled; 2]);
    pair.assert_closes();
}

#[test]
fn a_cancel_before_the_request_left_concerns_nobody_else() {
    for upload in [true, false] {
        let mut pair = Pair::new(2, 1);
        let id = if upload { pair.upload(Some(3 * BLOCK)) } else { pair.download(3 * BLOCK) };
        pair.client().fail(id, cancelled());
        pair.run();
        assert!(pair.story(CLIENT, id).outcome.as_ref().unwrap().is_err());
        assert!(pair.sent.is_empty());
        let next = pair.upload(Some(BLOCK));
        pair.run();
        pair.assert_moved(next, true, BLOCK);
        pair.assert_closes();
    }
}

#[test]
fn a_cancel_goes_out_although_only_one_channel_may_carry_it() {
    for busy in [1, 2] {
        let mut pair = Pair::new(3, 1);
        pair.hold(SERVER, Step::Stage);
        let id = pair.upload(Some(BLOCK));
        pair.turn();
        // Another operation rotates the order of the idle channels.
        for _ in 0..busy {
            pair.download(0);
            pair.refuse(CLIENT, Step::Stage);
            pair.turn();
        }
        pair.client().fail(id, cancelled());
        pair.turn();
        pair.release(SERVER, Step::Stage);
        pair.turn();
        pair.assert_failed(id, [ErrorKind::Cancelled; 2]);
    }
}

#[test]
fn blocks_that_arrive_before_the_stage_is_there_wait_for_it() {
    let mut pair = Pair::new(2, 1);
    pair.hold(CLIENT, Step::Stage);
    let id = pair.download(5 * BLOCK);
    pair.run();
    assert_eq!(pair.blocks, 0);
    pair.release(CLIENT, Step::Stage);
    pair.run();
    pair.assert_moved(id, false, 5 * BLOCK);
    pair.assert_closes();
}

#[test]
fn a_grant_lost_beside_the_first_blocks_is_not_waited_for_behind_them() {
    for lost in [1, 2] {
        let mut pair = Pair::new(2, 1);
        pair.hold(SERVER, Step::Open);
        let id = pair.download(2 * BLOCK);
        pair.turn();
        pair.frozen.extend([(CLIENT, ChannelId(1)), (CLIENT, ChannelId(2))]);
        pair.release(SERVER, Step::Open);
        pair.turn();
        pair.cut(ChannelId(lost));
        pair.frozen.clear();
        pair.run();
        pair.assert_moved(id, false, 2 * BLOCK);
    }
}

#[test]
fn more_operations_than_agreed_are_refused_at_home() {
    let mut pair = Pair::new(1, 1);
    let most = pair.client().limits().operations_max;
    for _ in 0..most {
        pair.upload(Some(1));
    }
    let refused = pair.client().open(true, Request::default()).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::LimitExceeded);
    let misused = pair.server().open(true, Request::default()).unwrap_err();
    assert_eq!(misused.kind, ErrorKind::Internal);
    pair.run();
    pair.assert_closes();
}
