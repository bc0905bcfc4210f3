//! The driver of a blocking transport: its connections are elements that never wait, and so is its listener.

use super::abi::{Blocking, Listening, named};
use super::blocking::opened;
use super::listening::BlockingListener;
use crate::attributes::{AttributeInfo, Attributes};
use crate::contact::Contact;
use crate::driver::{Below, Driver, Kind, Listener};
use crate::error::{Error, ErrorKind, Result};
use xdfs_io::stack::Flow;

/// A blocking transport that comes as a file.
pub(super) struct BlockingDriver {
    /// Its name.
    pub(super) name: String,
    /// Its functions.
    pub(super) calls: Blocking,
    /// Of one that can listen.
    pub(super) listening: Option<Listening>,
    /// What can be set for it.
    pub(super) attributes: &'static [AttributeInfo],
}

impl Driver for BlockingDriver {
    fn kind(&self) -> Kind {
        Kind::Transport
    }

    fn attributes(&self) -> &'static [AttributeInfo] {
        self.attributes
    }

    fn open(&self, _: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Flow>> {
        opened(&self.name, self.calls, contact.text().to_owned(), attributes.as_text())
    }

    fn listen(&self, _: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Listener>> {
        let Some(listening) = self.listening else {
            return Err(Error::new(ErrorKind::Unsupported, "it cannot listen"));
        };
        let listener = BlockingListener::start(
            &self.name,
            self.calls,
            listening,
            listening.listen(contact.text(), &attributes.as_text()).map_err(|error| named(error, &self.name))?,
        )?;
        Ok(Box::new(listener))
    }
}
