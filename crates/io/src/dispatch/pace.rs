//! Limits of bandwidth, as a dispatcher sees them: before each turn of a limited side it asks how
//! many bytes may move, and waits where the answer is a later time.

use super::{Instant, Side, SocketId};
use std::sync::Arc;

/// What may move now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allowance {
    /// This many bytes; at least one.
    Bytes(u64),
    /// Nothing before this time.
    From(Instant),
}

impl Allowance {
    /// What two limits together allow.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Bytes(one), Self::Bytes(two)) => Self::Bytes(one.min(two)),
            (Self::From(one), Self::From(two)) => Self::From(one.max(two)),
            (Self::From(at), Self::Bytes(_)) | (Self::Bytes(_), Self::From(at)) => Self::From(at),
        }
    }
}

/// A limit of bandwidth, asked by the threads whose sockets it holds for.
pub trait Pace: Send + Sync + std::fmt::Debug {
    /// What may move at `now`.
    fn ask(&self, now: Instant) -> Allowance;

    /// What moved of the last allowance.
    fn moved(&self, bytes: u64);
}

/// The limit of one side of a socket.
#[derive(Default)]
pub(super) struct Paced {
    pub(super) pace: Option<Arc<dyn Pace>>,
    /// It waits for the time that the limit named.
    pub(super) waits: bool,
}

/// Sides that wait for their limit, in the order in which they asked.
#[derive(Default)]
pub(super) struct WaitingSides(Vec<(Instant, SocketId, Side)>);

impl WaitingSides {
    pub(super) fn add(&mut self, at: Instant, socket: SocketId, side: Side) {
        self.0.push((at, socket, side));
    }

    pub(super) fn remove(&mut self, socket: SocketId) {
        self.0.retain(|(_, waiting, _)| *waiting != socket);
    }

    /// The first of these times and of `deadline`.
    pub(super) fn earliest(&self, deadline: Option<Instant>) -> Option<Instant> {
        self.0.iter().map(|(at, ..)| *at).chain(deadline).min()
    }

    /// Takes out one whose time has come, the one that waited longest first.
    pub(super) fn due(&mut self, now: Instant) -> Option<(SocketId, Side)> {
        let place = self.0.iter().position(|(at, ..)| *at <= now)?;
        let (_, socket, side) = self.0.remove(place);
        Some((socket, side))
    }
}
