//! The interface between the code that moves bytes, which all implementations share, and the mechanism that
//! waits.
//!
//! A back end reports readiness by level: what was not handled is reported again. It owns no socket
//! and identifies each by number.

use super::{Instant, Side, Wake};
use crate::stack::Driver;
use std::io;

/// What a socket is watched for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interest {
    /// Bytes, a connection or an end to be received.
    pub readable: bool,
    /// Space for bytes to be sent, or a finished connection attempt.
    pub writable: bool,
}

impl Interest {
    /// Nothing: the socket is not watched, errors and hang-ups included.
    pub const NONE: Self = Self { readable: false, writable: false };

    /// What an operation on `side` waits for.
    pub fn of(side: Side) -> Self {
        Self { readable: side == Side::Receive, writable: side == Side::Send }
    }

    /// The union of both.
    pub fn or(self, other: Self) -> Self {
        Self { readable: self.readable || other.readable, writable: self.writable || other.writable }
    }

    /// Whether this includes all of `other`.
    pub fn covers(self, other: Self) -> bool {
        self.or(other) == self
    }
}

/// A socket that is ready. Errors and hang-ups count as both, since the next call on either side
/// reports them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// The socket's number.
    pub slot: u32,
    /// What it is ready for.
    pub found: Interest,
}

/// How long to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// Do not block.
    Now,
    /// Until this time.
    At(Instant),
    /// Until something happens.
    Ever,
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waited {
    /// The waker was called.
    pub woken: bool,
    /// Nothing happened and this back end does not block: `next` returns to its caller.
    pub gave_up: bool,
}

/// A waiting mechanism.
pub trait Wait {
    /// The stack of drivers whose sockets it can watch.
    type Link: Driver;
    /// Ends its wait from another thread.
    type Waker: Wake;

    /// Changes what a socket is watched for. [`Interest::NONE`] on either side means that it was,
    /// or becomes, unknown.
    fn watch(&mut self, slot: u32, link: &Self::Link, before: Interest, after: Interest) -> io::Result<()>;

    /// Waits and appends what is ready to `events`, which is empty. It may return early with
    /// nothing.
    fn wait(&mut self, until: Until, events: &mut Vec<Event>) -> io::Result<Waited>;

    /// Waits at most a tenth of a millisecond for one socket only; returns whether it is ready. A
    /// mechanism with virtual time never waits here.
    fn linger(&mut self, _link: &Self::Link, _interest: Interest) -> bool {
        false
    }

    /// An operation was started since the last wait.
    fn submitted(&mut self) {}

    /// The current time, read again.
    fn now(&self) -> Instant;

    /// A handle that ends the wait.
    fn waker(&self) -> Self::Waker;
}
