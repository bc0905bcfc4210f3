//! B19, the last of its cases: JOINs at random, as many as somebody likes, find nothing and leave nothing behind.

use super::support::pattern;
use super::support::serving::Serving;
use super::{MIB, alone};
use rustix::net::{AddressFamily, SocketType};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;
use xdfs_client::Address;
use xdfs_io::host::resident_bytes;
use xdfs_server::LogEvent;

const JOINS: u64 = 100_000;
/// Threads that say them.
const PEERS: u64 = 4;

/// A connection from one of many addresses, which is reset at its end: so many of one address would run out of ports.
fn connect(number: u64, to: SocketAddr) -> TcpStream {
    let from = Ipv4Addr::new(127, 0, 4, 1 + (number % 250) as u8);
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((from, 0))).unwrap();
    rustix::net::connect(&socket, &to).unwrap();
    rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO)).unwrap();
    TcpStream::from(socket)
}

fn say(number: u64, to: SocketAddr, known: Option<&[u8; 16]>) {
    let mut join = [&b"\x00xdfs\x01\x01\x02"[..], &pattern(66, number)].concat();
    if let Some(id) = known.filter(|_| number.is_multiple_of(2)) {
        join[8..24].copy_from_slice(id);
        join[24..26].copy_from_slice(&((number % 9) as u16).to_be_bytes());
    }
    let mut stream = connect(number, to);
    stream.write_all(&join).unwrap();
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[0], 6, "JOIN {number}");
}

#[test]
fn b19_a_hundred_thousand_random_joins_find_nothing_and_leave_nothing() {
    let _one = alone();
    let serving = Serving::start();
    let Address::Tcp(to) = serving.address else { panic!("it speaks TCP") };
    let session = serving.connect(2);
    let id = serving.heard("a session", |event| match event {
        LogEvent::SessionOpened { session, .. } => Some(session.0),
        _ => None,
    });
    // Half of them name the session that is there.
    let all = |count: u64| {
        std::thread::scope(|scope| {
            for peer in 0..PEERS {
                scope.spawn(move || (peer..count).step_by(PEERS as usize).for_each(|at| say(at, to, Some(&id))));
            }
        });
        serving.forget();
    };
    all(2000);
    let before = resident_bytes().unwrap();
    all(JOINS);
    let grown = resident_bytes().unwrap().saturating_sub(before);
    // Whatever is left of one takes more than 80 bytes; a busy machine has more of them at a time.
    assert!(grown < 8 * MIB, "{} KiB more after {JOINS} JOINs", grown >> 10);
    session.close().unwrap();
    serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
}
