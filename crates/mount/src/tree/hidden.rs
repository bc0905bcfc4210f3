//! Files that were removed while they are open. The server removes the hidden names of a session that is
//! over (P-101), so a new session says soon which ones are still needed, also if nobody uses them.

use super::Tree;
use super::data::OpenFile;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use xdfs_client::wire::Wanted;

/// How often it is seen whether the session is still the same, as long as there are such files.
const PAUSE: Duration = Duration::from_secs(1);

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
        let mut all = self.files.all();
        {
            let inodes = self.inodes();
            all.retain(|open| inodes.is_hidden(open.inode));
        }
        let each: BTreeMap<u64, Arc<OpenFile>> = all.into_iter().map(|open| (open.inode, open)).collect();
        each.into_values().collect()
    }

    /// Opens hidden files again in each new session, until [`Keeper::end`].
    pub(super) fn keep_hidden(&self) {
        let mut known = self.remote.connections();
        while self.keeper.wait() {
            let files = self.hidden_files();
            let Some((first, others)) = files.split_first() else { continue };
            self.keeper.wake();
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
