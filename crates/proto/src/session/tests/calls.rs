//! Operations of calls: executed once, whatever breaks; known to be over at both ends; no block, no
//! grant.

use super::pair::{BLOCK, CLIENT, Pair, REPLY, SERVER, Step};
use crate::base::{ChannelId, ErrorKind, OperationId};
use crate::session::{CallService, Fault, HeadVerdict, Session};
use crate::wire::{Event, Flags, Head};
use alloc::vec::Vec;
use core::time::Duration;

/// Executed once, answered once, and nothing is held for it any more.
fn assert_done(pair: &mut Pair, id: OperationId) {
    let length = pair.story(CLIENT, id).outcome.clone().expect("settled").expect("answered").length;
    assert_eq!(length, u64::from(REPLY));
    let (client, server) = (pair.story(CLIENT, id).replied, pair.story(SERVER, id).executed);
    assert_eq!((client, server), (1, 1), "replies heard, times done");
    assert_eq!((pair.story(CLIENT, id).forgotten, pair.story(SERVER, id).forgotten), (1, 1));
}

#[test]
fn many_batches_are_done_once_each_and_forgotten_by_both_ends() {
    for pipelines in [1, 2] {
        let mut pair = Pair::new(4, pipelines);
        let ids: Vec<_> = (0..40).map(|_| pair.calls()).collect();
        let upload = pair.upload(Some(9 * BLOCK));
        pair.run();
        ids.into_iter().for_each(|id| assert_done(&mut pair, id));
        pair.assert_moved(upload, true, 9 * BLOCK);
        pair.assert_closes();
    }
}

#[test]
fn a_channel_that_breaks_at_any_record_costs_no_batch_and_repeats_none() {
    for steps in 0..30 {
        for noticed in [CLIENT, SERVER] {
            let mut pair = Pair::new(3, 1);
            let ids: Vec<_> = (0..6).map(|_| pair.calls()).collect();
            for _ in 0..steps {
                pair.drain();
                pair.deliver();
            }
            pair.cut_for(ChannelId(1), noticed);
            pair.drain();
            pair.deliver();
            pair.cut(ChannelId(2));
            pair.run();
            ids.into_iter().for_each(|id| assert_done(&mut pair, id));
            pair.assert_closes();
        }
    }
}

#[test]
fn a_reply_on_a_channel_that_breaks_is_told_again_and_the_calls_are_not_done_again() {
    for lost in [1, 2] {
        let mut pair = Pair::new(2, 1);
        pair.hold(SERVER, Step::Execute);
        let id = pair.calls();
        pair.run();
        pair.frozen.extend([(CLIENT, ChannelId(1)), (CLIENT, ChannelId(2))]);
        pair.release(SERVER, Step::Execute);
        pair.turn();
        pair.cut(ChannelId(lost));
        pair.frozen.clear();
        pair.run();
        assert_done(&mut pair, id);
        pair.assert_closes();
    }
}

#[test]
fn a_batch_on_a_channel_that_falls_silent_is_told_again_and_done_once() {
    let mut pair = Pair::new(2, 1);
    let id = pair.calls();
    pair.drain();
    pair.frozen.insert((SERVER, ChannelId(1)));
    pair.frozen.insert((SERVER, ChannelId(2)));
    pair.turn();
    let carried: Vec<_> = [1, 2].into_iter().filter(|one| pair.is_waiting(SERVER, ChannelId(*one))).collect();
    assert_eq!(carried.len(), 1, "on one channel");
    pair.frozen.remove(&(SERVER, ChannelId(3 - carried[0])));
    pair.pass(Duration::from_millis(50), |pair| pair.story(CLIENT, id).outcome.is_some());
    pair.frozen.clear();
    pair.run();
    assert_done(&mut pair, id);
    pair.assert_closes();
}

#[test]
fn what_is_cancelled_while_it_is_done_is_aborted_and_ends_as_the_server_says() {
    for refused in [false, true] {
        let mut pair = Pair::new(2, 1);
        pair.hold(SERVER, Step::Execute);
        let id = pair.calls();
        pair.run();
        pair.client().fail(id, crate::base::Error::new(ErrorKind::Cancelled, "by the test"));
        pair.run();
        assert!(pair.story(SERVER, id).aborted && pair.story(CLIENT, id).outcome.is_none());
        if refused {
            pair.refuse_held(SERVER, Step::Execute);
            pair.run();
            pair.assert_failed(id, [ErrorKind::Cancelled, ErrorKind::NoSpace]);
        } else {
            pair.release(SERVER, Step::Execute);
            pair.run();
            assert_done(&mut pair, id);
        }
        pair.assert_closes();
    }
}

