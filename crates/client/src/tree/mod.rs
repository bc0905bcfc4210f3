//! Trees: many files of many sizes over one session, up or down (PATHM-08..13, CLI-10..19).
//!
//! One thread, the application's own, is the papers' manager: it walks the source, puts small files into batches and large ones on
//! their way as transfers of their own, and hears from all of them through one queue. Small files that come are written by threads
//! beside it. Nothing waits for a round trip per file: calls and transfers are under way by the dozen, and the walk goes on beside
//! them.
//!
//! What is remembered does not grow with the number of files: the directories between the walk and what is still under way, and
//! eight bytes for each name of a directory that exists on both sides. Lists that have to wait for the end (second names of files,
//! names to delete) go to a temporary file.
//!
//! A copy that was interrupted is made again by the same call: what has the size and the modification time of its source is there
//! already, and is left alone.

mod compare;
mod descriptor_wait;
mod directories;
mod down;
mod events;
mod hard_links;
mod in_flight;
mod read_only;
mod replies;
mod scheduler;
mod state;
mod temp_list;
mod up;

pub use down::Download;
pub use events::{EntryAction, Observer};
pub use up::Upload;

use std::sync::Arc;
use xdfs_proto::base::path::PathError;
use xdfs_proto::base::{Error, ErrorKind, RelPath};
use xdfs_proto::wire::path::{Attributes, Listing};
use xdfs_xio::store::tree::{Node, NodeKind};

/// Which names are taken: path below the top of the tree, and whether it is a directory.
pub type Filter = Arc<dyn Fn(&[u8], bool) -> bool + Send + Sync>;

/// What of a file goes along besides its bytes, permissions and modification time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Keep {
    /// All bits of the mode, set-id and sticky ones too, and exactly: no umask takes any.
    pub modes: bool,
    /// Owner and group: by name where both sides know it, else by number.
    pub owners: bool,
    /// Owner and group by number alone.
    pub numeric: bool,
    /// Extended attributes, access control lists among them. What a download brings besides `user.` and those lists, it sets only
    /// where owners and modes are kept, too.
    pub xattrs: bool,
    /// Pipes, sockets and devices.
    pub specials: bool,
    /// Several names of one file.
    pub links: bool,
    /// Holes: of a file that takes less room than its size says, zeros take none.
    pub holes: bool,
}

impl Keep {
    /// All of it.
    pub const ALL: Self =
        Self { modes: true, owners: true, numeric: false, xattrs: true, specials: true, links: true, holes: true };

    /// Whether an extended attribute that a server lists is set here. What the kernel acts on (capabilities, labels) is worth as much
    /// as an owner and a set-id bit together: a server demands the same of its clients (`keep` of an export).
    pub(crate) fn takes_xattr(self, name: &[u8]) -> bool {
        let plain = name.starts_with(b"user.") || name.starts_with(b"system.posix_acl_");
        self.xattrs && (plain || (self.owners && self.modes))
    }
}

/// How a tree is copied.
#[derive(Clone)]
pub struct TreeOptions {
    /// Files are told as copied when they are on stable storage.
    pub durable: bool,
    /// How the content of files is checked.
    pub verify: crate::Verify,
    /// A name that is there is left alone, whatever it is.
    pub keep_existing: bool,
    /// A file that has the size and modification time of its source is left alone.
    pub skip_same: bool,
    /// The same is decided by content: both sides hash what has the same size.
    pub checksum: bool,
    /// Nothing is changed; what would be is told.
    pub dry_run: bool,
    /// What the source does not have is removed from the target, at most so many names.
    pub delete: Option<u64>,
    /// What goes along.
    pub keep: Keep,
    /// Which names are taken; all without.
    pub filter: Option<Filter>,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self {
            durable: false,
            verify: crate::Verify::default(),
            keep_existing: false,
            skip_same: true,
            checksum: false,
            dry_run: false,
            delete: None,
            keep: Keep::default(),
            filter: None,
        }
    }
}

impl std::fmt::Debug for TreeOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("TreeOptions");
        shown.field("durable", &self.durable).field("verify", &self.verify).field("keep", &self.keep);
        shown.field("dry_run", &self.dry_run).field("delete", &self.delete).finish_non_exhaustive()
    }
}

