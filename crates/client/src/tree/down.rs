//! The download of a tree from a server.
//!
//! The listing of the server is not trusted: a name is one component, checked when it is read;
//! it occurs once; its entry is made below the open directory of the target and never through a
//! link; and a directory that this copy made contains nothing beforehand, so that two names which
//! the file system treats as one are detected.

mod answers;
mod links;
mod local;
mod small_writes;

use super::compare::{Inode, Names, TargetState};
use super::directories::{Directory, DirectoryId, Presence};
use super::endpoints::{Local, Receive, Remote};
use super::events::{EntryAction, Observer};
use super::hard_links::HardLinks;
use super::main_loop;
use super::read_only::closes;
use super::received_metadata::{XATTR_ROOM, known_here};
use super::scheduler::{self, CallResult, Entry, LIST_ROOM, Run, Scheduler, StopReason, TreeCopy, Turn};
use super::session_remote::SessionRemote;
use super::state::{TreeState, is_in_the_way};
use super::temp_list::TempList;
use super::total::Total;
use super::{Ended, TreeOptions, parse};
use crate::calls::Facts;
use crate::endpoints::RESUME_BYTES_MIN;
use crate::options::GetOptions;
use crate::session::Session;
use crate::transfer::Report;
use bytes::Bytes;
use links::Deferred;
use local::clear_for;
use small_writes::SmallWrites;
use std::collections::BTreeMap;
use std::sync::Arc;
use xdfs_engine::blocking::Blocking;
use xdfs_io::store::{Existing, LocalStore};
use xdfs_proto::base::{Error, ErrorKind, RelPath, Safety, Timestamp};
use xdfs_proto::wire::path::{Attributes, Call, FileType, Wanted};

/// Memory of directories that wait to be entered: nearly a million of them side by side, where a server may list any number.
const WAITING_BYTES_MAX: usize = 256 << 20;

/// Memory of one of them, besides its path.
const WAITING_ENTRY_BYTES: usize = 256;

fn memory_of(directory: &[u8]) -> usize {
    directory.len() + WAITING_ENTRY_BYTES
}

/// A task that is pending or in flight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum DownloadTask {
    /// Enter the next directory.
    Enter { parent: Option<DirectoryId>, path: Vec<u8>, source: Box<SourceEntry> },
    /// The next page of a directory of the source.
    List { id: DirectoryId, cursor: Vec<u8> },
    /// A file, symbolic link or special file.
    Entry(DownloadEntry),
    /// Compare the content first. If it is equal, set time and attributes, unless they are `same`.
    Check { entry: DownloadEntry, same: bool },
    /// Fetch the names of the extended attributes of an existing entry, with this much room.
    Xattrs { path: Vec<u8>, room: usize },
    /// Fetch one of them, with this much room.
    Xattr { path: Vec<u8>, name: Vec<u8>, room: usize },
    /// All entries of a directory are done: set its mode and time last.
    Finish(DirectoryId),
    /// Remove a name unless the source has it by now: a listing of what changes meanwhile may be without it.
    Remove(Vec<u8>),
}

/// What a download knows of a name that is not a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DownloadSource {
    source: Box<SourceEntry>,
    /// The name must not exist; an existing one is detected.
    alone: bool,
    /// The existing entry to remove once the new one has arrived.
    clears: Option<TargetState>,
}

/// A name that is not a directory.
pub(super) type DownloadEntry = Entry<DownloadSource>;

/// The attributes that the server reports for an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SourceEntry {
    kind: FileType,
    mode: u32,
    size: u64,
    modified: Option<Timestamp>,
    owner: Option<(u32, u32)>,
    device: (u32, u32),
    /// It occupies less space than its size.
    holes: bool,
    text: Vec<u8>,
}

