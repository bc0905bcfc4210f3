//! What `queue` promises beside the contract of all drivers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use super::flow::QueueFlow;
use crate::{ErrorKind, Handle, Options, Stack};
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex};
use xdfs_io::stack::{Flow, ReadInfo, WriteInfo};

/// What a layer was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    Receive(usize),
    Send(usize),
    Flush,
    Finish,
}

/// A layer that gives one large piece, and then the end.
struct Large {
    left: usize,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Large {
    fn note(&self, asked: Asked) {
        self.asked.lock().unwrap().push(asked);
    }
}

impl Flow for Large {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        let room: usize = into.iter().map(|slice| slice.len()).sum();
        self.note(Asked::Receive(room));
        let bytes = room.min(self.left);
        self.left -= bytes;
        info.offset = Some(100);
        info.end = self.left == 0;
        Ok(bytes)
    }

    fn send(&mut self, from: &[IoSlice<'_>], _: &WriteInfo) -> io::Result<usize> {
        let bytes = from.iter().map(|slice| slice.len()).sum();
        self.note(Asked::Send(bytes));
        Ok(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.note(Asked::Flush);
        Ok(())
    }

    fn finish_sending(&mut self) -> io::Result<()> {
        self.note(Asked::Finish);
        Ok(())
    }
}

fn queue(left: usize) -> (QueueFlow, Arc<Mutex<Vec<Asked>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    (QueueFlow::new(Box::new(Large { left, asked: asked.clone() }), 10), asked)
}

#[test]
fn small_reads_are_served_from_one_large_one_and_each_knows_its_place() {
    let (mut flow, asked) = queue(10);
    for (at, end) in [(0, false), (4, false), (8, true)] {
        assert_eq!(flow.holds(), at > 0, "the kernel has nothing more");
        let mut info = ReadInfo::default();
        let bytes = flow.receive(&mut [IoSliceMut::new(&mut [0]), IoSliceMut::new(&mut [0; 3])], &mut info).unwrap();
        assert_eq!((bytes, info.offset, info.end), (if end { 2 } else { 4 }, Some(100 + at), end));
    }
    assert_eq!(*asked.lock().unwrap(), [Asked::Receive(10)]);
    let (mut flow, asked) = queue(30);
    assert_eq!(flow.receive(&mut [IoSliceMut::new(&mut [0; 20])], &mut ReadInfo::default()).unwrap(), 20);
    assert_eq!(*asked.lock().unwrap(), [Asked::Receive(20)], "without a copy");
}

#[test]
fn small_writes_are_collected_until_a_flush_or_until_there_is_no_room() {
    let (mut flow, asked) = queue(0);
    let send = |flow: &mut QueueFlow, length: usize, end_of_message| {
        let info = WriteInfo { end_of_message, ..WriteInfo::default() };
        assert_eq!(flow.send(&[IoSlice::new(&vec![1; length])], &info).unwrap(), length);
        asked.lock().unwrap().drain(..).collect::<Vec<_>>()
    };
    assert_eq!(send(&mut flow, 4, false), []);
    assert_eq!(send(&mut flow, 6, false), []);
    // The order stays.
    assert_eq!(send(&mut flow, 3, false), [Asked::Send(10), Asked::Flush, Asked::Send(3)]);
    assert_eq!(send(&mut flow, 2, false), []);
    assert_eq!(send(&mut flow, 1, true), [Asked::Send(2), Asked::Flush, Asked::Send(1)], "a message is its own");
    assert_eq!(send(&mut flow, 5, false), []);
    flow.flush().unwrap();
    assert_eq!(send(&mut flow, 11, false), [Asked::Send(5), Asked::Flush, Asked::Flush, Asked::Send(11)]);
    assert_eq!(send(&mut flow, 7, false), []);
    flow.finish_sending().unwrap();
    assert_eq!(*asked.lock().unwrap(), [Asked::Send(7), Asked::Flush, Asked::Finish]);
    let error = flow.send(&[IoSlice::new(b"x")], &WriteInfo::default()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn a_queue_without_room_or_without_a_bound_is_refused() {
    for size in ["0", "65MiB"] {
        let stack = Stack::new().push_all(&format!("unix,queue={size}")).unwrap();
        let error = Handle::open(&stack, "/no/such", &Options::default()).unwrap_err();
        assert_eq!((error.kind(), error.driver()), (ErrorKind::Usage, Some("queue")), "{error}");
    }
}
