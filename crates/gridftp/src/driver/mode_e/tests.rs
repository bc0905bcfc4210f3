//! What `mode_e` promises, over real connections of the stacks below it, and beside peers that keep
//! no rule.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "in a test a panic is the finding")]

use super::ModeE;
use crate::mode_e::Head;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use xdfs_xio::{Answer, ErrorKind, Handle, Options, Registry, Server, Stack, Timeouts};

fn stack(text: &str) -> Stack {
    let mut registry = Registry::built_in();
    registry.add("mode_e", Arc::new(ModeE)).unwrap();
    Stack::of(Arc::new(registry)).push_all(text).unwrap()
}

fn options() -> Options {
    let limit = Some(Duration::from_secs(30));
    Options { timeouts: Timeouts { open: limit, read: limit, write: limit, close: limit } }
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 % 251) as u8 ^ (at >> 12) as u8).collect()
}

/// What arrives through `receiving` of `sent`, which goes through `sending` in pieces.
fn arrived(sending: &str, receiving: &str, sent: &[u8], piece: usize) -> Vec<u8> {
    let server = Server::listen(&stack(receiving), "127.0.0.1:0").unwrap();
    let contact = server.contact().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let handle = Handle::open(&stack(sending), &contact, &options()).unwrap();
            for part in sent.chunks(piece) {
                assert_eq!(handle.write(part).unwrap(), part.len());
            }
            handle.close().unwrap();
        });
        let handle = server.accept(Some(Duration::from_secs(30))).unwrap().open(&options()).unwrap();
        read_all(&handle).unwrap()
    })
}

fn read_all(handle: &Handle) -> xdfs_xio::Result<Vec<u8>> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 100_000]);
    loop {
        let received = handle.read(&mut buffer, 1)?;
        all.extend_from_slice(&buffer[..received.bytes]);
        if received.info.end {
            return Ok(all);
        }
    }
}

#[test]
fn bytes_arrive_in_order_over_any_number_of_connections_of_any_stack() {
    let sent = content(9_000_001);
    for (sending, receiving) in [
        ("tcp,mode_e", "tcp,mode_e,ordering"),
        ("tcp,mode_e:streams=4", "tcp,mode_e,ordering"),
        ("tcp,mode_e:streams=16;block=10000", "tcp,mode_e,ordering"),
        ("tcp,noop,zstd,mode_e:streams=3", "tcp,noop,zstd,mode_e,ordering"),
    ] {
        for piece in [1 << 20, 77_777] {
            assert!(arrived(sending, receiving, &sent, piece) == sent, "{sending} {piece}");
        }
    }
    assert_eq!(arrived("tcp,mode_e:streams=5", "tcp,mode_e,ordering", b"", 1), b"");
}

#[test]
fn a_listener_serves_one_transfer_after_the_other() {
    let server = Server::listen(&stack("tcp,mode_e,ordering"), "127.0.0.1:0").unwrap();
    let contact = server.contact().unwrap();
    for round in 0..5_usize {
        let sent = content(300_000 + round);
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| {
                let handle = Handle::open(&stack("tcp,mode_e:streams=3"), &contact, &options()).unwrap();
                handle.write(&sent).unwrap();
                handle.close().unwrap();
            });
            let handle = server.accept(Some(Duration::from_secs(30))).unwrap().open(&options()).unwrap();
            assert!(read_all(&handle).unwrap() == sent);
            sending.join().unwrap();
        });
    }
}

#[test]
fn a_block_has_its_offset_and_each_end_its_direction() {
    let server = Server::listen(&stack("tcp,mode_e"), "127.0.0.1:0").unwrap();
    let sender = Handle::open(&stack("tcp,mode_e"), &server.contact().unwrap(), &options()).unwrap();
    sender.write(b"abc").unwrap();
    sender.write(b"de").unwrap();
    let receiver = server.accept(Some(Duration::from_secs(30))).unwrap().open(&options()).unwrap();
    let mut buffer = [0; 10];
    let first = receiver.read(&mut buffer, 1).unwrap();
    assert_eq!((first.bytes, first.info.offset), (3, Some(0)));
    let second = receiver.read(&mut buffer, 1).unwrap();
    assert_eq!((second.bytes, second.info.offset), (2, Some(3)));
    for error in [receiver.write(b"x").unwrap_err(), sender.read(&mut buffer, 1).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("mode_e is one-way"), "{error}");
    }
}

/// The error that a receiver has of connections that say this; each closes when it has.
fn refused(connections: &[Vec<u8>]) -> String {
    let server = Server::listen(&stack("tcp,mode_e"), "127.0.0.1:0").unwrap();
    let contact = server.contact().unwrap();
    let mut peers: Vec<_> = connections.iter().map(|_| TcpStream::connect(&contact).unwrap()).collect();
    let receiver = server.accept(Some(Duration::from_secs(30))).unwrap().open(&options()).unwrap();
    for (peer, bytes) in peers.iter_mut().zip(connections) {
        peer.write_all(bytes).unwrap();
    }
    drop(peers);
    read_all(&receiver).unwrap_err().to_string()
}

#[test]
fn peers_that_keep_no_rule_are_refused() {
    let data = |count, offset, bytes: &[u8]| [&Head::Data { count, offset, last: false }.encode(), bytes].concat();
    let file = |ends, last| Head::File { ends, last }.encode().to_vec();
    let cases: [(&[Vec<u8>], &str); 7] = [
        (&[data(10, 0, b"half")], "closed before its end was marked"),
        (&[data(1, 0, b"x")[..9].to_vec()], "closed before its end was marked"),
        (&[[&[0x01][..], &[0; 16]].concat()], "descriptor is 0x01"),
        (&[file(0, true)], "0 data connections end"),
        (&[file(65, true)], "65 data connections end"),
        (&[[file(2, false), file(2, false)].concat()], "the end of the file twice"),
        (&[data(2, u64::MAX - 1, b"xx")], "outside the file"),
    ];
    for (connections, text) in cases {
        let told = refused(connections);
        assert!(told.contains(text), "{told}");
    }
}

