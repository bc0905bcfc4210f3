//! Directories that the server watches for this mount: of what others change there, neither the kernel nor the mount uses any
//! more what it was told before.
//!
//! A directory is watched soon after the kernel was told of a name in it. What was told until then is dropped once, since it may
//! have changed before the server watched. A notice drops what is known of one name: the kernel asks for it again when a program
//! names it. Files that are open are left alone. Their size may not go while they are read: the kernel would take the bytes behind
//! a shorter end for zeros. They are what they are at the next open, as everywhere.

use super::Tree;
use super::recent_changes::Changed;
use crate::inodes::ROOT;
use crate::kernel::Kernel;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use xdfs_client::ErrorKind;
use xdfs_client::watch::{Changes, Watch, Watched};

/// Directories that are watched, or are to be: a fourth of what a server grants a session. Of others names and attributes are used
/// for as long as the settings say.
const WATCHED_MAX: usize = 1024;

/// Changes that wait. What is more is a change of anything.
const TOLD_MAX: usize = 4096;

/// So long after its first use a directory is watched: a program that lists it is through by then, and what it was told is of
/// use to it.
const SOON: Duration = Duration::from_millis(200);

/// After a watch that failed it is tried again: the server was lost, or has no room now, or the directory was moved.
const AGAIN: Duration = Duration::from_secs(5);

/// The same where the server does not want to, or has no room for this user: that lasts.
const AGAIN_AFTER_REFUSAL: Duration = Duration::from_secs(300);

/// A full table is looked through for directories that the kernel has forgotten, this often at the most.
const LOOKED_THROUGH: Duration = Duration::from_secs(1);

/// So long the names of attributes of what was changed are asked for file by file: answers that are older are over by then.
const ALONE: Duration = Duration::from_secs(1);

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
    /// A directory had no room, and when the table was looked through last.
    is_full: bool,
    looked_through: Option<Instant>,
    /// The server watches nothing.
    unsupported: bool,
    ended: bool,
}

/// What is to be done next.
enum Task {
    Watch(u64),
    Drop(u64, Changes, Vec<u8>),
    DropAll,
    LookThrough,
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
            if std::mem::take(&mut state.is_full) {
                state.looked_through = Some(now);
                return Some(Task::LookThrough);
            }
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
        let (mut state, now) = (self.state.lock(), Instant::now());
        if state.unsupported || state.directories.contains_key(&directory) {
            return;
        }
        if state.directories.len() < WATCHED_MAX {
            state.directories.insert(directory, Some(now + SOON));
        } else if state.looked_through.is_none_or(|then| then + LOOKED_THROUGH <= now) {
            state.is_full = true;
        } else {
            return;
        }
        drop(state);
        self.state.changed.notify_all();
    }

    /// A watch failed.
    fn failed(&self, directory: u64, kind: ErrorKind) {
        let mut state = self.state.lock();
        if kind == ErrorKind::Unsupported {
            (state.unsupported, state.directories) = (true, BTreeMap::new());
        } else {
            let refused = [ErrorKind::PermissionDenied, ErrorKind::Refused, ErrorKind::LimitExceeded].contains(&kind);
            let pause = if refused { AGAIN_AFTER_REFUSAL } else { AGAIN };
            state.directories.insert(directory, Some(Instant::now() + pause));
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
            self.known.notices.failed(ROOT, ErrorKind::Unsupported);
            return;
        }
        let mut watches: BTreeMap<u64, Watch> = BTreeMap::new();
        while let Some(task) = self.known.notices.state.next() {
            match task {
                Task::Watch(directory) => {
                    watches.remove(&directory);
                    if self.inodes().identity(directory).is_none() {
                        self.known.notices.forget(directory);
                        continue;
                    }
                    match self.watch(directory) {
                        Ok(watch) => {
                            watches.insert(directory, watch);
                            self.drop_directory(kernel, directory);
                        }
                        Err(kind) => self.known.notices.failed(directory, kind),
                    }
                    self.forget_unused(&mut watches);
                }
                Task::Drop(directory, changes, name) => {
                    if changes.has(Changes::OVER) {
                        self.watch_again(&mut watches, directory);
                    } else if changes.has(Changes::LOOK_AGAIN) {
                        self.drop_directory(kernel, directory);
                    } else {
                        self.drop_name(kernel, directory, changes, &name);
                    }
                }
                Task::DropAll => {
                    // What told of its end may be among what had no room.
                    let over: Vec<u64> =
                        watches.iter().filter(|(_, watch)| watch.is_over()).map(|(directory, _)| *directory).collect();
                    over.into_iter().for_each(|directory| self.watch_again(&mut watches, directory));
                    watches.keys().for_each(|directory| self.drop_directory(kernel, *directory));
                }
                Task::LookThrough => self.forget_unused(&mut watches),
            }
        }
    }

    /// A watch is over. There is another one at once, if names of the directory are known: what was not told of is found then.
    fn watch_again(&self, watches: &mut BTreeMap<u64, Watch>, directory: u64) {
        // A watch that could not be had again meanwhile has its own time.
        if watches.remove(&directory).is_some() {
            self.known.notices.forget(directory);
            self.uses_directory(directory);
        }
    }

    /// Until there is a watch, names and attributes of the directory are used for as long as the settings say.
    fn watch(&self, directory: u64) -> Result<Watch, ErrorKind> {
        let path = self.path(directory).map_err(|_| ErrorKind::NotFound)?;
        let told = Arc::clone(&self.known.notices.state);
        let tell = move |changes: Changes, name: &[u8]| told.add(directory, changes, name);
        self.remote.watch_once(self.full(&path), Watched::Names, tell).map_err(|error| error.kind)
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
            self.known.xattr_names.changing(inode, ALONE, || ());
            self.known.default_lists.forget(inode);
            self.mode_was_set(inode);
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
        self.known.default_lists.forget(directory);
        kernel.drop_attributes(directory);
        for (name, inode) in known {
            self.known.xattr_names.changing(inode, ALONE, || ());
            self.known.default_lists.forget(inode);
            self.mode_was_set(inode);
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
    fn a_full_table_is_looked_through_now_and_then_and_a_watch_that_failed_is_tried_again() {
        let notices = Notices::default();
        (0..WATCHED_MAX as u64 + 2).for_each(|directory| notices.uses(directory));
        assert!(matches!(notices.state.next(), Some(Task::LookThrough)));
        notices.uses(WATCHED_MAX as u64 + 3);
        assert!(!notices.state.lock().is_full, "it was a moment ago");
        notices.failed(0, ErrorKind::NotFound);
        assert!(notices.state.lock().directories[&0].is_some_and(|due| due > Instant::now() + SOON));
        notices.failed(2, ErrorKind::Refused);
        assert!(notices.state.lock().directories[&2].is_some_and(|due| due > Instant::now() + AGAIN), "for longer");
        notices.failed(1, ErrorKind::Unsupported);
        notices.uses(1);
        assert!(notices.state.lock().directories.is_empty(), "no other is asked for");
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
