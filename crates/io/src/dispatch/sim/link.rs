//! A simulated socket: the driver at the bottom of a stack in tests. Dropping it closes it.

use super::network::Network;
use super::world::SocketName;
use crate::stack::{Driver, Room};
use std::io::{self, IoSlice, IoSliceMut};

/// One end of a simulated connection, or a listening socket.
#[derive(Debug)]
pub struct SimLink {
    network: Network,
    name: SocketName,
}

impl SimLink {
    fn new(network: Network, name: SocketName) -> Self {
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

impl Network {
    /// A connection that exists already.
    pub fn pair(&self) -> (SimLink, SimLink) {
        let connection = self.world().pair();
        (self.link(SocketName::End { connection, side: 0 }), self.link(SocketName::End { connection, side: 1 }))
    }

    /// Listens at `port`, which may have one listener at a time.
    pub fn listen(&self, port: u16) -> io::Result<SimLink> {
        let listener = self.world().listen(port)?;
        Ok(self.link(SocketName::Listener(listener)))
    }

    /// Starts connecting to `port`; [`crate::dispatch::Op::Connect`] reports the result.
    pub fn connect(&self, port: u16) -> SimLink {
        let connection = self.world().connect(port);
        self.link(SocketName::End { connection, side: 0 })
    }

    /// Breaks a connection now: what was not delivered is lost, both ends fail.
    pub fn cut(&self, link: &SimLink) {
        self.world().cut(link.name());
    }

    /// Holds back what `link` sends from now on, or releases it: a path that stalls without
    /// breaking.
    pub fn hold(&self, link: &SimLink, held: bool) {
        self.world().hold(link.name(), held);
    }

    fn link(&self, name: SocketName) -> SimLink {
        SimLink::new(self.clone(), name)
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
