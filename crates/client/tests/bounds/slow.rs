//! Peers that say nothing, little, or a byte now and then, with the limits that are shipped: they keep nobody out, cost
//! little, and are cut at their deadline (B18, B28).

use super::support::serving::{Serving, Setup};
use super::support::{BLOCK, PATIENCE, assert_same, finish, pattern};
use super::{MIB, alone};
use rustix::net::{AddressFamily, SocketType};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use xdfs_client::{Address, ConnectOptions, Payload, PutOptions, Session};
use xdfs_io::host::resident_bytes;
use xdfs_proto::wire::handshake::{FRAME_BYTES, MessageType, frame};
use xdfs_proto::wire::preface::{ClientPreface, Continuation, PREFACE_BYTES, ServerPreface, Status};
use xdfs_secure::handshake::tls::{Certificates, ClientTls, DATA_BYTES_MAX};
use xdfs_server::{LogEvent, ServerLimits};

/// How a login starts.
const LOGIN: Continuation = Continuation::Tls;

fn shipped() -> Serving {
    Serving::with(Setup { limits: ServerLimits::default(), ..Setup::default() })
}

fn address_of(serving: &Serving) -> SocketAddr {
    let Address::Tcp(address) = serving.address else { panic!("not TCP") };
    address
}

/// A connection whose own address is `from`.
fn connect_from(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((from, 0))).unwrap();
    rustix::net::connect(&socket, &to).unwrap();
    TcpStream::from(socket)
}

/// Waits until the server logs that this limit has bitten.
fn bitten(serving: &Serving, limit: &str) {
    serving.heard(limit, |event| match event {
        LogEvent::Limits { drops, .. } => drops.iter().find(|(name, _)| *name == limit).map(|_| ()),
        _ => None,
    });
}

fn real_transfer(serving: &Serving, channels: u16) -> Duration {
    let started = Instant::now();
    let session = serving.connect(channels);
    let opened = started.elapsed();
    let bytes = pattern(20 * BLOCK, 1);
    let payload = Payload::bytes(bytes.clone()).unwrap();
    finish(&session.put(payload, "data/file", &PutOptions::default()).unwrap()).unwrap();
    assert_same(&serving.directory.read("file"), &bytes);
    session.close().unwrap();
    opened
}

#[test]
fn five_thousand_silent_connections_keep_nobody_out_and_cost_little() {
    let _one = alone();
    let serving = shipped();
    let address = address_of(&serving);
    // What a transfer takes is not what they cost.
    real_transfer(&serving, 4);
    let before = resident_bytes().unwrap();
    // This process holds both ends, and the server closes the oldest.
    let silent: Vec<TcpStream> = (0..5000).map(|_| TcpStream::connect(address).unwrap()).collect();
    is_let_in_soon(&serving, 4, FIRST_BYTES);
    let grown = resident_bytes().unwrap().saturating_sub(before);
    assert!(grown < 20 * MIB, "{} MiB for 5,000 silent connections", grown / MIB);
    assert!(serving.status()[1] <= ServerLimits::default().silent);
    serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
    let told = serving.count(|event| matches!(event, LogEvent::GuestRefused { .. }));
    assert!(told < 1000, "{told} lines for 5,000 connections");
    drop(silent);
}

/// What a slow peer says at first, by its phase.
fn beginning(phase: usize) -> Vec<u8> {
    let preface = |start| ClientPreface::of(start).encode().to_vec();
    match phase {
        0 => Vec::new(),
        1 => preface(LOGIN)[..5].to_vec(),
        2 => preface(LOGIN),
        // The head of a TLS record that promises 512 bytes.
        3 => [preface(LOGIN), vec![22, 3, 1, 2, 0, 1, 0]].concat(),
        4 => preface(Continuation::Join),
        _ => [preface(Continuation::Join), vec![7; 20]].concat(),
    }
}

/// Between two bytes of a peer that drips: too few of them come in its time to complete anything.
const DRIP: Duration = Duration::from_millis(500);

/// Whether the peer has been cut: the server's answer is read away first.
fn is_cut(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 256];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// How long those are there who say nothing.
const FIRST_BYTES: Duration = Duration::from_secs(3);
/// How long those at least who say something, less what it takes to begin all of them.
const OPENING: Duration = Duration::from_secs(8);

