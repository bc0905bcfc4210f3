//! TCP over IPv4 and IPv6.

use super::link::{Link, TransportKind, is_one_host};
use super::{Address, BACKLOG, TransportError, TransportOptions, congestion};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// A connection without data is probed after this time...
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// ...and, while there is no answer, so often until it is lost.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 4;

/// Listens at a TCP address; port 0 selects a free one (reported by [`Link::local`]). An IPv6
/// address accepts only IPv6 unless it is the unspecified one, which accepts both.
pub fn listen(address: &Address, options: &TransportOptions) -> Result<Link, TransportError> {
    let at = of_tcp(address)?;
    let failed = |error: rustix::io::Errno| TransportError::Address {
        action: "listen at",
        address: address.clone(),
        source: error.into(),
    };
    let socket = open(at).map_err(failed)?;
    sockopt::set_socket_reuseaddr(&socket, true).map_err(failed)?;
    if at.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, !at.ip().is_unspecified()).map_err(failed)?;
    }
    apply(&socket, options)?;
    // A connection inherits its listener's control (see also `connect`), so the listener gets one
    // without pacing, and `settle` gives connections from other hosts the system's.
    if options.congestion.is_none() {
        congestion::set_local(&socket);
    }
    bind(&socket, &at).map_err(failed)?;
    rustix::net::listen(&socket, BACKLOG).map_err(failed)?;
    Ok(Link::from_nonblocking(socket, TransportKind::Tcp))
}

/// Starts connecting to a TCP address.
pub fn connect(address: &Address, options: &TransportOptions) -> Result<Link, TransportError> {
    let to = of_tcp(address)?;
    let failed = |error: rustix::io::Errno| TransportError::Address {
        action: "connect to",
        address: address.clone(),
        source: error.into(),
    };
    let socket = open(to).map_err(failed)?;
    apply(&socket, options)?;
    // Before `connect`: a socket that once had a control with pacing keeps pacing under any other.
    if options.congestion.is_none() && leads_to_this_host(to) {
        congestion::set_local(&socket);
    }
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(Link::from_nonblocking(socket, TransportKind::Tcp)),
        Err(error) => Err(failed(error)),
    }
}

/// See [`super::settle`].
pub(super) fn settle(link: &Link, options: &TransportOptions) -> Result<(), TransportError> {
    set_nodelay(link, options)?;
    set_keepalive(link)?;
    match &options.congestion {
        Some(name) => congestion::set_named(link, name)?,
        None if link.is_local() => {}
        None => congestion::set_default(link, default_control),
    }
    Ok(())
}

/// The control of a new socket on this system.
fn default_control() -> io::Result<String> {
    let any = SocketAddr::from((std::net::Ipv4Addr::UNSPECIFIED, 0));
    congestion::current(open(any)?)
}

/// Whether a connection to this address stays on this host: it is a loopback address, or the source
/// address of the route to it.
fn leads_to_this_host(to: SocketAddr) -> bool {
    let source = || -> io::Result<SocketAddr> {
        // Connecting a datagram socket looks up the route and sends nothing.
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let probe = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        rustix::net::connect(&probe, &to)?;
        Ok(SocketAddr::try_from(rustix::net::getsockname(&probe)?)?)
    };
    let to_here = to.ip().is_loopback() || to.ip().is_unspecified();
    to_here || source().is_ok_and(|source| is_one_host(source.ip(), to.ip()))
}

/// The options that do not depend on the peer; call it before `connect` or `listen`.
fn apply(socket: &OwnedFd, options: &TransportOptions) -> Result<(), TransportError> {
    set_buffers(socket, options)?;
    set_nodelay(socket, options)?;
    set_keepalive(socket)?;
    match &options.congestion {
        Some(name) => congestion::set_named(socket, name),
        None => Ok(()),
    }
}

/// Sets the sizes of the socket buffers that the options name; the kernel's own limits apply
/// ([`Link::window`] reports the result).
pub(super) fn set_buffers(socket: impl AsFd, options: &TransportOptions) -> Result<(), TransportError> {
    let failed = |option, value: u32| {
        move |error: rustix::io::Errno| TransportError::Option {
            option,
            value: value.to_string(),
            source: error.into(),
        }
    };
    if let Some(bytes) = options.send_buffer.or(options.window) {
        sockopt::set_socket_send_buffer_size(&socket, bytes as usize).map_err(failed("SO_SNDBUF", bytes))?;
    }
    if let Some(bytes) = options.window {
        sockopt::set_socket_recv_buffer_size(&socket, bytes as usize).map_err(failed("SO_RCVBUF", bytes))?;
    }
    Ok(())
}

fn set_nodelay(socket: impl AsFd, options: &TransportOptions) -> Result<(), TransportError> {
    sockopt::set_tcp_nodelay(socket, options.nodelay).map_err(|error| TransportError::Option {
        option: "TCP_NODELAY",
        value: options.nodelay.to_string(),
        source: io::Error::from(error),
    })
}

/// A peer that vanished without a word, on a connection that has nothing to send, is found within two
/// minutes.
fn set_keepalive(socket: impl AsFd) -> Result<(), TransportError> {
    let socket = socket.as_fd();
    sockopt::set_socket_keepalive(socket, true)
        .and_then(|()| sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE))
        .and_then(|()| sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL))
        .and_then(|()| sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES))
        .map_err(|error| TransportError::Option {
            option: "SO_KEEPALIVE",
            value: "1".into(),
            source: io::Error::from(error),
        })
}

fn open(address: SocketAddr) -> Result<OwnedFd, rustix::io::Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))
}

fn of_tcp(address: &Address) -> Result<SocketAddr, TransportError> {
    match address {
        Address::Tcp(address) => Ok(*address),
        Address::Unix(_) => Err(TransportError::WrongKind { address: address.clone(), transport: "tcp" }),
    }
}