impl SourceEntry {
    fn of(told: &Attributes<'_>) -> Self {
        Self {
            kind: told.kind,
            mode: told.mode.unwrap_or(0o644),
            size: told.size.unwrap_or(0),
            modified: told.modified,
            owner: told.owner.map(|numbers| known_here(numbers, told.names)),
            device: told.device.unwrap_or((0, 0)),
            holes: told.allocated.zip(told.size).is_some_and(|(allocated, size)| allocated < size),
            text: told.target.unwrap_or_default().to_vec(),
        }
    }
}

/// The download of a tree. It outlives sessions: a new session continues where a lost one ended.
#[derive(Debug)]
pub struct Download {
    store: Arc<dyn Local>,
    options: TreeOptions,
    scheduler: Scheduler<DownloadTask, DownloadSource>,
    state: TreeState,
    /// Memory of the directories that are still to be entered.
    entering: usize,
    /// The listed names of directories whose listing is not complete.
    listed: BTreeMap<DirectoryId, Names>,
    partners: HardLinks<Inode, (u64, u64)>,
    late: Deferred,
    /// Names to delete.
    surplus: TempList,
    /// Where the source is counted, if somebody looks.
    total: Option<Arc<Total>>,
    /// Threads that write small files while this one requests more.
    writers: Blocking,
}

impl Download {
    /// Downloads the tree at `base` (`EXPORT/path`) into the existing directory of `store`. With
    /// `fresh` it was made for this copy.
    pub fn new(store: LocalStore, base: impl Into<Vec<u8>>, fresh: bool, options: TreeOptions) -> Self {
        Self::over(Arc::new(crate::journal::authenticated(store)), base.into(), fresh, options)
    }

    /// The same for any local end.
    pub(super) fn over(store: Arc<dyn Local>, base: Vec<u8>, fresh: bool, options: TreeOptions) -> Self {
        let mut state = TreeState::default();
        if !fresh && !options.dry_run {
            store.remove_useless(&RelPath::default());
        }
        let unlocked = !options.dry_run && store.unlock(&RelPath::default());
        let top = Directory::new(Vec::new(), None, Presence::local(fresh, unlocked));
        let id = state.directories.enter(top);
        Self {
            store,
            scheduler: Scheduler::new(base, options.durable, DownloadTask::List { id, cursor: Vec::new() }),
            options,
            state,
            entering: 0,
            listed: BTreeMap::new(),
            partners: HardLinks::default(),
            late: Deferred::default(),
            surplus: TempList::default(),
            total: None,
            writers: small_writes::writers(),
        }
    }

    /// Sets mode, time and owner of the top, as the server reported them, like those of all other
    /// directories.
    #[must_use]
    pub fn with_top(mut self, told: &Facts) -> Self {
        let keep = self.options.keep;
        if let Some(top) = self.state.directories.get_mut(0) {
            let bits = if keep.modes { 0o7777 } else { 0o777 };
            top.mode = told.mode.map_or(top.mode, |mode| mode & bits);
            (top.modified, top.touched) = (told.modified, true);
            let names = told.names.as_ref().filter(|_| !keep.numeric);
            let names = names.map(|(user, group)| (user.as_slice(), group.as_slice()));
            top.owner = told.owner.filter(|_| keep.owners).map(|numbers| known_here(numbers, names));
            if keep.xattrs && !self.options.dry_run {
                self.scheduler.tasks.push(DownloadTask::Xattrs { path: Vec::new(), room: XATTR_ROOM });
            }
        }
        self
    }

    /// Counts beside the copy what the source holds, unless it is not a session's.
    pub fn count_into(&mut self, total: Arc<Total>) {
        self.total = Some(total);
    }

    /// Runs over this session until everything was tried, the application stops it, or the session
    /// is lost.
    pub fn run(&mut self, session: &Session, observer: &mut dyn Observer) -> Ended {
        let mut remote = SessionRemote::new(session, Arc::clone(&self.store), Some(self.writers.clone()));
        let Some(total) = self.total.clone() else { return self.run_over(&mut remote, observer) };
        let (base, options) = (self.scheduler.base.clone(), self.options.clone());
        let count = |total: &Total| total.count_remote(session, &base, &options);
        total.beside(count, || self.run_over(&mut remote, observer))
    }

