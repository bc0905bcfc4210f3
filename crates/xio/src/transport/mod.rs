//! The transport room (the papers' XDSI): connections between two processes, and what can be asked about them.
//!
//! # Contract
//!
//! A transport gives out [`Link`]s: non-blocking sockets that carry bytes in order and both ways. It opens and
//! configures; a dispatcher moves the bytes.
//!
//! A member must provide:
//! - `listen` and `connect` never wait. `connect` starts; `Op::Connect` of a dispatcher tells how it ended;
//! - [`TransportOptions::window`] is set before `connect` and `listen`, since TCP announces its scale in the first
//!   segment and accepted connections inherit it;
//! - an option that cannot be met is an error that names the value and what would be possible, never a silent change.
//!
//! A caller may not assume that a connection exists when `connect` returns, and calls [`settle`] for every link that it
//! *accepted*: the congestion control follows from who the peer is, which a listener cannot know.
//!
//! Members: `tcp` and `unix`, in the table of [`crate::stack::registry`].

mod congestion;
mod error;
mod link;
pub mod tcp;
pub mod unix;

pub use crate::sys::TcpInfo;
pub use error::TransportError;
pub use link::{Link, Peer, Window};

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Connections that wait for `accept`, at most; the kernel cuts it to its own bound (`net.core.somaxconn`). A session
/// opens up to 4,096 channels in one burst.
pub const BACKLOG: i32 = 4096;

/// Where somebody listens.
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

/// What a caller may ask of a connection. The default leaves everything to the system but the delay of small segments.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TransportOptions {
    /// Bytes of both socket buffers. None leaves the kernel's tuning on, which is better nearly everywhere.
    pub window: Option<u32>,
    /// Bytes of the sending buffer alone; wins over `window` for that side.
    pub send_buffer: Option<u32>,
    /// Congestion control by name. None leaves the system's, but see [`settle`].
    pub congestion: Option<String>,
    /// Send small segments at once.
    pub nodelay: bool,
}

impl Default for TransportOptions {
    fn default() -> Self {
        Self { window: None, send_buffer: None, congestion: None, nodelay: true }
    }
}

/// Socket buffers for one of many channels within one host, in bytes. The dispatcher stays with a channel as long as it
/// flows, so a window that holds half a block suffices; larger ones leave the cache where a thousand are filled, and
/// smaller ones have it wait in vain (measured at 1000 channels: 256 KiB 4.3, 512 KiB 5.4, the kernel's tuning 4.7 GB/s).
pub const SHARED_HOST_WINDOW: u32 = 512 * 1024;
/// Channels from which on that holds.
pub const SHARED_HOST_CHANNELS: u16 = 8;

/// The window of each of `channels` channels where nobody asked for one: none (the kernel tunes it) but within one host.
pub const fn default_window(one_host: bool, channels: u16) -> Option<u32> {
    if one_host && channels >= SHARED_HOST_CHANNELS { Some(SHARED_HOST_WINDOW) } else { None }
}

/// Whether connections to `address` stay on this host for sure, before there is one.
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

/// Takes over a socket that listens already: handed on by another process.
pub fn adopt(socket: std::os::fd::OwnedFd) -> std::io::Result<Link> {
    use rustix::net::{AddressFamily, sockopt};
    if !sockopt::socket_acceptconn(&socket)? {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "the socket does not listen"));
    }
    let kind = match sockopt::socket_domain(&socket)? {
        AddressFamily::INET | AddressFamily::INET6 => link::TransportKind::Tcp,
        AddressFamily::UNIX => link::TransportKind::Unix,
        _ => return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "the socket is of no kind known here")),
    };
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(Link::from_nonblocking(socket, kind))
}

/// Starts connecting to `address`; the link is then attached to a dispatcher, which tells how it ended.
pub fn connect(address: &Address, options: &TransportOptions) -> Result<Link, TransportError> {
    match address {
        Address::Tcp(_) => tcp::connect(address, options),
        Address::Unix(_) => unix::connect(address, options),
    }
}

/// Applies what depends on the peer to a link that was accepted, before bytes move: nothing for Unix; for TCP `nodelay`
/// and the congestion control. Within one host a control that paces (`bbr`) was measured at less than half the rate of
/// `cubic`, so `cubic` is picked there unless the options name one; between hosts the system's choice holds.
pub fn settle(link: &Link, options: &TransportOptions) -> Result<(), TransportError> {
    match link.kind() {
        link::TransportKind::Tcp => tcp::settle(link, options),
        link::TransportKind::Unix => Ok(()),
    }
}
