//! B18: a peer that falls silent, or drips a byte now and then, is cut at its deadline in whatever phase it is: the server
//! cuts clients, and a client its server. What a thousand of them at once cost is in `bounds`.

use super::raw::{RawTls, SOON, accepted_in_tls, connect, open, wishes};
use super::support::middle::{Act, Middle, Way, borders};
use super::support::people::{PASSWORD, People, by_key, by_password};
use super::support::serving::{Serving, Setup};
use super::support::{BLOCK, pattern};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use xdfs_client::{ConnectOptions, Error, ErrorKind, GetOptions, Offer, Session, Target};
use xdfs_proto::wire::Event;
use xdfs_proto::wire::handshake::{JOIN_BYTES, MessageType, Open, frame};
use xdfs_proto::wire::preface::{ClientPreface, Continuation, PREFACE_BYTES};
use xdfs_secure::handshake::tls::{Certificates, ClientTls};
use xdfs_secure::policy::Directory;
use xdfs_server::{LogEvent, ServerLimits};

/// Deadlines of the server here, all different, so that none is taken for another, and long beside what a busy machine takes to say
/// the first bytes.
const FIRST_BYTES: Duration = Duration::from_secs(2);
const OPENING: Duration = Duration::from_secs(4);
const IDLE: Duration = Duration::from_secs(3);
/// Between two drops.
const DRIP: Duration = Duration::from_millis(30);

fn serving() -> Serving {
    let limits = ServerLimits { first_bytes: FIRST_BYTES, opening: OPENING, idle: IDLE, ..ServerLimits::roomy() };
    let serving = Serving::with(Setup { limits, directory: Arc::new(People(true)), ..Setup::default() });
    // What is made once for all logins by password takes time, which nobody's deadline here is to pay for.
    assert!(People(true).password("ada").is_some());
    serving
}

/// A connection that has come to some phase, and what could come next, which drips or does not come at all.
type Stalled = (TcpStream, Vec<u8>);

/// A phase, the time that it has, what the server logs at its end, and how it is reached.
type Phase = (&'static str, Duration, &'static str, fn(&Serving) -> Stalled);

/// What a client says first for a password, a key and nobody's login, after these words of TLS.
fn opening(raw: &RawTls, login: u64, credentials: &[u8]) -> Vec<u8> {
    let open = Open { prefaces: raw.prefaces, login, credentials: credentials.to_vec(), ..wishes(1) };
    frame(MessageType::Open, &open.encode())
}

fn half(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.len() / 2)
}

/// The beginning of a TLS record whose end never comes.
const RECORD: [u8; 5] = [23, 3, 3, 0, 99];

fn challenged(serving: &Serving) -> RawTls {
    let mut raw = RawTls::start(serving);
    raw.say(&opening(&raw, 3, b"p=tls-exporter,,n=ada,r=0123456789abcdefgh"));
    assert_eq!(raw.read().expect("an answer").0, MessageType::Challenge);
    raw
}

fn refused(serving: &Serving) -> RawTls {
    let mut raw = RawTls::start(serving);
    // A key that is nobody's: the next one may be offered.
    raw.say(&opening(&raw, 1, &[1; 99]));
    assert_eq!(raw.read().expect("an answer").0, MessageType::Again);
    raw
}

fn tls_hello() -> Vec<u8> {
    let hello = ClientTls::start("localhost", &Certificates::Raw).unwrap().1.output();
    [&ClientPreface::of(Continuation::Tls).encode()[..], &hello].concat()
}