#[test]
fn a_session_that_ends_fails_what_was_not_answered_at_the_client_and_waits_for_it_at_the_server() {
    let mut pair = Pair::new(1, 1);
    pair.hold(SERVER, Step::Execute);
    let id = pair.calls();
    pair.run();
    pair.cut(ChannelId(1));
    pair.turn();
    assert_eq!(pair.story(CLIENT, id).outcome.clone().unwrap().unwrap_err().kind, ErrorKind::ConnectionLost);
    assert!(pair.story(SERVER, id).aborted);
    assert_eq!(pair.server().live_operations(), 1);
    pair.release(SERVER, Step::Execute);
    assert_eq!(pair.server().live_operations(), 0);
}

#[test]
fn a_cancel_that_nobody_may_have_heard_is_no_outcome() {
    let mut pair = Pair::new(1, 1);
    pair.hold(SERVER, Step::Execute);
    let id = pair.calls();
    pair.run();
    pair.release(SERVER, Step::Execute);
    pair.client().fail(id, crate::base::Error::new(ErrorKind::Cancelled, "by the test"));
    pair.cut(ChannelId(1));
    pair.turn();
    assert_eq!(pair.story(CLIENT, id).outcome.clone().unwrap().unwrap_err().kind, ErrorKind::ConnectionLost);
}

fn head(event: Event, flags: Flags, operation: u32, length: u32, session: &Session) -> Head {
    let (level, operation) = (session.limits().control_level, OperationId(operation));
    Head { event: event as u8, level, epoch: 0, operation, sequence: 0, offset: 0, length, flags }
}

#[test]
fn what_no_honest_end_sends_is_a_fault() {
    let mut pair = Pair::new(1, 1);
    let now = pair.now;
    let judge = |session: &mut Session, event, flags, operation, length| {
        let head = head(event, flags, operation, length, session);
        session.clone().on_head(ChannelId(1), &head, now)
    };
    let server = pair.server();
    let long = server.calls_bytes_max() + 1;
    assert_eq!(judge(server, Event::Path, Flags::REQUEST, 1, long), Err(Fault::TooLong));
    assert!(matches!(judge(server, Event::Path, Flags::REQUEST, 1, 0), Err(Fault::Wire(_))));
    assert_eq!(judge(server, Event::Path, Flags::NONE, 1, 9), Err(Fault::WrongSide("xPathM")));
    let wanted = Ok(HeadVerdict::Calls { operation: OperationId(1), length: 9 });
    assert_eq!(judge(server, Event::Path, Flags::REQUEST, 1, 9), wanted);
    let client = pair.client();
    assert_eq!(judge(client, Event::Path, Flags::REQUEST, 1, 9), Err(Fault::WrongSide("xPathM")));
    assert_eq!(judge(client, Event::Path, Flags::NONE, 1, 9), Err(Fault::Operation));
    let id = client.open_calls(CallService::Path, 9).unwrap();
    assert_eq!(judge(client, Event::Path, Flags::NONE, id.0, 9), Err(Fault::Operation), "it has not left");
    assert_eq!(judge(client, Event::File, Flags::NONE, id.0, 9), Err(Fault::WrongSide("xDFSM")), "another service");
    let upload = client.open(true, super::pair::request()).unwrap();
    assert_eq!(judge(client, Event::Path, Flags::NONE, upload.0, 9), Err(Fault::WrongSide("xPathM")));
    assert!(client.open_calls(CallService::Path, 0).is_err() && client.open_calls(CallService::Path, long).is_err());
}

#[test]
fn an_operation_of_calls_takes_no_block_and_no_message_of_a_transfer() {
    let mut pair = Pair::new(1, 1);
    pair.hold(SERVER, Step::Execute);
    let id = pair.calls();
    pair.turn();
    let now = pair.now;
    for (event, length) in [(Event::Upload, 9), (Event::Continue, 9), (Event::Finish, 4), (Event::Committed, 4)] {
        let mut server = pair.server().clone();
        // The batch was the first record.
        let head = Head { sequence: 1, ..head(event, Flags::NONE, id.0, length, &server) };
        let judged = server.on_head(ChannelId(1), &head, now);
        let heard = match judged {
            Ok(HeadVerdict::Control) => {
                let payload = match event {
                    Event::Finish => crate::wire::Control::Finish(Default::default()).encode(),
                    _ => alloc::vec![0, 2, 0, 0],
                };
                server.on_control(ChannelId(1), &payload, now)
            }
            Ok(verdict) => panic!("{verdict:?}"),
            Err(fault) => Err(fault),
        };
        assert_eq!(heard, Err(Fault::WrongSide(event.name())));
    }
}
