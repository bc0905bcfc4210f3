//! Storage (the papers' CLIFSI and DSI): sources that are read and stages that become files.
//!
//! # Contract
//!
//! The protocol uses the operations of a store, not those of a file system: attributes, open, read
//! a range, stage, write a range, finish, sync, name, sync the name, abort. A version is opaque
//! bytes, compared for equality only.
//!
//! A store must provide:
//! - `stage` does not touch the target; only `name` makes it appear, complete and atomically;
//! - after `abort`, or when a stage is dropped without a name, nothing is left behind;
//! - where `resume` was requested, `keep` leaves the written data for the next stage with the same
//!   id, source and owner, and `checkpoint` makes it survive the end of the program; a stage that
//!   was taken over is refused from then on;
//! - a stage on which `write` or `sync` failed cannot be named, whatever later calls return;
//! - `write` writes everything or fails: a short write is continued, zero progress is an error,
//!   EINTR is retried;
//! - a failure of one small file in a group ends that file only, unless the call covered several
//!   files;
//! - every error names the path (escaped) and the cause, in the form of
//!   [`xdfs_proto::base::Error`].
//!
//! A caller must not assume that `open`, `attributes`, `stage` and `commit` are quick (the engine
//! runs them in its blocking pool), that a stage accepts ranges in any order (see
//! [`Capability::order`]), or that a source has a descriptor.
//!
//! The other operations of a store on names are described in [`tree`].
//!
//! Stores: `local` (directories, through the one resolver), `memory`, `export` (the sources and
//! stages `zero`, `random` and `null`), `stream` (pipes and standard input or output; a source or a
//! stage, never a store), `fault` and `sim` (test drivers).

pub mod boot;
pub mod descriptors;
pub mod errors;
pub mod export;
pub mod fault;
mod fresh_id;
mod io_loops;
mod ledger;
pub mod local;
mod local_place;
mod locked_file;
mod medium;
pub mod memory;
pub mod null;
pub mod open_file;
pub mod owners;
pub mod pipe;
mod random;
mod read_back;
mod registry;
pub mod reserved;
mod resolve;
pub mod sim;
pub mod small;
mod source;
mod stage;
mod stat;
pub mod stored_range;
pub mod stream;
pub mod tree;
pub mod watch;
pub mod zero;

pub use export::MemoryExport;
pub use fault::FaultStore;
pub use local::parts::KeptLimits;
pub use local::{Kept, LocalStore};
pub use local_place::LocalPlace;
pub use locked_file::LockedFile;
pub use memory::MemoryStore;
pub use open_file::{OpenFile, OpenRequest};
pub use pipe::{OpenPipe, PipeEnd, PipeRead};
pub use read_back::ReadBack;
pub use registry::Registration;
pub use resolve::append::append_named;
pub use resolve::folder::{
    Folder, FolderLock, FoundRecord, Record, Secrecy, Stamp, create_named, leads_to, read_named, read_settings,
};
pub use sim::SimStore;
pub use small::{SmallFile, SmallGroup, SmallReader};
pub use source::{Source, SourceCapability, SourceFile};
pub use stage::{Stage, StageCapability, StagedFile};
pub use stored_range::{Hashes, JournalTags, StoredRange};
pub use tree::Tree;
pub use watch::{Mark, Watcher};

use xdfs_proto::base::{Error, ErrorKind, RelPath, Safety, Timestamp, TransferId};

/// Result of a store operation.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of file that a name refers to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// Anything else; never opened.
    Other,
}

/// An opaque identifier of one state of a file: equal versions mean equal content as far as the
/// store can determine.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Version(pub Vec<u8>);

impl Version {
    /// Maximum length of a version, in bytes.
    pub const BYTES_MAX: usize = 64;
}

/// What `stat` returns.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Attributes {
    /// File, directory or other.
    pub kind: FileKind,
    /// Size in bytes; none where the source is endless or does not know its size (pipes).
    pub size: Option<u64>,
    /// Permission bits, at most 0o7777.
    pub mode: u32,
    /// Modification time.
    pub modified: Timestamp,
    /// Version of this state.
    pub version: Version,
}

impl Attributes {
    /// Of what is no file and has no attributes of its own.
    pub(crate) fn bare(kind: FileKind) -> Self {
        Self { kind, size: None, mode: 0o755, modified: Timestamp::default(), version: Version::default() }
    }
}

/// The order in which a stage accepts ranges.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// Any range at any time.
    Any,
    /// Each range starts where the last one ended (pipes).
    Ascending,
}

