//! The operations of a directory tree: what path calls, tree copies and the commands on names need
//! from a store in addition to file content. A store without a tree (a pipe, `null`) reports that.
//!
//! # Contract
//!
//! - A path is resolved as in the other operations: beneath the root, through no link. The last
//!   component is never followed: attributes of a link are those of the link itself.
//! - An operation changes only what it names, or nothing (`make_directory` with parents: the
//!   missing ones, outermost first).
//! - Nothing here waits for stable storage except [`Tree::sync`], for all names of one directory,
//!   and [`Tree::sync_files`].
//! - The caller decides what a peer may set (bits of a mode, owners, which extended attributes):
//!   these operations do not check that.

use super::{Existing, LockedFile, Result, Version};
use std::collections::BTreeSet;
use std::sync::Arc;
use xdfs_proto::base::{RelPath, Safety, Timestamp};

/// Maximum size of an extended attribute, and of a list of their names, on Linux.
pub const XATTR_BYTES_MAX: usize = 65_536;

/// The exact kind of file that a name refers to.
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

/// All attributes that a store reports for a name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    /// Its kind.
    pub kind: NodeKind,
    /// Permission bits, at most 0o7777.
    pub mode: u32,
    /// Bytes of a regular file, or of a link's text; not meaningful for anything else.
    pub size: u64,
    /// Bytes allocated on the medium; less than its size where it has holes.
    pub allocated: u64,
    /// Number of hard links.
    pub links: u64,
    /// Device and inode number: equal for two names of one file.
    pub identity: (u64, u64),
    /// Numbers of owner and group.
    pub owner: (u32, u32),
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Time of the last read of its content; `modified` of the last write, `changed` of the last
    /// change of anything about it: seconds and nanoseconds since 1970.
    pub accessed: Timestamp,
    /// See `accessed`.
    pub modified: Timestamp,
    /// See `accessed`.
    pub changed: Timestamp,
    /// This state's version, as [`super::Attributes`] has it.
    pub version: Version,
}

/// The attributes to set; those that are none stay unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct AttributeChange {
    /// Owner and group, each by number.
    pub owner: (Option<u32>, Option<u32>),
    /// Permission bits, exactly these. A link has none: for a link the result is
    /// [`xdfs_proto::base::ErrorKind::Unsupported`].
    pub mode: Option<u32>,
    /// Length of a regular file.
    pub length: Option<u64>,
    /// Time of the last read.
    pub accessed: Option<Timestamp>,
    /// Time of the last write.
    pub modified: Option<Timestamp>,
}

/// A file that is neither regular, directory nor link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Special {
    /// Anything but regular file, directory and link.
    pub kind: NodeKind,
    /// Permission bits.
    pub mode: u32,
    /// Major and minor number of a device.
    pub device: (u32, u32),
}

/// Usage of the file system that holds a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Space {
    /// Bytes in total, free, and available to the caller.
    pub bytes: (u64, u64, u64),
    /// Files in total and free; zero where the file system does not count them.
    pub files: (u64, u64),
    /// Maximum length of a name component.
    pub name_max: u64,
}

/// Identifies a tree that is published atomically: there is one staging directory for each user,
/// target and client.
#[derive(Clone, Copy, Debug)]
pub struct TreeKey<'a> {
    /// The name that it will get.
    pub target: &'a RelPath,
    /// Whose it is, among whom the bound on unfinished trees is counted: as of part files, the name of a user, or that of
    /// the user's tokens.
    pub owner: &'a [u8],
    /// The client's id for it, a secret of the client.
    pub client: &'a [u8; 16],
}

/// The staging directory of a tree until it is renamed to its target.
#[derive(Clone, Debug)]
pub struct TreePlace {
    /// Derived from the key, and from nothing that another user knows.
    pub id: [u8; 16],
    /// The directory that holds it.
    pub holder: RelPath,
    /// The tree itself, in `holder`; it does not exist until it is created.
    pub top: RelPath,
    /// While this is held, the staging directory is not cleaned up.
    pub lock: Arc<LockedFile>,
}

/// Where a listing resumes; opaque, and valid for the same directory as long as that exists.
pub type Cursor = Vec<u8>;

/// What a listing does with an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListControl {
    /// The entry was taken: continue.
    More,
    /// It was not taken: the listing ends before it.
    Stop,
}

/// The operations on a directory tree.
pub trait Tree: Send + Sync {
    /// The attributes of `path`.
    fn node(&self, path: &RelPath) -> Result<Node>;

    /// Lists the entries of a directory in its own order, from `cursor` (empty: the first) until
    /// `take` stops it. `.`, `..`, this program's own staging directory and entries that vanish
    /// meanwhile are omitted. Returns none at the end, else the cursor to resume at: each entry
    /// that exists all the time is listed once.
    fn list(
        &self,
        path: &RelPath,
        cursor: &[u8],
        take: &mut dyn FnMut(&[u8], &Node) -> ListControl,
    ) -> Result<Option<Cursor>>;

    /// Creates a directory; with `parents` also its missing parents, and an existing directory is
    /// not an error. The umask applies to the mode.
    fn make_directory(&self, path: &RelPath, mode: u32, parents: bool) -> Result<()>;

    /// Removes an empty directory.
    fn remove_directory(&self, path: &RelPath) -> Result<()>;

    /// Removes a name that is not a directory.
    fn remove(&self, path: &RelPath) -> Result<()>;

    /// Renames, atomically. [`Existing::Replace`] replaces what the kernel allows to be replaced.
    fn rename(&self, from: &RelPath, to: &RelPath, existing: Existing) -> Result<()>;

    /// Creates another hard link to the file, link or special file at `of`; the new name must not
    /// exist.
    fn link(&self, of: &RelPath, name: &RelPath) -> Result<()>;

    /// Creates a symbolic link with this text, which is not checked.
    fn make_symlink(&self, path: &RelPath, text: &[u8]) -> Result<()>;

    /// The text of a symbolic link.
    fn read_symlink(&self, path: &RelPath) -> Result<Vec<u8>>;

    /// Creates a FIFO, socket or device. The umask applies to the mode.
    fn make_special(&self, path: &RelPath, special: &Special) -> Result<()>;

    /// Changes attributes: owner first, since that clears mode bits, times last.
    fn change(&self, path: &RelPath, change: &AttributeChange) -> Result<()>;

    /// Names of the extended attributes.
    fn xattrs(&self, path: &RelPath) -> Result<Vec<Vec<u8>>>;

    /// An extended attribute, at most [`XATTR_BYTES_MAX`] bytes.
    fn xattr(&self, path: &RelPath, name: &[u8]) -> Result<Vec<u8>>;

    /// Sets an extended attribute, existing or not.
    fn set_xattr(&self, path: &RelPath, name: &[u8], value: &[u8]) -> Result<()>;

    /// Removes an extended attribute.
    fn remove_xattr(&self, path: &RelPath, name: &[u8]) -> Result<()>;

    /// The usage of the file system.
    fn space(&self, path: &RelPath) -> Result<Space>;

    /// Waits until the names in the directory `path` are on stable storage.
    fn sync(&self, path: &RelPath) -> Result<()>;

    /// Waits until content and attributes of the regular files among `paths` are on stable storage,
    /// and returns whether they are: some storage has no stable medium.
    fn sync_files(&self, paths: &BTreeSet<RelPath>) -> Result<Safety>;
}
