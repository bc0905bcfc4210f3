//! How many transfers of all sessions one user may have at a time. Each has files open, and there are only so many
//! descriptors.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xdfs_proto::base::{Error, ErrorKind};

/// However many others have, each user may have these.
const EACH_MIN: usize = 16;

/// EMFILE: a client then has fewer on their way.
const TOO_MANY_OPEN_FILES: u16 = 24;

#[derive(Default, Debug)]
struct Counts {
    all: usize,
    users: BTreeMap<Arc<str>, usize>,
}

/// The transfers of a server, by user; anonymous users are told apart by their source.
#[derive(Debug)]
pub(crate) struct TransferSlots {
    most: usize,
    counts: Mutex<Counts>,
}

/// One transfer, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct TransferSlot {
    slots: Arc<TransferSlots>,
    user: Arc<str>,
}

impl TransferSlots {
    /// For so many transfers.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, counts: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more transfer of a user. A user has at most half of what the others leave: whoever comes has room.
    pub(crate) fn take(self: &Arc<Self>, user: &Arc<str>) -> Result<TransferSlot, Error> {
        let mut counts = self.lock();
        let own = counts.users.get(user).copied().unwrap_or(0);
        let left = self.most.saturating_sub(counts.all - own);
        if own >= (left / 2).max(EACH_MIN) {
            let text = format!("{own} transfers are all that one user may have now; some must end first");
            return Err(Error::new(ErrorKind::Resources, text).with_errno(TOO_MANY_OPEN_FILES));
        }
        counts.all += 1;
        *counts.users.entry(Arc::clone(user)).or_default() += 1;
        Ok(TransferSlot { slots: Arc::clone(self), user: Arc::clone(user) })
    }
}

impl Drop for TransferSlot {
    fn drop(&mut self) {
        let mut counts = self.slots.lock();
        counts.all -= 1;
        if let Some(own) = counts.users.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                counts.users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(slots: &Arc<TransferSlots>, user: &str) -> Vec<TransferSlot> {
        let user = user.into();
        std::iter::from_fn(|| slots.take(&user).ok()).collect()
    }

    #[test]
    fn each_user_has_half_of_what_the_others_leave_and_never_less_than_a_few() {
        let slots = Arc::new(TransferSlots::new(400));
        let held: Vec<_> = ["a", "b", "c", "d", "e", "f"].iter().map(|user| take_all(&slots, user)).collect();
        let counts: Vec<usize> = held.iter().map(Vec::len).collect();
        assert_eq!(counts, [200, 100, 50, 25, EACH_MIN, EACH_MIN]);
        let refused = slots.take(&"a".into()).unwrap_err();
        assert_eq!((refused.kind, refused.errno), (ErrorKind::Resources, TOO_MANY_OPEN_FILES));
        drop(held);
        assert!(slots.lock().users.is_empty() && slots.lock().all == 0);
        assert_eq!(take_all(&slots, "b").len(), 200);
    }
}
