//! What `op` promises beside the contract of all drivers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use super::flow::{ANSWER, ANSWERS_MAX, CONTENT, END, OpFlow, QUESTION, QUESTIONS_MAX, head};
use crate::drivers::flood::Flood;
use crate::{Answer, ErrorKind, Handle, Options, Server, Stack};
use std::io::{self, IoSlice, IoSliceMut};
use std::time::Duration;
use xdfs_io::stack::{Flow, ReadInfo, WriteInfo};

/// A layer that gives these bytes and then the end, and takes everything, or nothing.
struct Bytes {
    bytes: Vec<u8>,
    takes: bool,
}

impl Flow for Bytes {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        let bytes = self.bytes.len().min(into[0].len());
        into[0][..bytes].copy_from_slice(&self.bytes[..bytes]);
        self.bytes.drain(..bytes);
        info.end = bytes == 0;
        Ok(bytes)
    }

    fn send(&mut self, from: &[IoSlice<'_>], _: &WriteInfo) -> io::Result<usize> {
        if self.takes { Ok(from[0].len()) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }
}

/// What is read of these records, and the error behind it.
fn read(records: &[&[u8]], takes: bool) -> (Vec<u8>, Option<io::Error>) {
    let mut flow = OpFlow::new(Box::new(Bytes { bytes: records.concat(), takes }), 1);
    let (mut all, mut buffer) = (Vec::new(), [0; 7]);
    loop {
        let mut info = ReadInfo::default();
        match flow.receive(&mut [IoSliceMut::new(&mut buffer)], &mut info) {
            Ok(bytes) => all.extend_from_slice(&buffer[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (all, Some(error)),
        }
        if info.end {
            return (all, None);
        }
    }
}

#[test]
fn own_operations_go_on_beside_those_of_the_program_and_are_not_seen() {
    let patience = Some(Duration::from_secs(30));
    let stack = Stack::new().push_all("tcp,op=2").unwrap();
    let server = Server::listen(&stack, "127.0.0.1:0").unwrap();
    let contact = server.contact().unwrap();
    let client = Handle::open(&stack, &contact, &Options::default()).unwrap();
    let server = server.accept(patience).unwrap().open(&Options::default()).unwrap();
    for number in 0..10_u8 {
        client.write(&[number; 3]).unwrap();
        let mut bytes = [0; 3];
        server.read(&mut bytes, 3).unwrap();
        assert_eq!(bytes, [number; 3]);
    }
    // The answers come before what is written behind them.
    server.write(b"x").unwrap();
    client.read(&mut [0], 1).unwrap();
    let ask = |handle: &Handle, name| handle.control(Some("op"), name, None).unwrap();
    assert_eq!((ask(&client, "asked"), ask(&client, "answered")), (Answer::Number(5), Answer::Number(5)));
    assert_eq!((ask(&server, "asked"), ask(&server, "answered")), (Answer::Number(1), Answer::Number(0)));
    client.close().unwrap();
    assert!(server.read(&mut [0], 1).unwrap().info.end);
}

#[test]
fn a_close_waits_for_the_answers_and_for_no_more() {
    let finish = |records: &[&[u8]]| {
        let mut flow = OpFlow::new(Box::new(Bytes { bytes: records.concat(), takes: true }), 1);
        flow.send(&[IoSlice::new(b"x")], &WriteInfo::default()).unwrap();
        let result = flow.finish_sending().and_then(|()| flow.ready_to_close());
        (result.map_err(|error| error.kind()), flow)
    };
    assert_eq!(finish(&[&head(ANSWER, 0)]).0, Ok(()));
    assert_eq!(finish(&[&head(END, 0)]).0, Ok(()), "the peer has left");
    assert_eq!(finish(&[]).0, Ok(()), "the layer below has ended");
    assert_eq!(finish(&[&head(ANSWER, 1)]).0, Err(io::ErrorKind::InvalidData));
    // Content is for whoever reads it.
    let (result, mut flow) = finish(&[&head(CONTENT, 2), b"ab", &head(ANSWER, 0)]);
    assert_eq!(result, Ok(()));
    let mut bytes = [0; 9];
    assert_eq!(flow.receive(&mut [IoSliceMut::new(&mut bytes)], &mut ReadInfo::default()).unwrap(), 2);
}

#[test]
fn questions_that_nobody_answers_are_not_asked_for_ever() {
    let mut flow = OpFlow::new(Box::new(Bytes { bytes: Vec::new(), takes: true }), 1);
    for _ in 0..QUESTIONS_MAX + 10 {
        flow.send(&[IoSlice::new(b"x")], &WriteInfo::default()).unwrap();
    }
    let asked = xdfs_io::stack::Command { driver: None, name: "asked".to_owned(), value: None };
    assert_eq!(flow.control(&asked).unwrap(), Answer::Number(QUESTIONS_MAX));
}

#[test]
fn a_peer_that_keeps_no_rule_is_refused_behind_what_came_before() {
    let good: [&[u8]; 3] = [&head(CONTENT, 2), b"ab", &head(QUESTION, 9)];
    assert_eq!(read(&[&good.concat(), &head(END, 0), b"behind"], true).0, b"ab");
    let flood = head(QUESTION, 0).repeat(ANSWERS_MAX + 1);
    let cases: [(&[u8], bool, io::ErrorKind, &str); 8] = [
        (&head(ANSWER, 0), true, io::ErrorKind::InvalidData, "not asked for"),
        (&head(CONTENT, 0), true, io::ErrorKind::InvalidData, "length"),
        (&head(CONTENT, 65_537), true, io::ErrorKind::InvalidData, "length"),
        (&head(CONTENT, u32::MAX), true, io::ErrorKind::InvalidData, "length"),
        (&head(4, 0), true, io::ErrorKind::InvalidData, "none"),
        (&flood, false, io::ErrorKind::InvalidData, "does not read"),
        (&head(END, 0)[..4], true, io::ErrorKind::UnexpectedEof, "cut"),
        (b"", true, io::ErrorKind::UnexpectedEof, "cut"),
    ];
    for (bad, takes, kind, word) in cases {
        let (all, error) = read(&[good[0], good[1], bad], takes);
        let error = error.unwrap();
        assert!(all == b"ab" && error.kind() == kind && error.to_string().contains(word), "{bad:?}: {error}");
    }
}

#[test]
fn records_without_content_give_others_their_turn() {
    let (flood, calls) = Flood::new(b"", &[QUESTION, 0, 0, 0, 0]);
    let mut flow = OpFlow::new(Box::new(flood), 1);
    let error = flow.receive(&mut [IoSliceMut::new(&mut [0; 9])], &mut ReadInfo::default()).unwrap_err();
    assert!(matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::InvalidData), "{error}");
    assert!(calls.load(std::sync::atomic::Ordering::Relaxed) <= 20);
}

#[test]
fn a_question_comes_with_at_least_every_so_many_pieces() {
    let stack = Stack::new().push_all("unix,op=0").unwrap();
    let error = Handle::open(&stack, "/no/such", &Options::default()).unwrap_err();
    assert_eq!((error.kind(), error.driver()), (ErrorKind::Usage, Some("op")), "{error}");
}
