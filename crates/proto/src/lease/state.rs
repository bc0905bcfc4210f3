//! What the server knows of one lease.

use super::{LeaseAnswer, LeaseKind};
use crate::base::Instant;

/// The client has it, and may renew it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Granted {
    pub(super) kind: LeaseKind,
    pub(super) until: Instant,
}

/// The client was told that somebody waits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Recalled {
    pub(super) kind: LeaseKind,
    pub(super) until: Instant,
    /// Somebody has waited from then on.
    pub(super) since: Instant,
}

/// The session is lost. The client may not know it yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Lost {
    pub(super) kind: LeaseKind,
    pub(super) until: Instant,
    /// Since when somebody has waited, if anybody does.
    pub(super) recalled: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum LeaseState {
    Granted(Granted),
    Recalled(Recalled),
    Lost(Lost),
}

impl LeaseState {
    pub(super) const fn kind(self) -> LeaseKind {
        match self {
            Self::Granted(Granted { kind, .. })
            | Self::Recalled(Recalled { kind, .. })
            | Self::Lost(Lost { kind, .. }) => kind,
        }
    }

    pub(super) const fn until(self) -> Instant {
        match self {
            Self::Granted(Granted { until, .. })
            | Self::Recalled(Recalled { until, .. })
            | Self::Lost(Lost { until, .. }) => until,
        }
    }

    /// Since when somebody has waited, if anybody does.
    pub(super) const fn recalled(self) -> Option<Instant> {
        match self {
            Self::Granted(_) => None,
            Self::Recalled(Recalled { since, .. }) => Some(since),
            Self::Lost(Lost { recalled, .. }) => recalled,
        }
    }

    /// Somebody waits: returns whether nobody did before.
    pub(super) fn recall(&mut self, since: Instant) -> bool {
        match self {
            Self::Granted(Granted { kind, until }) => {
                *self = Self::Recalled(Recalled { kind: *kind, until: *until, since });
            }
            Self::Lost(Lost { recalled: recalled @ None, .. }) => *recalled = Some(since),
            Self::Lost(_) | Self::Recalled(_) => return false,
        }
        true
    }

    pub(super) fn lose(&mut self) {
        *self = Self::Lost(Lost { kind: self.kind(), until: self.until(), recalled: self.recalled() });
    }

    /// Whether there is no client that can be told.
    pub(super) const fn is_lost(self) -> bool {
        matches!(self, Self::Lost(_))
    }

    pub(super) fn answer(self, now: Instant) -> LeaseAnswer {
        let (kind, time) = (self.kind(), self.until().since(now));
        match self {
            Self::Granted(_) => LeaseAnswer::Granted { kind, time },
            Self::Recalled(_) | Self::Lost(_) => LeaseAnswer::Recalled { kind, left: time },
        }
    }
}
