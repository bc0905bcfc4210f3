//! Sets of byte ranges of a file.

use std::collections::BTreeMap;

/// Most ranges of a set that are not joined: a sender with n connections leaves few more than n holes.
pub const RANGES_MAX: usize = 65_536;

/// Bytes from `start` up to, and without, `end`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Range {
    /// The first byte.
    pub start: u64,
    /// The first byte behind it.
    pub end: u64,
}

/// Why a range is not added.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum RangeError {
    /// Bytes that are there already.
    #[error("it overlaps what has arrived")]
    Overlap,
    /// Too many holes.
    #[error("what has arrived has more than {RANGES_MAX} holes")]
    TooMany,
}

/// Ranges that neither overlap nor touch.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Ranges {
    /// End by start.
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Adds a range that holds nothing that is there; an empty one changes nothing.
    ///
    /// # Errors
    /// If it overlaps, or would be one range too many.
    pub fn add(&mut self, range: Range) -> Result<(), RangeError> {
        if range.start >= range.end {
            return Ok(());
        }
        let before = self.ends.range(..=range.start).next_back().map(|(start, end)| (*start, *end));
        let after = self.ends.range(range.start..).next().map(|(start, end)| (*start, *end));
        if before.is_some_and(|(_, end)| end > range.start) || after.is_some_and(|(start, _)| start < range.end) {
            return Err(RangeError::Overlap);
        }
        let start = before.filter(|(_, end)| *end == range.start).map_or(range.start, |(start, _)| start);
        let joined = after.filter(|(start, _)| *start == range.end);
        if start == range.start && joined.is_none() && self.ends.len() >= RANGES_MAX {
            return Err(RangeError::TooMany);
        }
        if let Some((after, _)) = joined {
            self.ends.remove(&after);
        }
        self.ends.insert(start, joined.map_or(range.end, |(_, end)| end));
        Ok(())
    }

    /// Adds a range of which some may be there already; an empty one changes nothing.
    ///
    /// # Errors
    /// If it would be one range too many.
    pub fn cover(&mut self, range: Range) -> Result<(), RangeError> {
        let Range { mut start, mut end } = range;
        if start >= end {
            return Ok(());
        }
        // From the last that begins within or touches it, down to the first that reaches it.
        while let Some((&first, &last)) = self.ends.range(..=end).next_back().filter(|(_, last)| **last >= start) {
            self.ends.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        self.add(Range { start, end })
    }

    /// Takes out everything before `end`.
    pub fn remove_before(&mut self, end: u64) {
        let rest = self.ends.split_off(&end);
        let cut = self.ends.last_key_value().map(|(_, last)| *last).filter(|last| *last > end);
        self.ends = rest;
        if let Some(last) = cut {
            self.ends.insert(end, last);
        }
    }

    /// How many bytes there are.
    pub fn total(&self) -> u64 {
        self.ends.iter().map(|(start, end)| end - start).sum()
    }

    /// Whether every byte of `range` is there.
    pub fn holds(&self, range: Range) -> bool {
        range.start >= range.end
            || self.ends.range(..=range.start).next_back().is_some_and(|(_, end)| *end >= range.end)
    }

    /// The ranges, in order.
    pub fn list(&self) -> Vec<Range> {
        self.ends.iter().map(|(&start, &end)| Range { start, end }).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a set of single bytes.
        #[test]
        fn it_agrees_with_a_set_of_bytes(tried in proptest::collection::vec((0_u64..40, 0_u64..9), 0..30)) {
            let (mut ranges, mut bytes) = (Ranges::default(), [false; 64]);
            for (start, length) in tried {
                let wanted = start as usize..(start + length) as usize;
                let free = wanted.clone().all(|at| !bytes[at]);
                let range = Range { start, end: start + length };
                prop_assert_eq!(ranges.add(range).is_ok(), free);
                if free {
                    wanted.for_each(|at| bytes[at] = true);
                }
            }
            for start in 0..40_usize {
                for end in start..60 {
                    let range = Range { start: start as u64, end: end as u64 };
                    prop_assert_eq!(ranges.holds(range), bytes[start..end].iter().all(|there| *there));
                }
            }
            for pair in ranges.list().windows(2) {
                prop_assert!(pair[0].end < pair[1].start);
            }
        }
    }

    proptest! {
        #[test]
        fn covering_and_removing_agree_with_a_set_of_bytes(
            tried in proptest::collection::vec((0_u64..40, 0_u64..9), 0..30),
            cut in 0_u64..50,
        ) {
            let (mut ranges, mut bytes) = (Ranges::default(), [false; 64]);
            for (start, length) in tried {
                (start as usize..(start + length) as usize).for_each(|at| bytes[at] = true);
                ranges.cover(Range { start, end: start + length }).unwrap();
            }
            prop_assert_eq!(ranges.total(), bytes.iter().filter(|there| **there).count() as u64);
            ranges.remove_before(cut);
            bytes[..cut as usize].fill(false);
            for (at, there) in bytes.iter().enumerate() {
                prop_assert_eq!(ranges.holds(Range { start: at as u64, end: at as u64 + 1 }), *there);
            }
            for pair in ranges.list().windows(2) {
                prop_assert!(pair[0].end < pair[1].start);
            }
        }
    }

    #[test]
    fn holes_are_bounded() {
        let mut ranges = Ranges::default();
        for start in 0..RANGES_MAX as u64 {
            ranges.add(Range { start: start * 2, end: start * 2 + 1 }).unwrap();
        }
        let far = RANGES_MAX as u64 * 4;
        assert_eq!(ranges.add(Range { start: far, end: far + 1 }), Err(RangeError::TooMany));
        ranges.add(Range { start: 1, end: 2 }).unwrap();
    }
}
