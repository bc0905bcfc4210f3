//! One suite over the implementations of the transport room, TCP over both families and Unix, and what each has alone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use rustix::net::sockopt;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use tempfile::TempDir;
use xdfs_io::buf::Buffer;
use xdfs_io::dispatch::{Body, Completion, Dispatch, End, Epoll, Op};
use xdfs_io::stack::Count;
use xdfs_io::transport::{self, Address, Link, Peer, TransportError, TransportOptions};
use xdfs_proto::base::{Duration, Error, ErrorKind};

/// Where an implementation listens in a test: a free port, or a new name.
struct Place {
    address: Address,
    _directory: Option<TempDir>,
}

fn tcp4() -> Place {
    Place { address: "127.0.0.1:0".parse::<SocketAddr>().unwrap().into(), _directory: None }
}

fn tcp6() -> Place {
    Place { address: "[::1]:0".parse::<SocketAddr>().unwrap().into(), _directory: None }
}

fn unix() -> Place {
    let directory = tempfile::tempdir().unwrap();
    Place { address: Address::Unix(directory.path().join("socket")), _directory: Some(directory) }
}

/// Runs each function once per implementation.
macro_rules! over_all_members {
    ($($test:ident,)*) => {
        mod over_tcp_4 { $(#[test] fn $test() { super::$test(&super::tcp4()); })* }
        mod over_tcp_6 { $(#[test] fn $test() { super::$test(&super::tcp6()); })* }
        mod over_unix { $(#[test] fn $test() { super::$test(&super::unix()); })* }
    };
}

over_all_members! {
    bytes_go_both_ways_and_the_end_follows_them,
    a_file_goes_around_the_program,
    a_window_is_applied_to_both_ends,
    a_send_buffer_is_applied_alone_and_wins,
    a_place_that_is_taken_is_refused_by_name,
    where_nobody_listens_the_connection_is_refused,
    both_ends_know_that_they_are_on_one_host,
    a_link_is_non_blocking_and_not_inherited,
}

/// A connection: the dispatcher's connecting and accepting links.
fn pair(place: &Place, options: &TransportOptions) -> (Link, Link) {
    let listener = transport::listen(&place.address, options).unwrap();
    let address = listener.local().unwrap();
    connect_and_accept(&address, listener, options)
}

fn connect_and_accept(address: &Address, listener: Link, options: &TransportOptions) -> (Link, Link) {
    let mut dispatcher = Epoll::new().unwrap();
    let calling = dispatcher.attach(transport::connect(address, options).unwrap(), &[]).unwrap();
    let listening = dispatcher.attach(listener, &[]).unwrap();
    dispatcher.submit(Op::Connect { socket: calling });
    dispatcher.submit(Op::Accept { socket: listening });
    let mut accepted = None;
    for _ in 0..2 {
        match dispatcher.next(None).unwrap() {
            Completion::Connected { .. } => {}
            Completion::Accepted { link, .. } => accepted = Some(link),
            other => panic!("{other:?}"),
        }
    }
    let accepted = accepted.unwrap();
    transport::settle(&accepted, options).unwrap();
    (dispatcher.detach(calling, &mut Vec::new()).link, accepted)
}

fn bytes_go_both_ways_and_the_end_follows_them(place: &Place) {
    let (one, other) = pair(place, &TransportOptions::default());
    let mut dispatcher = Epoll::new().unwrap();
    let sockets = [dispatcher.attach(one, &[]).unwrap(), dispatcher.attach(other, &[]).unwrap()];
    for socket in sockets {
        dispatcher.submit(Op::Send { socket, head: None, body: Body::Bytes(vec![socket.0 as u8; 100_000]) });
    }
    for socket in sockets {
        assert!(matches!(dispatcher.next(None).unwrap(), Completion::Sent { .. }));
        dispatcher.finish_sending(socket).unwrap();
    }
    for (socket, peer) in [(sockets[0], sockets[1]), (sockets[1], sockets[0])] {
        let mut received = 0;
        loop {
            dispatcher.submit(Op::Some { socket, limit: 100_000 });
            match dispatcher.next(None).unwrap() {
                Completion::Some { length, .. } => received += length,
                Completion::Ended { cause: End::Closed, .. } => break,
                other => panic!("{other:?}"),
            }
            assert!(dispatcher.scratch().iter().all(|byte| *byte == peer.0 as u8));
        }
        assert_eq!(received, 100_000);
    }
}

fn a_file_goes_around_the_program(place: &Place) {
    const LENGTH: usize = 3 << 20;
    let (one, other) = pair(place, &TransportOptions::default());
    let mut dispatcher = Epoll::<Count<Link>>::new().unwrap();
    let from = dispatcher.attach(Count::new(one), &[]).unwrap();
    let to = dispatcher.attach(Count::new(other), &[]).unwrap();
    let bytes: Vec<u8> = (0..LENGTH).map(|place| (place * 7 % 253) as u8).collect();
    let file = rustix::fs::memfd_create("source", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    assert_eq!(rustix::io::pwrite(&file, &bytes, 0).unwrap(), LENGTH);
    let file = dispatcher.open_file(file);
    let body = Body::File { file, offset: 0, length: LENGTH as u64 };
    dispatcher.submit(Op::Send { socket: from, head: None, body });
    dispatcher.submit(Op::Fill { socket: to, buffer: Buffer::new(LENGTH).unwrap(), from: 0, to: LENGTH });
    for _ in 0..2 {
        match dispatcher.next(None).unwrap() {
            Completion::Sent { short_by: 0, .. } => {}
            Completion::Filled { buffer, .. } => assert!(buffer.payload() == bytes),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(dispatcher.link(from).counts().sent_directly, LENGTH as u64);
}

/// What the kernel makes of a size: twice as much, for its own overhead.
const ASKED: u32 = 100_000;
const EFFECTIVE: usize = 200_000;

fn a_window_is_applied_to_both_ends(place: &Place) {
    let (one, other) = pair(place, &TransportOptions { window: Some(ASKED), ..TransportOptions::default() });
    assert_eq!((one.window().unwrap().send, one.window().unwrap().receive), (EFFECTIVE, EFFECTIVE));
    // A Unix socket that is accepted has the system's sizes; TCP takes the listener's, which its handshake announced.
    if matches!(place.address, Address::Tcp(_)) {
        assert_eq!((other.window().unwrap().send, other.window().unwrap().receive), (EFFECTIVE, EFFECTIVE));
    }
}

fn a_send_buffer_is_applied_alone_and_wins(place: &Place) {
    let (plain, _) = pair(place, &TransportOptions::default());
    let place = Place { address: plain_again(&place.address), _directory: None };
    let alone = TransportOptions { send_buffer: Some(ASKED), ..TransportOptions::default() };
    let (one, _) = pair(&place, &alone);
    assert_eq!(one.window().unwrap().send, EFFECTIVE);
    assert_eq!(one.window().unwrap().receive, plain.window().unwrap().receive, "the other side is left alone");
    let place = Place { address: plain_again(&place.address), _directory: None };
    let (both, _) = pair(&place, &TransportOptions { window: Some(50_000), ..alone });
    assert_eq!((both.window().unwrap().send, both.window().unwrap().receive), (EFFECTIVE, 100_000));
}

/// The address for a further listener: the same free port 0, or the path after its socket was removed.
fn plain_again(address: &Address) -> Address {
    if let Address::Unix(path) = address {
        std::fs::remove_file(path).unwrap();
    }
    address.clone()
}

fn a_place_that_is_taken_is_refused_by_name(place: &Place) {
    let listener = transport::listen(&place.address, &TransportOptions::default()).unwrap();
    let address = listener.local().unwrap();
    let error = transport::listen(&address, &TransportOptions::default()).unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with(&format!("cannot listen at {address}: ")), "{message}");
    assert_eq!(Error::from(error).kind, ErrorKind::AlreadyExists);
}

fn where_nobody_listens_the_connection_is_refused(place: &Place) {
    let listener = transport::listen(&place.address, &TransportOptions::default()).unwrap();
    let address = listener.local().unwrap();
    drop(listener);
    let refused = rustix::io::Errno::CONNREFUSED.raw_os_error();
    match transport::connect(&address, &TransportOptions::default()) {
        Err(error) => assert_eq!(error.io().unwrap().raw_os_error(), Some(refused)),
        Ok(link) => {
            let mut dispatcher = Epoll::new().unwrap();
            let socket = dispatcher.attach(link, &[]).unwrap();
            dispatcher.submit(Op::Connect { socket });
            match dispatcher.next(None).unwrap() {
                Completion::Ended { cause, .. } => assert_eq!(cause, End::Failed(refused)),
                other => panic!("{other:?}"),
            }
        }
    }
}

fn both_ends_know_that_they_are_on_one_host(place: &Place) {
    let (one, other) = pair(place, &TransportOptions::default());
    assert!(one.is_local() && other.is_local());
    if let Address::Tcp(_) = place.address {
        let Address::Tcp(local) = one.local().unwrap() else { panic!("a TCP address") };
        assert_eq!(other.peer().unwrap(), Peer::Tcp(local));
    } else {
        assert_eq!(other.peer().unwrap(), Peer::Unix);
        assert_eq!(other.local().unwrap(), place.address);
        assert_eq!((one.congestion_name(), one.tcp_info()), (None, None));
    }
}

fn a_link_is_non_blocking_and_not_inherited(place: &Place) {
    let (one, other) = pair(place, &TransportOptions::default());
    for link in [&one, &other] {
        assert!(rustix::fs::fcntl_getfl(link).unwrap().contains(rustix::fs::OFlags::NONBLOCK));
        assert!(rustix::io::fcntl_getfd(link).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    }
    assert_ne!(one.as_fd().as_raw_fd(), other.as_fd().as_raw_fd());
}

#[test]
fn both_ends_of_a_connection_find_out_that_a_silent_peer_is_gone() {
    for place in [tcp4(), tcp6()] {
        let (one, other) = pair(&place, &TransportOptions::default());
        for link in [one, other] {
            assert!(sockopt::socket_keepalive(&link).unwrap());
            let probes = sockopt::tcp_keepintvl(&link).unwrap() * sockopt::tcp_keepcnt(&link).unwrap();
            let found = sockopt::tcp_keepidle(&link).unwrap() + probes;
            assert!(found <= std::time::Duration::from_secs(120), "{found:?}");
        }
    }
}

#[test]
fn a_connection_within_one_host_does_not_pace() {
    for place in [tcp4(), tcp6()] {
        let (one, other) = pair(&place, &TransportOptions::default());
        for link in [one, other] {
            let name = link.congestion_name().unwrap();
            assert!(!name.starts_with("bbr"), "{name}");
        }
    }
}

#[test]
fn a_named_congestion_control_is_used_at_both_ends() {
    let options = TransportOptions { congestion: Some("reno".to_owned()), ..TransportOptions::default() };
    let (one, other) = pair(&tcp4(), &options);
    assert_eq!(one.congestion_name().unwrap(), "reno");
    assert_eq!(other.congestion_name().unwrap(), "reno");
}

#[test]
fn an_unknown_congestion_control_is_refused_and_the_known_are_listed() {
    let options = TransportOptions { congestion: Some("warp\n".to_owned()), ..TransportOptions::default() };
    for error in [
        transport::listen(&tcp4().address, &options).unwrap_err(),
        transport::connect(&tcp4().address, &options).unwrap_err(),
    ] {
        assert!(matches!(error, TransportError::Congestion { .. }), "{error:?}");
        let message = error.to_string();
        assert!(message.contains("'warp\\n'"), "{message}");
        assert!(message.contains("reno"), "the kernel always has this one: {message}");
        assert_eq!(Error::from(error).kind, ErrorKind::Unsupported);
    }
}

#[test]
fn tcp_tells_what_was_acknowledged() {
    let (one, other) = pair(&tcp4(), &TransportOptions::default());
    let mut dispatcher = Epoll::new().unwrap();
    let (from, to) = (dispatcher.attach(one, &[]).unwrap(), dispatcher.attach(other, &[]).unwrap());
    dispatcher.submit(Op::Send { socket: from, head: None, body: Body::Zero { length: 12_345 } });
    dispatcher.submit(Op::Small { socket: to, length: 12_345 });
    for _ in 0..2 {
        dispatcher.next(None).unwrap();
    }
    let info = dispatcher.link(to).tcp_info().unwrap();
    assert_eq!(info.bytes_received, 12_345);
    // The acknowledgement may be delayed; the peer's FIN carries it.
    drop(dispatcher.detach(to, &mut Vec::new()));
    dispatcher.submit(Op::Some { socket: from, limit: 1 });
    assert!(matches!(dispatcher.next(None).unwrap(), Completion::Ended { cause: End::Closed, .. }));
    let info = dispatcher.link(from).tcp_info().unwrap();
    // The handshake's own SYN counts as one byte.
    assert!((12_345..=12_346).contains(&info.bytes_acked), "{info:?}");
    assert!(info.rtt_us > 0 && info.congestion_window > 0 && info.retransmits == 0, "{info:?}");
}

#[test]
fn the_unspecified_ipv6_address_takes_ipv4_as_well() {
    let any: SocketAddr = "[::]:0".parse().unwrap();
    let listener = transport::listen(&any.into(), &TransportOptions::default()).unwrap();
    let Address::Tcp(bound) = listener.local().unwrap() else { panic!("a TCP address") };
    let four: SocketAddr = format!("127.0.0.1:{}", bound.port()).parse().unwrap();
    let (one, other) = connect_and_accept(&four.into(), listener, &TransportOptions::default());
    assert!(one.is_local() && other.is_local(), "also where one end sees a mapped address");
}

#[test]
fn connecting_to_a_full_tcp_backlog_ends_at_the_callers_deadline() {
    // A backlog of the test's own, since the room's is 4,096: one place, never accepted.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = Address::from(listener.local_addr().unwrap());
    let mut dispatcher = Epoll::new().unwrap();
    let options = TransportOptions::default();
    let mut connected = 0;
    for _ in 0..4 {
        let link = transport::connect(&address, &options).unwrap();
        let socket = dispatcher.attach(link, &[]).unwrap();
        dispatcher.submit(Op::Connect { socket });
    }
    let deadline = dispatcher.now().after(Duration::from_millis(300));
    loop {
        match dispatcher.next(Some(deadline)).unwrap() {
            Completion::Connected { .. } => connected += 1,
            Completion::Deadline => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(connected < 4, "the queue holds one or two");
    assert!(dispatcher.now() >= deadline);
}

#[test]
fn connecting_to_a_full_unix_backlog_fails_at_once() {
    let place = unix();
    let Address::Unix(path) = &place.address else { panic!("a path") };
    let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let attempts = (0..4).map(|_| transport::connect(&place.address, &TransportOptions::default()));
    let results: Vec<_> = attempts.collect();
    let error = results.into_iter().find_map(Result::err).unwrap();
    assert_eq!(Error::from(error).kind, ErrorKind::Busy);
}

#[test]
fn a_socket_path_that_is_too_long_is_refused_by_name() {
    let path = Address::Unix(PathBuf::from(format!("/tmp/{}", "x".repeat(200))));
    let error = transport::listen(&path, &TransportOptions::default()).unwrap_err();
    assert!(matches!(error, TransportError::PathTooLong { .. }));
    assert!(error.to_string().contains("xxx"), "{error}");
}
