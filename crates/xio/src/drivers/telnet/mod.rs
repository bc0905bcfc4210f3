//! `telnet`: a transform for the protocol of terminals and control connections (RFC 854). It carries
//! bytes of any value; commands of the peer's are taken out, and every option that it proposes is
//! refused, so that both ends stay at the plain terminal.

mod code;
mod flow;
#[cfg(test)]
mod tests;

use self::flow::TelnetFlow;
use crate::attributes::Attributes;
use crate::contact::Contact;
use crate::driver::{Below, Driver, Kind, Listener, Wrapping};
use crate::error::Result;
use xdfs_io::stack::Flow;

/// The driver.
pub(super) struct Telnet;

impl Driver for Telnet {
    fn kind(&self) -> Kind {
        Kind::Transform
    }

    fn open(&self, below: &Below, contact: &Contact, _: &Attributes) -> Result<Box<dyn Flow>> {
        Ok(Box::new(TelnetFlow::new(below.open(contact)?)))
    }

    fn listen(&self, below: &Below, contact: &Contact, _: &Attributes) -> Result<Box<dyn Listener>> {
        let wrap = |below| Ok(Box::new(TelnetFlow::new(below)) as Box<dyn Flow>);
        Ok(Box::new(Wrapping::new(below.listen(contact)?, wrap)))
    }
}