/// Capabilities of a store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Capability {
    /// Order in which `Stage::write` takes ranges.
    pub order: Order,
    /// Sources have a descriptor that the kernel can splice from.
    pub descriptor: bool,
    /// Files can be written at all.
    pub writable: bool,
    /// Names survive the process (a commit can be found again).
    pub persistent: bool,
}

/// What to do when the target's name exists at commit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Existing {
    /// Replace it in one step.
    Replace,
    /// Replace it atomically, unless it was created or changed at `since` (as
    /// [`Attributes::modified`]) or later and is the same file that would replace it: then, as far
    /// as the store can determine, it is kept and is as safe as the replacement would have been.
    /// For callers that could not know of the existing file.
    ReplaceOther {
        /// A check of the target at this time saw its current state.
        since: Timestamp,
    },
    /// Fail with `AlreadyExists`, checked at `stage` and again, without a race, at `commit`.
    Keep,
}

/// The outcome of putting a whole file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Placed {
    /// Its durability.
    pub safety: Safety,
    /// It already existed: see [`Existing::ReplaceOther`].
    pub unchanged: bool,
}

impl Existing {
    /// Leaves an identical existing file alone if it was created or changed at `since` or later.
    pub fn unless_same(self, since: Timestamp) -> Self {
        match self {
            Self::Replace | Self::ReplaceOther { .. } => Self::ReplaceOther { since },
            Self::Keep => Self::Keep,
        }
    }
}

/// Describes a new file.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StageRequest {
    /// The name that the file gets.
    pub target: RelPath,
    /// Its size, where known: space is reserved, so that a full disk is detected before data flows.
    pub size: Option<u64>,
    /// What to do with an existing file.
    pub existing: Existing,
    /// Names the staged file next to the target, so that two writers of one target never collide.
    pub transfer: TransferId,
    /// The transfer may resume an earlier attempt with its id, and leave data that the next attempt
    /// can resume. Requires a known size.
    pub resume: Option<Resume>,
    /// The copy is a retry: the version that it may replace, apart from its own result. Without it,
    /// any existing file may be replaced.
    pub base: Option<Base>,
    /// Runs of zeros take no space, as far as the storage supports that; no space is preallocated.
    pub holes: bool,
}

/// What a copy found at its target when it began, and what it writes there.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Base {
    /// Version of the existing file; empty if there was none.
    pub version: Vec<u8>,
    /// Modification time of the copy, used to recognize its own result. The content is compared
    /// before it counts.
    pub modified: Option<Timestamp>,
}

/// What two attempts must have in common.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Resume {
    /// Version of the source.
    pub source: Vec<u8>,
    /// Owner of the sender's session.
    pub owner: Vec<u8>,
    /// The resuming peer compares unverified ranges with the source: then data from another version
    /// of the source (a copy), or data that was there during a power cut, counts as well.
    pub hashed: bool,
    /// When the requesting session began (as [`Attributes::modified`]). If two sessions want one
    /// part file, the later one gets it: requests that the earlier one sent before it was lost may
    /// still be executed afterwards.
    pub since: Timestamp,
    /// Checkpoints must be on stable storage before they count. Without it, they are worth what the
    /// transfer then promises: they survive the program, and after a power cut they are compared or
    /// discarded.
    pub synced: bool,
}

/// What the finished file gets in addition to its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CommitRequest {
    /// Final length: the file is cut or extended to exactly this.
    pub length: u64,
    /// Permission bits; only 0o777 count, less the process's umask.
    pub mode: u32,
    /// Modification time to set, where the source has one.
    pub modified: Option<Timestamp>,
}

/// How long a part file is kept for a transfer that resumes it.
pub const PARTS_KEPT: std::time::Duration = std::time::Duration::from_secs(7 * 24 * 3600);

/// Files last written before the returned time have expired; `now` and the result count from 1970,
/// the result in seconds.
pub fn expired_before(now: std::time::Duration) -> i64 {
    i64::try_from(now.saturating_sub(PARTS_KEPT).as_secs()).unwrap_or(0)
}

/// What earlier attempts left in a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// Part files that can be resumed.
    pub parts: u64,
    /// Bytes in them that need not be sent again.
    pub bytes: u64,
    /// Part files that cannot be resumed: without a journal, or with an empty one.
    pub others: u64,
    /// Removed because no transfer resumed them in time.
    pub expired: u64,
}

impl std::ops::AddAssign for Recovered {
    fn add_assign(&mut self, other: Self) {
        self.parts += other.parts;
        self.bytes += other.bytes;
        self.others += other.others;
        self.expired += other.expired;
    }
}

