//! What is written: one enum, so that a write costs a match and no call through a table.

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

/// A file on its way to its name. Ranges may be written from several threads at once. Dropping it is `abort`.
#[derive(Debug)]
#[must_use = "a stage that is dropped takes what was written with it"]
pub enum Stage {
    /// A part file beside its target.
    Local(LocalStage),
    /// What has the target's name already, where it may be what is being copied.
    Named(ExistingTarget),
    /// Takes every byte and keeps none.
    Null,
    /// A file of a [`super::MemoryStore`].
    Memory(MemoryStage),
    /// A pipe or device: bytes leave at once and in order.
    Stream(StreamStage),
    /// A stage whose calls fail by plan.
    Fault(Box<FaultStage>),
}

impl Stage {
    /// What goes out on standard output.
    pub fn standard_output() -> Result<Self> {
        let file = rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 0);
        let file = file.map_err(|errno| errors::failed(Verb::Open, "standard output", errno))?;
        Ok(Self::Stream(StreamStage::new(file, "standard output")))
    }

    /// Whether the file lives in memory alone (tmpfs), where a write costs the more time, and all of it the processor's.
    pub fn in_memory(&self) -> bool {
        match self {
            Self::Local(stage) => stage.in_memory(),
            Self::Named(stage) => stage.in_memory(),
            Self::Null | Self::Memory(_) | Self::Stream(_) | Self::Fault(_) => false,
        }
    }

    /// In which order `write` takes ranges.
    pub fn order(&self) -> Order {
        match self {
            Self::Local(_) | Self::Named(_) | Self::Null | Self::Memory(_) => Order::Any,
            Self::Stream(_) => Order::Ascending,
            Self::Fault(stage) => stage.order(),
        }
    }

    /// Writes all of `buf` at `offset`, or fails. After a failure the stage cannot be committed (rule D5).
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

    /// A descriptor of its own that the kernel can splice into; none where the member has none, or none is left.
    pub fn descriptor(&self) -> Option<OwnedFd> {
        match self {
            Self::Local(stage) => stage.descriptor(),
            Self::Named(_) | Self::Null | Self::Memory(_) | Self::Stream(_) | Self::Fault(_) => None,
        }
    }

    /// What an earlier attempt left of it, ascending.
    pub fn kept(&self) -> &[VerifiedRange] {
        match self {
            Self::Local(stage) => stage.kept(),
            Self::Named(stage) => stage.kept(),
            Self::Fault(stage) => stage.inner().kept(),
            Self::Null | Self::Memory(_) | Self::Stream(_) => &[],
        }
    }

    /// Version of what has the target's name; empty for nothing.
    pub fn replaces(&self) -> &[u8] {
        match self {
            Self::Local(stage) => stage.replaces(),
            Self::Named(stage) => stage.replaces(),
            Self::Fault(stage) => stage.inner().replaces(),
            Self::Null | Self::Memory(_) | Self::Stream(_) => &[],
        }
    }

    /// What is written from now on is hashed by somebody, who is asked with every marker what can be noted. Told before the
    /// first write.
    pub fn hashed_by(&self, hashes: Arc<dyn Hashes>) {
        match self {
            Self::Local(stage) => stage.hashed_by(hashes),
            Self::Fault(stage) => stage.inner().hashed_by(hashes),
            Self::Named(_) | Self::Null | Self::Memory(_) | Self::Stream(_) => {}
        }
    }

    /// Bytes written since the last [`Self::checkpoint`]; none where nothing could be gone on with.
    pub fn unmarked(&self) -> u64 {
        match self {
            Self::Local(stage) => stage.unmarked(),
            Self::Fault(stage) => stage.inner().unmarked(),
            Self::Named(_) | Self::Null | Self::Memory(_) | Self::Stream(_) => 0,
        }
    }

    /// Makes what has been written by now survive the end of the program: synced, then noted. An error is final.
    pub fn checkpoint(&self) -> Result<()> {
        match self {
            Self::Local(stage) => stage.checkpoint(),
            Self::Fault(stage) => stage.checkpoint(),
            Self::Named(_) | Self::Null | Self::Memory(_) | Self::Stream(_) => Ok(()),
        }
    }

    /// Leaves what was written for the next attempt when the stage is dropped. Whether it does: not everything can be gone
    /// on with, or is worth it.
    pub fn keep(&self) -> bool {
        match self {
            Self::Local(stage) => stage.keep(),
            Self::Fault(stage) => stage.inner().keep(),
            Self::Named(_) | Self::Null | Self::Memory(_) | Self::Stream(_) => false,
        }
    }

    /// The best that can be promised about bytes behind [`Self::sync`] and [`Self::sync_directory`].
    pub fn promises(&self) -> Safety {
        match self {
            Self::Local(_) | Self::Named(_) if self.in_memory() => Safety::Written,
            Self::Local(_) | Self::Named(_) => Safety::Durable,
            Self::Null | Self::Memory(_) | Self::Stream(_) => Safety::Written,
            Self::Fault(stage) => stage.inner().promises(),
        }
    }

    /// Gives the file length, mode and time: the first step of a commit. A commit is these calls in the order in which they
    /// stand here, the syncs where they are asked for; after one that failed no other is made.
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

    /// Waits until the bytes are on stable storage. An error is final: the stage cannot be named any more.
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

    /// A reader of what was written; where it is to be `fresh`, of what the storage has of it by now.
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

    /// Gives the file its name, in one step. On failure what had the name keeps it.
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

    /// Whether the file that has the name had it before: see [`Existing::ReplaceOther`].
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

    /// The commit without the syncs, for what need not be durable. On failure nothing is left behind.
    pub fn commit(mut self, request: &CommitRequest) -> Result<Attributes> {
        self.finish(request)?;
        self.name(request)
    }

    /// Lets go without removing anything, as a program that is killed does.
    pub fn leave(self) {
        if let Self::Local(stage) = &self {
            stage.leave();
        }
    }

    /// Leaves nothing behind; but what went into a stream is gone.
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

/// What is told about a file that went nowhere.
pub(super) fn swallowed(request: &CommitRequest) -> Attributes {
    Attributes {
        kind: FileKind::Other,
        size: Some(request.length),
        mode: request.mode & 0o777,
        modified: request.modified.unwrap_or_default(),
        version: Version::default(),
    }
}
