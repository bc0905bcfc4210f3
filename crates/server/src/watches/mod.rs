//! Watches of names (P-99, P-100): what clients are to be told when files change.
//!
//! One thread for the server, from the first watch on, takes what the kernel tells (inotify), gathers it,
//! and hands it to the listener, which needs no thread to tell a session that is idle. A watch is an
//! entry here and one in the kernel: no thread, no operation, no descriptor. Whoever does not read costs
//! what [`PendingNotices`] keeps.
//!
//! Rights are judged when a watch is set and again for every name that is told. It must not look at a
//! file.

mod round;
mod table;
#[cfg(test)]
mod tests;

use crate::authorise::{Authorized, CurrentAuthority, Want};
use crate::clock::seconds_now;
use round::Round;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use table::{Entry, Scope, Table};
use xdfs_io::store::watch::{self, Mark};
use xdfs_io::store::{Store, Watcher};
use xdfs_proto::base::{Error, ErrorKind, RelPath, SessionId};
use xdfs_proto::notices::PendingNotices;
use xdfs_proto::wire::notice::{Changes, Notice};
use xdfs_proto::wire::path::Watched;
use xdfs_secure::policy::Principal;

/// Changes are gathered for so long after some were told: a file that is written all the time makes
/// twenty messages a second, and not thousands.
const PAUSE: Duration = Duration::from_millis(50);

/// Directories that a watch may be below its export: each is one more entry in the kernel.
const DEPTH_MAX: usize = 64;

/// Tries to add a watch while others are removed.
const TRIES: usize = 16;

/// Has the listener tell a session; false if it cannot take the message now. Never waits.
pub(crate) type TellChanged = Box<dyn Fn(SessionId) -> bool + Send + Sync>;

/// The watches of a server.
pub(crate) struct Watches(Arc<Shared>);

/// What the thread and the sessions share.
struct Shared {
    authority: CurrentAuthority,
    tell: TellChanged,
    table: Mutex<Table>,
    /// What could not be sent. The listener adds to it without waiting for the table, which it does at a reload and at the end
    /// of a session that watched something.
    owed: Mutex<BTreeMap<SessionId, Arc<Queue>>>,
    telling: Mutex<Telling>,
}

/// The thread that tells.
enum Telling {
    /// There was no watch yet, and there is no thread.
    Unbegun,
    /// It runs, and takes what the kernel tells from this.
    Running(Arc<Watcher>),
    /// The server has ended, and the thread ends.
    Ended,
}

/// What one session is to be told.
pub(crate) struct Queue {
    session: SessionId,
    principal: Arc<Principal>,
    pending: Mutex<PendingNotices>,
    /// The listener has a message about it.
    told: AtomicBool,
    /// Whether the session watches anything, as the table says.
    watches: AtomicBool,
}

/// The watches of one session, which end when it is dropped.
pub(crate) struct SessionWatches {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    budget: Arc<str>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watches {
    pub(crate) fn new(authority: CurrentAuthority, tell: TellChanged) -> Self {
        Self(Arc::new(Shared {
            authority,
            tell,
            table: Mutex::new(Table::new(watch::directories_max())),
            owed: Mutex::default(),
            telling: Mutex::new(Telling::Unbegun),
        }))
    }

    /// Those of a new session, which has none.
    pub(crate) fn of_session(&self, session: SessionId, principal: &Arc<Principal>) -> SessionWatches {
        let queue = Queue {
            session,
            principal: Arc::clone(principal),
            pending: Mutex::default(),
            told: AtomicBool::new(false),
            watches: AtomicBool::new(false),
        };
        let budget = principal.budget().to_string().into();
        SessionWatches { shared: Arc::clone(&self.0), queue: Arc::new(queue), budget }
    }

    /// Ends the watches on exports that have another directory now: the old one is no user's to learn of, and of the new
    /// one they would tell nothing.
    pub(crate) fn end_moved(&self) {
        let Some(watcher) = self.0.running() else { return };
        let mut table = lock(&self.0.table);
        for entry in table.take_if(&watcher, |entry| self.0.has_moved(entry)) {
            entry.add(Changes::OVER, b"");
            self.0.owe(&entry.queue);
        }
        drop(table);
        watcher.wake();
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        if let Telling::Running(watcher) = std::mem::replace(&mut *lock(&self.0.telling), Telling::Ended) {
            watcher.wake();
        }
    }
}

impl SessionWatches {
    /// Whether it has any. Waits for nobody: the listener asks.
    pub(crate) fn any(&self) -> bool {
        self.queue.watches.load(Ordering::Relaxed)
    }

    /// What the session is to be told. More is told to the listener from now on.
    pub(crate) fn take(&self) -> Vec<Notice> {
        self.queue.told.store(false, Ordering::SeqCst);
        lock(&self.queue.pending).take(usize::MAX)
    }

    /// This could not be sent: it is told again soon.
    pub(crate) fn put_back(&self, notices: Vec<Notice>) {
        let mut pending = lock(&self.queue.pending);
        notices.into_iter().for_each(|notice| pending.add(notice));
        drop(pending);
        self.shared.owe(&self.queue);
        self.shared.running().iter().for_each(|watcher| watcher.wake());
    }

