//! Handles the answers of the server and their local effects.

use super::small_writes::SmallWrites;
use super::{Download, DownloadEntry, DownloadSource, DownloadTask, SourceEntry, WAITING_BYTES_MAX, memory_of, parse};
use crate::tree::compare::{Names, TargetState};
use crate::tree::directories::DirectoryId;
use crate::tree::events::{EntryAction, Observer};
use crate::tree::plan::{EntryPlan, FirstStep, plan};
use crate::tree::received_metadata::{XATTR_ROOM, XATTR_ROOM_MAX};
use crate::tree::scheduler::TreeCopy;
use crate::tree::{NotPreserved, STUCK, Summary, content, is_stuck, join, must_not_be_reserved};
use bytes::Bytes;
use std::collections::{BTreeSet, btree_map};
use xdfs_io::store::reserved::is_reserved;
use xdfs_io::store::tree::ListControl;
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::wire::path::{Answer, FileType, ListEntry as Listed, Listing, StringList};

/// Extended attributes of one file: each is a request, with the file's path.
const XATTRS_MAX: usize = 256;

impl Download {
    /// What was done over all sessions so far.
    pub const fn summary(&self) -> Summary {
        self.state.summary
    }

    /// Handles the answer to one call; a small file joins those that `arrived` with the same
    /// `reply`.
    pub(super) fn answer(
        &mut self,
        observer: &mut dyn Observer,
        task: DownloadTask,
        outcome: Result<Answer<'_>, Error>,
        reply: &Bytes,
        arrived: &mut SmallWrites,
    ) {
        match (task, outcome) {
            (DownloadTask::List { id, .. }, Ok(Answer::Listing(listing))) => self.listed(observer, id, &listing),
            (DownloadTask::List { id, .. }, outcome) => {
                let error = outcome.err().unwrap_or_else(|| Error::new(ErrorKind::Protocol, "no listing"));
                self.not_listed(observer, id, &error);
            }
            (DownloadTask::Entry(entry), Ok(Answer::File { attributes, content })) => match parse(&entry.path) {
                Ok(target) => match self.make_way(observer, &entry) {
                    Ok(()) => {
                        let how = (self.existing(&entry), self.options.keep);
                        arrived.push(entry, target, &attributes, how, reply.slice_ref(content));
                    }
                    Err(error) => self.not_made_way(observer, &entry, &error),
                },
                Err(error) => self.failed(observer, &entry, &error),
            },
            // It grew since it was listed, or the reply had no room for it. A transfer needs none,
            // and is not requested again.
            (DownloadTask::Entry(entry), Err(error))
                if matches!(error.kind, ErrorKind::TooLarge | ErrorKind::LimitExceeded) =>
            {
                self.scheduler.large.push_back(entry);
            }
            (DownloadTask::Entry(entry), outcome) => {
                let error = outcome.err().unwrap_or_else(|| Error::new(ErrorKind::Protocol, "no content"));
                self.failed(observer, &entry, &error);
            }
            (DownloadTask::Check { entry, same }, outcome) => self.checked(observer, entry, same, outcome),
            (DownloadTask::Xattrs { path, .. }, Ok(Answer::Names(names))) => {
                self.ask_each_xattr(observer, &path, names)
            }
            (DownloadTask::Xattr { path, name, .. }, Ok(Answer::Bytes(value))) => {
                let set = parse(&path).and_then(|at| self.store.set_xattr(&at, &name, value));
                if let Err(error) = set {
                    self.reduced(observer, (&path, NotPreserved::of_xattr(&name)), &error);
                }
            }
            (DownloadTask::Xattr { path, name, room }, Err(error))
                if error.kind == ErrorKind::LimitExceeded && room < XATTR_ROOM_MAX =>
            {
                self.scheduler.tasks.push(DownloadTask::Xattr { path, name, room: XATTR_ROOM_MAX });
            }
            (DownloadTask::Xattrs { path, room }, Err(error))
                if error.kind == ErrorKind::LimitExceeded && room < XATTR_ROOM_MAX =>
            {
                self.scheduler.tasks.push(DownloadTask::Xattrs { path, room: XATTR_ROOM_MAX });
            }
            (DownloadTask::Xattrs { path, .. } | DownloadTask::Xattr { path, .. }, outcome) => {
                let error = outcome.err().unwrap_or_else(|| Error::new(ErrorKind::Protocol, "no attributes"));
                self.reduced(observer, (&path, NotPreserved::XATTR), &error);
            }
            (DownloadTask::Remove(path), outcome) => self.looked_before_removal(observer, &path, outcome.err()),
            // They ask the server for nothing.
            (DownloadTask::Enter { .. } | DownloadTask::Finish(_), _) => {}
        }
    }