/// Refuses a name that no copy can have, on whatever side it is.
fn must_not_be_reserved(name: &[u8]) -> Result<(), Error> {
    if !xdfs_xio::store::tree::is_reserved(name) {
        return Ok(());
    }
    let text = format!("'{}' is a name that xdfs reserves for part files", name.escape_ascii());
    Err(Error::new(ErrorKind::InvalidPath, text))
}

impl TreeOptions {
    fn takes(&self, path: &[u8], directory: bool) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter(path, directory))
    }
}

/// What a copy came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Files that were copied, and their bytes.
    pub files: u64,
    /// See `files`.
    pub bytes: u64,
    /// Directories that were made.
    pub directories: u64,
    /// Symbolic links, second names and special files that were made.
    pub others: u64,
    /// What was the same already, or was to be left alone.
    pub skipped: u64,
    /// Names that were removed.
    pub deleted: u64,
    /// Names that failed; each was told.
    pub failed: u64,
    /// Special files that were passed over since nobody asked for them.
    pub passed_over: u64,
    /// Files that lost something on the way which the other side did not grant (owner, extended attributes, mode bits).
    pub reduced: u64,
}

impl Summary {
    fn has_made_nothing(&self) -> bool {
        self.files + self.directories + self.others + self.deleted == 0
    }

    fn count(&mut self, deed: EntryAction) {
        match deed {
            EntryAction::Copied { bytes, .. } => {
                self.files += 1;
                self.bytes += bytes;
            }
            EntryAction::Made => self.others += 1,
            EntryAction::Skipped => self.skipped += 1,
            EntryAction::Deleted => self.deleted += 1,
        }
    }
}

/// How a run over one session ended.
#[derive(Clone, PartialEq, Debug)]
pub enum Ended {
    /// Everything was tried.
    Complete(Summary),
    /// The application asked to stop.
    Stopped(Summary),
    /// The session is over: another one takes it up where it was.
    Lost(Error),
    /// The target takes nothing at all: what was tried was refused, and nothing else is tried.
    Refused(Error),
}

/// Why a listing that [`is_stuck`] is not read on.
pub(crate) const STUCK: &str = "the server ended a page without an entry, or without saying where it goes on";

/// Whether to ask for the next page would be to begin again, or to wait for nothing, for ever (P-72).
pub(crate) fn is_stuck(listing: &Listing<'_>) -> bool {
    !listing.complete && (listing.cursor.is_empty() || listing.entries.clone().next().is_none())
}

/// A path in a tree: components joined by slashes; empty is the top.
pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}

/// A path of the tree, where it is one that can be copied.
pub(crate) fn parse(path: &[u8]) -> Result<RelPath, Error> {
    RelPath::parse(path).map_err(|error| {
        let more = match error {
            PathError::TooDeep | PathError::TooLong => "; copy what lies further down by a command of its own",
            _ => "",
        };
        Error::new(ErrorKind::InvalidPath, format!("{error}{more}"))
    })
}

/// Longest path that a note shows whole, and how much of a longer one.
const NOTED_BYTES_MAX: usize = 440;
const START_BYTES: usize = 200;

/// A path in a note: of a very long one how it begins, and its length.
pub(crate) fn noted(path: &[u8]) -> String {
    match path.get(..START_BYTES) {
        Some(start) if path.len() > NOTED_BYTES_MAX => format!("{}... ({} bytes)", start.escape_ascii(), path.len()),
        _ => path.escape_ascii().to_string(),
    }
}

/// What counts as equal times: the coarsest file systems round to two seconds, but only where they have no fractions at all.
pub(crate) fn same_time(one: (i64, u32), other: (i64, u32)) -> bool {
    one == other || ((one.1 == 0 || other.1 == 0) && one.0 == other.0)
}

/// Whether one side tells the time that the other side's `node` has. A regular file of another time is another file.
fn has_time(node: &Node, told: &Attributes<'_>) -> bool {
    node.kind == NodeKind::Regular || told.modified.is_none_or(|time| same_time(time, node.modified))
}

/// The same of the mode. A symbolic link has none of its own.
fn has_mode(node: &Node, told: &Attributes<'_>) -> bool {
    node.kind == NodeKind::Symlink || told.mode.is_none_or(|mode| mode & 0o7777 == node.mode & 0o7777)
}
