//! Removes entries at the target that have the name of something else, and unlocks directories
//! there that may not be changed.
//!
//! A name is removed right before its successor is sent. The entries of a directory are removed
//! first, if names may be removed at all, and once its successor is known to be readable; what a
//! copy that ends early leaves of it, the next one removes.

use super::Upload;
use super::task::{Unlocked, UploadEntry, UploadTask};
use crate::tree::directories::DirectoryId;
use crate::tree::endpoints::Remote;
use crate::tree::events::{EntryAction, Observer};
use crate::tree::read_only::EACCES;
use crate::tree::replies::wait_for_descriptors;
use crate::tree::scheduler::{LIST_ROOM, Run, TreeCopy, Turn};
use crate::tree::state::full_directory;
use crate::tree::{STUCK, is_stuck, join, noted, parse};
use xdfs_io::store::descriptors::are_scarce;
use xdfs_io::store::tree::NodeKind;
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::wire::path::{Answer, Call, FileType, Wanted};

impl Upload {
    /// Removes what has the name of an entry.
    pub(super) fn clear(
        &mut self,
        remote: &mut dyn Remote,
        observer: &mut dyn Observer,
        entry: UploadEntry,
    ) -> Run<Turn<UploadTask>> {
        let path = entry.path.clone();
        match self.if_readable(observer, entry, UploadTask::Clear)? {
            Ok(entry) => self.make_way(remote, entry, &Call::Unlink { path: &path }, UploadTask::Clear),
            Err(turn) => Ok(turn),
        }
    }

    /// Empties the directory that has the name of an entry, if names may be removed.
    pub(super) fn clear_directory(&mut self, observer: &mut dyn Observer, entry: UploadEntry) -> Run<Turn<UploadTask>> {
        Ok(match self.if_readable(observer, entry, UploadTask::ClearDirectory)? {
            Ok(entry) => {
                self.empty_directory(observer, entry);
                Turn::Taken
            }
            Err(turn) => turn,
        })
    }

    /// Returns the entry if it can be read; else what becomes of its task: it is tried later, or has
    /// failed.
    fn if_readable(
        &mut self,
        observer: &mut dyn Observer,
        entry: UploadEntry,
        task: impl Fn(UploadEntry) -> UploadTask,
    ) -> Run<Result<UploadEntry, Turn<UploadTask>>> {
        match self.can_be_read(&entry.path, entry.detail.node.kind) {
            Ok(()) => Ok(Ok(entry)),
            Err(error) if are_scarce(&error) => {
                wait_for_descriptors(self, error)?;
                Ok(Err(Turn::Later(task(entry))))
            }
            Err(error) => {
                self.failed(observer, &entry, &error);
                Ok(Err(Turn::Taken))
            }
        }
    }

    pub(super) fn can_be_read(&self, path: &[u8], kind: NodeKind) -> Result<(), Error> {
        let at = parse(path)?;
        match kind {
            NodeKind::Regular => self.store.open(&at).map(drop),
            NodeKind::Symlink => self.store.read_symlink(&at).map(drop),
            _ => self.store.node(&at).map(drop),
        }
    }

    fn empty_directory(&mut self, observer: &mut dyn Observer, entry: UploadEntry) {
        if let Some(most) = self.options.delete {
            if let Err(error) = self.state.may_clear(most) {
                return self.refused(observer, &entry, &error);
            }
            let (id, path) = (entry.directory, entry.path.clone());
            self.scheduler.tasks.push(UploadTask::ClearEmpty(entry));
            self.scheduler.tasks.push(UploadTask::RemoveAll { path, cursor: Vec::new(), unlock: false });
            if self.state.directories.get(id).is_some_and(|directory| !directory.presence.is_ready()) {
                self.scheduler.tasks.push(UploadTask::Make(id));
            }
            return;
        }
        self.scheduler.tasks.push(UploadTask::ClearEmpty(entry));
    }

    /// Removes the directory that has the name of an entry, once all requests that empty it are
    /// answered.
    pub(super) fn clear_empty(&mut self, remote: &mut dyn Remote, entry: UploadEntry) -> Run<Turn<UploadTask>> {
        self.scheduler.flush(remote);
        if self.scheduler.has_calls() {
            return Ok(Turn::Later(UploadTask::ClearEmpty(entry)));
        }
        let path = entry.path.clone();
        self.make_way(remote, entry, &Call::RemoveDirectory { path: &path }, UploadTask::ClearEmpty)
    }

