//! What `rate` promises beside the contract of all drivers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use super::flow::RateFlow;
use crate::{ErrorKind, Handle, Options, Server, Stack};
use std::io::{self, IoSlice, IoSliceMut};
use std::time::{Duration, Instant};
use xdfs_io::stack::{Flow, ReadInfo, WriteInfo};

/// A layer that always has something.
struct Full;

impl Flow for Full {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], _: &mut ReadInfo) -> io::Result<usize> {
        Ok(into[0].len())
    }

    fn send(&mut self, from: &[IoSlice<'_>], _: &WriteInfo) -> io::Result<usize> {
        Ok(from[0].len())
    }

    fn holds(&self) -> bool {
        true
    }
}

#[test]
fn what_the_layer_below_holds_is_not_tried_before_it_may_go() {
    let mut flow = RateFlow::new(Box::new(Full), 1);
    let mut bytes = [0; 100];
    let mut receive = |flow: &mut RateFlow| {
        flow.receive(&mut [IoSliceMut::new(&mut bytes)], &mut ReadInfo::default()).map_err(|error| error.kind())
    };
    assert!(flow.holds());
    assert_eq!(receive(&mut flow), Err(io::ErrorKind::WouldBlock));
    assert!(!flow.holds(), "whoever drives it would turn in a circle");
}

#[test]
fn bytes_take_the_time_that_the_rate_gives_them() {
    let server = Server::listen(&Stack::new().push("tcp", "").unwrap(), "127.0.0.1:0").unwrap();
    let slow = Stack::new().push_all("tcp,rate=1MB/s").unwrap();
    let client = Handle::open(&slow, &server.contact().unwrap(), &Options::default()).unwrap();
    let _peer = server.accept(None).unwrap().open(&Options::default()).unwrap();
    let began = Instant::now();
    client.write(&[1; 300_000]).unwrap();
    // A tenth of a second's bytes may have been saved up.
    assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());
}

#[test]
fn a_rate_is_needed_and_zero_is_none() {
    for attributes in ["", "0"] {
        let stack = Stack::new().push("tcp", "").unwrap().push("rate", attributes).unwrap();
        let error = Handle::open(&stack, "127.0.0.1:9", &Options::default()).unwrap_err();
        assert_eq!((error.kind(), error.driver()), (ErrorKind::Usage, Some("rate")), "{error}");
    }
}
