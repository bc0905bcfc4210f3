//! What FENCE causes to be sent again, and what it does not; what is kept of operations that are
//! over.

use super::pair::{BLOCK, CLIENT, Pair, SERVER, Step, request};
use crate::base::{ChannelId, Error, ErrorKind, Extent, OperationId};
use crate::limits;
use crate::session::operation::{Settled, SettledRole, State};
use crate::session::{ContentDigest, Fault};
use crate::wire::request::{Request, Resume};
use crate::wire::{Control, Event};
use alloc::vec;
use alloc::vec::Vec;

impl Pair {
    /// The client sends this on channel 1, whatever its machine does.
    fn client_says(&mut self, id: OperationId, control: &Control) {
        let client = self.client();
        client.channels.idle.retain(|idle| *idle != ChannelId(1));
        assert!(client.send_control(ChannelId(1), id, control, false));
        self.turn();
    }
}

/// A server that has replied to a batch, and whose client sends nothing about it.
fn replied(channels: u16) -> (Pair, OperationId) {
    let mut pair = Pair::new(channels, 1);
    let id = pair.calls();
    pair.hold(SERVER, Step::Execute);
    pair.turn();
    pair.frozen.extend((1..=channels).map(|channel| (CLIENT, ChannelId(channel))));
    pair.release(SERVER, Step::Execute);
    pair.turn();
    assert_eq!(pair.sent[&Event::Path], 2, "the batch and its reply");
    (pair, id)
}

fn replies(pair: &Pair) -> usize {
    pair.sent[&Event::Path] - 1
}

#[test]
fn a_fence_of_a_channel_that_was_never_up_is_answered_once_and_brings_nothing_again() {
    let (mut pair, _) = replied(2);
    for _ in 0..3 {
        for lost in 3..50 {
            pair.server().on_fence(ChannelId(lost), 0).unwrap();
        }
        pair.turn();
    }
    assert_eq!((replies(&pair), pair.sent[&Event::Fence]), (1, 47));
}

#[test]
fn an_outcome_goes_again_for_lost_channels_a_few_times() {
    let (mut pair, _) = replied(30);
    for lost in 2..30 {
        pair.cut(ChannelId(lost));
        pair.server().on_fence(ChannelId(lost), 0).unwrap();
        pair.turn();
    }
    assert_eq!(replies(&pair), 1 + usize::from(limits::OUTCOME_AGAIN_MAX));
}

#[test]
fn a_fence_of_no_channel_of_the_pipeline_and_one_too_many_are_faults() {
    let mut pair = Pair::new(4, 2);
    for other in [0, 2, 4, 6] {
        assert_eq!(pair.server().on_fence(ChannelId(other), 0), Err(Fault::Channel), "channel {other}");
    }
    let mut numbers = (5..).step_by(2);
    for lost in numbers.by_ref().take(limits::FENCES_UNKNOWN_MAX.into()) {
        pair.server().on_fence(ChannelId(lost), 0).unwrap();
    }
    assert_eq!(pair.server().on_fence(ChannelId(numbers.next().unwrap()), 0), Err(Fault::Channel));
}

#[test]
fn of_an_operation_that_is_over_its_outcome_is_kept_and_nothing_else() {
    for upload in [true, false] {
        let mut pair = Pair::new(1, 1);
        pair.hash = true;
        pair.kept = vec![Extent::new(0, BLOCK).unwrap()];
        pair.source = Some(3 * BLOCK);
        let side = if upload { SERVER } else { CLIENT };
        pair.hold(CLIENT, Step::Check);
        pair.hold(SERVER, Step::Check);
        pair.hold(side, Step::Commit);
        let said = if upload { Vec::new() } else { pair.kept.clone() };
        let resume = Some(Resume { source: vec![5], kept: said });
        let length = Some(3 * BLOCK);
        let asked = Request { length, resume, hash: true, credit: BLOCK, label: vec![b'l'; 4000], ..request() };
        let id = pair.client().open(upload, asked).unwrap();
        pair.run();
        let sender = &mut pair.ends[1 - side][0];
        sender.set_digest(id, ContentDigest { root: None, subtrees: Vec::new() });
        pair.release(1 - side, Step::Check);
        pair.run();
        // Its end mark is not sent again.
        pair.frozen.insert((side, ChannelId(1)));
        let long = Error::new(ErrorKind::Storage, "x".repeat(100_000));
        pair.ends[side][0].on_committed(id, Err(long));
        pair.turn();
        let kept = pair.ends[side][0].operations().find(|operation| operation.id == id).unwrap();
        assert!(kept.is_settled() && kept.request().is_none());
        // The state has neither digests, nor ranges, nor what was granted, nor a receiver.
        let State::Settled(Settled { role: SettledRole::Granted, outcome: Err(outcome), .. }) = &kept.state else {
            panic!("{kept:?}");
        };
        assert!(kept.grant().is_none());
        assert_eq!(outcome.message.len(), Error::MESSAGE_BYTES_MAX);
    }
}

#[test]
fn a_credit_in_front_of_grant_counts_from_there_on() {
    let mut pair = Pair::new(2, 1);
    pair.hold(SERVER, Step::Open);
    pair.source = Some(3 * BLOCK);
    let id = pair.client().open(false, Request { credit: 0, ..request() }).unwrap();
    pair.turn();
    pair.hold(CLIENT, Step::Stage);
    pair.client_says(id, &Control::Credit(3 * BLOCK));
    pair.release(SERVER, Step::Open);
    pair.turn();
    // The machine's own credit was not sent: all blocks use the credit in the injected message.
    assert_eq!(pair.sent[&Event::Download] + pair.sent.get(&Event::Continue).copied().unwrap_or(0), 1 + 3);
    pair.release(CLIENT, Step::Stage);
    pair.run();
    pair.assert_moved(id, false, 3 * BLOCK);
    pair.assert_closes();
}
