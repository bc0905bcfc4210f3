//! Copies of trees: many files of many sizes over one session, up or down (PATHM-08..13,
//! CLI-10..19).
//!
//! One thread, the application's own, manages the copy: it walks the source, puts small files into
//! batches, starts large files as transfers of their own, and receives all answers through one
//! queue. Other threads write the small files that arrive. Nothing waits for a round trip per file:
//! dozens of calls and transfers are in flight while the walk continues.
//!
//! Memory does not grow with the number of files: it holds the directories between the walk and the
//! requests in flight, and eight bytes for each name of a directory that exists on both sides.
//! Lists that have to wait for the end (further names of files, names to delete) go to a temporary
//! file.
//!
//! The same call repeats an interrupted copy: a file with the size and the modification time of its
//! source is already there and is skipped.

mod compare;
mod content;
mod descriptor_wait;
mod directories;
mod down;
mod endpoints;
mod events;
mod hard_links;
mod in_flight;
mod main_loop;
mod one_file;
mod plan;
mod read_only;
mod received_metadata;
mod replies;
mod scheduler;
mod session_remote;
#[cfg(test)]
mod simulation;
mod state;
mod temp_list;
mod total;
mod up;

pub use down::Download;
pub use endpoints::{NotBegun, Receive, Remote, WriteFiles};
pub use events::{EntryAction, Event, Observer};
pub use one_file::{Reduced, preserve_down, preserve_up};
pub use total::{Counted, Sum, Total};
pub use up::Upload;

use crate::options::made_with;
use std::sync::Arc;
use xdfs_proto::base::path::PathError;
use xdfs_proto::base::{Error, ErrorKind, RelPath, Timestamp};
use xdfs_proto::wire::path::Listing;

/// Selects names by path below the top of the tree and by whether it is a directory.
pub type Filter = Arc<dyn Fn(&[u8], bool) -> bool + Send + Sync>;

/// Bits with which a program runs as the owner or group of its file. They are not set where those are others than they were.
const SET_ID: u32 = 0o6000;

/// Which metadata of a file is copied besides its bytes, permissions and modification time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Preserve {
    /// All bits of the mode, including the set-id and sticky bits, exactly: no umask is applied.
    pub modes: bool,
    /// Owner and group: by name where both sides know it, else by number.
    pub owners: bool,
    /// Owner and group by number alone.
    pub numeric: bool,
    /// Extended attributes, including access control lists. A download sets attributes other than
    /// `user.` and these lists only if owners and modes are kept, too.
    pub xattrs: bool,
    /// Pipes, sockets and devices.
    pub specials: bool,
    /// Hard links: several names of one file.
    pub links: bool,
    /// Holes: in a file that occupies less space than its size, zeros occupy none.
    pub holes: bool,
}

impl Preserve {
    /// Everything.
    pub const ALL: Self =
        Self { modes: true, owners: true, numeric: false, xattrs: true, specials: true, links: true, holes: true };

    /// Whether owner and mode of something are set after it was made.
    pub const fn owner_follows(self) -> bool {
        self.owners && self.modes
    }

    /// The permissions with which something is made whose mode in the end is this one.
    pub(crate) const fn made_with(self, mode: u32) -> u32 {
        made_with(mode, self.owner_follows())
    }

    /// Whether an extended attribute that a server lists is set here. Attributes that the kernel
    /// acts on (capabilities, labels) are as powerful as an owner and a set-id bit together: a
    /// server demands the same of its clients (`keep` of an export).
    pub(crate) fn takes_xattr(self, name: &[u8]) -> bool {
        let plain = name.starts_with(b"user.") || name.starts_with(b"system.posix_acl_");
        self.xattrs && (plain || self.owner_follows())
    }
}

