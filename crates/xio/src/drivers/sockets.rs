//! What `tcp` and `unix` share: a connected socket as an element of a stack, and a listening one.

use crate::driver::Listener;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use xdfs_io::stack::{Answer, Command, Driver, Flow, Interest, ReadInfo, Room, WriteInfo};
use xdfs_io::transport::{self, Address, Link, Peer, TransportOptions};

/// A stream socket. It may be one of several attempts: the next address is tried when one fails.
pub(super) struct SocketFlow {
    link: Link,
    options: TransportOptions,
    connected: bool,
    /// Addresses that were not tried yet, the next one last.
    others: Vec<Address>,
}

impl SocketFlow {
    /// Starts to connect to the first of `addresses` that can be tried.
    pub(super) fn connect(mut addresses: Vec<Address>, options: TransportOptions) -> io::Result<Self> {
        addresses.reverse();
        let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
        while let Some(address) = addresses.pop() {
            match transport::connect(&address, &options) {
                Ok(link) => return Ok(Self { link, options, connected: false, others: addresses }),
                Err(error) => failure = opened(error),
            }
        }
        Err(failure)
    }

    /// An accepted socket.
    fn accepted(link: Link, options: &TransportOptions) -> io::Result<Self> {
        transport::settle(&link, options).map_err(opened)?;
        Ok(Self { link, options: options.clone(), connected: true, others: Vec::new() })
    }
}

/// The error of opening, with the kind that the kernel's has.
pub(super) fn opened(error: transport::TransportError) -> io::Error {
    let kind = error.io().map_or(io::ErrorKind::InvalidInput, io::Error::kind);
    io::Error::new(kind, error.to_string())
}

impl Flow for SocketFlow {
    #[inline]
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        let bytes = Driver::receive(&mut self.link, into)?;
        info.end = bytes == 0 && into.iter().any(|slice| !slice.is_empty());
        Ok(bytes)
    }

    #[inline]
    fn send(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize> {
        Driver::send(&mut self.link, from, info.more)
    }

    fn connected(&mut self) -> io::Result<()> {
        while !self.connected {
            match Driver::connected(&mut self.link) {
                Ok(()) => self.connected = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock || self.others.is_empty() => return Err(error),
                // The new socket is opened before the old one is closed: who watches sees another
                // number.
                Err(_) => *self = Self::connect(std::mem::take(&mut self.others), self.options.clone())?,
            }
        }
        Ok(())
    }

    fn room(&self) -> Option<Room> {
        Driver::room(&self.link)
    }

    fn wants(&self, asked: Interest) -> Interest {
        if self.connected { asked } else { Interest::WRITE }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.link.as_fd())
    }

    fn direct(&self) -> Option<BorrowedFd<'_>> {
        Some(self.link.as_fd())
    }

    fn finish_sending(&mut self) -> io::Result<()> {
        Driver::finish_sending(&mut self.link)
    }

    /// `local`, `peer`: the addresses; `window`: the size of the sending buffer.
    fn control(&mut self, command: &Command) -> io::Result<Answer> {
        match &*command.name {
            "local" => Ok(Answer::Text(self.link.local()?.to_string())),
            "peer" => Ok(Answer::Text(match self.link.peer()? {
                Peer::Tcp(address) => address.to_string(),
                Peer::Unix => "a process of this host".to_owned(),
            })),
            "window" => Ok(Answer::Number(self.link.window()?.send as u64)),
            "finish_sending" => Driver::finish_sending(&mut self.link).map(|()| Answer::Done),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// A listening socket.
pub(super) struct SocketListener {
    pub(super) link: Link,
    pub(super) options: TransportOptions,
}

impl Listener for SocketListener {
    fn accept(&mut self) -> io::Result<Box<dyn Flow>> {
        let link = Driver::accept(&mut self.link)?;
        Ok(Box::new(SocketFlow::accepted(link, &self.options)?))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.link.as_fd())
    }

    fn contact(&self) -> io::Result<String> {
        match self.link.local()? {
            Address::Tcp(mut address) => {
                reachable(&mut address);
                Ok(address.to_string())
            }
            Address::Unix(path) => path.into_os_string().into_string().map_err(|_| io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Makes of the address of a listener one that a process of this host can connect to.
pub(super) fn reachable(address: &mut SocketAddr) {
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
}
