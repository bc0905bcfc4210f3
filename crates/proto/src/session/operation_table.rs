//! The operations of a session by number, with a small summary of each for the decisions about what
//! to send next. Most operations in flight have nothing to send at a given time, and visiting each
//! of them took longer than sending.
//!
//! The summaries are derived from the operations, so two sets with the same operations are equal
//! whatever is marked.

use super::operation::Operation;
use crate::base::{ChannelId, Instant, OperationId};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};

/// The summary of an operation, so that operations with nothing to do need not be visited.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperationFlags {
    /// Its outcome is not known yet.
    pub(super) live: bool,
    /// It has a message to send.
    pub(super) owes: bool,
    /// It has a block that is new or must be sent again, and may be sent.
    pub(super) works: bool,
    /// The channel that its blocks must use, if there is one.
    pub(super) only: Option<ChannelId>,
    /// The earliest time at which a block of it may have to be retransmitted for lack of an
    /// acknowledgement: [`Operation::repeat_at`] computes when.
    pub(super) repeat_from: Option<Instant>,
    /// When it must be checked again for any other reason.
    pub(super) due: Option<Instant>,
}

impl OperationFlags {
    fn of(operation: &Operation) -> Self {
        Self {
            live: !operation.is_settled(),
            owes: operation.announcements.owes_any(),
            works: operation.has_work(),
            only: operation.only_on(),
            repeat_from: operation.repeat_from(),
            due: [operation.ack_at(), operation.retry_at()].into_iter().flatten().min(),
        }
    }

    /// Whether a block of it may have to be retransmitted by now.
    pub(super) fn may_repeat(&self, now: Instant) -> bool {
        self.repeat_from.is_some_and(|from| from <= now)
    }

    /// Whether a block of it may be sent on `channel`.
    pub(super) fn may_carry(&self, channel: ChannelId) -> bool {
        self.only.is_none_or(|only| only == channel)
    }
}

/// The operations of a session by number, with an index of those that have something to send.
#[derive(Clone, Default)]
pub(super) struct OperationTable {
    /// Boxed: insertion and removal move the neighbours.
    all: BTreeMap<OperationId, Box<Operation>>,
    /// The summary of each operation, ascending, as of when it was last marked.
    marks: Vec<(OperationId, OperationFlags)>,
    /// Operations that may have changed since.
    changed: Vec<OperationId>,
    /// All of them may have changed.
    all_changed: bool,
}

impl OperationTable {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn contains_key(&self, id: &OperationId) -> bool {
        self.all.contains_key(id)
    }

    pub(super) fn get(&self, id: &OperationId) -> Option<&Operation> {
        self.all.get(id).map(|operation| &**operation)
    }

    pub(super) fn get_mut(&mut self, id: &OperationId) -> Option<&mut Operation> {
        let operation = self.all.get_mut(id)?;
        if self.changed.last() != Some(id) {
            self.changed.push(*id);
        }
        Some(operation)
    }

    pub(super) fn insert(&mut self, id: OperationId, operation: Operation) {
        self.all.insert(id, Box::new(operation));
        self.changed.push(id);
    }

    pub(super) fn remove(&mut self, id: &OperationId) -> Option<Operation> {
        let operation = self.all.remove(id)?;
        self.changed.push(*id);
        Some(*operation)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &OperationId> {
        self.all.keys()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Operation> {
        self.all.values().map(|operation| &**operation)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Operation> {
        self.all_changed = true;
        self.all.values_mut().map(|operation| &mut **operation)
    }

    /// Updates the summaries of operations that may have changed, so that [`Self::marks`] visits no
    /// operation.
    pub(super) fn mark(&mut self) {
        if self.all_changed {
            self.marks.clear();
            self.marks.extend(self.all.iter().map(|(id, operation)| (*id, OperationFlags::of(operation))));
            self.all_changed = false;
            self.changed.clear();
        }
        for id in self.changed.drain(..) {
            let place = self.marks.binary_search_by_key(&id, |(id, _)| *id);
            match (place, self.all.get(&id)) {
                (Ok(at), Some(operation)) => self.marks[at].1 = OperationFlags::of(operation),
                (Err(at), Some(operation)) => self.marks.insert(at, (id, OperationFlags::of(operation))),
                (Ok(at), None) => drop(self.marks.remove(at)),
                (Err(_), None) => {}
            }
        }
    }

    /// The next operation in a circle behind `last` that `may` accepts by its mark. All are marked.
    pub(super) fn next_marked(
        &self,
        last: OperationId,
        may: impl Fn(OperationId, &OperationFlags) -> bool,
    ) -> Option<OperationId> {
        debug_assert!(self.changed.is_empty() && !self.all_changed, "an operation has changed since it was marked");
        let (before, behind) = self.marks.split_at(self.marks.partition_point(|(id, _)| *id <= last));
        for (id, mark) in behind.iter().chain(before) {
            if may(*id, mark) {
                return Some(*id);
            }
        }
        None
    }

    /// Each operation and its mark, ascending.
    pub(super) fn marks(&self) -> impl Iterator<Item = (OperationId, OperationFlags)> {
        let current = self.changed.is_empty() && !self.all_changed;
        let marks: &[(OperationId, OperationFlags)] = if current { &self.marks } else { &[] };
        let unmarked =
            self.all.iter().filter(move |_| !current).map(|(id, operation)| (*id, OperationFlags::of(operation)));
        marks.iter().copied().chain(unmarked)
    }
}

impl PartialEq for OperationTable {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl Eq for OperationTable {}

impl Hash for OperationTable {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.all.hash(state);
    }
}

impl fmt::Debug for OperationTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}
