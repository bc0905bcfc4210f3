//! B19: JOINs that are wrong are refused without a reason to the stranger, with one in the log, and without harm to the
//! session. (100,000 random ones are in `bounds/joins.rs`.)

use super::raw::{Beside, RawChannel, RawSession, RawTls, connect, open, open_as, read_to_end, wishes};
use super::support::middle::{Act, Middle, Way};
use super::support::people::{PASSWORD, People};
use super::support::serving::{Serving, Setup};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use xdfs_client::{Address, ErrorKind};
use xdfs_engine::opening::OpeningStep;
use xdfs_proto::base::SessionId;
use xdfs_proto::limits::GRANT_LIFE;
use xdfs_proto::wire::control::Control;
use xdfs_proto::wire::handshake::MessageType;
use xdfs_secure::keys::Role;
use xdfs_secure::login::Offered;
use xdfs_server::LogEvent;

/// These bytes are refused as a JOIN is, and nothing is said of why.
#[track_caller]
fn refused(serving: &Serving, bytes: &[u8], what: &str) {
    let mut stream = connect(serving);
    stream.write_all(bytes).unwrap();
    let answer = read_to_end(&mut stream);
    assert_eq!((answer.len(), answer[0]), (8, 6), "{what}");
}

#[test]
fn b19_a_wrong_join_is_refused_and_changes_nothing() {
    let serving = Serving::start();
    let beside = Beside::start(&serving);
    let (mut session, mut first) = open(&serving, wishes(3)).unwrap();
    let second = session.join(&serving, 2).unwrap();
    // Used, never granted, and no number at all.
    for channel in [1, 2, 0, 4, u16::MAX] {
        assert_eq!(session.join(&serving, channel).err().map(|error| error.kind), Some(ErrorKind::SessionUnknown));
    }
    let (_, good) = session.join_bytes(3);
    for byte in 8..good.len() {
        let mut altered = good.clone();
        altered[byte] ^= 0x10;
        refused(&serving, &altered, &format!("byte {byte} was altered"));
    }
    let known = session.id;
    session.id = SessionId([1; 16]);
    refused(&serving, &session.join_bytes(3).1, "an unknown session");
    session.id = known;
    // After all that channel 3 is still free.
    session.join(&serving, 3).unwrap().ping();
    first.ping();
    drop((first, second));
    beside.finish();
}

