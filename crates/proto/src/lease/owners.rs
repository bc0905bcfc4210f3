//! What each user has of the places of a server, and who let others wait: he gets no lease to write for a while.

use crate::base::Instant;
use alloc::collections::BTreeMap;

/// What a user has.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Owner {
    /// His leases.
    leases: usize,
    /// Those of them for whose end somebody waits.
    recalled: usize,
    /// Files that get no lease for a while since he was asked for his: each keeps the place of that one.
    pauses: usize,
    /// Until when he gets no lease to write.
    barred: Instant,
}

/// What all users have.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Owners<U: Ord> {
    owners: BTreeMap<U, Owner>,
    /// Places that are taken: the leases and the pauses of all.
    places: usize,
}

impl<U: Ord + Clone> Owners<U> {
    pub(super) const fn new() -> Self {
        Self { owners: BTreeMap::new(), places: 0 }
    }

    /// Whether he may have one more lease, with so many places in all, and of him.
    pub(super) fn has_room(&self, owner: &U, most: usize, most_each: usize) -> bool {
        let own = self.owners.get(owner).map_or(0, |known| known.leases + known.pauses);
        self.places < most && own < most_each
    }

    /// Whether somebody waits for him, or did not long ago: whoever leases one file after the other would be waited for once for
    /// each of them.
    pub(super) fn is_barred(&self, owner: &U, now: Instant) -> bool {
        self.owners.get(owner).is_some_and(|known| known.recalled > 0 || now < known.barred)
    }

    /// He has one more lease.
    pub(super) fn granted(&mut self, owner: &U) {
        self.places += 1;
        self.change(owner, |known| known.leases += 1);
    }

    /// Somebody waits for the end of one of them.
    pub(super) fn recalled(&mut self, owner: &U) {
        self.change(owner, |known| known.recalled += 1);
    }

    /// One of them is over, which was recalled or not. Its place is free, unless its file `keeps` it.
    pub(super) fn ended(&mut self, owner: &U, recalled: bool, keeps: bool) {
        self.places -= usize::from(!keeps);
        self.change(owner, |known| {
            known.leases -= 1;
            known.recalled -= usize::from(recalled);
            known.pauses += usize::from(keeps);
        });
    }

    /// A file of his may have leases again.
    pub(super) fn pause_over(&mut self, owner: &U) {
        self.places -= 1;
        self.change(owner, |known| known.pauses -= 1);
    }

    /// He gets no lease to write until then.
    pub(super) fn bar(&mut self, owner: &U, until: Instant) {
        self.change(owner, |known| known.barred = known.barred.max(until));
    }

    /// Forgets what is over.
    pub(super) fn expire(&mut self, now: Instant) {
        self.owners.retain(|_, known| {
            if known.barred <= now {
                known.barred = Instant::default();
            }
            *known != Owner::default()
        });
    }

    fn change(&mut self, owner: &U, act: impl FnOnce(&mut Owner)) {
        let known = self.owners.entry(owner.clone()).or_default();
        act(known);
        if *known == Owner::default() {
            self.owners.remove(owner);
        }
    }
}
