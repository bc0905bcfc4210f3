//! `unix`: a transport between processes of one host. Its contact is a path. To listen, the path
//! must not exist; nothing removes it afterwards.

#[cfg(test)]
mod tests;

use crate::attributes::{AttributeInfo, Attributes};
use crate::contact::Contact;
use crate::driver::{Below, Driver, Kind, Listener};
use crate::drivers::sockets::{SocketFlow, SocketListener, opened};
use crate::error::{Error, ErrorKind, Result};
use std::path::PathBuf;
use xdfs_io::stack::Flow;
use xdfs_io::transport::{self, Address, TransportOptions};

/// The driver.
pub(super) struct Unix;

impl Driver for Unix {
    fn kind(&self) -> Kind {
        Kind::Transport
    }

    fn attributes(&self) -> &'static [AttributeInfo] {
        &[]
    }

    fn open(&self, _: &Below, contact: &Contact, _: &Attributes) -> Result<Box<dyn Flow>> {
        let address = Address::Unix(path_of(contact)?);
        Ok(Box::new(SocketFlow::connect(vec![address], TransportOptions::default())?))
    }

    fn listen(&self, _: &Below, contact: &Contact, _: &Attributes) -> Result<Box<dyn Listener>> {
        let options = TransportOptions::default();
        let link = transport::listen(&Address::Unix(path_of(contact)?), &options).map_err(opened)?;
        Ok(Box::new(SocketListener { link, options }))
    }
}

/// The path that a contact names; one with a colon and without a slash reads as `host:port`.
pub(super) fn path_of(contact: &Contact) -> Result<PathBuf> {
    let path = contact.path().filter(|_| contact.host().is_none());
    path.map(PathBuf::from).ok_or_else(|| {
        Error::new(ErrorKind::Contact, format!("'{}': a path is needed", contact.shown().escape_debug()))
    })
}
