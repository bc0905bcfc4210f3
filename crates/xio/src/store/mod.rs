//! The storage room (the papers' CLIFSI and DSI): sources that are read and stages that become files.
//!
//! # Contract
//!
//! The protocol knows the verbs of a store, not those of a file system: attributes, open, read a range, stage, write a
//! range, finish, sync, name, sync the name, abort. A version is opaque bytes, compared for equality alone.
//!
//! A member must provide:
//! - `stage` touches nothing under the target's name; only `name` makes it appear, complete, at once;
//! - after `abort`, or when a stage is dropped without a name, nothing is left behind;
//! - where `resume` was asked for, `keep` leaves what was written for the next stage with the same id, source and owner, and
//!   `checkpoint` makes that survive the end of the program; a stage that is taken over is refused from then on;
//! - a stage on which `write` or `sync` failed cannot get a name, whatever later calls would say;
//! - `write` writes everything or fails: a short write is continued, zero progress is an error, EINTR is retried;
//! - of a group of small files what fails for one of them ends that one alone, unless the call was about several;
//! - every error names the path (escaped) and the cause, in the words of [`xdfs_proto::base::Error`].
//!
//! A caller may not assume: that `open`, `attributes`, `stage` and `commit` are quick (the engine runs them in its
//! blocking pool); that a stage accepts ranges in any order (see [`Capability::order`]); that a source has a descriptor.
//!
//! What a store does with names besides is said in [`tree`].
//!
//! Members: `local` (directories, through the one resolver), `memory`, `export` (the sources and stages `zero`, `random`
//! and `null`), `stream` (pipes and standard input or output; a source or a stage, never a store), `fault` and `sim` (test
//! drivers).

pub mod descriptors;
mod errors;
pub mod export;
pub mod fault;
mod io_loops;
mod ledger;
pub mod local;
pub mod memory;
pub mod owners;
mod random;
mod resolve;
pub mod sim;
pub mod small;
mod source;
mod stage;
pub mod stream;
pub mod tree;
pub mod verified_range;
pub mod zero;

pub use export::MemoryExport;
pub use fault::FaultStore;
pub use local::kept::KeptLimits;
pub use local::read_back::ReadBack;
pub use local::{Kept, LocalStore};
pub use memory::MemoryStore;
pub use resolve::append::append_named;
pub use resolve::folder::{Folder, FolderLock, Secrecy, Stamp, create_named, leads_to, read_named};
pub use resolve::typed::LocalPlace;
pub use sim::SimStore;
pub use small::{SmallFile, SmallGroup, SmallReader};
pub use source::Source;
pub use stage::Stage;
pub use tree::Tree;
pub use verified_range::{Hashes, JournalTags, VerifiedRange};

use xdfs_proto::base::{Error, ErrorKind, RelPath, Safety};

/// Result of a store's verb.
pub type Result<T> = std::result::Result<T, Error>;

/// What kind of thing a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// Anything else: it is never opened.
    Other,
}

/// An opaque name of one state of a file: equal versions mean equal content as far as the store can tell.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Version(pub Vec<u8>);

impl Version {
    /// Longest version, in bytes.
    pub const BYTES_MAX: usize = 64;
}

/// What `stat` tells.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Attributes {
    /// File, directory or other.
    pub kind: FileKind,
    /// Size in bytes; none where the source has no end or does not know it (pipes).
    pub size: Option<u64>,
    /// Permission bits, at most 0o7777.
    pub mode: u32,
    /// Modification time: seconds and nanoseconds since 1970.
    pub modified: (i64, u32),
    /// This state's version.
    pub version: Version,
}

/// In which order a stage takes its ranges.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// Any range at any time.
    Any,
    /// Each range starts where the last one ended (pipes).
    Ascending,
}

/// What a store can do.
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
    /// Replace it in one step, unless it came, or changed, at `since` (as [`Attributes::modified`]) or later and is the very file that would take its
    /// place: then it stays, as far as the store can tell, and is as safe as it would have been. For whoever could not know of it.
    ReplaceOther {
        /// Whoever looked then saw what there was.
        since: (i64, u32),
    },
    /// Fail with `AlreadyExists`, checked at `stage` and again, without a race, at `commit`.
    Keep,
}

/// What became of a whole file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Placed {
    /// How safe it is.
    pub safety: Safety,
    /// It was there already: see [`Existing::ReplaceOther`].
    pub unchanged: bool,
}

impl Existing {
    /// What is replaced by itself is left as it is where it came at `since` or later.
    pub fn unless_same(self, since: (i64, u32)) -> Self {
        match self {
            Self::Replace | Self::ReplaceOther { .. } => Self::ReplaceOther { since },
            Self::Keep => Self::Keep,
        }
    }
}

/// What a new file should become.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StageRequest {
    /// Where the file gets its name.
    pub target: RelPath,
    /// Its size, where known: room is reserved, so a full disk shows before data flows.
    pub size: Option<u64>,
    /// What to do with an existing file.
    pub existing: Existing,
    /// Names the staged file beside the target, so that two writers of one target never meet.
    pub transfer: [u8; 16],
    /// The transfer may go on where an earlier attempt with its id ended, and leave what the next one can go on with. Needs a
    /// known size.
    pub resume: Option<Resume>,
    /// The copy is tried again: what it may replace, besides itself. Without it, whatever is there.
    pub base: Option<Base>,
    /// Runs of zeros take no room, as far as the storage can do that; none is taken ahead.
    pub holes: bool,
}

