//! A handle to a simulated network, with which a test controls it from outside.

use super::faults::{FaultCounts, Faults};
use super::world::World;
use crate::dispatch::Instant;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sockets in memory, their clock, and the dispatchers that serve them. Clones share the network.
#[derive(Clone)]
pub struct Network(Arc<Mutex<World>>);

impl Network {
    /// A network without sockets at time zero. Equal seeds, faults and calls give equal runs.
    pub fn new(seed: u64, faults: Faults) -> Self {
        Self(Arc::new(Mutex::new(World::new(seed, faults))))
    }

    /// Changes the faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.world().faults = faults;
    }

    /// The counts so far.
    pub fn tally(&self) -> FaultCounts {
        self.world().tally
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.world().now()
    }

    /// No further event is possible: every dispatcher has polled since the last change and found
    /// nothing, none has a deadline, and nothing is in flight. A wake, a new operation or a call of
    /// this handle changes that.
    pub fn is_stuck(&self) -> bool {
        self.world().is_stuck()
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        // A test that panicked while it held the lock has failed already; the others may continue.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Network")
    }
}
