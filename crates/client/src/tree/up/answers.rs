//! Handles the answers to calls and transfers.

use super::Upload;
use super::links::inode_of;
use super::task::{LinkAnswer, UploadEntry, UploadTask};
use super::walk::is_special;
use crate::tree::directories::{DirectoryId, Presence};
use crate::tree::events::{EntryAction, Observer};
use crate::tree::scheduler::{TRIES_MAX, TreeCopy};
use crate::tree::{NotPreserved, STUCK, Summary, content, is_stuck, noted, same_time};
use xdfs_engine::kinds;
use xdfs_io::store::tree::NodeKind;
use xdfs_proto::base::{Error, ErrorKind, RelPath, Safety};
use xdfs_proto::wire::path::{Answer, FileType, Listing};

impl Upload {
    /// What was done over all sessions so far.
    pub const fn summary(&self) -> Summary {
        self.state.summary
    }

    pub(super) fn answer(
        &mut self,
        observer: &mut dyn Observer,
        task: UploadTask,
        outcome: Result<Answer<'_>, Error>,
        safety: Safety,
    ) {
        if let (Some(kind), Err(error)) = (task.attribute(), &outcome) {
            // What is not there has no attributes: its own error was reported.
            if error.kind != ErrorKind::NotFound {
                self.state.summary.reduce(kind);
            }
            return;
        }
        match (task, outcome) {
            (UploadTask::Make(id), outcome) => self.was_made(observer, id, outcome.err()),
            (UploadTask::Compare { id, .. }, Ok(Answer::Listing(listing))) => self.compared(observer, id, &listing),
            (UploadTask::Compare { id, cursor }, Err(error))
                if error.kind == ErrorKind::PermissionDenied && self.state.directories.is_unlisted(id) =>
            {
                self.scheduler.tasks.push(UploadTask::Compare { id, cursor });
            }
            (UploadTask::Compare { id, .. }, outcome) => {
                self.not_listed(observer, id, outcome.err());
            }
            (UploadTask::Entry(entry), outcome) => self.entry_answered(observer, entry, outcome.err(), safety),
            (UploadTask::Clear(entry) | UploadTask::ClearEmpty(entry), outcome) => {
                self.cleared(observer, entry, outcome.err())
            }
            (UploadTask::Check { entry, same }, outcome) => self.checked(observer, entry, same, outcome),
            (UploadTask::Arrived(entry, safety), outcome) => self.compared_arrived(observer, entry, safety, &outcome),
            (UploadTask::ExtraOf(entry, NotPreserved::OWNER), outcome) => self.owner_answered(entry, outcome.err()),
            (UploadTask::RemoveTemp(path), Err(error)) if error.kind != ErrorKind::NotFound => {
                self.state.summary.failed += 1;
                observer.failed(&path, &error);
            }
            (UploadTask::Finish(id), outcome) => self.finished(observer, id, outcome.err()),
            (UploadTask::Link(link), outcome) => self.linked(observer, link, outcome.err()),
            (UploadTask::BeforeLink, outcome) => self.link_answer = LinkAnswer::staged(outcome.err()),
            (UploadTask::Unlock { path, mode, then }, outcome) => self.unlocking(path, mode, then, outcome),
            (UploadTask::Retouch { path, mode: Some(mode) }, outcome) => self.retouched(path, mode, outcome),
            (UploadTask::LinkFirst, outcome) => self.link_answer = LinkAnswer::first(outcome.map(inode_of)),
            (UploadTask::LinkLook(link), outcome) => self.link_looked(observer, link, outcome),
            (UploadTask::Look(entry), outcome) => self.looked(observer, entry, outcome, safety),
            (
                task @ (UploadTask::Remove { .. } | UploadTask::RemoveEmpty { .. } | UploadTask::RemoveAll { .. }),
                outcome,
            ) => {
                self.removal_answered(observer, task, outcome);
            }
            (
                UploadTask::Extra(_)
                | UploadTask::ExtraOf(..)
                | UploadTask::SpecialMode(..)
                | UploadTask::Time(..)
                | UploadTask::Relock(..)
                | UploadTask::RemoveTemp(_)
                | UploadTask::Step
                | UploadTask::Retouch { .. }
                | UploadTask::Extras(_),
                _,
            )
            | (UploadTask::Enter { .. } | UploadTask::Walk { .. } | UploadTask::ClearDirectory(_), _) => {}
        }
    }

