//! Blocking drivers whose calls do not return when they should, or return without having done anything.

use std::io::{ErrorKind as Io, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use super::compiled::{compile, registry};
use super::{
    ACCEPT_INTERRUPTED, FINISH_INTERRUPTED, OPEN_INTERRUPTED, PATIENCE, READ_INTERRUPTED, WRITE_INTERRUPTED, odd,
    patient,
};
use tempfile::TempDir;
use xdfs_xio::{Completed, ErrorKind, Handle, Server, Stack, WriteInfo};

/// Calls that are made in the time in which all are interrupted, at most. Without a pause it would be some hundred
/// thousand.
const CALLS_MAX: usize = 5000;

fn uninterrupted() -> (TempDir, Stack) {
    let folder = tempfile::tempdir().unwrap();
    compile("crates/xio/tests/loaded/uninterrupted.c", "uninterrupted", folder.path(), &[]);
    let stack = Stack::of(registry(folder.path())).push("uninterrupted", "").unwrap();
    (folder, stack)
}

/// A client of the driver and its peer.
fn connect(stack: &Stack) -> (Handle, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let contact = listener.local_addr().unwrap().to_string();
    let handle = Handle::open(stack, &contact, &patient()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    peer.set_write_timeout(Some(PATIENCE)).unwrap();
    (handle, peer)
}

/// The driver begins a read.
fn reads(peer: &mut TcpStream) {
    let mut said = [0];
    peer.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"r");
}

#[test]
fn without_interrupt_a_cancel_comes_at_once_and_what_is_read_later_is_not_lost() {
    let (_folder, stack) = uninterrupted();
    let (handle, mut peer) = connect(&stack);
    for round in [b"first", b"later"] {
        let (tell, told) = sync_channel(1);
        let done = move |_: &Handle, done: Completed| tell.send(done.result.unwrap_err()).unwrap();
        let read = handle.register_read(vec![0; 100], 100, done).unwrap();
        reads(&mut peer);
        assert!(handle.cancel(read));
        // The driver's read returns only after the peer has written, which is below.
        let error = told.recv_timeout(PATIENCE).unwrap();
        assert_eq!((error.kind(), error.transferred()), (ErrorKind::Cancelled, 0), "{error}");
        // The other direction goes on meanwhile.
        handle.write(b"there").unwrap();
        peer.read_exact(&mut [0; 5]).unwrap();
        peer.write_all(round).unwrap();
        let mut bytes = [0; 5];
        assert_eq!(handle.read(&mut bytes, 5).unwrap().bytes, 5);
        assert_eq!(&bytes, round);
    }
}

#[test]
fn without_interrupt_a_close_comes_at_once_and_the_driver_is_closed_when_its_read_returns() {
    let (_folder, stack) = uninterrupted();
    let (handle, mut peer) = connect(&stack);
    let (other, mut others_peer) = connect(&stack);
    let (tell, told) = sync_channel(1);
    let done = move |_: &Handle, done: Completed| tell.send(done.result.unwrap_err().kind()).unwrap();
    handle.register_read(vec![0; 100], 100, done).unwrap();
    reads(&mut peer);
    // Nobody writes: if it waited for the driver's read, it would wait for ever.
    handle.close().unwrap();
    assert_eq!(told.try_recv(), Ok(ErrorKind::Cancelled));
    peer.set_nonblocking(true).unwrap();
    assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), Io::WouldBlock, "the driver's read has not returned");
    others_peer.write_all(b"other").unwrap();
    assert_eq!(other.read(&mut [0; 5], 5).unwrap().bytes, 5, "another handle goes on");
    peer.set_nonblocking(false).unwrap();
    peer.write_all(b"x").unwrap();
    let mut last = Vec::new();
    peer.read_to_end(&mut last).unwrap();
    assert_eq!(last, b"c", "the driver was closed, once");
}

/// How often the driver was called while all of its calls were interrupted.
fn calls(handle: &Handle) -> usize {
    let mut bytes = [0; 20];
    let read = handle.read(&mut bytes, 1).unwrap();
    std::str::from_utf8(&bytes[..read.bytes]).unwrap().parse().unwrap()
}

#[test]
fn what_is_interrupted_again_and_again_is_called_again_at_leisure() {
    let folder = odd(READ_INTERRUPTED);
    let stack = Stack::of(registry(folder.path())).push("odd", "").unwrap();
    let handle = Handle::open(&stack, "anywhere", &patient()).unwrap();
    let mut all = vec![calls(&handle)];
    let folder = odd(WRITE_INTERRUPTED);
    let stack = Stack::of(registry(folder.path())).push("odd", "").unwrap();
    let handle = Handle::open(&stack, "anywhere", &patient()).unwrap();
    handle.write(b"bytes").unwrap();
    all.push(calls(&handle));
    let folder = odd(ACCEPT_INTERRUPTED);
    let stack = Stack::of(registry(folder.path())).push("odd", "").unwrap();
    let server = Server::listen(&stack, "anywhere").unwrap();
    all.push(calls(&server.accept(Some(PATIENCE)).unwrap().open(&patient()).unwrap()));
    let folder = odd(OPEN_INTERRUPTED);
    let stack = Stack::of(registry(folder.path())).push("odd", "").unwrap();
    all.push(calls(&Handle::open(&stack, "anywhere", &patient()).unwrap()));
    // It was called again, and not as often as it could be.
    assert!(all.iter().all(|calls| (2..CALLS_MAX).contains(calls)), "read, write, accept, open: {all:?} calls");
    // What a finish comes to when it is not interrupted any more is heard by the close.
    let folder = odd(FINISH_INTERRUPTED);
    let stack = Stack::of(registry(folder.path())).push("odd", "").unwrap();
    let is_full = |error: &xdfs_xio::Error| error.driver() == Some("odd") && error.to_string().contains("No space");
    let error = Handle::open(&stack, "anywhere", &patient()).unwrap().close().unwrap_err();
    assert!(is_full(&error), "{error}");
    // By each who asks: the first may be a layer above that tells nobody.
    let folder = odd(FINISH_INTERRUPTED);
    let stack = Stack::of(registry(folder.path())).push("odd", "").unwrap().push("zstd", "").unwrap();
    let handle = Handle::open(&stack, "anywhere", &patient()).unwrap();
    for error in [handle.finish_sending().unwrap_err(), handle.close().unwrap_err()] {
        assert!(is_full(&error), "{error}");
    }
}

#[test]
fn a_close_does_not_wait_for_what_is_interrupted_again_and_again() {
    for case in [READ_INTERRUPTED, WRITE_INTERRUPTED] {
        let folder = odd(case);
        let stack = Stack::of(registry(folder.path())).push("odd", "").unwrap();
        let options =
            xdfs_xio::Options { timeouts: xdfs_xio::Timeouts { close: Some(Duration::ZERO), ..patient().timeouts } };
        let handle = Handle::open(&stack, "anywhere", &options).unwrap();
        let (tell, told) = sync_channel(2);
        let writes = tell.clone();
        let read = move |_: &Handle, done: Completed| tell.send(done.result.is_ok()).unwrap();
        handle.register_read(vec![0; 9], 9, read).unwrap();
        let wrote = move |_: &Handle, done: Completed| writes.send(done.result.is_ok()).unwrap();
        handle.register_write(vec![0; 9], WriteInfo::default(), wrote).unwrap();
        let closed = handle.close();
        assert!(closed.is_ok() || closed.is_err_and(|error| error.kind() == ErrorKind::TimedOut), "{case}");
        assert_eq!((0..2).filter(|_| told.try_recv().is_ok()).count(), 2, "{case}: both were told before");
    }
}
