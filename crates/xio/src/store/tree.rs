//! The verbs of a directory tree: what path calls, tree copies and the commands on names need of a store besides the bytes of
//! files. A store that has no tree (a pipe, `null`) says so.
//!
//! # Contract
//!
//! - A path is resolved as the other verbs resolve it: beneath the root, through no link. The last component is never followed:
//!   what is told about a link is the link's.
//! - A verb changes the one thing that it names, or nothing (`make_directory` with parents: those that were missing, outermost
//!   first).
//! - Nothing here waits for stable storage but [`Tree::sync`], for all the names of one directory, and [`Tree::sync_files`].
//! - What a peer may set (bits of a mode, owners, which extended attributes) is for the caller to decide: these verbs do what
//!   they are told.

use super::{Existing, Result, Version};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use xdfs_proto::base::{RelPath, Safety};

/// Longest extended attribute, and longest list of their names, that Linux has.
pub const XATTR_BYTES_MAX: usize = 65_536;

/// What kind of thing a name stands for, in full.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NodeKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
}

/// All that a store tells about a name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    /// What it is.
    pub kind: NodeKind,
    /// Permission bits, at most 0o7777.
    pub mode: u32,
    /// Bytes of a regular file, or of a link's text; of anything else nothing that means much.
    pub size: u64,
    /// Bytes that it takes on the medium; less than its size where it has holes.
    pub allocated: u64,
    /// Names of it.
    pub links: u64,
    /// File system and number in it: equal for two names of one file.
    pub identity: (u64, u64),
    /// Numbers of owner and group.
    pub owner: (u32, u32),
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// When its content was last read, written, and when anything about it changed: seconds and nanoseconds since 1970.
    pub accessed: (i64, u32),
    /// See `accessed`.
    pub modified: (i64, u32),
    /// See `accessed`.
    pub changed: (i64, u32),
    /// This state's version, as [`super::Attributes`] has it.
    pub version: Version,
}

/// What is to become of a name's attributes; what is none stays as it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct AttributeChange {
    /// Owner and group, each by number.
    pub owner: (Option<u32>, Option<u32>),
    /// Permission bits, exactly these. A link has none of its own: for it this is [`xdfs_proto::base::ErrorKind::Unsupported`].
    pub mode: Option<u32>,
    /// Length of a regular file.
    pub length: Option<u64>,
    /// When it was last read.
    pub accessed: Option<(i64, u32)>,
    /// When it was last written.
    pub modified: Option<(i64, u32)>,
}

/// Something that is neither file, directory nor link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Special {
    /// Anything but regular file, directory and link.
    pub kind: NodeKind,
    /// Permission bits.
    pub mode: u32,
    /// Major and minor number of a device.
    pub device: (u32, u32),
}

/// How full the file system is that holds a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Space {
    /// Bytes in all, free, and free for who asks.
    pub bytes: (u64, u64, u64),
    /// Files in all and free; zero where the file system does not count them.
    pub files: (u64, u64),
    /// Longest component of a name.
    pub name_max: u64,
}

/// Which tree is to appear as a whole: it has one place for each user, target and client.
#[derive(Clone, Copy, Debug)]
pub struct TreeKey<'a> {
    /// The name that it will get.
    pub target: &'a RelPath,
    /// Whose it is.
    pub user: &'a [u8],
    /// What its client calls it; nobody else knows that.
    pub client: &'a [u8; 16],
}

/// Where a tree is until it has its name.
#[derive(Clone, Debug)]
pub struct TreePlace {
    /// Follows from the key, and from nothing that another user knows.
    pub id: [u8; 16],
    /// The directory that holds it.
    pub holder: RelPath,
    /// The tree itself, in `holder`; nothing is there until it is made.
    pub top: RelPath,
    /// As long as this is held nobody clears the place away.
    pub lock: Arc<OwnedFd>,
}

/// Where a listing goes on; opaque, and good for the same directory as long as that exists.
pub type Cursor = Vec<u8>;

/// What a listing does with an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListControl {
    /// It was taken: the next one.
    More,
    /// It was not: the listing ends in front of it.
    Stop,
}

/// The operations on a directory tree.
pub trait Tree: Send + Sync {
    /// What stands at `path`.
    fn node(&self, path: &RelPath) -> Result<Node>;

    /// Tells the entries of a directory in its own order, from `cursor` (empty: the first) until `take` stops it. `.`, `..`, this
    /// program's own staging directory and what vanishes meanwhile are left out. None at the end, else where it goes on: each entry that is there all the time
    /// comes once.
    fn list(
        &self,
        path: &RelPath,
        cursor: &[u8],
        take: &mut dyn FnMut(&[u8], &Node) -> ListControl,
    ) -> Result<Option<Cursor>>;

    /// Makes a directory; with `parents` also what is missing above it, and one that is there is fine. The mode loses the umask's
    /// bits.
    fn make_directory(&self, path: &RelPath, mode: u32, parents: bool) -> Result<()>;

    /// Removes an empty directory.
    fn remove_directory(&self, path: &RelPath) -> Result<()>;

    /// Removes a name that is no directory.
    fn remove(&self, path: &RelPath) -> Result<()>;

    /// Moves a name, in one step. [`Existing::Replace`] puts it in the place of what the kernel lets it replace.
    fn rename(&self, from: &RelPath, to: &RelPath, existing: Existing) -> Result<()>;

    /// Gives the file, link or special file at `of` one more name, which must be free.
    fn link(&self, of: &RelPath, name: &RelPath) -> Result<()>;

    /// Makes a symbolic link with this text, which nobody looks at.
    fn make_symlink(&self, path: &RelPath, text: &[u8]) -> Result<()>;

    /// The text of a symbolic link.
    fn read_symlink(&self, path: &RelPath) -> Result<Vec<u8>>;

    /// Makes a FIFO, socket or device. The mode loses the umask's bits.
    fn make_special(&self, path: &RelPath, special: &Special) -> Result<()>;

    /// Changes attributes: owner first, since that takes bits away, times last.
    fn change(&self, path: &RelPath, change: &AttributeChange) -> Result<()>;

    /// Names of the extended attributes.
    fn xattrs(&self, path: &RelPath) -> Result<Vec<Vec<u8>>>;

    /// An extended attribute, at most [`XATTR_BYTES_MAX`] bytes.
    fn xattr(&self, path: &RelPath, name: &[u8]) -> Result<Vec<u8>>;

    /// Sets an extended attribute, new or not.
    fn set_xattr(&self, path: &RelPath, name: &[u8], value: &[u8]) -> Result<()>;

    /// Removes an extended attribute.
    fn remove_xattr(&self, path: &RelPath, name: &[u8]) -> Result<()>;

    /// How full the file system is.
    fn space(&self, path: &RelPath) -> Result<Space>;

    /// Waits until the names in the directory `path` are on stable storage.
    fn sync(&self, path: &RelPath) -> Result<()>;

    /// Waits until content and attributes of those of `paths` that are regular files are on stable storage, and says whether they
    /// are: some storage has nothing that is stable.
    fn sync_files(&self, paths: &BTreeSet<RelPath>) -> Result<Safety>;
}

/// Whether a name is reserved for the directory in which this program stages files: no path may contain it.
pub fn is_reserved(name: &[u8]) -> bool {
    super::resolve::reserved::is_reserved(name)
}
