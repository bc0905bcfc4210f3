//! Files that are opened before a program opens them.
//!
//! Who opens the small files of a directory one after the other does not wait for a round trip each: the next ones are opened
//! together, each with its first bytes and under a lease. A program gets such a file only as long as the lease stands, so that
//! nobody has changed it, and within the time for which names may be used. How many are opened for nothing depends on how many
//! of the last ones were used.

mod state;

use super::super::data::FIRST_BYTES;
use super::super::directories::{Listed, Page};
use super::super::recent_changes::Changed;
use super::super::{HIDDEN, Tree};
use super::state::{Known, join, split};
use state::{State, Task};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use xdfs_client::file::File;
use xdfs_client::wire::FileType;

/// Threads that open.
pub(in crate::tree) const WORKERS: usize = 3;

/// Directories behind the present one whose files are opened, too.
const DIRECTORIES_MAX: usize = 8;

/// Small files of the directories that programs go through: what is open, and what is to be.
#[derive(Default, Debug)]
pub(in crate::tree) struct Early {
    state: Mutex<State<Opened>>,
    changed: Condvar,
}

/// A file that nobody has opened yet.
#[derive(Debug)]
pub(super) struct Opened {
    file: File,
    /// When it was asked for, by [`Tree::now`] and by the clock.
    then: u64,
    asked: Instant,
}

fn small(page: &Page<Listed>) -> impl Iterator<Item = &[u8]> {
    let is_small = |entry: &&Listed| {
        let facts = &entry.facts;
        let size = facts.size.unwrap_or(u64::MAX);
        facts.kind == FileType::Regular && size <= FIRST_BYTES.into() && !entry.name.starts_with(HIDDEN)
    };
    page.entries.iter().filter(is_small).map(|entry| entry.name.as_slice())
}

impl Early {
    fn lock(&self) -> MutexGuard<'_, State<Opened>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::tree) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// Waits until there is something to do; none at the end.
    fn next(&self) -> Option<Task<Opened>> {
        let mut state = self.lock();
        loop {
            if state.ended {
                return None;
            }
            let now = Instant::now();
            if let Some(task) = state.next(now) {
                return Some(task);
            }
            state = match state.expires() {
                Some(when) => {
                    let left = when.saturating_duration_since(now).max(Duration::from_millis(1));
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// What was opened by this path. What is on its way is waited for, at most for so long.
    fn take(&self, path: &[u8], wait: Duration) -> Option<Opened> {
        let waited = self.changed.wait_timeout_while(self.lock(), wait, |state| state.is_asked(path));
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.take(path)
    }

    /// Nobody uses it.
    fn close(&self, opened: Opened) {
        self.lock().close(opened);
        self.changed.notify_all();
    }
}

impl Tree {
    /// Opens files before programs do, until [`Early::end`].
    pub(in crate::tree) fn open_early(&self) {
        while let Some(task) = self.early.next() {
            match task {
                Task::Close(files) => File::close_together(files.into_iter().map(|opened| opened.file).collect()),
                Task::Open(paths) => {
                    let (then, asked) = (self.now(), Instant::now());
                    let full: Vec<Vec<u8>> = paths.iter().map(|path| self.full(path)).collect();
                    let files = File::open_early(&self.remote, &full, FIRST_BYTES);
                    let mut state = self.early.lock();
                    let (now, until) = (Instant::now(), asked + self.settings.valid);
                    // Files that cannot be opened, and a lost session, tell nothing of leases.
                    if files.iter().any(Option::is_some) {
                        state.answered(files.iter().flatten().any(|file| file.leased().is_some()), now);
                    }
                    for (path, file) in paths.iter().zip(files) {
                        state.keep(path, file.map(|file| Opened { file, then, asked }), until);
                    }
                    drop(state);
                    self.early.changed.notify_all();
                }
            }
        }
        let files = self.early.lock().take_all();
        File::close_together(files.into_iter().map(|opened| opened.file).collect());
    }

    /// A program was told of these entries of a directory.
    pub(in crate::tree) fn has_listed(&self, path: &[u8], page: &Page<Listed>) {
        if !self.settings.valid.is_zero() {
            let names = small(page).map(<[u8]>::to_vec).collect();
            self.early.lock().has_listed(path, names, page.is_first(), Instant::now());
        }
    }

    /// A program opens a file to read. Those that it opens next are opened if it goes through a directory. If this one was opened
    /// before, and is what was read then: it, and when that was.
    pub(in crate::tree) fn opened_early(&self, inode: u64) -> Option<(File, Instant)> {
        if self.settings.valid.is_zero() {
            return None;
        }
        let path = self.path(inode).ok()?;
        let opened = self.early.take(&path, self.settings.valid);
        let used = opened.and_then(|opened| self.take_if_same(inode, opened));
        let next = self.opened_next(&path, used.is_some());
        self.early.lock().want(next);
        self.early.changed.notify_all();
        used
    }

    fn take_if_same(&self, inode: u64, opened: Opened) -> Option<(File, Instant)> {
        let changes = self.contents().entry(inode).or_default().changes.clone();
        let name = self.inodes().latest_name(inode);
        let is_other = self.inodes().identity(inode) != Some(opened.file.inode())
            || name.is_none_or(|(parent, name)| self.changes.is_after(opened.then, &Changed::Name(parent, name)))
            || self.is_newer(inode, opened.then)
            || opened.asked.elapsed() >= self.settings.valid;
        if is_other || !opened.file.take_early(&changes) {
            self.early.close(opened);
            return None;
        }
        Some((opened.file, opened.asked))
    }

    /// The small files behind one that is opened, in its directory and in those that are gone through next.
    fn opened_next(&self, path: &[u8], used: bool) -> Vec<Vec<u8>> {
        let Some((above, name)) = split(path) else { return Vec::new() };
        let now = Instant::now();
        let (mut next, more) = self.early.lock().opens(above, name, used, now);
        if more == 0 {
            return next;
        }
        let state = self.ahead.lock();
        for directory in state.behind(above, DIRECTORIES_MAX) {
            if let Known::Listed(listing) = state.known(&directory, now) {
                next.extend(small(&listing.page).map(|name| join(&directory, name)));
            }
        }
        next.truncate(more);
        next
    }

    /// A program changes a file: its lease would be waited for.
    pub(in crate::tree) fn close_early(&self, inode: u64) {
        if let Ok(path) = self.path(inode)
            && let Some(opened) = self.early.take(&path, Duration::ZERO)
        {
            self.early.close(opened);
        }
    }
}
