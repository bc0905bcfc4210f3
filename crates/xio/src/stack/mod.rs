//! Driver stacks (the papers' X-Channels, XIO's driver stack): what moves a socket's bytes, bound at compile time.
//!
//! # Contract
//!
//! A [`Driver`] moves bytes without ever blocking. At the bottom of a stack is a transport's link
//! ([`crate::transport::Link`]); a layer such as [`Count`] or [`Trace`] wraps another driver and is one itself, so a
//! stack is a type, `Trace<Count<Link>>`, and the compiler flattens it into one function. A dispatcher takes any stack
//! as its link.
//!
//! A member must provide:
//! - `receive` and `send` move at least one byte or fail: `WouldBlock` where nothing can move now, and `Ok(0)` of
//!   `receive` means that the peer closed its sending side;
//! - bytes keep their order, and a call that failed moved none;
//! - `direct` is a descriptor only when its bytes *are* the driver's bytes. A layer that has to see or change bytes
//!   returns none, and a file then goes through memory instead of around it.
//!
//! A caller may not assume that `send` takes everything, or that a layer is asked about bytes that the kernel moved
//! directly: it is told afterwards ([`Driver::moved_directly`]).
//!
//! Names chosen at run time are in [`registry`].

mod count;
pub mod registry;
mod trace;

pub use count::{Count, Counts};
pub use trace::{Trace, TraceEvent};

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

/// Room that a transport has for bytes to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Bytes it would take now, about.
    pub free: u64,
    /// Bytes it can hold in all at present.
    pub total: u64,
}

/// One element of a stack. The module's documentation has its contract.
pub trait Driver: Sized {
    /// Receives into the slices, in order; zero is the end.
    fn receive(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize>;

    /// Sends from the slices, in order. `more` tells that other bytes follow at once, so that a transport may wait for
    /// them before it fills a segment.
    fn send(&mut self, from: &[IoSlice<'_>], more: bool) -> io::Result<usize>;

    /// The next connection of a listening driver.
    fn accept(&mut self) -> io::Result<Self>;

    /// How the connection attempt ended: `WouldBlock` while it has not.
    fn connected(&mut self) -> io::Result<()>;

    /// The descriptor to which the kernel may move file bytes by itself.
    fn direct(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Bytes that the kernel moved to [`Driver::direct`].
    fn moved_directly(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// Room for bytes to be sent; none where nobody can tell.
    fn room(&self) -> Option<Room> {
        None
    }

    /// Nothing more is sent: the peer reads what is under way and then the end. A driver that cannot say so does nothing.
    fn finish_sending(&mut self) -> io::Result<()> {
        Ok(())
    }
}
