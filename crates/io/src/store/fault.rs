//! Wraps any store and makes calls fail according to a [`Plan`]. Without a plan it changes nothing,
//! which the conformance suite checks.
//!
//! Short and interrupted calls happen below the loops of `io_loops`, where the kernel would cause
//! them; so tests with this store run the same code as transfers to a disk.

mod plan;
mod small;

pub use plan::{Call, Fault, Plan, Rates};

use super::errors::{self, Verb};
use super::io_loops::{read_full, stuck_words, write_full};
use super::{
    Attributes, Capability, CommitRequest, Hashes, ReadBack, Result, SmallFile, SmallGroup, Source, SourceCapability,
    SourceFile, Stage, StageCapability, StageRequest, StagedFile, Store, StoredRange,
};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use xdfs_proto::base::{Error, ErrorKind, RelPath, Timestamp};

/// A store whose calls fail according to a plan. Clones share the plan and its call count.
#[derive(Clone, Debug)]
pub struct FaultStore {
    inner: Arc<dyn Store>,
    plan: SharedPlan,
}

/// The plan, shared with everything that the store returned.
#[derive(Clone, Debug)]
struct SharedPlan(Arc<Mutex<Plan>>);

impl SharedPlan {
    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies the plan to a call that transfers no bytes.
    fn check(&self, call: Call, verb: Verb, shown: &str) -> Result<()> {
        match self.lock().decide(call, 0) {
            Some(Fault::Errno(number)) => Err(errors::failed(verb, shown, Errno::from_raw_os_error(number))),
            Some(Fault::Changed) => {
                let message = format!("source '{shown}' changed while it was read: its plan says so");
                Err(Error::new(ErrorKind::SourceChanged, message))
            }
            // The other faults concern bytes.
            _ => Ok(()),
        }
    }
}

impl FaultStore {
    /// `inner` with the faults of `plan`.
    pub fn new(inner: Arc<dyn Store>, plan: Plan) -> Self {
        Self { inner, plan: SharedPlan(Arc::new(Mutex::new(plan))) }
    }

    /// The simulated duration of the last call on this store or on anything it returned. Nothing
    /// here actually waits.
    pub fn delay(&self) -> Duration {
        self.plan.lock().delay()
    }

    /// The faults so far: call, kind of fault, count.
    pub fn injected(&self) -> Vec<(Call, &'static str, u64)> {
        self.plan.lock().injected().iter().map(|(&(call, name), &count)| (call, name, count)).collect()
    }

    /// Calls of one kind so far.
    pub fn calls(&self, call: Call) -> u64 {
        self.plan.lock().calls(call)
    }
}

impl Store for FaultStore {
    fn capability(&self) -> Capability {
        // A descriptor would bypass the plan.
        Capability { descriptor: false, ..self.inner.capability() }
    }

    fn attributes(&self, path: &RelPath) -> Result<Attributes> {
        self.plan.check(Call::Attributes, Verb::Look, &errors::shown("", path))?;
        self.inner.attributes(path)
    }

    fn open(&self, path: &RelPath) -> Result<Source> {
        self.plan.check(Call::Open, Verb::Open, &errors::shown("", path))?;
        let inner = self.inner.open(path)?;
        Ok(Source::new(FaultSource { inner, plan: self.plan.clone() }))
    }

    fn stage(&self, request: &StageRequest) -> Result<Stage> {
        self.plan.check(Call::Stage, Verb::Create, &errors::shown("", &request.target))?;
        let inner = self.inner.stage(request)?;
        let stage = FaultStage { inner, plan: self.plan.clone(), failed: AtomicBool::new(false) };
        Ok(Stage::new(stage))
    }

    fn stage_small(&self, files: &[SmallFile<'_>], durable: bool) -> Box<dyn SmallGroup + '_> {
        Box::new(small::FaultGroup::new(self.inner.stage_small(files, durable), self.plan.clone(), files))
    }
}

/// A source of a [`FaultStore`].
#[derive(Debug)]
pub struct FaultSource {
    inner: Source,
    plan: SharedPlan,
}

impl SourceFile for FaultSource {
    fn capability(&self) -> SourceCapability {
        SourceCapability { sequential: self.inner.is_sequential(), ..SourceCapability::default() }
    }

    fn shown(&self) -> &str {
        self.inner.shown()
    }

    fn attributes(&self) -> &Attributes {
        self.inner.attributes()
    }

    fn identity(&self) -> Option<&[u8]> {
        self.inner.identity()
    }

    fn weak_part<'v>(&self, version: &'v [u8]) -> Option<&'v [u8]> {
        self.inner.weak_part(version)
    }

    fn modified(&self) -> Option<Timestamp> {
        self.inner.modified()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        planned_read(&self.plan, self.inner.shown(), buf, offset, |part, at| self.inner.read_at(part, at))
    }

    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let shown = self.inner.shown().to_owned();
        planned_read(&self.plan, &shown, buf, 0, |part, _| self.inner.read(part))
    }

    fn revalidate(&self) -> Result<()> {
        self.plan.check(Call::Revalidate, Verb::Read, self.inner.shown())?;
        self.inner.revalidate()
    }
}

