//! Sessions without an element, kept for the next one of the same server and login (GXIO-06).
//!
//! A session may come back a moment after its element was closed, when the server has said its last word
//! on a transfer that was given up. Who asks meanwhile waits for it: that takes less than a login.

use super::target::Account;
use crate::client::Session;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most sessions that are kept. Servers count how many a host has.
const SESSIONS_MAX: usize = 16;
/// How long one is kept. Servers end idle sessions after some minutes.
const KEPT: Duration = Duration::from_secs(60);
/// How long a server may take for its last word on a transfer that was given up, before its session is.
pub(super) const SETTLING: Duration = Duration::from_secs(10);

/// Whose session it is. One waits for its server as long as its first element did.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    pub(super) account: Account,
    pub(super) silence: Duration,
}

struct Kept {
    key: Arc<Key>,
    session: Session,
    since: Instant,
}

struct Cache {
    /// The oldest first.
    kept: Vec<Kept>,
    /// Whose sessions are about to come back. There are no more than elements.
    returning: Vec<Arc<Key>>,
}

static CACHE: Mutex<Cache> = Mutex::new(Cache { kept: Vec::new(), returning: Vec::new() });
static CHANGED: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Cache> {
    CACHE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A session that is about to come back, or to be given up, until this is dropped.
#[derive(Debug)]
pub(super) struct Returning(Arc<Key>);

impl Returning {
    pub(super) fn new(key: &Arc<Key>) -> Self {
        lock().returning.push(Arc::clone(key));
        Self(Arc::clone(key))
    }
}

impl Drop for Returning {
    fn drop(&mut self) {
        let mut cache = lock();
        if let Some(at) = cache.returning.iter().position(|key| Arc::ptr_eq(key, &self.0)) {
            cache.returning.swap_remove(at);
        }
        CHANGED.notify_all();
    }
}

/// A session of this key, if there is one that the server has not ended.
pub(super) fn take(key: &Key) -> Option<Session> {
    let until = Instant::now() + SETTLING;
    let mut cache = lock();
    loop {
        let old: Vec<Kept> = cache.kept.extract_if(.., |one| one.since.elapsed() > KEPT).collect();
        let found = cache.kept.iter().rposition(|one| *one.key == *key).map(|at| cache.kept.remove(at));
        let left = until.saturating_duration_since(Instant::now());
        let comes = !left.is_zero() && cache.returning.iter().any(|returning| **returning == *key);
        if old.is_empty() && found.is_none() && comes {
            cache = CHANGED.wait_timeout(cache, left).unwrap_or_else(PoisonError::into_inner).0;
            continue;
        }
        drop(cache);
        old.into_iter().for_each(|one| one.session.quit());
        let mut session = found?.session;
        if session.client().is_quiet() {
            return Some(session);
        }
        cache = lock();
    }
}

/// Keeps a session. The oldest gives way.
pub(super) fn keep(key: &Arc<Key>, session: Session) {
    let mut cache = lock();
    let oldest = if cache.kept.len() >= SESSIONS_MAX { Some(cache.kept.remove(0)) } else { None };
    cache.kept.push(Kept { key: Arc::clone(key), session, since: Instant::now() });
    drop(cache);
    CHANGED.notify_all();
    if let Some(oldest) = oldest {
        oldest.session.quit();
    }
}