/// How a tree is copied.
#[derive(Clone)]
pub struct TreeOptions {
    /// Files are reported as copied when they are on stable storage.
    pub durable: bool,
    /// How the content of files is checked.
    pub verify: crate::Verify,
    /// An existing name is left alone, whatever its type.
    pub keep_existing: bool,
    /// A file that has the size and modification time of its source is left alone.
    pub skip_same: bool,
    /// As `skip_same`, but by content: both sides hash files of equal size.
    pub checksum: bool,
    /// Changes nothing and reports what would change.
    pub dry_run: bool,
    /// Names that the source does not have are removed from the target, at most this many.
    pub delete: Option<u64>,
    /// Which metadata is copied.
    pub keep: Preserve,
    /// Which names are copied; all if there is none.
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
            keep: Preserve::default(),
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

/// Refuses a name that cannot be copied, on whichever side it is.
fn must_not_be_reserved(name: &[u8]) -> Result<(), Error> {
    if !xdfs_io::store::reserved::is_reserved(name) {
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

/// The result of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Files that were copied, and their bytes.
    pub files: u64,
    /// See `files`.
    pub bytes: u64,
    /// Directories that were made.
    pub directories: u64,
    /// Symbolic links, further names and special files that were made.
    pub others: u64,
    /// Names that were already the same or were to be left alone, and the bytes of files among them.
    pub skipped: u64,
    /// See `skipped`.
    pub skipped_bytes: u64,
    /// Names that were removed.
    pub deleted: u64,
    /// Names that failed; each was reported.
    pub failed: u64,
    /// Names that the source does not have and that were to be removed, and were not.
    pub surplus_kept: u64,
    /// Special files that were skipped because they were not requested.
    pub passed_over: u64,
    /// What the other side did not grant: attributes of files (owner, extended attributes, mode bits)
    /// and special files.
    pub reduced: u64,
    /// Which kinds of it.
    pub not_preserved: NotPreserved,
}

/// Kinds of metadata that were not kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NotPreserved(u8);

impl NotPreserved {
    /// Owner or group.
    pub const OWNER: Self = Self(1);
    /// The mode, or bits of it.
    pub const MODE: Self = Self(2);
    /// The time of the last change.
    pub const TIME: Self = Self(4);
    /// Access control lists.
    pub const ACL: Self = Self(8);
    /// Extended attributes.
    pub const XATTR: Self = Self(16);
    /// Pipes, sockets and devices.
    pub const SPECIAL: Self = Self(32);

    const ALL: [(Self, &'static str); 6] = [
        (Self::OWNER, "owner"),
        (Self::MODE, "mode"),
        (Self::TIME, "time"),
        (Self::ACL, "access control list"),
        (Self::XATTR, "extended attribute"),
        (Self::SPECIAL, "special file"),
    ];

    /// That of an extended attribute.
    pub(crate) fn of_xattr(name: &[u8]) -> Self {
        if name.starts_with(b"system.posix_acl_") { Self::ACL } else { Self::XATTR }
    }

    /// Both.
    fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The kinds, as people call one of each.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::ALL.into_iter().filter(move |(kind, _)| self.0 & kind.0 != 0).map(|(_, name)| name)
    }
}

impl Summary {
    /// Whether everything that was asked for was done.
    pub fn is_complete(&self) -> bool {
        self.failed + self.surplus_kept == 0
    }

    /// Names that are settled, directories aside.
    pub fn settled(&self) -> u64 {
        self.files + self.others + self.skipped + self.passed_over + self.failed
    }

    /// Something of this kind was not kept.
    fn reduce(&mut self, kind: NotPreserved) {
        self.reduced += 1;
        self.not_preserved = self.not_preserved.and(kind);
    }

    /// Whether nothing at the target was made, replaced or removed.
    pub fn has_made_nothing(&self) -> bool {
        self.files + self.directories + self.others + self.deleted == 0
    }

    fn skip_bytes(&mut self, bytes: u64) {
        self.skipped_bytes = self.skipped_bytes.saturating_add(bytes);
    }

    fn count(&mut self, action: EntryAction) {
        match action {
            EntryAction::Copied { bytes, .. } => {
                self.files += 1;
                // A server may tell any size.
                self.bytes = self.bytes.saturating_add(bytes);
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
    /// Every name was tried.
    Complete(Summary),
    /// The application asked to stop.
    Stopped(Summary),
    /// The session is lost; another one can resume the copy.
    Lost(Error),
    /// The target accepts nothing at all: an attempt was refused, and nothing else is tried.
    Refused(Error),
}

/// Why reading a listing stops if [`is_stuck`] holds.
pub(crate) const STUCK: &str = "the server ended a page without an entry, or without saying where it goes on";

/// Whether requesting the next page would start again or make no progress forever (P-72).
pub(crate) fn is_stuck(listing: &Listing<'_>) -> bool {
    !listing.complete && (listing.cursor.is_empty() || listing.entries.clone().next().is_none())
}

/// A path in a tree: components joined by slashes; empty is the top.
pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}

/// Parses a path of the tree that can be copied.
pub(crate) fn parse(path: &[u8]) -> Result<RelPath, Error> {
    RelPath::parse(path).map_err(|error| {
        let more = match error {
            PathError::TooDeep | PathError::TooLong => "; copy what lies further down by a command of its own",
            _ => "",
        };
        Error::new(ErrorKind::InvalidPath, format!("{error}{more}"))
    })
}

/// Longest path that a note shows in full, and how much of a longer one.
const NOTED_BYTES_MAX: usize = 440;
const START_BYTES: usize = 200;

/// A path in a note, '.' for the top: of a very long one, its beginning and its length.
pub(crate) fn noted(path: &[u8]) -> String {
    match path.get(..START_BYTES) {
        Some(start) if path.len() > NOTED_BYTES_MAX => format!("{}... ({} bytes)", start.escape_ascii(), path.len()),
        _ if path.is_empty() => ".".to_owned(),
        _ => path.escape_ascii().to_string(),
    }
}

/// Whether a target has the time of its source, as far as its file system keeps it: of the nine
/// digits of a fraction exFAT keeps two, NTFS seven, and some keep none.
pub(crate) fn same_time(source: Timestamp, target: Timestamp) -> bool {
    let is_cut = |unit: u32| source.nanoseconds - source.nanoseconds % unit == target.nanoseconds;
    source.seconds == target.seconds && (0..=9).any(|digits| is_cut(10_u32.pow(digits)))
}
