//! Who watches which directory, and how many watches there may be. Neither files nor a clock.

use super::{Queue, lock};
use crate::authorise::Root;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use xdfs_io::store::Watcher;
use xdfs_io::store::watch::Mark;
use xdfs_proto::base::{Error, ErrorKind, SessionId};
use xdfs_proto::notices;
use xdfs_proto::wire::notice::{Changes, Notice};
use xdfs_secure::policy::Method;

/// Watches of a session: those that are told apart; a busy mount has some thousand directories.
pub(super) const SESSION_MAX: usize = notices::WATCHES_MAX;

/// Watches of a user, and of all: each takes about a kilobyte of the kernel, which has a bound of its
/// own for them.
pub(super) const USER_MAX: usize = 16_384;
pub(super) const ALL_MAX: usize = 65_536;

/// Memory of the names of a user's watches, and of all.
pub(super) const USER_BYTES_MAX: usize = 16 << 20;
pub(super) const ALL_BYTES_MAX: usize = 64 << 20;

/// Of the directories that the kernel watches for the server's user, one user of the server takes at
/// most a quarter and all of them three: other programs may run as that user.
const QUARTERS: usize = 4;
const ALL_QUARTERS: usize = 3;

/// All anonymous users together leave a quarter of what all users have to those who logged in.
const VISITORS_MAX: usize = ALL_MAX / 4 * 3;
const VISITORS_BYTES_MAX: usize = ALL_BYTES_MAX / 4 * 3;
const VISITORS_QUARTERS: usize = 2;

/// Memory of a watch besides its names, and for each directory above it, generously.
const WATCH_BYTES: usize = 512;
const DIRECTORY_BYTES: usize = 96;

/// What of a directory is told.
pub(super) enum Scope {
    /// Its names, and its own attributes; it is this on the wire.
    Names { directory: Vec<u8> },
    /// This name in it, which is this on the wire.
    Name { component: Vec<u8>, name: Vec<u8> },
}

/// One watch.
pub(super) struct Entry {
    pub queue: Arc<Queue>,
    pub number: u64,
    pub scope: Scope,
    /// The directory that its export had.
    pub root: Root,
    /// Directories from its export to what is watched.
    pub depth: usize,
    pub budget: Arc<str>,
}

/// The watch with this number of a session.
type Key = (SessionId, u64);

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Usage {
    watches: usize,
    bytes: usize,
    /// Directories that the kernel watches for them, as if no two watches shared one.
    marks: usize,
}

/// The watches of all sessions.
#[derive(Default)]
pub(super) struct Table {
    /// Directories that the kernel watches for the server's user.
    marks_max: usize,
    /// None while the kernel is asked.
    watches: BTreeMap<Key, (Arc<Entry>, Option<Vec<Mark>>)>,
    /// By the watched directory.
    directories: BTreeSet<(Mark, Key)>,
    /// By each directory above it.
    above: BTreeSet<(Mark, Key)>,
    users: BTreeMap<Arc<str>, Usage>,
    /// Of all anonymous users.
    visitors: Usage,
    all: Usage,
    sessions: BTreeMap<SessionId, usize>,
    /// How often a mark was released.
    released: u64,
}

impl Usage {
    /// Whether all of `more` fits.
    fn has_room(self, more: Self, most: Self) -> bool {
        self.watches + more.watches <= most.watches
            && self.bytes + more.bytes <= most.bytes
            && self.marks + more.marks <= most.marks
    }
}

fn too_many() -> Error {
    Error::new(ErrorKind::LimitExceeded, "there are too many watches; end some first")
}

fn range(mark: Mark) -> std::ops::RangeInclusive<(Mark, Key)> {
    (mark, (SessionId([0; 16]), 0))..=(mark, (SessionId([0xff; 16]), u64::MAX))
}

impl Entry {
    fn key(&self) -> Key {
        (self.queue.session, self.number)
    }

    /// What is watched, on the wire.
    pub(super) fn name(&self) -> &[u8] {
        match &self.scope {
            Scope::Names { directory } => directory,
            Scope::Name { name, .. } => name,
        }
    }

    fn bytes(&self) -> usize {
        WATCH_BYTES
            + self.depth * DIRECTORY_BYTES
            + match &self.scope {
                Scope::Names { directory } => directory.len(),
                Scope::Name { component, name } => component.len() + name.len(),
            }
    }

