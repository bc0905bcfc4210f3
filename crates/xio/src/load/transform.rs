//! A transform that was loaded, as an element of a stack.

use super::abi::{Element, Transform, named};
use crate::attributes::{AttributeInfo, Attributes};
use crate::contact::Contact;
use crate::driver::{Below, Driver, Kind, Listener, Wrapping};
use crate::error::Result;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;
use xdfs_io::stack::{Flow, ReadInfo, WriteInfo};

/// The driver.
pub(super) struct LoadedTransform {
    pub(super) name: Arc<str>,
    pub(super) calls: Transform,
    pub(super) attributes: &'static [AttributeInfo],
}

impl Driver for LoadedTransform {
    fn kind(&self) -> Kind {
        Kind::Transform
    }

    fn attributes(&self) -> &'static [AttributeInfo] {
        self.attributes
    }

    fn open(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Flow>> {
        let below = below.open(contact)?;
        Ok(layer(self.name.clone(), self.calls, &attributes.as_text(), below, false)?)
    }

    fn listen(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Listener>> {
        let (name, calls, attributes) = (self.name.clone(), self.calls, attributes.as_text());
        let wrap = move |below| layer(name.clone(), calls, &attributes, below, true);
        Ok(Box::new(Wrapping::new(below.listen(contact)?, wrap)))
    }
}

fn layer(
    name: Arc<str>,
    calls: Transform,
    attributes: &str,
    below: Box<dyn Flow>,
    accepted: bool,
) -> io::Result<Box<dyn Flow>> {
    let element = calls.open(attributes, accepted).map_err(|error| named(error, &name))?;
    Ok(Box::new(LoadedFlow { name, calls, element, below }))
}

struct LoadedFlow {
    name: Arc<str>,
    calls: Transform,
    element: Element,
    below: Box<dyn Flow>,
}

impl LoadedFlow {
    fn flush_own(&mut self) -> io::Result<()> {
        self.calls.flush(self.element, &mut *self.below).map_err(|error| named(error, &self.name))
    }
}

impl Drop for LoadedFlow {
    fn drop(&mut self) {
        self.calls.close(self.element);
    }
}

impl Flow for LoadedFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        let received = self.calls.receive(self.element, &mut *self.below, into, info);
        received.map_err(|error| named(error, &self.name))
    }

    fn send(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize> {
        let sent = self.calls.send(self.element, &mut *self.below, from, info);
        sent.map_err(|error| named(error, &self.name))
    }

    fn below(&self) -> Option<&dyn Flow> {
        Some(&*self.below)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Flow> {
        Some(&mut *self.below)
    }

    fn holds_back(&self) -> bool {
        self.calls.keeps() || self.below.holds_back()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flush_own()?;
        self.below.flush()
    }

    fn holds(&self) -> bool {
        self.calls.holds(self.element) || self.below.holds()
    }

    fn finish_sending(&mut self) -> io::Result<()> {
        self.flush_own()?;
        self.below.finish_sending()
    }
}
