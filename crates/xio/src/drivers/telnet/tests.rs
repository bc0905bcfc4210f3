//! What `telnet` promises beside the contract of all drivers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use super::code::{DO, DONT, Decoded, Decoder, Encoder, IAC, PARAMETER_BYTES_MAX, SB, SE, WILL, WONT};
use super::flow::{ANSWERS_MAX, TelnetFlow};
use crate::drivers::flood::Flood;
use crate::drivers::queues::FILLS_PER_CALL;
use crate::{ErrorKind, Flow, Handle, Options, ReadInfo, Server, Stack, Timeouts, WriteInfo};
use std::io::{self, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
const MUCH: usize = 1_000_000;

/// Content and answers of what arrived, or why it is refused.
fn decoded(bytes: &[u8]) -> Result<(Vec<u8>, Vec<u8>), &'static str> {
    let (mut decoder, mut content, mut answers) = (Decoder::default(), Vec::new(), Vec::new());
    for byte in bytes {
        match decoder.decode(*byte)? {
            Decoded::Content(byte) => content.push(byte),
            Decoded::Nothing => {}
            Decoded::Answer(answer) => answers.extend(answer),
        }
    }
    if decoder.may_end() { Ok((content, answers)) } else { Err("it ends inside a command") }
}

#[test]
fn commands_are_taken_out_and_proposals_are_refused_once() {
    for (bytes, content, answers) in [
        (b"line\r\nnext".to_vec(), b"line\r\nnext".as_slice(), &[][..]),
        (b"a\r\0b\0c\r\0\0".to_vec(), b"a\rb\0c\r\0", &[]),
        (vec![b'a', IAC, IAC, b'b'], b"a\xffb", &[]),
        (vec![b'a', IAC, 241, b'b', IAC, 249], b"ab", &[]),
        (vec![IAC, WILL, 1, IAC, DO, 24, b'x'], b"x", &[IAC, DONT, 1, IAC, WONT, 24]),
        (vec![IAC, WONT, 1, IAC, DONT, 24], b"", &[]),
        (vec![IAC, WILL, IAC, b'x'], b"x", &[IAC, DONT, IAC]),
        (vec![b'a', IAC, SB, 24, 0, IAC, IAC, b'v', IAC, SE, b'b'], b"ab", &[]),
        (vec![b'\r', IAC, 241, 0, b'b'], b"\rb", &[]),
    ] {
        assert_eq!(decoded(&bytes), Ok((content.to_vec(), answers.to_vec())), "{}", bytes.escape_ascii());
    }
    let long = [vec![IAC, SB, 24], vec![0; PARAMETER_BYTES_MAX + 1], vec![IAC, SE]].concat();
    for bytes in [&[IAC, 7][..], &[IAC, SB, 24, IAC, WILL, 1], &long, &[b'a', IAC], &[IAC, DO], &[IAC, SB, 1]] {
        assert!(decoded(bytes).is_err(), "{}", bytes[..bytes.len().min(20)].escape_ascii());
    }
}

#[test]
fn every_content_comes_back_wherever_it_is_divided() {
    let letters = [b'\r', b'\n', 0, IAC, b'a'];
    for number in 0..5_usize.pow(5) {
        let content: Vec<u8> = (0..5).map(|place| letters[number / 5_usize.pow(place) % 5]).collect();
        for at in 0..=content.len() {
            let (mut encoder, mut code) = (Encoder::default(), Vec::new());
            encoder.encode(&content[..at], &mut code);
            encoder.encode(&content[at..], &mut code);
            encoder.finish(&mut code);
            assert_eq!(decoded(&code), Ok((content.clone(), Vec::new())), "{content:?} at {at}");
        }
    }
}

fn stack() -> Stack {
    Stack::new().push_all("tcp,telnet").unwrap()
}

fn options() -> Options {
    let timeouts =
        Timeouts { open: Some(PATIENCE), read: Some(PATIENCE), write: Some(PATIENCE), close: Some(PATIENCE) };
    Options { timeouts }
}