    /// The same over anything that carries out what a session would.
    pub fn run_over(&mut self, remote: &mut dyn Remote, observer: &mut dyn Observer) -> Ended {
        main_loop::run(self, remote, observer)
    }
}

impl TreeCopy for Download {
    type Task = DownloadTask;
    type Detail = DownloadSource;

    fn scheduler(&mut self) -> &mut Scheduler<DownloadTask, DownloadSource> {
        &mut self.scheduler
    }

    fn state(&mut self) -> &mut TreeState {
        &mut self.state
    }

    fn bytes_of(source: &DownloadSource) -> u64 {
        if source.source.kind == FileType::Regular { source.source.size } else { 0 }
    }

    fn finish_of(id: DirectoryId) -> DownloadTask {
        DownloadTask::Finish(id)
    }

    fn again(&mut self, task: DownloadTask) -> DownloadTask {
        // Nothing was done locally before the answer arrived.
        task
    }

    fn large_again(&self, mut large: DownloadEntry) -> DownloadTask {
        // It may have been renamed to its final name at the very end of its session.
        large.detail.alone = false;
        DownloadTask::Entry(large)
    }

    fn may_end_at(_: &DownloadTask) -> bool {
        // The server is looked at, and nothing else.
        true
    }

    fn contended(&self, large: DownloadEntry) -> DownloadTask {
        DownloadTask::Entry(large)
    }

    fn answered(
        &mut self,
        remote: &mut dyn Remote,
        observer: &mut dyn Observer,
        reply: &Bytes,
        tasks: Vec<DownloadTask>,
        answers: Vec<CallResult<'_>>,
    ) {
        let mut arrived = SmallWrites::default();
        for (task, CallResult { outcome, .. }) in tasks.into_iter().zip(answers) {
            self.answer(observer, task, outcome, reply, &mut arrived);
        }
        self.place(remote, reply.len(), arrived);
    }

    fn placed(&mut self, observer: &mut dyn Observer, entry: DownloadEntry, outcome: Result<Safety, Error>) {
        match outcome {
            Ok(safety) => {
                self.add_extras(observer, &entry);
                self.done(observer, &entry, entry.detail.copied(safety));
            }
            // It was not there when it was begun: another copy of the tree was faster, or this one, in
            // a session that was lost.
            Err(error) if error.kind == ErrorKind::AlreadyExists && self.is_there(&entry) => {
                self.add_extras(observer, &entry);
                self.done(observer, &entry, EntryAction::Skipped);
            }
            Err(error) if error.kind == ErrorKind::AlreadyExists && self.options.keep_existing => {
                self.state.note_not_copied(&entry.path);
                self.done(observer, &entry, EntryAction::Skipped);
            }
            Err(error) => self.refused(observer, &entry, &error),
        }
    }

    fn moved(&mut self, observer: &mut dyn Observer, mut entry: DownloadEntry, report: Result<Report, Error>) {
        let above = self.state.directories.get(entry.directory).map(|directory| directory.path.clone());
        match report {
            Ok(report) => {
                entry.detail.source.size = report.length;
                self.tell_cleared(observer, &entry);
                self.placed(observer, entry, Ok(report.safety));
            }
            // The server may have reported this for its own file.
            Err(error)
                if error.kind == ErrorKind::NotFound
                    || (closes(&error) || error.kind == ErrorKind::PermissionDenied)
                        && above.is_none_or(|above| self.may_hold(&above)) =>
            {
                self.failed(observer, &entry, &error);
            }
            Err(error) if entry.detail.clears.is_some_and(TargetState::is_directory) => {
                self.not_cleared(observer, &entry, &error);
            }
            Err(error) => self.placed(observer, entry, Err(error)),
        }
    }

    fn next_phase(&mut self, observer: &mut dyn Observer) -> bool {
        self.take_up_late(observer)
    }

