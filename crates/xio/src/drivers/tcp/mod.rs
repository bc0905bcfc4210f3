//! `tcp`: a transport over TCP. Its contact is `host:port`; a name is looked up when it is opened,
//! and its addresses are tried in order. To listen, the host may be left out, and port 0 is a free
//! one.

#[cfg(test)]
mod tests;

use crate::attributes::{AttributeInfo, Attributes, ValueKind};
use crate::contact::Contact;
use crate::driver::{Below, Driver, Kind, Listener};
use crate::drivers::sockets::{SocketFlow, SocketListener, opened};
use crate::error::{Error, ErrorKind, Result};
use std::io;
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};
use xdfs_io::stack::Flow;
use xdfs_io::transport::{self, Address, TransportOptions};

/// Most addresses of a name that are tried.
const ADDRESSES_MAX: usize = 16;

/// The driver.
pub(super) struct Tcp;

impl Driver for Tcp {
    fn kind(&self) -> Kind {
        Kind::Transport
    }

    fn attributes(&self) -> &'static [AttributeInfo] {
        &[
            AttributeInfo { name: "window", kind: ValueKind::Bytes, about: "Size of both socket buffers." },
            AttributeInfo { name: "congestion", kind: ValueKind::Text, about: "Congestion control, by name." },
            AttributeInfo { name: "delay", kind: ValueKind::Flag, about: "Wait a moment to fill segments." },
        ]
    }

    fn open(&self, _: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Flow>> {
        let addresses = resolve(contact, false)?.into_iter().map(Address::Tcp).collect();
        Ok(Box::new(SocketFlow::connect(addresses, options(attributes)?)?))
    }

    fn listen(&self, _: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Listener>> {
        let options = options(attributes)?;
        let mut failure = Error::new(ErrorKind::NotFound, "the name has no address");
        for address in resolve(contact, true)? {
            match transport::listen(&Address::Tcp(address), &options) {
                Ok(link) => return Ok(Box::new(SocketListener { link, options })),
                Err(error) => failure = opened(error).into(),
            }
        }
        Err(failure)
    }
}

fn options(attributes: &Attributes) -> Result<TransportOptions> {
    let window = attributes.number("window").map(u32::try_from).transpose();
    Ok(TransportOptions {
        window: window.map_err(|_| Error::new(ErrorKind::Usage, "a window is smaller than 4 GiB"))?,
        congestion: attributes.text("congestion").map(str::to_owned),
        nodelay: !attributes.flag("delay"),
        ..TransportOptions::default()
    })
}

/// The addresses that a contact names.
pub(super) fn resolve(contact: &Contact, passive: bool) -> Result<Vec<SocketAddr>> {
    let wrong = |what: &str| Error::new(ErrorKind::Contact, format!("'{}': {what}", contact.shown().escape_debug()));
    let port = contact.port().ok_or_else(|| wrong("an address with a port is needed, as host:port"))?;
    let port: u16 = port.parse().map_err(|_| wrong("the port must be a number"))?;
    let host = match contact.host() {
        Some(host) => host,
        None if passive => return Ok(vec![(Ipv6Addr::UNSPECIFIED, port).into(), ([0, 0, 0, 0], port).into()]),
        None => return Err(wrong("the host is missing")),
    };
    let found = (host, port).to_socket_addrs().map_err(|error| {
        let kind = if error.kind() == io::ErrorKind::InvalidInput { ErrorKind::Contact } else { ErrorKind::NotFound };
        Error::new(kind, format!("the host '{}' has no address: {error}", host.escape_debug()))
    })?;
    Ok(found.take(ADDRESSES_MAX).collect())
}
