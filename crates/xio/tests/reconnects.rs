//! Drivers whose descriptor becomes another one while they open: that of a name's second address.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use xdfs_xio::{Attributes, Below, Contact, Driver, Flow, Handle, Interest, Kind, Options, ReadInfo, Registry, Stack};
use xdfs_xio::{Timeouts, WriteInfo};

const PATIENCE: Duration = Duration::from_secs(20);

/// A descriptor, and what makes it readable.
fn pipe() -> (OwnedFd, OwnedFd) {
    pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap()
}

/// Its first descriptor is refused once it is readable, and the second one is connected then.
struct Second(Mutex<Option<SecondFlow>>);

struct SecondFlow {
    now: OwnedFd,
    next: Option<OwnedFd>,
    /// Told when the second one is waited for.
    waits: SyncSender<()>,
}

impl Driver for Second {
    fn kind(&self) -> Kind {
        Kind::Transport
    }

    fn open(&self, _: &Below, _: &Contact, _: &Attributes) -> xdfs_xio::Result<Box<dyn Flow>> {
        Ok(Box::new(self.0.lock().unwrap().take().unwrap()))
    }
}

impl Flow for SecondFlow {
    fn receive(&mut self, _: &mut [IoSliceMut<'_>], _: &mut ReadInfo) -> io::Result<usize> {
        Ok(0)
    }

    fn send(&mut self, from: &[IoSlice<'_>], _: &WriteInfo) -> io::Result<usize> {
        Ok(from.iter().map(|part| part.len()).sum())
    }

    fn connected(&mut self) -> io::Result<()> {
        rustix::io::read(&self.now, &mut [0; 8])?;
        let Some(next) = self.next.take() else { return Ok(()) };
        self.now = next;
        self.waits.send(()).unwrap();
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn wants(&self, _: Interest) -> Interest {
        Interest::READ
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.now.as_fd())
    }
}

#[test]
fn who_opens_is_woken_by_the_second_descriptor_too() {
    let ((now, first), (next, second)) = (pipe(), pipe());
    let (waits, waiting) = sync_channel(1);
    let flow = SecondFlow { now, next: Some(next), waits };
    let mut registry = Registry::built_in();
    registry.add("second", Arc::new(Second(Mutex::new(Some(flow))))).unwrap();
    let stack = Stack::of(Arc::new(registry)).push("second", "").unwrap();
    let options = Options { timeouts: Timeouts { open: Some(PATIENCE), ..Timeouts::default() } };
    let (tell, told) = sync_channel(1);
    let opened = move |_: &Handle, opened: xdfs_xio::Result<()>| tell.send(opened.map_err(|e| e.to_string())).unwrap();
    let _handle = Handle::register_open(&stack, "nowhere:1", &options, opened).unwrap();
    let make_readable = |end: &OwnedFd| assert_eq!(rustix::io::write(end, b"x"), Ok(1));
    make_readable(&first);
    waiting.recv_timeout(PATIENCE).unwrap();
    make_readable(&second);
    assert_eq!(told.recv_timeout(PATIENCE / 2), Ok(Ok(())));
}
