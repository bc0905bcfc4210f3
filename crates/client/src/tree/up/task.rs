//! The steps of an upload of a tree; each is pending or waits for its answer.

use crate::tree::NotPreserved;
use crate::tree::compare::{Inode, TargetState};
use crate::tree::directories::DirectoryId;
use crate::tree::plan::FirstStep;
use crate::tree::scheduler::Entry;
use xdfs_io::store::tree::Node;
use xdfs_proto::base::{Error, Safety, Timestamp};

/// A task that is pending or in flight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::tree) enum UploadTask {
    /// Enter the next directory.
    Enter { parent: Option<DirectoryId>, path: Vec<u8>, node: Box<Node>, there: Option<TargetState> },
    /// Fetch the next page of the target's listing of a directory.
    Compare { id: DirectoryId, cursor: Vec<u8> },
    /// Read the next page of a directory of the source.
    Walk { id: DirectoryId, cursor: Vec<u8> },
    /// Make a directory at the target.
    Make(DirectoryId),
    /// Send a file, symbolic link or special file.
    Entry(UploadEntry),
    /// The same, once the entry that has its name is removed.
    Clear(UploadEntry),
    /// The same if that is a directory: its entries are removed first.
    ClearDirectory(UploadEntry),
    /// The same, now that it should be empty.
    ClearEmpty(UploadEntry),
    /// Compare the content first. If it is equal, set time and attributes, unless they are `same`.
    Check { entry: UploadEntry, same: bool },
    /// Check an entry that was in flight when a session was lost: it may have arrived.
    Look(UploadEntry),
    /// Compare the content of a file that seems to have arrived: its size and time were in the request, so that a server knows
    /// them which has none of its bytes.
    Arrived(UploadEntry, Safety),
    /// Set other metadata of an existing file, of this kind: nothing waits for it.
    Extra(NotPreserved),
    /// The same for a file that existed before or was sent as a transfer, all kinds: it is repeated
    /// after a lost session.
    Extras(UploadEntry),
    /// One kind of these, in flight.
    ExtraOf(UploadEntry, NotPreserved),
    /// Set the mode of an entry once more: with bits beyond 0777, now that its owner is known.
    SpecialMode(Vec<u8>, u32),
    /// One of several steps of one entry; the last one reports the result.
    Step,
    /// All entries of a directory are done: set its mode and time last.
    Finish(DirectoryId),
    /// Make a further name of a file.
    Link(Link),
    /// What comes before a link in its batch: the link under a temporary name, which is renamed over what has its own, or the
    /// removal of an empty directory.
    BeforeLink,
    /// Find out which file the first name of a link refers to.
    LinkFirst,
    /// Check a name that is taken, perhaps by the same file.
    LinkLook(Link),
    /// Let the owner change the entries of a directory that is finished or to be removed: first
    /// request its mode, then set this one. Then continue with the task that needs it.
    Unlock { path: Vec<u8>, mode: Option<u32>, then: Box<UploadTask> },
    /// Restore the time of a directory that got a further name after it was finished, and its mode
    /// if it was unlocked for that.
    Retouch { path: Vec<u8>, mode: Option<Unlocked> },
    /// Restore the mode of a directory that was temporarily unlocked.
    Relock(Vec<u8>, u32),
    /// Set the time of an existing entry to that of its source, and nothing else.
    Time(Vec<u8>, Timestamp),
    /// Remove the temporary name of a link, which a rename may have left.
    RemoveTemp(Vec<u8>),
    /// Remove a name that the source does not have. `unlock`: its directory was unlocked.
    Remove { path: Vec<u8>, unlock: bool },
    /// Remove a directory that the source does not have, from this position of its listing on: its
    /// entries are removed first.
    RemoveAll { path: Vec<u8>, cursor: Vec<u8>, unlock: bool },
    /// The same, now that it is empty.
    RemoveEmpty { path: Vec<u8>, unlock: bool },
}

/// Modes of a directory that was temporarily unlocked: the original one and the one that was set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tree) struct Unlocked {
    pub(super) before: u32,
    pub(super) set: u32,
}

impl Unlocked {
    pub(super) fn to_bytes(self) -> [u8; 8] {
        (u64::from(self.before) << 32 | u64::from(self.set)).to_be_bytes()
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let both = u64::from_be_bytes(bytes.try_into().ok()?);
        Some(Self { before: u32::try_from(both >> 32).ok()?, set: u32::try_from(both & u64::from(u32::MAX)).ok()? })
    }
}

/// A further name of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::tree) struct Link {
    pub(super) first: Vec<u8>,
    pub(super) path: Vec<u8>,
    pub(super) place: LinkPlace,
    /// The directory was unlocked.
    pub(super) unlock: bool,
    /// How often it was tried.
    pub(super) tries: u8,
}

/// What has the name that a link is to get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tree) enum LinkPlace {
    /// Nothing, as far as is known.
    Free,
    /// An entry, which keeps the name until there is a link to replace it.
    Taken(TargetState),
    /// A directory, which is removed right before.
    Directory,
}

/// What the call before that of a link, in the same batch, has answered.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(in crate::tree) enum LinkAnswer {
    /// Nothing that matters.
    #[default]
    None,
    /// Why the link does not exist under a temporary name, the directory is still there, or what is to be linked cannot be
    /// found.
    Unmade(Error),
    /// The file that the first name refers to.
    First(Inode),
}

impl LinkAnswer {
    /// The link was to be made under a temporary name.
    pub(super) fn staged(error: Option<Error>) -> Self {
        error.map_or(Self::None, Self::Unmade)
    }

    /// The first name was looked at; a server may tell no inode.
    pub(super) fn first(inode: Result<Option<Inode>, Error>) -> Self {
        match inode {
            Ok(inode) => inode.map_or(Self::None, Self::First),
            Err(error) => Self::Unmade(error),
        }
    }
}

/// What an upload knows of a name that is not a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::tree) struct UploadSource {
    pub(super) node: Box<Node>,
    /// Something has its name at the target. Attributes in the batch of its call would be set on that
    /// if the call failed.
    pub(super) exists: bool,
    /// Its attributes follow its call.
    pub(super) follows: bool,
}

/// A name that is not a directory.
pub(in crate::tree) type UploadEntry = Entry<UploadSource>;

impl UploadTask {
    /// What is not kept if it fails, where nothing else depends on it.
    pub(super) fn attribute(&self) -> Option<NotPreserved> {
        match self {
            Self::ExtraOf(_, NotPreserved::OWNER) => None,
            Self::Extra(kind) | Self::ExtraOf(_, kind) => Some(*kind),
            Self::Time(..) | Self::Retouch { mode: None, .. } => Some(NotPreserved::TIME),
            Self::Relock(..) | Self::SpecialMode(..) => Some(NotPreserved::MODE),
            _ => None,
        }
    }

    /// The task that begins to send an entry.
    pub(super) fn first(entry: UploadEntry, step: FirstStep) -> Self {
        match step {
            FirstStep::Compare { same } => Self::Check { entry, same },
            FirstStep::ClearDirectory => Self::ClearDirectory(entry),
            FirstStep::Clear => Self::Clear(entry),
            FirstStep::Send => Self::Entry(entry),
        }
    }
}

impl UploadEntry {
    pub(super) fn of(directory: DirectoryId, path: Vec<u8>, node: Box<Node>) -> Self {
        Self::new(directory, path, UploadSource { node, exists: false, follows: false })
    }
}
