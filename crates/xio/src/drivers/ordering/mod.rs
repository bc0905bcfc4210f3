//! `ordering`: a transform that puts what is received into the order of its offsets, above an element whose
//! bytes may come in any order. What comes too early is kept, up to a bound.
//!
//! - Each byte is delivered once: one that comes twice is refused, and so is an end with a gap before it.
//! - Bytes without an offset follow those before them.

mod flow;
#[cfg(test)]
mod tests;

use self::flow::OrderingFlow;
use crate::attributes::{AttributeInfo, Attributes, ValueKind, info};
use crate::contact::Contact;
use crate::driver::{Below, Driver, Kind, Listener, Wrapping};
use crate::error::Result;
use xdfs_io::stack::Flow;

/// Bytes that are kept, unless told otherwise.
const KEPT_BYTES: u64 = 16 << 20;

/// The driver.
pub(super) struct Ordering;

impl Driver for Ordering {
    fn kind(&self) -> Kind {
        Kind::Transform
    }

    fn attributes(&self) -> &'static [AttributeInfo] {
        const {
            &[
                info(
                    "kept",
                    ValueKind::Bytes,
                    "Most bytes that are kept because others before them are missing; without it 16MiB.",
                ),
                info("offset", ValueKind::Bytes, "Offset of the first byte; without it 0."),
            ]
        }
    }

    fn open(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Flow>> {
        let (kept, offset) = plan(attributes);
        Ok(Box::new(OrderingFlow::new(below.open(contact)?, kept, offset)))
    }

    fn listen(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Listener>> {
        let (kept, offset) = plan(attributes);
        let wrap = move |below| Ok(Box::new(OrderingFlow::new(below, kept, offset)) as Box<dyn Flow>);
        Ok(Box::new(Wrapping::new(below.listen(contact)?, wrap)))
    }
}

/// How many bytes are kept, and where the first belongs.
fn plan(attributes: &Attributes) -> (u64, u64) {
    (attributes.number("kept").unwrap_or(KEPT_BYTES), attributes.number("offset").unwrap_or(0))
}
