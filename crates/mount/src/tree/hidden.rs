//! Files that were removed while they are open. The server removes the hidden names of a session that is
//! over (P-101), so a new session says soon which ones are still needed, also if nobody uses them.

use super::data::OpenFile;
use super::{HIDDEN, Tree};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;
use xdfs_client::wire::Wanted;

/// How often it is seen whether the session is still the same, as long as there are such files.
const PAUSE: Duration = Duration::from_secs(1);

/// Hides files that are removed while they are open.
#[derive(Debug)]
pub(super) struct Hiding {
    /// What tells the hidden names of this mount from those of others.
    token: u64,
    /// Names so far, each one once.
    names: AtomicU64,
    /// Shared while hidden files are made and removed, alone while they are moved.
    moving: RwLock<()>,
    pub(super) keeper: Keeper,
}

impl Hiding {
    pub(super) fn new(token: u64) -> Self {
        Self { token, names: AtomicU64::new(0), moving: RwLock::new(()), keeper: Keeper::default() }
    }

    /// A name that nobody has.
    pub(super) fn next_name(&self) -> Vec<u8> {
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        [HIDDEN, format!("{:016x}-{number}", self.token).as_bytes()].concat()
    }

    /// Whether there was ever a hidden file.
    pub(super) fn has_hidden(&self) -> bool {
        self.names.load(Ordering::Relaxed) > 0
    }

    /// Held while hidden files are made and removed.
    pub(super) fn hold(&self) -> RwLockReadGuard<'_, ()> {
        self.moving.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held while hidden files are moved.
    pub(super) fn hold_alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.moving.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells one thread when there is something to keep.
#[derive(Default, Debug)]
pub(super) struct Keeper {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default, Debug)]
struct State {
    /// There may be hidden files.
    any: bool,
    ended: bool,
}

impl Keeper {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file was hidden.
    pub(super) fn wake(&self) {
        self.lock().any = true;
        self.changed.notify_all();
    }

    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// Waits until there may be hidden files, and then a pause; false at the end.
    fn wait(&self) -> bool {
        let waits = |state: &mut State| !state.any && !state.ended;
        let state = self.changed.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        let paused = self.changed.wait_timeout_while(state, PAUSE, |state| !state.ended);
        let (mut state, _) = paused.unwrap_or_else(PoisonError::into_inner);
        state.any = false;
        !state.ended
    }
}

impl Tree {
    /// An open file of each hidden inode.
    fn hidden_files(&self) -> Vec<Arc<OpenFile>> {
        let all = self.files.all();
        let each: BTreeMap<u64, &Arc<OpenFile>> = {
            let inodes = self.inodes();
            all.iter().filter(|open| inodes.is_hidden(open.inode)).map(|open| (open.inode, open)).collect()
        };
        each.into_values().cloned().collect()
    }

    /// Opens hidden files again in each new session, until [`Keeper::end`].
    pub(super) fn keep_hidden(&self) {
        let mut known = self.remote.connections();
        while self.hiding.keeper.wait() {
            let files = self.hidden_files();
            let Some((first, others)) = files.split_first() else { continue };
            self.hiding.keeper.wake();
            // Whoever uses the file next is told what is wrong with it.
            let _ = first.file.look(Wanted::CHANGE);
            let now = self.remote.connections();
            if now != known {
                known = now;
                for open in others {
                    let _ = open.file.look(Wanted::CHANGE);
                }
            }
        }
    }
}
