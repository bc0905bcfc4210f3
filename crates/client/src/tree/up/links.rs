//! Second names of files, and what else has to wait for everything else.

use super::Upload;
use super::clearing::above;
use super::task::{Link, Replace, UploadTask};
use super::walk::is_special;
use crate::session::Session;
use crate::tree::compare::{Inode, TargetState};
use crate::tree::directories::DirectoryId;
use crate::tree::events::{EntryAction, Observer};
use crate::tree::hard_links::LinkDecision;
use crate::tree::read_only::EACCES;
use crate::tree::scheduler::{Flow, TRIES_MAX, Turn, too_long};
use crate::tree::state::{TreeState, full_directory, is_in_the_way};
use crate::tree::temp_list::{Drain, TempList};
use xdfs_proto::base::{Error, ErrorKind, RelPath};
use xdfs_proto::wire::path::{Answer, Call, FileType, NewTime, Wanted};
use xdfs_xio::store::Tree;
use xdfs_xio::store::tree::Node;

/// Marks a directory that was unlocked after it was finished.
const UNLOCKED: &[u8] = b"u";

/// Tasks that are taken from a list at a time.
const TAKEN: usize = 256;

/// What comes behind everything else, in this order.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    links: TempList,
    linking: Option<Drain>,
    /// Directories that got a second name.
    touched: TempList,
    touching: Option<Drain>,
    removing: Option<Drain>,
}

impl Upload {
    /// What is to be done about a name of a file that has several: none where that waits for the first one. `there` is what is
    /// known without its partners.
    pub(super) fn partner(
        &mut self,
        observer: &mut dyn Observer,
        id: DirectoryId,
        path: &[u8],
        name: &[u8],
        node: &Node,
        there: Option<TargetState>,
    ) -> Option<Option<TargetState>> {
        let keep = self.options.keep;
        let kept = there.is_some() && self.options.keep_existing;
        if !keep.links || node.links < 2 || kept || is_special(node.kind) && !keep.specials {
            return Some(there);
        }
        let stays = there.is_some_and(TargetState::stays);
        let inode = self.there.get(&id).and_then(|names| names.inode(name)).filter(|_| stays);
        let met = self.partners.meet(node.identity, path, inode).and_then(|met| match &met {
            LinkDecision::Link(first) => self.late.links.push(first, path).map(|_| met),
            _ => Ok(met),
        });
        match met {
            Ok(LinkDecision::Link(_)) => {
                if let Some(directory) = self.state.directories.get_mut(id) {
                    directory.touched = true;
                }
                None
            }
            Ok(LinkDecision::First { stays: false }) if stays => Some(Some(TargetState::Older)),
            Ok(LinkDecision::First { .. } | LinkDecision::Joined) => Some(there),
            Err(error) => {
                // Then it becomes a file of its own: no byte is missing.
                observer.note(&error.message);
                Some(there)
            }
        }
    }

    /// Takes up what waits behind everything else; false when nothing is left.
    pub(super) fn take_up_late(&mut self, observer: &mut dyn Observer) -> bool {
        if self.options.dry_run {
            return self.tell_late(observer);
        }
        if self.late.linking.is_none() {
            self.late.linking = Some(drained(&mut self.late.links, &mut self.state, observer));
        }
        let links: Vec<_> = self.late.linking.iter_mut().flatten().take(TAKEN).collect();
        for pair in links {
            let Some((first, path)) = self.state.read_back(observer, pair) else { continue };
            let replace = Replace::Nothing;
            self.scheduler.tasks.push(UploadTask::Link(Link { first, path, replace, unlock: false, tries: 0 }));
        }
        if !self.scheduler.tasks.is_empty() {
            return true;
        }
        if self.late.removing.is_none() {
            self.late.removing = Some(match self.may_delete(observer) {
                true => drained(&mut self.surplus, &mut self.state, observer),
                false => Drain::default(),
            });
        }
        let surplus: Vec<_> = self.late.removing.iter_mut().flatten().take(TAKEN).collect();
        for pair in surplus {
            let Some((path, kind)) = self.state.read_back(observer, pair) else { continue };
            // The source may have got it since the target was looked at, and then it has been sent.
            if self.is_absent(&path, observer) {
                self.scheduler.tasks.push(if kind == b"d" {
                    UploadTask::RemoveAll { path, cursor: Vec::new(), unlock: false }
                } else {
                    UploadTask::Remove { path, unlock: false }
                });
            }
        }
        if !self.scheduler.tasks.is_empty() {
            return true;
        }
        if self.late.touching.is_none() {
            self.late.touching = Some(drained(&mut self.late.touched, &mut self.state, observer));
        }
        let touched: Vec<_> = self.late.touching.iter_mut().flatten().take(TAKEN).collect();
        for pair in touched {
            let Some((path, kind)) = self.state.read_back(observer, pair) else { continue };
            self.scheduler.tasks.push(UploadTask::Retouch { path, mode: kind == UNLOCKED });
        }
        !self.scheduler.tasks.is_empty()
    }

