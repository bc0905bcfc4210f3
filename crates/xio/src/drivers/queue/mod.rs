//! `queue`: a transform with a queue of bytes in each direction (XIO-66): small reads are served from what
//! one large read of the layer below brought, and small writes are collected for one large write. It goes
//! above a transport whose calls cost much and below drivers that make many.
//!
//! - What a program wrote is passed on when its write ends, as by every driver that keeps bytes.
//! - Reads and writes that are as large as the queue pass without a copy.

mod flow;
#[cfg(test)]
mod tests;

use self::flow::QueueFlow;
use crate::attributes::{AttributeInfo, Attributes, ValueKind, info};
use crate::contact::Contact;
use crate::driver::{Below, Driver, Kind, Listener, Wrapping};
use crate::error::{Error, ErrorKind, Result};
use xdfs_io::stack::Flow;

/// Bytes that a queue holds, unless told otherwise, and at most.
const BYTES: u64 = 64 << 10;
const BYTES_MAX: u64 = 64 << 20;

/// The driver.
pub(super) struct Queue;

impl Driver for Queue {
    fn kind(&self) -> Kind {
        Kind::Transform
    }

    fn attributes(&self) -> &'static [AttributeInfo] {
        const ABOUT: &str = "Most bytes that are kept in each direction, up to 64MiB; without it 64KiB.";
        const { &[info("bytes", ValueKind::Bytes, ABOUT)] }
    }

    fn open(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Flow>> {
        let bytes = bytes(attributes)?;
        Ok(Box::new(QueueFlow::new(below.open(contact)?, bytes)))
    }

    fn listen(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Listener>> {
        let bytes = bytes(attributes)?;
        let wrap = move |below| Ok(Box::new(QueueFlow::new(below, bytes)) as Box<dyn Flow>);
        Ok(Box::new(Wrapping::new(below.listen(contact)?, wrap)))
    }
}

fn bytes(attributes: &Attributes) -> Result<usize> {
    match attributes.number("bytes").unwrap_or(BYTES) {
        bytes @ 1..=BYTES_MAX => Ok(bytes as usize),
        _ => Err(Error::new(ErrorKind::Usage, "the attribute 'bytes' is a size from a byte to 64MiB")),
    }
}