    fn not_listed(&mut self, observer: &mut dyn Observer, id: DirectoryId, error: &Error) {
        let directory = self.state.directories.get_mut(id).map(|directory| {
            directory.unknown = true;
            directory.path.clone()
        });
        self.state.incomplete = true;
        self.state.summary.failed += 1;
        observer.failed(&directory.unwrap_or_default(), error);
        self.listed.remove(&id);
        self.settle(id);
    }

    /// Requests each extended attribute that may be kept. A server may list as many as a reply has room for.
    fn ask_each_xattr(&mut self, observer: &mut dyn Observer, path: &[u8], names: StringList<'_>) {
        let names: BTreeSet<&[u8]> = names.take(XATTRS_MAX + 1).collect();
        if names.len() > XATTRS_MAX {
            let text = format!("more than {XATTRS_MAX} extended attributes");
            return self.reduced(observer, (path, NotPreserved::XATTR), &Error::new(ErrorKind::LimitExceeded, text));
        }
        for name in names {
            if self.options.keep.takes_xattr(name) {
                let (path, name) = (path.to_vec(), name.to_vec());
                self.scheduler.tasks.push(DownloadTask::Xattr { path, name, room: XATTR_ROOM });
            } else {
                let text = format!(
                    "extended attribute '{}' is left out: it is worth as much as an owner, and owners and modes are not kept",
                    name.escape_ascii()
                );
                self.reduced(observer, (path, NotPreserved::of_xattr(name)), &Error::new(ErrorKind::Refused, text));
            }
        }
    }

    fn listed(&mut self, observer: &mut dyn Observer, id: DirectoryId, listing: &Listing<'_>) {
        // A directory is known as long as anything waits for it.
        let Some(directory) = self.state.directories.get(id) else { return };
        let (above, fresh) = (directory.path.clone(), directory.presence.is_new());
        let more = !listing.complete;
        let stuck = is_stuck(listing);
        if more {
            if stuck {
                let error = Error::new(ErrorKind::Protocol, STUCK);
                self.state.incomplete = true;
                self.state.summary.failed += 1;
                observer.failed(&above, &error);
            } else {
                self.scheduler.tasks.push(DownloadTask::List { id, cursor: listing.cursor.to_vec() });
            }
        }
        let mut files = Vec::new();
        for entry in listing.entries.clone() {
            self.sort(observer, id, &above, fresh, &entry, &mut files);
        }
        self.scheduler.tasks.append(&mut files);
        if !more || stuck {
            let names = self.listed.remove(&id).unwrap_or_default();
            if !fresh {
                self.find_surplus(observer, id, &above, &names);
            }
            self.settle(id);
        }
    }

    /// Counts a directory below `id` that is entered later; an error if there are too many of them.
    fn waits_to_be_entered(&mut self, id: DirectoryId, path: &[u8]) -> Result<(), Error> {
        let entering = self.entering + memory_of(path);
        if entering > WAITING_BYTES_MAX {
            let text = "more directories are listed than can be held until they are copied";
            return Err(Error::new(ErrorKind::LimitExceeded, text));
        }
        self.entering = entering;
        self.state.directories.hold(id);
        Ok(())
    }

