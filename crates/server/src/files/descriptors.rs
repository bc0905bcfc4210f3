//! Which handles have a descriptor open: a bounded number, and of one user at most a quarter of it.
//! Whoever opens more makes the ones that were used least recently close; first of all their own.

use super::Handle;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// A handle with an open descriptor.
struct Held {
    id: u64,
    user: Arc<str>,
    handle: Weak<Handle>,
}

/// The open descriptors, in the order of their last use.
pub(super) struct Descriptors {
    most: usize,
    /// By the moment of the last use.
    order: BTreeMap<u64, Held>,
    /// The moment of each handle's last use.
    moments: BTreeMap<u64, u64>,
    users: BTreeMap<Arc<str>, usize>,
    /// Descriptors that hold a lock, and stay open: besides those of `order`.
    pinned: BTreeMap<Arc<str>, usize>,
    now: u64,
}

impl Descriptors {
    pub(super) fn new(most: usize) -> Self {
        let (order, moments, users, pinned) = Default::default();
        Self { most: most.max(4), order, moments, users, pinned, now: 0 }
    }

    /// The handle was used just now.
    pub(super) fn used(&mut self, handle: &Arc<Handle>) {
        let Some(moment) = self.moments.get_mut(&handle.id) else { return };
        let Some(held) = self.order.remove(moment) else { return };
        self.now += 1;
        *moment = self.now;
        self.order.insert(self.now, held);
    }

    /// The handle has a descriptor: returns those that must close theirs.
    pub(super) fn opened(&mut self, handle: &Arc<Handle>) -> Vec<Arc<Handle>> {
        let user = &handle.reserved.user;
        self.gone(handle.id, user);
        self.now += 1;
        self.moments.insert(handle.id, self.now);
        self.order.insert(self.now, Held { id: handle.id, user: Arc::clone(user), handle: Arc::downgrade(handle) });
        *self.users.entry(Arc::clone(user)).or_default() += 1;
        let mut closed = Vec::new();
        while let Some(moment) = self.surplus(user) {
            let Some(held) = self.order.get(&moment) else { break };
            let (id, user, other) = (held.id, Arc::clone(&held.user), held.handle.upgrade());
            self.gone(id, &user);
            closed.extend(other);
        }
        closed
    }

    /// The descriptor to close next, if there are too many.
    fn surplus(&self, user: &Arc<str>) -> Option<u64> {
        let own = self.users.get(user).copied().unwrap_or(0);
        if own > self.most / 4 {
            return self.order.iter().find(|(_, held)| held.user == *user).map(|(moment, _)| *moment);
        }
        (self.order.len() > self.most).then(|| self.order.keys().next().copied()).flatten()
    }

    /// The handle has no descriptor any more.
    pub(super) fn gone(&mut self, id: u64, user: &Arc<str>) {
        let Some(moment) = self.moments.remove(&id) else { return };
        self.order.remove(&moment);
        if let Some(count) = self.users.get_mut(user) {
            *count -= 1;
            if *count == 0 {
                self.users.remove(user);
            }
        }
    }

    /// The handle's descriptor stays open from now on; false if the user, or the server, has too many
    /// of these.
    pub(super) fn pin(&mut self, id: u64, user: &Arc<str>) -> bool {
        let own = self.pinned.get(user).copied().unwrap_or(0);
        if own >= self.most.div_ceil(8) || self.pinned.values().sum::<usize>() >= self.most.div_ceil(2) {
            return false;
        }
        *self.pinned.entry(Arc::clone(user)).or_default() += 1;
        self.gone(id, user);
        true
    }

    /// It may be closed again.
    pub(super) fn unpin(&mut self, user: &Arc<str>) {
        let Some(count) = self.pinned.get_mut(user) else { return };
        *count -= 1;
        if *count == 0 {
            self.pinned.remove(user);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }
}
