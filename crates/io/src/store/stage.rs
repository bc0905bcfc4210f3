//! Write targets: what a store implements to be written, and the handle by which everybody writes.

use super::errors::{self, Verb};
use super::read_back::ReadBack;
use super::{Attributes, CommitRequest, Hashes, Order, Result, StoredRange};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use xdfs_proto::base::{ErrorKind, Extent, Safety};

/// What a file that is being written declares about itself, once. The default is a file that takes
/// ranges in any order and promises nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StageCapability {
    /// The order in which [`StagedFile::write`] accepts ranges. A thread of its own writes what
    /// comes in order, so such a call may wait for a device or another machine.
    pub order: Order,
    /// The best durability that can be promised after [`StagedFile::sync`] and
    /// [`StagedFile::sync_directory`].
    pub promises: Safety,
    /// The file is only in memory (tmpfs), where a write takes longer, all of it processor time.
    pub in_memory: bool,
    /// Bytes are discarded, so that they need not be received whole.
    pub discards: bool,
    /// [`StagedFile::read_back`] can read what was written.
    pub read_back: bool,
}

impl Default for StageCapability {
    fn default() -> Self {
        let (order, promises) = (Order::Any, Safety::Written);
        Self { order, promises, in_memory: false, discards: false, read_back: false }
    }
}

/// A file that is being written and has no name yet, as its store implements it. Ranges may be
/// written from several threads at once. Dropping it leaves nothing behind, unless [`Self::keep`]
/// returned true.
///
/// The calls come from a [`Stage`], which has checked that a range ends below 2^63 and that a file
/// can have the length of a commit.
pub trait StagedFile: Send + Sync + std::fmt::Debug {
    /// What the engine needs to know before it writes. Asked once.
    fn capability(&self) -> StageCapability {
        StageCapability::default()
    }

    /// The target's name in messages, escaped: see [`errors::shown`].
    fn shown(&self) -> &str;

    /// Writes all of `buf` at `offset`, or fails. After a failure the file can no longer be named.
    fn write(&self, buf: &[u8], offset: u64) -> Result<()>;

    /// The first step of a commit: length, mode and time of the file.
    fn finish(&self, request: &CommitRequest) -> Result<()>;

    /// Waits until the bytes are on stable storage. An error is final.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// Gives the file its name, atomically. On failure the existing file stays.
    fn name(&mut self, request: &CommitRequest) -> Result<Attributes>;

    /// Whether the existing file was kept: see [`Existing::ReplaceOther`].
    ///
    /// [`Existing::ReplaceOther`]: super::Existing::ReplaceOther
    fn unchanged(&self) -> bool {
        false
    }

    /// Waits until the name is on stable storage.
    fn sync_directory(&self) -> Result<()> {
        Ok(())
    }

    /// The descriptor of a file of this machine, into which the kernel can move bytes by itself.
    fn as_local(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The ranges that an earlier attempt left, ascending.
    fn kept(&self) -> &[StoredRange] {
        &[]
    }

    /// Version of the existing target; empty if there is none.
    fn replaces(&self) -> &[u8] {
        &[]
    }

    /// Everything written from now on is hashed by `hashes`.
    fn hashed_by(&self, _hashes: Arc<dyn Hashes>) {}

    /// Bytes written since the last [`Self::checkpoint`]; none where nothing could be resumed.
    fn unmarked(&self) -> u64 {
        0
    }

    /// Makes the data written so far survive the end of the program. An error is final.
    fn checkpoint(&self) -> Result<()> {
        Ok(())
    }

    /// Leaves the written data for the next attempt when the file is dropped. Returns whether it
    /// does.
    fn keep(&self) -> bool {
        false
    }

    /// Leaves everything as it is when the file is dropped, as if the program were killed.
    fn leave(&self) {}

    /// A reader of the written data; with `fresh`, it reads what the storage now has.
    fn read_back(&self, _fresh: bool) -> Result<ReadBack> {
        Err(errors::refused(ErrorKind::Unsupported, Verb::Read, self.shown(), "it cannot be read back"))
    }
}

/// A file that is being written and has no name yet: a file of some store, and what it declared.
/// Dropping it is `abort`.
#[must_use = "a stage that is dropped takes what was written with it"]
pub struct Stage {
    file: Box<dyn StagedFile>,
    capability: StageCapability,
    /// See [`Self::before_name`].
    before_name: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage").field("file", &self.file).field("capability", &self.capability).finish_non_exhaustive()
    }
}

impl Stage {
    /// A stage that writes `file`.
    pub fn new(file: impl StagedFile + 'static) -> Self {
        let file: Box<dyn StagedFile> = Box::new(file);
        let capability = file.capability();
        Self { file, capability, before_name: None }
    }

    /// The same stage: `act` is called right before the file gets its name. It must not take long.
    pub fn before_name(self, act: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self { before_name: Some(Box::new(act)), ..self }
    }

