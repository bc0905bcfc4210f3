//! What tells the kernel's waiters that an element can go on: one event counter that is readable when
//! there is something to read, and one that is full, and so not writable, while nothing can be written.
//! Both are touched only for who waits.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A counter that cannot take more.
const FULL: u64 = u64::MAX - 1;

/// The counters. They are called with the element's state locked.
#[derive(Debug)]
pub(super) struct Signals {
    readable: OwnedFd,
    writable: OwnedFd,
}

impl Signals {
    /// Neither direction can go on.
    pub(super) fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let signals = Self { readable: eventfd(0, flags)?, writable: eventfd(0, flags)? };
        signals.hold_writer();
        Ok(signals)
    }

    pub(super) fn readable(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }

    pub(super) fn writable(&self) -> BorrowedFd<'_> {
        self.writable.as_fd()
    }

    // A counter refuses only what it shows already.

    pub(super) fn wake_reader(&self) {
        let _ = rustix::io::write(&self.readable, &1u64.to_ne_bytes());
    }

    pub(super) fn hold_reader(&self) {
        let _ = rustix::io::read(&self.readable, &mut [0; 8]);
    }

    pub(super) fn wake_writer(&self) {
        let _ = rustix::io::read(&self.writable, &mut [0; 8]);
    }

    pub(super) fn hold_writer(&self) {
        let _ = rustix::io::write(&self.writable, &FULL.to_ne_bytes());
    }
}
