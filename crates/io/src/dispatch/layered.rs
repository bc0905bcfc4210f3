//! Sockets whose bytes pass through layers that were put together at run time: what the shared part
//! does for them beside what it does for every socket (the contract of [`crate::stack::Flow`]).
//!
//! - They are watched for what their layers want at the moment, no more: a level-triggered wait
//!   would return at once for what nobody takes.
//! - Any event, and any deadline of theirs, gives both sides a turn.
//! - A side that has opened the layers, or left decoded bytes in them, gives the other one a turn.

use super::slot::InterestChange;
use super::sockets::Sockets;
use super::wait::Wait;
use super::{Side, SocketId};
use crate::stack::Driver;

impl<W: Wait> Sockets<W> {
    /// Draws the conclusions from the turn that `side` had.
    pub(super) fn after_turn(&mut self, socket: SocketId, side: Side, blocked: bool) {
        let slot = self.slot(socket);
        let Some(layers) = slot.driver.link.layers_mut() else { return };
        let (opened, holds, due_in) = (layers.has_just_opened(), layers.holds(), layers.due_in());
        let other = if side == Side::Receive { Side::Send } else { Side::Receive };
        if opened || holds && other == Side::Receive {
            self.try_again(socket, other);
        }
        if !blocked {
            return;
        }
        let slot = self.slot(socket);
        if slot.driver.way(side).ready {
            // It may go on at once, after the others.
            if !std::mem::replace(&mut slot.driver.way(side).queued, true) {
                self.next_round.push_back((socket, side));
            }
            return;
        }
        self.watch_exactly(socket);
        self.timed.remove(socket);
        if let Some(time) = due_in {
            let at = self.back.now().after(time);
            self.timed.add(None, at, socket, side);
        }
    }

    /// Something happened to the socket of layers: whose operations wait has a turn. Returns false
    /// for a socket without layers.
    pub(super) fn layers_found(&mut self, socket: SocketId) -> bool {
        let slot = self.slot(socket);
        if slot.driver.link.layers().is_none() {
            return false;
        }
        let paced = slot.driver.receive.paced.waits() || slot.driver.send.paced.waits();
        let both = self.try_again(socket, Side::Receive) | self.try_again(socket, Side::Send);
        if paced || !both {
            self.watch_exactly(socket);
        }
        true
    }

    /// Gives the layers whose time has come a turn.
    pub(super) fn resume_timed(&mut self) {
        while let Some((socket, _)) = self.timed.due(self.now) {
            if let Some(layers) = self.slot(socket).driver.link.layers_mut() {
                layers.on_due();
            }
            self.try_again(socket, Side::Receive);
            self.try_again(socket, Side::Send);
        }
    }

    /// Queues the operation of `side`, if there is one.
    fn try_again(&mut self, socket: SocketId, side: Side) -> bool {
        let slot = self.slot(socket);
        let outstanding = match side {
            Side::Receive => slot.receiving.is_some(),
            Side::Send => slot.sending.is_some(),
        };
        if outstanding {
            let way = slot.driver.way(side);
            (way.ready, way.told) = (true, true);
            self.queue(socket, side);
        }
        outstanding
    }

    /// Watches the socket for what is wanted and for nothing else.
    pub(super) fn watch_exactly(&mut self, socket: SocketId) {
        let slot = self.slot(socket);
        if slot.armed != slot.wanted() {
            self.list(socket, InterestChange::Exact);
        }
    }
}
