//! One descriptor for several elements: an epoll instance that tells of each change once, so that a
//! connection that could always take more does not keep its waiter awake.

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Events that one look takes.
const EVENTS: usize = 64;

/// Descriptors by their numbers.
#[derive(Debug)]
pub(super) struct Watch {
    epoll: OwnedFd,
}

impl Watch {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Tells of every change from now on, and of what is the case now. A descriptor that is watched
    /// already stays so.
    pub(super) fn add(&self, number: u64, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let what = "mode_e needs connections: the stack below has no descriptor to wait for";
        let descriptor = descriptor.ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, what))?;
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        match epoll::add(&self.epoll, descriptor, EventData::new_u64(number), flags) {
            Err(Errno::EXIST) => Ok(()),
            added => Ok(added?),
        }
    }

    /// Tells of no more.
    pub(super) fn remove(&self, descriptor: BorrowedFd<'_>) {
        // It may be closed already.
        let _ = epoll::delete(&self.epoll, descriptor);
    }

    /// Takes what has changed, and returns the numbers.
    pub(super) fn changed(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            events.clear();
            let none = Timespec { tv_sec: 0, tv_nsec: 0 };
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&none))?;
            numbers.extend(events.iter().map(|event| event.data.u64()));
            if events.len() < EVENTS {
                return Ok(numbers);
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
