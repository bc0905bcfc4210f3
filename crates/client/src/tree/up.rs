//! The upload of a tree to a server.

mod answers;
mod clearing;
mod links;
mod sending;
mod task;
mod walk;

use super::compare::{Inode, Names, TargetState};
use super::directories::{Directory, DirectoryId, Presence};
use super::endpoints::{Local, NotBegun, Remote};
use super::events::{EntryAction, Observer};
use super::hard_links::HardLinks;
use super::main_loop;
use super::replies::wait_for_descriptors;
use super::scheduler::{self, CallResult, EXTRAS_BYTES_MAX, LIST_ROOM, Run, Scheduler, StopReason, TreeCopy, Turn};
use super::session_remote::SessionRemote;
use super::state::TreeState;
use super::temp_list::TempList;
use super::total::Total;
use super::{Ended, TreeOptions, parse};
use crate::options::PutOptions;
use crate::session::Session;
use crate::transfer::Report;
use bytes::Bytes;
use links::Deferred;
pub(super) use sending::Extras;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use task::{LinkAnswer, UploadEntry, UploadSource, UploadTask};
use xdfs_io::store::descriptors::are_scarce;
use xdfs_io::store::tree::{Node, NodeKind};
use xdfs_io::store::{LocalStore, SmallReader};
use xdfs_proto::base::{Error, ErrorKind, RelPath};
use xdfs_proto::wire::path::{Call, NewTime, Wanted};

/// Directories that are made in one batch ahead of an entry; for a deeper one the outermost are
/// made first.
const ABOVE_MAX: usize = 16;

/// The upload of a tree. It outlives sessions: a new session continues where a lost one ended.
#[derive(Debug)]
pub struct Upload {
    store: Arc<dyn Local>,
    scheduler: Scheduler<UploadTask, UploadSource>,
    options: TreeOptions,
    state: TreeState,
    /// Directories that the batch with this number makes.
    making: (u64, BTreeSet<DirectoryId>),
    /// Reads small files.
    reading: SmallReader,
    /// What the target has in directories that are not walked yet.
    there: BTreeMap<DirectoryId, Names>,
    partners: HardLinks<(u64, u64), Inode>,
    /// For the link that is answered next.
    link_answer: LinkAnswer,
    late: Deferred,
    /// Names to delete.
    surplus: TempList,
    /// Where the source is counted, if somebody looks.
    total: Option<Arc<Total>>,
}

impl Upload {
    /// Uploads the tree below `store` to `base` (`EXPORT/path`). With `fresh`, `base` does not
    /// exist yet and nothing is compared.
    pub fn new(store: LocalStore, base: impl Into<Vec<u8>>, fresh: bool, options: TreeOptions) -> Result<Self, Error> {
        Self::over(Arc::new(store), base.into(), fresh, options)
    }

    /// The same for any local end.
    pub(super) fn over(store: Arc<dyn Local>, base: Vec<u8>, fresh: bool, options: TreeOptions) -> Result<Self, Error> {
        let node = Box::new(store.node(&RelPath::default())?);
        if node.kind != NodeKind::Directory {
            return Err(Error::new(ErrorKind::NotDirectory, "the top of a tree has to be a directory"));
        }
        // The mode of an existing directory is unknown; it may be locked if the mode of its source
        // locks it.
        let there = (!fresh).then(|| TargetState::directory(false, Some(node.mode)));
        let first = UploadTask::Enter { parent: None, path: Vec::new(), node, there };
        Ok(Self {
            store,
            scheduler: Scheduler::new(base, options.durable, first),
            options,
            state: TreeState::default(),
            making: (0, BTreeSet::new()),
            reading: SmallReader::default(),
            there: BTreeMap::new(),
            partners: HardLinks::default(),
            link_answer: LinkAnswer::None,
            late: Deferred::default(),
            surplus: TempList::default(),
            total: None,
        })
    }

    /// Counts beside the copy what the source holds.
    pub fn count_into(&mut self, total: Arc<Total>) {
        self.total = Some(total);
    }

    /// Runs over this session until everything was tried, the application stops it, or the session
    /// is lost.
    pub fn run(&mut self, session: &Session, observer: &mut dyn Observer) -> Ended {
        let mut remote = SessionRemote::new(session, Arc::clone(&self.store), None);
        self.run_over(&mut remote, observer)
    }

