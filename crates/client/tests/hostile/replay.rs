//! B20: bytes that were recorded are worth nothing when they come again, whole, in part, or one by one, on new connections
//! and beside the session that they are from.

use super::raw::{Beside, read_to_end};
use super::support::middle::{Middle, Seen, Way, borders};
use super::support::people::{People, by_key};
use super::support::serving::{Serving, Setup};
use super::support::{BLOCK, assert_same, finish, pattern, pipe_payload};
use std::io::Write;
use std::net::Shutdown;
use std::sync::Arc;
use xdfs_client::{Payload, PutOptions, Session};
use xdfs_server::LogEvent;

const CHANNELS: u16 = 3;

fn serving() -> Serving {
    Serving::with(Setup { directory: Arc::new(People(true)), ..Setup::default() })
}

/// A session of ada through the middle, with all of its channels up.
fn session(serving: &Serving, middle: &Middle) -> Session {
    let session = Session::connect(&serving.ada(middle, by_key(1), CHANNELS)).unwrap();
    while session.joined() < usize::from(CHANNELS) {
        std::thread::yield_now();
    }
    session
}

/// Says these bytes on a connection of its own. What the server answers until it closes.
fn play(serving: &Serving, bytes: &[u8]) -> Vec<u8> {
    let mut stream = super::raw::connect(serving);
    // The server may have closed already.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    read_to_end(&mut stream)
}

/// Whole, up to each border, and each record alone, with and without the preface in front.
fn play_all(serving: &Serving, seen: &Seen) {
    let bytes = &seen.bytes[Way::Up as usize];
    let join = bytes[7] == 2;
    let (tls, records) = borders(bytes);
    // A JOIN is 66 bytes behind its preface; what follows is no TLS.
    let ends: Vec<usize> = match join {
        true => [vec![8, 74], borders_behind(bytes, 74)].concat(),
        false => [tls, records].concat(),
    };
    let mut start = 0;
    // The last record of a session that lives may not have come by whole.
    for end in ends.iter().copied().filter(|end| *end < bytes.len()).chain([bytes.len()]) {
        let answer = play(serving, &bytes[..end]);
        if join && end >= 74 {
            assert_eq!((answer.len(), answer[0]), (8, 6), "a JOIN that was used is refused without a reason");
        }
        play(serving, &bytes[start..end]);
        play(serving, &[&bytes[..8], &bytes[start..end]].concat());
        start = end;
    }
}

fn borders_behind(bytes: &[u8], start: usize) -> Vec<usize> {
    let shifted = [&[0; 8][..], &bytes[start..]].concat();
    borders(&shifted).1.into_iter().map(|at| at + start - 8).collect()
}

fn opened(serving: &Serving) -> usize {
    serving.count(|event| matches!(event, LogEvent::SessionOpened { .. }))
}

#[test]
fn b20_a_recorded_session_that_is_played_again_opens_and_writes_nothing() {
    let serving = serving();
    let beside = Beside::start(&serving);
    let middle = Middle::before(&serving.address);
    let good = session(&serving, &middle);
    let content = pattern(20 * BLOCK, 3);
    let payload = Payload::bytes(content.clone()).unwrap();
    finish(&good.put(payload, "data/file", &PutOptions::default()).unwrap()).unwrap();
    good.close().unwrap();
    assert_same(&serving.directory.read("file"), &content);
    std::fs::remove_file(serving.directory.file("file")).unwrap();
    let before = opened(&serving);
    assert_eq!(middle.connections(), usize::from(CHANNELS));
    for line in 0..middle.connections() {
        play_all(&serving, &middle.seen(line));
    }
    assert_eq!(opened(&serving), before, "no session was opened by recorded bytes");
    beside.finish();
}

#[test]
fn b20_what_a_living_session_has_said_harms_it_not_when_it_comes_again() {
    let serving = serving();
    let middle = Middle::before(&serving.address);
    let good = session(&serving, &middle);
    let (payload, mut writer) = pipe_payload(None);
    let transfer = good.put(payload, "data/file", &PutOptions::default()).unwrap();
    let content = pattern(24 * BLOCK, 5);
    let (early, late) = content.split_at(12 * BLOCK);
    writer.write_all(early).unwrap();
    while transfer.moved() < early.len() as u64 {
        std::thread::yield_now();
    }
    for line in 0..middle.connections() {
        play_all(&serving, &middle.seen(line));
    }
    assert_eq!((opened(&serving), good.joined()), (1, usize::from(CHANNELS)));
    assert_eq!(serving.count(|event| matches!(event, LogEvent::ChannelLost { .. })), 0);
    writer.write_all(late).unwrap();
    drop(writer);
    finish(&transfer).unwrap();
    assert_same(&serving.directory.read("file"), &content);
    good.close().unwrap();
    serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
}
