//! Write targets: one enum, so that a write costs a match and no call through a table.

use super::errors::{self, Verb};
use super::fault::FaultStage;
use super::local::existing_target::ExistingTarget;
use super::local::part::LocalStage;
use super::local::read_back::ReadBack;
use super::memory::MemoryStage;
use super::stream::StreamStage;
use super::{Attributes, CommitRequest, FileKind, Hashes, Order, Result, VerifiedRange, Version};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use xdfs_proto::base::{ErrorKind, Extent, Safety};

/// A file that is being written and has no name yet. Ranges may be written from several threads at
/// once. Dropping it is `abort`.
#[derive(Debug)]
#[must_use = "a stage that is dropped takes what was written with it"]
pub enum Stage {
    /// A part file next to its target.
    Local(LocalStage),
    /// The existing target, which may be identical to what is being copied.
    Named(ExistingTarget),
    /// Accepts every byte and discards it.
    Null,
    /// A file of a [`super::MemoryStore`].
    Memory(MemoryStage),
    /// A pipe or device: bytes are written immediately and in order.
    Stream(StreamStage),
    /// A stage whose calls fail according to a plan.
    Fault(Box<FaultStage>),
}

impl Stage {
    /// Standard output.
    pub fn standard_output() -> Result<Self> {
        let file = rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 0);
        let file = file.map_err(|errno| errors::failed(Verb::Open, "standard output", errno))?;
        Ok(Self::Stream(StreamStage::new(file, "standard output")))
    }

    /// Whether the file is only in memory (tmpfs), where a write takes longer, all of it processor
    /// time.
    pub fn in_memory(&self) -> bool {
        match self {
            Self::Local(stage) => stage.in_memory(),
            Self::Named(stage) => stage.in_memory(),
            Self::Null | Self::Memory(_) | Self::Stream(_) | Self::Fault(_) => false,
        }
    }

    /// The order in which `write` accepts ranges.
    pub fn order(&self) -> Order {
        match self {
            Self::Local(_) | Self::Named(_) | Self::Null | Self::Memory(_) => Order::Any,
            Self::Stream(_) => Order::Ascending,
            Self::Fault(stage) => stage.order(),
        }
    }

    /// Writes all of `buf` at `offset`, or fails. After a failure the stage cannot be committed
    /// (rule D5).
    pub fn write(&self, buf: &[u8], offset: u64) -> Result<()> {
        // Checked here for every member, before anything is touched.
        Extent::new(offset, buf.len() as u64).map_err(|_| {
            let because = format!("{} bytes at offset {offset} end beyond 2^63 - 1", buf.len());
            errors::refused(ErrorKind::OutOfRange, Verb::Write, self.shown(), &because)
        })?;
        match self {
            Self::Local(stage) => stage.write(buf, offset),
            Self::Named(stage) => stage.write(),
            Self::Null => Ok(()),
            Self::Memory(stage) => stage.write(buf, offset),
            Self::Stream(stage) => stage.write(buf, offset),
            Self::Fault(stage) => stage.write(buf, offset),
        }
    }

    /// A duplicated descriptor that the kernel can splice into; none where the member has none, or
    /// no descriptor is free.
    pub fn descriptor(&self) -> Option<OwnedFd> {
        match self {
            Self::Local(stage) => stage.descriptor(),
            Self::Named(_) | Self::Null | Self::Memory(_) | Self::Stream(_) | Self::Fault(_) => None,
        }
    }

    /// The ranges that an earlier attempt left, ascending.
    pub fn kept(&self) -> &[VerifiedRange] {
        match self {
            Self::Local(stage) => stage.kept(),
            Self::Named(stage) => stage.kept(),
            Self::Fault(stage) => stage.inner().kept(),
            Self::Null | Self::Memory(_) | Self::Stream(_) => &[],
        }
    }

    /// Version of the existing target; empty if there is none.
    pub fn replaces(&self) -> &[u8] {
        match self {
            Self::Local(stage) => stage.replaces(),
            Self::Named(stage) => stage.replaces(),
            Self::Fault(stage) => stage.inner().replaces(),
            Self::Null | Self::Memory(_) | Self::Stream(_) => &[],
        }
    }

    /// Everything written from now on is hashed by `hashes`, which is queried at every checkpoint
    /// for the ranges to record. Call it before the first write.
    pub fn hashed_by(&self, hashes: Arc<dyn Hashes>) {
        match self {
            Self::Local(stage) => stage.hashed_by(hashes),
            Self::Fault(stage) => stage.inner().hashed_by(hashes),
            Self::Named(_) | Self::Null | Self::Memory(_) | Self::Stream(_) => {}
        }
    }

    /// Bytes written since the last [`Self::checkpoint`]; none where nothing could be resumed.
    pub fn unmarked(&self) -> u64 {
        match self {
            Self::Local(stage) => stage.unmarked(),
            Self::Fault(stage) => stage.inner().unmarked(),
            Self::Named(_) | Self::Null | Self::Memory(_) | Self::Stream(_) => 0,
        }
    }

    /// Makes the data written so far survive the end of the program: synced, then recorded in the
    /// journal. An error is final.
    pub fn checkpoint(&self) -> Result<()> {
        match self {
            Self::Local(stage) => stage.checkpoint(),
            Self::Fault(stage) => stage.checkpoint(),
            Self::Named(_) | Self::Null | Self::Memory(_) | Self::Stream(_) => Ok(()),
        }
    }

    /// Leaves the written data for the next attempt when the stage is dropped. Returns whether it
    /// does: not every stage can be resumed, or is worth it.
    pub fn keep(&self) -> bool {
        match self {
            Self::Local(stage) => stage.keep(),
            Self::Fault(stage) => stage.inner().keep(),
            Self::Named(_) | Self::Null | Self::Memory(_) | Self::Stream(_) => false,
        }
    }

    /// The best durability that can be promised after [`Self::sync`] and [`Self::sync_directory`].
    pub fn promises(&self) -> Safety {
        match self {
            Self::Local(_) | Self::Named(_) if self.in_memory() => Safety::Written,
            Self::Local(_) | Self::Named(_) => Safety::Durable,
            Self::Null | Self::Memory(_) | Self::Stream(_) => Safety::Written,
            Self::Fault(stage) => stage.inner().promises(),
        }
    }

    /// Sets length, mode and time of the file: the first step of a commit. A commit consists of
    /// these calls in the order of their declaration, the syncs only where requested; after a
    /// failed call no other is made.
    pub fn finish(&self, request: &CommitRequest) -> Result<()> {
        if request.length > i64::MAX as u64 {
            let because = format!("no file has {} bytes", request.length);
            return Err(errors::refused(ErrorKind::TooLarge, Verb::Create, self.shown(), &because));
        }
        match self {
            Self::Local(stage) => stage.finish(request),
            Self::Memory(stage) => stage.finish(request),
            Self::Stream(stage) => stage.finish(request),
            Self::Fault(stage) => stage.finish(request),
            Self::Named(_) | Self::Null => Ok(()),
        }
    }

    /// Waits until the bytes are on stable storage. An error is final: the stage can no longer be
    /// named.
    pub fn sync(&self) -> Result<()> {
        match self {
            Self::Local(stage) => stage.sync(),
            Self::Named(stage) => stage.sync(),
            Self::Fault(stage) => stage.sync(),
            Self::Null | Self::Memory(_) | Self::Stream(_) => Ok(()),
        }
    }

    /// Whether [`Self::read_back`] can read what was written.
    pub fn can_read_back(&self) -> bool {
        match self {
            Self::Local(_) | Self::Named(_) => true,
            Self::Fault(stage) => stage.inner().can_read_back(),
            Self::Null | Self::Memory(_) | Self::Stream(_) => false,
        }
    }

    /// A reader of the written data; with `fresh`, it reads what the storage now has.
    pub fn read_back(&self, fresh: bool) -> Result<ReadBack> {
        match self {
            Self::Local(stage) => stage.read_back(fresh),
            Self::Named(stage) => stage.read_back(fresh),
            Self::Fault(stage) => stage.inner().read_back(fresh),
            Self::Null | Self::Memory(_) | Self::Stream(_) => {
                Err(errors::refused(ErrorKind::Unsupported, Verb::Read, self.shown(), "it cannot be read back"))
            }
        }
    }

    /// Renames the file to its target, atomically. On failure the existing file stays.
    pub fn name(&mut self, request: &CommitRequest) -> Result<Attributes> {
        match self {
            Self::Local(stage) => stage.name(request.length),
            Self::Named(stage) => stage.name(),
            Self::Null => Ok(swallowed(request)),
            Self::Memory(stage) => stage.name(request),
            Self::Stream(stage) => stage.name(request),
            Self::Fault(stage) => stage.name(request),
        }
    }

    /// Whether the existing file was kept: see [`Existing::ReplaceOther`].
    ///
    /// [`Existing::ReplaceOther`]: super::Existing::ReplaceOther
    pub fn unchanged(&self) -> bool {
        match self {
            Self::Local(stage) => stage.unchanged(),
            Self::Named(_) => true,
            Self::Fault(stage) => stage.inner().unchanged(),
            Self::Null | Self::Memory(_) | Self::Stream(_) => false,
        }
    }

    /// Waits until the name is on stable storage.
    pub fn sync_directory(&self) -> Result<()> {
        match self {
            Self::Local(stage) => stage.sync_directory(),
            Self::Named(stage) => stage.sync_directory(),
            Self::Fault(stage) => stage.sync_directory(),
            Self::Null | Self::Memory(_) | Self::Stream(_) => Ok(()),
        }
    }

    /// The commit without the syncs, for data that need not be durable. On failure nothing is left
    /// behind.
    pub fn commit(mut self, request: &CommitRequest) -> Result<Attributes> {
        self.finish(request)?;
        self.name(request)
    }

    /// Drops the stage without removing anything, as if the program were killed.
    pub fn leave(self) {
        if let Self::Local(stage) = &self {
            stage.leave();
        }
    }

    /// Leaves nothing behind, except that bytes written to a stream cannot be taken back.
    pub fn abort(self) {}

    /// The target's name in messages, escaped.
    pub fn shown(&self) -> &str {
        match self {
            Self::Local(stage) => stage.shown(),
            Self::Named(stage) => stage.shown(),
            Self::Null => "null",
            Self::Memory(stage) => stage.shown(),
            Self::Stream(stage) => stage.shown(),
            Self::Fault(stage) => stage.shown(),
        }
    }
}

/// The attributes reported for a discarded file.
pub(super) fn swallowed(request: &CommitRequest) -> Attributes {
    Attributes {
        kind: FileKind::Other,
        size: Some(request.length),
        mode: request.mode & 0o777,
        modified: request.modified.unwrap_or_default(),
        version: Version::default(),
    }
}
