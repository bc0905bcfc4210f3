//! Writes that the kernel has an answer to before the server has them: of each inode those of one
//! open file at most. Whoever looks at the inode waits for them first.

use super::data::OpenFile;
use super::recent_changes::Changed;
use super::{Tree, refused};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use xdfs_client::Facts;
use xdfs_client::file::Changes;
use xdfs_client::wire::FileType;

/// What a program wrote is sent this long after that, whatever it does then.
const PAUSE: Duration = Duration::from_millis(10);

/// What is known of the content of an inode.
#[derive(Default, Debug)]
pub(super) struct Content {
    /// Length and change number of the file that the kernel's pages are of, if it has any.
    pub(super) version: Option<(u64, u64)>,
    /// For all of its open files.
    pub(super) changes: Changes,
    /// The change number that the kernel was told last: with another one it drops its pages.
    told: Option<u64>,
    /// How often this mount has set the mode, and until when it is known to have no bits that a write takes.
    pub(super) modes_set: u64,
    pub(super) plain_until: Option<Instant>,
}

/// Open files with writes behind, by their inodes.
#[derive(Default, Debug)]
pub(super) struct Behind {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default, Debug)]
struct State {
    files: BTreeMap<u64, Arc<OpenFile>>,
    /// Nobody writes any more.
    ended: bool,
}

impl Behind {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file_of(&self, inode: u64) -> Option<Arc<OpenFile>> {
        self.lock().files.get(&inode).map(Arc::clone)
    }

    /// An open file has writes behind; false if another one of its inode has, too.
    fn add(&self, open: &Arc<OpenFile>) -> bool {
        let mut state = self.lock();
        let known = state.files.entry(open.inode).or_insert_with(|| {
            self.changed.notify_all();
            Arc::clone(open)
        });
        Arc::ptr_eq(known, open)
    }

    /// An open file was settled. It stays if something was written meanwhile. Nothing is sent: who reads requests of the kernel
    /// may wait for this lock.
    fn remove(&self, open: &Arc<OpenFile>) {
        let mut state = self.lock();
        if state.files.get(&open.inode).is_some_and(|known| Arc::ptr_eq(known, open) && open.file.is_settled()) {
            state.files.remove(&open.inode);
        }
    }

    /// All of them, a pause after there is one; none at the end.
    fn wait(&self) -> Option<Vec<Arc<OpenFile>>> {
        let state = self.lock();
        let waits = |state: &mut State| state.files.is_empty() && !state.ended;
        let state = self.changed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        let paused = self.changed.wait_timeout_while(state, PAUSE, |state| !state.ended);
        let (state, _) = paused.unwrap_or_else(PoisonError::into_inner);
        (!state.ended).then(|| state.files.values().map(Arc::clone).collect())
    }
}

impl Tree {
    pub(super) fn contents(&self) -> MutexGuard<'_, BTreeMap<u64, Content>> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This mount changed an inode's content: what was read of it before is not used any more.
    pub(super) fn content_changed(&self, inode: u64) {
        self.changes.note([Changed::Inode(inode)]);
        // Of an inode that was not opened the kernel has no pages.
        if let Some(content) = self.contents().get_mut(&inode) {
            content.version = None;
        }
    }

    /// The kernel is told attributes of an inode. If somebody changed it since the last time, what was read
    /// ahead is as old as the pages that the kernel drops.
    pub(super) fn tell(&self, inode: u64, facts: &Facts) {
        if facts.kind == FileType::Symlink {
            self.known.link_targets.compare(inode, facts.change);
        }
        if let Some(content) = self.contents().get_mut(&inode)
            && content.told != facts.change
        {
            content.told = facts.change;
            content.changes.add();
        }
    }

    /// Whether attributes that were asked for at `then` may be older than what a program has changed.
    pub(super) fn is_newer(&self, inode: u64, then: u64) -> bool {
        self.behind.file_of(inode).is_some() || self.changes.is_after(then, &Changed::Inode(inode))
    }

    /// Writes behind the program.
    pub(super) fn write_behind(&self, open: &Arc<OpenFile>, data: &[u8], offset: u64) -> Result<(), Errno> {
        // What another open file wrote before comes before it.
        if self.behind.file_of(open.inode).is_some_and(|other| !Arc::ptr_eq(&other, open)) {
            self.settle(open.inode);
        }
        let written = open.file.write_behind_at(data, offset);
        if !self.behind.add(open) {
            open.file.settle_quietly();
        }
        self.content_changed(open.inode);
        written.map_err(|error| refused(&error))
    }

    /// Waits until the server has what was written to an inode. An error is told to who wrote.
    pub(super) fn settle(&self, inode: u64) {
        if let Some(open) = self.behind.file_of(inode) {
            self.settle_file(&open);
        }
    }

    /// The same for what was written through one open file.
    pub(super) fn settle_file(&self, open: &Arc<OpenFile>) {
        open.file.settle_quietly();
        self.settled(open);
    }

    /// The same for all inodes.
    pub(super) fn settle_all(&self) {
        let all: Vec<u64> = self.behind.lock().files.keys().copied().collect();
        all.into_iter().for_each(|inode| self.settle(inode));
    }

    /// The server has what was written through an open file, if anything was.
    fn settled(&self, open: &Arc<OpenFile>) {
        if self.behind.file_of(open.inode).is_some_and(|known| Arc::ptr_eq(&known, open)) {
            self.tell_locker(open.inode, &open.file);
            self.content_changed(open.inode);
            self.behind.remove(open);
        }
    }

    /// Sends what programs have written, whatever they do then; until [`Tree::end_writing`].
    pub(super) fn push_writes(&self) {
        while let Some(files) = self.behind.wait() {
            for open in files {
                if open.file.push() {
                    self.settled(&open);
                }
            }
        }
    }

    /// Waits until the server has what was written, or has been lost for too long.
    pub fn finish_writing(&self) {
        self.settle_all();
    }

    /// The files, below the mounted directory, of which the server does not have all that was written. Waits for nothing.
    pub fn unwritten(&self) -> Vec<Vec<u8>> {
        let behind = self.behind.lock().files.keys().copied().collect::<Vec<u64>>();
        let open = self.files.all().into_iter().filter(|open| open.file.has_unwritten()).map(|open| open.inode);
        let inodes: BTreeSet<u64> = behind.into_iter().chain(open).collect();
        inodes.into_iter().map(|inode| self.path(inode).unwrap_or_default()).collect()
    }

    /// Nobody writes any more.
    pub(super) fn end_writing(&self) {
        self.behind.lock().ended = true;
        self.behind.changed.notify_all();
    }
}
