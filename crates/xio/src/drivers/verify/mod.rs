//! `verify`: a transform that looks whether its neighbours keep the contract of [`Flow`], and counts and
//! digests the bytes of each direction, so that both ends of a connection can be compared. It is there to
//! test drivers and programs, above any transport.
//!
//! - It changes nothing. A neighbour that breaks the contract is an error of its own, with what was broken.
//! - After that nothing more passes.

mod flow;
#[cfg(test)]
mod tests;

use self::flow::VerifyFlow;
use crate::attributes::Attributes;
use crate::contact::Contact;
use crate::driver::{Below, Driver, Kind, Listener, Wrapping};
use crate::error::Result;
use xdfs_io::stack::Flow;

/// The driver.
pub(super) struct Verify;

impl Driver for Verify {
    fn kind(&self) -> Kind {
        Kind::Transform
    }

    fn open(&self, below: &Below, contact: &Contact, _: &Attributes) -> Result<Box<dyn Flow>> {
        Ok(Box::new(VerifyFlow::new(below.open(contact)?)))
    }

    fn listen(&self, below: &Below, contact: &Contact, _: &Attributes) -> Result<Box<dyn Listener>> {
        let wrap = |below| Ok(Box::new(VerifyFlow::new(below)) as Box<dyn Flow>);
        Ok(Box::new(Wrapping::new(below.listen(contact)?, wrap)))
    }
}
