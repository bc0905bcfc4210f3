//! The descriptors behind the handles: a bounded number, and of one user at most a quarter of it.
//! Whoever opens more makes the ones that were used least recently close; first of all their own.
//!
//! A descriptor is here or nowhere: what closes one and what locks it cannot be about two of them.

use crate::descriptor_slots::DescriptorSlot;
use std::collections::BTreeMap;
use std::sync::Arc;
use xdfs_io::store::OpenFile;
use xdfs_proto::base::Error;

/// A descriptor behind a handle.
struct Held {
    id: u64,
    user: Arc<str>,
    file: Arc<OpenFile>,
}

/// A descriptor that holds a lock.
struct Pinned {
    user: Arc<str>,
    file: Arc<OpenFile>,
    _slot: DescriptorSlot,
}

/// The open descriptors. What is taken out is returned: closing a file may take long, and happens
/// outside the lock around this.
pub(super) struct Descriptors {
    most: usize,
    /// Those that may be closed, by the moment of the last use.
    order: BTreeMap<u64, Held>,
    /// The moment of each handle's last use.
    moments: BTreeMap<u64, u64>,
    users: BTreeMap<Arc<str>, usize>,
    /// Those that hold a lock, and stay open, by handle: besides those of `order`.
    pinned: BTreeMap<u64, Pinned>,
    now: u64,
}

/// Descriptors to close.
pub(super) type Closed = Vec<Arc<OpenFile>>;

fn count_down(counts: &mut BTreeMap<Arc<str>, usize>, user: &Arc<str>) {
    if let Some(count) = counts.get_mut(user) {
        *count -= 1;
        if *count == 0 {
            counts.remove(user);
        }
    }
}

impl Descriptors {
    pub(super) fn new(most: usize) -> Self {
        let (order, moments, users, pinned) = Default::default();
        Self { most, order, moments, users, pinned, now: 0 }
    }

    /// The handle's descriptor, if it is still open; it is then the one used last.
    pub(super) fn of(&mut self, id: u64) -> Option<Arc<OpenFile>> {
        if let Some(held) = self.pinned.get(&id) {
            return Some(Arc::clone(&held.file));
        }
        let moment = self.moments.get_mut(&id)?;
        let held = self.order.remove(moment)?;
        self.now += 1;
        *moment = self.now;
        let file = Arc::clone(&held.file);
        self.order.insert(self.now, held);
        Some(file)
    }

    /// The handle has this descriptor, unless it has one that holds a lock.
    pub(super) fn keep(&mut self, id: u64, user: &Arc<str>, file: Arc<OpenFile>) -> Closed {
        if self.pinned.contains_key(&id) {
            return vec![file];
        }
        let mut closed = Vec::from_iter(self.take(id));
        self.now += 1;
        self.moments.insert(id, self.now);
        self.order.insert(self.now, Held { id, user: Arc::clone(user), file });
        *self.users.entry(Arc::clone(user)).or_default() += 1;
        while let Some(id) = self.surplus(user) {
            closed.extend(self.take(id));
        }
        closed
    }

    /// The handle whose descriptor is closed next, if there are too many.
    fn surplus(&self, user: &Arc<str>) -> Option<u64> {
        let own = self.users.get(user).copied().unwrap_or(0);
        let mut oldest = self.order.values();
        if own > self.most / 4 {
            return oldest.find(|held| held.user == *user).map(|held| held.id);
        }
        (self.order.len() > self.most).then(|| oldest.next().map(|held| held.id)).flatten()
    }

    fn take(&mut self, id: u64) -> Option<Arc<OpenFile>> {
        let held = self.order.remove(&self.moments.remove(&id)?)?;
        count_down(&mut self.users, &held.user);
        Some(held.file)
    }

    /// The handle is closed.
    pub(super) fn gone(&mut self, id: u64) -> Option<Arc<OpenFile>> {
        self.pinned.remove(&id).map(|pinned| pinned.file).or_else(|| self.take(id))
    }

    /// The handle's descriptor, which stays open from now on, as one that `slot` counts: `file` if it
    /// has none.
    pub(super) fn pin(
        &mut self,
        id: u64,
        user: &Arc<str>,
        file: &Arc<OpenFile>,
        slot: impl FnOnce() -> Result<DescriptorSlot, Error>,
    ) -> Result<Arc<OpenFile>, Error> {
        if let Some(pinned) = self.pinned.get(&id) {
            return Ok(Arc::clone(&pinned.file));
        }
        let slot = slot()?;
        let file = self.take(id).unwrap_or_else(|| Arc::clone(file));
        self.pinned.insert(id, Pinned { user: Arc::clone(user), file: Arc::clone(&file), _slot: slot });
        Ok(file)
    }

    /// The descriptor that holds a lock of the handle.
    pub(super) fn pinned(&self, id: u64) -> Option<Arc<OpenFile>> {
        self.pinned.get(&id).map(|held| Arc::clone(&held.file))
    }

    /// It may be closed again.
    pub(super) fn unpin(&mut self, id: u64) -> Closed {
        let Some(pinned) = self.pinned.remove(&id) else { return Closed::new() };
        self.keep(id, &pinned.user, pinned.file)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    #[cfg(test)]
    pub(super) fn is_open(&self, id: u64) -> bool {
        self.pinned.contains_key(&id) || self.moments.contains_key(&id)
    }
}
