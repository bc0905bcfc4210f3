//! The disk of a simulation: files in memory, with the faults and delays of a seed. A run depends
//! only on the seed and the calls; delays are numbers that a virtual clock adds up, and an oracle
//! reads the files back.

use super::fault::{Call, FaultStore, Plan, Rates};
use super::memory::MemoryStore;
use super::{Attributes, Capability, Result, SmallFile, SmallGroup, Source, Stage, StageRequest, Store};
use std::sync::Arc;
use std::time::Duration;
use xdfs_proto::base::RelPath;

/// A simulated disk. Clones share it.
#[derive(Clone, Debug)]
pub struct SimStore {
    memory: MemoryStore,
    faults: FaultStore,
}

impl SimStore {
    /// An empty disk of `limit` bytes with the faults that `seed` and `rates` define.
    pub fn new(seed: u64, rates: Rates, limit: u64) -> Self {
        Self::with_plan(Plan::seeded(seed, rates), limit)
    }

    /// The same with an arbitrary plan.
    pub fn with_plan(plan: Plan, limit: u64) -> Self {
        let memory = MemoryStore::new(limit);
        Self { faults: FaultStore::new(Arc::new(memory.clone()), plan), memory }
    }

    /// The actual content of the disk; calls on it never fail and are not counted.
    pub fn truth(&self) -> &MemoryStore {
        &self.memory
    }

    /// The duration of the last call on the disk or on anything it returned.
    pub fn delay(&self) -> Duration {
        self.faults.delay()
    }

    /// The faults so far: call, kind of fault, count.
    pub fn injected(&self) -> Vec<(Call, &'static str, u64)> {
        self.faults.injected()
    }
}

impl Store for SimStore {
    fn capability(&self) -> Capability {
        self.faults.capability()
    }

    fn attributes(&self, path: &RelPath) -> Result<Attributes> {
        self.faults.attributes(path)
    }

    fn open(&self, path: &RelPath) -> Result<Source> {
        self.faults.open(path)
    }

    fn stage(&self, request: &StageRequest) -> Result<Stage> {
        self.faults.stage(request)
    }

    fn stage_small(&self, files: &[SmallFile<'_>], durable: bool) -> Box<dyn SmallGroup + '_> {
        self.faults.stage_small(files, durable)
    }
}
