//! Keys that are used up: REKEY in time, in both directions, around losses and ends. The pair
//! itself checks that no record exceeds a limit and that every head names its epoch and its place
//! in it.

use super::pair::{BLOCK, CLIENT, Pair, SERVER, request};
use crate::base::{ChannelId, Instant, KeyLimits, Level, OperationId};
use crate::session::{Fault, HeadVerdict};
use crate::wire::control::Control;
use crate::wire::request::Request;
use crate::wire::{Event, Flags, Head};
use alloc::vec::Vec;
use core::time::Duration;

const NEVER: KeyLimits = KeyLimits { records: u64::MAX, bytes: u64::MAX, age: Duration::MAX };
const FEW: KeyLimits = KeyLimits { records: 3, ..NEVER };

fn rekeys(pair: &Pair) -> usize {
    pair.sent.get(&Event::Rekey).copied().unwrap_or(0)
}

#[test]
fn transfers_go_on_through_epochs_of_a_few_records() {
    for records in [2, 3, 5] {
        for (upload, pipelines) in [(true, 1), (false, 1), (true, 2), (false, 2)] {
            let mut pair = Pair::with_keys(4, pipelines, 6, KeyLimits { records, ..NEVER });
            let length = 20 * BLOCK + 1;
            let id = if upload { pair.upload(Some(length)) } else { pair.download(length) };
            pair.run();
            pair.assert_moved(id, upload, length);
            pair.assert_closes();
            assert!(rekeys(&pair) >= 8, "{} with epochs of {records} records", rekeys(&pair));
            for side in [CLIENT, SERVER] {
                assert!(pair.epochs.iter().any(|((sent, _), sealed)| *sent == side && sealed.epoch > 0), "{side}");
            }
        }
    }
}

#[test]
fn bytes_end_an_epoch_as_records_do() {
    let mut pair = Pair::with_keys(1, 1, 6, KeyLimits { bytes: 4 * BLOCK, ..NEVER });
    let request = Request { length: Some(20 * BLOCK), level: Level::Private, ..request() };
    let id = pair.client().open(true, request).unwrap();
    pair.run();
    pair.assert_moved(id, true, 20 * BLOCK);
    // At most three blocks and the room for REKEY fit in four blocks.
    assert!(pair.epochs[&(CLIENT, ChannelId(1))].epoch >= 6);
    pair.assert_closes();
}

#[test]
fn an_old_key_is_left_before_the_next_record() {
    let mut pair = Pair::with_keys(1, 1, 0, KeyLimits { age: Duration::from_secs(24 * 60 * 60), ..NEVER });
    let first = pair.upload(Some(BLOCK));
    pair.run();
    pair.assert_moved(first, true, BLOCK);
    assert_eq!(rekeys(&pair), 0);
    pair.now = pair.now.after(Duration::from_secs(24 * 60 * 60));
    let second = pair.upload(Some(BLOCK));
    pair.run();
    pair.assert_moved(second, true, BLOCK);
    assert_eq!(rekeys(&pair), 2, "one in each direction");
    for side in [CLIENT, SERVER] {
        assert_eq!(pair.epochs[&(side, ChannelId(1))].epoch, 1);
    }
    pair.assert_closes();
}

#[test]
fn a_channel_may_break_anywhere_around_a_new_epoch_and_no_byte_is_missing() {
    for upload in [true, false] {
        for delivered in 0..40 {
            let mut pair = Pair::with_keys(2, 1, 6, FEW);
            let length = 12 * BLOCK + 1;
            let id = if upload { pair.upload(Some(length)) } else { pair.download(length) };
            for _ in 0..delivered {
                pair.drain();
                pair.deliver();
            }
            pair.cut_for(ChannelId(1), delivered % 2);
            pair.run();
            pair.assert_moved(id, upload, length);
            pair.assert_closes();
        }
    }
}

#[test]
fn what_was_lost_behind_a_new_epoch_goes_again_and_nothing_else() {
    let mut pair = Pair::with_keys(2, 1, 0, FEW);
    let length = 30 * BLOCK;
    let id = pair.upload(Some(length));
    for _ in 0..30 {
        pair.drain();
        pair.deliver();
    }
    assert!(pair.epochs[&(CLIENT, ChannelId(1))].epoch > 0, "the loss is to lie behind the first epoch");
    pair.cut(ChannelId(1));
    pair.run();
    pair.assert_moved(id, true, length);
    // A fence that counted one epoch only would cause blocks that arrived to be sent again.
    assert_eq!(pair.dropped, 0);
    pair.assert_closes();
}

fn head(event: Event, epoch: u16, sequence: u64) -> Head {
    let (level, operation) = (Level::Private, OperationId(0));
    Head { event: event as u8, level, epoch, operation, sequence, offset: 0, length: 0, flags: Flags::NONE }
}

#[test]
fn a_head_of_another_epoch_is_a_fault_before_and_behind_rekey() {
    let mut pair = Pair::with_keys(1, 1, 0, FEW);
    let (channel, now) = (ChannelId(1), Instant(2_000_000));
    let server = pair.server();
    for epoch in [1, 2, u16::MAX] {
        assert_eq!(server.on_head(channel, &head(Event::Nothing, epoch, 0), now), Err(Fault::Epoch));
    }
    assert_eq!(server.on_head(channel, &head(Event::Rekey, 0, 0), now), Ok(HeadVerdict::Control));
    assert_eq!(server.on_control(channel, &Control::Rekey.encode(), now), Ok(()));
    for (epoch, sequence) in [(0, 0), (0, 1), (2, 0)] {
        assert_eq!(server.on_head(channel, &head(Event::Nothing, epoch, sequence), now), Err(Fault::Epoch));
    }
    assert_eq!(server.on_head(channel, &head(Event::Nothing, 1, 1), now), Err(Fault::Sequence));
    assert_eq!(server.on_head(channel, &head(Event::Nothing, 1, 0), now), Ok(HeadVerdict::Control));
}

#[test]
fn rekey_in_the_last_epoch_is_a_fault() {
    let mut pair = Pair::with_keys(1, 1, 0, FEW);
    let (channel, now) = (ChannelId(1), Instant(2_000_000));
    let server = pair.server();
    let results: Vec<_> = (0..=u16::MAX)
        .map(|epoch| {
            assert_eq!(server.on_head(channel, &head(Event::Rekey, epoch, 0), now), Ok(HeadVerdict::Control));
            server.on_control(channel, &[], now)
        })
        .collect();
    assert_eq!(results.iter().position(Result::is_err), Some(usize::from(u16::MAX)));
    assert_eq!(results.last(), Some(&Err(Fault::Epoch)));
}
