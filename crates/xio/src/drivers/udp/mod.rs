//! `udp`: a transport of datagrams. Its contact is `host:port`; to listen, the host may be left out.
//!
//! - A write is one datagram, a read at most one: both may be empty, and each ends a message. What is
//!   longer than the reader's buffers is dropped whole and counted (`too_long`), as the network may
//!   drop it; nobody gets half a datagram.
//! - An element that was opened exchanges datagrams with its one peer. One that was accepted takes
//!   those of everybody: a read tells the peer, a write goes to the one that it names, or to the one
//!   whose datagram came last. There is one such element at a time.
//! - There is no end, and nothing says that anything arrived.

mod flow;
#[cfg(test)]
mod tests;

use self::flow::{UdpFlow, UdpListener};
use super::tcp::resolve;
use crate::attributes::{AttributeInfo, Attributes, ValueKind};
use crate::contact::Contact;
use crate::driver::{Below, Driver, Kind, Listener};
use crate::error::{Error, ErrorKind, Result};
use rustix::net::sockopt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use xdfs_io::stack::Flow;

/// The driver.
pub(super) struct Udp;

impl Driver for Udp {
    fn kind(&self) -> Kind {
        Kind::Transport
    }

    fn attributes(&self) -> &'static [AttributeInfo] {
        &[
            AttributeInfo { name: "window", kind: ValueKind::Bytes, about: "Size of both socket buffers." },
            AttributeInfo {
                name: "local",
                kind: ValueKind::Text,
                about: "Address that datagrams come from, as ip:port.",
            },
            AttributeInfo { name: "broadcast", kind: ValueKind::Flag, about: "Allow broadcast addresses." },
        ]
    }

    fn open(&self, _: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Flow>> {
        let local = attributes.text("local").map(str::parse::<SocketAddr>).transpose();
        let local = local.map_err(|_| Error::new(ErrorKind::Usage, "the attribute 'local' is ip:port"))?;
        let mut failure = Error::new(ErrorKind::NotFound, "the name has no address");
        for peer in resolve(contact, false)? {
            let opened = socket(local.unwrap_or_else(|| any(&peer)), attributes).and_then(|socket| {
                socket.connect(peer)?;
                Ok(socket)
            });
            match opened {
                Ok(socket) => return Ok(Box::new(UdpFlow::connected_to(socket, peer))),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn listen(&self, _: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Listener>> {
        if attributes.text("local").is_some() {
            return Err(Error::new(ErrorKind::Usage, "the contact says where it listens, not the attribute 'local'"));
        }
        let mut failure = Error::new(ErrorKind::NotFound, "the name has no address");
        for address in resolve(contact, true)? {
            match socket(address, attributes).and_then(|socket| Ok(UdpListener::new(socket)?)) {
                Ok(listener) => return Ok(Box::new(listener)),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}

/// Any address of the peer's family.
fn any(peer: &SocketAddr) -> SocketAddr {
    if peer.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() }
}

fn socket(local: SocketAddr, attributes: &Attributes) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(local)?;
    socket.set_nonblocking(true)?;
    socket.set_broadcast(attributes.flag("broadcast"))?;
    if let Some(window) = attributes.number("window") {
        let window = usize::try_from(window).ok().filter(|window| i32::try_from(*window).is_ok());
        let window = window.ok_or_else(|| Error::new(ErrorKind::Usage, "a window is smaller than 2 GiB"))?;
        sockopt::set_socket_recv_buffer_size(&socket, window).map_err(std::io::Error::from)?;
        sockopt::set_socket_send_buffer_size(&socket, window).map_err(std::io::Error::from)?;
    }
    Ok(socket)
}
