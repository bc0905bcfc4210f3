//! What a copy has done so far, and what follows from it for names that the source does not have.

use super::directories::Directories;
use super::events::Observer;
use super::{Summary, noted};
use xdfs_proto::base::{Error, ErrorKind};

/// What a copy has done so far, and the directories that are not complete.
#[derive(Debug, Default)]
pub(super) struct TreeState {
    pub(super) directories: Directories,
    pub(super) summary: Summary,
    /// Part of the source could not be read: nothing may be concluded from what is missing.
    pub(super) incomplete: bool,
    /// Names that failed for what stands at the target: no reason to leave anything else there.
    pub(super) in_the_way: u64,
    /// Directories that made room for something else.
    pub(super) cleared: u64,
    /// It was told that the target takes no hard links.
    linkless: bool,
    /// Why the target takes nothing at all.
    pub(super) hopeless: Option<Error>,
}

impl TreeState {
    /// Why the names that the source does not have, so many, stay; none where they go. At most `most` may.
    pub(super) fn keeps_surplus(&mut self, count: u64, most: u64) -> Option<String> {
        if self.incomplete || self.summary.failed > self.in_the_way {
            // Of what could not be read at the target nobody has been told that it failed.
            self.summary.failed += u64::from(self.summary.failed == 0);
            let text = "names that the source does not have were not removed: part of the copy failed";
            return Some(format!("{count} {text}"));
        }
        if self.cleared.saturating_add(count) > most {
            self.summary.failed += 1;
            let text = format!("more than {most}: none of them was; raise --max-delete");
            return Some(format!("{count} names would be removed, {text}"));
        }
        None
    }

    /// Something of a list that waited for the end. Where it cannot be read back names are missing.
    pub(super) fn read_back<T>(&mut self, observer: &mut dyn Observer, read: Result<T, Error>) -> Option<T> {
        read.map_err(|error| {
            self.incomplete = true;
            self.summary.failed += 1;
            observer.note(&error.message);
        })
        .ok()
    }

    /// The target cannot give a file one more name: it becomes a file of its own. That is told once.
    pub(super) fn no_links(&mut self, observer: &mut dyn Observer, path: &[u8], error: &Error) {
        if !std::mem::replace(&mut self.linkless, true) {
            let text = "names of one file become files of their own where no hard link can be made";
            observer.note(&format!("{}: {text}: {error}", noted(path)));
        }
    }

    /// Whether one more directory may make room for something else, where at most `most` names may be removed.
    pub(super) fn may_clear(&mut self, most: u64) -> Result<(), Error> {
        if self.cleared >= most {
            let text =
                format!("a directory is in the way, and more than {most} names would be removed; raise --max-delete");
            return Err(Error::new(ErrorKind::IsDirectory, text));
        }
        self.cleared += 1;
        Ok(())
    }
}

/// Why a directory stays where something else is to be.
pub(super) fn full_directory() -> Error {
    let text = "a directory with something in it is in the way; sync --delete replaces it";
    Error::new(ErrorKind::IsDirectory, text)
}

/// Whether an error says what stands in the way at the target: nothing about the source follows from it.
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
