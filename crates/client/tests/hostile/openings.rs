//! Bytes before a session: wrong, altered, random, late, or none.

use super::raw::{Beside, RawChannel, RawTls, connect, connect_from, open, read_to_end, wishes};
use super::support::serving::{Serving, Setup};
use super::support::{BLOCK, pattern};
use std::io::Write;
use std::time::{Duration, Instant};
use xdfs_client::{ErrorKind, Level};
use xdfs_proto::wire::Event;
use xdfs_proto::wire::control::{Control, Finish};
use xdfs_proto::wire::handshake::{ExtendedOption, MessageType, Open, frame};
use xdfs_proto::wire::request::Request;
use xdfs_secure::handshake::tls::{Certificates, ClientTls};
use xdfs_server::{LogEvent, Policy, ServerLimits};

/// How a client that wants a session starts.
const CLIENT: [u8; 8] = *b"\x00xdfs\x01\x01\x01";

fn refused(serving: &Serving, cause: &str) {
    serving.heard(cause, |event| match event {
        LogEvent::GuestRefused { error, .. } if error.contains(cause) => Some(()),
        _ => None,
    });
    serving.forget();
}

#[test]
fn a_wrong_preface_is_answered_with_its_status_and_closed() {
    let serving = Serving::start();
    let mut beside = Beside::start(&serving);
    for (preface, status) in [
        (*b"\x01xdfs\x01\x01\x01", 2),
        (*b"\x02xdfs\x01\x01\x01", 2),
        (*b"\xffxdfs\x01\x01\x01", 2),
        (*b"\x00xdfs\x02\x09\x01", 3),
        (*b"\x00xdfs\x01\x01\x00", 4),
        (*b"\x00xdfs\x01\x01\x09", 4),
        (*b"\x00ydfs\x01\x01\x01", 7),
        (*b"GET / HT", 7),
    ] {
        let mut stream = connect(&serving);
        stream.write_all(&preface).unwrap();
        // A client may send its TLS hello in the same flight.
        stream.write_all(&hello()).unwrap();
        let answer = read_to_end(&mut stream);
        assert_eq!((answer.len(), answer[0], &answer[1..5]), (8, status, &b"xdfs"[..]), "{preface:?}");
    }
    beside.go_on();
    beside.finish();
}

/// A client's TLS hello.
fn hello() -> Vec<u8> {
    ClientTls::start("localhost", &Certificates::Raw).unwrap().1.output()
}

#[test]
fn bytes_that_are_no_tls_are_answered_in_the_form_of_a_server_that_speaks_it() {
    let serving = Serving::start();
    for bytes in [&b"GET /"[..], &[22, 3, 1, 0xff, 0xff], &[22, 3, 1, 0, 4, 99, 0, 0, 0]] {
        let mut stream = connect(&serving);
        stream.write_all(&[&CLIENT[..], bytes].concat()).unwrap();
        let answer = read_to_end(&mut stream);
        // The preface, so that a client knows whom it met; behind it nothing or an alert.
        assert_eq!(answer[..8], *b"\x01xdfs\x01\x00\x01", "{bytes:?}");
        assert!(answer.len() == 8 || answer[8] == 21, "{answer:?}");
    }
}

