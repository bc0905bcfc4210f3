//! What a copy has done so far, and whether names that the source does not have may be removed.

use super::directories::Directories;
use super::events::{EntryAction, Observer};
use super::temp_list::{Drain, TempList};
use super::{Summary, TreeOptions, noted};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use xdfs_proto::base::{Error, ErrorKind};

/// The progress of a copy and its incomplete directories.
#[derive(Debug, Default)]
pub(super) struct TreeState {
    pub(super) directories: Directories,
    pub(super) summary: Summary,
    /// Part of the source could not be read: missing names prove nothing.
    pub(super) incomplete: bool,
    /// Names that failed because of an existing entry at the target: no reason to keep anything
    /// else there.
    pub(super) in_the_way: u64,
    /// Directories that were removed to make room for something else.
    pub(super) cleared: u64,
    /// Names that are not copied: nothing may become another name of what the target has there.
    not_copied: NameSet,
    /// It was reported that the target does not support hard links.
    linkless: bool,
    /// Names in a row that the target had no room for.
    without_room: u32,
    /// Why the target accepts nothing at all.
    pub(super) hopeless: Option<Error>,
}

/// After so many names in a row that had no room the copy is over: the next thousands would only
/// say the same. One large file without room says nothing about the small ones behind it.
const WITHOUT_ROOM_MAX: u32 = 16;

/// Names by their keyed hash: eight bytes for each. Two collide with a chance of 2^-64.
#[derive(Debug, Default)]
struct NameSet {
    hashes: HashSet<u64>,
    key: RandomState,
}

impl TreeState {
    /// A name is not copied.
    pub(super) fn note_not_copied(&mut self, path: &[u8]) {
        let hash = self.not_copied.key.hash_one(path);
        self.not_copied.hashes.insert(hash);
    }

    /// A name is settled at the target.
    pub(super) fn count(&mut self, action: EntryAction) {
        if matches!(action, EntryAction::Copied { .. } | EntryAction::Made) {
            self.without_room = 0;
        }
        self.summary.count(action);
    }

    /// A name failed. A target that is full ends the copy after some names, and the rest of a batch
    /// is counted without a word.
    pub(super) fn failed(&mut self, observer: &mut dyn Observer, path: &[u8], error: &Error) {
        self.summary.failed += 1;
        if matches!(error.kind, ErrorKind::NoSpace | ErrorKind::QuotaExceeded) {
            self.without_room += 1;
        } else {
            return observer.failed(path, error);
        }
        if self.without_room <= WITHOUT_ROOM_MAX {
            observer.failed(path, error);
        }
        if self.without_room >= WITHOUT_ROOM_MAX {
            let text =
                format!("{}; {WITHOUT_ROOM_MAX} names in a row had no room: the copy stops here", error.kind.text());
            self.hopeless.get_or_insert_with(|| Error { message: text, ..error.clone() });
        }
    }

    /// Refuses to make another name of a file whose first name is not copied: the target may have
    /// another file there.
    pub(super) fn must_be_copied(&self, first: &[u8]) -> Result<(), Error> {
        if !self.not_copied.hashes.contains(&self.not_copied.key.hash_one(first)) {
            return Ok(());
        }
        let text = format!("it is one file with {}, which was not copied", noted(first));
        Err(Error::new(ErrorKind::NotTried, text))
    }

    /// Why the `count` names that the source does not have are kept; `None` if they are removed. At
    /// most `most` may be removed.
    pub(super) fn keeps_surplus(&mut self, count: u64, most: u64, dry_run: bool) -> Option<KeptSurplus> {
        if self.incomplete || self.summary.failed > self.in_the_way {
            self.summary.surplus_kept = count;
            let text = "names that the source does not have were not removed: part of the copy failed";
            return Some(KeptSurplus { why: format!("{count} {text}"), listed: false });
        }
        if self.cleared.saturating_add(count) > most {
            self.summary.surplus_kept = count;
            let text = match dry_run {
                true => "so none is\nhelp: allow more with --max-delete N",
                false => "nothing was removed\nhelp: allow more with --max-delete N, or look first with --dry-run",
            };
            let names = if count == 1 { "name" } else { "names" };
            let why = format!("{count} {names} would be removed, more than {most}: {text}");
            return Some(KeptSurplus { why, listed: dry_run });
        }
        None
    }