    /// The contents of the target are unknown: everything is sent, nothing is removed.
    fn not_listed(&mut self, observer: &mut dyn Observer, id: DirectoryId, error: Option<Error>) {
        self.state.incomplete = true;
        // A directory is known as long as anything waits for it.
        if let Some(directory) = self.state.directories.get_mut(id) {
            directory.unknown = true;
            match error {
                // What is surplus in it stays, which is not what was asked for.
                Some(error) if self.options.delete.is_some() => {
                    self.state.summary.failed += 1;
                    observer.failed(&directory.path, &error);
                }
                Some(error) => observer.note(&format!("{}: {error}", noted(&directory.path))),
                None => {}
            }
        }
        self.scheduler.tasks.push(UploadTask::Walk { id, cursor: Vec::new() });
    }

    /// Handles the result of a file, symbolic link or special file that was sent as a call.
    fn entry_answered(
        &mut self,
        observer: &mut dyn Observer,
        entry: UploadEntry,
        error: Option<Error>,
        safety: Safety,
    ) {
        let Some(error) = error else {
            if entry.detail.follows {
                self.scheduler.tasks.push(UploadTask::Extras(entry.clone()));
            }
            let action = match entry.detail.node.kind {
                NodeKind::Regular => EntryAction::copied(entry.detail.node.size, safety, entry.detail.exists),
                _ => EntryAction::Made,
            };
            return self.done(observer, &entry, action);
        };
        match error.kind {
            ErrorKind::AlreadyExists if self.options.keep_existing => {
                self.state.note_not_copied(&entry.path);
                self.done(observer, &entry, EntryAction::Skipped);
            }
            // What was not granted is counted, as for attributes.
            ErrorKind::Refused if is_special(entry.detail.node.kind) => {
                self.state.summary.reduce(NotPreserved::SPECIAL);
                self.settle(entry.directory);
            }
            // Another copy of the tree was faster, or something else is made there.
            ErrorKind::AlreadyExists if entry.detail.node.kind != NodeKind::Regular && entry.tries < TRIES_MAX => {
                self.scheduler.tasks.push(UploadTask::Look(entry.tried()));
            }
            _ => self.refused(observer, &entry, &error),
        }
    }

    /// The owner of an existing entry was set, or not.
    fn owner_answered(&mut self, entry: UploadEntry, error: Option<Error>) {
        // What is not there has no attributes: its own error was reported.
        if error.as_ref().is_some_and(|error| error.kind == ErrorKind::NotFound) {
            return;
        }
        if let Some(mode) = self.extras(&entry.path, &entry.detail.node).special_mode(error.is_none()) {
            self.scheduler.tasks.push(UploadTask::SpecialMode(entry.path, mode));
        }
        if error.is_some() {
            self.state.summary.reduce(NotPreserved::OWNER);
        }
    }

    /// The content is complete; a failure to set the time of a directory is minor: the first is
    /// reported, and more are counted. What was not granted is only counted, as for attributes.
    fn finished(&mut self, observer: &mut dyn Observer, id: DirectoryId, error: Option<Error>) {
        if self
            .state
            .directories
            .get(id)
            .is_some_and(|directory| matches!(directory.presence, Presence::Missing { .. }))
        {
            // The call that was to make it, in the same batch, is repeated.
            return self.scheduler.tasks.push(UploadTask::Finish(id));
        }
        // What is not there has no time: its own error was reported.
        if let Some(error) = error.filter(|error| error.kind != ErrorKind::NotFound) {
            self.state.summary.reduce(NotPreserved::TIME);
            let is_told = self.state.summary.reduced == 1 && error.kind != ErrorKind::Refused;
            if let Some(directory) = self.state.directories.get(id).filter(|_| is_told) {
                let path = if directory.path.is_empty() { b".".as_slice() } else { &directory.path };
                observer.note(&format!("{}: {error}; more of the kind is counted", noted(path)));
            }
        }
        self.left(id);
    }

    fn was_made(&mut self, observer: &mut dyn Observer, id: DirectoryId, error: Option<Error>) {
        // A directory is known as long as anything waits for it.
        let Some(directory) = self.state.directories.get_mut(id) else { return };
        match (directory.presence, error) {
            (Presence::Missing { odd_mode, .. }, None) => {
                directory.presence = Presence::Made { odd_mode };
                self.state.summary.directories += 1;
                observer.done(&directory.path, EntryAction::Made);
            }
            (Presence::Missing { .. }, Some(error)) => self.state.not_made(observer, id, &error),
            (Presence::Locked { .. }, None) => directory.presence = Presence::Unlocked,
            // A directory of another user stays as it is: entries made in it report the error.
            (Presence::Locked { .. }, Some(_)) => directory.presence = Presence::Existed,
            // A call of another batch was answered before.
            (Presence::Made { .. } | Presence::Failed | Presence::Existed | Presence::Unlocked, _) => {}
        }
    }