    /// The same over anything that carries out what a session would.
    pub fn run_over(&mut self, remote: &mut dyn Remote, observer: &mut dyn Observer) -> Ended {
        let Some(total) = self.total.clone() else { return main_loop::run(self, remote, observer) };
        let (store, options) = (Arc::clone(&self.store), self.options.clone());
        total.beside(|total| total.count_local(&*store, &options), || main_loop::run(self, remote, observer))
    }
}

impl TreeCopy for Upload {
    type Task = UploadTask;
    type Detail = UploadSource;

    fn scheduler(&mut self) -> &mut Scheduler<UploadTask, UploadSource> {
        &mut self.scheduler
    }

    fn state(&mut self) -> &mut TreeState {
        &mut self.state
    }

    fn bytes_of(source: &UploadSource) -> u64 {
        if source.node.kind == NodeKind::Regular { source.node.size } else { 0 }
    }

    fn finish_of(id: DirectoryId) -> UploadTask {
        UploadTask::Finish(id)
    }

    fn again(&mut self, task: UploadTask) -> UploadTask {
        match task {
            UploadTask::Entry(entry) | UploadTask::Arrived(entry, _) => self.large_again(entry),
            UploadTask::Make(id) => {
                self.state.directories.asked_again(id);
                task
            }
            task => task,
        }
    }

    fn large_again(&self, large: UploadEntry) -> UploadTask {
        // The previous file may have had the same size and time: ignore these if the options do.
        match large.detail.node.kind {
            NodeKind::Regular if self.options.checksum => UploadTask::Check { entry: large, same: false },
            NodeKind::Regular if !self.options.skip_same => UploadTask::Entry(large),
            _ => UploadTask::Look(large),
        }
    }

    fn contended(&self, large: UploadEntry) -> UploadTask {
        self.large_again(large)
    }

    fn answered(
        &mut self,
        _: &mut dyn Remote,
        observer: &mut dyn Observer,
        _: &Bytes,
        tasks: Vec<UploadTask>,
        answers: Vec<CallResult<'_>>,
    ) {
        for (task, CallResult { outcome, safety }) in tasks.into_iter().zip(answers) {
            self.answer(observer, task, outcome, safety);
        }
    }

    fn moved(&mut self, observer: &mut dyn Observer, entry: UploadEntry, report: Result<Report, Error>) {
        match report {
            Ok(report) => {
                if self.extras(&entry.path, &entry.detail.node).count() > 0 {
                    self.scheduler.tasks.push(UploadTask::Extras(entry.clone()));
                }
                self.done(observer, &entry, EntryAction::copied(report.length, report.safety, entry.detail.exists));
            }
            Err(error) if error.kind == ErrorKind::AlreadyExists && self.options.keep_existing => {
                self.state.note_not_copied(&entry.path);
                self.done(observer, &entry, EntryAction::Skipped);
            }
            Err(error) => self.refused(observer, &entry, &error),
        }
    }

    fn stands_alone(&self, task: &UploadTask) -> bool {
        !matches!(task, UploadTask::Extra(_) | UploadTask::Step | UploadTask::LinkFirst | UploadTask::BeforeLink)
    }

    fn may_end_at(task: &UploadTask) -> bool {
        // What is under a temporary name, unlocked, or without its attributes is put right by the calls behind it.
        matches!(task, UploadTask::Entry(_) | UploadTask::Make(_) | UploadTask::Compare { .. })
    }

    fn next_phase(&mut self, observer: &mut dyn Observer) -> bool {
        self.take_up_late(observer)
    }

