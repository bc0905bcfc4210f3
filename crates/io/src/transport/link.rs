//! A socket that is not attached to a dispatcher: the bottom of every stack, and the interface for
//! queries about a connection.

mod socket_flow;

use self::socket_flow::SocketFlow;
use super::{Address, congestion};
use crate::stack::{Driver, Layers, Over, Room};
use crate::sys::{self, TcpInfo};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, sockopt};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The transport of a link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum TransportKind {
    Tcp,
    Unix,
}

/// One end of a connection, or a listening socket. Always non-blocking.
#[derive(Debug)]
pub struct Link {
    descriptor: OwnedFd,
    kind: TransportKind,
    /// What the bytes pass through; the socket itself is at its bottom then, and the descriptor a
    /// duplicate.
    layers: Option<Box<Layers>>,
}

/// Effective sizes of the socket buffers, bytes, as the kernel reports them (it doubles the
/// requested size, for overhead).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Window {
    /// `SO_SNDBUF`.
    pub send: usize,
    /// `SO_RCVBUF`.
    pub receive: usize,
}

/// The other end of a connection.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Peer {
    /// Its IP address and port.
    Tcp(SocketAddr),
    /// A process of this host.
    Unix,
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // A listener for both families has IPv4 peers under addresses like ::ffff:192.0.2.1.
            Self::Tcp(address) => match address.ip().to_canonical() {
                IpAddr::V4(ip) => write!(f, "{ip}:{}", address.port()),
                IpAddr::V6(_) => write!(f, "{address}"),
            },
            Self::Unix => f.write_str("a process of this host"),
        }
    }
}

impl Link {
    /// Wraps a socket that is already non-blocking.
    pub(super) fn from_nonblocking(descriptor: OwnedFd, kind: TransportKind) -> Self {
        Self { descriptor, kind, layers: None }
    }

    /// The same connection, whose bytes pass through what `over` puts above it.
    pub fn layered(self, over: &dyn Over) -> io::Result<Self> {
        let (descriptor, kind) = (self.descriptor.try_clone()?, self.kind);
        let flow = over.over(Box::new(SocketFlow::new(self)))?;
        Ok(Self { descriptor, kind, layers: Some(Box::new(Layers::new(flow))) })
    }

    pub(super) fn kind(&self) -> TransportKind {
        self.kind
    }

    /// The address of this end. An unnamed Unix socket has the empty path.
    pub fn local(&self) -> io::Result<Address> {
        let name = rustix::net::getsockname(&self.descriptor)?;
        match self.kind {
            TransportKind::Tcp => Ok(Address::Tcp(SocketAddr::try_from(name)?)),
            TransportKind::Unix => {
                let name = rustix::net::SocketAddrUnix::try_from(name)?;
                let path = name.path_bytes().map(std::ffi::OsStr::from_bytes);
                Ok(Address::Unix(path.map(PathBuf::from).unwrap_or_default()))
            }
        }
    }

    /// The other end; an error while there is none.
    pub fn peer(&self) -> io::Result<Peer> {
        match self.kind {
            TransportKind::Unix => Ok(Peer::Unix),
            TransportKind::Tcp => match rustix::net::getpeername(&self.descriptor)? {
                Some(name) => Ok(Peer::Tcp(SocketAddr::try_from(name)?)),
                None => Err(io::ErrorKind::NotConnected.into()),
            },
        }
    }

    /// Whether the peer is on this host: a loopback address, or the same address at both ends.
    pub fn is_local(&self) -> bool {
        let (TransportKind::Tcp, Ok(Address::Tcp(local)), Ok(Peer::Tcp(peer))) = (self.kind, self.local(), self.peer())
        else {
            return self.kind == TransportKind::Unix;
        };
        is_one_host(local.ip(), peer.ip())
    }

    /// The congestion control in use; none for a transport without one.
    pub fn congestion_name(&self) -> Option<String> {
        match self.kind {
            TransportKind::Tcp => congestion::current(&self.descriptor).ok(),
            TransportKind::Unix => None,
        }
    }

