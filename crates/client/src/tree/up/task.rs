//! What a tree on its way to a server consists of: steps, each of which waits for its turn, or for its answer.

use crate::tree::compare::TargetState;
use crate::tree::directories::DirectoryId;
use crate::tree::scheduler::Named;
use xdfs_xio::store::tree::Node;

/// Something to be done, or under way.
#[derive(Clone, Debug)]
pub(in crate::tree) enum UploadTask {
    /// A directory comes next.
    Enter { parent: Option<DirectoryId>, path: Vec<u8>, node: Box<Node>, there: Option<TargetState> },
    /// The next page of what the target has of a directory.
    Compare { id: DirectoryId, cursor: Vec<u8> },
    /// The next page of a directory of the source.
    Walk { id: DirectoryId, cursor: Vec<u8> },
    /// A directory is to be made at the target.
    Make(DirectoryId),
    /// A file, symbolic link or special file.
    Entry(UploadEntry),
    /// The same, once what is in its place is removed.
    Clear(UploadEntry),
    /// The same, where that is a directory: what is in it goes first.
    ClearDirectory(UploadEntry),
    /// The same, now that it is to be empty.
    ClearEmpty(UploadEntry),
    /// Its content is compared first. Where that is equal, time and attributes are set, unless they are `same`.
    Check { entry: UploadEntry, same: bool },
    /// It was under way when a session was lost: it may be there.
    Look(UploadEntry),
    /// What is set besides, of a file that is there: nobody waits for it.
    Extra,
    /// The same, of a file that was there before or went as a transfer: it is done again after a lost session.
    Extras(UploadEntry),
    /// A step of several that belong to one entry; the last one tells.
    Step,
    /// A directory has all its entries: its mode and time come last.
    Finish(DirectoryId),
    /// A second name of a file.
    Link(Link),
    /// The same under a temporary name, which takes the place of a directory once that is gone.
    LinkStage(Link),
    /// The same, in the same batch as the rename that puts it in the place of what has the name.
    LinkTemp,
    /// Which file the first name of a link is.
    LinkFirst,
    /// The name is taken: perhaps by the same file.
    LinkLook(Link),
    /// A directory that is finished, or is to go, lets its owner change what is in it: first its mode is asked for, then it gets this
    /// one. Then comes what needs that.
    Unlock { path: Vec<u8>, mode: Option<u32>, then: Box<UploadTask> },
    /// The time of a directory that got a second name after it was finished, and its mode where it was unlocked for that.
    Retouch { path: Vec<u8>, mode: Option<Unlocked> },
    /// A directory that was unlocked for a moment gets its mode again.
    Relock(Vec<u8>, u32),
    /// What is there gets the time of its source, and nothing else.
    Time(Vec<u8>, (i64, u32)),
    /// A name that the source does not have. Its directory was unlocked.
    Remove { path: Vec<u8>, unlock: bool },
    /// A directory that the source does not have, from this place in it on: what is in it goes first.
    RemoveAll { path: Vec<u8>, cursor: Vec<u8>, unlock: bool },
    /// The same, now empty.
    RemoveEmpty { path: Vec<u8>, unlock: bool },
}

/// Modes of a directory that was unlocked for a moment: the one that it had, and the one that it was given.
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

/// A second name of a file.
#[derive(Clone, Debug)]
pub(in crate::tree) struct Link {
    pub(super) first: Vec<u8>,
    pub(super) path: Vec<u8>,
    /// What has the name, and makes way once the link is made under a temporary one.
    pub(super) there: Option<TargetState>,
    /// It is made under a temporary name.
    pub(super) staged: bool,
    /// The directory was unlocked.
    pub(super) unlock: bool,
    /// How often it was tried.
    pub(super) tries: u8,
}

/// A name that is no directory.
#[derive(Clone, Debug)]
pub(in crate::tree) struct UploadEntry {
    pub(super) directory: DirectoryId,
    pub(super) path: Vec<u8>,
    pub(super) node: Box<Node>,
    /// Its attributes were too long to go along: they follow it.
    pub(super) follows: bool,
    /// How often it met another copy of the same name, or changed while it was read. A transfer is joined with no other one then.
    pub(super) tries: u8,
}

impl Named for UploadEntry {
    fn directory(&self) -> DirectoryId {
        self.directory
    }

    fn path(&self) -> &[u8] {
        &self.path
    }

    fn tries(&self) -> u8 {
        self.tries
    }

    fn tried(self) -> Self {
        Self { tries: self.tries + 1, ..self }
    }
}

impl UploadEntry {
    pub(super) fn new(directory: DirectoryId, path: Vec<u8>, node: Box<Node>) -> Self {
        Self { directory, path, node, follows: false, tries: 0 }
    }
}
