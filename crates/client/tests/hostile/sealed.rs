//! Records of a real session at every level, by somebody on the way: altered at any byte, repeated, reordered, sent back,
//! moved to another place, operation or channel, of another epoch. None of it is taken for what it was not (B20).

use super::raw::{Beside, RawChannel, SOON, head, open, wishes};
use super::support::serving::Serving;
use std::io::Write;
use std::net::Shutdown;
use xdfs_client::Level;
use xdfs_proto::wire::request::Request;
use xdfs_proto::wire::{Event, Head};
use xdfs_server::LogEvent;

/// Bytes of the one block of an upload here.
const BYTES: usize = 40;

/// Head and tag.
const FRONT: usize = 48;

fn block(level: Level) -> Head {
    head(Event::Upload, level, 1)
}

#[test]
fn a_bit_that_flips_at_any_byte_of_a_record_is_found_at_every_level() {
    let serving = Serving::start();
    let mut beside = Beside::start(&serving);
    for level in [Level::Clear, Level::Integrity, Level::Private] {
        // At `clear` the payload is protected by nothing: that is what the level means, and what its name says.
        let end = if level == Level::Clear { FRONT } else { FRONT + BYTES };
        for byte in 0..end {
            let (session, mut channel) = open(&serving, wishes(1)).unwrap();
            channel.upload_at(1, "data/bad", Some(BYTES as u64), level);
            channel.record(block(level), &[3; BYTES], |bytes| bytes[byte] ^= 1 << (byte % 8));
            channel.whole(1, BYTES as u64);
            // Where the length grew there is nothing to wait for.
            let _ = channel.stream.shutdown(Shutdown::Write);
            while let Some((head, _)) = channel.read() {
                assert_ne!(head.event, Event::Committed as u8, "{level:?}: byte {byte} was altered and taken");
            }
            ended(&serving, &session.id, "", &format!("{level:?}, byte {byte}"));
        }
        beside.go_on();
    }
    assert!(!serving.directory.file("bad").exists());
    beside.finish();
}

/// The session ended with an error that says `cause`.
#[track_caller]
fn ended(serving: &Serving, session: &xdfs_proto::base::SessionId, cause: &str, what: &str) {
    let error = serving.heard_within(SOON, what, |event| match event {
        LogEvent::SessionEnded { session: id, error, .. } if id == session => Some(error.clone()),
        _ => None,
    });
    let error = error.unwrap_or_else(|| panic!("{what}: the session ended in order"));
    assert!(cause.split('|').any(|cause| error.contains(cause)), "{what}: '{error}' does not say '{cause}'");
}

/// What is done, at a level, and what the log says then.
type Case = (&'static str, &'static str, fn(&mut RawChannel, Level));

