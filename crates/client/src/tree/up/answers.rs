//! What becomes of calls and transfers.

use super::walk::is_special;
use super::{Entry, Task, Upload};

use crate::tree::desk::Course;
use crate::tree::directories::DirectoryId;
use crate::tree::events::{Deed, Observer};
use crate::tree::{STUCK, is_stuck, join, same_time};
use xdfs_engine::kinds;
use xdfs_proto::base::{Error, ErrorKind, RelPath, Safety};
use xdfs_proto::wire::path::{Answer, FileType, Listing};
use xdfs_xio::store::Tree;
use xdfs_xio::store::tree::NodeKind;

impl Upload {
    pub(super) fn answer(
        &mut self,
        observer: &mut dyn Observer,
        task: Task,
        outcome: Result<Answer<'_>, Error>,
        safety: Safety,
    ) {
        match (task, outcome) {
            (Task::Make(id), outcome) => self.was_made(observer, id, outcome.err()),
            (Task::Compare { id, .. }, Ok(Answer::Listing(listing))) => self.compared(observer, id, &listing),
            (Task::Compare { id, .. }, outcome) => {
                // What is there is not known: everything is sent, nothing is removed.
                self.books.incomplete = true;
                if let Some(error) = outcome.err() {
                    let path =
                        self.books.directories.get(id).map(|directory| directory.path.clone()).unwrap_or_default();
                    observer.note(&format!("{}: {error}", path.escape_ascii()));
                }
                self.desk.tasks.push(Task::Walk { id, cursor: Vec::new() });
            }
            (Task::Entry(entry), Ok(_)) => {
                if entry.follows {
                    self.desk.tasks.push(Task::Extras(entry.clone()));
                }
                let deed = match entry.node.kind {
                    NodeKind::Regular => Deed::Copied { bytes: entry.node.size, safety },
                    _ => Deed::Made,
                };
                self.done(observer, &entry, deed);
            }
            (Task::Entry(entry), Err(error)) => match error.kind {
                ErrorKind::AlreadyExists if self.options.keep_existing => self.done(observer, &entry, Deed::Skipped),
                // What was not granted is counted, as for attributes.
                ErrorKind::Refused if is_special(entry.node.kind) => {
                    self.books.summary.reduced += 1;
                    self.settle(entry.directory);
                }
                _ => self.failed(observer, &entry, &error),
            },
            (Task::Clear(entry), outcome) => match outcome {
                Err(error) if error.kind != ErrorKind::NotFound => self.failed(observer, &entry, &error),
                _ => self.desk.tasks.push(Task::Entry(entry)),
            },
            (Task::Check(entry), outcome) => self.checked(observer, entry, outcome),
            (Task::Extra | Task::Time(..), Err(_)) => self.books.summary.reduced += 1,
            (Task::Finish(id), outcome) => self.finished(observer, id, outcome.err()),
            (Task::Link { first, path, again }, outcome) => self.linked(observer, first, path, again, outcome.err()),
            (Task::Look(entry), outcome) => self.looked(observer, entry, outcome, safety),
            (Task::RemoveEmpty(path), Err(error))
                if error.kind == ErrorKind::NotEmpty && self.options.filter.is_some() =>
            {
                observer.note(&format!("{}: kept, with what is left out in it", path.escape_ascii()));
            }
            (Task::Remove(path) | Task::RemoveEmpty(path), outcome) => self.removed(observer, &path, outcome.err()),
            (Task::RemoveAll { path, .. }, outcome) => self.emptied(observer, path, outcome),
            (Task::Extra | Task::Time(..) | Task::Step | Task::Retouch(_) | Task::Extras(_), _)
            | (Task::Enter { .. } | Task::Walk { .. }, _) => {}
        }
    }

    /// Its content is there; the time of a directory is a nicety, but one that is told. What was not granted is counted, as
    /// for attributes.
    fn finished(&mut self, observer: &mut dyn Observer, id: DirectoryId, error: Option<Error>) {
        if let Some(error) = error {
            self.books.summary.reduced += 1;
            if let Some(directory) = self.books.directories.get(id).filter(|_| error.kind != ErrorKind::Refused) {
                let path = if directory.path.is_empty() { b".".as_slice() } else { &directory.path };
                observer.note(&format!("{}: {error}", path.escape_ascii()));
            }
        }
        self.left(id);
    }

    fn was_made(&mut self, observer: &mut dyn Observer, id: DirectoryId, error: Option<Error>) {
        let Some(directory) = self.books.directories.get_mut(id) else { return };
        if std::mem::replace(&mut directory.made, true) {
            return;
        }
        let path = directory.path.clone();
        match error {
            // What is below it fails by itself then, each with its reason.
            Some(error) => {
                self.books.summary.failed += 1;
                observer.failed(&path, &error);
            }
            None => {
                self.books.summary.directories += 1;
                observer.done(&path, Deed::Made);
            }
        }
    }

