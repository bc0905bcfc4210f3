//! Directories that the server watches for this mount: of what others change there, neither the kernel nor the mount uses any
//! more what it was told before.
//!
//! A directory is watched soon after the kernel was told of a name in it. What was told until then is dropped once, since it may
//! have changed before the server watched. A notice drops what is known of one name: the kernel asks for it again when a program
//! names it. Files that are open are left alone. Their size may not go while they are read: the kernel would take the bytes behind
//! a shorter end for zeros. They are what they are at the next open, as everywhere.

use super::Tree;
use super::recent_changes::Changed;
use crate::kernel::Kernel;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use xdfs_client::watch::{Changes, Watch, Watched};

/// Directories that are watched, or are to be: a fourth of what a server grants a session. Of others names and attributes are used
/// for as long as the settings say.
const WATCHED_MAX: usize = 1024;

/// Changes that wait. What is more is a change of anything.
const TOLD_MAX: usize = 4096;

/// So long after its first use a directory is watched: a program that lists it is through by then, and what it was told is of
/// use to it.
const SOON: Duration = Duration::from_millis(200);

/// Names and attributes that are used no longer than this are looked at again as soon as a notice would come.
const VALID_MIN: Duration = Duration::from_secs(1);

/// What the server has told, and what it is to be asked for.
#[derive(Default, Debug)]
pub(super) struct Notices {
    state: Arc<Told>,
}

#[derive(Default, Debug)]
struct Told {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default, Debug)]
struct State {
    /// Directories that are used, and from when on they are to be watched; none of one that is, or that cannot be.
    directories: BTreeMap<u64, Option<Instant>>,
    changes: VecDeque<(u64, Changes, Vec<u8>)>,
    /// There were more changes than have room.
    overflown: bool,
    ended: bool,
}

/// What is to be done next.
enum Task {
    Watch(u64),
    Drop(u64, Changes, Vec<u8>),
    DropAll,
}