    /// Takes on what comes behind everything else.
    pub(super) fn take_late(
        &mut self,
        session: &Session,
        observer: &mut dyn Observer,
        task: UploadTask,
    ) -> Flow<Turn<UploadTask>> {
        match task {
            UploadTask::Link(link) => self.link(session, observer, link),
            UploadTask::LinkLook(ref link) => {
                let (first, path, wanted) = (link.first.clone(), link.path.clone(), Wanted::INODE);
                let (one, other) = (Call::Stat { path: &first, wanted }, Call::Stat { path: &path, wanted });
                // In one batch, so that both answers come one after the other.
                if !self.scheduler.make_room(session, 2, first.len() + path.len(), one.room() + other.room()) {
                    return Ok(Turn::Later(task));
                }
                self.scheduler.batch.push(&one, UploadTask::LinkFirst);
                self.scheduler.batch.push(&other, task);
                Ok(Turn::Taken)
            }
            UploadTask::Retouch { ref path, mode } => {
                let path = path.clone();
                let Some(node) = RelPath::parse(&path).ok().and_then(|at| self.store.node(&at).ok()) else {
                    return Ok(Turn::Taken);
                };
                if !self.scheduler.make_room(session, 2, 2 * path.len(), 0) {
                    return Ok(Turn::Later(task));
                }
                if mode {
                    let bits = if self.options.keep.modes { 0o7777 } else { 0o777 };
                    let call = Call::SetMode { path: &path, mode: node.mode & bits };
                    self.scheduler.batch.push(&call, UploadTask::Extra);
                }
                let modified = Some(NewTime::At(node.modified));
                self.scheduler.batch.push(&Call::SetTimes { path: &path, modified, accessed: None }, task);
                Ok(Turn::Taken)
            }
            removal => self.take_removal(session, removal),
        }
    }

    /// Gives a file one more name.
    fn link(&mut self, session: &Session, observer: &mut dyn Observer, link: Link) -> Flow<Turn<UploadTask>> {
        let (first, path) = (link.first.clone(), link.path.clone());
        if !self.scheduler.takes_path(session, first.len().max(path.len())) {
            self.linked(observer, link, Some(too_long()));
            return Ok(Turn::Taken);
        }
        if link.replace == Replace::Directory && self.scheduler.has_calls() {
            self.scheduler.flush(session);
            return Ok(Turn::Later(UploadTask::Link(link)));
        }
        if !self.scheduler.make_room(session, 3, first.len() + 3 * path.len(), 0) {
            return Ok(Turn::Later(UploadTask::Link(link)));
        }
        if link.unlock {
            self.unlock(above(&path));
        }
        if link.replace == Replace::Name {
            self.scheduler.batch.push(&Call::Unlink { path: &path }, UploadTask::Step);
        }
        self.scheduler.batch.push(&Call::Link { path: &first, to: &path }, UploadTask::Link(link));
        Ok(Turn::Taken)
    }

    pub(super) fn linked(&mut self, observer: &mut dyn Observer, link: Link, error: Option<Error>) {
        let Some(error) = error else {
            self.touch_late(&link.path, link.unlock);
            return self.link_done(observer, &link.path, EntryAction::Made);
        };
        match error.kind {
            ErrorKind::AlreadyExists if self.options.keep_existing => {
                self.link_done(observer, &link.path, EntryAction::Skipped);
            }
            ErrorKind::AlreadyExists if link.tries < TRIES_MAX => {
                self.scheduler.tasks.push(UploadTask::LinkLook(Link { tries: link.tries + 1, ..link }));
            }
            _ if is_locked(&error) && !link.unlock => {
                self.scheduler.tasks.push(UploadTask::Link(Link { unlock: true, ..link }));
            }
            // What was not granted is counted, as for its first name.
            ErrorKind::NotFound if self.is_special_here(&link.first) => self.state.summary.reduced += 1,
            _ => {
                self.lock_again(&link.path, link.unlock);
                self.link_failed(observer, &link.path, &error);
            }
        }
    }

