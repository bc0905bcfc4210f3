//! The element of a stack that is put together at run time: the trait that a driver's author
//! implements. It moves bytes and never waits; who waits, for how long and for whom is decided
//! above it, in one place for all drivers (the crate `xio`).
//!
//! # Contract
//!
//! - `receive` and `send` move what they can now, or fail with `WouldBlock`. A call that failed
//!   moved nothing, and no call moves more than the slices hold.
//! - The end is told by [`ReadInfo::end`] and stays the end. No bytes without it is an empty
//!   message, which only an element with messages has.
//! - After `WouldBlock` at least one of these changes when it is worth trying again: the descriptor
//!   becomes ready in a direction that `wants` names, or `deadline` is reached.
//! - An element that has decoded bytes that nobody took says so by `holds`. The kernel will not say
//!   it, and who waits for the kernel would wait for ever.
//! - An element that may accept bytes in `send` and keep them says so by `holds_back`; then `flush`
//!   is called until it returns `Ok`, and only then the bytes count as written.
//! - Dropping an element closes it, at once.
//!
//! Every method but `receive` and `send` passes the call to the element below, if there is one, so
//! that a transform writes what it changes and no more.

use super::Room;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// What came with received bytes. An element fills in what it knows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ReadInfo {
    /// Where the bytes belong, if they may come out of order.
    pub offset: Option<u64>,
    /// Who sent them, if it is not always the same.
    pub peer: Option<SocketAddr>,
    /// A message ends with these bytes.
    pub end_of_message: bool,
    /// Nothing follows these bytes.
    pub end: bool,
}

/// What goes with bytes to send.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct WriteInfo {
    /// Where the bytes belong, if not after those before.
    pub offset: Option<u64>,
    /// To whom, if it is not always the same.
    pub peer: Option<SocketAddr>,
    /// Other bytes follow at once: a transport may wait for them before it fills a segment.
    pub more: bool,
    /// A message ends with these bytes.
    pub end_of_message: bool,
}

/// Directions in which a descriptor can be ready.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Interest {
    /// Bytes, the end or an error can be received.
    pub read: bool,
    /// Bytes can be sent.
    pub write: bool,
}

impl Interest {
    /// No direction: only a deadline is waited for.
    pub const NONE: Self = Self { read: false, write: false };
    /// Receiving.
    pub const READ: Self = Self { read: true, write: false };
    /// Sending.
    pub const WRITE: Self = Self { read: false, write: true };
    /// Both.
    pub const BOTH: Self = Self { read: true, write: true };

    /// Whether a direction is in both.
    pub const fn meets(self, other: Self) -> bool {
        self.read && other.read || self.write && other.write
    }

    /// What is in either.
    pub const fn with(self, other: Self) -> Self {
        Self { read: self.read || other.read, write: self.write || other.write }
    }

    /// What is in this one alone.
    pub const fn without(self, other: Self) -> Self {
        Self { read: self.read && !other.read, write: self.write && !other.write }
    }
}

/// A request to one driver, by name: what it means is the driver's.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Command {
    /// The driver it is for; none is the highest that knows the name.
    pub driver: Option<String>,
    /// Its name.
    pub name: String,
    /// Its argument, as text.
    pub value: Option<String>,
}

/// What a driver answers to a [`Command`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Answer {
    /// Done; there is nothing to say.
    Done,
    /// A number.
    Number(u64),
    /// A text.
    Text(String),
}

/// One open element of a stack. Its contract is in the module documentation.
pub trait Flow: Send {
    /// Receives into the slices, in order.
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize>;

    /// Sends from the slices, in order.
    fn send(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize>;

    /// The element below; none for a transport.
    fn below(&self) -> Option<&dyn Flow> {
        None
    }

    /// The element below, to be called.
    fn below_mut(&mut self) -> Option<&mut dyn Flow> {
        None
    }

    /// `WouldBlock` until it is connected and every handshake is done.
    fn connected(&mut self) -> io::Result<()> {
        self.below_mut().map_or(Ok(()), Flow::connected)
    }

    /// Send buffer space; none where it is unknown.
    fn room(&self) -> Option<Room> {
        self.below().and_then(Flow::room)
    }

    /// Whether `send` may keep bytes that `flush` must pass on. It never changes.
    fn holds_back(&self) -> bool {
        self.below().is_some_and(Flow::holds_back)
    }

    /// Passes on what was kept: `WouldBlock` while some is left.
    fn flush(&mut self) -> io::Result<()> {
        self.below_mut().map_or(Ok(()), Flow::flush)
    }

    /// Whether `receive` has something that the kernel does not know of.
    fn holds(&self) -> bool {
        self.below().is_some_and(Flow::holds)
    }

    /// The directions whose readiness makes it worth trying `asked` again.
    fn wants(&self, asked: Interest) -> Interest {
        self.below().map_or(asked, |below| below.wants(asked))
    }

    /// When [`Flow::on_deadline`] is to be called.
    fn deadline(&self) -> Option<Instant> {
        self.below().and_then(Flow::deadline)
    }

    /// The deadline is reached.
    fn on_deadline(&mut self) {
        if let Some(below) = self.below_mut() {
            below.on_deadline();
        }
    }

    /// What the kernel reports readiness of. Without one, calls may take as long as a disk does and
    /// are made on a thread that may wait.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.below().and_then(Flow::descriptor)
    }

    /// What the kernel reports readiness to send of, where that is another descriptor: then the one
    /// of [`Flow::descriptor`] is asked about receiving alone.
    fn sending_descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.below().and_then(Flow::sending_descriptor)
    }

    /// The descriptor whose bytes *are* this element's bytes.
    fn direct(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Called for bytes that the kernel moved to [`Flow::direct`].
    fn moved_directly(&mut self, bytes: u64) {
        if let Some(below) = self.below_mut() {
            below.moved_directly(bytes);
        }
    }

    /// Passes on what was kept and tells the peer that no more follows: `WouldBlock` until then. What the
    /// peer sends still comes by `receive`.
    fn finish_sending(&mut self) -> io::Result<()> {
        self.below_mut().map_or(Ok(()), Flow::finish_sending)
    }

    /// Called by who closes, after `finish_sending` has succeeded: `WouldBlock` until dropping the element
    /// loses nothing and how it ended is known. What is received meanwhile is for nobody.
    fn ready_to_close(&mut self) -> io::Result<()> {
        self.below_mut().map_or(Ok(()), Flow::ready_to_close)
    }

    /// Does what `command` says; `Unsupported` where the element does not know it. Which element is
    /// asked was decided before.
    fn control(&mut self, command: &Command) -> io::Result<Answer> {
        let _ = command;
        Err(io::ErrorKind::Unsupported.into())
    }
}
