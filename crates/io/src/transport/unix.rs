//! Stream sockets within one host, named by a path.
//!
//! Nothing is ever unlinked here: `listen` fails if the path exists, and the owner of the directory
//! is responsible for removing it.

use super::link::{Link, TransportKind};
use super::{Address, BACKLOG, TransportError, TransportOptions, tcp};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
use std::os::fd::OwnedFd;

/// Listens at a path, which must not exist.
pub fn listen(address: &Address, options: &TransportOptions) -> Result<Link, TransportError> {
    let name = of_unix(address)?;
    let failed = failed("listen at", address);
    let socket = open().map_err(&failed)?;
    tcp::set_buffers(&socket, options)?;
    bind(&socket, &name).map_err(&failed)?;
    rustix::net::listen(&socket, BACKLOG).map_err(&failed)?;
    Ok(Link::from_nonblocking(socket, TransportKind::Unix))
}

/// Connects to a path. Unlike TCP this completes at once: without a listener it is refused, and
/// with too many waiting connections it fails with `WouldBlock`, since the kernel offers no
/// notification of free space.
pub fn connect(address: &Address, options: &TransportOptions) -> Result<Link, TransportError> {
    let name = of_unix(address)?;
    let failed = failed("connect to", address);
    let socket = open().map_err(&failed)?;
    tcp::set_buffers(&socket, options)?;
    rustix::net::connect(&socket, &name).map_err(&failed)?;
    Ok(Link::from_nonblocking(socket, TransportKind::Unix))
}

fn open() -> Result<OwnedFd, rustix::io::Errno> {
    socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)
}

fn failed(action: &'static str, address: &Address) -> impl Fn(rustix::io::Errno) -> TransportError {
    let address = address.clone();
    move |error| TransportError::Address { action, address: address.clone(), source: error.into() }
}

fn of_unix(address: &Address) -> Result<SocketAddrUnix, TransportError> {
    match address {
        Address::Unix(path) => {
            SocketAddrUnix::new(path.as_path()).map_err(|_| TransportError::PathTooLong { address: address.clone() })
        }
        Address::Tcp(_) => Err(TransportError::WrongKind { address: address.clone(), transport: "unix" }),
    }
}
