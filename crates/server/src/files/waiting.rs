//! Locks that are waited for: a line for each file, in the order of asking. Without I/O.
//!
//! Nothing at the server waits: a client asks again and again, and a place in line is kept for a while
//! after each time. So a lock that is waited for keeps no thread and no operation, and what it takes
//! here is bounded for each user.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use xdfs_proto::base::Extent;
use xdfs_proto::wire::file::{FileIdentity, LockOwner};

/// Locks that one user may wait for: a busy mount has some hundred processes that do.
pub(super) const WAITING_MAX: usize = 1024;

/// How long a place is kept for a client that does not ask. Clients ask once a second; meanwhile a
/// client that is gone delays those behind it.
pub(super) const PLACE_KEPT: Duration = Duration::from_secs(5);

/// Who waits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Waiter {
    pub handle: u64,
    /// Zeros for a lock of the whole file.
    pub owner: LockOwner,
}

/// What is locked: the two kinds do not exclude each other, as in Linux.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Scope {
    /// The whole file, as flock(2) does.
    File,
    /// A range, as fcntl(2) does.
    Range(Extent),
}

/// A lock that somebody wants.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Wanted {
    pub scope: Scope,
    pub exclusive: bool,
}

impl Wanted {
    fn excludes(self, other: Self) -> bool {
        let meet = match (self.scope, other.scope) {
            (Scope::File, Scope::File) => true,
            (Scope::Range(one), Scope::Range(other)) => one.intersection(other).is_some(),
            _ => false,
        };
        meet && (self.exclusive || other.exclusive)
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Place {
    who: Waiter,
    wanted: Wanted,
    user: Arc<str>,
    until: Instant,
}

/// The lines of all files.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Waiting {
    lines: BTreeMap<FileIdentity, Vec<Place>>,
    /// Places of each user.
    users: BTreeMap<Arc<str>, usize>,
}

impl Waiting {
    /// Whether nobody is in line before `who` for what excludes this.
    pub(super) fn is_turn(&self, file: &FileIdentity, who: Waiter, wanted: Wanted, now: Instant) -> bool {
        let line = self.lines.get(file).map_or(&[][..], Vec::as_slice);
        let before = line.iter().take_while(|place| (place.who, place.wanted) != (who, wanted));
        // Somebody who waits for several ranges is not in his own way.
        !before.filter(|place| place.until > now && place.who != who).any(|place| place.wanted.excludes(wanted))
    }

    /// Keeps the place of `who`, which is the last one if it is new; false if its user waits for too
    /// many locks.
    pub(super) fn wait(
        &mut self,
        file: &FileIdentity,
        who: Waiter,
        wanted: Wanted,
        user: &Arc<str>,
        now: Instant,
    ) -> bool {
        self.remove(file, |place| place.until <= now && (place.who, place.wanted) != (who, wanted));
        let until = now + PLACE_KEPT;
        let line = self.lines.get_mut(file).map(|line| line.iter_mut());
        if let Some(place) = line.into_iter().flatten().find(|place| (place.who, place.wanted) == (who, wanted)) {
            place.until = until;
            return true;
        }
        if self.places(user) >= WAITING_MAX {
            self.forget_expired(now);
            if self.places(user) >= WAITING_MAX {
                return false;
            }
        }
        *self.users.entry(Arc::clone(user)).or_default() += 1;
        self.lines.entry(*file).or_default().push(Place { who, wanted, user: Arc::clone(user), until });
        true
    }

    /// `who` has this lock, or does not wait for it any more.
    pub(super) fn leave(&mut self, file: &FileIdentity, who: Waiter, wanted: Wanted) {
        self.remove(file, |place| (place.who, place.wanted) == (who, wanted));
    }

    /// The handle is closed.
    pub(super) fn close(&mut self, file: &FileIdentity, handle: u64) {
        self.remove(file, |place| place.who.handle == handle);
    }

    fn places(&self, user: &Arc<str>) -> usize {
        self.users.get(user).copied().unwrap_or(0)
    }

    fn forget_expired(&mut self, now: Instant) {
        let files: Vec<FileIdentity> = self.lines.keys().copied().collect();
        files.iter().for_each(|file| self.remove(file, |place| place.until <= now));
    }

