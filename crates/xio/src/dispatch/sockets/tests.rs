//! What no caller can bring about: the routes below splice, which the system has to refuse first.

use super::*;
use crate::dispatch::{Body, Epoll};
use crate::transport::{self, Link, TransportOptions};
use std::net::SocketAddr;

/// Two ends of a TCP connection in one dispatcher, with buffers that are soon full.
fn pair() -> (Epoll, SocketId, SocketId) {
    let options = TransportOptions { window: Some(64 * 1024), ..TransportOptions::default() };
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let listener = transport::listen(&any.into(), &options).unwrap();
    let link = transport::connect(&listener.local().unwrap(), &options).unwrap();
    let mut dispatcher = Epoll::<Link>::new().unwrap();
    let listener = dispatcher.attach(listener, &[]).unwrap();
    let calling = dispatcher.attach(link, &[]).unwrap();
    dispatcher.submit(Op::Accept { socket: listener });
    match dispatcher.next(None).unwrap() {
        Completion::Accepted { link, .. } => {
            let accepted = dispatcher.attach(link, &[]).unwrap();
            (dispatcher, calling, accepted)
        }
        other => panic!("{other:?}"),
    }
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place * 31 % 251) as u8).collect()
}

fn source(length: usize) -> OwnedFd {
    let file = rustix::fs::memfd_create("source", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    assert_eq!(rustix::io::pwrite(&file, &bytes(length), 0).unwrap(), length);
    file
}

/// Sends `promised` bytes from a file of `length` and returns what arrived and what was lacking.
fn transfer(dispatcher: &mut Epoll, from: SocketId, to: SocketId, length: usize, promised: usize) -> (Vec<u8>, u64) {
    let file = dispatcher.open_file(source(length));
    let body = Body::File { file, offset: 3, length: promised as u64 };
    dispatcher.submit(Op::Send { socket: from, head: Some([5; 48]), body });
    let (mut arrived, mut short) = (Vec::new(), None);
    dispatcher.submit(Op::Some { socket: to, limit: 1 << 20 });
    while arrived.len() < 48 + promised || short.is_none() {
        match dispatcher.next(None).unwrap() {
            Completion::Some { .. } => {
                arrived.extend_from_slice(dispatcher.scratch());
                if arrived.len() < 48 + promised {
                    dispatcher.submit(Op::Some { socket: to, limit: 1 << 20 });
                }
            }
            Completion::Sent { short_by, .. } => short = Some(short_by),
            other => panic!("{other:?}"),
        }
    }
    dispatcher.close_file(file);
    assert_eq!(arrived[..48], [5; 48]);
    (arrived.split_off(48), short.unwrap())
}

#[test]
fn without_a_pipe_sendfile_carries_the_same_bytes() {
    let (mut dispatcher, from, to) = pair();
    dispatcher.tools.pipe = PipeRoute::Unavailable;
    let (arrived, short) = transfer(&mut dispatcher, from, to, 900_003, 900_000);
    assert!(arrived == bytes(900_003)[3..]);
    assert_eq!(short, 0);
    let (arrived, short) = transfer(&mut dispatcher, from, to, 500_003, 600_000);
    assert!(arrived[..500_000] == bytes(500_003)[3..] && arrived[500_000..].iter().all(|byte| *byte == 0));
    assert_eq!(short, 100_000);
}

#[test]
fn the_pipe_is_of_the_size_for_a_block_and_empty_when_a_send_is_over() {
    let (mut dispatcher, from, to) = pair();
    transfer(&mut dispatcher, from, to, 900_003, 900_000);
    let PipeRoute::Ready(pipe) = &dispatcher.tools.pipe else { panic!("a pipe was made") };
    assert!(pipe.is_empty(), "nothing is held");
}
