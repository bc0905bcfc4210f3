//! Read leases of files that are open here to be read alone (P-94), where the server grants them. As long
//! as there is one, nobody changes the file: the kernel keeps its pages and attributes. Before somebody
//! does, the kernel drops them; without a lease it asks for the attributes before each read.
//!
//! A thread asks for them, so that to open a file is one round trip as ever. While an open file of an
//! inode writes here, none is had: its own lease would be in its way.

use super::Tree;
use super::data::OpenFile;
use crate::kernel::Notifier;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use xdfs_client::ErrorKind;
use xdfs_client::file::LeaseKind;

/// Inodes for which a lease is to be asked: what is more waits for its next use.
const WANTED_MAX: usize = 1024;

/// Leases at a time. A server has 4,096 for one user.
const HELD_MAX: usize = 2048;

/// How long nobody asks again for a lease that was refused.
const REFUSED: Duration = Duration::from_secs(1);

/// The leases of a mount.
#[derive(Default, Debug)]
pub(super) struct Leases {
    state: Mutex<State>,
    changed: Condvar,
    /// The session, by its number, in which the server said that it grants none; 0 is none.
    none_in: AtomicU64,
    /// How the kernel is told; none before it is mounted.
    notifier: OnceLock<Notifier>,
}

#[derive(Default, Debug)]
struct State {
    /// The open file of each inode that has, or had, a lease.
    held: BTreeMap<u64, Arc<OpenFile>>,
    wanted: BTreeSet<u64>,
    /// Asked for and refused, and when.
    refused: BTreeMap<u64, Instant>,
    /// Those that may not be changed here, and therefore not be leased.
    never: BTreeSet<u64>,
    ended: bool,
}

impl Leases {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// A lease is to be asked for.
    fn want(&self, inode: u64) {
        let mut state = self.lock();
        state.refused.retain(|_, since| since.elapsed() < REFUSED);
        let room = state.wanted.len() < WANTED_MAX && state.held.len() < HELD_MAX;
        if room && self.notifier.get().is_some() && !state.refused.contains_key(&inode) && !state.never.contains(&inode)
        {
            state.wanted.insert(inode);
            self.changed.notify_all();
        }
    }

    /// The next inode for which one is to be asked; none at the end.
    fn next(&self) -> Option<u64> {
        let waits = |state: &mut State| state.wanted.is_empty() && !state.ended;
        let mut state = self.changed.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        if state.ended { None } else { state.wanted.pop_first() }
    }

    fn held(&self, inode: u64) -> Option<Arc<OpenFile>> {
        self.lock().held.get(&inode).map(Arc::clone)
    }

    fn give_up(&self, inode: u64) {
        let mut state = self.lock();
        if state.never.len() < HELD_MAX {
            state.never.insert(inode);
        }
    }

    fn refuse(&self, inode: u64) {
        let mut state = self.lock();
        if state.refused.len() < WANTED_MAX {
            state.refused.insert(inode, Instant::now());
        }
    }
}

impl Tree {
    /// Where the kernel is told that what it keeps of an inode is old.
    pub(crate) fn hear(&self, notifier: Notifier) {
        let _ = self.leases.notifier.set(notifier);
    }

    /// An inode was opened: a lease is asked for if it is only read, and given back if not.
    pub(super) fn lease_opened(&self, inode: u64, writes: bool) {
        if writes {
            self.end_lease(inode);
        } else if self.leases.none_in.load(Ordering::Relaxed) != self.remote.connections() {
            self.leases.want(inode);
        }
    }

    /// Gives the lease of an inode back.
    pub(super) fn end_lease(&self, inode: u64) {
        let held = {
            let mut state = self.leases.lock();
            state.never.remove(&inode);
            state.held.remove(&inode)
        };
        if let Some(open) = held {
            // A session that is lost has none.
            let _ = open.file.give_back_lease();
        }
    }

    /// An open file is closed, and its lease with it. Another one of the inode may have one then.
    pub(super) fn lease_closed(&self, open: &Arc<OpenFile>) {
        let mut state = self.leases.lock();
        if state.held.get(&open.inode).is_some_and(|held| Arc::ptr_eq(held, open)) {
            state.held.remove(&open.inode);
        }
    }

    fn may_be_leased(&self, inode: u64) -> bool {
        self.remote.grants_leases() && self.inodes().is_open(inode) && !self.leases.lock().never.contains(&inode)
    }

    /// How long attributes may be used that are asked for from now on.
    pub(super) fn valid_of(&self, inode: u64) -> Duration {
        if !self.may_be_leased(inode) {
            return self.settings.valid;
        }
        let lease = self.leases.held(inode).and_then(|open| open.file.leased());
        if let Some(lease) = lease.filter(|lease| !lease.recalled) {
            return lease.until.saturating_duration_since(Instant::now());
        }
        match self.open_file_of(inode) {
            Some(open) if !open.writes => {
                self.leases.want(inode);
                Duration::ZERO
            }
            _ => self.settings.valid,
        }
    }

    /// The same for attributes that were asked for before it was known whose they are.
    pub(super) fn valid_of_found(&self, inode: u64) -> Duration {
        if !self.may_be_leased(inode) {
            return self.settings.valid;
        }
        let reads = self.open_file_of(inode).is_some_and(|open| !open.writes);
        if reads { Duration::ZERO } else { self.settings.valid }
    }

    /// Asks for leases, until [`Leases::end`].
    pub(super) fn take_leases(&self) {
        while let Some(inode) = self.leases.next() {
            // Of several ones, one that writes if there is one.
            if let Some(open) = self.open_file_of(inode).filter(|open| !open.writes) {
                self.take_lease(&open);
            }
        }
    }

    fn take_lease(&self, open: &Arc<OpenFile>) {
        let inode = open.inode;
        let Some(notifier) = self.leases.notifier.get().cloned() else { return };
        if self.leases.held(inode).is_some_and(|held| held.file.leased().is_some()) {
            return;
        }
        let told = notifier.clone();
        open.file.on_recall(move || told.forget_content(inode));
        match open.file.lease(LeaseKind::Read) {
            Ok(Some(lease)) if !lease.recalled => {}
            Err(error) if matches!(error.kind, ErrorKind::Refused | ErrorKind::PermissionDenied) => {
                return self.leases.give_up(inode);
            }
            _ if !self.remote.grants_leases() => {
                return self.leases.none_in.store(self.remote.connections(), Ordering::Relaxed);
            }
            _ => return self.leases.refuse(inode),
        }
        // What the kernel keeps is older than the lease.
        let before = self.contents().get(&inode).and_then(|content| content.version);
        let now = open.file.look(super::WANTED).ok().and_then(|facts| facts.change);
        if before.is_none() || before.map(|(_, change)| change) != now {
            notifier.forget_content(inode);
        }
        self.leases.lock().held.insert(inode, Arc::clone(open));
        // It was closed, or opened to write, meanwhile.
        if self.open_file_of(inode).is_none_or(|open| open.writes) {
            self.end_lease(inode);
        }
    }
}
