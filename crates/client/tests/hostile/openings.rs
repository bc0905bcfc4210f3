//! Bytes before a session: wrong, altered, random, late, or none.

use super::raw::{Beside, RawChannel, connect, open, read_to_end, wishes};
use super::support::serving::{Serving, Setup};
use super::support::{BLOCK, pattern};
use std::io::{Read, Write};
use std::time::{Duration, Instant};
use xdfs_client::{ErrorKind, Level};
use xdfs_proto::wire::Event;
use xdfs_proto::wire::control::Control;
use xdfs_proto::wire::handshake::{ExtendedOption, MessageType, Open, decode_refusal, frame};
use xdfs_proto::wire::request::Request;
use xdfs_server::{LogEvent, ServerLimits};

const HELLO: [u8; 32] = [5; 32];
/// What a server answers a client of version 1 and start 0.
const SERVER: [u8; 8] = *b"\x01xdfs\x01\x00\x00";
const CLIENT: [u8; 8] = *b"\x00xdfs\x01\x01\x00";

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
        (*b"\x01xdfs\x01\x01\x00", 2),
        (*b"\x02xdfs\x01\x01\x00", 2),
        (*b"\xffxdfs\x01\x01\x00", 2),
        (*b"\x00xdfs\x02\x09\x00", 3),
        (*b"\x00xdfs\x01\x01\x01", 4),
        (*b"\x00xdfs\x01\x01\x09", 4),
        (*b"\x00ydfs\x01\x01\x00", 7),
        (*b"GET / HT", 7),
    ] {
        let mut stream = connect(&serving);
        stream.write_all(&preface).unwrap();
        // A client may send its HELLO in the same flight.
        stream.write_all(&frame(MessageType::Hello, &HELLO)).unwrap();
        let answer = read_to_end(&mut stream);
        assert_eq!((answer.len(), answer[0], &answer[1..5]), (8, status, &b"xdfs"[..]), "{preface:?}");
    }
    beside.go_on();
    beside.finish();
}

/// Sends a good preface and HELLO, then `bytes`; the server's REFUSE.
fn refusal_of(serving: &Serving, bytes: &[u8]) -> xdfs_client::Error {
    let mut stream = connect(serving);
    stream.write_all(&CLIENT).unwrap();
    stream.write_all(&frame(MessageType::Hello, &HELLO)).unwrap();
    stream.write_all(bytes).unwrap();
    let answer = read_to_end(&mut stream);
    // Preface, HELLO, REFUSE.
    assert!(answer.len() > 8 + 36 + 4, "{answer:?}");
    assert_eq!(answer[44], MessageType::Refuse as u8);
    decode_refusal(&answer[48..]).unwrap()
}

#[test]
fn a_handshake_that_is_wrong_is_refused_with_its_cause() {
    let serving = Serving::start();
    let beside = Beside::start(&serving);
    let prefaces: [u8; 16] = [CLIENT, SERVER].concat().try_into().unwrap();
    let good = Open { prefaces, ..wishes(1) };
    let opening = |open: &Open| frame(MessageType::Open, &open.encode());
    // Every byte of the prefaces that is altered is a downgrade.
    for byte in 0..16 {
        let mut altered = good.clone();
        altered.prefaces[byte] ^= 1;
        assert_eq!(refusal_of(&serving, &opening(&altered)).kind, ErrorKind::Downgrade, "byte {byte}");
    }
    let kind = |bytes: &[u8]| refusal_of(&serving, bytes).kind;
    assert_eq!(kind(&[2, 1, 0, 1]), ErrorKind::Protocol, "a frame that is too long");
    assert_eq!(kind(&[9, 0, 0, 0]), ErrorKind::Protocol, "an unknown message");
    assert_eq!(kind(&frame(MessageType::Accept, &[])), ErrorKind::Protocol, "a server's message");
    let mut trailing = good.encode();
    trailing.push(0);
    assert_eq!(kind(&frame(MessageType::Open, &trailing)), ErrorKind::Protocol, "bytes behind the message");
    assert_eq!(kind(&frame(MessageType::Open, &good.encode()[..40])), ErrorKind::Protocol, "a message cut short");
    assert_eq!(kind(&opening(&Open { level: Level::Private, ..good.clone() })), ErrorKind::Unsupported);
    assert_eq!(kind(&opening(&Open { login: 3, ..good.clone() })), ErrorKind::Unsupported);
    let option = ExtendedOption { key: 77, critical: true, value: vec![1] };
    assert_eq!(kind(&opening(&Open { options: vec![option], ..good })), ErrorKind::Unsupported);
    beside.finish();
}

