//! Further names of files, and names that the source does not have: they wait for everything else.

use super::local::{clear_for, remove_all};
use super::{Download, DownloadEntry, DownloadSource, DownloadTask, SourceEntry, parse};
use crate::tree::compare::TargetState;
use crate::tree::directories::{DirectoryId, FINISHED};
use crate::tree::endpoints::Remote;
use crate::tree::events::{EntryAction, Observer};
use crate::tree::hard_links::{Partner, are_impossible, temporary};
use crate::tree::scheduler::{Run, TRIES_MAX, Turn};
use crate::tree::state::is_in_the_way;
use crate::tree::temp_list::{Drain, TempList};
use crate::tree::{noted, same_time};
use std::hash::RandomState;
use xdfs_engine::kinds;
use xdfs_io::store::Existing;
use xdfs_io::store::tree::{AttributeChange, Node, NodeKind};
use xdfs_proto::base::{Error, ErrorKind, RelPath, Timestamp};
use xdfs_proto::wire::path::{Attributes, Call, FileType, Wanted};

/// So many names are looked at, and removed, at a time.
const REMOVED_TOGETHER: usize = 2048;

/// Tasks that are done after everything else.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    links: TempList,
    /// Directories in which names are made or removed after everything else, each with the time
    /// that it is to have.
    touched: TempList,
    /// The last one of them.
    last: Option<DirectoryId>,
    /// Names that are still to be removed, once that has begun.
    removing: Option<Drain>,
    /// The key of temporary names.
    key: RandomState,
    /// Directories that were unlocked for files that come after everything else, each with the mode
    /// that it had.
    locked: TempList,
}

impl Download {
    /// What to do with a name of a file that has several; `None` if it waits for the first one.
    /// `there` is the state that is known without its other names.
    pub(super) fn partner(
        &mut self,
        observer: &mut dyn Observer,
        id: DirectoryId,
        path: &[u8],
        at: &RelPath,
        told: &Attributes<'_>,
        there: Option<TargetState>,
    ) -> Option<Option<TargetState>> {
        let keep = self.options.keep;
        let kept = there.is_some() && self.options.keep_existing;
        let special = !matches!(told.kind, FileType::Regular | FileType::Symlink);
        let (Some(inode), Some(2..)) = (told.inode, told.links) else { return Some(there) };
        if !keep.links || kept || special && !keep.specials {
            return Some(there);
        }
        let stays = there.is_some_and(TargetState::stays);
        let file = self.store.node(at).ok().filter(|_| stays).map(|node| node.identity);
        match self.partners.plan(&mut self.late.links, inode, path, (there, file)) {
            Ok(Partner::Waits) => {
                self.touch_late(id);
                None
            }
            Ok(Partner::Alone(there)) => Some(there),
            Err(error) => {
                // Then the name becomes a separate file: no byte is missing.
                observer.note(&error.message);
                Some(there)
            }
        }
    }

    /// Names in a directory are made or removed after it is finished: its time is set again
    /// afterwards. Its current time is not used, since it differs if other copies of the tree do
    /// the same.
    pub(super) fn touch_late(&mut self, id: DirectoryId) {
        if self.late.last.replace(id) == Some(id) {
            return;
        }
        if let Some(directory) = self.state.directories.get(id) {
            let bytes = |time: Timestamp| [&time.seconds.to_be_bytes()[..], &time.nanoseconds.to_be_bytes()].concat();
            // A time that is not kept is no loss of data.
            let _ = self.late.touched.push(&directory.path, &directory.modified.map(bytes).unwrap_or_default());
        }
    }

    /// Starts the tasks that wait for everything else; false when none are left.
    pub(super) fn take_up_late(&mut self, observer: &mut dyn Observer) -> bool {
        self.make_links(observer);
        if !self.scheduler.tasks.is_empty() {
            return true;
        }
        if self.take_up_surplus(observer) {
            return true;
        }
        if self.options.dry_run {
            return false;
        }
        for pair in self.state.drained(observer, &mut self.late.locked) {
            // Else it is told already.
            let Some((path, mode)) = self.state.read_back(observer, pair) else { continue };
            // Its parts were checked when it was made of them.
            let (Ok(at), Ok(mode)) = (parse(&path), mode.try_into().map(u32::from_be_bytes)) else { continue };
            // Another process may have changed it meanwhile.
            if self.store.node(&at).is_ok_and(|node| node.mode & 0o7777 == mode & 0o7777 | 0o700) {
                self.change(observer, &path, None, Some(mode));
            }
        }
        for pair in self.state.drained(observer, &mut self.late.touched) {
            // Else it is told already.
            let Some((path, time)) = self.state.read_back(observer, pair) else { continue };
            let (seconds, nanoseconds) = time.split_at_checked(8).unwrap_or_default();
            if let (Ok(seconds), Ok(nanoseconds)) = (seconds.try_into(), nanoseconds.try_into()) {
                let modified = Timestamp::new(i64::from_be_bytes(seconds), u32::from_be_bytes(nanoseconds));
                self.set_time(observer, &path, Some(modified));
            }
            // Once for all of its names.
            if self.options.durable
                && let Err(error) = parse(&path).and_then(|at| self.store.sync(&at))
                && error.kind != ErrorKind::NotFound
            {
                self.state.failed(observer, &path, &error);
            }
        }
        false
    }