    /// What it takes: the kernel watches the directories above it, too.
    fn usage(&self) -> Usage {
        Usage { watches: 1, bytes: self.bytes(), marks: self.depth + 1 }
    }

    fn is_visitors(&self) -> bool {
        self.queue.principal.method == Method::Anonymous
    }

    /// The client is to be told this, of a name in the directory or of what is watched itself.
    pub(super) fn add(&self, changes: Changes, name: &[u8]) {
        lock(&self.queue.pending).add(Notice { watch: self.number, changes, name: name.to_vec() });
    }
}

impl Table {
    /// Without watches, where the kernel watches so many directories.
    pub(super) fn new(marks_max: usize) -> Self {
        Self { marks_max, ..Self::default() }
    }

    pub(super) fn released(&self) -> u64 {
        self.released
    }

    fn of_session(&self, session: SessionId) -> usize {
        self.sessions.get(&session).copied().unwrap_or(0)
    }

    /// Whether somebody watches this directory, or one below it.
    pub(super) fn has(&self, mark: Mark) -> bool {
        self.directories.range(range(mark)).next().is_some() || self.above.range(range(mark)).next().is_some()
    }

    /// Counts a watch that is about to begin.
    pub(super) fn reserve(&mut self, entry: &Arc<Entry>) -> Result<(), Error> {
        if self.watches.contains_key(&entry.key()) {
            return Err(Error::new(ErrorKind::AlreadyExists, "the session has a watch of this number"));
        }
        let own = self.users.get(&entry.budget).copied().unwrap_or_default();
        let (more, quarter) = (entry.usage(), self.marks_max / QUARTERS);
        let most = |watches, bytes, quarters| Usage { watches, bytes, marks: quarter * quarters };
        let visitors = most(VISITORS_MAX, VISITORS_BYTES_MAX, VISITORS_QUARTERS);
        let few = self.of_session(entry.queue.session) < SESSION_MAX
            && own.has_room(more, most(USER_MAX, USER_BYTES_MAX, 1))
            && (!entry.is_visitors() || self.visitors.has_room(more, visitors))
            && self.all.has_room(more, most(ALL_MAX, ALL_BYTES_MAX, ALL_QUARTERS));
        if !few {
            return Err(too_many());
        }
        self.users.entry(Arc::clone(&entry.budget)).or_default();
        self.usages(entry).for_each(|usage| {
            usage.watches += more.watches;
            usage.bytes += more.bytes;
            usage.marks += more.marks;
        });
        *self.sessions.entry(entry.queue.session).or_default() += 1;
        entry.queue.watches.store(true, Ordering::Relaxed);
        self.watches.insert(entry.key(), (Arc::clone(entry), None));
        Ok(())
    }

    /// Where a watch counts.
    fn usages(&mut self, entry: &Entry) -> impl Iterator<Item = &mut Usage> {
        let visitors = entry.is_visitors().then_some(&mut self.visitors);
        self.users.get_mut(&entry.budget).into_iter().chain(visitors).chain([&mut self.all])
    }

    /// Whether this very watch is there: one that was ended before it began may have left its number to another.
    fn is_there(&self, entry: &Arc<Entry>) -> bool {
        self.watches.get(&entry.key()).is_some_and(|(known, _)| Arc::ptr_eq(known, entry))
    }

    /// A watch that did not begin, or is over, counts no longer.
    pub(super) fn give_back(&mut self, entry: &Arc<Entry>) {
        if !self.is_there(entry) {
            return;
        }
        self.watches.remove(&entry.key());
        let less = entry.usage();
        self.usages(entry).for_each(|usage| {
            usage.watches -= less.watches;
            usage.bytes -= less.bytes;
            usage.marks -= less.marks;
        });
        if self.users.get(&entry.budget) == Some(&Usage::default()) {
            self.users.remove(&entry.budget);
        }
        if let Some(count) = self.sessions.get_mut(&entry.queue.session) {
            *count -= 1;
            if *count == 0 {
                self.sessions.remove(&entry.queue.session);
                entry.queue.watches.store(false, Ordering::Relaxed);
            }
        }
    }

