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
    /// The limit, if there is one.
    pace: Option<Arc<dyn Pace>>,
    delay: Delay,
}

/// Whether a limit holds one side back.
#[derive(Clone, Copy, Default)]
enum Delay {
    /// It does not.
    #[default]
    None,
    /// It waits at this place for the time that the limit named.
    Waiting(Place),
    /// The time has come. It keeps its place until it may move bytes.
    Resumed(Place),
}

impl Paced {
    pub(super) fn pace(&self) -> Option<&Arc<dyn Pace>> {
        self.pace.as_ref()
    }

    /// Sets or removes the limit. Whoever waits for the one before still waits until its time.
    pub(super) fn set(&mut self, pace: Option<Arc<dyn Pace>>) {
        if let (None, Delay::Resumed(_)) = (&pace, self.delay) {
            self.delay = Delay::None;
        }
        self.pace = pace;
    }

    /// Whether it waits for the time that the limit named.
    pub(super) fn waits(&self) -> bool {
        matches!(self.delay, Delay::Waiting(_))
    }

    /// The limit lets it move bytes.
    pub(super) fn on_allowed(&mut self) {
        self.delay = Delay::None;
    }

    /// The limit holds it back; it waits at `place`.
    pub(super) fn on_held_back(&mut self, place: Place) {
        self.delay = Delay::Waiting(place);
    }

    /// The place that it keeps while it is held back.
    pub(super) fn place(&self) -> Option<Place> {
        match self.delay {
            Delay::None => None,
            Delay::Waiting(place) | Delay::Resumed(place) => Some(place),
        }
    }

    /// The time that the limit named has come.
    pub(super) fn on_due(&mut self) {
        // Without a limit there is nothing to keep a place for.
        self.delay = match self.place().filter(|_| self.pace.is_some()) {
            Some(place) => Delay::Resumed(place),
            None => Delay::None,
        };
    }
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