    /// Takes on a task, or returns it if something has to be answered first.
    fn take(
        &mut self,
        remote: &mut dyn Remote,
        observer: &mut dyn Observer,
        task: UploadTask,
    ) -> Run<Turn<UploadTask>> {
        match task {
            UploadTask::Enter { parent, path, node, there } => {
                self.enter(observer, parent, path, &node, there);
                Ok(Turn::Taken)
            }
            UploadTask::Walk { id, cursor } => {
                self.walk(observer, id, &cursor);
                Ok(Turn::Taken)
            }
            UploadTask::Compare { id, ref cursor } => {
                // A directory is known as long as anything waits for it.
                let Some(directory) = self.state.directories.get(id) else { return Ok(Turn::Taken) };
                let (path, presence) = (directory.path.clone(), directory.presence);
                if presence == (Presence::Locked { unlisted: true }) {
                    return self.open_closed(remote, id, task);
                }
                let wanted = Wanted::SIZE.and(Wanted::MODIFIED).and(Wanted::MODE).and(Wanted::TARGET);
                let keep = self.options.keep;
                let wanted = if keep.links { wanted.and(Wanted::LINKS).and(Wanted::INODE) } else { wanted };
                let wanted = if keep.owners { wanted.and(Wanted::OWNER) } else { wanted };
                let wanted = if keep.owners && !keep.numeric { wanted.and(Wanted::NAMES) } else { wanted };
                let cursor = cursor.clone();
                Ok(self.scheduler.ask_last(
                    remote,
                    &Call::List { path: &path, wanted, cursor: &cursor },
                    LIST_ROOM,
                    task,
                ))
            }
            UploadTask::Make(id) => self.make(remote, id),
            UploadTask::Entry(entry) => self.entry(remote, observer, entry),
            UploadTask::Clear(entry) => self.clear(remote, observer, entry),
            UploadTask::ClearDirectory(entry) => self.clear_directory(observer, entry),
            UploadTask::ClearEmpty(entry) => self.clear_empty(remote, entry),
            UploadTask::Check { ref entry, .. } | UploadTask::Arrived(ref entry, _) => {
                let path = entry.path.clone();
                Ok(self.scheduler.ask(remote, &Call::Hash { path: &path, offset: 0, length: None }, task))
            }
            UploadTask::Look(ref entry) => {
                let path = entry.path.clone();
                // The longest text of a link is longer than all other attributes together.
                let wanted = match entry.detail.node.kind {
                    NodeKind::Symlink => Wanted::TARGET,
                    _ => Wanted::SIZE.and(Wanted::MODIFIED).and(Wanted::DEVICE),
                };
                Ok(self.scheduler.ask(remote, &Call::Stat { path: &path, wanted }, task))
            }
            UploadTask::Time(ref path, modified) => {
                let path = path.clone();
                let call = Call::SetTimes { path: &path, modified: Some(NewTime::At(modified)), accessed: None };
                Ok(self.scheduler.ask(remote, &call, task))
            }
            UploadTask::Extras(entry) | UploadTask::ExtraOf(entry, _) => self.extras_alone(remote, entry),
            UploadTask::SpecialMode(ref path, mode) => {
                let path = path.clone();
                Ok(self.scheduler.ask(remote, &Call::SetMode { path: &path, mode }, task))
            }
            UploadTask::Extra(_) | UploadTask::Step => Ok(Turn::Taken),
            UploadTask::Finish(id) => self.finish(remote, id),
            late => self.take_late(remote, observer, late),
        }
    }

    /// Begins the transfer of a large file once its directory exists.
    fn begin(
        &mut self,
        remote: &mut dyn Remote,
        observer: &mut dyn Observer,
        entry: UploadEntry,
    ) -> Run<Option<UploadEntry>> {
        if self.state.directories.get(entry.directory).is_some_and(|directory| !directory.presence.is_ready()) {
            return Ok(Some(entry));
        }
        if self.passes_over(&entry) {
            return Ok(None);
        }
        self.begin_transfer(remote, observer, entry).map(|()| None)
    }
}

impl Upload {
    fn enter(
        &mut self,
        observer: &mut dyn Observer,
        parent: Option<DirectoryId>,
        path: Vec<u8>,
        node: &Node,
        there: Option<TargetState>,
    ) {
        let fresh = !there.is_some_and(TargetState::is_directory);
        if let Some(parent) = parent.filter(|_| there.is_some() && fresh && self.options.keep_existing) {
            let error = Error::new(ErrorKind::NotDirectory, "something else is there, and is to be kept");
            self.state.refused(observer, parent, &path, &error);
            return self.settle(parent);
        }
        if fresh && self.options.dry_run && parent.is_some() {
            self.state.summary.directories += 1;
            observer.done(&path, EntryAction::Made);
        }
        let bits = if self.options.keep.modes { 0o7777 } else { 0o777 };
        let mut directory = Directory::new(path, parent, Presence::of(there));
        (directory.mode, directory.modified) = (node.mode & bits, Some(node.modified));
        directory.touched = !matches!(there, Some(TargetState::Directory | TargetState::LockedDirectory));
        let id = self.state.directories.enter(directory);
        // It now holds its parent itself.
        if let Some(parent) = parent {
            self.settle(parent);
        }
        self.scheduler.tasks.push(match fresh {
            true => UploadTask::Walk { id, cursor: Vec::new() },
            false => UploadTask::Compare { id, cursor: Vec::new() },
        });
    }

