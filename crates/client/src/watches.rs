//! The table of a session's watches of names: who is told of changes, and which ends the server does not know yet.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::wire::notice::{Changes, Notice};

/// Is told what changed, and of which name in the watched directory; the name is empty for what is
/// watched itself. Must not wait, and must not drop a watch.
pub(crate) type OnChange = Arc<dyn Fn(Changes, &[u8]) + Send + Sync>;

/// Watches whose end is told in one batch.
pub(crate) const ENDS_AT_ONCE: usize = 64;

/// Watches that have ended here, and that the server has not been told of yet: as many as it grants.
const ENDS_MAX: usize = 4096;

/// The watches that there are, and those that have ended.
#[derive(Default)]
struct State {
    watches: BTreeMap<u64, OnChange>,
    /// The number that was given last.
    last: u64,
    /// Ended, and the server does not know.
    untold: Vec<u64>,
    ended: bool,
}

/// The watches of one session.
#[derive(Default)]
pub(crate) struct Watches(Mutex<State>);

impl Watches {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names have changed.
    pub(crate) fn noticed(&self, notices: &[Notice]) {
        for notice in notices {
            let told: Vec<OnChange> = {
                let mut state = self.lock();
                let over = notice.changes.has(Changes::OVER);
                match notice.watch {
                    0 => state.watches.values().cloned().collect(),
                    watch if over => state.watches.remove(&watch).into_iter().collect(),
                    watch => state.watches.get(&watch).cloned().into_iter().collect(),
                }
            };
            told.iter().for_each(|told| told(notice.changes, &notice.name));
        }
    }

    /// The session has ended.
    pub(crate) fn end(&self) {
        let watches = {
            let mut state = self.lock();
            state.ended = true;
            std::mem::take(&mut state.watches)
        };
        watches.into_values().for_each(|told| told(Changes::OVER, b""));
    }

    /// Enters a watch, and says its number.
    pub(crate) fn enter(&self, told: OnChange) -> Result<u64, Error> {
        let mut state = self.lock();
        if state.ended {
            return Err(Error::new(ErrorKind::ConnectionLost, "the session has ended"));
        }
        state.last += 1;
        let watch = state.last;
        state.watches.insert(watch, told);
        Ok(watch)
    }

    /// A watch has ended. False if there was none.
    pub(crate) fn leave(&self, watch: u64) -> bool {
        // Whoever it told may end another one with it: nothing is locked then.
        let told = self.lock().watches.remove(&watch);
        told.is_some()
    }

    /// Watches of whose end the server is to be told now.
    pub(crate) fn ends(&self) -> Vec<u64> {
        let mut state = self.lock();
        let count = state.untold.len().min(ENDS_AT_ONCE);
        state.untold.drain(..count).collect()
    }

    /// Whether there is such a watch.
    pub(crate) fn has(&self, watch: u64) -> bool {
        self.lock().watches.contains_key(&watch)
    }

    /// The server is to be told that a watch has ended.
    pub(crate) fn tell_end_of(&self, watch: u64) {
        let mut state = self.lock();
        if state.untold.len() < ENDS_MAX {
            state.untold.push(watch);
        }
    }
}