    fn make_way(
        &mut self,
        remote: &mut dyn Remote,
        entry: UploadEntry,
        call: &Call<'_>,
        task: impl Fn(UploadEntry) -> UploadTask,
    ) -> Run<Turn<UploadTask>> {
        let Some((calls, bytes)) = self.above(remote, entry.directory) else { return Ok(Turn::Later(task(entry))) };
        if !self.scheduler.make_room(remote, calls + 1, bytes + entry.path.len(), 0) {
            return Ok(Turn::Later(task(entry)));
        }
        self.make_above(entry.directory);
        self.scheduler.batch.push(call, task(entry));
        Ok(Turn::Taken)
    }

    /// Handles the removal of what had the name of an entry, or its failure.
    pub(super) fn cleared(&mut self, observer: &mut dyn Observer, entry: UploadEntry, error: Option<Error>) {
        match error {
            Some(error) if error.kind == ErrorKind::NotEmpty => {
                self.refused(observer, &entry, &full_directory(self.options.delete.is_some()));
            }
            Some(error) if error.kind != ErrorKind::NotFound => self.refused(observer, &entry, &error),
            _ => self.scheduler.tasks.push(UploadTask::Entry(entry)),
        }
    }

    /// Unlocks a directory that may not be listed, before `task` lists it.
    pub(super) fn open_closed(
        &mut self,
        remote: &mut dyn Remote,
        id: DirectoryId,
        task: UploadTask,
    ) -> Run<Turn<UploadTask>> {
        if self.scheduler.has_calls() {
            self.scheduler.flush(remote);
            return Ok(Turn::Later(task));
        }
        self.scheduler.tasks.push(task);
        self.scheduler.tasks.push(UploadTask::Make(id));
        Ok(Turn::Taken)
    }

    /// Unlocks a directory that is finished or to be removed, and then continues with the task that
    /// needs it.
    pub(super) fn unlock(&mut self, path: &[u8], then: UploadTask) {
        let (path, then) = (path.to_vec(), Box::new(then));
        self.scheduler.tasks.push(UploadTask::Unlock { path, mode: None, then });
    }

    /// The mode of a directory that is to be unlocked is known, or has been changed now. Only a
    /// known mode is changed, since it is restored later.
    pub(super) fn unlocking(
        &mut self,
        path: Vec<u8>,
        mode: Option<u32>,
        then: Box<UploadTask>,
        outcome: Result<Answer<'_>, Error>,
    ) {
        let told = match outcome {
            Ok(Answer::Attributes(told)) if mode.is_none() && told.kind == FileType::Directory => told.mode,
            _ => None,
        };
        let locked = told.map(|told| told & 0o7777).filter(|told| told & 0o700 != 0o700);
        let Some(before) = locked else { return self.scheduler.tasks.push(*then) };
        let set = before | 0o700;
        // If that cannot be recorded the mode stays as it is.
        match self.unlocked_late(&path, Unlocked { before, set }) {
            Ok(()) => self.scheduler.tasks.push(UploadTask::Unlock { path, mode: Some(set), then }),
            Err(_) => self.scheduler.tasks.push(*then),
        }
    }

    /// Takes on tasks that remove names that the source does not have.
    pub(super) fn take_removal(&mut self, remote: &mut dyn Remote, task: UploadTask) -> Run<Turn<UploadTask>> {
        match &task {
            UploadTask::Remove { path, .. } => {
                let path = path.clone();
                Ok(self.scheduler.ask(remote, &Call::Unlink { path: &path }, task))
            }
            UploadTask::RemoveEmpty { path, .. } => {
                // Its entries have to be removed first.
                self.scheduler.flush(remote);
                if self.scheduler.has_calls() {
                    return Ok(Turn::Later(task));
                }
                let path = path.clone();
                Ok(self.scheduler.ask(remote, &Call::RemoveDirectory { path: &path }, task))
            }
            UploadTask::RemoveAll { path, cursor, .. } => {
                // Entries of earlier pages are removed first: a directory among them would else be
                // removed after this one.
                if !cursor.is_empty() {
                    self.scheduler.flush(remote);
                    if self.scheduler.has_calls() {
                        return Ok(Turn::Later(task));
                    }
                }
                let (path, cursor) = (path.clone(), cursor.clone());
                let call = Call::List { path: &path, wanted: Wanted::NOTHING, cursor: &cursor };
                Ok(self.scheduler.ask_last(remote, &call, LIST_ROOM, task))
            }
            _ => Ok(Turn::Taken),
        }
    }