#[test]
fn an_opening_that_is_wrong_is_refused_with_its_cause() {
    let serving = Serving::start();
    let beside = Beside::start(&serving);
    let start = || RawTls::start(&serving);
    let good = Open { prefaces: start().prefaces, ..wishes(1) };
    let opening = |open: &Open| frame(MessageType::Open, &open.encode());
    // Every byte of the prefaces that is altered is a downgrade.
    for byte in 0..16 {
        let mut altered = good.clone();
        altered.prefaces[byte] ^= 1;
        assert_eq!(start().refused(&opening(&altered)).kind, ErrorKind::Downgrade, "byte {byte}");
    }
    let kind = |bytes: &[u8]| start().refused(bytes).kind;
    assert_eq!(kind(&[2, 1, 0, 1]), ErrorKind::Protocol, "a frame that is too long");
    assert_eq!(kind(&[9, 0, 0, 0]), ErrorKind::Protocol, "an unknown message");
    let mut trailing = good.encode();
    trailing.push(0);
    assert_eq!(kind(&frame(MessageType::Open, &trailing)), ErrorKind::Protocol, "bytes behind the message");
    assert_eq!(kind(&frame(MessageType::Open, &good.encode()[..40])), ErrorKind::Protocol, "a message cut short");
    let two = [opening(&good), opening(&good)].concat();
    assert_eq!(kind(&two), ErrorKind::Protocol, "two messages at once");
    assert_eq!(kind(&opening(&Open { suites: vec![], ..good.clone() })), ErrorKind::Unsupported);
    let option = ExtendedOption { key: 77, critical: true, value: vec![1] };
    assert_eq!(kind(&opening(&Open { options: vec![option], ..good })), ErrorKind::Unsupported);
    beside.finish();
}

#[test]
fn a_message_that_its_state_does_not_expect_is_refused_in_every_state() {
    let serving = Serving::start();
    let good = Open { prefaces: RawTls::start(&serving).prefaces, ..wishes(1) };
    let (_, first) = first_message("eve");
    let password = Open { login: 3, credentials: first, ..good.clone() };
    for (message, number) in MessageType::ALL.into_iter().zip(1..) {
        // Each from an address of its own: a login that failed before a message out of turn counts.
        let start = || RawTls::on(connect_from(&serving, number));
        // Where OPEN is due.
        if message != MessageType::Open {
            assert_eq!(start().refused(&frame(message, b"x")).kind, ErrorKind::Protocol, "{message:?}");
        }
        // Where a proof is due; a wrong proof is a login that failed.
        let mut raw = start();
        raw.say(&frame(MessageType::Open, &password.encode()));
        assert_eq!(raw.read().unwrap().0, MessageType::Challenge);
        if message == MessageType::Proof {
            raw.say(&frame(message, b"x"));
            assert_eq!(raw.read().unwrap(), (MessageType::Again, vec![5]));
        } else {
            assert_eq!(raw.refused(&frame(message, b"x")).kind, ErrorKind::Protocol, "{message:?}");
        }
        // Where a login was refused and the next is due.
        let mut raw = start();
        raw.say(&frame(MessageType::Open, &Open { login: 9, ..good.clone() }.encode()));
        assert_eq!(raw.read().unwrap(), (MessageType::Again, vec![5]));
        if message != MessageType::Open {
            assert_eq!(raw.refused(&frame(message, b"x")).kind, ErrorKind::Protocol, "{message:?}");
        }
    }
    // After all that, an honest one gets in on the very connection where others failed.
    let mut raw = RawTls::start(&serving);
    raw.say(&frame(MessageType::Open, &Open { login: 1, credentials: vec![1; 99], ..good.clone() }.encode()));
    assert_eq!(raw.read().unwrap().0, MessageType::Again);
    raw.say(&frame(MessageType::Open, &good.encode()));
    assert_eq!(raw.read().unwrap().0, MessageType::Accept);
}

/// A user's first words for a password login.
fn first_message(user: &str) -> (String, Vec<u8>) {
    let message = format!("p=tls-exporter,,n={user},r=0123456789abcdefgh");
    (user.to_owned(), message.into_bytes())
}

#[test]
fn a_sixth_login_that_fails_ends_the_connection() {
    let serving = Serving::start();
    let mut raw = RawTls::start(&serving);
    let wrong = Open { prefaces: raw.prefaces, login: 2, credentials: vec![0; 96], ..wishes(1) };
    let wrong = frame(MessageType::Open, &wrong.encode());
    for left in (1..6).rev() {
        raw.say(&wrong);
        assert_eq!(raw.read().unwrap(), (MessageType::Again, vec![left]));
    }
    assert_eq!(raw.refused(&wrong).kind, ErrorKind::Refused);
    serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
}

