//! A transport of tests that never connects.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};
use xdfs_xio::{Attributes, Below, Contact, Driver, Flow, Interest, Kind, ReadInfo, WriteInfo};

/// A transport that never connects, as to a host that answers nothing.
pub struct Never {
    /// It says that it is due, and stays so whatever it is told.
    pub due: bool,
}

struct NeverFlow {
    descriptor: OwnedFd,
    due: Option<Instant>,
}

impl Driver for Never {
    fn kind(&self) -> Kind {
        Kind::Transport
    }

    fn open(&self, _: &Below, _: &Contact, _: &Attributes) -> xdfs_xio::Result<Box<dyn Flow>> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC).map_err(io::Error::from)?;
        Ok(Box::new(NeverFlow { descriptor, due: self.due.then(Instant::now) }))
    }
}

impl Flow for NeverFlow {
    fn receive(&mut self, _: &mut [IoSliceMut<'_>], _: &mut ReadInfo) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn send(&mut self, _: &[IoSlice<'_>], _: &WriteInfo) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn connected(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn wants(&self, _: Interest) -> Interest {
        Interest::READ
    }

    fn deadline(&self) -> Option<Instant> {
        self.due
    }

    fn on_deadline(&mut self) {}

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.descriptor.as_fd())
    }
}
