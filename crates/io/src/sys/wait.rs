//! `poll(2)` over a table that is kept between calls; the safe wrapper requires a table that
//! borrows every descriptor again.

use std::io;
use std::os::fd::RawFd;

/// One descriptor and the events to wait for. The kernel skips a negative descriptor.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct PollEntry(libc::pollfd);

impl PollEntry {
    /// An entry that is skipped.
    pub const NONE: Self = Self(libc::pollfd { fd: -1, events: 0, revents: 0 });

    /// Waits for `descriptor` to become readable or writable. A descriptor number that was closed
    /// meanwhile is reported as failed, which is a bug of the caller but no danger to memory.
    pub fn new(descriptor: RawFd, readable: bool, writable: bool) -> Self {
        let events = if readable { libc::POLLIN } else { 0 } | if writable { libc::POLLOUT } else { 0 };
        Self(libc::pollfd { fd: descriptor, events, revents: 0 })
    }

    /// The result of the last call: readable, writable. An error or hang-up counts as both, since
    /// either call will report it.
    pub fn found(&self) -> (bool, bool) {
        let failed = self.0.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0;
        (failed || self.0.revents & libc::POLLIN != 0, failed || self.0.revents & libc::POLLOUT != 0)
    }
}

/// Waits until an entry is ready or `timeout_ms` have passed (negative: indefinitely); returns the
/// number of ready entries.
pub fn poll(entries: &mut [PollEntry], timeout_ms: i32) -> io::Result<usize> {
    // SAFETY: `PollEntry` is `pollfd` by its representation, and the kernel writes only to the
    // entries of the slice.
    let ready = unsafe { libc::poll(entries.as_mut_ptr().cast(), entries.len() as libc::nfds_t, timeout_ms) };
    if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(ready as usize) }
}

/// The events returned by `epoll`. The kernel's structure holds a union with a pointer, so it is
/// not `Send` by itself; here only numbers are ever stored in it.
pub(crate) struct EpollEvents(pub(crate) Vec<rustix::event::epoll::Event>);

// SAFETY: every entry was written by the kernel from `EventData::new_u64`, so the pointer side of
// the union is never used; the rest of the structure is plain numbers.
unsafe impl Send for EpollEvents {}
