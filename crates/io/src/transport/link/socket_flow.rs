//! A socket as the bottom element of a stack that is put together at run time: the drivers above it
//! change what its bytes are, and nothing else about it.

use super::Link;
use crate::stack::{Driver, Flow, Interest, ReadInfo, Room, WriteInfo};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};

/// A socket that connects or is connected.
pub(super) struct SocketFlow {
    link: Link,
    connected: bool,
}

impl SocketFlow {
    pub(super) fn new(link: Link) -> Self {
        Self { link, connected: false }
    }
}

impl Flow for SocketFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        let bytes = self.link.receive(into)?;
        info.end = bytes == 0 && into.iter().any(|slice| !slice.is_empty());
        Ok(bytes)
    }

    fn send(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize> {
        self.link.send(from, info.more)
    }

    fn connected(&mut self) -> io::Result<()> {
        if !self.connected {
            self.link.connected()?;
            self.connected = true;
        }
        Ok(())
    }

    fn room(&self) -> Option<Room> {
        self.link.room()
    }

    fn wants(&self, asked: Interest) -> Interest {
        if self.connected { asked } else { Interest::WRITE }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.link.as_fd())
    }

    fn direct(&self) -> Option<BorrowedFd<'_>> {
        self.link.direct()
    }

    fn finish_sending(&mut self) -> io::Result<()> {
        self.link.finish_sending()
    }
}
