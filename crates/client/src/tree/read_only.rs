//! Directories of the target that accept no new names: reported once, not for each name in them.

use super::directories::{DirectoryId, FINISHED, Presence};
use super::events::Observer;
use super::state::{TreeState, is_in_the_way};
use xdfs_proto::base::{Error, ErrorKind};

/// Linux's numbers of "permission denied" and "read-only file system". For a single name that may
/// not be changed the system reports EPERM.
pub(super) const EACCES: u16 = 13;
const EROFS: u16 = 30;

/// Whether an error about a new name means that its directory accepts none.
pub(super) fn closes(error: &Error) -> bool {
    matches!((error.kind, error.errno), (ErrorKind::PermissionDenied, EACCES) | (ErrorKind::ReadOnly, EROFS))
}

impl TreeState {
    /// A name could not be made in a directory of the target. If the top accepts nothing the copy
    /// is over.
    pub(super) fn refused(&mut self, observer: &mut dyn Observer, id: DirectoryId, path: &[u8], error: &Error) {
        // A read-only file system implies no more about the source than a name that is taken.
        self.in_the_way += u64::from(is_in_the_way(error.kind) || closes(error));
        if id == FINISHED {
            return self.failed(observer, path, error);
        }
        let open = self.directories.get(id).filter(|_| !self.directories.takes_nothing(id));
        let Some(directory) = open else {
            // It was told for the whole directory.
            self.summary.failed += 1;
            return;
        };
        if !closes(error) {
            return self.failed(observer, path, error);
        }
        self.summary.failed += 1;
        // A file system may be mounted read-only below a writable target: then something has
        // usually been made before.
        let all_read_only = error.errno == EROFS && self.summary.has_made_nothing();
        if directory.parent.is_none() || all_read_only {
            self.hopeless.get_or_insert_with(|| error.clone());
        } else {
            let text = format!("{}; no name in it was copied that is not there", error.message);
            observer.failed(&directory.path, &Error { message: text, ..error.clone() });
        }
        if let Some(directory) = self.directories.get_mut(id) {
            directory.closed = true;
        }
    }

    /// A directory could not be made: what is in it is not tried.
    pub(super) fn not_made(&mut self, observer: &mut dyn Observer, id: DirectoryId, error: &Error) {
        // A directory is known as long as anything waits for it.
        let Some(directory) = self.directories.get_mut(id) else { return };
        directory.presence = Presence::Failed;
        let (path, parent) = (directory.path.clone(), directory.parent);
        match parent {
            Some(parent) => self.refused(observer, parent, &path, error),
            None => drop(self.hopeless.get_or_insert_with(|| error.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::directories::Directory;
    use crate::tree::{EntryAction, Summary};

    #[derive(Default)]
    struct Heard(Vec<String>);

    impl Observer for Heard {
        fn done(&mut self, _: &[u8], _: EntryAction) {}

        fn failed(&mut self, path: &[u8], _: &Error) {
            self.0.push(String::from_utf8_lossy(path).into_owned());
        }

        fn note(&mut self, _: &str) {}

        fn should_continue(&mut self, _: &Summary, _: u64) -> bool {
            true
        }
    }

    fn error(kind: ErrorKind, errno: u16) -> Error {
        Error::new(kind, "no").with_errno(errno)
    }

    #[test]
    fn a_directory_that_takes_nothing_is_told_once_and_the_top_ends_it_all() {
        let (mut state, mut heard) = (TreeState::default(), Heard::default());
        let directory = |path: &str, parent| Directory::new(path.as_bytes().to_vec(), parent, Presence::of(None));
        let top = state.directories.enter(directory("", None));
        let inner = state.directories.enter(directory("a", Some(top)));
        let below = state.directories.enter(directory("a/b", Some(inner)));
        let innermost = state.directories.enter(directory("a/b/c", Some(below)));
        let (denied, read_only) = (error(ErrorKind::PermissionDenied, EACCES), error(ErrorKind::ReadOnly, EROFS));
        // One name that may not be changed implies nothing about the others.
        state.refused(&mut heard, inner, b"a/immutable", &error(ErrorKind::PermissionDenied, 1));
        for name in ["a/f", "a/g", "a/h"] {
            state.refused(&mut heard, inner, name.as_bytes(), &denied);
        }
        assert_eq!(heard.0, ["a/immutable", "a"]);
        assert!(state.directories.takes_nothing(inner) && !state.directories.takes_nothing(below));
        // An existing directory may still accept names; if it could not be made nothing below it is
        // tried.
        state.not_made(&mut heard, below, &denied);
        state.refused(&mut heard, innermost, b"a/b/c/f", &error(ErrorKind::NotFound, 2));
        assert_eq!(heard.0.len(), 2);
        assert!(state.directories.is_lost(innermost) && !state.directories.is_lost(inner));
        assert_eq!((state.summary.failed, state.hopeless.clone()), (6, None));
        state.refused(&mut heard, top, b"x", &denied);
        assert_eq!((heard.0.len(), state.hopeless.take()), (2, Some(denied)));
        let mounted = state.directories.enter(directory("m", Some(top)));
        state.summary.files = 1;
        state.refused(&mut heard, mounted, b"m/x", &read_only);
        assert_eq!((heard.0.len(), state.hopeless.clone()), (3, None));
        let other = state.directories.enter(directory("n", Some(top)));
        state.summary.files = 0;
        state.refused(&mut heard, other, b"n/x", &read_only);
        assert_eq!((heard.0.len(), state.hopeless.clone()), (3, Some(read_only)));
    }

    #[test]
    fn a_list_that_cannot_be_read_back_is_a_failure_and_keeps_what_is_to_be_deleted() {
        let (mut state, mut heard) = (TreeState::default(), Heard::default());
        assert_eq!((state.read_back(&mut heard, Ok(7)), state.keeps_surplus(1, 1, false)), (Some(7), None));
        assert_eq!(state.read_back::<u8>(&mut heard, Err(error(ErrorKind::Storage, 5))), None);
        assert_eq!((state.summary.failed, state.keeps_surplus(1, 1, false).is_some()), (1, true));
    }
}