/// A real login takes less than a second beside slow peers, while they are there for `lasting`; returns which one did. Others may
/// have the machine for one of them.
#[track_caller]
fn is_let_in_soon(serving: &Serving, channels: u16, lasting: Duration) -> usize {
    let began = Instant::now();
    let mut tries = 1;
    while real_transfer(serving, channels) >= Duration::from_secs(1) {
        let ends_beside_them = began.elapsed() + Duration::from_secs(1) < lasting;
        assert!(ends_beside_them, "{tries} real logins took a second and more");
        tries += 1;
    }
    tries
}

/// The whole first flight of a login from this address, and what the server says to it.
fn greeted(from: Ipv4Addr, to: SocketAddr) -> (Status, TcpStream) {
    let mut stream = connect_from(from, to);
    let (_, mut tls) = ClientTls::start("localhost", &Certificates::Raw).unwrap();
    stream.write_all(&[ClientPreface::of(LOGIN).encode().to_vec(), tls.output()].concat()).unwrap();
    // Less than the slow ones have.
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut answer = [0; PREFACE_BYTES];
    stream.read_exact(&mut answer).expect("an answer");
    let status = ServerPreface::decode(&answer).unwrap().status;
    if status == Status::Available {
        let mut record = [0; 1];
        stream.read_exact(&mut record).expect("its part of the handshake");
    }
    (status, stream)
}

/// A login that was greeted, up to where it says who it is: OPEN, but for its last byte, as large as may be.
fn unfinished(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let mut stream = connect_from(from, to);
    let (_, mut tls) = ClientTls::start("localhost", &Certificates::Raw).unwrap();
    stream.write_all(&[ClientPreface::of(LOGIN).encode().to_vec(), tls.output()].concat()).unwrap();
    stream.read_exact(&mut [0; PREFACE_BYTES]).unwrap();
    while tls.is_handshaking() {
        let mut bytes = vec![0; tls.want()];
        stream.read_exact(&mut bytes).unwrap();
        tls.on_bytes(&bytes).unwrap();
    }
    let payload = vec![0; DATA_BYTES_MAX - FRAME_BYTES];
    let mut open = frame(MessageType::Open, &payload);
    open.truncate(open.len() - 1);
    tls.send(&open).unwrap();
    stream.write_all(&tls.output()).unwrap();
    stream
}

#[test]
fn logins_that_say_much_and_not_all_are_bounded_in_memory() {
    let _one = alone();
    let serving = shipped();
    let address = address_of(&serving);
    real_transfer(&serving, 2);
    let before = resident_bytes().unwrap();
    let most = ServerLimits::default().guests;
    let from = |number: usize| Ipv4Addr::new(127, 0, 4, 1 + (number % 250) as u8);
    let waiting: Vec<TcpStream> = (0..most).map(|number| unfinished(from(number), address)).collect();
    let tried = is_let_in_soon(&serving, 2, OPENING);
    // Each real one took the place of the oldest.
    serving.wait_for_status("the others wait", |state| state[1] == most - tried);
    let each = resident_bytes().unwrap().saturating_sub(before) / most as u64;
    println!("{each} bytes for a login that said nearly all of OPEN");
    assert!(each < OPEN_BYTES_MAX, "{each} bytes for each of {most} logins");
    drop(waiting);
    serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
}

