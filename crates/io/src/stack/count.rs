//! A layer that counts calls and bytes. It changes nothing and keeps the direct route open.

use super::{Driver, Layers, Room};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};

/// The counters of a [`Count`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Calls of `receive`, including refused ones.
    pub receive_calls: u64,
    /// Bytes received.
    pub received: u64,
    /// Calls of `send`, including refused ones; bytes moved directly by the kernel involve no call.
    pub send_calls: u64,
    /// Bytes sent, by any route.
    pub sent: u64,
    /// Those of `sent` that the kernel moved directly.
    pub sent_directly: u64,
}

/// Counts calls and bytes of `inner`.
#[derive(Debug)]
pub struct Count<D> {
    inner: D,
    counts: Counts,
}

impl<D> Count<D> {
    /// Starts counting at zero.
    pub fn new(inner: D) -> Self {
        Self { inner, counts: Counts::default() }
    }

    /// The counters so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The driver below.
    pub fn inner(&self) -> &D {
        &self.inner
    }
}

impl<D: Driver> Driver for Count<D> {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.counts.receive_calls += 1;
        let bytes = self.inner.receive(into)?;
        self.counts.received += bytes as u64;
        Ok(bytes)
    }

    fn send(&mut self, from: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        self.counts.send_calls += 1;
        let bytes = self.inner.send(from, more)?;
        self.counts.sent += bytes as u64;
        Ok(bytes)
    }

    fn accept(&mut self) -> io::Result<Self> {
        self.inner.accept().map(Self::new)
    }

    fn connected(&mut self) -> io::Result<()> {
        self.inner.connected()
    }

    fn direct(&self) -> Option<BorrowedFd<'_>> {
        self.inner.direct()
    }

    fn moved_directly(&mut self, bytes: u64) {
        self.counts.sent += bytes;
        self.counts.sent_directly += bytes;
        self.inner.moved_directly(bytes);
    }

    fn room(&self) -> Option<Room> {
        self.inner.room()
    }

    fn finish_sending(&mut self) -> io::Result<()> {
        self.inner.finish_sending()
    }

    fn layers(&self) -> Option<&Layers> {
        self.inner.layers()
    }

    fn layers_mut(&mut self) -> Option<&mut Layers> {
        self.inner.layers_mut()
    }
}

impl<D: AsFd> AsFd for Count<D> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}