    /// The kernel tells of these: the directories above it, and the watched one last. An error if the watch was ended meanwhile.
    pub(super) fn insert(&mut self, entry: &Arc<Entry>, marks: &[Mark]) -> Result<(), Error> {
        let (key, is_there) = (entry.key(), self.is_there(entry));
        let Some((_, present)) = self.watches.get_mut(&key).filter(|_| is_there) else {
            return Err(Error::new(ErrorKind::Cancelled, "the watch was ended before it began"));
        };
        *present = Some(marks.to_vec());
        if let [above @ .., directory] = marks {
            self.directories.insert((*directory, key));
            self.above.extend(above.iter().map(|mark| (*mark, key)));
        }
        Ok(())
    }

    pub(super) fn release(&mut self, watcher: &Watcher, mark: Mark) {
        self.released += 1;
        watcher.release(mark);
    }

    /// Takes a watch out; returns its marks that nobody else has.
    fn remove(&mut self, key: Key) -> Vec<Mark> {
        let Some((entry, marks)) = self.watches.get(&key) else { return Vec::new() };
        let (entry, marks) = (Arc::clone(entry), marks.clone().unwrap_or_default());
        for mark in &marks {
            self.directories.remove(&(*mark, key));
            self.above.remove(&(*mark, key));
        }
        self.give_back(&entry);
        marks.into_iter().filter(|mark| !self.has(*mark)).collect()
    }

    pub(super) fn end(&mut self, watcher: &Watcher, session: SessionId, number: u64) {
        for mark in self.remove((session, number)) {
            self.release(watcher, mark);
        }
    }

    /// The same of this very watch.
    pub(super) fn end_entry(&mut self, watcher: &Watcher, entry: &Arc<Entry>) {
        if self.is_there(entry) {
            self.end(watcher, entry.queue.session, entry.number);
        }
    }

    pub(super) fn end_session(&mut self, watcher: &Watcher, session: SessionId) {
        let keys: Vec<Key> = self.watches.range((session, 0)..=(session, u64::MAX)).map(|(key, _)| *key).collect();
        for (session, number) in keys {
            self.end(watcher, session, number);
        }
    }

    /// Those who watch this directory.
    pub(super) fn watching(&self, mark: Mark) -> impl Iterator<Item = &Arc<Entry>> {
        self.directories.range(range(mark)).filter_map(|(_, key)| self.watches.get(key)).map(|(entry, _)| entry)
    }

    /// The client is to be told this, by name. False if the watch is over, and another may have its number.
    pub(super) fn tell(&self, entry: &Arc<Entry>, changes: &[(Changes, &[u8])]) -> bool {
        let goes_on = self.is_there(entry);
        if goes_on {
            changes.iter().for_each(|(changes, name)| entry.add(*changes, name));
        }
        goes_on
    }

    /// The queue of every session that watches something.
    pub(super) fn queues(&self) -> Vec<Arc<Queue>> {
        let first = |session: &SessionId| self.watches.range((*session, 0)..).next();
        self.sessions.keys().filter_map(first).map(|(_, (entry, _))| Arc::clone(&entry.queue)).collect()
    }

    /// The directory is gone: every watch of it, or of one below it, is over. Returns them.
    pub(super) fn gone(&mut self, mark: Mark, watcher: Option<&Watcher>) -> Vec<Arc<Entry>> {
        let keys: BTreeSet<Key> =
            self.directories.range(range(mark)).chain(self.above.range(range(mark))).map(|(_, key)| *key).collect();
        let entries = keys.iter().filter_map(|key| self.watches.get(key)).map(|(entry, _)| Arc::clone(entry)).collect();
        // Whoever is about to watch it must look again.
        self.released += 1;
        for key in keys {
            for mark in self.remove(key) {
                self.released += 1;
                watcher.iter().for_each(|watcher| watcher.release(mark));
            }
        }
        entries
    }

    /// Takes out the watches that have begun and of which this holds; returns them.
    pub(super) fn take_if(&mut self, watcher: &Watcher, over: impl Fn(&Entry) -> bool) -> Vec<Arc<Entry>> {
        let begun = self.watches.values().filter(|(_, marks)| marks.is_some()).map(|(entry, _)| entry);
        let entries: Vec<_> = begun.filter(|entry| over(entry)).map(Arc::clone).collect();
        for entry in &entries {
            self.end(watcher, entry.queue.session, entry.number);
        }
        entries
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let sets = self.directories.is_empty() && self.above.is_empty();
        sets && self.watches.is_empty()
            && self.users.is_empty()
            && self.all == Usage::default()
            && self.sessions.is_empty()
    }
}
