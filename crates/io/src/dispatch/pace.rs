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
    /// Its place among those that wait, which it keeps until it may move bytes.
    pub(super) place: Option<Place>,
}

/// A place in the order of those that wait: the lowest is first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place(u64);

/// Sides that wait for their limit. Whoever has to wait again, since another one was allowed to
/// move bytes first, keeps its place: all get their turns.
#[derive(Default)]
pub(super) struct WaitingSides {
    /// By their places.
    all: Vec<(Place, Instant, SocketId, Side)>,
    next: u64,
}

impl WaitingSides {
    /// Adds one that waits until `at`; returns its place, which is the last one unless it had one.
    pub(super) fn add(&mut self, place: Option<Place>, at: Instant, socket: SocketId, side: Side) -> Place {
        let place = place.unwrap_or_else(|| {
            self.next += 1;
            Place(self.next)
        });
        let index = self.all.partition_point(|(other, ..)| *other < place);
        self.all.insert(index, (place, at, socket, side));
        place
    }

    pub(super) fn remove(&mut self, socket: SocketId) {
        self.all.retain(|(_, _, waiting, _)| *waiting != socket);
    }

    /// The first of these times and of `deadline`.
    pub(super) fn earliest(&self, deadline: Option<Instant>) -> Option<Instant> {
        self.all.iter().map(|(_, at, ..)| *at).chain(deadline).min()
    }

    /// Takes out one whose time has come, the one that waited longest first.
    pub(super) fn due(&mut self, now: Instant) -> Option<(SocketId, Side)> {
        let index = self.all.iter().position(|(_, at, ..)| *at <= now)?;
        let (_, _, socket, side) = self.all.remove(index);
        Some((socket, side))
    }
}
