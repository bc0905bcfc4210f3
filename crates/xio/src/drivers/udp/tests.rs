//! What `udp` promises beside the contract of all drivers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use crate::{Answer, ErrorKind, Handle, Options, Server, Stack, Timeouts, WriteInfo};
use std::io::IoSlice;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(30);

fn stack() -> Stack {
    Stack::new().push("udp", "window=1MiB").unwrap()
}

fn options() -> Options {
    Options { timeouts: Timeouts { read: Some(PATIENCE), ..Timeouts::default() } }
}

/// The server, its element, and the contact of both.
fn listening() -> (Server, Handle, String) {
    let server = Server::listen(&stack(), "127.0.0.1:0").unwrap();
    let handle = server.accept(Some(PATIENCE)).unwrap().open(&options()).unwrap();
    let contact = server.contact().unwrap();
    (server, handle, contact)
}

fn client(contact: &str) -> Handle {
    Handle::open(&stack(), contact, &options()).unwrap()
}

#[test]
fn datagrams_keep_their_limits_and_answers_find_their_peer() {
    let (_server, server, contact) = listening();
    let error = server.write(b"to whom?").unwrap_err();
    assert_eq!((error.kind(), error.driver()), (ErrorKind::Usage, Some("udp")), "{error}");
    let (one, two) = (client(&contact), client(&contact));
    let mut buffer = [0; 100];
    for content in [b"first".as_slice(), b"", b"third"] {
        one.writev(
            &mut [IoSlice::new(&content[..content.len() / 2]), IoSlice::new(&content[content.len() / 2..])],
            &WriteInfo::default(),
        )
        .unwrap();
        let read = server.read(&mut buffer, 100).unwrap();
        assert_eq!(&buffer[..read.bytes], content, "one datagram, whatever is waited for");
        assert!(read.info.end_of_message && !read.info.end);
        assert_eq!(Answer::Text(read.info.peer.unwrap().to_string()), one.control(None, "local", None).unwrap());
    }
    let first = server.control(None, "peer", None).unwrap();
    two.write(b"from two").unwrap();
    server.read(&mut buffer, 1).unwrap();
    server.write(b"back").unwrap();
    let read = two.read(&mut buffer, 1).unwrap();
    assert_eq!(&buffer[..read.bytes], b"back");
    let Answer::Text(first) = first else { panic!("a text") };
    let info = WriteInfo { peer: Some(first.parse().unwrap()), ..WriteInfo::default() };
    server.writev(&mut [IoSlice::new(b"by name")], &info).unwrap();
    let read = one.read(&mut buffer, 1).unwrap();
    assert_eq!(&buffer[..read.bytes], b"by name");
    let error = one
        .writev(
            &mut [IoSlice::new(b"x")],
            &WriteInfo { peer: Some("127.0.0.1:9".parse().unwrap()), ..WriteInfo::default() },
        )
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
}

#[test]
fn a_datagram_that_no_buffer_can_take_is_dropped_whole_and_counted() {
    let (_server, server, contact) = listening();
    let client = client(&contact);
    client.write(&[7; 1000]).unwrap();
    client.write(b"fits").unwrap();
    let mut buffer = [0; 100];
    let read = server.read(&mut buffer, 1).unwrap();
    assert_eq!(&buffer[..read.bytes], b"fits");
    assert_eq!(server.control(None, "too_long", None).unwrap(), Answer::Number(1));
    let error = client.write(&vec![0; 70_000]).unwrap_err();
    assert!(error.to_string().starts_with("driver udp: "), "{error}");
}

#[test]
fn one_element_is_accepted_at_a_time_and_the_next_when_it_is_gone() {
    let (server, first, contact) = listening();
    assert_eq!(server.accept(Some(SHORT)).unwrap_err().kind(), ErrorKind::TimedOut);
    first.close().unwrap();
    let second = server.accept(Some(PATIENCE)).unwrap().open(&options()).unwrap();
    client(&contact).write(b"hello").unwrap();
    assert_eq!(second.read(&mut [0; 9], 9).unwrap().bytes, 5);
}

#[test]
fn registered_operations_and_refused_peers_are_told() {
    let (server, handle, contact) = listening();
    let (tell, told) = sync_channel(4);
    let tell_read = tell.clone();
    handle.register_read(vec![0; 10], 10, move |_, done| tell_read.send(done.result.unwrap().bytes).unwrap()).unwrap();
    let client = client(&contact);
    client
        .register_write(b"abc".to_vec(), WriteInfo::default(), move |_, done| {
            tell.send(done.result.unwrap().bytes).unwrap()
        })
        .unwrap();
    assert_eq!([told.recv_timeout(PATIENCE), told.recv_timeout(PATIENCE)], [Ok(3), Ok(3)]);
    handle.close().unwrap();
    server.close();
    client.write(b"nobody").unwrap();
    let error = client.read(&mut [0; 10], 1).unwrap_err();
    assert_eq!((error.kind(), error.driver()), (ErrorKind::Lost, Some("udp")), "{error}");
    for (contact, kind) in [("127.0.0.1", ErrorKind::Contact), ("127.0.0.1:x", ErrorKind::Contact)] {
        assert_eq!(Handle::open(&stack(), contact, &options()).unwrap_err().kind(), kind, "{contact}");
    }
    let bad = Stack::new().push("udp", "local=here").unwrap();
    assert_eq!(Handle::open(&bad, "127.0.0.1:9", &options()).unwrap_err().kind(), ErrorKind::Usage);
}
