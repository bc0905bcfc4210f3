//! The leases that open files of a server have: renewed in time, and given back when somebody waits.
//!
//! One thread for each server, from the first lease on. What it sends for many files is on its way at a
//! time. It must not decide what a lease permits: that is `proto/lease`, as each file keeps it.

use super::pending::PendingLease;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How often files are looked at that may have a lease to renew: often enough for a lease of a second.
const TICK: Duration = Duration::from_millis(200);

/// Without a lease nobody is looked after for so long, unless there is news.
const REST: Duration = Duration::from_secs(3600);

/// Handles whose recalls wait to be read: all that one user's leases can be.
const RECALLS_MAX: usize = 4096;

/// Those of them that are not known here, yet, and how long they are kept: the answer to an open is on its way.
const UNKNOWN_MAX: usize = 64;
const UNKNOWN_KEPT: Duration = Duration::from_secs(10);

/// An open file that may have a lease.
pub(super) trait LeasedFile: Send + Sync {
    /// As which handle it has to be looked after; none if there is no lease.
    fn kept_as(&self) -> Option<u64>;

    /// The server says that somebody waits.
    fn recalled(&self);

    /// Whether somebody waits.
    fn is_recalled(&self) -> bool;

    /// Sends what was kept, uses what was read no longer, and sends that the lease is given back.
    fn answer_recall(&self) -> Option<PendingLease>;

    /// Whether its lease is to be renewed.
    fn is_due(&self, now: Instant) -> bool;

    /// Sends what was kept under the lease.
    fn send_changes(&self);

    /// Asks for the lease again.
    fn send_renewal(&self) -> Option<PendingLease>;

    /// Takes the answer to a renewal; the lease may be recalled, or over.
    fn renewed(&self, pending: PendingLease);
}

/// Files that are looked after.
type Files = Vec<Arc<dyn LeasedFile>>;

/// What its thread and the others share.
#[derive(Default)]
struct State {
    /// Files that have a lease, or ask for one, by their present handle.
    files: BTreeMap<u64, Weak<dyn LeasedFile>>,
    recalled: BTreeSet<u64>,
    /// Handles that were recalled before this end knew that it has them, or after it gave them back; the oldest first.
    unknown: VecDeque<(u64, Instant)>,
    /// What becomes of its thread.
    life: Life,
}

/// The life of a [`Keeper`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Life {
    /// No file had a lease, or the thread could not be started.
    #[default]
    NoThread,
    /// The thread looks after the files.
    Runs,
    /// Nobody opens files any more, and the thread ends.
    Ending,
}

/// Looks after the leases of a server's open files.
#[derive(Default)]
pub(super) struct Keeper {
    state: Mutex<State>,
    news: Condvar,
}

impl Keeper {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks after this file from now on, as long as it has a lease.
    pub(super) fn keep(self: &Arc<Self>, handle: u64, file: Weak<dyn LeasedFile>) {
        let mut state = self.lock();
        if state.life == Life::Ending {
            // No file is left: each holds the `Remote` that ends this when it is dropped.
            return;
        }
        state.files.insert(handle, file);
        if let Some(at) = state.unknown.iter().position(|(recalled, _)| *recalled == handle) {
            state.unknown.remove(at);
            state.recalled.insert(handle);
        }
        if state.life == Life::NoThread {
            let keeper = Arc::clone(self);
            // Without a thread leases end when their time does.
            if std::thread::Builder::new().name("xdfs-leases".into()).spawn(move || keeper.run()).is_ok() {
                state.life = Life::Runs;
            }
        }
        drop(state);
        self.news.notify_all();
    }

    /// The server recalls the leases of these handles. Never waits.
    pub(super) fn recalled(&self, handles: &[u64]) {
        let mut state = self.lock();
        for handle in handles {
            if state.recalled.len() < RECALLS_MAX {
                state.recalled.insert(*handle);
            }
        }
        drop(state);
        self.news.notify_all();
    }

    /// Nobody opens files of this server any more.
    pub(super) fn end(&self) {
        self.lock().life = Life::Ending;
        self.news.notify_all();
    }

    fn run(&self) {
        while let Some((recalled, files)) = self.next() {
            recalled.iter().for_each(|file| file.recalled());
            let now = Instant::now();
            // Those that somebody waits for first; and all of them before the first answer is waited for.
            let waited_for = files.iter().filter(|file| file.is_recalled());
            let given: Vec<PendingLease> = waited_for.filter_map(|file| file.answer_recall()).collect();
            given.into_iter().for_each(PendingLease::forget);
            let due: Vec<&Arc<dyn LeasedFile>> = files.iter().filter(|file| file.is_due(now)).collect();
            due.iter().for_each(|file| file.send_changes());
            let sent: Vec<_> = due.iter().map(|file| (*file, file.send_renewal())).collect();
            for (file, sent) in sent {
                if let Some(sent) = sent {
                    file.renewed(sent);
                }
            }
        }
    }

    /// What there is to do, recalled files and all of them; none when it ends. Files without a lease are forgotten.
    fn next(&self) -> Option<(Files, Files)> {
        let mut state = self.lock();
        loop {
            if state.life == Life::Ending {
                return None;
            }
            let all: Files = state.files.values().filter_map(Weak::upgrade).collect();
            // A file that was opened again has another handle.
            let kept = all.iter().filter_map(|file| Some((file.kept_as()?, file)));
            let kept: BTreeMap<u64, Arc<dyn LeasedFile>> =
                kept.map(|(handle, file)| (handle, Arc::clone(file))).collect();
            state.files = kept.iter().map(|(handle, file)| (*handle, Arc::downgrade(file))).collect();
            let told = std::mem::take(&mut state.recalled);
            let now = Instant::now();
            state.unknown.extend(told.iter().filter(|handle| !kept.contains_key(handle)).map(|handle| (*handle, now)));
            let surplus = |unknown: &VecDeque<(u64, Instant)>| {
                unknown.len() > UNKNOWN_MAX || unknown.front().is_some_and(|(_, then)| now - *then > UNKNOWN_KEPT)
            };
            while surplus(&state.unknown) {
                state.unknown.pop_front();
            }
            let recalled: Files = told.iter().filter_map(|handle| kept.get(handle).cloned()).collect();
            let files: Files = kept.into_values().collect();
            if !recalled.is_empty() || files.iter().any(|file| file.is_recalled() || file.is_due(now)) {
                drop(state);
                return Some((recalled, files));
            }
            let rest = if files.is_empty() { REST } else { TICK };
            drop(state);
            // The last one may be dropped here, which needs the lock.
            drop((all, files));
            state = self.lock();
            if state.recalled.is_empty() && state.life != Life::Ending && (rest == TICK || state.files.is_empty()) {
                state = self.news.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}
