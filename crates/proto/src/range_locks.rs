//! The locks of ranges that one owner has in one file, as fcntl(2) changes them: a new lock replaces
//! what the owner had there, a part of a lock can be released, and neighbours of one kind are one
//! lock. Locks of others are not known here.

use crate::base::Extent;
use alloc::collections::BTreeMap;

/// A lock of a range.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RangeLock {
    /// The bytes, whether the file has them or not.
    pub range: Extent,
    /// Nobody else has a lock of any of them; otherwise others may have shared ones.
    pub exclusive: bool,
}

/// The end of a lock, and its kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Held {
    end: u64,
    exclusive: bool,
}

/// What one owner has locked.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct RangeLocks(BTreeMap<u64, Held>);

impl RangeLocks {
    /// The owner got this lock.
    pub fn lock(&mut self, lock: RangeLock) {
        self.unlock(lock.range);
        let (mut start, mut end) = (lock.range.offset(), lock.range.end());
        if start == end {
            return;
        }
        let before = self.0.range(..start).next_back().map(|(start, held)| (*start, *held));
        if let Some((first, _)) = before.filter(|(_, held)| held.end == start && held.exclusive == lock.exclusive) {
            start = first;
        }
        if let Some(after) = self.0.get(&end).copied().filter(|after| after.exclusive == lock.exclusive) {
            self.0.remove(&end);
            end = after.end;
        }
        self.0.insert(start, Held { end, exclusive: lock.exclusive });
    }

    /// The owner released this range.
    pub fn unlock(&mut self, range: Extent) {
        let (start, end) = (range.offset(), range.end());
        if start == end {
            return;
        }
        let before = self.0.range(..start).next_back().map(|(first, _)| *first);
        let inside = self.0.range(start..end).map(|(first, _)| *first);
        let touched: alloc::vec::Vec<u64> = before.into_iter().chain(inside).collect();
        for first in touched {
            let Some(held) = self.0.get(&first).copied().filter(|held| held.end > start) else { continue };
            self.0.remove(&first);
            if first < start {
                self.0.insert(first, Held { end: start, ..held });
            }
            if held.end > end {
                self.0.insert(end, held);
            }
        }
    }

    /// The locks, in the order of their ranges.
    pub fn iter(&self) -> impl Iterator<Item = RangeLock> {
        self.0.iter().filter_map(|(start, held)| {
            let range = Extent::new(*start, held.end - start).ok()?;
            Some(RangeLock { range, exclusive: held.exclusive })
        })
    }

    /// Whether one of them is exclusive.
    pub fn any_exclusive(&self) -> bool {
        self.0.values().any(|held| held.exclusive)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is locked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 6;

    fn range(start: u64, end: u64) -> Extent {
        Extent::new(start, end - start).unwrap()
    }

    /// What each byte is locked as.
    fn bytes(locks: &RangeLocks) -> [Option<bool>; BYTES as usize] {
        let at = |byte: u64| {
            let mut found = locks
                .iter()
                .filter(|lock| (lock.range.offset()..lock.range.end()).contains(&byte))
                .map(|one| one.exclusive);
            let kind = found.next();
            assert_eq!(found.next(), None, "byte {byte} is locked twice");
            kind
        };
        core::array::from_fn(|byte| at(byte as u64))
    }

    /// Every state of a file of six bytes that calls lead to, and every call in each.
    #[test]
    fn every_call_does_to_each_byte_what_it_says_and_neighbours_are_one_lock() {
        let mut seen = std::collections::BTreeMap::new();
        let mut open = std::vec![RangeLocks::default()];
        while let Some(locks) = open.pop() {
            let before = bytes(&locks);
            if seen.insert(before, locks.clone()).is_some_and(|known| known == locks) {
                continue;
            }
            for (start, end) in (0..BYTES).flat_map(|start| (start..=BYTES).map(move |end| (start, end))) {
                for kind in [None, Some(false), Some(true)] {
                    let mut next = locks.clone();
                    match kind {
                        None => next.unlock(range(start, end)),
                        Some(exclusive) => next.lock(RangeLock { range: range(start, end), exclusive }),
                    }
                    let mut expected = before;
                    expected[start as usize..end as usize].fill(kind);
                    assert_eq!(bytes(&next), expected, "{locks:?}: {start}..{end} {kind:?}");
                    let joins = |pair: &[RangeLock]| {
                        pair[0].range.end() == pair[1].range.offset() && pair[0].exclusive == pair[1].exclusive
                    };
                    let all: std::vec::Vec<RangeLock> = next.iter().collect();
                    assert!(kind.is_none() || !all.windows(2).any(joins), "{next:?}");
                    assert!(all.iter().all(|lock| lock.range.length() > 0) && all.len() == next.len());
                    if !seen.contains_key(&bytes(&next)) {
                        open.push(next);
                    }
                }
            }
        }
        assert_eq!(seen.len(), 3_usize.pow(BYTES as u32));
        let none = &seen[&[None; BYTES as usize]];
        assert!(none.is_empty() && !none.any_exclusive());
    }

    #[test]
    fn a_lock_reaches_to_the_end_of_the_largest_file() {
        let all = Extent::new(0, i64::MAX as u64).unwrap();
        let mut locks = RangeLocks::default();
        locks.lock(RangeLock { range: all, exclusive: true });
        locks.unlock(range(10, 20));
        let ends: std::vec::Vec<_> = locks.iter().map(|lock| (lock.range.offset(), lock.range.end())).collect();
        assert_eq!(ends, [(0, 10), (20, i64::MAX as u64)]);
    }
}
