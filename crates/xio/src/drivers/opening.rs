//! How far the opening of an element is that has to hear of its peer, and until when that may take.

use std::time::{Duration, Instant};

/// What the opening still waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Opening {
    /// The layer below, until then at most.
    Below(Option<Instant>),
    /// The peer, until then at most.
    Peer(Option<Instant>),
    /// Nothing: it took too long.
    Late,
    /// Nothing: it is open.
    Done,
}

impl Opening {
    /// It begins now and may take as long as `limit`.
    pub(super) fn within(limit: Duration) -> Self {
        Self::Below(Instant::now().checked_add(limit))
    }

    /// When it has taken too long.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match *self {
            Self::Below(by) | Self::Peer(by) => by,
            Self::Late | Self::Done => None,
        }
    }

    /// The element is told that a deadline is reached, which may be that of another layer.
    pub(super) fn on_deadline(&mut self) {
        if self.deadline().is_some_and(|by| by <= Instant::now()) {
            *self = Self::Late;
        }
    }
}