    /// Handles the result of a removal. If its directory is locked it is tried once more.
    pub(super) fn removal_answered(
        &mut self,
        observer: &mut dyn Observer,
        task: UploadTask,
        outcome: Result<Answer<'_>, Error>,
    ) {
        let locked = outcome.as_ref().is_err_and(is_locked);
        match (task, outcome) {
            (UploadTask::Remove { path, unlock: false }, _) if locked => {
                let at = above(&path).to_vec();
                self.unlock(&at, UploadTask::Remove { path, unlock: true });
            }
            (UploadTask::RemoveEmpty { path, unlock: false }, _) if locked => {
                let at = above(&path).to_vec();
                self.unlock(&at, UploadTask::RemoveEmpty { path, unlock: true });
            }
            (UploadTask::RemoveAll { path, cursor, unlock: false }, _) if locked => {
                let at = path.clone();
                self.unlock(&at, UploadTask::RemoveAll { path, cursor, unlock: true });
            }
            (UploadTask::RemoveEmpty { path, .. }, Err(error))
                if error.kind == ErrorKind::NotEmpty && self.options.filter.is_some() =>
            {
                observer.note(&format!("{}: kept, with what is left out in it", noted(&path)));
            }
            (UploadTask::RemoveAll { path, .. }, outcome) => self.emptied(observer, path, outcome),
            (UploadTask::Remove { path, .. } | UploadTask::RemoveEmpty { path, .. }, outcome) => {
                self.removed(observer, &path, outcome.err());
            }
            // The caller hands on removals only.
            _ => {}
        }
    }

    /// Handles a removed name, or the failure to remove it.
    pub(super) fn removed(&mut self, observer: &mut dyn Observer, path: &[u8], error: Option<Error>) {
        match error {
            None => {
                self.state.summary.deleted += 1;
                self.touch_late(path);
                observer.done(path, EntryAction::Deleted);
            }
            // Another process was faster, or this one, in a session that was lost.
            Some(error) if error.kind == ErrorKind::NotFound => self.touch_late(path),
            Some(error) => {
                self.state.summary.failed += 1;
                self.state.in_the_way += 1;
                observer.failed(path, &error);
            }
        }
    }

    /// Handles the listing of a directory that is to be removed: its entries are removed first.
    pub(super) fn emptied(&mut self, observer: &mut dyn Observer, path: Vec<u8>, outcome: Result<Answer<'_>, Error>) {
        let listing = match outcome {
            Ok(Answer::Listing(listing)) => listing,
            // Cannot be: a reply is read by the calls of its batch, and this one lists.
            Ok(_) => return,
            Err(error) => return self.removed(observer, &path, Some(error)),
        };
        // The last task that is pushed comes first.
        self.scheduler.tasks.push(match listing.complete {
            true => UploadTask::RemoveEmpty { path: path.clone(), unlock: false },
            // Continuing would make no progress, forever (P-72).
            false if is_stuck(&listing) => {
                let error = Error::new(ErrorKind::Protocol, STUCK);
                return self.removed(observer, &path, Some(error));
            }
            false => UploadTask::RemoveAll { path: path.clone(), cursor: listing.cursor.to_vec(), unlock: false },
        });
        for entry in listing.entries {
            let inner = join(&path, entry.name);
            let directory = entry.attributes.kind == FileType::Directory;
            if self.options.takes(&inner, directory) {
                self.scheduler.tasks.push(match directory {
                    true => UploadTask::RemoveAll { path: inner, cursor: Vec::new(), unlock: false },
                    false => UploadTask::Remove { path: inner, unlock: false },
                });
            }
        }
    }
}

/// The parent directory of a name.
pub(super) fn above(path: &[u8]) -> &[u8] {
    let slash = path.iter().rposition(|&byte| byte == b'/');
    slash.and_then(|at| path.get(..at)).unwrap_or_default()
}

/// Whether the mode of the directory may be why a name in it cannot be changed.
pub(super) fn is_locked(error: &Error) -> bool {
    error.kind == ErrorKind::PermissionDenied && error.errno == EACCES
}
