//! Transports (the papers' XDSI): connections between two processes, and queries about them.
//!
//! # Contract
//!
//! A transport creates [`Link`]s: non-blocking sockets that carry bytes in order in both
//! directions. It opens and configures; a dispatcher moves the bytes.
//!
//! An implementation must provide:
//! - `listen` and `connect` never wait. `connect` starts the attempt; `Op::Connect` of a dispatcher
//!   reports its result;
//! - [`TransportOptions::window`] is set before `connect` and `listen`, since TCP announces its
//!   scale in the first segment and accepted connections inherit it;
//! - an option that cannot be applied is an error that names the value and the possible ones, never
//!   a silent change.
//!
//! A caller must not assume that a connection exists when `connect` returns, and calls [`settle`]
//! for every link that it *accepted*: the congestion control depends on the peer, which a listener
//! does not know.
//!
//! Implementations: `tcp` and `unix`, in the table of [`registry`].

mod congestion;
mod error;
mod link;
pub mod registry;
pub mod tcp;
pub mod unix;

pub use crate::sys::TcpInfo;
pub use error::TransportError;
pub use link::{Link, Peer, Window};

use rustix::net::AddressFamily;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Maximum number of connections that wait for `accept`; the kernel reduces it to its own limit
/// (`net.core.somaxconn`). A session opens up to 4,096 channels in one burst.
pub const BACKLOG: i32 = 4096;

/// An address to listen at or connect to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Address {
    /// An IP address and port.
    Tcp(SocketAddr),
    /// A path of the file system.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display().to_string().escape_debug()),
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

/// Options of a connection. The default leaves everything to the system except the delay of small
/// segments.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TransportOptions {
    /// Bytes of both socket buffers. None keeps the kernel's tuning, which is better nearly
    /// everywhere.
    pub window: Option<u32>,
    /// Bytes of the sending buffer only; overrides `window` for that side.
    pub send_buffer: Option<u32>,
    /// Congestion control by name. None keeps the system's, but see [`settle`].
    pub congestion: Option<String>,
    /// Send small segments at once.
    pub nodelay: bool,
}

impl Default for TransportOptions {
    fn default() -> Self {
        Self { window: None, send_buffer: None, congestion: None, nodelay: true }
    }
}

/// Socket buffers for one of many channels within one host, in bytes. The dispatcher stays with a
/// channel as long as data flows, so a window that holds half a block suffices; larger ones exceed
/// the cache when a thousand are filled, and smaller ones make it wait in vain (measured at 1000
/// channels: 256 KiB 4.3, 512 KiB 5.4, the kernel's tuning 4.7 GB/s).
pub const SHARED_HOST_WINDOW: u32 = 512 * 1024;
/// Number of channels from which [`SHARED_HOST_WINDOW`] applies.
pub const SHARED_HOST_CHANNELS: u16 = 8;

/// The default window of each of `channels` channels: none (the kernel tunes it) except within one
/// host.
pub const fn default_window(one_host: bool, channels: u16) -> Option<u32> {
    if one_host && channels >= SHARED_HOST_CHANNELS { Some(SHARED_HOST_WINDOW) } else { None }
}

/// Whether connections to `address` are certain to stay on this host, before there is one.
pub fn is_one_host(address: &Address) -> bool {
    match address {
        Address::Tcp(address) => address.ip().is_loopback(),
        Address::Unix(_) => true,
    }
}

/// Starts listening at `address`.
pub fn listen(address: &Address, options: &TransportOptions) -> Result<Link, TransportError> {
    match address {
        Address::Tcp(_) => tcp::listen(address, options),
        Address::Unix(_) => unix::listen(address, options),
    }
}

/// Takes over a listening socket that was passed on by another process.
pub fn adopt(socket: OwnedFd) -> io::Result<Link> {
    if !rustix::net::sockopt::socket_acceptconn(&socket)? {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the socket does not listen"));
    }
    link_of(socket)
}

/// Takes over a connection that was made elsewhere.
pub fn adopt_connection(socket: OwnedFd) -> io::Result<Link> {
    rustix::net::getpeername(&socket)?;
    link_of(socket)
}

fn link_of(socket: OwnedFd) -> io::Result<Link> {
    let kind = match rustix::net::sockopt::socket_domain(&socket)? {
        AddressFamily::INET | AddressFamily::INET6 => link::TransportKind::Tcp,
        AddressFamily::UNIX => link::TransportKind::Unix,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "the socket is of no kind known here")),
    };
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(Link::from_nonblocking(socket, kind))
}

/// Starts connecting to `address`; the link is then attached to a dispatcher, which reports the
/// result.
pub fn connect(address: &Address, options: &TransportOptions) -> Result<Link, TransportError> {
    match address {
        Address::Tcp(_) => tcp::connect(address, options),
        Address::Unix(_) => unix::connect(address, options),
    }
}

/// Applies what depends on the peer to an accepted link, before bytes move: nothing for Unix; for
/// TCP `nodelay` and the congestion control. Within one host a control with pacing (`bbr`) was
/// measured at less than half the rate of `cubic`, so `cubic` is used there unless the options name
/// one; between hosts the system's choice is kept.
pub fn settle(link: &Link, options: &TransportOptions) -> Result<(), TransportError> {
    match link.kind() {
        link::TransportKind::Tcp => tcp::settle(link, options),
        link::TransportKind::Unix => Ok(()),
    }
}