/// A store of files.
pub trait Store: Send + Sync + std::fmt::Debug {
    /// The capabilities of this store.
    fn capability(&self) -> Capability;

    /// The attributes of the file at `path`.
    fn attributes(&self, path: &RelPath) -> Result<Attributes>;

    /// Opens a regular file for reading.
    fn open(&self, path: &RelPath) -> Result<Source>;

    /// Prepares a new file without touching the target.
    fn stage(&self, request: &StageRequest) -> Result<Stage>;

    /// Opens a regular file to read and write it in place, or creates it. Returns whether it was
    /// created.
    fn open_file(&self, _path: &RelPath, _request: &OpenRequest) -> Result<(OpenFile, bool)> {
        Err(Error::new(ErrorKind::Unsupported, "this store has no files that are written in place"))
    }

    /// Opens one end of a FIFO, without waiting for the other one.
    fn open_pipe(&self, _path: &RelPath, _write: bool) -> Result<OpenPipe> {
        Err(Error::new(ErrorKind::Unsupported, "this store has no pipes"))
    }

    /// Has `watcher` tell of the names in the directory `path`, and of the end of each directory above
    /// it in the store. Their marks are appended, that of `path` last, also if it fails in between.
    fn watch(&self, _path: &RelPath, _watcher: &Watcher, _marks: &mut Vec<Mark>) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "this store cannot tell of changes"))
    }

    /// The operations on its directory tree.
    fn tree(&self) -> Result<&dyn Tree> {
        Err(Error::new(ErrorKind::Unsupported, "this store has no directories"))
    }

    /// Creates, or finds, the staging directory of a tree that is published at its target
    /// atomically. The target must not exist.
    fn stage_tree(&self, _key: &tree::TreeKey<'_>) -> Result<tree::TreePlace> {
        Err(Error::new(ErrorKind::Unsupported, "this store has no trees that appear as a whole"))
    }

    /// The store of the files in the staging directory of such a tree, whose `holder` is
    /// [`tree::TreePlace::holder`]. No other path leads there, and none of its paths leads anywhere
    /// else.
    fn within_tree(&self, _holder: &RelPath) -> Result<std::sync::Arc<dyn Store>> {
        Err(Error::new(ErrorKind::Unsupported, "this store has no trees that appear as a whole"))
    }

    /// Renames such a tree to its target, atomically and only if the target does not exist.
    fn publish_tree(&self, _key: &tree::TreeKey<'_>) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "this store has no trees that appear as a whole"))
    }

    /// Creates the missing directories above `path`, outermost first. They remain, whatever becomes of
    /// the file.
    fn make_parents(&self, path: &RelPath) -> Result<()> {
        match path.parent() {
            Some(parent) if !parent.is_root() => self.tree()?.make_directory(&parent, 0o777, true),
            _ => Ok(()),
        }
    }

    /// Begins a group of small files, on which [`Self::put_small`] is built. `durable` is what is
    /// requested, not what can be promised.
    fn stage_small(&self, files: &[SmallFile<'_>], durable: bool) -> Box<dyn SmallGroup + '_> {
        let stage = |file: &SmallFile<'_>| {
            if file.parents {
                self.make_parents(&file.target)?;
            }
            self.stage(&file.stage_request())
        };
        Box::new(small::StageGroup::new(files, durable, stage))
    }

    /// Puts whole files, and returns the result of each in order. Groups of at most
    /// [`MEMBERS_MAX`](xdfs_proto::base::commit::MEMBERS_MAX) share the syncs that make them
    /// `durable`; without `durable` nothing is synced.
    fn put_small(&self, files: &[SmallFile<'_>], durable: bool) -> Vec<Result<Placed>> {
        small::put(files, durable, |files| self.stage_small(files, durable))
    }

    /// Reads a whole regular file of at most `bytes_max` bytes, and returns its attributes from
    /// before the first read, which were still the same after the last one; a larger file is
    /// refused with [`TooLarge`](xdfs_proto::base::ErrorKind::TooLarge). If it was just `seen`, it
    /// is not checked again before it is opened.
    fn get_small(
        &self,
        path: &RelPath,
        _seen: Option<&tree::Node>,
        bytes_max: u64,
        into: &mut SmallReader,
    ) -> Result<Attributes> {
        small::whole(&self.open(path)?, bytes_max, into)
    }

    /// Notices about this store for the operator; each is returned once.
    fn notice(&self) -> Option<String> {
        None
    }

    /// Finds what earlier attempts left, and removes what was last written before `expired`
    /// (seconds since 1970). May take long.
    fn recover(&self, _expired: i64) -> Recovered {
        Recovered::default()
    }
}