    /// Adds calls that make the ancestors that are not known to exist, ahead of an entry in the
    /// same batch.
    fn make_above(&mut self, id: DirectoryId) {
        for missing in self.state.directories.missing(id) {
            self.make_one(missing);
        }
    }

    fn make_one(&mut self, id: DirectoryId) {
        // A directory is known as long as anything waits for it.
        let Some(directory) = self.state.directories.get(id) else { return };
        if self.making.0 != self.scheduler.sent {
            self.making = (self.scheduler.sent, BTreeSet::new());
        }
        if !self.making.1.insert(id) {
            return;
        }
        // The owner needs access until the directory is finished.
        let mode = directory.mode & 0o777 | 0o700;
        let path = directory.path.clone();
        match directory.presence {
            Presence::Missing { in_its_way: true, .. } => {
                // In the same batch, so that nothing comes in between; if repeated, it finds a
                // directory and fails.
                self.scheduler.batch.push(&Call::Unlink { path: &path }, UploadTask::Step);
            }
            Presence::Locked { .. } | Presence::Unlocked => {
                return self.scheduler.batch.push(&Call::SetMode { path: &path, mode }, UploadTask::Make(id));
            }
            Presence::Missing { .. } | Presence::Made { .. } | Presence::Failed | Presence::Existed => {}
        }
        self.scheduler.batch.push(&Call::MakeDirectory { path: &path, parents: true, mode }, UploadTask::Make(id));
    }

    /// Calls and bytes that [`Self::make_above`] would add; `None` if that is more than fits ahead
    /// of an entry: the outermost ones are then sent first and have to exist before it continues.
    fn above(&mut self, remote: &mut dyn Remote, id: DirectoryId) -> Option<(usize, usize)> {
        let missing = self.state.directories.missing(id);
        let of = |this: &Self, id: &DirectoryId| this.state.directories.get(*id).map_or((0, 0), Directory::making);
        let add = |sum: (usize, usize), one: (usize, usize)| (sum.0 + one.0, sum.1 + one.1);
        let (calls, bytes) = missing.iter().map(|id| of(self, id)).fold((0, 0), add);
        let most = remote.batch_bytes_max() / 4;
        if calls <= ABOVE_MAX && bytes <= most {
            return Some((calls, bytes));
        }
        if self.scheduler.in_flight.is_empty() {
            self.scheduler.flush(remote);
            let mut sum = 0;
            for (index, id) in missing.iter().take(ABOVE_MAX).enumerate() {
                sum += of(self, id).1;
                if index > 0 && sum > most {
                    break;
                }
                self.make_one(*id);
            }
            self.scheduler.flush(remote);
        }
        None
    }

    fn make(&mut self, remote: &mut dyn Remote, id: DirectoryId) -> Run<Turn<UploadTask>> {
        if self.options.dry_run {
            return Ok(Turn::Taken);
        }
        let Some((calls, bytes)) = self.above(remote, id) else { return Ok(Turn::Later(UploadTask::Make(id))) };
        if !self.scheduler.make_room(remote, calls, bytes, 0) {
            return Ok(Turn::Later(UploadTask::Make(id)));
        }
        self.make_above(id);
        Ok(Turn::Taken)
    }

