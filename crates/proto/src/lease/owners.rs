//! What each user has of the places of a server, and who let others wait: they get no lease to write for a while, and none at
//! all if that was long.

use super::LeaseKind;
use crate::base::{Duration, Instant};
use alloc::collections::BTreeMap;

/// What a user has.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Owner {
    /// Leases that they have.
    leases: usize,
    /// Those of these for whose end somebody waits.
    recalled: usize,
    /// Files that get no lease for a while since this user's was recalled: each keeps the place of that one.
    pauses: usize,
    /// Until when they get no lease to write.
    barred: Instant,
    /// Until when what others waited for their leases counts in `barred`; while any is recalled, they have waited since.
    counted: Instant,
    /// Until when they get none at all, and none is renewed.
    silenced: Instant,
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

    /// Whether there is room for one more lease of this user, with so many places in all, and of one user.
    pub(super) fn has_room(&self, owner: &U, most: usize, most_each: usize) -> bool {
        let own = self.owners.get(owner).map_or(0, |known| known.leases + known.pauses);
        self.places < most && own < most_each
    }

    /// Whether somebody waits for this user, or did not long ago: whoever leases one file after the other would be waited for
    /// once for each of them.
    pub(super) fn is_barred(&self, owner: &U, kind: LeaseKind, now: Instant) -> bool {
        let writes = kind == LeaseKind::Write;
        self.owners
            .get(owner)
            .is_some_and(|known| now < known.silenced || (writes && (known.recalled > 0 || now < known.barred)))
    }

    /// Whether the user's leases are not renewed, since others have waited for long: whoever has leases on many files would
    /// be waited for once for each of them.
    pub(super) fn is_silenced(&self, owner: &U, now: Instant) -> bool {
        self.is_barred(owner, LeaseKind::Read, now)
    }

    /// The user has one more lease.
    pub(super) fn granted(&mut self, owner: &U) {
        self.places += 1;
        self.change(owner, |known| known.leases += 1);
    }

    /// Somebody has waited for the end of one of them since then.
    pub(super) fn recalled(&mut self, owner: &U, since: Instant) {
        self.change(owner, |known| {
            if known.recalled == 0 {
                known.counted = known.counted.max(since);
            }
            known.recalled += 1;
        });
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

    /// A file whose pause this user pays for may have leases again.
    pub(super) fn pause_over(&mut self, owner: &U) {
        self.places -= 1;
        self.change(owner, |known| known.pauses -= 1);
    }

    /// One of them that was recalled is given back: the user gets no lease to write for twice as long as others have waited for
    /// any of them, and none at all, if that is longer than `most`.
    pub(super) fn waited(&mut self, owner: &U, now: Instant, most: Duration) {
        self.change(owner, |known| {
            let waited = now.since(known.counted);
            known.counted = known.counted.max(now);
            // What is left of it stood still meanwhile.
            known.barred = known.barred.after(waited).max(now).after(waited).after(waited);
            if known.barred.since(now) > most {
                known.silenced = known.silenced.max(known.barred);
            }
        });
    }

    /// A lease of the user was waited for until its `end`: until then they get none, and none is renewed.
    pub(super) fn silence(&mut self, owner: &U, end: Instant, until: Instant) {
        self.change(owner, |known| {
            known.counted = known.counted.max(end);
            known.barred = known.barred.max(until);
            known.silenced = known.silenced.max(until);
        });
    }

    /// Forgets what is over.
    pub(super) fn expire(&mut self, now: Instant) {
        self.owners.retain(|_, known| {
            if known.barred <= now && known.recalled == 0 {
                (known.barred, known.counted) = (Instant::default(), Instant::default());
            }
            if known.silenced <= now {
                known.silenced = Instant::default();
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