#[test]
fn a_stranger_who_says_nothing_and_blocks_without_bytes_stop_nobody() {
    let server = Server::listen(&stack("tcp,mode_e,ordering"), "127.0.0.1:0").unwrap();
    let contact = server.contact().unwrap();
    let mut peer = TcpStream::connect(&contact).unwrap();
    let receiver = server.accept(Some(Duration::from_secs(30))).unwrap().open(&options()).unwrap();
    drop(TcpStream::connect(&contact).unwrap());
    let mut bytes = Vec::new();
    for _ in 0..10_000 {
        bytes.extend(Head::Data { count: 0, offset: 0, last: false }.encode());
    }
    bytes.extend(Head::Data { count: 5, offset: 0, last: true }.encode());
    bytes.extend(b"there");
    peer.write_all(&bytes).unwrap();
    let mut second = TcpStream::connect(&contact).unwrap();
    second.write_all(&Head::File { ends: 2, last: true }.encode()).unwrap();
    assert_eq!(read_all(&receiver).unwrap(), b"there");
}

#[test]
fn numbers_out_of_bounds_are_refused_by_name() {
    for (text, named) in [("streams=0", "'streams' is 0"), ("streams=65", "'streams' is 65"), ("block=5MiB", "'block'")]
    {
        let error = Handle::open(&stack(&format!("tcp,mode_e:{text}")), "127.0.0.1:1", &options()).unwrap_err();
        assert!(error.kind() == ErrorKind::Usage && error.to_string().contains(named), "{error}");
    }
}

#[test]
fn blocks_go_to_the_connections_in_turn() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let contact = listener.local_addr().unwrap().to_string();
    let sender = Handle::open(&stack("tcp,mode_e:streams=4;block=1000"), &contact, &options()).unwrap();
    let peers: Vec<_> = (0..4).map(|_| listener.accept().unwrap().0).collect();
    for part in content(8_000).chunks(1_000) {
        sender.write(part).unwrap();
    }
    sender.close().unwrap();
    for mut peer in peers {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut peer, &mut bytes).unwrap();
        // Two blocks, and the mark of the end.
        assert_eq!(bytes.len(), 2 * (crate::mode_e::HEAD_BYTES + 1_000) + crate::mode_e::HEAD_BYTES);
    }
}

#[test]
fn connections_come_and_go_while_a_sender_sends() {
    let server = Server::listen(&stack("tcp,mode_e,ordering"), "127.0.0.1:0").unwrap();
    let contact = server.contact().unwrap();
    let sent = content(6_000_001);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let sender = Handle::open(&stack("tcp,mode_e:block=10000"), &contact, &options()).unwrap();
            for (part, streams) in sent.chunks(1_000_000).zip([1, 4, 16, 2, 5, 1, 3]) {
                let told = sender.control(Some("mode_e"), "streams", Some(&streams.to_string())).unwrap();
                assert_eq!(told, Answer::Number(streams));
                assert_eq!(sender.write(part).unwrap(), part.len());
            }
            sender.close().unwrap();
        });
        let receiver = server.accept(Some(Duration::from_secs(30))).unwrap().open(&options()).unwrap();
        assert!(read_all(&receiver).unwrap() == sent);
    });
}

#[test]
fn a_connection_that_a_sender_ends_is_closed_and_one_that_it_adds_is_marked() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let contact = listener.local_addr().unwrap().to_string();
    let sender = Handle::open(&stack("tcp,mode_e:streams=2;block=1000"), &contact, &options()).unwrap();
    let mut peers: Vec<_> = (0..2).map(|_| listener.accept().unwrap().0).collect();
    let whole = |peer: &mut TcpStream| {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(peer, &mut bytes).unwrap();
        bytes
    };
    sender.control(None, "streams", Some("1")).unwrap();
    // It is closed while the transfer goes on.
    assert_eq!(whole(&mut peers[1]), Head::End.encode());
    sender.control(None, "streams", Some("2")).unwrap();
    let mut added = listener.accept().unwrap().0;
    (0..2).for_each(|_| assert_eq!(sender.write(&content(1_000)).unwrap(), 1_000));
    sender.close().unwrap();
    let (first, added) = (whole(&mut peers[0]), whole(&mut added));
    let marks: Vec<&[u8]> =
        [&first, &added].iter().map(|bytes| &bytes[bytes.len() - crate::mode_e::HEAD_BYTES..]).collect();
    // Three have ended in all.
    let file = Head::File { ends: 3, last: true }.encode();
    assert!(marks.contains(&&file[..]) && marks.contains(&&Head::End.encode()[..]), "{marks:?}");
}

#[test]
fn what_no_transfer_has_is_refused_when_connections_are_asked_for() {
    let server = Server::listen(&stack("tcp,mode_e"), "127.0.0.1:0").unwrap();
    let sender = Handle::open(&stack("tcp,mode_e"), &server.contact().unwrap(), &options()).unwrap();
    for text in ["0", "65", "x", "-1"] {
        let error = sender.control(None, "streams", Some(text)).unwrap_err();
        assert!(error.to_string().contains("a number from 1 to 64"), "{error}");
    }
    let told = (0..70).map(|_| {
        sender.control(None, "streams", Some("2"))?;
        sender.control(None, "streams", Some("1"))
    });
    let error = told.collect::<Result<Vec<_>, _>>().unwrap_err();
    assert!(error.to_string().contains("at most 64 connections, those that have ended among them"), "{error}");
}