const PHASES: &[Phase] = &[
    ("connected", FIRST_BYTES, "no opening bytes within 2s", |serving| {
        // One byte short of a preface.
        (connect(serving), tls_hello()[..PREFACE_BYTES - 1].to_vec())
    }),
    ("half the first bytes", FIRST_BYTES, "no opening bytes within 2s", |serving| {
        let mut stream = connect(serving);
        stream.write_all(&tls_hello()[..PREFACE_BYTES / 2]).unwrap();
        (stream, tls_hello()[PREFACE_BYTES / 2..PREFACE_BYTES - 1].to_vec())
    }),
    ("before the TLS hello", OPENING, "no handshake within 4s", |serving| {
        let mut stream = connect(serving);
        stream.write_all(&tls_hello()[..PREFACE_BYTES]).unwrap();
        (stream, tls_hello()[PREFACE_BYTES..].to_vec())
    }),
    ("half the TLS hello", OPENING, "no handshake within 4s", |serving| {
        let (mut stream, hello) = (connect(serving), tls_hello());
        let (first, rest) = half(&hello);
        stream.write_all(first).unwrap();
        (stream, rest[..rest.len() - 1].to_vec())
    }),
    ("before the client's Finished", OPENING, "no handshake within 4s", |serving| {
        (RawTls::start(serving).stream, Vec::new())
    }),
    ("after TLS, before the login", OPENING, "no login within 4s", |serving| {
        let mut raw = RawTls::start(serving);
        raw.say(&[]);
        (raw.stream, RECORD.into())
    }),
    ("half an OPEN", OPENING, "no login within 4s", |serving| {
        let mut raw = RawTls::start(serving);
        let open = opening(&raw, 0, b"");
        raw.say(half(&open).0);
        (raw.stream, RECORD.into())
    }),
    ("after the challenge", OPENING, "no login within 4s", |serving| (challenged(serving).stream, RECORD.into())),
    ("half a proof", OPENING, "no login within 4s", |serving| {
        let mut raw = challenged(serving);
        raw.say(half(&frame(MessageType::Proof, b"c=AAAA,r=0123456789abcdefgh,p=AAAA")).0);
        (raw.stream, RECORD.into())
    }),
    ("after a key that was refused", OPENING, "no login within 4s", |serving| (refused(serving).stream, RECORD.into())),
    ("half of the next key", OPENING, "no login within 4s", |serving| {
        let mut raw = refused(serving);
        let open = opening(&raw, 1, &[2; 99]);
        raw.say(half(&open).0);
        (raw.stream, RECORD.into())
    }),
    ("half a JOIN", OPENING, "no JOIN within 4s", |serving| {
        let mut stream = connect(serving);
        let preface = ClientPreface::of(Continuation::Join).encode();
        stream.write_all(&[&preface[..], &[7; JOIN_BYTES / 2]].concat()).unwrap();
        (stream, vec![7; JOIN_BYTES / 2 - 1])
    }),
    ("accepted, and still in TLS", IDLE, "no operation for", |serving| {
        let (stream, mut farewell) = accepted_in_tls(serving);
        farewell.pop();
        (stream, farewell)
    }),
    ("logged in", IDLE, "no operation for", |serving| (open(serving, wishes(1)).unwrap().1.stream, Vec::new())),
    ("half the head of a record", IDLE, "no operation for", |serving| {
        let mut stream = open(serving, wishes(1)).unwrap().1.stream;
        stream.write_all(&[2; 20]).unwrap();
        (stream, vec![0; 20])
    }),
];

/// How long it took until the server had cut the connection; `drops` go out one by one meanwhile, the last one never.
fn until_cut(stream: &mut TcpStream, drops: &[u8], started: Instant) -> Duration {
    stream.set_read_timeout(Some(DRIP)).unwrap();
    let (mut bytes, mut drops) = ([0; 4096], drops.iter());
    while started.elapsed() < SOON {
        match stream.read(&mut bytes) {
            Ok(0) => return started.elapsed(),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                if let Some(drop) = drops.next() {
                    let _ = stream.write_all(&[*drop]);
                }
            }
            Err(_) => return started.elapsed(),
        }
    }
    panic!("it is still there");
}

#[test]
fn b18_a_client_that_stalls_or_drips_is_cut_at_its_deadline_in_every_phase() {
    let serving = &serving();
    std::thread::scope(|scope| {
        for (name, deadline, _, reach) in PHASES {
            for drips in [false, true] {
                scope.spawn(move || {
                    let started = Instant::now();
                    let (mut stream, drops) = reach(serving);
                    let took = until_cut(&mut stream, if drips { &drops } else { &[] }, started);
                    assert!(took >= *deadline, "{name}: cut after {took:?}, drips: {drips}");
                });
            }
        }
    });
    for (name, _, cause, _) in PHASES {
        let wanted = PHASES.iter().filter(|(.., other, _)| other == cause).count() * 2;
        let told = |event: &LogEvent| match event {
            LogEvent::GuestRefused { error, .. } | LogEvent::SessionEnded { error: Some(error), .. } => {
                error.contains(cause)
            }
            _ => false,
        };
        let events = || serving.count(told);
        let until = Instant::now() + SOON;
        while events() < wanted && Instant::now() < until {
            std::thread::yield_now();
        }
        assert_eq!(events(), wanted, "{name}: '{cause}' in {:#?}", serving.events());
    }
    serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
}

