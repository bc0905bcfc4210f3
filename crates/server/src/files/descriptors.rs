//! The descriptors behind the handles: a bounded number, and of one user at most a quarter of it.
//! Whoever opens more makes the ones that were used least recently close; first of all their own.
//!
//! A descriptor is here or nowhere: what closes one and what locks it cannot be about two of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use xdfs_io::store::OpenFile;

/// A descriptor behind a handle.
struct Held {
    id: u64,
    user: Arc<str>,
    file: Arc<OpenFile>,
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
    pinned: BTreeMap<u64, Held>,
    /// Descriptors of each user that hold a lock: those of `pinned`, and those of owners of ranges.
    pins: BTreeMap<Arc<str>, usize>,
    /// How many owners of ranges there are.
    owners: usize,
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
        let (order, moments, users, pinned, pins) = Default::default();
        Self { most: most.max(4), order, moments, users, pinned, pins, owners: 0, now: 0 }
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
        let Some(held) = self.pinned.remove(&id) else { return self.take(id) };
        count_down(&mut self.pins, &held.user);
        Some(held.file)
    }

    /// The handle's descriptor, which stays open from now on: `file` if it has none. None if the
    /// user, or the server, has too many of these.
    pub(super) fn pin(&mut self, id: u64, user: &Arc<str>, file: &Arc<OpenFile>) -> Option<Arc<OpenFile>> {
        if let Some(held) = self.pinned.get(&id) {
            return Some(Arc::clone(&held.file));
        }
        if !self.may_pin(user) {
            return None;
        }
        let file = self.take(id).unwrap_or_else(|| Arc::clone(file));
        *self.pins.entry(Arc::clone(user)).or_default() += 1;
        self.pinned.insert(id, Held { id, user: Arc::clone(user), file: Arc::clone(&file) });
        Some(file)
    }

    fn may_pin(&self, user: &Arc<str>) -> bool {
        let own = self.pins.get(user).copied().unwrap_or(0);
        own < self.most.div_ceil(8) && self.pinned.len() + self.owners < self.most.div_ceil(2)
    }

    /// An owner of ranges opens a descriptor of its own, which is counted here; false if the user, or
    /// the server, has too many of these.
    pub(super) fn reserve(&mut self, user: &Arc<str>) -> bool {
        let may = self.may_pin(user);
        if may {
            self.owners += 1;
            *self.pins.entry(Arc::clone(user)).or_default() += 1;
        }
        may
    }

    /// It closed it.
    pub(super) fn release(&mut self, user: &Arc<str>) {
        self.owners -= 1;
        count_down(&mut self.pins, user);
    }

    /// The descriptor that holds a lock of the handle.
    pub(super) fn pinned(&self, id: u64) -> Option<Arc<OpenFile>> {
        self.pinned.get(&id).map(|held| Arc::clone(&held.file))
    }

    /// It may be closed again.
    pub(super) fn unpin(&mut self, id: u64) -> Closed {
        let Some(held) = self.pinned.remove(&id) else { return Closed::new() };
        count_down(&mut self.pins, &held.user);
        self.keep(id, &held.user, held.file)
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
