//! Further names of files, and other tasks that have to wait for everything else.

use super::Upload;
use super::clearing::{above, is_locked};
use super::task::{Link, LinkAnswer, LinkPlace, Unlocked, UploadEntry, UploadTask};
use super::walk::is_special;
use crate::tree::compare::{Inode, TargetState};
use crate::tree::directories::{DirectoryId, FINISHED};
use crate::tree::endpoints::Remote;
use crate::tree::events::{EntryAction, Observer};
use crate::tree::hard_links::{Partner, are_impossible, temporary};
use crate::tree::plan::{FirstStep, first_step};
use crate::tree::scheduler::{Run, TRIES_MAX, Turn, too_long};
use crate::tree::state::{full_directory, is_in_the_way};
use crate::tree::temp_list::{Drain, DrainedPair, TempList};
use crate::tree::{NotPreserved, parse};
use std::hash::RandomState;
use xdfs_engine::kinds;
use xdfs_io::store::descriptors::are_scarce;
use xdfs_io::store::tree::Node;
use xdfs_proto::base::{Error, ErrorKind, RelPath};
use xdfs_proto::wire::path::{Answer, Call, FileType, NewTime, Wanted};

/// Tasks that are taken from a list at a time.
const TAKEN: usize = 256;

/// Tasks that are done after everything else.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    /// Further names of files: the first one, and the further one.
    links: TempList,
    /// Directories that got a further name, and directories that were unlocked, with their modes.
    touched: TempList,
    /// The key of temporary names.
    key: RandomState,
    phase: LatePhase,
}

/// Which of these are being done, with the rest of their list.
#[derive(Debug, Default)]
enum LatePhase {
    #[default]
    Before,
    /// Further names are made.
    Linking(Drain),
    /// What the source does not have is removed.
    Removing(Drain),
    /// Directories get their times and modes again.
    Touching(Drain),
}

impl LatePhase {
    /// The next pairs of the list; none at its end.
    fn take(&mut self) -> Vec<DrainedPair> {
        match self {
            Self::Before => Vec::new(),
            Self::Linking(list) | Self::Removing(list) | Self::Touching(list) => list.take(TAKEN).collect(),
        }
    }
}

