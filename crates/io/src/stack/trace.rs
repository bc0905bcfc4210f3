//! A layer that passes every call to an observer. It needs to see all bytes, so files are not sent
//! directly.

use super::{Driver, Layers, Room};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};

/// A call and its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceEvent {
    /// Bytes received, or the kind of error.
    Received(Result<usize, io::ErrorKind>),
    /// Bytes sent, or the kind of error.
    Sent(Result<usize, io::ErrorKind>),
}

/// Calls `observer` after every call of the driver below.
#[derive(Debug)]
pub struct Trace<D, F> {
    inner: D,
    observer: F,
}

impl<D, F: FnMut(TraceEvent)> Trace<D, F> {
    /// Passes the calls on `inner` to `observer`.
    pub fn new(inner: D, observer: F) -> Self {
        Self { inner, observer }
    }

    /// The driver below.
    pub fn inner(&self) -> &D {
        &self.inner
    }
}

/// The part of a result that is passed to the observer.
fn outcome(result: &io::Result<usize>) -> Result<usize, io::ErrorKind> {
    result.as_ref().map(|bytes| *bytes).map_err(io::Error::kind)
}

impl<D: Driver, F: FnMut(TraceEvent) + Clone> Driver for Trace<D, F> {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let result = self.inner.receive(into);
        (self.observer)(TraceEvent::Received(outcome(&result)));
        result
    }

    fn send(&mut self, from: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        let result = self.inner.send(from, more);
        (self.observer)(TraceEvent::Sent(outcome(&result)));
        result
    }

    fn accept(&mut self) -> io::Result<Self> {
        self.inner.accept().map(|inner| Self { inner, observer: self.observer.clone() })
    }

    fn connected(&mut self) -> io::Result<()> {
        self.inner.connected()
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

impl<D: AsFd, F> AsFd for Trace<D, F> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}
