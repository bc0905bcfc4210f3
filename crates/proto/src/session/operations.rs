//! The operations of a session, by number, and of each the little that has to be known whenever the session decides what goes next.
//! Most that are under way have nothing to say at a time, and looking at each of them took longer than saying it.
//!
//! What is marked follows from the operations, so two sets with the same operations are equal whatever is marked.

use super::operation::{HalfState, Operation};
use crate::base::{ChannelId, Instant, OperationId};
use crate::channel::life::Receiving;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};

/// What may be asked of an operation, so that the others need not be.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperationFlags {
    /// Its outcome is not known yet.
    pub(super) live: bool,
    /// It owes a message.
    pub(super) owes: bool,
    /// It has a block that is new or has to go again, and may go.
    pub(super) works: bool,
    /// The channel on which its blocks go, where that is one.
    pub(super) only: Option<ChannelId>,
    /// A block of it may have to be repeated for want of an acknowledgement: [`Operation::repeat_at`] knows when.
    pub(super) repeats: bool,
    /// When it is to be asked again, besides that.
    pub(super) due: Option<Instant>,
}

impl OperationFlags {
    fn of(operation: &Operation) -> Self {
        let ack_at = match &operation.state {
            HalfState::Receiving { life: Receiving::Moving, receiver: Some(receiver), .. } if !operation.owes_ack() => {
                receiver.ack_at()
            }
            _ => None,
        };
        Self {
            live: !operation.is_settled(),
            owes: operation.owes.any(),
            works: operation.has_work(),
            only: operation.only_on(),
            repeats: operation.may_repeat(),
            due: [ack_at, operation.retry_at()].into_iter().flatten().min(),
        }
    }

    /// Whether a block of it may go on `channel`.
    pub(super) fn may_carry(&self, channel: ChannelId) -> bool {
        self.only.is_none_or(|only| only == channel)
    }
}

/// The operations of a session by number, with an index of those that have something to send.
#[derive(Clone, Default)]
pub(super) struct Operations {
    /// In boxes: what is put in or taken out moves its neighbours.
    all: BTreeMap<OperationId, Box<Operation>>,
    /// Of each operation, ascending, as it was when it was last marked.
    marks: Vec<(OperationId, OperationFlags)>,
    /// What may have changed since.
    changed: Vec<OperationId>,
    /// All of them may have.
    all_changed: bool,
}

impl Operations {
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

    /// Looks again at what may have changed, so that [`Self::marks`] costs no look at an operation.
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

    /// Each operation and its mark, ascending.
    pub(super) fn marks(&self) -> impl Iterator<Item = (OperationId, OperationFlags)> {
        let current = self.changed.is_empty() && !self.all_changed;
        let marks: &[(OperationId, OperationFlags)] = if current { &self.marks } else { &[] };
        let unmarked =
            self.all.iter().filter(move |_| !current).map(|(id, operation)| (*id, OperationFlags::of(operation)));
        marks.iter().copied().chain(unmarked)
    }
}

impl PartialEq for Operations {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl Eq for Operations {}

impl Hash for Operations {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.all.hash(state);
    }
}

impl fmt::Debug for Operations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}
