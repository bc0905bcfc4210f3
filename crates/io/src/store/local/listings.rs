//! Directories that stay open between two pages of a listing, where a position may be good only for a directory as it was opened:
//! on overlayfs it is a count of names, and each one that goes moves all behind it.

use crate::store::descriptors;
use crate::store::errors::Verb;
use crate::store::medium::is_on_disk;
use crate::store::resolve::Parent;
use crate::store::tree::Cursor;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many are open at most. Who goes on with one of those that were closed reads from the same position of a new one.
const KEPT_MAX: usize = 32;

/// A listing that nobody goes on with for so long is over when the next one begins or goes on.
const KEPT_FOR: Duration = Duration::from_secs(120);

/// Where a listing goes on: the position in the directory, and the number under which it stays open, 0 for none.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) position: u64,
    number: u64,
}

impl Place {
    /// The place that a cursor tells; none if it is none of this store's.
    pub(super) fn parse(cursor: &[u8]) -> Option<Self> {
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).ok();
        match cursor.split_at_checked(8) {
            None if cursor.is_empty() => Some(Self::default()),
            None => None,
            Some((position, [])) => Some(Self { position: word(position)?, number: 0 }),
            Some((position, number)) => Some(Self { position: word(position)?, number: word(number)? }),
        }
    }

    fn cursor(self) -> Cursor {
        let number = self.number.to_be_bytes();
        let number = if self.number == 0 { &[][..] } else { &number };
        [&self.position.to_be_bytes()[..], number].concat()
    }
}

/// Clones are of the same directories.
#[derive(Clone, Default, Debug)]
pub(super) struct Listings(Arc<Mutex<Open>>);

#[derive(Default, Debug)]
struct Open {
    kept: Vec<Kept>,
    /// The number of the last one.
    last: u64,
}

#[derive(Debug)]
struct Kept {
    number: u64,
    /// Locked by whoever reads it: it has one position.
    directory: Arc<Mutex<Parent>>,
    since: Instant,
}

impl Listings {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the directory `found` from a place on, which tells the position that it stops at if it does. The one that was kept
    /// open for that place is read if it is still the same.
    pub(super) fn read<E>(
        &self,
        place: Place,
        found: Parent,
        read: impl FnOnce(&Parent) -> Result<Option<u64>, E>,
    ) -> Result<Option<Cursor>, E> {
        let kept = self.kept(place.number);
        // Who lists it with one cursor twice at a time reads it twice.
        let kept = kept.as_ref().and_then(|kept| kept.try_lock().ok()).filter(|kept| is_same(kept, &found));
        let (number, position) = match kept {
            Some(directory) => (place.number, read(&directory)?),
            None => {
                let position = read(&found)?;
                (if position.is_some() { self.keep(found) } else { 0 }, position)
            }
        };
        if position.is_none() {
            self.close(number);
        }
        Ok(position.map(|position| Place { position, number }.cursor()))
    }

    fn kept(&self, number: u64) -> Option<Arc<Mutex<Parent>>> {
        self.close_those_that_are_over();
        if number == 0 {
            return None;
        }
        let mut open = self.lock();
        let kept = open.kept.iter_mut().find(|kept| kept.number == number)?;
        kept.since = Instant::now();
        Some(Arc::clone(&kept.directory))
    }

    /// Keeps a directory open if it has to be; the number for that.
    fn keep(&self, directory: Parent) -> u64 {
        let is_scarce = || descriptors::must_be_below_line(directory.directory(), Verb::List, "").is_err();
        if is_on_disk(directory.directory()) || is_scarce() {
            return 0;
        }
        let mut open = self.lock();
        let oldest = (0..open.kept.len()).min_by_key(|at| open.kept[*at].since);
        let oldest = oldest.filter(|_| open.kept.len() >= KEPT_MAX).map(|at| open.kept.swap_remove(at));
        open.last += 1;
        let number = open.last;
        open.kept.push(Kept { number, directory: Arc::new(Mutex::new(directory)), since: Instant::now() });
        // To close may be to wait for a file system: others do not wait for that.
        drop(open);
        drop(oldest);
        number
    }

    fn close_those_that_are_over(&self) {
        let mut open = self.lock();
        let over: Vec<Kept> = open.kept.extract_if(.., |kept| kept.since.elapsed() >= KEPT_FOR).collect();
        drop(open);
        drop(over);
    }

    fn close(&self, number: u64) {
        let mut open = self.lock();
        let at = open.kept.iter().position(|kept| kept.number == number);
        let closed = at.map(|at| open.kept.swap_remove(at));
        drop(open);
        drop(closed);
    }
}

fn is_same(one: &Parent, other: &Parent) -> bool {
    let identity = |directory: &Parent| {
        let stat = rustix::fs::fstat(directory.directory()).ok()?;
        Some((stat.st_dev, stat.st_ino))
    };
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_one_word_or_two_and_nothing_else() {
        for place in [Place { position: 7, number: 0 }, Place { position: u64::MAX, number: 3 }] {
            assert_eq!(Place::parse(&place.cursor()), Some(place));
        }
        assert_eq!(Place::parse(b""), Some(Place::default()));
        for odd in [&[1; 1][..], &[1; 7], &[1; 9], &[1; 15], &[1; 17], &[1; 64]] {
            assert_eq!(Place::parse(odd), None, "{odd:?}");
        }
    }
}