    fn entry(
        &mut self,
        remote: &mut dyn Remote,
        observer: &mut dyn Observer,
        entry: UploadEntry,
    ) -> Run<Turn<UploadTask>> {
        if self.options.dry_run {
            let action = match entry.detail.node.kind {
                NodeKind::Regular => {
                    EntryAction::copied(entry.detail.node.size, xdfs_proto::base::Safety::Written, entry.detail.exists)
                }
                _ => EntryAction::Made,
            };
            self.done(observer, &entry, action);
            return Ok(Turn::Taken);
        }
        if self.passes_over(&entry) {
            return Ok(Turn::Taken);
        }
        if !self.scheduler.takes_path(remote, entry.path.len()) {
            self.failed(observer, &entry, &scheduler::too_long());
            return Ok(Turn::Taken);
        }
        match entry.detail.node.kind {
            NodeKind::Regular => self.file(remote, observer, entry),
            NodeKind::Symlink => self.symlink(remote, observer, entry),
            _ => self.special(remote, entry),
        }
    }

    fn begin_transfer(&mut self, remote: &mut dyn Remote, observer: &mut dyn Observer, entry: UploadEntry) -> Run<()> {
        let options = PutOptions {
            keep_existing: self.options.keep_existing,
            mode: Some(entry.detail.node.mode & 0o777),
            durable: self.options.durable,
            // If another copy of the same file is running, each writes its own.
            resume: entry.tries == 0,
            verify: self.options.verify,
            holes: self.has_holes(&entry.detail.node),
            ..PutOptions::default()
        };
        let (number, to) = (self.scheduler.in_flight.number(), super::join(&self.scheduler.base, &entry.path));
        let path = parse(&entry.path).map_err(NotBegun::Unreadable);
        match path.and_then(|path| remote.send(number, &path, &to, &options)) {
            Ok(()) => self.scheduler.moves(entry),
            Err(NotBegun::Unreadable(error)) if are_scarce(&error) => {
                self.scheduler.large.push_back(entry);
                return wait_for_descriptors(self, error);
            }
            Err(NotBegun::Unreadable(error)) => self.failed(observer, &entry, &error),
            Err(NotBegun::Lost(error)) => {
                self.scheduler.large.push_front(entry);
                return Err(StopReason::Lost(error));
            }
        }
        Ok(())
    }

    /// Makes the last calls about a directory.
    fn finish(&mut self, remote: &mut dyn Remote, id: DirectoryId) -> Run<Turn<UploadTask>> {
        // A directory is known as long as anything waits for it.
        let Some(directory) = self.state.directories.get(id).cloned() else { return Ok(Turn::Taken) };
        if !directory.touched || self.options.dry_run || self.state.directories.is_lost(id) {
            self.left(id);
            return Ok(Turn::Taken);
        }
        // Nothing was put into a directory that was locked all the time.
        let locked = matches!(directory.presence, Presence::Locked { .. } | Presence::Unlocked);
        let above = if locked { Some((0, 0)) } else { self.above(remote, id) };
        let Some((calls, bytes)) = above else { return Ok(Turn::Later(UploadTask::Finish(id))) };
        let node = RelPath::parse(&directory.path).ok().and_then(|path| self.store.node(&path).ok());
        let mut extras = node.as_ref().map(|node| self.extras(&directory.path, node)).unwrap_or_default();
        if (extras.bytes(directory.path.len()) > EXTRAS_BYTES_MAX || extras.special_mode(true).is_some())
            && let Some(node) = node
        {
            extras = Extras::default();
            let (path, node) = (directory.path.clone(), Box::new(node));
            self.scheduler.tasks.push(UploadTask::Extras(UploadEntry::of(id, path, node)));
        }
        if !self.options.keep.modes && (directory.presence.has_other_mode() || directory.mode & 0o700 != 0o700) {
            extras.mode(directory.mode & 0o777);
        }
        if !self.scheduler.make_room(
            remote,
            calls + 1 + extras.count(),
            2 * directory.path.len() + bytes + extras.bytes(directory.path.len()),
            0,
        ) {
            return Ok(Turn::Later(UploadTask::Finish(id)));
        }
        if !locked {
            self.make_above(id);
        }
        extras.push(&mut self.scheduler.batch, &directory.path, UploadTask::Extra);
        let modified = directory.modified.map(NewTime::At);
        let call = Call::SetTimes { path: &directory.path, modified, accessed: None };
        self.scheduler.batch.push(&call, UploadTask::Finish(id));
        Ok(Turn::Taken)
    }
}
