//! What the caller has names for. A name is never used again, so that one of something that is gone is an
//! error and nothing worse.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock};
use xdfs_xio::{Error, ErrorKind, Result};

/// A name. NULL is none.
pub(crate) type Id = usize;

/// Names of all kinds of things come from one count, so that no name of one is one of another. They are
/// no addresses of anything: those of Linux begin above them.
static LAST: AtomicUsize = AtomicUsize::new(0);

/// Calls of `xdfs_xio_activate` that were not taken back.
static ACTIVE: Mutex<u32> = Mutex::new(0);

/// The things of one kind.
pub(crate) struct Objects<T> {
    kind: &'static str,
    all: LazyLock<RwLock<HashMap<Id, Arc<T>>>>,
}

impl<T> Objects<T> {
    pub(crate) const fn new(kind: &'static str) -> Self {
        Self { kind, all: LazyLock::new(Default::default) }
    }

    /// Gives it a name.
    pub(crate) fn add(&self, object: T) -> Result<Id> {
        if *ACTIVE.lock().unwrap_or_else(PoisonError::into_inner) == 0 {
            return Err(Error::new(ErrorKind::Usage, "the library is not active: call xdfs_xio_activate first"));
        }
        let id = LAST.fetch_add(1, Ordering::Relaxed) + 2;
        self.all.write().unwrap_or_else(PoisonError::into_inner).insert(id, Arc::new(object));
        Ok(id)
    }

    /// The one of that name.
    pub(crate) fn get(&self, id: Id) -> Result<Arc<T>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&id).cloned().ok_or_else(|| {
            let what = if id == 0 { "is NULL" } else { "is unknown: it was closed or destroyed, or never made" };
            Error::new(ErrorKind::Usage, format!("the {} {what}", self.kind))
        })
    }

    /// The one of that name; none for NULL.
    pub(crate) fn get_if_given(&self, id: Id) -> Result<Option<Arc<T>>> {
        if id == 0 { Ok(None) } else { self.get(id).map(Some) }
    }

    /// Takes the name back.
    pub(crate) fn remove(&self, id: Id) -> Result<Arc<T>> {
        let object = self.get(id)?;
        self.all.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
        Ok(object)
    }

    /// Takes all names back.
    pub(crate) fn clear(&self) {
        // Dropped without the lock: what is dropped may call back.
        let all = std::mem::take(&mut *self.all.write().unwrap_or_else(PoisonError::into_inner));
        drop(all);
    }
}

/// One more that uses the library.
pub(crate) fn activate() {
    *ACTIVE.lock().unwrap_or_else(PoisonError::into_inner) += 1;
}

/// One less; true where it was the last.
pub(crate) fn deactivate() -> Result<bool> {
    let mut active = ACTIVE.lock().unwrap_or_else(PoisonError::into_inner);
    let left = active.checked_sub(1).ok_or_else(|| Error::new(ErrorKind::Usage, "the library is not active"))?;
    *active = left;
    Ok(left == 0)
}
