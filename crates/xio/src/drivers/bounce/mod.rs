//! `bounce`: a transform whose every call becomes several of the layer below, a piece each, until it is
//! full, or the layer below is not ready or fails. It is there to test drivers and programs, above any
//! transport of bytes.
//!
//! - What moved before the layer below failed is told first, and the failure by the next call.

mod flow;
#[cfg(test)]
mod tests;

use self::flow::BounceFlow;
use crate::attributes::{AttributeInfo, Attributes, ValueKind, info};
use crate::contact::Contact;
use crate::driver::{Below, Driver, Kind, Listener, Wrapping};
use crate::error::{Error, ErrorKind, Result};
use xdfs_io::stack::Flow;

/// Bytes of a piece, unless told otherwise.
const PIECE_BYTES: u64 = 1024;

/// The driver.
pub(super) struct Bounce;

impl Driver for Bounce {
    fn kind(&self) -> Kind {
        Kind::Transform
    }

    fn attributes(&self) -> &'static [AttributeInfo] {
        const { &[info("piece", ValueKind::Bytes, "Most bytes of a call of the layer below; without it 1KiB.")] }
    }

    fn open(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Flow>> {
        let piece = piece(attributes)?;
        Ok(Box::new(BounceFlow::new(below.open(contact)?, piece)))
    }

    fn listen(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Listener>> {
        let piece = piece(attributes)?;
        let wrap = move |below| Ok(Box::new(BounceFlow::new(below, piece)) as Box<dyn Flow>);
        Ok(Box::new(Wrapping::new(below.listen(contact)?, wrap)))
    }
}

fn piece(attributes: &Attributes) -> Result<usize> {
    match usize::try_from(attributes.number("piece").unwrap_or(PIECE_BYTES)) {
        Ok(piece) if piece > 0 => Ok(piece),
        _ => Err(Error::new(ErrorKind::Usage, "the attribute 'piece' is a number of bytes, and at least one")),
    }
}