impl Upload {
    /// What to do with a name of a file that has several; `None` if it waits for the first one.
    /// `there` is the state that is known without its other names.
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
        let file = self.there.get(&id).and_then(|names| names.inode(name));
        match self.partners.plan(&mut self.late.links, node.identity, path, (there, file)) {
            Ok(Partner::Waits) => {
                if let Some(directory) = self.state.directories.get_mut(id) {
                    directory.touched = true;
                }
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

    /// Starts the tasks that wait for everything else; false when none are left.
    pub(super) fn take_up_late(&mut self, observer: &mut dyn Observer) -> bool {
        if self.options.dry_run {
            return self.tell_late(observer);
        }
        while self.scheduler.tasks.is_empty() {
            let taken = self.late.phase.take();
            if taken.is_empty() && !self.next_late_phase(observer) {
                return false;
            }
            for pair in taken {
                // Else it is told already.
                let Some((first, second)) = self.state.read_back(observer, pair) else { continue };
                let task = self.late_task(observer, first, second);
                self.scheduler.tasks.extend(task);
            }
        }
        true
    }

    /// Goes on to the next kind of late tasks; false after the last one.
    fn next_late_phase(&mut self, observer: &mut dyn Observer) -> bool {
        self.late.phase = match self.late.phase {
            LatePhase::Before => LatePhase::Linking(self.state.drained(observer, &mut self.late.links)),
            LatePhase::Linking(_) => {
                LatePhase::Removing(match self.state.may_delete(observer, &mut self.surplus, &self.options) {
                    true => self.state.drained(observer, &mut self.surplus),
                    false => Drain::default(),
                })
            }
            LatePhase::Removing(_) => LatePhase::Touching(self.state.drained(observer, &mut self.late.touched)),
            LatePhase::Touching(_) => return false,
        };
        true
    }

    /// The task that a pair of the present list stands for; none if it has become superfluous.
    fn late_task(&mut self, observer: &mut dyn Observer, first: Vec<u8>, second: Vec<u8>) -> Option<UploadTask> {
        // The source may have got it since the target was listed, and then it has been sent.
        if matches!(self.late.phase, LatePhase::Removing(_)) && !self.is_absent(&first, observer) {
            return None;
        }
        match self.late.phase {
            // There is no list yet.
            LatePhase::Before => None,
            LatePhase::Linking(_) => {
                let link = Link { first, path: second, place: LinkPlace::Free, unlock: false, tries: 0 };
                Some(UploadTask::Link(link))
            }
            LatePhase::Removing(_) if second == b"d" => {
                Some(UploadTask::RemoveAll { path: first, cursor: Vec::new(), unlock: false })
            }
            LatePhase::Removing(_) => Some(UploadTask::Remove { path: first, unlock: false }),
            LatePhase::Touching(_) => Some(UploadTask::Retouch { path: first, mode: Unlocked::parse(&second) }),
        }
    }

    /// Takes on tasks that are done after everything else.
    pub(super) fn take_late(
        &mut self,
        remote: &mut dyn Remote,
        observer: &mut dyn Observer,
        task: UploadTask,
    ) -> Run<Turn<UploadTask>> {
        match task {
            UploadTask::Link(link) => self.link(remote, observer, link),
            UploadTask::Unlock { ref path, mode, .. } => {
                let path = path.clone();
                let call = match mode {
                    None => Call::Stat { path: &path, wanted: Wanted::MODE },
                    Some(mode) => Call::SetMode { path: &path, mode },
                };
                Ok(self.scheduler.ask(remote, &call, task))
            }
            UploadTask::RemoveTemp(ref path) => {
                let path = path.clone();
                Ok(self.scheduler.ask(remote, &Call::Unlink { path: &path }, task))
            }
            UploadTask::Relock(ref path, mode) => {
                let path = path.clone();
                Ok(self.scheduler.ask(remote, &Call::SetMode { path: &path, mode }, task))
            }
            UploadTask::LinkLook(ref link) => {
                let (first, path) = (link.first.clone(), link.path.clone());
                let wanted = Wanted::INODE.and(Wanted::SIZE).and(Wanted::MODIFIED).and(Wanted::MODE);
                let (one, other) = (Call::Stat { path: &first, wanted }, Call::Stat { path: &path, wanted });
                // In one batch, so that both answers arrive one after the other.
                if !self.scheduler.make_room(remote, 2, first.len() + path.len(), one.room() + other.room()) {
                    return Ok(Turn::Later(task));
                }
                self.scheduler.batch.push(&one, UploadTask::LinkFirst);
                self.scheduler.batch.push(&other, task);
                Ok(Turn::Taken)
            }
            UploadTask::Retouch { ref path, mode } => {
                let path = path.clone();
                if mode.is_some() {
                    return Ok(self.scheduler.ask(remote, &Call::Stat { path: &path, wanted: Wanted::MODE }, task));
                }
                // What is gone from the source has no time to give.
                let Some(node) = RelPath::parse(&path).ok().and_then(|at| self.store.node(&at).ok()) else {
                    return Ok(Turn::Taken);
                };
                let modified = Some(NewTime::At(node.modified));
                Ok(self.scheduler.ask(remote, &Call::SetTimes { path: &path, modified, accessed: None }, task))
            }
            removal => self.take_removal(remote, removal),
        }
    }

    /// Gives a file one more name.
    fn link(&mut self, remote: &mut dyn Remote, observer: &mut dyn Observer, link: Link) -> Run<Turn<UploadTask>> {
        let (first, path) = (link.first.clone(), link.path.clone());
        if !self.scheduler.takes_path(remote, first.len().max(path.len())) {
            self.linked(observer, link, Some(too_long()));
            return Ok(Turn::Taken);
        }
        if let Err(error) = self.state.must_be_copied(&first) {
            self.link_failed(observer, &link.path, &error);
            return Ok(Turn::Taken);
        }
        if link.place == LinkPlace::Directory {
            // What is in it has to be removed first.
            self.scheduler.flush(remote);
            if self.scheduler.has_calls() {
                return Ok(Turn::Later(UploadTask::Link(link)));
            }
        }
        let temp = temporary(&path, &self.late.key);
        if !self.scheduler.make_room(remote, 4, first.len() + 2 * path.len() + 3 * temp.len(), 0) {
            return Ok(Turn::Later(UploadTask::Link(link)));
        }
        let batch = &mut self.scheduler.batch;
        if let LinkPlace::Taken(_) = link.place {
            batch.push(&Call::Link { path: &first, to: &temp }, UploadTask::BeforeLink);
            batch.push(&Call::Rename { path: &temp, to: &path, keep_existing: false }, UploadTask::Link(link));
            // A rename between two names of one file leaves both.
            batch.push(&Call::Unlink { path: &temp }, UploadTask::RemoveTemp(temp.clone()));
            return Ok(Turn::Taken);
        }
        if link.place == LinkPlace::Directory && self.options.delete.is_none() {
            // An empty one makes room; another one stays, and the link fails.
            batch.push(&Call::RemoveDirectory { path: &path }, UploadTask::BeforeLink);
        }
        batch.push(&Call::Link { path: &first, to: &path }, UploadTask::Link(link));
        Ok(Turn::Taken)
    }

    pub(super) fn linked(&mut self, observer: &mut dyn Observer, link: Link, error: Option<Error>) {
        let unmade = match (link.place, std::mem::take(&mut self.link_answer)) {
            // Why there was nothing to rename.
            (LinkPlace::Taken(_), LinkAnswer::Unmade(error)) => Some(error),
            (LinkPlace::Directory, LinkAnswer::Unmade(error)) if error.kind == ErrorKind::NotEmpty => {
                return self.link_failed(observer, &link.path, &full_directory(self.options.delete.is_some()));
            }
            _ => None,
        };
        let Some(error) = unmade.or(error) else {
            self.touch_late(&link.path);
            return self.link_done(observer, &link.path, EntryAction::Made);
        };
        match error.kind {
            ErrorKind::AlreadyExists if self.options.keep_existing && link.place == LinkPlace::Free => {
                // It may have been made in a session that was lost.
                self.touch_late(&link.path);
                self.link_done(observer, &link.path, EntryAction::Skipped);
            }
            ErrorKind::AlreadyExists if link.tries < TRIES_MAX => self.look_at(link),
            // With `-n` nothing is replaced that others have made since.
            _ if are_scarce(&error) && !self.options.keep_existing && link.tries < TRIES_MAX => self.look_at(link),
            _ if is_locked(&error) && !link.unlock => {
                let at = above(&link.path).to_vec();
                self.unlock(&at, UploadTask::Link(Link { unlock: true, ..link }));
            }
            _ if are_impossible(&error) => self.copy_of_its_own(observer, link, &error),
            // What was not granted is counted, as for its first name.
            ErrorKind::NotFound if self.is_special_here(&link.first) => {
                self.state.summary.reduce(NotPreserved::SPECIAL)
            }
            // Somebody removed the first name while the directory was emptied.
            ErrorKind::NotFound if link.place == LinkPlace::Directory => self.copy_of_its_own(observer, link, &error),
            _ => self.link_failed(observer, &link.path, &error),
        }
    }

    fn look_at(&mut self, link: Link) {
        let link = Link { tries: link.tries + 1, ..link };
        self.scheduler.tasks.push(UploadTask::LinkLook(link));
    }

    /// No link can be made there: the name becomes a separate file, as without links.
    fn copy_of_its_own(&mut self, observer: &mut dyn Observer, link: Link, error: &Error) {
        self.state.no_links(observer, &link.path, error);
        let there = match link.place {
            LinkPlace::Taken(state) => Some(state),
            LinkPlace::Free | LinkPlace::Directory => None,
        };
        if there == Some(TargetState::Same) {
            return self.link_done(observer, &link.path, EntryAction::Skipped);
        }
        match parse(&link.path).and_then(|at| self.store.node(&at)) {
            Ok(node) => {
                self.touch_late(&link.path);
                let above = above(&link.path).to_vec();
                let entry = UploadEntry::of(FINISHED, link.path, Box::new(node));
                let step = first_step(kinds::told(entry.detail.node.kind), there, &self.options);
                // Nobody has looked at what has its name.
                let unknown = there.is_none() && step == FirstStep::Send;
                self.unlock(&above, if unknown { UploadTask::Look(entry) } else { UploadTask::first(entry, step) });
            }
            Err(error) => self.link_failed(observer, &link.path, &error),
        }
    }

    /// The name of a link is taken, perhaps by the same file if another copy made it.
    pub(super) fn link_looked(&mut self, observer: &mut dyn Observer, link: Link, outcome: Result<Answer<'_>, Error>) {
        let first = std::mem::take(&mut self.link_answer);
        match outcome {
            Ok(Answer::Attributes(told)) if told.kind == FileType::Directory => {
                // What replaces the directory is at hand: the first name, or where no link can be made the source.
                let source = parse(&link.path).and_then(|at| self.store.node(&at));
                let readable = source.and_then(|node| self.can_be_read(&link.path, node.kind));
                let found = if let LinkAnswer::Unmade(error) = first { Err(error) } else { Ok(()) };
                if let Err(error) = found.and(readable) {
                    return match are_scarce(&error) && link.tries < TRIES_MAX {
                        true => self.look_at(link),
                        false => self.link_failed(observer, &link.path, &error),
                    };
                }
                if link.place == LinkPlace::Directory && self.options.delete.is_some() {
                    // It has been emptied, but for what stays.
                    return self.link_failed(observer, &link.path, &full_directory(true));
                }
                if let Some(most) = self.options.delete
                    && let Err(error) = self.state.may_clear(most)
                {
                    return self.link_failed(observer, &link.path, &error);
                }
                let path = link.path.clone();
                self.scheduler.tasks.push(UploadTask::Link(Link { place: LinkPlace::Directory, ..link }));
                if self.options.delete.is_some() {
                    self.scheduler.tasks.push(UploadTask::RemoveAll { path, cursor: Vec::new(), unlock: false });
                }
            }
            Ok(Answer::Attributes(told)) if told.inode.is_some_and(|inode| first == LinkAnswer::First(inode)) => {
                // A session that was lost may have made it after its directory was finished.
                self.touch_late(&link.path);
                self.link_done(observer, &link.path, EntryAction::Skipped);
            }
            Err(error) if error.kind != ErrorKind::NotFound => self.link_failed(observer, &link.path, &error),
            Ok(Answer::Attributes(told)) => {
                let name = link.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
                let there = self.judge(above(&link.path), name, &told).unwrap_or(TargetState::OtherKind);
                self.scheduler.tasks.push(UploadTask::Link(Link { place: LinkPlace::Taken(there), ..link }));
            }
            _ => self.scheduler.tasks.push(UploadTask::Link(Link { place: LinkPlace::Free, ..link })),
        }
    }

    fn link_done(&mut self, observer: &mut dyn Observer, path: &[u8], action: EntryAction) {
        self.state.count(action);
        observer.done(path, action);
    }

    fn link_failed(&mut self, observer: &mut dyn Observer, path: &[u8], error: &Error) {
        // It may have been there under a temporary name.
        self.touch_late(path);
        self.state.in_the_way += u64::from(is_in_the_way(error.kind));
        self.state.failed(observer, path, error);
    }

    fn is_special_here(&self, path: &[u8]) -> bool {
        let node = RelPath::parse(path).ok().and_then(|at| self.store.node(&at).ok());
        node.is_some_and(|node| is_special(node.kind))
    }

    /// The time of the parent directory of `path` has to be restored.
    pub(super) fn touch_late(&mut self, path: &[u8]) {
        // A time that is not kept is no loss of data.
        let _ = self.late.touched.push(above(path), b"");
    }

    /// The mode of a directory has to be restored.
    pub(super) fn unlocked_late(&mut self, path: &[u8], modes: Unlocked) -> Result<(), Error> {
        self.late.touched.push(path, &modes.to_bytes()).map(drop)
    }

    /// Restores the mode of a directory, unless another process changed it meanwhile.
    pub(super) fn retouched(&mut self, path: Vec<u8>, modes: Unlocked, outcome: Result<Answer<'_>, Error>) {
        // Who cannot look at it does not know whether it is as this copy left it.
        let Ok(Answer::Attributes(told)) = outcome else { return };
        self.scheduler.tasks.push(UploadTask::Retouch { path: path.clone(), mode: None });
        if told.kind == FileType::Directory && told.mode.is_some_and(|mode| mode & 0o7777 == modes.set) {
            self.scheduler.tasks.push(UploadTask::Relock(path, modes.before));
        }
    }

    /// Whether the source still does not have a name.
    fn is_absent(&mut self, path: &[u8], observer: &mut dyn Observer) -> bool {
        let looked = RelPath::parse(path).ok().map(|at| self.store.node(&at));
        match looked {
            Some(Err(error)) if error.kind == ErrorKind::NotFound => true,
            // What is surplus stays, which is not what was asked for.
            Some(Err(error)) => {
                self.state.failed(observer, path, &error);
                false
            }
            Some(Ok(_)) | None => false,
        }
    }

    /// Reports what a dry run reports at its end.
    fn tell_late(&mut self, observer: &mut dyn Observer) -> bool {
        for pair in self.state.drained(observer, &mut self.late.links) {
            // Else it is told already.
            let Some((_, path)) = self.state.read_back(observer, pair) else { continue };
            self.state.summary.others += 1;
            observer.done(&path, EntryAction::Made);
        }
        if self.state.may_delete(observer, &mut self.surplus, &self.options) {
            for pair in self.state.drained(observer, &mut self.surplus) {
                // Else it is told already.
                let Some((path, _)) = self.state.read_back(observer, pair) else { continue };
                self.state.summary.deleted += 1;
                observer.done(&path, EntryAction::Deleted);
            }
        }
        false
    }
}

/// The file that an answer is about.
pub(super) fn inode_of(answer: Answer<'_>) -> Option<Inode> {
    match answer {
        Answer::Attributes(told) => told.inode,
        _ => None,
    }
}