#[test]
fn random_bytes_end_and_leave_nothing() {
    let limits = ServerLimits { opening: Duration::from_secs(2), ..ServerLimits::roomy() };
    let serving = Serving::with(Setup { limits, ..Setup::default() });
    let mut beside = Beside::start(&serving);
    let good = [&CLIENT[..], &hello()].concat();
    let mut streams = Vec::new();
    for seed in 0..240_u64 {
        // Enough for a head, so that nothing is taken for a slow peer.
        let noise = pattern(60 + (seed as usize * 37) % 700, seed);
        // Noise from the start, or behind a good beginning, up to behind the whole opening.
        let prefix = [0, 8, 12, 13, 48, good.len()][seed as usize % 6];
        let mut stream = connect(&serving);
        let _ = stream.write_all(&[&good[..prefix], &noise].concat());
        streams.push(stream);
        if streams.len() == 40 {
            beside.go_on();
            streams.drain(..).for_each(|mut stream| drop(read_to_end(&mut stream)));
        }
    }
    beside.finish();
}

#[test]
fn a_peer_that_stalls_at_any_byte_of_its_opening_is_cut_at_its_deadline() {
    let limits = ServerLimits { opening: Duration::from_secs(2), ..ServerLimits::roomy() };
    let serving = Serving::with(Setup { limits, ..Setup::default() });
    let mut beside = Beside::start(&serving);
    let opening = [&CLIENT[..], &hello()].concat();
    let (session, mut first) = open(&serving, wishes(2)).unwrap();
    let (_, join) = session.join_bytes(2);
    let mut stalled = Vec::new();
    for flight in [&opening, &join] {
        // Of a hello, which is long for its keys, a sample.
        let step = if flight.len() > 500 { 31 } else { 1 };
        for length in (0..flight.len()).step_by(step) {
            let mut stream = connect(&serving);
            stream.write_all(&flight[..length]).unwrap();
            stalled.push((Instant::now(), stream));
        }
    }
    for length in [0, 1, 5, 30, 80] {
        let mut raw = RawTls::start(&serving);
        let open = Open { prefaces: raw.prefaces, ..wishes(1) };
        let sealed = raw.sealed(&frame(MessageType::Open, &open.encode()));
        raw.stream.write_all(&sealed[..length]).unwrap();
        stalled.push((Instant::now(), raw.stream));
    }
    for length in [0, 3, 50] {
        let mut raw = RawTls::start(&serving);
        let open = Open { prefaces: raw.prefaces, ..wishes(1) };
        raw.say(&frame(MessageType::Open, &open.encode())[..length]);
        stalled.push((Instant::now(), raw.stream));
    }
    beside.go_on();
    for (started, mut stream) in stalled {
        read_to_end(&mut stream);
        assert!(started.elapsed() < super::raw::SOON, "cut after {:?}", started.elapsed());
    }
    for phase in ["no opening bytes within", "no handshake within", "no login within", "no JOIN within"] {
        serving.heard(phase, |event| match event {
            LogEvent::GuestRefused { error, .. } if error.contains(phase) => Some(()),
            _ => None,
        });
    }
    // The JOINs that were begun used nothing up.
    first.ping();
    session.join(&serving, 2).unwrap().ping();
    drop((session, first));
    beside.finish();
}