    fn remove(&mut self, file: &FileIdentity, goes: impl Fn(&Place) -> bool) {
        let Some(line) = self.lines.get_mut(file) else { return };
        let users = &mut self.users;
        line.retain(|place| {
            let goes = goes(place);
            if goes && let Some(count) = users.get_mut(&place.user) {
                *count -= 1;
                if *count == 0 {
                    users.remove(&place.user);
                }
            }
            !goes
        });
        if line.is_empty() {
            self.lines.remove(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileIdentity = [7; 24];

    fn who(handle: u64) -> Waiter {
        Waiter { handle, owner: [0; 8] }
    }

    fn range(offset: u64, length: u64, exclusive: bool) -> Wanted {
        Wanted { scope: Scope::Range(Extent::new(offset, length).unwrap()), exclusive }
    }

    fn whole(exclusive: bool) -> Wanted {
        Wanted { scope: Scope::File, exclusive }
    }

    fn ada() -> Arc<str> {
        "ada".into()
    }

    #[test]
    fn who_came_first_is_first_among_those_who_exclude_each_other() {
        let (mut line, now) = (Waiting::default(), Instant::now());
        let mut wait = |number, wanted| assert!(line.wait(&FILE, who(number), wanted, &ada(), now));
        wait(1, range(0, 10, true));
        wait(2, range(5, 10, false));
        wait(1, range(0, 10, true));
        let turn = |number, wanted| line.is_turn(&FILE, who(number), wanted, now);
        assert!(turn(1, range(0, 10, true)), "asking again keeps the place");
        assert!(!turn(2, range(5, 10, false)), "the first one wants it for itself");
        assert!(turn(3, range(12, 10, false)), "shared with the second one");
        assert!(!turn(3, range(12, 10, true)));
        assert!(turn(3, range(15, 10, true)), "another range");
        assert!(turn(3, whole(true)), "the whole file is locked in another way");
        assert!(line.is_turn(&[8; 24], who(3), range(0, 10, true), now), "another file");
        line.leave(&FILE, who(1), range(0, 10, true));
        assert!(line.is_turn(&FILE, who(2), range(5, 10, false), now));
        line.close(&FILE, 2);
        assert_eq!(line, Waiting::default());
    }

    #[test]
    fn shared_locks_do_not_pass_an_exclusive_one_that_waits() {
        let (mut line, now) = (Waiting::default(), Instant::now());
        assert!(line.wait(&FILE, who(1), whole(true), &ada(), now));
        assert!(!line.is_turn(&FILE, who(2), whole(false), now));
    }

    #[test]
    fn a_place_is_lost_by_who_does_not_ask_any_more() {
        let (mut line, now) = (Waiting::default(), Instant::now());
        assert!(line.wait(&FILE, who(1), whole(true), &ada(), now));
        assert!(line.wait(&FILE, who(2), whole(true), &ada(), now));
        let later = now + PLACE_KEPT;
        assert!(line.is_turn(&FILE, who(3), whole(true), later));
        assert!(line.wait(&FILE, who(2), whole(true), &ada(), later), "it keeps its place, and the first one goes");
        assert!(!line.is_turn(&FILE, who(3), whole(true), later));
        assert!(line.is_turn(&FILE, who(2), whole(true), later));
        line.leave(&FILE, who(2), whole(true));
        assert_eq!(line, Waiting::default());
    }

    #[test]
    fn a_user_waits_for_a_bounded_number_of_locks_and_delays_no_other_user() {
        let (mut line, now) = (Waiting::default(), Instant::now());
        for number in 0..WAITING_MAX as u64 {
            assert!(line.wait(&FILE, who(number), range(number, 1, true), &ada(), now));
        }
        for number in WAITING_MAX as u64..100_000 {
            assert!(!line.wait(&FILE, who(number), range(number, 1, true), &ada(), now), "{number}");
        }
        assert_eq!(line.lines.values().map(Vec::len).sum::<usize>(), WAITING_MAX, "nothing is kept of them");
        assert!(!line.wait(&[8; 24], who(5000), whole(true), &ada(), now));
        assert!(line.wait(&FILE, who(0), range(0, 1, true), &ada(), now), "one that it waits for already");
        assert!(line.wait(&[8; 24], who(5001), whole(true), &"bob".into(), now));
        assert!(line.wait(&[9; 24], who(5000), whole(true), &ada(), now + PLACE_KEPT), "the others are forgotten");
        assert_eq!(line.users.values().sum::<usize>(), 1);
    }
}
