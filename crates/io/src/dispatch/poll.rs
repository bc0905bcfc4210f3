//! The portable implementation: `poll(2)` and a pipe, both of POSIX. It scans every socket on every wait,
//! so it is for systems without `epoll` and for proving that nothing above depends on one
//! mechanism.
//!
//! It does not know about operations and bytes: see `sockets`.

use super::Instant;
use super::clock::{self, DescriptorWaker};
use super::linger;
use super::sockets::Sockets;
use super::wait::{Event, Interest, Until, Wait, Waited};
use crate::stack::Driver;
use crate::sys::{self, PollEntry};
use crate::transport::Link;
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// The dispatcher over `poll`, for a stack of drivers with a descriptor.
pub type Poll<D = Link> = Sockets<PollWait<D>>;

/// Waits with `poll`.
pub struct PollWait<D> {
    /// The waker's pipe, then one entry for each slot, skipped by the kernel where no operation
    /// waits.
    entries: Vec<PollEntry>,
    /// Where the next scan begins. Otherwise the first entries would always have the first turns,
    /// which was observed as a slope over 64 sockets (Jain index 0.94).
    first: usize,
    wakes: OwnedFd,
    waker: DescriptorWaker,
    link: PhantomData<fn() -> D>,
}

impl<D: Driver + AsFd> Poll<D> {
    /// A dispatcher without sockets.
    pub fn new() -> io::Result<Self> {
        let (wakes, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let entries = vec![PollEntry::new(wakes.as_raw_fd(), true, false)];
        Sockets::over(PollWait { entries, first: 0, wakes, waker: DescriptorWaker::new(write), link: PhantomData })
    }
}

impl<D: Driver + AsFd> Wait for PollWait<D> {
    type Link = D;
    type Waker = DescriptorWaker;

    fn watch(&mut self, slot: u32, link: &D, _before: Interest, after: Interest) -> io::Result<()> {
        let index = slot as usize + 1;
        if self.entries.len() <= index {
            self.entries.resize(index + 1, PollEntry::NONE);
        }
        // Hang-ups are always reported, so a socket without a waiting operation is skipped
        // altogether.
        self.entries[index] = match after {
            Interest::NONE => PollEntry::NONE,
            after => PollEntry::new(link.as_fd().as_raw_fd(), after.readable, after.writable),
        };
        Ok(())
    }

    fn wait(&mut self, until: Until, events: &mut Vec<Event>) -> io::Result<Waited> {
        let mut left = match sys::poll(&mut self.entries, timeout_ms(until)) {
            Ok(ready) => ready,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(Waited::default()),
            Err(error) => return Err(error),
        };
        let mut waited = Waited::default();
        let count = self.entries.len();
        // Advances by about the golden section, so that neighbours do not stay next to the start.
        self.first = (self.first + 1 + count * 5 / 8) % count;
        for index in (self.first..count).chain(0..self.first) {
            if left == 0 {
                break;
            }
            let (readable, writable) = self.entries[index].found();
            if !readable && !writable {
                continue;
            }
            left -= 1;
            match index.checked_sub(1) {
                None => waited.woken = self.waker.clear(&self.wakes)?,
                Some(slot) => events.push(Event { slot: slot as u32, found: Interest { readable, writable } }),
            }
        }
        Ok(waited)
    }

    fn linger(&mut self, link: &D, interest: Interest) -> bool {
        linger::ready_soon(link, interest)
    }

    fn now(&self) -> Instant {
        clock::now()
    }

    fn waker(&self) -> DescriptorWaker {
        self.waker.clone()
    }
}

/// Milliseconds, rounded up so that a wait never ends just before its deadline.
fn timeout_ms(until: Until) -> i32 {
    match clock::timeout(until) {
        None => -1,
        Some(time) => {
            let ms = time.tv_sec.saturating_mul(1000).saturating_add((time.tv_nsec + 999_999) / 1_000_000);
            i32::try_from(ms).unwrap_or(i32::MAX)
        }
    }
}