#[test]
fn random_bytes_end_and_leave_nothing() {
    let limits = ServerLimits { opening: Duration::from_millis(500), ..ServerLimits::roomy() };
    let serving = Serving::with(Setup { limits, ..Setup::default() });
    let mut beside = Beside::start(&serving);
    let prefaces: [u8; 16] = [CLIENT, SERVER].concat().try_into().unwrap();
    let open = frame(MessageType::Open, &Open { prefaces, ..wishes(1) }.encode());
    let good = [&CLIENT[..], &frame(MessageType::Hello, &HELLO), &open].concat();
    let mut streams = Vec::new();
    for seed in 0..240_u64 {
        // Enough for a head, so that nothing is taken for a slow peer.
        let noise = pattern(60 + (seed as usize * 37) % 700, seed);
        // Noise from the start, or behind a good beginning, up to behind the whole opening.
        let prefix = [0, 8, 12, 44, 48, good.len()][seed as usize % 6];
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
    let limits = ServerLimits { opening: Duration::from_millis(500), ..ServerLimits::roomy() };
    let serving = Serving::with(Setup { limits, ..Setup::default() });
    let mut beside = Beside::start(&serving);
    let prefaces: [u8; 16] = [CLIENT, SERVER].concat().try_into().unwrap();
    let opening = frame(MessageType::Open, &Open { prefaces, ..wishes(1) }.encode());
    let opening = [&CLIENT[..], &frame(MessageType::Hello, &HELLO), &opening].concat();
    let (session, mut first) = open(&serving, wishes(2)).unwrap();
    let (_, join) = session.join_bytes(2);
    let mut stalled = Vec::new();
    for flight in [&opening, &join] {
        for length in 0..flight.len() {
            let mut stream = connect(&serving);
            stream.write_all(&flight[..length]).unwrap();
            stalled.push((Instant::now(), stream));
        }
    }
    beside.go_on();
    for (started, mut stream) in stalled {
        read_to_end(&mut stream);
        assert!(started.elapsed() < super::raw::SOON, "cut after {:?}", started.elapsed());
    }
    for phase in ["no opening bytes within", "no handshake within", "no OPEN within", "no JOIN within"] {
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
    let mut stream = connect(&serving);
    stream.write_all(&CLIENT).unwrap();
    stream.write_all(&frame(MessageType::Hello, &HELLO)).unwrap();
    let mut hello = [0; 44];
    stream.read_exact(&mut hello).unwrap();
    serving.handle.drain();
    running.until("DRAIN", |_, control| matches!(control, Control::Drain { .. }).then_some(()));
    let prefaces: [u8; 16] = [CLIENT, SERVER].concat().try_into().unwrap();
    stream.write_all(&frame(MessageType::Open, &Open { prefaces, ..wishes(1) }.encode())).unwrap();
    let answer = read_to_end(&mut stream);
    assert_eq!(decode_refusal(&answer[4..]).unwrap().kind, ErrorKind::Draining);
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
    running.control(1, &Control::Finish { length: BLOCK as u64, root: Vec::new() });
    running.until("COMMITTED", |_, control| matches!(control, Control::Committed { .. }).then_some(()));
    running.control(1, &Control::EndOfRange { blocks: 1 });
    // Records before this one: request, request, EOFR, block, FINISH, EOFR.
    running.control(0, &Control::EndOfTransfer { records: 6 });
    running.until("EOFT", |_, control| matches!(control, Control::EndOfTransfer { .. }).then_some(()));
    serving.ended().unwrap();
    assert_eq!(serving.directory.read("running"), [1; BLOCK]);
}
