//! What the calls of a batch are about.

use crate::wire::Event;

/// What the calls of a batch are about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CallService {
    /// Names: xPathM.
    Path,
    /// An open file: xDFSM.
    File,
}

impl CallService {
    /// The event of its batches and replies.
    pub const fn event(self) -> Event {
        match self {
            Self::Path => Event::Path,
            Self::File => Event::File,
        }
    }

    /// The service of an event; none if that carries no calls.
    pub const fn of(event: Event) -> Option<Self> {
        match event {
            Event::Path => Some(Self::Path),
            Event::File => Some(Self::File),
            _ => None,
        }
    }
}

/// The state of a batch or its reply.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Calls {
    pub(super) service: CallService,
    /// Length of what this end sends: the batch, or the reply once there is one.
    pub(super) bytes: u32,
}