const CASES: &[Case] = &[
    ("repeated", "out of sequence|tag is wrong", |c, level| {
        let mut record = Vec::new();
        c.record(block(level), &[3; BYTES], |bytes| record.clone_from(bytes));
        let _ = c.stream.write_all(&record);
    }),
    ("a message repeated", "out of sequence|tag is wrong", |c, _| {
        let mut record = Vec::new();
        c.record(head(Event::Nothing, Level::Private, 0), &[], |bytes| record.clone_from(bytes));
        let _ = c.stream.write_all(&record);
    }),
    ("reordered", "out of sequence|tag is wrong", |c, level| {
        let mut first = Vec::new();
        c.record(head(Event::Nothing, Level::Private, 0), &[], |bytes| first = std::mem::take(bytes));
        c.record(block(level), &[3; BYTES], |_| {});
        let _ = c.stream.write_all(&first);
    }),
    ("dropped", "out of sequence|tag is wrong", |c, level| {
        c.record(block(level), &[3; BYTES], Vec::clear);
        c.record(head(Event::Nothing, Level::Private, 0), &[], |_| {});
    }),
    ("renumbered after one was dropped", "tag is wrong", |c, level| {
        c.record(head(Event::Nothing, Level::Private, 0), &[], Vec::clear);
        c.record(block(level), &[3; BYTES], |bytes| bytes[15] -= 1);
    }),
    ("moved to another offset", "tag is wrong|outside the range", |c, level| {
        c.record(block(level), &[3; BYTES], |bytes| bytes[23] ^= 8)
    }),
    ("moved to another operation", "tag is wrong|block", |c, level| {
        c.upload_at(2, "data/other", Some(BYTES as u64), level);
        c.record(block(level), &[3; BYTES], |bytes| bytes[7] ^= 3);
    }),
    ("made a message of", "tag is wrong|below|payload", |c, level| {
        c.record(block(level), &[3; BYTES], |bytes| bytes[0] = Event::Nothing as u8);
    }),
    ("said to be at another level", "tag is wrong|below what was granted", |c, level| {
        let other = if level == Level::Private { Level::Integrity } else { Level::Private };
        c.record(block(level), &[3; BYTES], |bytes| bytes[1] = other as u8);
    }),
    ("of the next epoch", "epoch", |c, level| c.record(Head { epoch: 1, ..block(level) }, &[3; BYTES], |_| {})),
    ("said to be of the next epoch", "epoch|tag is wrong", |c, level| {
        c.record(block(level), &[3; BYTES], |bytes| bytes[3] ^= 1);
    }),
    ("sent back to the server", "tag is wrong|wrong side", |c, level| {
        // The server speaks as often as it is asked to: a record of its own comes whose number is due here.
        let request = Request { name: b"memory/zero".to_vec(), length: Some(100), level, ..Request::default() };
        c.request(false, 2, &Request { credit: 1 << 20, ..request });
        let back = std::iter::repeat_with(|| c.read_sealed()).take(8).find(|record| record[15] == 2).unwrap();
        assert_eq!((u64::from(back[15]), &back[8..15]), (c.next_sequence(), &[0; 7][..]));
        let _ = c.stream.write_all(&back);
    }),
];

#[test]
fn b20_a_record_that_is_not_where_it_was_sent_ends_its_session_at_every_level() {
    let serving = Serving::start();
    let mut beside = Beside::start(&serving);
    for level in [Level::Clear, Level::Integrity, Level::Private] {
        for (what, cause, act) in CASES {
            let (session, mut channel) = open(&serving, wishes(1)).unwrap();
            channel.upload_at(1, "data/bad", Some(BYTES as u64), level);
            act(&mut channel, level);
            let _ = channel.stream.shutdown(Shutdown::Write);
            ended(&serving, &session.id, cause, &format!("{level:?}: {what}"));
        }
        beside.go_on();
    }
    beside.finish();
}

#[test]
fn b20_a_record_of_another_channel_or_session_loses_the_channel_and_nothing_else() {
    let serving = Serving::start();
    let beside = Beside::start(&serving);
    for level in [Level::Clear, Level::Integrity, Level::Private] {
        let (session, mut first) = open(&serving, wishes(3)).unwrap();
        first.upload_at(1, "data/bad", Some(BYTES as u64), level);
        let (foreign, mut other) = open(&serving, wishes(2)).unwrap();
        other.upload_at(1, "data/other", Some(BYTES as u64), level);
        // Of the same number in its own channel, so that nothing but the key tells.
        let capture = |channel: &mut RawChannel| {
            let mut record = Vec::new();
            channel.record(block(level), &[3; BYTES], |bytes| record = std::mem::take(bytes));
            record
        };
        let of_third = capture(&mut session.join(&serving, 3).unwrap());
        let of_foreign = capture(&mut foreign.join(&serving, 2).unwrap());
        let mut second = session.join(&serving, 2).unwrap();
        second.stream.write_all(if level == Level::Clear { &of_foreign } else { &of_third }).unwrap();
        serving.heard_within(SOON, "the loss of channel 2", |event| match event {
            LogEvent::ChannelLost { session: id, channel: 2, error, .. } if *id == session.id => {
                assert!(error.contains("tag is wrong"), "{error}");
                Some(())
            }
            _ => None,
        });
        first.ping();
        drop((first, other));
    }
    beside.finish();
}
