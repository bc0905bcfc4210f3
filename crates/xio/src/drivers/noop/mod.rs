//! `noop`: a transform that changes nothing and passes every call on. It measures what a layer costs
//! (XIO-69), and is the shortest driver there is.

#[cfg(test)]
mod tests;

use crate::attributes::Attributes;
use crate::contact::Contact;
use crate::driver::{Below, Driver, Kind, Listener, Wrapping};
use crate::error::Result;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use xdfs_io::stack::{Flow, ReadInfo, WriteInfo};

/// The driver.
pub(super) struct Noop;

impl Driver for Noop {
    fn kind(&self) -> Kind {
        Kind::Transform
    }

    fn open(&self, below: &Below, contact: &Contact, _: &Attributes) -> Result<Box<dyn Flow>> {
        Ok(Box::new(NoopFlow { below: below.open(contact)? }))
    }

    fn listen(&self, below: &Below, contact: &Contact, _: &Attributes) -> Result<Box<dyn Listener>> {
        let wrap = |below| Ok(Box::new(NoopFlow { below }) as Box<dyn Flow>);
        Ok(Box::new(Wrapping::new(below.listen(contact)?, wrap)))
    }
}

struct NoopFlow {
    below: Box<dyn Flow>,
}

impl Flow for NoopFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        self.below.receive(into, info)
    }

    fn send(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize> {
        self.below.send(from, info)
    }

    fn below(&self) -> Option<&dyn Flow> {
        Some(&*self.below)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Flow> {
        Some(&mut *self.below)
    }

    // The bytes are the ones below.
    fn direct(&self) -> Option<BorrowedFd<'_>> {
        self.below.direct()
    }
}
