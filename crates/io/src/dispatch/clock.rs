//! The monotonic clock, and the waker that the implementations over the kernel share.

use super::wait::Until;
use super::{Instant, Wake};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Nanoseconds of the monotonic clock: all dispatchers of the system share its origin.
pub(super) fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    Instant(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The maximum duration of a wait that starts now; none means indefinitely.
pub(super) fn timeout(until: Until) -> Option<Timespec> {
    let nanos = match until {
        Until::Ever => return None,
        Until::Now => 0,
        Until::At(moment) => moment.0.saturating_sub(now().0),
    };
    Some(Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 })
}

/// Wakes a dispatcher through a descriptor that its wait includes: an event counter or the writing
/// end of a pipe, both of which take eight bytes. Any number of wakes between two completions
/// costs one system call.
#[derive(Clone, Debug)]
pub struct DescriptorWaker(Arc<WakerState>);

#[derive(Debug)]
struct WakerState {
    descriptor: OwnedFd,
    /// Set by the first wake and cleared by the dispatcher before it returns
    /// [`super::Completion::Woken`], so a wake that finds it set precedes that completion and
    /// is covered by it.
    pending: AtomicBool,
}

impl DescriptorWaker {
    pub(super) fn new(descriptor: OwnedFd) -> Self {
        Self(Arc::new(WakerState { descriptor, pending: AtomicBool::new(false) }))
    }

    /// Empties `source`, the reading side of the descriptor; returns whether there was a wake.
    pub(super) fn clear(&self, source: impl AsFd) -> io::Result<bool> {
        let mut bytes = [0u8; 8];
        loop {
            match rustix::io::read(&source, &mut bytes) {
                Ok(_) | Err(rustix::io::Errno::AGAIN) => return Ok(self.0.pending.swap(false, Ordering::AcqRel)),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for DescriptorWaker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.descriptor.as_fd()
    }
}

impl Wake for DescriptorWaker {
    fn wake(&self) {
        if self.0.pending.swap(true, Ordering::AcqRel) {
            return;
        }
        // Cannot be full: at most one wake is in it. A dispatcher that no longer exists needs no
        // wake.
        while rustix::io::write(&self.0.descriptor, &1u64.to_ne_bytes()) == Err(rustix::io::Errno::INTR) {}
    }
}