/// What a copy found under its target's name when it began, and what it makes of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Base {
    /// Version of what was there; empty for nothing.
    pub version: Vec<u8>,
    /// Modification time of the copy, by which it is taken for itself. It is compared before it counts.
    pub modified: Option<(i64, u32)>,
}

/// What two attempts must have in common.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Resume {
    /// Version of the source.
    pub source: Vec<u8>,
    /// Who sends it.
    pub owner: Vec<u8>,
    /// Whoever goes on compares what is in doubt with the source: then what came from another version of it (a copy), or lay there
    /// during a power cut, counts as well.
    pub hashed: bool,
    /// When the session began that asks (as [`Attributes::modified`]). Of two that are after one part file the later has it: what
    /// the other had asked for before it was lost may be carried out behind that.
    pub since: (i64, u32),
    /// Markers are on stable storage before they count. Without, they are worth as much as what the transfer promises then:
    /// they outlive the program, and after a power cut they are compared or void.
    pub synced: bool,
}

/// What the finished file gets besides its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CommitRequest {
    /// Final length: the file is cut or extended to exactly this.
    pub length: u64,
    /// Permission bits; only 0o777 count, less the process's umask.
    pub mode: u32,
    /// Modification time to set, where the source has one.
    pub modified: Option<(i64, u32)>,
}

/// How long a part file waits for somebody who goes on with it.
pub const PARTS_KEPT: std::time::Duration = std::time::Duration::from_secs(7 * 24 * 3600);

/// Who was last written before this moment has waited for too long; `now` and the answer count from 1970, the answer in seconds.
pub fn expired_before(now: std::time::Duration) -> i64 {
    i64::try_from(now.saturating_sub(PARTS_KEPT).as_secs()).unwrap_or(0)
}

/// What earlier attempts left in a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// Part files that can be gone on with.
    pub parts: u64,
    /// Bytes in them that need not be sent again.
    pub bytes: u64,
    /// Part files that cannot: without a journal, or with one that says nothing.
    pub others: u64,
    /// Removed, since nobody came for them in time.
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

/// A place that holds files.
pub trait Store: Send + Sync + std::fmt::Debug {
    /// What this store can do.
    fn capability(&self) -> Capability;

    /// What a name stands for.
    fn attributes(&self, path: &RelPath) -> Result<Attributes>;

    /// Opens a regular file for reading.
    fn open(&self, path: &RelPath) -> Result<Source>;

    /// Prepares a new file without touching the target's name.
    fn stage(&self, request: &StageRequest) -> Result<Stage>;

    /// The verbs of its tree.
    fn tree(&self) -> Result<&dyn Tree> {
        Err(Error::new(ErrorKind::Unsupported, "this store has no directories"))
    }

    /// Makes the place in which a tree is made that is to appear at a target as a whole, or finds it. Nothing may be at the target.
    fn stage_tree(&self, _key: &tree::TreeKey<'_>) -> Result<tree::TreePlace> {
        Err(Error::new(ErrorKind::Unsupported, "this store has no trees that appear as a whole"))
    }

    /// The store of the files in the place of such a tree, of which `holder` is what [`tree::TreePlace`] says. No other path leads
    /// there, and none of its paths leads anywhere else.
    fn within_tree(&self, _holder: &RelPath) -> Result<std::sync::Arc<dyn Store>> {
        Err(Error::new(ErrorKind::Unsupported, "this store has no trees that appear as a whole"))
    }

    /// Gives such a tree the target's name, in one step and only where that is free.
    fn publish_tree(&self, _key: &tree::TreeKey<'_>) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "this store has no trees that appear as a whole"))
    }

    /// Begins a group of small files: what [`Self::put_small`] is made of. `durable` says what is asked for, not what can be
    /// promised.
    fn stage_small(&self, files: &[SmallFile<'_>], durable: bool) -> Box<dyn SmallGroup + '_> {
        Box::new(small::StageGroup::new(files, durable, |request| self.stage(request)))
    }

    /// Puts whole files, and says of each in turn what became of it. Groups of at most
    /// [`MEMBERS_MAX`](xdfs_proto::base::commit::MEMBERS_MAX) share the syncs that make them `durable`; without it none is made.
    fn put_small(&self, files: &[SmallFile<'_>], durable: bool) -> Vec<Result<Placed>> {
        small::put(files, durable, |files| self.stage_small(files, durable))
    }

    /// Reads a whole regular file of at most `bytes_max` bytes, and tells what it was before the first byte was read, and still
    /// was behind the last; a larger one is refused with [`TooLarge`](xdfs_proto::base::ErrorKind::TooLarge). Where it was `seen`
    /// just now it is not looked at again before it is opened.
    fn get_small(
        &self,
        path: &RelPath,
        _seen: Option<&tree::Node>,
        bytes_max: u64,
        into: &mut SmallReader,
    ) -> Result<Attributes> {
        small::whole(&self.open(path)?, bytes_max, into)
    }

    /// What whoever runs the program should hear about this store; each is said once.
    fn notice(&self) -> Option<String> {
        None
    }

    /// Looks for what earlier attempts left, and removes what was last written before `expired` (seconds since 1970). May
    /// take long.
    fn recover(&self, _expired: i64) -> Recovered {
        Recovered::default()
    }
}