    fn take(
        &mut self,
        remote: &mut dyn Remote,
        observer: &mut dyn Observer,
        task: DownloadTask,
    ) -> Run<Turn<DownloadTask>> {
        match task {
            DownloadTask::Enter { parent, path, source } => {
                self.entering = self.entering.saturating_sub(memory_of(&path));
                self.enter(observer, parent, path, &source);
                Ok(Turn::Taken)
            }
            DownloadTask::List { id, ref cursor } => {
                // A directory is known as long as anything waits for it.
                let Some(directory) = self.state.directories.get(id) else { return Ok(Turn::Taken) };
                let path = directory.path.clone();
                let call = Call::List { path: &path, wanted: self.wanted(), cursor: &cursor.clone() };
                Ok(self.scheduler.ask_last(remote, &call, LIST_ROOM, task))
            }
            DownloadTask::Entry(entry) => self.entry(remote, observer, entry),
            DownloadTask::Check { ref entry, .. } => {
                let path = entry.path.clone();
                Ok(self.scheduler.ask(remote, &Call::Hash { path: &path, offset: 0, length: None }, task))
            }
            DownloadTask::Xattrs { ref path, room } => {
                let path = path.clone();
                Ok(self.scheduler.ask_last(remote, &Call::XattrNames { path: &path }, room, task))
            }
            DownloadTask::Xattr { ref path, ref name, room } => {
                let (path, name) = (path.clone(), name.clone());
                Ok(self.scheduler.ask_last(remote, &Call::XattrValue { path: &path, name: &name }, room, task))
            }
            DownloadTask::Finish(id) => {
                self.finish(observer, id);
                Ok(Turn::Taken)
            }
            DownloadTask::Remove(path) => self.remove(remote, observer, path),
        }
    }

    fn begin(
        &mut self,
        remote: &mut dyn Remote,
        observer: &mut dyn Observer,
        entry: DownloadEntry,
    ) -> Run<Option<DownloadEntry>> {
        let target = match parse(&entry.path) {
            Ok(target) => target,
            Err(error) => {
                self.failed(observer, &entry, &error);
                return Ok(None);
            }
        };
        let (existing, holes) = (self.existing(&entry), entry.detail.source.holes);
        let (store, at, rules) = (Arc::clone(&self.store), target.clone(), self.options.clone());
        let found = (entry.detail.clears, entry.detail.source.kind);
        let clear = Box::new(move || clear_for(&*store, &at, found, &rules).map(drop));
        let options = GetOptions {
            durable: self.options.durable,
            // Nothing was left of a shorter one.
            resume: entry.detail.source.size >= RESUME_BYTES_MIN && entry.tries == 0,
            verify: self.options.verify,
            owner_follows: self.options.keep.owner_follows(),
            ..GetOptions::default()
        };
        let (number, from) = (self.scheduler.in_flight.number(), super::join(&self.scheduler.base, &entry.path));
        match remote.receive(number, &from, Receive { target, existing, holes, clear, options }) {
            Ok(()) => {
                self.scheduler.moves(entry);
                Ok(None)
            }
            Err(error) => {
                self.scheduler.large.push_front(entry);
                Err(StopReason::Lost(error))
            }
        }
    }
}

impl Download {
    /// The attributes that are requested for every entry.
    fn wanted(&self) -> Wanted {
        let keep = self.options.keep;
        let wish = |wished: bool, wanted: Wanted| if wished { wanted } else { Wanted::NOTHING };
        let usual = Wanted::MODE.and(Wanted::SIZE).and(Wanted::MODIFIED).and(Wanted::TARGET);
        usual
            .and(wish(keep.links, Wanted::LINKS.and(Wanted::INODE)))
            .and(wish(keep.owners, Wanted::OWNER))
            .and(wish(keep.owners && !keep.numeric, Wanted::NAMES))
            .and(wish(keep.specials, Wanted::DEVICE))
            .and(wish(keep.holes, Wanted::ALLOCATED))
    }

    /// Whether new names may be made in a directory of the target.
    fn may_hold(&self, path: &[u8]) -> bool {
        parse(path).is_ok_and(|path| self.store.may_hold_new(&path))
    }