#[test]
fn b18_a_session_that_does_nothing_but_answer_is_ended_at_its_time() {
    let serving = serving();
    let started = Instant::now();
    let (session, mut channel) = open(&serving, wishes(1)).unwrap();
    while started.elapsed() < SOON && channel.ask() {}
    let error = serving.heard_within(SOON, "the end of the session", |event| match event {
        LogEvent::SessionEnded { session: id, error, .. } if *id == session.id => Some(error.clone()),
        _ => None,
    });
    assert!(error.is_some_and(|error| error.contains("no operation for")));
    assert!(started.elapsed() >= IDLE && started.elapsed() < SOON);
}

/// Time that the client gives each of its waits.
const PATIENCE: Duration = Duration::from_millis(500);

/// One session with a download in its opening, through `middle`, in which nothing may hang.
fn fetch(serving: &Serving, middle: &Middle, offer: Offer) -> Result<usize, Error> {
    let options = ConnectOptions { deadline: PATIENCE, stall: Some(PATIENCE), ..serving.ada(middle, offer, 1) };
    let (target, got) = Target::memory();
    let (session, transfer) = Session::connect_and_get(&options, "data/file", target, &GetOptions::default())?;
    transfer.wait_for(SOON).expect("an outcome")?;
    drop(session);
    Ok(got.take().map_or(0, |bytes| bytes.len()))
}

#[test]
fn b18_a_server_that_stalls_is_left_at_the_deadline_in_every_phase() {
    let serving = &Serving::with(Setup { directory: Arc::new(People(true)), ..Setup::default() });
    serving.directory.write("file", &pattern(3 * BLOCK, 1));
    for password in [false, true] {
        let offer = || if password { by_password(PASSWORD) } else { by_key(1) };
        let middle = Middle::before(&serving.address);
        // Where the deadline of the whole is short a slow machine may not come to the end, so the course is seen first.
        let seen = (0..20).find_map(|line| fetch(serving, &middle, offer()).ok().map(|_| middle.seen(line)));
        let seen = seen.expect("a session that nothing stops");
        let (tls, records) = borders(&seen.bytes[Way::Down as usize]);
        // Behind FINISH the client has all that it asked for.
        // ACCEPT ends there; the server's farewell is awaited by the session.
        let opened = tls[tls.len() - 2];
        let starts = tls.last().into_iter().chain(&records);
        let down = &seen.bytes[Way::Down as usize];
        let finish = starts.clone().position(|start| down[*start] == Event::Finish as u8).expect("FINISH");
        let places = tls.iter().chain(&records[..finish]).flat_map(|border| [border - 3, *border]);
        std::thread::scope(|scope| {
            for at in std::iter::once(0).chain(places) {
                scope.spawn(move || {
                    let middle = Middle::before(&serving.address);
                    middle.act(Act::Hold { way: Way::Down, at });
                    let started = Instant::now();
                    let result = fetch(serving, &middle, offer());
                    let error = result.expect_err("its end never came");
                    // Behind the opening it is a channel that is given up.
                    let lost = at >= opened && error.kind == ErrorKind::ConnectionLost;
                    assert!(lost || error.kind == ErrorKind::TimedOut, "byte {at}: {error}");
                    assert!(started.elapsed() >= PATIENCE, "byte {at}: {:?}", started.elapsed());
                });
            }
        });
    }
}

#[test]
fn b18_a_channel_whose_join_is_not_answered_keeps_no_transfer_and_no_close_waiting() {
    let serving = Serving::start();
    let middle = Middle::before(&serving.address);
    middle.act(Act::HoldLater);
    let deadline = Duration::from_secs(2);
    let options = ConnectOptions { address: middle.address.clone(), deadline, ..serving.options(3) };
    let session = Session::connect(&options).unwrap();
    let started = Instant::now();
    let error = loop {
        if let Some(error) = session.join_failure() {
            break error;
        }
        assert!(started.elapsed() < SOON, "nobody says that channels did not join");
        std::thread::yield_now();
    };
    assert!(error.message.contains("2 channel(s) did not join in time"), "{error}");
    assert_eq!(session.joined(), 1);
    let bytes = pattern(3 * BLOCK, 4);
    let payload = xdfs_client::Payload::bytes(bytes.clone()).unwrap();
    super::support::finish(&session.put(payload, "data/up", &xdfs_client::PutOptions::default()).unwrap()).unwrap();
    super::support::assert_same(&serving.directory.read("up"), &bytes);
    session.close().unwrap();
}