    fn compared(&mut self, observer: &mut dyn Observer, id: DirectoryId, listing: &Listing<'_>) {
        // A directory is known as long as anything waits for it.
        let Some(path) = self.state.directories.get(id).map(|directory| directory.path.clone()) else { return };
        let mut names = self.there.remove(&id).unwrap_or_default();
        for entry in listing.entries.clone() {
            if let Some(there) = self.judge(&path, entry.name, &entry.attributes) {
                names.insert(entry.name, there);
                if let (Some(2..), Some(inode)) = (entry.attributes.links, entry.attributes.inode) {
                    names.insert_inode(entry.name, inode);
                }
            }
        }
        self.there.insert(id, names);
        self.scheduler.tasks.push(match listing.complete {
            true => UploadTask::Walk { id, cursor: Vec::new() },
            false if is_stuck(listing) => {
                observer.note(STUCK);
                self.state.incomplete = true;
                UploadTask::Walk { id, cursor: Vec::new() }
            }
            false => UploadTask::Compare { id, cursor: listing.cursor.to_vec() },
        });
    }

    /// Both sides have hashed a file that may be the same.
    fn checked(
        &mut self,
        observer: &mut dyn Observer,
        entry: UploadEntry,
        same: bool,
        outcome: Result<Answer<'_>, Error>,
    ) {
        if !content::is_same(&*self.store, &entry.path, entry.detail.node.size, &outcome) {
            return self.scheduler.tasks.push(UploadTask::Entry(entry));
        }
        if !same && !self.options.dry_run {
            self.scheduler.tasks.push(UploadTask::Time(entry.path.clone(), entry.detail.node.modified));
            self.scheduler.tasks.push(UploadTask::Extras(entry.clone()));
        }
        self.done(observer, &entry, EntryAction::Skipped);
    }

    /// Whether an entry that was in flight when a session was lost has arrived.
    fn looked(
        &mut self,
        observer: &mut dyn Observer,
        entry: UploadEntry,
        outcome: Result<Answer<'_>, Error>,
        safety: Safety,
    ) {
        let node = &entry.detail.node;
        let arrived = match &outcome {
            Ok(Answer::Attributes(told)) if told.kind == kinds::told(node.kind) => match node.kind {
                NodeKind::Regular => {
                    told.size == Some(node.size) && told.modified.is_some_and(|time| same_time(node.modified, time))
                }
                // Made anew if its text differs.
                NodeKind::Symlink => self.has_text(&entry, told.target),
                _ => told.device.unwrap_or(node.device) == node.device,
            },
            _ => false,
        };
        // Somebody else was faster.
        if self.options.keep_existing && outcome.is_ok() && !arrived {
            self.state.note_not_copied(&entry.path);
            return self.done(observer, &entry, EntryAction::Skipped);
        }
        if matches!(&outcome, Ok(Answer::Attributes(told)) if told.kind == FileType::Directory) {
            return self.scheduler.tasks.push(UploadTask::ClearDirectory(entry));
        }
        if !arrived {
            // What is neither file nor directory is not overwritten but made anew.
            let taken = outcome.is_ok() && node.kind != NodeKind::Regular;
            return self.scheduler.tasks.push(if taken { UploadTask::Clear(entry) } else { UploadTask::Entry(entry) });
        }
        if node.kind == NodeKind::Regular && self.options.verify >= crate::Verify::Hash {
            return self.scheduler.tasks.push(UploadTask::Arrived(entry, safety));
        }
        self.arrived(observer, entry, safety);
    }

    /// Both sides have hashed a file that seems to have arrived.
    fn compared_arrived(
        &mut self,
        observer: &mut dyn Observer,
        entry: UploadEntry,
        safety: Safety,
        outcome: &Result<Answer<'_>, Error>,
    ) {
        match content::is_same(&*self.store, &entry.path, entry.detail.node.size, outcome) {
            true => self.arrived(observer, entry, safety),
            false => self.scheduler.tasks.push(UploadTask::Entry(entry)),
        }
    }

    /// An entry that was in flight when a session was lost is there.
    fn arrived(&mut self, observer: &mut dyn Observer, entry: UploadEntry, safety: Safety) {
        let node = &entry.detail.node;
        let action = match node.kind {
            NodeKind::Regular => EntryAction::copied(node.size, safety, entry.detail.exists),
            _ => EntryAction::Made,
        };
        if self.extras(&entry.path, &entry.detail.node).count() > 0 {
            self.scheduler.tasks.push(UploadTask::Extras(entry.clone()));
        }
        // The call that follows the one that made it may not have been done.
        if node.kind != NodeKind::Regular {
            self.scheduler.tasks.push(UploadTask::Time(entry.path.clone(), node.modified));
        }
        self.done(observer, &entry, action);
    }

    fn has_text(&self, entry: &UploadEntry, told: Option<&[u8]>) -> bool {
        let text = RelPath::parse(&entry.path).ok().and_then(|path| self.store.read_symlink(&path).ok());
        text.as_deref() == told
    }
}
