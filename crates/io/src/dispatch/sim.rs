//! The implementation for tests: sockets in memory, seeded faults, a virtual clock. The bytes move through
//! the same code as over the kernel's sockets; only the wait and the bottom of the stack are
//! different.
//!
//! Several dispatchers share one [`Network`], so one thread can run two endpoints in turns. `next`
//! never blocks: if nothing is ready for this dispatcher it returns
//! [`super::Completion::Deadline`], *before* the deadline as well and without one. Time moves when
//! every dispatcher of the network has polled and found nothing: the last to poll moves it
//! to the next delivery or deadline. [`Network::is_stuck`] reports when there is none, so a run
//! ends:
//!
//! ```
//! use xdfs_io::dispatch::{Completion, Dispatch, Faults, Network, Op, Sim};
//!
//! let network = Network::new(7, Faults::default());
//! let (mut left, mut right) = (Sim::new(&network)?, Sim::new(&network)?);
//! let (here, there) = network.pair();
//! let (here, _there) = (left.attach(here, &[])?, right.attach(there, &[])?);
//! left.submit(Op::Head { socket: here }); // and nobody ever sends
//! while !network.is_stuck() {
//!     for endpoint in [&mut left, &mut right] {
//!         assert!(matches!(endpoint.next(None)?, Completion::Deadline));
//!     }
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

mod connection;
mod faults;
mod link;
mod network;
mod world;

pub use faults::{Chance, FaultCounts, Faults, Random};
pub use link::SimLink;
pub use network::Network;

use super::sockets::Sockets;
use super::wait::{Event, Interest, Until, Wait, Waited};
use super::{Instant, Wake};
use std::io;
use world::{DispatcherId, SocketName};

/// The dispatcher over a [`Network`].
pub type Sim = Sockets<SimWait>;

/// Waits for the sockets of a [`Network`].
pub struct SimWait {
    network: Network,
    dispatcher: DispatcherId,
    /// By slot: the watched socket and its interest.
    watched: Vec<Option<(SocketName, Interest)>>,
}

impl Sim {
    /// A dispatcher without sockets.
    pub fn new(network: &Network) -> io::Result<Self> {
        let dispatcher = network.world().join();
        Sockets::over(SimWait { network: network.clone(), dispatcher, watched: Vec::new() })
    }
}

impl Wait for SimWait {
    type Link = SimLink;
    type Waker = SimWaker;

    fn watch(&mut self, slot: u32, link: &SimLink, _before: Interest, after: Interest) -> io::Result<()> {
        let slot = slot as usize;
        if self.watched.len() <= slot {
            self.watched.resize(slot + 1, None);
        }
        self.watched[slot] = if after == Interest::NONE { None } else { Some((link.name(), after)) };
        Ok(())
    }

    fn wait(&mut self, until: Until, events: &mut Vec<Event>) -> io::Result<Waited> {
        let mut world = self.network.world();
        loop {
            for (slot, watched) in self.watched.iter().enumerate() {
                let Some((name, interest)) = watched else { continue };
                let found = world.readiness(*name, *interest);
                if found != Interest::NONE {
                    events.push(Event { slot: slot as u32, found });
                }
            }
            let woken = world.take_woken(self.dispatcher);
            let passed = matches!(until, Until::At(moment) if moment <= world.now());
            if woken || passed || until == Until::Now || !events.is_empty() {
                world.shuffle(events);
                world.busy(self.dispatcher);
                return Ok(Waited { woken, gave_up: false });
            }
            let deadline = if let Until::At(moment) = until { Some(moment) } else { None };
            if !world.idle(self.dispatcher, deadline) {
                return Ok(Waited { woken: false, gave_up: true });
            }
        }
    }

    fn submitted(&mut self) {
        self.network.world().busy(self.dispatcher);
    }

    fn now(&self) -> Instant {
        self.network.world().now()
    }

    fn waker(&self) -> SimWaker {
        SimWaker { network: self.network.clone(), dispatcher: self.dispatcher }
    }
}

impl Drop for SimWait {
    fn drop(&mut self) {
        self.network.world().leave(self.dispatcher);
    }
}

/// Wakes a simulated dispatcher.
#[derive(Clone, Debug)]
pub struct SimWaker {
    network: Network,
    dispatcher: DispatcherId,
}

impl Wake for SimWaker {
    fn wake(&self) {
        self.network.world().wake(self.dispatcher);
    }
}
