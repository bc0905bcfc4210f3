//! The default implementation: `epoll(7)`, level-triggered. Edge-triggered was measured to starve sockets,
//! `io_uring` to be no faster.
//!
//! It does not know about operations and bytes: see `sockets`.

use super::Instant;
use super::clock::{self, DescriptorWaker};
use super::linger;
use super::sockets::Sockets;
use super::wait::{Event, Interest, Until, Wait, Waited};
use crate::stack::Driver;
use crate::sys::EpollEvents;
use crate::transport::Link;
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, epoll, eventfd};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};

/// The dispatcher over `epoll`, for a stack of drivers with a descriptor.
pub type Epoll<D = Link> = Sockets<EpollWait<D>>;

/// Maximum number of sockets reported by one wait; the others are reported by the next, since the
/// kernel rotates.
const EVENTS_MAX: usize = 1024;

/// The number of the waker, which no socket has.
const WAKER: u64 = u64::MAX;

/// Waits with `epoll`.
pub struct EpollWait<D> {
    epoll: OwnedFd,
    found: EpollEvents,
    waker: DescriptorWaker,
    link: PhantomData<fn() -> D>,
}

impl<D: Driver + AsFd> Epoll<D> {
    /// A dispatcher without sockets.
    pub fn new() -> io::Result<Self> {
        Sockets::over(EpollWait::new()?)
    }
}

impl<D: AsFd> EpollWait<D> {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let waker = DescriptorWaker::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        epoll::add(&epoll, &waker, epoll::EventData::new_u64(WAKER), epoll::EventFlags::IN)?;
        Ok(Self { epoll, found: EpollEvents(Vec::with_capacity(EVENTS_MAX)), waker, link: PhantomData })
    }
}

impl<D: Driver + AsFd> Wait for EpollWait<D> {
    type Link = D;
    type Waker = DescriptorWaker;

    fn watch(&mut self, slot: u32, link: &D, before: Interest, after: Interest) -> io::Result<()> {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, after.readable);
        flags.set(epoll::EventFlags::OUT, after.writable);
        let data = epoll::EventData::new_u64(slot.into());
        // A socket without a waiting operation is removed from the set: errors and hang-ups are
        // always reported, and would end every wait until they are handled.
        match (before == Interest::NONE, after == Interest::NONE) {
            (true, true) => {}
            (true, false) => epoll::add(&self.epoll, link, data, flags)?,
            (false, true) => epoll::delete(&self.epoll, link)?,
            (false, false) => epoll::modify(&self.epoll, link, data, flags)?,
        }
        Ok(())
    }

    fn wait(&mut self, until: Until, events: &mut Vec<Event>) -> io::Result<Waited> {
        self.found.0.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.found.0), clock::timeout(until).as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Waited::default()),
            Err(error) => return Err(error.into()),
        }
        let mut waited = Waited::default();
        for event in &self.found.0 {
            // Copied out: the structure is packed.
            let (data, flags) = (event.data.u64(), event.flags);
            if data == WAKER {
                waited.woken |= self.waker.clear(&self.waker)?;
                continue;
            }
            let failed = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
            let found = Interest {
                readable: failed || flags.contains(epoll::EventFlags::IN),
                writable: failed || flags.contains(epoll::EventFlags::OUT),
            };
            events.push(Event { slot: data as u32, found });
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