    /// What the file declared when it was staged.
    pub const fn capability(&self) -> StageCapability {
        self.capability
    }

    /// Whether the file is only in memory (tmpfs), where a write takes longer, all of it processor
    /// time.
    pub const fn in_memory(&self) -> bool {
        self.capability.in_memory
    }

    /// Whether bytes are discarded, so that they need not be received whole.
    pub const fn discards(&self) -> bool {
        self.capability.discards
    }

    /// The order in which `write` accepts ranges.
    pub const fn order(&self) -> Order {
        self.capability.order
    }

    /// The best durability that can be promised after [`Self::sync`] and [`Self::sync_directory`].
    pub const fn promises(&self) -> Safety {
        self.capability.promises
    }

    /// Whether [`Self::read_back`] can read what was written.
    pub const fn can_read_back(&self) -> bool {
        self.capability.read_back
    }

    /// Writes all of `buf` at `offset`, or fails. After a failure the stage cannot be committed:
    /// nobody knows what is in it.
    pub fn write(&self, buf: &[u8], offset: u64) -> Result<()> {
        // Checked here for every store, before anything is touched.
        Extent::new(offset, buf.len() as u64).map_err(|_| {
            let because = format!("{} bytes at offset {offset} end beyond 2^63 - 1", buf.len());
            errors::refused(ErrorKind::OutOfRange, Verb::Write, self.shown(), &because)
        })?;
        self.file.write(buf, offset)
    }

    /// The descriptor of a file of this machine, into which the kernel can move bytes by itself;
    /// none where the store has none.
    pub fn as_local(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_local()
    }

    /// A duplicate of [`Self::as_local`]; none as well where no descriptor is free.
    pub fn descriptor(&self) -> Option<OwnedFd> {
        self.as_local().and_then(|file| file.try_clone_to_owned().ok())
    }

    /// The ranges that an earlier attempt left, ascending.
    pub fn kept(&self) -> &[StoredRange] {
        self.file.kept()
    }

    /// Version of the existing target; empty if there is none.
    pub fn replaces(&self) -> &[u8] {
        self.file.replaces()
    }

    /// Everything written from now on is hashed by `hashes`, which is queried at every checkpoint
    /// for the ranges to record. Call it before the first write.
    pub fn hashed_by(&self, hashes: Arc<dyn Hashes>) {
        self.file.hashed_by(hashes);
    }

    /// Bytes written since the last [`Self::checkpoint`]; none where nothing could be resumed.
    pub fn unmarked(&self) -> u64 {
        self.file.unmarked()
    }

    /// Makes the data written so far survive the end of the program: synced, then recorded in the
    /// journal. An error is final.
    pub fn checkpoint(&self) -> Result<()> {
        self.file.checkpoint()
    }

    /// Leaves the written data for the next attempt when the stage is dropped. Returns whether it
    /// does: not every stage can be resumed, or is worth it.
    pub fn keep(&self) -> bool {
        self.file.keep()
    }

    /// Sets length, mode and time of the file: the first step of a commit. A commit consists of
    /// these calls in the order of their declaration, the syncs only where requested; after a
    /// failed call no other is made.
    pub fn finish(&self, request: &CommitRequest) -> Result<()> {
        if request.length > i64::MAX as u64 {
            let because = format!("no file has {} bytes", request.length);
            return Err(errors::refused(ErrorKind::TooLarge, Verb::Create, self.shown(), &because));
        }
        self.file.finish(request)
    }

    /// Waits until the bytes are on stable storage. An error is final: the stage can no longer be
    /// named.
    pub fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    /// A reader of the written data; with `fresh`, it reads what the storage now has.
    pub fn read_back(&self, fresh: bool) -> Result<ReadBack> {
        self.file.read_back(fresh)
    }

    /// Renames the file to its target, atomically. On failure the existing file stays.
    pub fn name(&mut self, request: &CommitRequest) -> Result<Attributes> {
        if let Some(act) = self.before_name.take() {
            act();
        }
        self.file.name(request)
    }

    /// Whether the existing file was kept: see [`Existing::ReplaceOther`].
    ///
    /// [`Existing::ReplaceOther`]: super::Existing::ReplaceOther
    pub fn unchanged(&self) -> bool {
        self.file.unchanged()
    }

    /// Waits until the name is on stable storage.
    pub fn sync_directory(&self) -> Result<()> {
        self.file.sync_directory()
    }

    /// The commit without the syncs, for data that need not be durable. On failure nothing is left
    /// behind.
    pub fn commit(mut self, request: &CommitRequest) -> Result<Attributes> {
        self.finish(request)?;
        self.name(request)
    }

    /// Drops the stage without removing anything, as if the program were killed.
    pub fn leave(self) {
        self.file.leave();
    }

    /// Leaves nothing behind, except that bytes written to a stream cannot be taken back.
    pub fn abort(self) {}

    /// The target's name in messages, escaped.
    pub fn shown(&self) -> &str {
        self.file.shown()
    }
}