    /// Decides what to do with one entry.
    fn sort(
        &mut self,
        observer: &mut dyn Observer,
        id: DirectoryId,
        above: &[u8],
        fresh: bool,
        entry: &Listed<'_>,
        files: &mut Vec<DownloadTask>,
    ) {
        let (path, told) = (join(above, entry.name), &entry.attributes);
        if !self.options.takes(&path, told.kind == FileType::Directory) {
            return;
        }
        let mut fail = |this: &mut Self, error: &Error| {
            this.state.incomplete = true;
            this.state.summary.failed += 1;
            observer.failed(&path, error);
        };
        let at = match must_not_be_reserved(entry.name).and_then(|()| parse(&path)) {
            Ok(at) => at,
            Err(error) => return fail(self, &error),
        };
        let there = if fresh { Ok(None) } else { self.judge(&at, told) };
        let there = match there {
            Ok(there) => there,
            Err(error) => return fail(self, &error),
        };
        // If a name occurs twice in a listing it is ambiguous.
        let seen = match self.listed.entry(id) {
            btree_map::Entry::Vacant(none) => none.insert(Names::default()),
            btree_map::Entry::Occupied(some) => some.into_mut(),
        };
        if !seen.insert(entry.name, there.unwrap_or(TargetState::Older)) {
            return fail(self, &Error::new(ErrorKind::Protocol, "the server listed this name twice"));
        }
        let source = Box::new(SourceEntry::of(told));
        if told.kind == FileType::Directory {
            if let Err(error) = self.waits_to_be_entered(id, &path) {
                return fail(self, &error);
            }
            return self.scheduler.tasks.push(DownloadTask::Enter { parent: Some(id), path, source });
        }
        // Else it waits for the first of its names.
        let Some(there) = self.partner(observer, id, &path, &at, told, there) else { return };
        let clears = there.filter(|there| there.is_directory() || *there == TargetState::OtherKind);
        let alone = fresh || there.is_none();
        let entry = DownloadEntry::new(id, path, DownloadSource { source, alone, clears });
        match plan(told.kind, there, &self.options) {
            EntryPlan::Keep => self.skip(observer, &entry),
            EntryPlan::Leave => self.leave(observer, entry),
            EntryPlan::SetAttributes => {
                self.skip(observer, &entry);
                self.give_attributes(observer, &entry);
            }
            EntryPlan::PassOver => self.state.summary.passed_over += 1,
            EntryPlan::Copy(step) => {
                self.state.directories.hold(id);
                if let Err(error) = self.may_make_way(observer, &at, there) {
                    return self.not_made_way(observer, &entry, &error);
                }
                files.push(match step {
                    FirstStep::Compare { same } => DownloadTask::Check { entry, same },
                    // What has its name is removed when the new one has arrived.
                    FirstStep::ClearDirectory | FirstStep::Clear | FirstStep::Send => DownloadTask::Entry(entry),
                });
            }
        }
    }

    /// The entry that has the name of a new one could not be removed.
    pub(super) fn not_made_way(&mut self, observer: &mut dyn Observer, entry: &DownloadEntry, error: &Error) {
        // The error may be about a name in the directory that was to be removed: it implies nothing
        // about its siblings.
        let inner = entry.detail.clears.is_some_and(TargetState::is_directory);
        let tell = if inner { Self::not_cleared } else { Self::refused };
        tell(self, observer, entry, error);
    }

    /// A directory that has the name of an entry could not be removed.
    pub(super) fn not_cleared(&mut self, observer: &mut dyn Observer, entry: &DownloadEntry, error: &Error) {
        self.state.in_the_way += 1;
        self.failed(observer, entry, error);
    }

    /// Skips an entry that exists, as far as a listing shows.
    fn leave(&mut self, observer: &mut dyn Observer, entry: DownloadEntry) {
        self.skip(observer, &entry);
        self.ask_xattrs(entry.path);
    }

    /// Both sides have hashed a file that may be the same.
    fn checked(
        &mut self,
        observer: &mut dyn Observer,
        entry: DownloadEntry,
        same: bool,
        outcome: Result<Answer<'_>, Error>,
    ) {
        if !content::is_same(&*self.store, &entry.path, entry.detail.source.size, &outcome) {
            return self.scheduler.tasks.push(DownloadTask::Entry(entry));
        }
        if !same && !self.options.dry_run {
            self.set_time(observer, &entry.path, entry.detail.source.modified);
            self.add_extras(observer, &entry);
        }
        self.done(observer, &entry, EntryAction::Skipped);
    }

    /// Finds names that the target has and the source does not.
    fn find_surplus(&mut self, observer: &mut dyn Observer, id: DirectoryId, above: &[u8], names: &Names) {
        if self.options.delete.is_none() || self.state.incomplete {
            return;
        }
        // Its parts were checked when it was made of them.
        let Ok(at) = parse(above) else { return };
        let before = self.surplus.count();
        let (options, surplus, mut kept) = (&self.options, &mut self.surplus, Ok(()));
        let listed = self.store.list(&at, b"", &mut |name, node| {
            let path = join(above, name);
            let directory = node.kind == xdfs_io::store::tree::NodeKind::Directory;
            if names.get(name).is_none() && !is_reserved(name) && options.takes(&path, directory) {
                let kind: &[u8] = if directory { b"d" } else { b"" };
                kept = surplus.push(&path, kind).map(drop);
            }
            if kept.is_ok() { ListControl::More } else { ListControl::Stop }
        });
        if let Err(error) = listed.map(drop).and(kept) {
            self.state.incomplete = true;
            observer.note(&error.message);
        }
        if self.surplus.count() > before {
            self.touch_late(id);
        }
    }
}