    /// Whether the names that the source does not have are removed: that requires that the source was read completely, and is
    /// bounded by `--max-delete`.
    pub(super) fn may_delete(
        &mut self,
        observer: &mut dyn Observer,
        surplus: &mut TempList,
        options: &TreeOptions,
    ) -> bool {
        // Nothing is deleted unless that is asked for.
        let (Some(most), count) = (options.delete, surplus.count()) else { return false };
        if count == 0 {
            return false;
        }
        if let Some(kept) = self.keeps_surplus(count, most, options.dry_run) {
            if kept.listed {
                self.list_surplus(observer, surplus);
            }
            observer.not_done(&kept.why);
            return false;
        }
        true
    }

    /// Reads back part of a list that waited for the end. If that fails, names are missing.
    pub(super) fn read_back<T>(&mut self, observer: &mut dyn Observer, read: Result<T, Error>) -> Option<T> {
        read.map_err(|error| {
            self.incomplete = true;
            self.summary.failed += 1;
            observer.note(&error.message);
        })
        .ok()
    }

    /// Everything in a list that waited for the end; nothing, if it cannot be read back.
    pub(super) fn drained(&mut self, observer: &mut dyn Observer, list: &mut TempList) -> Drain {
        self.read_back(observer, list.drain()).unwrap_or_default()
    }

    /// Lists names that would be removed if so many might be.
    fn list_surplus(&mut self, observer: &mut dyn Observer, surplus: &mut TempList) {
        for pair in self.drained(observer, surplus) {
            // Else it is told already.
            let Some((path, _)) = self.read_back(observer, pair) else { continue };
            observer.done(&path, EntryAction::Deleted);
        }
    }

    /// The target cannot give a file one more name: the name becomes a separate file. This is
    /// reported once.
    pub(super) fn no_links(&mut self, observer: &mut dyn Observer, path: &[u8], error: &Error) {
        if !std::mem::replace(&mut self.linkless, true) {
            let text = "names of one file become files of their own where no hard link can be made";
            observer.note(&format!("{}: {text}: {error}", noted(path)));
        }
    }

    /// Whether one more directory may be removed for another entry, if at most `most` names may be
    /// removed.
    pub(super) fn may_clear(&mut self, most: u64) -> Result<(), Error> {
        if self.cleared >= most {
            let text = format!(
                "a directory is in the way, and more than {most} names would be removed\nhelp: allow more with --max-delete N"
            );
            return Err(Error::new(ErrorKind::IsDirectory, text));
        }
        self.cleared += 1;
        Ok(())
    }
}

/// Names that only the target has, and keeps.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct KeptSurplus {
    pub(super) why: String,
    /// They are listed nevertheless, for who looks which they are.
    pub(super) listed: bool,
}

/// Why a directory is kept where something else should be.
pub(super) fn full_directory(deletes: bool) -> Error {
    let help = if deletes { "move away what --exclude leaves out of the copy" } else { "sync --delete replaces it" };
    Error::new(ErrorKind::IsDirectory, format!("a directory with something in it is in the way\nhelp: {help}"))
}

/// Whether an error reports an obstacle at the target: it implies nothing about the source.
pub(super) fn is_in_the_way(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::AlreadyExists
            | ErrorKind::IsDirectory
            | ErrorKind::NotDirectory
            | ErrorKind::NotRegular
            | ErrorKind::NotEmpty
            | ErrorKind::NotFound
            | ErrorKind::PermissionDenied
    )
}
