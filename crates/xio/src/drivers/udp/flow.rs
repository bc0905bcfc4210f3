//! A datagram socket as an element of a stack, and the listener that gives it.

use crate::driver::Listener;
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendFlags};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use xdfs_io::stack::{Answer, Command, Flow, ReadInfo, WriteInfo};

/// Datagrams that one call drops before others have their turn.
const DROPPED_PER_CALL: usize = 64;

/// Whom an element talks to.
enum Peer {
    /// One, that the kernel knows.
    Fixed(SocketAddr),
    /// Everybody; answers go to the one that was heard last.
    Any { last: Option<SocketAddr>, _turn: Turn },
}

/// An open datagram socket.
pub(super) struct UdpFlow {
    socket: UdpSocket,
    peer: Peer,
    /// Datagrams that were dropped because no buffer was large enough.
    too_long: u64,
}

impl UdpFlow {
    pub(super) fn connected_to(socket: UdpSocket, peer: SocketAddr) -> Self {
        Self { socket, peer: Peer::Fixed(peer), too_long: 0 }
    }

    /// The address for a datagram; none where the kernel knows it.
    fn destination(&self, named: Option<SocketAddr>) -> io::Result<Option<SocketAddr>> {
        let refused = |what: String| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        match (&self.peer, named) {
            (Peer::Fixed(peer), Some(named)) if *peer != named => {
                refused(format!("it was opened to {peer} and sends nothing to {named}"))
            }
            (Peer::Fixed(_), _) => Ok(None),
            (Peer::Any { .. }, Some(named)) => Ok(Some(named)),
            (Peer::Any { last: Some(last), .. }, None) => Ok(Some(*last)),
            (Peer::Any { last: None, .. }, None) => {
                refused("nobody was heard yet: name the peer of the write, or read first".to_owned())
            }
        }
    }
}

impl Flow for UdpFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        for _ in 0..DROPPED_PER_CALL {
            let mut control = RecvAncillaryBuffer::default();
            let received = rustix::net::recvmsg(&self.socket, into, &mut control, RecvFlags::DONTWAIT)?;
            let from = received.address.and_then(|address| SocketAddr::try_from(address).ok());
            if let (Peer::Any { last, .. }, Some(from)) = (&mut self.peer, from) {
                *last = Some(from);
            }
            if received.flags.contains(ReturnFlags::TRUNC) {
                self.too_long += 1;
                continue;
            }
            let fixed = if let Peer::Fixed(peer) = self.peer { Some(peer) } else { None };
            info.peer = from.or(fixed);
            info.end_of_message = true;
            return Ok(received.bytes);
        }
        // More may be there, and the kernel will not say so again.
        Err(io::ErrorKind::Interrupted.into())
    }

    fn send(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize> {
        let mut control = SendAncillaryBuffer::default();
        let sent = match self.destination(info.peer)? {
            Some(peer) => rustix::net::sendmsg_addr(&self.socket, &peer, from, &mut control, SendFlags::DONTWAIT)?,
            None => rustix::net::sendmsg(&self.socket, from, &mut control, SendFlags::DONTWAIT)?,
        };
        Ok(sent)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    /// `local`, `peer`: the addresses; `too_long`: how many datagrams no buffer could take.
    fn control(&mut self, command: &Command) -> io::Result<Answer> {
        match &*command.name {
            "local" => Ok(Answer::Text(self.socket.local_addr()?.to_string())),
            "peer" => match &self.peer {
                Peer::Fixed(peer) | Peer::Any { last: Some(peer), .. } => Ok(Answer::Text(peer.to_string())),
                Peer::Any { last: None, .. } => Err(io::ErrorKind::NotConnected.into()),
            },
            "too_long" => Ok(Answer::Number(self.too_long)),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// A bound socket. What it accepts has the socket; the next is accepted when that is gone.
pub(super) struct UdpListener {
    socket: UdpSocket,
    /// Readable while nobody has the socket.
    free: Arc<OwnedFd>,
}

impl UdpListener {
    pub(super) fn new(socket: UdpSocket) -> io::Result<Self> {
        let free = Arc::new(eventfd(1, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        Ok(Self { socket, free })
    }
}

impl Listener for UdpListener {
    fn accept(&mut self) -> io::Result<Box<dyn Flow>> {
        let socket = self.socket.try_clone()?;
        rustix::io::read(&self.free, &mut [0; 8])?;
        let peer = Peer::Any { last: None, _turn: Turn(self.free.clone()) };
        Ok(Box::new(UdpFlow { socket, peer, too_long: 0 }))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.free.as_fd())
    }

    fn contact(&self) -> io::Result<String> {
        let mut address = self.socket.local_addr()?;
        crate::drivers::sockets::reachable(&mut address);
        Ok(address.to_string())
    }
}

/// Held by the element that has the socket.
struct Turn(Arc<OwnedFd>);

impl Drop for Turn {
    fn drop(&mut self) {
        // It fails only where it is already set.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}