    fn existing(&self, entry: &DownloadEntry) -> Existing {
        if entry.detail.alone || self.options.keep_existing { Existing::Keep } else { Existing::Replace }
    }

    /// Makes a directory, or enters the existing one.
    fn enter(&mut self, observer: &mut dyn Observer, parent: Option<DirectoryId>, path: Vec<u8>, source: &SourceEntry) {
        let alone = parent.and_then(|id| self.state.directories.get(id)).is_some_and(|above| above.presence.is_new());
        let made = self.make_directory(&path, source, alone);
        let settled = |this: &mut Self| parent.into_iter().for_each(|id| this.settle(id));
        let fresh = match made {
            Ok(fresh) => fresh,
            Err(error) => {
                self.state.incomplete |= !is_in_the_way(error.kind);
                match parent {
                    Some(parent) => self.state.refused(observer, parent, &path, &error),
                    None => self.state.hopeless = Some(error),
                }
                return settled(self);
            }
        };
        if fresh {
            self.state.summary.directories += 1;
            observer.done(&path, EntryAction::Made);
        } else if let (Ok(at), false) = (parse(&path), self.options.dry_run) {
            // If the top cannot hold the files in progress, each directory does.
            self.store.remove_useless(&at);
        }
        let bits = if self.options.keep.modes { 0o7777 } else { 0o777 };
        let unlocked = !fresh && !self.options.dry_run && parse(&path).is_ok_and(|at| self.store.unlock(&at));
        let mut directory = Directory::new(path.clone(), parent, Presence::local(fresh, unlocked));
        (directory.mode, directory.modified) = (source.mode & bits, source.modified);
        directory.owner = source.owner.filter(|_| self.options.keep.owners);
        // An existing directory gets the time of its source, too.
        directory.touched = true;
        let id = self.state.directories.enter(directory);
        // It now holds its parent itself.
        settled(self);
        self.ask_xattrs(path);
        self.scheduler.tasks.push(DownloadTask::List { id, cursor: Vec::new() });
    }

    fn entry(
        &mut self,
        remote: &mut dyn Remote,
        observer: &mut dyn Observer,
        entry: DownloadEntry,
    ) -> Run<Turn<DownloadTask>> {
        if self.options.dry_run {
            let action = match entry.detail.source.kind {
                FileType::Regular => entry.detail.copied(Safety::Written),
                _ => EntryAction::Made,
            };
            self.done(observer, &entry, action);
            return Ok(Turn::Taken);
        }
        if self.passes_over(&entry) {
            return Ok(Turn::Taken);
        }
        if entry.detail.source.kind != FileType::Regular {
            if let Err(error) = self.make_way(observer, &entry) {
                self.not_made_way(observer, &entry, &error);
                return Ok(Turn::Taken);
            }
            match self.make(&entry) {
                Ok(()) => {
                    self.add_extras(observer, &entry);
                    self.done(observer, &entry, EntryAction::Made);
                }
                Err(error) => self.refused(observer, &entry, &error),
            }
            return Ok(Turn::Taken);
        }
        if !self.scheduler.takes_path(remote, entry.path.len()) {
            self.failed(observer, &entry, &scheduler::too_long());
            return Ok(Turn::Taken);
        }
        if entry.detail.source.size > self.scheduler.content_max(remote, entry.path.len(), 0) {
            if !self.scheduler.takes_large() {
                return Ok(Turn::Later(DownloadTask::Entry(entry)));
            }
            self.scheduler.large.push_back(entry);
            return Ok(Turn::Taken);
        }
        let (path, wanted) = (entry.path.clone(), Wanted::MODE.and(Wanted::SIZE).and(Wanted::MODIFIED));
        // Its size is at most that of a batch.
        let most = entry.detail.source.size as u32;
        Ok(self.scheduler.ask(remote, &Call::Get { path: &path, wanted, most }, DownloadTask::Entry(entry)))
    }
}