#[test]
fn b19_of_two_equal_joins_at_the_same_time_one_is_taken() {
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
fn b19_a_grant_is_void_after_its_life() {
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

#[test]
fn b19_the_id_of_a_session_is_no_right_guessed_sniffed_or_of_another_user() {
    let serving = Serving::with(Setup { directory: Arc::new(People(true)), ..Setup::default() });
    let password = Offered::Password(xdfs_secure::login::Password::new(PASSWORD.to_owned().into()));
    let (victim, mut first) = open_as(&serving, wishes(3), vec![password]).unwrap();
    // A visitor from the same host, with a session of his own, who knows the other's id, and even its grant.
    let (thief, mut own) = open(&serving, wishes(3)).unwrap();
    for (grant, what) in [(&thief.grant, "his own grant"), (&victim.grant, "the grant of the session")] {
        refused(&serving, &thief.forged(victim.id, 2, grant, Role::Client), what);
    }
    let (_, proved) = thief.join_bytes(2);
    let mut renamed = proved;
    renamed[8..24].copy_from_slice(&victim.id.0);
    refused(&serving, &renamed, "a proof for his session, with the other's id");
    let (_, other) = victim.join_bytes(2);
    let mut renamed = other;
    renamed[8..24].copy_from_slice(&thief.id.0);
    refused(&serving, &renamed, "a proof of the session, with the thief's id");
    for guess in [[0; 16], [0xff; 16], neighbour(victim.id)] {
        refused(&serving, &thief.forged(SessionId(guess), 2, &thief.grant, Role::Client), "a guess");
    }
    victim.join(&serving, 2).unwrap().ping();
    thief.join(&serving, 2).unwrap().ping();
    first.ping();
    own.ping();
}

/// The id behind this one, as if they were counted.
fn neighbour(id: SessionId) -> [u8; 16] {
    (u128::from_be_bytes(id.0).wrapping_add(1)).to_be_bytes()
}

#[test]
fn b19_a_session_registers_nothing_by_its_label_and_none_has_anothers_id() {
    let serving = Serving::start();
    let open = || open(&serving, wishes(2)).unwrap();
    let opened: Vec<(RawSession, RawChannel)> = (0..20).map(|_| open()).collect();
    let ids: std::collections::BTreeSet<_> = opened.iter().map(|(session, _)| session.id).collect();
    assert_eq!(ids.len(), opened.len(), "each has its own id, whatever it calls itself");
    let (first, second) = (&opened[0].0, &opened[1].0);
    refused(&serving, &second.forged(first.id, 2, &second.grant, Role::Client), "the same label is no right");
}

#[test]
fn b19_a_number_that_joined_serves_no_second_time_when_its_channel_is_lost() {
    let serving = Serving::start();
    let (session, mut first) = open(&serving, wishes(3)).unwrap();
    let (_, bytes) = session.join_bytes(2);
    let mut second = session.join(&serving, 2).unwrap();
    second.ping();
    refused(&serving, &bytes, "while it is up");
    let _ = second.stream.shutdown(Shutdown::Both);
    first.until("the fence of channel 2", |_, control| match control {
        Control::Fence { channel, .. } => (channel.0 == 2).then_some(()),
        _ => None,
    });
    refused(&serving, &bytes, "when it is lost");
    session.join(&serving, 3).unwrap().ping();
}

#[test]
fn b19_a_join_in_another_start_or_direction_is_none() {
    let serving = Serving::start();
    let (session, mut first) = open(&serving, wishes(4)).unwrap();
    let (_, good) = session.join_bytes(2);
    // Service, letters, versions and start stand in front of a JOIN, and its proof covers them.
    for byte in 0..8 {
        let mut altered = good.clone();
        altered[byte] ^= 1;
        let mut stream = connect(&serving);
        stream.write_all(&altered).unwrap();
        let _ = stream.shutdown(Shutdown::Write);
        let answer = read_to_end(&mut stream);
        assert!(answer.first() != Some(&1) || answer.len() == 8, "byte {byte}: {answer:?}");
    }
    refused(&serving, &session.forged(session.id, 2, &session.grant, Role::Server), "a proof in the server's role");
    // What the server answered to channel 2, sent back for the same one and for another.
    let mut stream = connect(&serving);
    stream.write_all(&good).unwrap();
    let mut answer = [0; 40];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[0], 1);
    for channel in [2_u16, 3] {
        let mut reflected = good.clone();
        reflected[24..26].copy_from_slice(&channel.to_be_bytes());
        reflected[42..].copy_from_slice(&answer[8..]);
        refused(&serving, &reflected, "the answer sent back");
    }
    first.ping();
    session.join(&serving, 3).unwrap().ping();
}

#[test]
fn b19_a_join_before_the_login_is_none() {
    let serving = Serving::start();
    let (session, mut first) = open(&serving, wishes(3)).unwrap();
    let (_, good) = session.join_bytes(2);
    // In front of TLS, behind its first bytes, and inside it before anybody has logged in.
    let mut stream = connect(&serving);
    stream.write_all(&[&b"\x00xdfs\x01\x01\x01"[..], &good[8..]].concat()).unwrap();
    assert!(read_to_end(&mut stream).len() <= 15, "a preface and an alert at most");
    let mut raw = RawTls::start(&serving);
    raw.stream.write_all(&good).unwrap();
    let _ = raw.stream.shutdown(Shutdown::Write);
    assert!(read_to_end(&mut raw.stream).len() < 100);
    let mut raw = RawTls::start(&serving);
    raw.say(&good[8..]);
    let _ = raw.stream.shutdown(Shutdown::Write);
    assert!(raw.read().is_none_or(|(message, _)| message == MessageType::Refuse));
    assert_eq!(serving.count(|event| matches!(event, LogEvent::SessionOpened { .. })), 1);
    first.ping();
    session.join(&serving, 2).unwrap().ping();
}

#[test]
fn b19_nothing_joins_a_session_that_has_ended() {
    let serving = Serving::start();
    let (session, mut first) = open(&serving, wishes(3)).unwrap();
    let mut second = session.join(&serving, 2).unwrap();
    for channel in [&mut first, &mut second] {
        let records = channel.next_sequence();
        channel.control(0, &Control::EndOfTransfer { records });
        channel.until("EOFT", |_, control| matches!(control, Control::EndOfTransfer { .. }).then_some(()));
    }
    assert_eq!(serving.session_ended(), None, "it ended in order");
    refused(&serving, &session.join_bytes(3).1, "behind its end");
    serving.forget();
    // And one that was cut off.
    let (session, first) = open(&serving, wishes(3)).unwrap();
    drop(first);
    assert!(serving.session_ended().is_some());
    refused(&serving, &session.join_bytes(3).1, "behind its loss");
    serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
}

#[test]
fn b19_who_carries_a_join_can_alter_no_byte_of_it_or_of_its_answer() {
    let serving = Serving::start();
    let middle = Middle::before(&serving.address);
    let Address::Tcp(address) = middle.address else { panic!("it speaks TCP") };
    let (session, mut first) = open(&serving, wishes(64)).unwrap();
    // What a client makes of the answer when somebody in the middle carries its JOIN.
    let carried = |channel: u16, act: Act| {
        middle.act(act);
        let (mut joining, send) = session.join_bytes(channel);
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(super::support::PATIENCE)).unwrap();
        stream.write_all(&send).unwrap();
        let _ = stream.shutdown(Shutdown::Write);
        let answer = read_to_end(&mut stream);
        let (preface, proof) = answer.split_at(answer.len().min(8));
        let step = joining.on_bytes(preface)?;
        let OpeningStep::Go { want, .. } = step else { panic!("the proof follows") };
        assert!(want == proof.len() || !matches!(act, Act::Flip { way: Way::Down, .. }));
        joining.on_bytes(proof)
    };
    for at in 0..74 {
        let flip = Act::Flip { way: Way::Up, at, mask: 1 << (at % 8) };
        assert!(carried(2, flip).is_err(), "byte {at} of the JOIN was altered");
    }
    for at in 0..40_u16 {
        let flip = Act::Flip { way: Way::Down, at: at.into(), mask: 1 << (at % 8) };
        assert!(carried(3 + at, flip).is_err(), "byte {at} of the answer was altered");
    }
    // Carried as it is, it joins: who carries it has no key to say anything.
    assert!(carried(2, Act::Watch).is_ok());
    first.ping();
    session.join(&serving, 63).unwrap().ping();
}