fn planned_read(
    plan: &SharedPlan,
    shown: &str,
    buf: &mut [u8],
    offset: u64,
    mut inner: impl FnMut(&mut [u8], u64) -> Result<usize>,
) -> Result<usize> {
    let mut foreign = None;
    let count = read_full(buf, offset, |part, at| {
        let length = part.len();
        let allowed = allowed(plan.lock().decide(Call::Read, length), length)?;
        let part = part.get_mut(..allowed).unwrap_or_default();
        inner(part, at).map_err(|error| keep(&mut foreign, error))
    });
    count.map_err(|errno| foreign.unwrap_or_else(|| errors::failed(Verb::Read, shown, errno)))
}

/// A stage of a [`FaultStore`].
#[derive(Debug)]
pub struct FaultStage {
    inner: Stage,
    plan: SharedPlan,
    /// A write failed above `inner`, which does not know of it.
    failed: AtomicBool,
}

impl StagedFile for FaultStage {
    /// That of the inner file, without what would pass by the plan.
    fn capability(&self) -> StageCapability {
        StageCapability { in_memory: false, discards: false, ..self.inner.capability() }
    }

    fn shown(&self) -> &str {
        self.inner.shown()
    }

    fn kept(&self) -> &[StoredRange] {
        self.inner.kept()
    }

    fn replaces(&self) -> &[u8] {
        self.inner.replaces()
    }

    fn hashed_by(&self, hashes: Arc<dyn Hashes>) {
        self.inner.hashed_by(hashes);
    }

    fn unmarked(&self) -> u64 {
        self.inner.unmarked()
    }

    fn keep(&self) -> bool {
        self.inner.keep()
    }

    fn read_back(&self, fresh: bool) -> Result<ReadBack> {
        self.inner.read_back(fresh)
    }

    fn unchanged(&self) -> bool {
        self.inner.unchanged()
    }

    fn write(&self, buf: &[u8], offset: u64) -> Result<()> {
        let mut foreign = None;
        let written = write_full(buf, offset, |part, at| {
            let fault = self.plan.lock().decide(Call::Write, part.len());
            let allowed = allowed(fault, part.len())?;
            let part = part.get(..allowed).unwrap_or_default();
            match fault {
                Some(Fault::Lost) => Ok(()),
                Some(Fault::Flipped) => self.inner.write(&flipped(part), at),
                _ => self.inner.write(part, at),
            }
            .map_err(|error| keep(&mut foreign, error))?;
            self.plan.lock().written(part.len());
            Ok(part.len())
        });
        written.map_err(|stuck| {
            self.failed.store(true, Ordering::Relaxed);
            foreign.unwrap_or_else(|| stuck_words(self.inner.shown(), stuck))
        })
    }

    fn finish(&self, request: &CommitRequest) -> Result<()> {
        self.must_be_sound()?;
        self.inner.finish(request)
    }

    fn sync(&self) -> Result<()> {
        self.must_be_sound()?;
        self.plan.check(Call::Sync, Verb::Sync, self.inner.shown()).inspect_err(|_| {
            self.failed.store(true, Ordering::Relaxed);
        })?;
        self.inner.sync()
    }

    fn checkpoint(&self) -> Result<()> {
        self.must_be_sound()?;
        self.plan.check(Call::Checkpoint, Verb::Sync, self.inner.shown()).inspect_err(|_| {
            self.failed.store(true, Ordering::Relaxed);
        })?;
        self.inner.checkpoint()
    }

    fn name(&mut self, request: &CommitRequest) -> Result<Attributes> {
        self.must_be_sound()?;
        self.plan.check(Call::Commit, Verb::Create, self.inner.shown())?;
        self.inner.name(request)
    }

    fn sync_directory(&self) -> Result<()> {
        self.plan.check(Call::SyncDirectory, Verb::Sync, self.inner.shown())?;
        self.inner.sync_directory()
    }
}

impl FaultStage {
    /// As in the local one: after a failed call the stage stays failed.
    fn must_be_sound(&self) -> Result<()> {
        if self.failed.load(Ordering::Relaxed) {
            let because = "an earlier write failed";
            return Err(errors::refused(ErrorKind::Storage, Verb::Create, self.inner.shown(), because));
        }
        Ok(())
    }
}

/// The data stored by a storage that corrupts it.
fn flipped(bytes: &[u8]) -> Vec<u8> {
    let mut other = bytes.to_vec();
    if let Some(first) = other.first_mut() {
        *first ^= 1;
    }
    other
}

/// How many of `length` bytes a fault allows.
fn allowed(fault: Option<Fault>, length: usize) -> std::result::Result<usize, Errno> {
    match fault {
        None | Some(Fault::Changed | Fault::Lost | Fault::Flipped) => Ok(length),
        Some(Fault::Short(count)) => Ok(count.clamp(1, length)),
        Some(Fault::Nothing) => Ok(0),
        Some(Fault::Interrupted) => Err(Errno::INTR),
        Some(Fault::Errno(number)) => Err(Errno::from_raw_os_error(number)),
    }
}

/// Carries an error of the wrapped store out of a loop that handles only errnos. Never EINTR, which
/// the loop would retry.
fn keep(place: &mut Option<Error>, error: Error) -> Errno {
    *place = Some(error);
    Errno::IO
}
