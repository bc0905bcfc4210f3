//! `op`: a transform with operations of its own beside those of the program (XIO-39): with every so many
//! writes it asks the `op` at the other end a question, which is answered there, and neither is seen above.
//! It is there to test drivers and programs, above any transport of bytes.
//!
//! - An answer that was not asked for, more questions than can be answered, records that are none, and an
//!   end that was not told are errors.

mod flow;
#[cfg(test)]
mod tests;

use self::flow::OpFlow;
use crate::attributes::{AttributeInfo, Attributes, ValueKind, info};
use crate::contact::Contact;
use crate::driver::{Below, Driver, Kind, Listener, Wrapping};
use crate::error::{Error, ErrorKind, Result};
use xdfs_io::stack::Flow;

/// Writes that a question comes with, unless told otherwise.
const EVERY: u64 = 1;

/// The driver.
pub(super) struct Op;

impl Driver for Op {
    fn kind(&self) -> Kind {
        Kind::Transform
    }

    fn attributes(&self) -> &'static [AttributeInfo] {
        const { &[info("every", ValueKind::Number, "Ask with every so many pieces that are sent; without it 1.")] }
    }

    fn open(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Flow>> {
        let every = every(attributes)?;
        Ok(Box::new(OpFlow::new(below.open(contact)?, every)))
    }

    fn listen(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Listener>> {
        let every = every(attributes)?;
        let wrap = move |below| Ok(Box::new(OpFlow::new(below, every)) as Box<dyn Flow>);
        Ok(Box::new(Wrapping::new(below.listen(contact)?, wrap)))
    }
}

fn every(attributes: &Attributes) -> Result<u64> {
    match attributes.number("every").unwrap_or(EVERY) {
        0 => Err(Error::new(ErrorKind::Usage, "the attribute 'every' is a number of pieces, and at least one")),
        every => Ok(every),
    }
}