    /// The name of a link is taken: perhaps by the same file, of which another copy made it.
    pub(super) fn link_looked(&mut self, observer: &mut dyn Observer, link: Link, outcome: Result<Answer<'_>, Error>) {
        match outcome {
            Ok(Answer::Attributes(told)) if told.kind == FileType::Directory => {
                let Some(most) = self.options.delete else {
                    return self.link_failed(observer, &link.path, &full_directory());
                };
                if let Err(error) = self.state.may_clear(most) {
                    return self.link_failed(observer, &link.path, &error);
                }
                let path = link.path.clone();
                self.scheduler.tasks.push(UploadTask::Link(Link { replace: Replace::Directory, ..link }));
                self.scheduler.tasks.push(UploadTask::RemoveAll { path, cursor: Vec::new(), unlock: false });
            }
            Ok(Answer::Attributes(told)) if told.inode.is_some() && told.inode == self.first => {
                self.link_done(observer, &link.path, EntryAction::Skipped);
            }
            Err(error) if error.kind != ErrorKind::NotFound => self.link_failed(observer, &link.path, &error),
            outcome => {
                let replace = if outcome.is_ok() { Replace::Name } else { Replace::Nothing };
                self.scheduler.tasks.push(UploadTask::Link(Link { replace, ..link }));
            }
        }
    }

    fn link_done(&mut self, observer: &mut dyn Observer, path: &[u8], deed: EntryAction) {
        self.state.summary.count(deed);
        observer.done(path, deed);
    }

    fn link_failed(&mut self, observer: &mut dyn Observer, path: &[u8], error: &Error) {
        self.state.in_the_way += u64::from(is_in_the_way(error.kind));
        self.state.summary.failed += 1;
        observer.failed(path, error);
    }

    fn is_special_here(&self, path: &[u8]) -> bool {
        let node = RelPath::parse(path).ok().and_then(|at| self.store.node(&at).ok());
        node.is_some_and(|node| is_special(node.kind))
    }

    /// The directory of `path` has to get its time again, and its mode where it was unlocked.
    pub(super) fn touch_late(&mut self, path: &[u8], unlocked: bool) {
        // A time that is not kept is no loss of data.
        let _ = self.late.touched.push(above(path), if unlocked { UNLOCKED } else { b"" });
    }

    /// Whether the source still does not have a name.
    fn is_absent(&self, path: &[u8], observer: &mut dyn Observer) -> bool {
        let looked = RelPath::parse(path).ok().map(|at| self.store.node(&at));
        match looked {
            Some(Err(error)) if error.kind == ErrorKind::NotFound => true,
            Some(Err(error)) => {
                observer.note(&error.message);
                false
            }
            Some(Ok(_)) | None => false,
        }
    }

    /// Deleting needs a source that was read to its end, and keeps to its bound (T8).
    fn may_delete(&mut self, observer: &mut dyn Observer) -> bool {
        let (Some(most), count) = (self.options.delete, self.surplus.count()) else { return false };
        if count == 0 {
            return false;
        }
        if let Some(why) = self.state.keeps_surplus(count, most) {
            observer.note(&why);
            return false;
        }
        true
    }

    /// What a dry run has to tell at its end.
    fn tell_late(&mut self, observer: &mut dyn Observer) -> bool {
        for pair in drained(&mut self.late.links, &mut self.state, observer) {
            let Some((_, path)) = self.state.read_back(observer, pair) else { continue };
            self.state.summary.others += 1;
            observer.done(&path, EntryAction::Made);
        }
        if self.may_delete(observer) {
            for pair in drained(&mut self.surplus, &mut self.state, observer) {
                let Some((path, _)) = self.state.read_back(observer, pair) else { continue };
                self.state.summary.deleted += 1;
                observer.done(&path, EntryAction::Deleted);
            }
        }
        false
    }
}

fn drained(list: &mut TempList, books: &mut TreeState, observer: &mut dyn Observer) -> Drain {
    books.read_back(observer, list.drain()).unwrap_or_default()
}

/// Whether the mode of the directory may be why a name in it cannot be changed.
pub(super) fn is_locked(error: &Error) -> bool {
    error.kind == ErrorKind::PermissionDenied && error.errno == EACCES
}

/// Which file an answer is about.
pub(super) fn inode_of(outcome: Result<Answer<'_>, Error>) -> Option<Inode> {
    match outcome {
        Ok(Answer::Attributes(told)) => told.inode,
        _ => None,
    }
}