    /// TCP's statistics of the connection; none for another transport.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        match self.kind {
            TransportKind::Tcp => sys::tcp_info(&self.descriptor).ok(),
            TransportKind::Unix => None,
        }
    }

    /// Effective sizes of the socket buffers.
    pub fn window(&self) -> io::Result<Window> {
        Ok(Window {
            send: sockopt::socket_send_buffer_size(&self.descriptor)?,
            receive: sockopt::socket_recv_buffer_size(&self.descriptor)?,
        })
    }

    /// Sets both socket buffers to `bytes` (the kernel doubles it for its own use and applies its
    /// limits). On an established connection only sizes below the announced window scale take full
    /// effect.
    pub fn set_window(&self, bytes: u32) -> io::Result<()> {
        sockopt::set_socket_send_buffer_size(&self.descriptor, bytes as usize)?;
        Ok(sockopt::set_socket_recv_buffer_size(&self.descriptor, bytes as usize)?)
    }
}

/// Whether a connection between these two addresses never leaves the host.
pub(super) fn is_one_host(local: IpAddr, peer: IpAddr) -> bool {
    let (local, peer) = (local.to_canonical(), peer.to_canonical());
    peer.is_loopback() || local == peer
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Driver for Link {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if let Some(layers) = &mut self.layers {
            return layers.receive(into);
        }
        if let [only] = into {
            let (bytes, _) = rustix::net::recv(&self.descriptor, &mut **only, RecvFlags::DONTWAIT)?;
            return Ok(bytes);
        }
        let mut control = rustix::net::RecvAncillaryBuffer::default();
        Ok(rustix::net::recvmsg(&self.descriptor, into, &mut control, RecvFlags::DONTWAIT)?.bytes)
    }

    fn send(&mut self, from: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        if let Some(layers) = &mut self.layers {
            return layers.send(from, more);
        }
        // NOSIGNAL: writing to a closed peer is an error, not a signal.
        let mut flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        flags.set(SendFlags::MORE, more);
        if let [only] = from {
            return Ok(rustix::net::send(&self.descriptor, only, flags)?);
        }
        let mut control = rustix::net::SendAncillaryBuffer::default();
        Ok(rustix::net::sendmsg(&self.descriptor, from, &mut control, flags)?)
    }

    fn accept(&mut self) -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        Ok(Self::from_nonblocking(rustix::net::accept_with(&self.descriptor, flags)?, self.kind))
    }

    fn connected(&mut self) -> io::Result<()> {
        if let Some(layers) = &mut self.layers {
            return layers.connected();
        }
        sockopt::socket_error(&self.descriptor)??;
        match rustix::net::getpeername(&self.descriptor) {
            Ok(_) => Ok(()),
            // Neither failed nor connected: the attempt is pending.
            Err(rustix::io::Errno::NOTCONN) => Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => Err(error.into()),
        }
    }

    fn direct(&self) -> Option<BorrowedFd<'_>> {
        match &self.layers {
            None => Some(self.descriptor.as_fd()),
            Some(layers) => layers.direct(),
        }
    }

    fn moved_directly(&mut self, bytes: u64) {
        if let Some(layers) = &mut self.layers {
            layers.moved_directly(bytes);
        }
    }

    fn room(&self) -> Option<Room> {
        if let Some(layers) = &self.layers {
            return layers.room();
        }
        let memory = sys::meminfo(&self.descriptor).ok()?;
        // TCP counts queued bytes until they are acknowledged; a Unix socket counts what its peer
        // has not read.
        let used = match self.kind {
            TransportKind::Tcp => memory.queued,
            TransportKind::Unix => memory.allocated,
        };
        Some(Room { free: memory.send_buffer.saturating_sub(used).into(), total: memory.send_buffer.into() })
    }

    fn finish_sending(&mut self) -> io::Result<()> {
        match &mut self.layers {
            None => Ok(rustix::net::shutdown(&self.descriptor, rustix::net::Shutdown::Write)?),
            Some(layers) => layers.finish_sending(),
        }
    }

    fn layers(&self) -> Option<&Layers> {
        self.layers.as_deref()
    }

    fn layers_mut(&mut self) -> Option<&mut Layers> {
        self.layers.as_deref_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_peer_is_written_as_one_whatever_the_listener_is() {
        for (address, written) in [
            ("192.0.2.1:5", "192.0.2.1:5"),
            ("[::ffff:192.0.2.1]:5", "192.0.2.1:5"),
            ("[2001:db8::1]:5", "[2001:db8::1]:5"),
            ("[fe80::1%7]:5", "[fe80::1%7]:5"),
        ] {
            assert_eq!(Peer::Tcp(address.parse().unwrap()).to_string(), written);
        }
    }
}
