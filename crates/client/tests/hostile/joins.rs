//! JOINs that are wrong: refused without a reason to the stranger, with one in the log, and without harm to the session.

use super::raw::{Beside, connect, open, read_to_end, wishes};
use super::support::serving::Serving;
use std::io::{Read, Write};
use std::time::Duration;
use xdfs_client::ErrorKind;
use xdfs_proto::base::SessionId;
use xdfs_proto::limits::GRANT_LIFE;

#[test]
fn a_wrong_join_is_refused_and_changes_nothing() {
    let serving = Serving::start();
    let beside = Beside::start(&serving);
    let (mut session, mut first) = open(&serving, wishes(3)).unwrap();
    let second = session.join(&serving, 2).unwrap();
    let refused = |bytes: &[u8], what: &str| {
        let mut stream = connect(&serving);
        stream.write_all(bytes).unwrap();
        let answer = read_to_end(&mut stream);
        assert_eq!((answer.len(), answer[0]), (8, 6), "{what}");
    };
    // Used, never granted, and no number at all.
    for channel in [1, 2, 0, 4, u16::MAX] {
        assert_eq!(session.join(&serving, channel).err().map(|error| error.kind), Some(ErrorKind::SessionUnknown));
    }
    let (_, good) = session.join_bytes(3);
    for byte in 8..good.len() {
        let mut altered = good.clone();
        altered[byte] ^= 0x10;
        refused(&altered, &format!("byte {byte} was altered"));
    }
    let known = session.id;
    session.id = SessionId([1; 16]);
    refused(&session.join_bytes(3).1, "an unknown session");
    session.id = known;
    // After all that channel 3 is still free.
    session.join(&serving, 3).unwrap().ping();
    first.ping();
    drop((first, second));
    beside.finish();
}

#[test]
fn of_two_equal_joins_at_the_same_time_one_is_taken() {
    let serving = Serving::start();
    for _ in 0..20 {
        let (session, mut first) = open(&serving, wishes(2)).unwrap();
        let (_, bytes) = session.join_bytes(2);
        let mut streams: Vec<_> = (0..4).map(|_| connect(&serving)).collect();
        for stream in &mut streams {
            stream.write_all(&bytes).unwrap();
        }
        let mut taken = 0;
        for stream in &mut streams {
            let mut status = [0; 8];
            stream.read_exact(&mut status).unwrap();
            taken += u32::from(status[0] == 1);
        }
        assert_eq!(taken, 1);
        first.ping();
    }
    serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
}

#[test]
fn a_grant_is_void_after_its_life() {
    let serving = Serving::start();
    let (session, mut first) = open(&serving, wishes(2)).unwrap();
    // A time that passes is what this test is about.
    let (_kept, never) = std::sync::mpsc::sync_channel::<()>(0);
    let _ = never.recv_timeout(GRANT_LIFE + Duration::from_millis(500));
    assert_eq!(session.join(&serving, 2).err().map(|error| error.kind), Some(ErrorKind::SessionUnknown));
    first.ping();
}

#[test]
fn more_channels_are_granted_within_bounds_however_often_they_are_wished() {
    use xdfs_proto::wire::control::Control;
    let serving = Serving::start();
    let (mut session, mut first) = open(&serving, wishes(4)).unwrap();
    let mut granted = 0;
    for _ in 0..20 {
        first.control(0, &Control::WantChannels(4096));
        first.ping();
    }
    // What was granted came before the answers to the pings were read, or right behind them.
    first.control(0, &Control::WantChannels(1));
    first.stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    while let Some((head, payload)) = first.read() {
        if let Ok(Some(Control::Channels(grant))) = Control::decode(xdfs_proto::wire::Event::Channels, &payload) {
            assert_eq!(head.event, xdfs_proto::wire::Event::Channels as u8);
            granted += grant.count;
            session.grant = grant;
        }
    }
    // Three of the first grant are not used yet, and one channel is up: four more are within twice the number.
    assert!(granted <= 4, "{granted} more channels were granted");
}
