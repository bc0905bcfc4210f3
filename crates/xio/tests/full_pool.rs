//! Blocking drivers have two threads for each connection: there are as many as there may be, and no more. This is a
//! program of its own because it takes all of them.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "looks for the library that a driver needs")]

#[path = "support/compiled.rs"]
mod compiled;

use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use compiled::skeletons;
use xdfs_xio::{Error, ErrorKind, Handle, Options, Server, Stack, Timeouts};

const PATIENCE: Duration = Duration::from_secs(30);
/// Those that `load/blocking.rs` allows.
const CONNECTIONS_MAX: usize = 256;

fn patient() -> Options {
    let time = Some(PATIENCE);
    Options { timeouts: Timeouts { open: time, read: time, write: time, close: time } }
}

fn stack(text: &str) -> Stack {
    Stack::of(skeletons()).push_all(text).unwrap()
}

/// Opens one without a thread of its own that waits.
fn open(stack: &Stack, contact: &str) -> Result<Handle, Error> {
    let (tell, told) = sync_channel(1);
    let done = move |_: &Handle, opened: xdfs_xio::Result<()>| tell.send(opened).unwrap();
    let handle = Handle::register_open(stack, contact, &patient(), done)?;
    told.recv_timeout(PATIENCE).unwrap().map(|()| handle)
}

#[test]
fn a_full_pool_refuses_the_open_and_takes_one_when_another_is_closed() {
    let server = Server::listen(&stack("tcp"), "127.0.0.1:0").unwrap();
    let contact = server.contact().unwrap();
    let block = stack("skeleton_block,noop");
    let mut handles = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        handles.push(open(&block, &contact).unwrap());
        drop(server.accept(Some(PATIENCE)).unwrap());
    }
    let refused = |error: &Error, stack: &str| {
        let named = (error.kind(), error.driver(), error.stack());
        assert_eq!(named, (ErrorKind::TooMany, Some("skeleton_block"), Some(stack)), "{error}");
        assert!(error.to_string().contains("close some first"), "{error}");
    };
    refused(&open(&block, &contact).unwrap_err(), "skeleton_block,noop");
    refused(&Handle::open(&block, &contact, &patient()).unwrap_err(), "skeleton_block,noop");
    // Nor is there room for one that is accepted: it is closed, and the listener goes on.
    let listening = Server::listen(&stack("skeleton_block"), "127.0.0.1:0").unwrap();
    let client = Handle::open(&stack("tcp"), &listening.contact().unwrap(), &patient()).unwrap();
    refused(&listening.accept(Some(PATIENCE)).unwrap_err(), "skeleton_block");
    assert!(client.read(&mut [0], 1).unwrap().info.end, "who is refused reads the end");

    // The threads of one that is closed end soon.
    handles.pop().unwrap().close().unwrap();
    let until = Instant::now() + PATIENCE;
    let again = loop {
        match open(&block, &contact) {
            Ok(again) => break again,
            Err(error) => refused(&error, "skeleton_block,noop"),
        }
        assert!(Instant::now() < until, "there is no room after a close");
        thread::yield_now();
    };
    let peer = server.accept(Some(PATIENCE)).unwrap().open(&patient()).unwrap();
    again.write(b"again").unwrap();
    assert_eq!(peer.read(&mut [0; 5], 5).unwrap().bytes, 5);
}