#[test]
fn a_first_operation_inside_the_opening_is_served_or_its_fault_named() {
    let serving = Serving::start();
    serving.directory.write("file", &[3; 100]);
    let request = Request { name: b"data/file".to_vec(), level: Level::Clear, credit: 1 << 20, ..Request::default() };
    let first = |event, payload| Open { first: Some((event, payload)), ..wishes(1) };
    let (_, mut channel) = open(&serving, first(Event::Download, request.encode())).unwrap();
    channel.until("GRANT", |head, control| {
        assert_eq!(head.operation.0, 1);
        matches!(control, Control::Grant(_)).then_some(())
    });
    let mut bytes = Vec::new();
    while bytes.is_empty() {
        let (head, payload) = channel.read().unwrap();
        if head.event == Event::Download as u8 {
            bytes = payload;
        }
    }
    assert_eq!(bytes, [3; 100]);
    drop(channel);
    serving.session_ended();
    for (event, payload) in [(Event::Download, vec![1, 2, 3]), (Event::Ack, request.encode())] {
        serving.forget();
        let (_, channel): (_, RawChannel) = open(&serving, first(event, payload)).unwrap();
        let error = serving.session_ended().unwrap();
        assert!(error.contains("protocol error"), "{error}");
        drop(channel);
    }
    serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
    assert_eq!(BLOCK, 65536);
}

#[test]
fn who_connected_before_a_drain_and_opens_after_it_is_told() {
    let mut serving = Serving::start();
    let (_, mut running) = open(&serving, wishes(1)).unwrap();
    running.upload(1, "data/running", Some(BLOCK as u64));
    let mut raw = RawTls::start(&serving);
    serving.handle.drain();
    running.until("DRAIN", |_, control| matches!(control, Control::Drain { .. }).then_some(()));
    let open = Open { prefaces: raw.prefaces, ..wishes(1) };
    assert_eq!(raw.refused(&frame(MessageType::Open, &open.encode())).kind, ErrorKind::Draining);
    refused(&serving, "shutting down");
    // A new operation of an old session is refused, the running one goes on to its end.
    let request = Request { name: b"data/new".to_vec(), length: Some(0), mode: 0o644, ..Request::default() };
    running.request(true, 2, &request);
    running.until("Draining", |head, control| match control {
        Control::Exception(error) => {
            assert_eq!((head.operation.0, error.kind), (2, ErrorKind::Draining));
            Some(())
        }
        _ => None,
    });
    running.control(2, &Control::EndOfRange { blocks: 0 });
    running.block(Event::Upload, 1, 0, &[1; BLOCK]);
    running.control(1, &Control::Finish(Finish { length: BLOCK as u64, ..Finish::default() }));
    running.until("COMMITTED", |_, control| matches!(control, Control::Committed { .. }).then_some(()));
    running.control(1, &Control::EndOfRange { blocks: 1 });
    // Records before this one: request, request, EOFR, block, FINISH, EOFR.
    running.control(0, &Control::EndOfTransfer { records: 6 });
    running.until("EOFT", |_, control| matches!(control, Control::EndOfTransfer { .. }).then_some(()));
    serving.ended().unwrap();
    assert_eq!(serving.directory.read("running"), [1; BLOCK]);
}

#[test]
fn b13_however_many_channels_are_asked_for_so_many_are_granted_and_no_more() {
    let serving = Serving::start();
    let most = Policy::default().channels_max;
    for (asked, granted) in [(1, 1), (2, 2), (most, most), (most + 1, most), (u16::MAX, most)] {
        let (session, mut channel) = open(&serving, wishes(asked)).unwrap();
        assert_eq!((session.grant.first, session.grant.count), (1, granted), "{asked}");
        channel.ping();
    }
    // None at all is no wish.
    let mut raw = RawTls::start(&serving);
    let none = Open { prefaces: raw.prefaces, channels: 0, ..wishes(1) };
    assert_eq!(raw.refused(&frame(MessageType::Open, &none.encode())).kind, ErrorKind::Protocol);
}

#[test]
fn b13_ten_thousand_wishes_for_channels_cost_no_more_than_one() {
    let serving = Serving::start();
    let (_, mut channel) = open(&serving, wishes(4)).unwrap();
    for _ in 0..100 {
        for _ in 0..100 {
            channel.control(0, &Control::WantChannels(4096));
        }
        channel.ping();
    }
    let [sessions, opening, threads] = serving.status();
    assert!(sessions == 1 && opening == 0 && threads <= 1, "{:?}", [sessions, opening, threads]);
}