    /// Watches what `at` was authorised for, `name` on the wire.
    pub(crate) fn watch(&self, at: &Authorized, name: &[u8], watched: Watched, number: u64) -> Result<(), Error> {
        let (directory, scope) = place_of(at.path(), name, watched)?;
        if directory.depth() > DEPTH_MAX {
            let text = format!("it is more than {DEPTH_MAX} directories below its export, too deep to be watched");
            return Err(Error::new(ErrorKind::LimitExceeded, text));
        }
        let (queue, budget, depth) = (Arc::clone(&self.queue), Arc::clone(&self.budget), directory.depth());
        let entry = Arc::new(Entry { queue, number, scope, root: at.root(), depth, budget });
        let watcher = self.shared.watcher()?;
        lock(&self.shared.table).reserve(&entry)?;
        let added = self.add(&watcher, at.store(), &directory, &entry);
        if added.is_err() {
            lock(&self.shared.table).give_back(&entry);
        } else if self.shared.has_moved(&entry) {
            // Authorised before a reload, begun behind it.
            lock(&self.shared.table).end_entry(&watcher, &entry);
            return Err(Error::new(ErrorKind::Busy, "the export has another directory by now; try again"));
        }
        added
    }

    fn add(&self, watcher: &Watcher, store: &dyn Store, directory: &RelPath, entry: &Arc<Entry>) -> Result<(), Error> {
        for _ in 0..TRIES {
            let before = lock(&self.shared.table).released();
            let mut marks = Vec::new();
            // May take as long as the storage does: nothing is locked.
            let watched = store.watch(directory, watcher, &mut marks);
            let mut table = lock(&self.shared.table);
            // A mark that somebody released meanwhile may be one of these.
            let valid = table.released() == before || marks.iter().all(|mark| table.has(*mark));
            let inserted = if watched.is_ok() && valid { Some(table.insert(entry, &marks)) } else { None };
            if let Some(Ok(())) = inserted {
                return Ok(());
            }
            for mark in marks.into_iter().filter(|mark| !table.has(*mark)).collect::<Vec<_>>() {
                table.release(watcher, mark);
            }
            drop(table);
            watched?;
            inserted.unwrap_or(Ok(()))?;
        }
        Err(Error::new(ErrorKind::Busy, "too many watches begin and end at a time; try again"))
    }

    /// The watch of this number ends.
    pub(crate) fn end(&self, number: u64) {
        if let Some(watcher) = self.shared.running() {
            lock(&self.shared.table).end(&watcher, self.queue.session, number);
        }
        lock(&self.queue.pending).forget(number);
    }
}

impl Drop for SessionWatches {
    fn drop(&mut self) {
        // The end of a session that has none waits for nobody.
        let watcher = self.any().then(|| self.shared.running()).flatten();
        if let Some(watcher) = watcher {
            lock(&self.shared.table).end_session(&watcher, self.queue.session);
        }
    }
}

/// The directory that is watched, and what of it is told.
fn place_of(path: &RelPath, name: &[u8], watched: Watched) -> Result<(RelPath, Scope), Error> {
    if watched == Watched::Names {
        return Ok((path.clone(), Scope::Names { directory: name.to_vec() }));
    }
    match (path.parent(), path.name()) {
        (Some(parent), Some(component)) => {
            Ok((parent, Scope::Name { component: component.to_vec(), name: name.to_vec() }))
        }
        _ => Err(Error::new(ErrorKind::InvalidPath, "an export has no name that could be watched; watch its names")),
    }
}

impl Shared {
    /// The watcher, while the thread runs.
    fn running(&self) -> Option<Arc<Watcher>> {
        match &*lock(&self.telling) {
            Telling::Running(watcher) => Some(Arc::clone(watcher)),
            Telling::Unbegun | Telling::Ended => None,
        }
    }

    /// The watcher; with the first one the thread begins.
    fn watcher(self: &Arc<Self>) -> Result<Arc<Watcher>, Error> {
        let mut telling = lock(&self.telling);
        match &*telling {
            Telling::Running(watcher) => return Ok(Arc::clone(watcher)),
            Telling::Ended => return Err(Error::new(ErrorKind::Draining, "the server has ended")),
            Telling::Unbegun => {}
        }
        let watcher = Arc::new(Watcher::new()?);
        let (shared, of_thread) = (Arc::clone(self), Arc::clone(&watcher));
        let thread = std::thread::Builder::new().name("xdfs-notices".into());
        thread
            .spawn(move || shared.run(&of_thread))
            .map_err(|error| Error::new(ErrorKind::Resources, format!("cannot watch for changes: {error}")))?;
        *telling = Telling::Running(Arc::clone(&watcher));
        Ok(watcher)
    }

    fn run(&self, watcher: &Watcher) {
        let mut owed: BTreeMap<SessionId, Arc<Queue>> = BTreeMap::new();
        while matches!(*lock(&self.telling), Telling::Running(_)) {
            watcher.wait(if owed.is_empty() { None } else { Some(PAUSE) }, true);
            let mut round = Round::default();
            watcher.read(|mark: Mark, name, happened| round.happened(mark, name, happened));
            let judge = |queue: &Queue, name: &[u8]| self.may_learn(queue, name);
            let told = round.tell(&self.table, Some(watcher), judge);
            owed.extend(told.into_iter().map(|queue| (queue.session, queue)));
            owed.append(&mut lock(&self.owed));
            owed.retain(|session, queue| {
                let told = queue.told.swap(true, Ordering::SeqCst) || (self.tell)(*session);
                if !told {
                    queue.told.store(false, Ordering::SeqCst);
                }
                !told
            });
            // Changes that follow at once are gathered; the end of the server is not waited for.
            watcher.wait(Some(PAUSE), false);
        }
    }

    /// What is in this queue could not be sent.
    fn owe(&self, queue: &Arc<Queue>) {
        lock(&self.owed).insert(queue.session, Arc::clone(queue));
    }

    /// Whether its export has another directory than when the watch was authorised.
    fn has_moved(&self, entry: &Entry) -> bool {
        self.authority.now().has_moved(entry.name(), entry.root)
    }

    /// Whether the user may read this name now.
    fn may_learn(&self, queue: &Queue, name: &[u8]) -> bool {
        self.authority.now().authorise(&queue.principal, name, Want::Read, seconds_now()).is_ok()
    }
}