impl Told {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server tells of a change. Must not wait.
    fn add(&self, directory: u64, changes: Changes, name: &[u8]) {
        let mut state = self.lock();
        if state.changes.len() < TOLD_MAX {
            state.changes.push_back((directory, changes, name.to_vec()));
        } else {
            state.overflown = true;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until there is something to do; none at the end.
    fn next(&self) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if state.ended {
                return None;
            }
            if std::mem::take(&mut state.overflown) {
                state.changes.clear();
                return Some(Task::DropAll);
            }
            if let Some((directory, changes, name)) = state.changes.pop_front() {
                return Some(Task::Drop(directory, changes, name));
            }
            let now = Instant::now();
            let next = state.directories.iter().filter_map(|(directory, due)| Some(((*due)?, *directory))).min();
            state = match next {
                Some((due, directory)) if due <= now => {
                    state.directories.insert(directory, None);
                    return Some(Task::Watch(directory));
                }
                Some((due, _)) => self.changed.wait_timeout(state, due - now).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl Notices {
    pub(super) fn end(&self) {
        self.state.lock().ended = true;
        self.state.changed.notify_all();
    }

    /// The kernel is told of a name in a directory. Never waits.
    fn uses(&self, directory: u64) {
        let mut state = self.state.lock();
        if !state.directories.contains_key(&directory) && state.directories.len() < WATCHED_MAX {
            state.directories.insert(directory, Some(Instant::now() + SOON));
            drop(state);
            self.state.changed.notify_all();
        }
    }

    /// A directory is watched again, if it is used.
    fn forget(&self, directory: u64) {
        self.state.lock().directories.remove(&directory);
    }
}

impl Tree {
    /// The kernel is told of a name in a directory: what others change there is to be noticed.
    pub(super) fn uses_directory(&self, directory: u64) {
        if self.settings.valid > VALID_MIN {
            self.known.notices.uses(directory);
        }
    }

    /// Watches directories, and drops what others have changed; until [`Notices::end`].
    pub(super) fn notice(&self, kernel: &dyn Kernel) {
        // Of an older kernel a directory would be lost to programs that are in it.
        if !kernel.looks_again() {
            return;
        }
        let mut watches: BTreeMap<u64, Watch> = BTreeMap::new();
        while let Some(task) = self.known.notices.state.next() {
            match task {
                Task::Watch(directory) => {
                    watches.remove(&directory);
                    if let Some(watch) = self.watch(directory) {
                        watches.insert(directory, watch);
                    }
                    self.drop_directory(kernel, directory);
                    self.forget_unused(&mut watches);
                }
                Task::Drop(directory, changes, name) => {
                    if changes.has(Changes::OVER) {
                        watches.remove(&directory);
                        self.known.notices.forget(directory);
                        // At once, if its names are known: what was not told of is found as soon as there is a watch again.
                        self.uses_directory(directory);
                    } else if changes.has(Changes::LOOK_AGAIN) {
                        self.drop_directory(kernel, directory);
                    } else {
                        self.drop_name(kernel, directory, changes, &name);
                    }
                }
                Task::DropAll => watches.keys().for_each(|directory| self.drop_directory(kernel, *directory)),
            }
        }
    }

    /// None if it cannot be: names and attributes there are used for as long as the settings say.
    fn watch(&self, directory: u64) -> Option<Watch> {
        let path = self.path(directory).ok()?;
        let told = Arc::clone(&self.known.notices.state);
        let tell = move |changes: Changes, name: &[u8]| told.add(directory, changes, name);
        self.remote.watch(self.full(&path), Watched::Names, tell).ok()
    }

    /// Directories that the kernel has forgotten make room.
    fn forget_unused(&self, watches: &mut BTreeMap<u64, Watch>) {
        if self.known.notices.state.lock().directories.len() < WATCHED_MAX / 2 {
            return;
        }
        watches.retain(|directory, _| self.inodes().identity(*directory).is_some());
        let mut state = self.known.notices.state.lock();
        state.directories.retain(|directory, due| due.is_some() || watches.contains_key(directory));
    }

    /// Somebody, which may be this mount, has changed what a name in a directory leads to, or that itself.
    fn drop_name(&self, kernel: &dyn Kernel, directory: u64, changes: Changes, name: &[u8]) {
        if name.is_empty() {
            self.changes.note([Changed::Inode(directory)]);
            self.known.default_lists.forget(directory);
            kernel.drop_attributes(directory);
            return;
        }
        let leads_to = self.inodes().named(directory, name);
        let of_directory = changes.has(Changes::NAME).then_some(Changed::Inode(directory));
        let changed = [Changed::Name(directory, name.to_vec())].into_iter();
        self.changes.note(changed.chain(leads_to.map(Changed::Inode)).chain(of_directory));
        if let Some(inode) = leads_to
            && changes.has(Changes::ATTRIBUTES)
        {
            self.known.xattr_names.changing(inode, self.settings.valid, || ());
            self.known.default_lists.forget(inode);
        }
        if changes.has(Changes::NAME) {
            kernel.drop_attributes(directory);
        }
        // Also of a name that was not told: its look-up may be on its way.
        kernel.drop_name(directory, name);
    }

    /// Anything in a directory may have been changed.
    fn drop_directory(&self, kernel: &dyn Kernel, directory: u64) {
        let known = self.inodes().names_in(directory);
        let changed =
            known.iter().flat_map(|(name, inode)| [Changed::Name(directory, name.clone()), Changed::Inode(*inode)]);
        self.changes.note(changed.chain([Changed::Inode(directory)]));
        kernel.drop_attributes(directory);
        for (name, inode) in known {
            self.known.xattr_names.changing(inode, self.settings.valid, || ());
            kernel.drop_name(directory, &name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_are_watched_and_changes_that_wait_have_bounds() {
        let notices = Notices::default();
        (0..WATCHED_MAX as u64 + 9).for_each(|directory| notices.uses(directory));
        assert_eq!(notices.state.lock().directories.len(), WATCHED_MAX);
        (0..TOLD_MAX).for_each(|_| notices.state.add(1, Changes::NAME, b"name"));
        assert!(matches!(notices.state.next(), Some(Task::Drop(1, Changes::NAME, name)) if name == b"name"));
        notices.state.add(1, Changes::NAME, b"name");
        notices.state.add(1, Changes::NAME, b"one too many");
        assert!(matches!(notices.state.next(), Some(Task::DropAll)));
        assert!(notices.state.lock().changes.is_empty(), "all of it is dropped");
        notices.end();
        assert!(notices.state.next().is_none());
    }

    #[test]
    fn a_directory_is_watched_once_and_soon_after_its_first_use() {
        let notices = Notices::default();
        let began = Instant::now();
        notices.uses(7);
        notices.uses(7);
        assert!(matches!(notices.state.next(), Some(Task::Watch(7))));
        assert!(began.elapsed() >= SOON);
        notices.uses(7);
        assert_eq!(notices.state.lock().directories.get(&7), Some(&None));
        notices.forget(7);
        notices.uses(7);
        assert!(notices.state.lock().directories.get(&7).is_some_and(Option::is_some), "it was over");
    }
}
