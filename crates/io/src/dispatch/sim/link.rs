//! A simulated socket: the driver at the bottom of a stack in tests. Dropping it closes it.

use super::network::Network;
use crate::stack::{Driver, Room};
use std::io::{self, IoSlice, IoSliceMut};

/// Identifies a socket of a network.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum SocketName {
    /// One end, 0 or 1, of a connection.
    End { connection: usize, side: usize },
    /// A listening socket.
    Listener(usize),
}

/// One end of a simulated connection, or a listening socket.
#[derive(Debug)]
pub struct SimLink {
    network: Network,
    name: SocketName,
}

impl SimLink {
    pub(super) fn new(network: Network, name: SocketName) -> Self {
        Self { network, name }
    }

    pub(super) fn name(&self) -> SocketName {
        self.name
    }

    /// The network it belongs to.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Sends a FIN: the peer reads the bytes in flight and then the end.
    pub fn finish_sending(&self) {
        self.network.world().finish(self.name);
    }
}

impl Driver for SimLink {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.network.world().receive(self.name, into)
    }

    fn send(&mut self, from: &[IoSlice<'_>], _more: bool) -> io::Result<usize> {
        self.network.world().send(self.name, from)
    }

    fn accept(&mut self) -> io::Result<Self> {
        let name = self.network.world().accept(self.name)?;
        Ok(Self::new(self.network.clone(), name))
    }

    fn connected(&mut self) -> io::Result<()> {
        self.network.world().connected(self.name)
    }

    fn room(&self) -> Option<Room> {
        self.network.world().room(self.name)
    }
}

impl Drop for SimLink {
    fn drop(&mut self) {
        self.network.world().close(self.name);
    }
}