    fn compared(&mut self, observer: &mut dyn Observer, id: DirectoryId, listing: &Listing<'_>) {
        let Some(path) = self.books.directories.get(id).map(|directory| directory.path.clone()) else { return };
        let mut names = self.there.remove(&id).unwrap_or_default();
        for entry in listing.entries.clone() {
            if let Some(there) = self.judge(&path, entry.name, &entry.attributes) {
                names.insert(entry.name, there);
            }
        }
        self.there.insert(id, names);
        self.desk.tasks.push(match listing.complete {
            true => Task::Walk { id, cursor: Vec::new() },
            false if is_stuck(listing) => {
                observer.note(STUCK);
                self.books.incomplete = true;
                Task::Walk { id, cursor: Vec::new() }
            }
            false => Task::Compare { id, cursor: listing.cursor.to_vec() },
        });
    }

    /// Both sides have hashed what may be the same.
    fn checked(&mut self, observer: &mut dyn Observer, entry: Entry, outcome: Result<Answer<'_>, Error>) {
        let theirs = match outcome {
            Ok(Answer::Hash { length, digest }) if length == entry.node.size => Some(digest),
            _ => None,
        };
        let ours = theirs.and_then(|_| {
            let path = RelPath::parse(&entry.path).ok()?;
            let source = xdfs_xio::store::Store::open(&self.store, &path).ok()?;
            crate::ends::Payload::source(source, 0, None).ok()?.sum().ok()
        });
        match (ours, theirs) {
            (Some(ours), Some(theirs)) if ours == theirs => self.done(observer, &entry, Deed::Skipped),
            _ => self.desk.tasks.push(Task::Entry(entry)),
        }
    }

    pub(super) fn linked(
        &mut self,
        observer: &mut dyn Observer,
        first: Vec<u8>,
        path: Vec<u8>,
        again: bool,
        error: Option<Error>,
    ) {
        match error {
            None => {
                self.books.summary.others += 1;
                self.touch_late(&path);
                observer.done(&path, Deed::Made);
            }
            // The name stands for something of its own there.
            Some(error) if error.kind == ErrorKind::AlreadyExists && !again => {
                self.desk.tasks.push(Task::Link { first, path, again: true });
            }
            Some(error) => {
                self.books.summary.failed += 1;
                observer.failed(&path, &error);
            }
        }
    }

    fn removed(&mut self, observer: &mut dyn Observer, path: &[u8], error: Option<Error>) {
        match error {
            None => {
                self.books.summary.deleted += 1;
                self.touch_late(path);
                observer.done(path, Deed::Deleted);
            }
            // Somebody else was faster.
            Some(error) if error.kind == ErrorKind::NotFound => {}
            Some(error) => {
                self.books.summary.failed += 1;
                observer.failed(path, &error);
            }
        }
    }

    /// What is in a directory that is to go: it goes first.
    fn emptied(&mut self, observer: &mut dyn Observer, path: Vec<u8>, outcome: Result<Answer<'_>, Error>) {
        let listing = match outcome {
            Ok(Answer::Listing(listing)) => listing,
            Ok(_) => return,
            Err(error) => return self.removed(observer, &path, Some(error)),
        };
        // The last that is pushed comes first.
        self.desk.tasks.push(match listing.complete {
            true => Task::RemoveEmpty(path.clone()),
            // Going on would be waiting for nothing, for ever (P-72).
            false if is_stuck(&listing) => {
                let error = Error::new(ErrorKind::Protocol, STUCK);
                return self.removed(observer, &path, Some(error));
            }
            false => Task::RemoveAll { path: path.clone(), cursor: listing.cursor.to_vec() },
        });
        for entry in listing.entries {
            let inner = join(&path, entry.name);
            let directory = entry.attributes.kind == FileType::Directory;
            if self.options.takes(&inner, directory) {
                self.desk.tasks.push(match directory {
                    true => Task::RemoveAll { path: inner, cursor: Vec::new() },
                    false => Task::Remove(inner),
                });
            }
        }
    }

    /// Whether what was under way when a session was lost has arrived.
    fn looked(
        &mut self,
        observer: &mut dyn Observer,
        entry: Entry,
        outcome: Result<Answer<'_>, Error>,
        safety: Safety,
    ) {
        let node = &entry.node;
        let arrived = match &outcome {
            Ok(Answer::Attributes(told)) if told.kind == kinds::told(node.kind) => match node.kind {
                NodeKind::Regular => {
                    told.size == Some(node.size) && told.modified.is_some_and(|time| same_time(time, node.modified))
                }
                // Made anew where its text is another one.
                NodeKind::Symlink => self.has_text(&entry, told.target),
                _ => true,
            },
            _ => false,
        };
        if !arrived {
            return self.desk.tasks.push(Task::Entry(entry));
        }
        let deed = match node.kind {
            NodeKind::Regular => Deed::Copied { bytes: node.size, safety },
            _ => Deed::Made,
        };
        if self.extras(&entry.path, &entry.node).count() > 0 {
            self.desk.tasks.push(Task::Extras(entry.clone()));
        }
        self.done(observer, &entry, deed);
    }

    fn has_text(&self, entry: &Entry, told: Option<&[u8]>) -> bool {
        let text = RelPath::parse(&entry.path).ok().and_then(|path| self.store.read_symlink(&path).ok());
        text.as_deref() == told
    }
}
