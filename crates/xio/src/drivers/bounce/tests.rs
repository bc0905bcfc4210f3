//! What `bounce` promises beside the contract of all drivers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use super::flow::BounceFlow;
use crate::{ErrorKind, Handle, Options, Stack};
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex};
use xdfs_io::stack::{Flow, ReadInfo, WriteInfo};

/// What each call asked for, and whether a message ends with it.
type Calls = Arc<Mutex<Vec<(usize, bool)>>>;

/// A layer that gives and takes so many bytes and then fails.
struct Few {
    left: usize,
    then: io::ErrorKind,
    asked: Calls,
}

impl Few {
    fn take(&mut self, asked: usize, ends: bool) -> io::Result<usize> {
        self.asked.lock().unwrap().push((asked, ends));
        if self.left == 0 {
            return Err(self.then.into());
        }
        let bytes = asked.min(self.left);
        self.left -= bytes;
        Ok(bytes)
    }
}

impl Flow for Few {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], _: &mut ReadInfo) -> io::Result<usize> {
        self.take(into[0].len(), false)
    }

    fn send(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize> {
        self.take(from[0].len(), info.end_of_message)
    }
}

fn few(left: usize, then: io::ErrorKind) -> (BounceFlow, Calls) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    (BounceFlow::new(Box::new(Few { left, then, asked: asked.clone() }), 3), asked)
}

#[test]
fn one_call_becomes_several_and_the_message_ends_with_the_last() {
    let (mut flow, asked) = few(100, io::ErrorKind::WouldBlock);
    let info = WriteInfo { end_of_message: true, ..WriteInfo::default() };
    assert_eq!(flow.send(&[IoSlice::new(&[1; 8])], &info).unwrap(), 8);
    assert_eq!(asked.lock().unwrap().drain(..).collect::<Vec<_>>(), [(3, false), (3, false), (2, true)]);
    assert_eq!(flow.receive(&mut [IoSliceMut::new(&mut [0; 7])], &mut ReadInfo::default()).unwrap(), 7);
    assert_eq!(asked.lock().unwrap().len(), 3);
}

#[test]
fn what_moved_is_told_before_the_failure_behind_it() {
    let receive = |flow: &mut BounceFlow| flow.receive(&mut [IoSliceMut::new(&mut [0; 9])], &mut ReadInfo::default());
    for then in [io::ErrorKind::ConnectionReset, io::ErrorKind::WouldBlock] {
        let (mut flow, asked) = few(4, then);
        assert_eq!(receive(&mut flow).unwrap(), 4);
        let calls = asked.lock().unwrap().len();
        assert_eq!(flow.holds(), then == io::ErrorKind::ConnectionReset, "who waits would not be told");
        assert_eq!(receive(&mut flow).unwrap_err().kind(), then);
        // A failure is told once by the kernel too.
        assert_eq!(asked.lock().unwrap().len(), calls + usize::from(then == io::ErrorKind::WouldBlock));
        let (mut flow, _) = few(4, then);
        assert_eq!(flow.send(&[IoSlice::new(&[1; 9])], &WriteInfo::default()).unwrap(), 4);
        assert_eq!(flow.send(&[IoSlice::new(&[1; 5])], &WriteInfo::default()).unwrap_err().kind(), then);
    }
}

#[test]
fn a_piece_has_at_least_a_byte() {
    let stack = Stack::new().push_all("unix,bounce=0").unwrap();
    let error = Handle::open(&stack, "/no/such", &Options::default()).unwrap_err();
    assert_eq!((error.kind(), error.driver()), (ErrorKind::Usage, Some("bounce")), "{error}");
}