#[test]
fn a_thousand_slow_peers_keep_nobody_out_and_all_are_cut_at_their_deadline() {
    let _one = alone();
    let serving = shipped();
    let address = address_of(&serving);
    let mut slow = Vec::new();
    for number in 0..1000_u16 {
        let from = Ipv4Addr::new(127, 0, 1, 1 + (number % 250) as u8);
        let mut stream = connect_from(from, address);
        stream.set_nonblocking(true).unwrap();
        let _ = stream.write_all(&beginning(usize::from(number) % 6));
        // Who has not said what he is goes on to say nothing.
        let drips = number % 6 >= 2;
        slow.push((Instant::now(), stream, drips));
    }
    is_let_in_soon(&serving, 8, OPENING);

    // From an attacker's address: let in at once, or told why not.
    let (status, _let_in) = greeted(Ipv4Addr::new(127, 0, 1, 1), address);
    let answers = [Status::Available, Status::Busy, Status::TooManyOfYou];
    assert!(answers.contains(&status), "{status:?}");
    // Whoever has begun more than others is told that there is no place.
    let crowd = Ipv4Addr::new(127, 0, 3, 1);
    let begun: Vec<_> = (0..ServerLimits::default().guests_per_source).map(|_| greeted(crowd, address)).collect();
    assert_eq!(begun[0].0, Status::Available);
    let refused = greeted(crowd, address).0;
    assert!([Status::Busy, Status::TooManyOfYou].contains(&refused), "{refused:?}");

    let limits = ServerLimits::default();
    let until = Instant::now() + limits.opening + Duration::from_secs(5);
    let (mut dripped, mut drips_seen) = (Instant::now(), 0);
    while !slow.is_empty() {
        // Another byte now and then, and nobody's time is moved by it.
        let due = dripped.elapsed() > DRIP;
        if due {
            dripped = Instant::now();
        }
        slow.retain_mut(|(started, stream, drips)| {
            let cut = is_cut(stream) || due && *drips && stream.write_all(&[0]).is_err();
            drips_seen += usize::from(due && *drips && !cut);
            let late = started.elapsed() > limits.opening + Duration::from_secs(1);
            assert!(cut || !late, "still there after {:?}", started.elapsed());
            !cut
        });
        assert!(Instant::now() < until);
        std::thread::yield_now();
    }
    assert!(drips_seen > 1000, "{drips_seen} bytes dripped");
    serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
    bitten(&serving, "first_bytes_late");
    bitten(&serving, "logins_full");
}

#[test]
fn a_thousand_channels_of_one_session_join_within_a_second() {
    let _one = alone();
    let serving = shipped();
    let took = || {
        let started = Instant::now();
        let session = Session::connect(&ConnectOptions { channels: 1000, ..serving.options(1000) }).unwrap();
        while session.joined() < 1000 && started.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        let took = started.elapsed();
        assert_eq!(session.joined(), 1000);
        session.close().unwrap();
        println!("1,000 channels took {took:?}");
        took
    };
    // They take a good part of it from both processors, which others may have.
    assert!((0..3).any(|_| took() < Duration::from_secs(1)));
}

#[test]
fn one_user_has_so_many_sessions_and_is_told_when_there_are_no_more() {
    let _one = alone();
    let limits = ServerLimits { sessions_per_user: 3, ..ServerLimits::default() };
    let serving = Serving::with(Setup { limits, ..Setup::default() });
    let sessions: Vec<Session> = (0..3).map(|_| serving.connect(1)).collect();
    let refused = Session::connect(&serving.options(1)).unwrap_err();
    assert_eq!(refused.kind, xdfs_client::ErrorKind::Busy, "{refused}");
    assert!(refused.message.contains("as many sessions"), "{refused}");
    drop(sessions);
    serving.wait_for_status("they are gone", |state| state[0] == 0);
    serving.connect(1).close().unwrap();
}

/// What a login costs before it has proved anything: the handshake's state, whose buffers rustls sizes, and ours.
const LOGIN_BYTES_MAX: u64 = 64 << 10;

/// The same for one that has said as much of OPEN as it may.
const OPEN_BYTES_MAX: u64 = LOGIN_BYTES_MAX + DATA_BYTES_MAX as u64;

#[test]
fn logins_that_stop_half_way_are_bounded_in_number_and_memory() {
    let _one = alone();
    let serving = shipped();
    let address = address_of(&serving);
    real_transfer(&serving, 2);
    let before = resident_bytes().unwrap();
    let most = ServerLimits::default().guests;
    let mut waiting = Vec::new();
    for number in 0..2 * most {
        let from = Ipv4Addr::new(127, 0, 2, 1 + (number % 250) as u8);
        let mut stream = connect_from(from, address);
        let (_, mut tls) = ClientTls::start("localhost", &Certificates::Raw).unwrap();
        let hello = [ClientPreface::of(LOGIN).encode().to_vec(), tls.output()].concat();
        // The whole first flight: the server has answered it and waits for the second.
        if stream.write_all(&hello).is_ok() {
            waiting.push(stream);
        }
    }
    is_let_in_soon(&serving, 2, OPENING);
    let grown = resident_bytes().unwrap().saturating_sub(before);
    let each = grown / most as u64;
    println!("{each} bytes for a login that stopped half way");
    assert!(each < LOGIN_BYTES_MAX, "{each} bytes for each of {most} logins");
    assert!((most / 2..=most + 1).contains(&serving.status()[1]), "{:?}", serving.status());
    drop(waiting);
    serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
}