#[test]
fn bytes_of_any_value_pass_both_ways_at_once() {
    let server = Server::listen(&stack(), "127.0.0.1:0").unwrap();
    let contact = server.contact().unwrap();
    let accepting = thread::spawn(move || server.accept(Some(PATIENCE)).unwrap().open(&options()).unwrap());
    let client = Handle::open(&stack(), &contact, &options()).unwrap();
    let server = accepting.join().unwrap();
    let content: Vec<u8> = (0..MUCH as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let (tell, told) = sync_channel(4);
    for handle in [&client, &server] {
        let tell = tell.clone();
        let done = move |_: &Handle, done: crate::Completed| tell.send(done.result.unwrap().bytes).unwrap();
        handle.register_write(content.clone(), WriteInfo::default(), done).unwrap();
    }
    for handle in [&client, &server] {
        let mut bytes = vec![0; MUCH];
        handle.read(&mut bytes, MUCH).unwrap();
        assert!(bytes == content);
    }
    assert_eq!([told.recv_timeout(PATIENCE), told.recv_timeout(PATIENCE)], [Ok(MUCH), Ok(MUCH)]);
    client.write(b"\r").unwrap();
    client.control(None, "finish_sending", None).unwrap();
    let mut last = [0; 4];
    let read = server.read(&mut last, 4).unwrap();
    assert_eq!((read.bytes, last[0], read.info.end), (1, b'\r', true));
    server.write(b"bye").unwrap();
    server.close().unwrap();
    let read = client.read(&mut last, 4).unwrap();
    assert_eq!((read.bytes, read.info.end), (3, true));
}

#[test]
fn a_peer_is_answered_and_one_that_floods_or_breaks_off_is_refused() {
    let server = Server::listen(&stack(), "127.0.0.1:0").unwrap();
    let contact = server.contact().unwrap();
    let connect = || {
        let peer = TcpStream::connect(&contact).unwrap();
        (peer, server.accept(Some(PATIENCE)).unwrap().open(&options()).unwrap())
    };
    let (mut peer, handle) = connect();
    peer.write_all(&[IAC, WILL, 31, b'h', b'i']).unwrap();
    assert_eq!(handle.read(&mut [0; 2], 2).unwrap().bytes, 2);
    let mut answer = [0; 3];
    peer.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [IAC, DONT, 31]);
    peer.write_all(&[IAC]).unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    let error = handle.read(&mut [0; 2], 2).unwrap_err();
    assert_eq!((error.kind(), error.driver()), (ErrorKind::Lost, Some("telnet")), "{error}");
    let (mut peer, handle) = connect();
    let flood = [IAC, DO, 1].repeat(ANSWERS_MAX + 1);
    peer.write_all(&flood).unwrap();
    let error = handle.read(&mut [0; 2], 2).unwrap_err();
    assert_eq!((error.kind(), error.driver()), (ErrorKind::Protocol, Some("telnet")), "{error}");
}

#[test]
fn commands_without_an_end_let_others_have_their_turn() {
    let (flood, calls) = Flood::new(&[], &[IAC, 241]);
    let mut flow = TelnetFlow::new(Box::new(flood));
    let mut bytes = [0; 10];
    let mut receive = || flow.receive(&mut [IoSliceMut::new(&mut bytes)], &mut ReadInfo::default());
    assert_eq!(receive().unwrap_err().kind(), io::ErrorKind::Interrupted);
    assert!(calls.load(Ordering::Relaxed) <= FILLS_PER_CALL);
}

#[test]
fn what_came_before_a_breach_is_read_and_the_breach_is_final() {
    let server = Server::listen(&stack(), "127.0.0.1:0").unwrap();
    let mut peer = TcpStream::connect(server.contact().unwrap()).unwrap();
    peer.write_all(&[b'h', b'i', IAC, 7, b'x', b'y']).unwrap();
    let handle = server.accept(Some(PATIENCE)).unwrap().open(&options()).unwrap();
    let mut bytes = [0; 4];
    for moved in [2, 0, 0] {
        let error = handle.read(&mut bytes, 4).unwrap_err();
        assert_eq!((error.kind(), error.transferred()), (ErrorKind::Protocol, moved), "{error}");
    }
    assert_eq!(&bytes[..2], b"hi");
}
