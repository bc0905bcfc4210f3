//! Leases on open files: what lets a client keep bytes and attributes of a file, and changes that it
//! has not sent yet, although others use the same file.
//!
//! A lease is a promise of the server for a time: while a **read** lease holds nobody else changes
//! the file, and while a **write** lease holds nobody else looks at it either. Whoever wants what a
//! lease excludes makes the server *recall* it, and waits until the client has given it back, at most
//! until its time is over. So nobody is asked to be honest or quick: a client that does not answer
//! delays others by the lease time, once.
//!
//! [`LeaseTable`] is the server's side, [`Holding`] is the side of a client for one open file. They
//! agree about time without agreeing about clocks: the client's lease runs from the moment at which it
//! *sent* the call, the server's from the moment at which it *received* it, which is later.
//!
//! The rules are P-94 to P-98 of `docs/protocol.md`, the reasons `docs/decisions/0029-leases.md`.
//! `tests/model/src/lease` runs both sides against each other. Neither knows messages, descriptors or a
//! clock.

mod holding;
mod owners;
mod state;
mod table;
#[cfg(test)]
mod tests;

pub use holding::{Holding, HoldingState, OutOfTurn};
pub use table::{Holder, LeaseTable, LeaseTerms};

use crate::base::{Duration, Instant};

/// What a lease promises.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LeaseKind {
    /// Nobody else changes the file.
    Read,
    /// Nobody else looks at the file or changes it.
    Write,
}

/// What somebody does with a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Access {
    /// Its bytes or attributes are read.
    Look,
    /// They are changed, or its name is.
    Change,
}

impl LeaseKind {
    /// Whether others may not do this while the lease holds.
    pub const fn excludes(self, access: Access) -> bool {
        matches!((self, access), (Self::Write, _) | (_, Access::Change))
    }

    /// Whether two clients may not have these at a time.
    pub const fn excludes_lease(self, other: Self) -> bool {
        matches!((self, other), (Self::Write, _) | (_, Self::Write))
    }
}

/// The server's answer to a call about a lease.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LeaseAnswer {
    /// The client has this lease, for this long after it sent the call.
    Granted {
        /// Not always the one that was asked for.
        kind: LeaseKind,
        /// From the sending of the call.
        time: Duration,
    },
    /// The client has this lease, and somebody waits for its end; it is not renewed.
    Recalled {
        /// Which one it is.
        kind: LeaseKind,
        /// How long it lasts at most, from the sending of the call.
        left: Duration,
    },
    /// The client has no lease.
    Refused,
}

/// An access has to wait: until this moment at most, or until those who keep it from going on have
/// given their leases back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MustWait {
    /// When the last of their leases ends.
    pub until: Instant,
}
