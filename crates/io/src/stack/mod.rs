//! Driver stacks (the papers' X-Channels, XIO's driver stack): code that moves a socket's bytes,
//! bound at compile time.
//!
//! # Contract
//!
//! A [`Driver`] moves bytes without ever blocking. At the bottom of a stack is a transport's link
//! ([`crate::transport::Link`]); a layer such as [`Count`] or [`Trace`] wraps another driver and is
//! a driver itself, so a stack is a type, `Trace<Count<Link>>`, and the compiler flattens it into
//! one function. A dispatcher accepts any stack as its link.
//!
//! A driver must provide:
//! - `receive` and `send` move at least one byte or fail: `WouldBlock` where nothing can move now,
//!   and `Ok(0)` of `receive` means that the peer closed its sending side;
//! - bytes keep their order, and a call that failed moved none;
//! - `direct` is a descriptor only when its bytes *are* the driver's bytes. A layer that has to see
//!   or change bytes returns none, and a file is then sent through memory.
//!
//! A caller must not assume that `send` accepts everything, or that a layer is called for bytes
//! that the kernel moved directly: it is notified afterwards ([`Driver::moved_directly`]).
//!
//! A stack that is put together at run time consists of [`Flow`]s; a link whose bytes pass through one
//! says so by [`Driver::layers`], and who waits for it asks the [`Layers`] what for.

mod count;
mod flow;
mod layers;
mod trace;

pub use crate::sys::{PollEntry, poll};
pub use count::{Count, Counts};
pub use flow::{Answer, Command, Flow, Interest, ReadInfo, WriteInfo};
pub use layers::{Layers, Over};
pub use trace::{Trace, TraceEvent};

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

/// Send buffer space of a transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Approximate number of bytes that it would accept now.
    pub free: u64,
    /// Number of bytes that it can currently hold in total.
    pub total: u64,
}

/// One element of a stack. Its contract is in the module documentation.
pub trait Driver: Sized {
    /// Receives into the slices, in order; zero means the end.
    fn receive(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize>;

    /// Sends from the slices, in order. `more` indicates that other bytes follow at once, so that a
    /// transport may wait for them before it fills a segment.
    fn send(&mut self, from: &[IoSlice<'_>], more: bool) -> io::Result<usize>;

    /// The next connection of a listening driver.
    fn accept(&mut self) -> io::Result<Self>;

    /// The result of the connection attempt: `WouldBlock` while it is pending.
    fn connected(&mut self) -> io::Result<()>;

    /// The descriptor to which the kernel may move file bytes directly.
    fn direct(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Called for bytes that the kernel moved to [`Driver::direct`].
    fn moved_directly(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// Send buffer space; none where it is unknown.
    fn room(&self) -> Option<Room> {
        None
    }

    /// Shuts down sending: the peer reads the bytes in flight and then the end. A driver without a
    /// shutdown does nothing.
    fn finish_sending(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// The layers that were put together at run time, if the bytes pass through any.
    fn layers(&self) -> Option<&Layers> {
        None
    }

    /// The same, to be called.
    fn layers_mut(&mut self) -> Option<&mut Layers> {
        None
    }
}
