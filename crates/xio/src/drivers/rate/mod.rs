//! `rate`: a transform that lets a number of bytes a second through, in each direction for itself.
//! What was saved up while nothing moved is at most a tenth of a second's worth, so that pauses are
//! not made good by bursts.

mod flow;
#[cfg(test)]
mod tests;

use self::flow::RateFlow;
use crate::attributes::{AttributeInfo, Attributes, ValueKind};
use crate::contact::Contact;
use crate::driver::{Below, Driver, Kind, Listener, Wrapping};
use crate::error::{Error, ErrorKind, Result};
use xdfs_io::stack::Flow;

/// The driver.
pub(super) struct Rate;

impl Driver for Rate {
    fn kind(&self) -> Kind {
        Kind::Transform
    }

    fn attributes(&self) -> &'static [AttributeInfo] {
        &[AttributeInfo { name: "rate", kind: ValueKind::Bytes, about: "Bytes a second, in each direction." }]
    }

    fn open(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Flow>> {
        let rate = rate_of(attributes)?;
        Ok(Box::new(RateFlow::new(below.open(contact)?, rate)))
    }

    fn listen(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Listener>> {
        let rate = rate_of(attributes)?;
        let wrap = move |below| Ok(Box::new(RateFlow::new(below, rate)) as Box<dyn Flow>);
        Ok(Box::new(Wrapping::new(below.listen(contact)?, wrap)))
    }
}

fn rate_of(attributes: &Attributes) -> Result<u64> {
    match attributes.number("rate") {
        Some(rate @ 1..) => Ok(rate),
        Some(0) => Err(Error::new(ErrorKind::Usage, "a rate of zero lets nothing through")),
        None => Err(Error::new(ErrorKind::Usage, "a rate is needed, as rate=100MB/s")),
    }
}
