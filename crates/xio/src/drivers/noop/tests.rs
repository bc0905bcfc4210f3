//! What `noop` promises beside the contract of all drivers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use super::NoopFlow;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use xdfs_io::stack::{Flow, ReadInfo, WriteInfo};

/// A layer whose bytes are those of a socket.
struct Direct(TcpListener);

impl Flow for Direct {
    fn receive(&mut self, _: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        info.offset = Some(7);
        Ok(1)
    }

    fn send(&mut self, _: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize> {
        Ok(usize::from(info.end_of_message))
    }

    fn direct(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

#[test]
fn everything_passes_as_it_is_and_the_kernel_may_move_the_bytes_itself() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let descriptor = listener.as_raw_fd();
    let mut flow = NoopFlow { below: Box::new(Direct(listener)) };
    assert_eq!(flow.direct().map(|direct| direct.as_raw_fd()), Some(descriptor));
    let mut info = ReadInfo::default();
    assert_eq!(flow.receive(&mut [IoSliceMut::new(&mut [0])], &mut info).unwrap(), 1);
    assert_eq!(info.offset, Some(7));
    let info = WriteInfo { end_of_message: true, ..WriteInfo::default() };
    assert_eq!(flow.send(&[IoSlice::new(b"x")], &info).unwrap(), 1);
}