    fn make_links(&mut self, observer: &mut dyn Observer) {
        for pair in self.state.drained(observer, &mut self.late.links) {
            // Else it is told already.
            let Some((first, path)) = self.state.read_back(observer, pair) else { continue };
            let made = if self.options.dry_run { Ok(()) } else { self.link(observer, &first, &path) };
            match made {
                Err(error) if are_impossible(&error) => {
                    self.state.no_links(observer, &path, &error);
                    if let Err(error) = self.copy_of_its_own(observer, &first, &path) {
                        self.tell(observer, &path, EntryAction::Made, Err(error));
                    }
                }
                made => self.tell(observer, &path, EntryAction::Made, made),
            }
        }
    }

    /// No link can be made there: the name becomes a separate file, as without links.
    fn copy_of_its_own(&mut self, observer: &mut dyn Observer, first: &[u8], path: &[u8]) -> Result<(), Error> {
        let (of, at) = (parse(first)?, parse(path)?);
        let node = self.store.node(&of)?;
        let text = if node.kind == NodeKind::Symlink { self.store.read_symlink(&of)? } else { Vec::new() };
        let there = match self.store.node(&at) {
            Ok(there) if there.kind == NodeKind::Directory => Some(TargetState::Directory),
            Ok(there) if there.kind != node.kind => Some(TargetState::OtherKind),
            Ok(there) if node.kind == NodeKind::Regular && self.is_equal(&node, &there) => {
                self.state.summary.skipped += 1;
                observer.done(path, EntryAction::Skipped);
                return Ok(());
            }
            Ok(_) => Some(TargetState::Older),
            Err(error) if error.kind == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        self.may_make_way(observer, &at, there)?;
        let above = at.parent().unwrap_or_default();
        let mode = self.store.node(&above)?.mode;
        if mode & 0o700 != 0o700 {
            self.late.locked.push(above.as_bytes(), &mode.to_be_bytes())?;
            self.store.unlock(&above);
        }
        let source = SourceEntry {
            kind: kinds::told(node.kind),
            mode: node.mode,
            size: node.size,
            modified: Some(node.modified),
            owner: Some(node.owner),
            device: node.device,
            holes: node.allocated < node.size,
            text,
        };
        let clears = there.filter(|there| *there != TargetState::Older);
        let (path, source) = (path.to_vec(), Box::new(source));
        let entry = DownloadEntry::new(FINISHED, path, DownloadSource { source, alone: false, clears });
        self.scheduler.tasks.push(DownloadTask::Entry(entry));
        Ok(())
    }

    fn is_equal(&self, source: &Node, target: &Node) -> bool {
        let same = self.options.skip_same && !self.options.checksum;
        same && source.size == target.size && same_time(source.modified, target.modified)
    }

    /// Takes up the next names that the source did not have when it was listed; false if there are none.
    fn take_up_surplus(&mut self, observer: &mut dyn Observer) -> bool {
        if self.late.removing.is_none() && !self.state.may_delete(observer, &mut self.surplus, &self.options) {
            return false;
        }
        let mut removing = self.late.removing.take().unwrap_or_else(|| self.state.drained(observer, &mut self.surplus));
        let mut next = Vec::new();
        while next.len() < REMOVED_TOGETHER
            && let Some(pair) = removing.next()
        {
            // Else it is told already.
            next.extend(self.state.read_back(observer, pair).map(|(path, _)| DownloadTask::Remove(path)));
        }
        self.late.removing = Some(removing);
        let any = !next.is_empty();
        // The last one is taken first.
        self.scheduler.tasks.extend(next.into_iter().rev());
        any
    }

    /// Has the server look whether it has a name that is to be removed.
    pub(super) fn remove(
        &mut self,
        remote: &mut dyn Remote,
        observer: &mut dyn Observer,
        path: Vec<u8>,
    ) -> Run<Turn<DownloadTask>> {
        if !self.scheduler.takes_path(remote, path.len()) {
            // No server has a name that cannot be asked for.
            self.remove_now(observer, &path);
            return Ok(Turn::Taken);
        }
        let call = Call::Stat { path: &path, wanted: Wanted::NOTHING };
        Ok(self.scheduler.ask(remote, &call, DownloadTask::Remove(path.clone())))
    }

    pub(super) fn looked_before_removal(&mut self, observer: &mut dyn Observer, path: &[u8], error: Option<Error>) {
        match error.map(|error| (error.kind, error)) {
            None => observer.note(&format!("{}: kept, since the source has it by now", noted(path))),
            // The last is what no server can have.
            Some((ErrorKind::NotFound | ErrorKind::NotDirectory | ErrorKind::InvalidPath, _)) => {
                self.remove_now(observer, path);
            }
            // What is surplus stays, which is not what was asked for.
            Some((_, error)) => self.state.failed(observer, path, &error),
        }
    }

    fn remove_now(&mut self, observer: &mut dyn Observer, path: &[u8]) {
        let removed = match self.options.dry_run {
            true => Ok(true),
            false => self.unlocked(path, |this| remove_all(&*this.store, &parse(path)?, &this.options)),
        };
        match removed {
            Ok(false) => observer.note(&format!("{}: kept, with what is left out in it", noted(path))),
            // Another process was faster.
            Err(error) if error.kind == ErrorKind::NotFound => {}
            removed => self.tell(observer, path, EntryAction::Deleted, removed.map(drop)),
        }
    }

    fn tell(&mut self, observer: &mut dyn Observer, path: &[u8], action: EntryAction, outcome: Result<(), Error>) {
        match outcome {
            Ok(()) => {
                self.state.count(action);
                observer.done(path, action);
            }
            Err(error) => {
                self.state.in_the_way += u64::from(is_in_the_way(error.kind));
                self.state.failed(observer, path, &error);
            }
        }
    }

    fn link(&mut self, observer: &mut dyn Observer, first: &[u8], path: &[u8]) -> Result<(), Error> {
        self.state.must_be_copied(first)?;
        let (of, name) = (parse(first)?, parse(path)?);
        self.unlocked(path, |this| {
            for _ in 1..TRIES_MAX {
                match this.store.link(&of, &name) {
                    Err(error) if error.kind == ErrorKind::AlreadyExists && !this.options.keep_existing => {}
                    other => return other,
                }
                // The name refers to a separate file here, or another copy of the tree was faster.
                match this.store.node(&name) {
                    Ok(node) if node.identity == this.store.node(&of)?.identity => return Ok(()),
                    Ok(node) => return this.link_over(observer, &of, &name, node.kind == NodeKind::Directory),
                    // It has gone again: once more.
                    Err(error) if error.kind == ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
            this.store.link(&of, &name)
        })
    }

    /// Makes a link where its name is taken; the existing entry is removed once there is a link to
    /// replace it.
    fn link_over(
        &mut self,
        observer: &mut dyn Observer,
        of: &RelPath,
        name: &RelPath,
        directory: bool,
    ) -> Result<(), Error> {
        let temp = parse(&temporary(name.as_bytes(), &self.late.key))?;
        self.store.link(of, &temp)?;
        let cleared = if directory { self.clear_directory(observer, name) } else { Ok(()) };
        let made = cleared.and_then(|()| self.store.rename(&temp, name, Existing::Replace));
        // A rename between two names of one file leaves both.
        let _ = self.store.remove(&temp);
        made
    }

    fn clear_directory(&mut self, observer: &mut dyn Observer, name: &RelPath) -> Result<(), Error> {
        let there = Some(TargetState::Directory);
        self.may_make_way(observer, name, there)?;
        if clear_for(&*self.store, name, (there, FileType::Regular), &self.options)? {
            self.state.summary.deleted += 1;
            observer.done(name.as_bytes(), EntryAction::Deleted);
        }
        Ok(())
    }

    /// Changes a finished directory; if it had to be unlocked for that, its mode is restored.
    fn unlocked<T>(&mut self, path: &[u8], act: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        let above = parse(path)?.parent().unwrap_or_default();
        let before = self.store.node(&above)?;
        let mode = self.store.unlock(&above).then_some(before.mode);
        let done = act(self);
        if mode.is_some() {
            self.store.change(&above, &AttributeChange { mode, ..AttributeChange::default() })?;
        }
        done
    }
}
