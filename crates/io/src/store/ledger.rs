//! The written ranges of a staged file: a set of ranges that merges neighbours at once, so that its
//! size is bounded by the number of gaps in the file.

use std::collections::BTreeMap;
use xdfs_proto::base::Extent;

/// The ranges of a staged file that are written, merged where they touch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Ledger {
    /// End of each range by its start; no two touch.
    ranges: BTreeMap<u64, u64>,
}

impl Ledger {
    /// A ledger of these ranges.
    pub(super) fn of(ranges: &[Extent]) -> Self {
        let mut ledger = Self::default();
        ranges.iter().for_each(|range| ledger.add(*range));
        ledger
    }

    /// Adds `range`.
    pub(super) fn add(&mut self, range: Extent) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.offset(), range.end());
        // The usual case, blocks in order: the preceding range grows, and nothing is allocated.
        if let Some((&before, last)) = self.ranges.range_mut(..=start).next_back()
            && *last >= start
        {
            if *last >= end {
                return;
            }
            *last = end;
            start = before;
        }
        while let Some((&next, &last)) = self.ranges.range(start + 1..).next()
            && next <= end
        {
            self.ranges.remove(&next);
            end = end.max(last);
        }
        self.ranges.insert(start, end);
    }

    /// Removes everything from `offset` on.
    pub(super) fn cut(&mut self, offset: u64) {
        self.ranges.split_off(&offset);
        if let Some((_, end)) = self.ranges.iter_mut().next_back() {
            *end = (*end).min(offset);
        }
    }

    /// The first `most` ranges, ascending.
    pub(super) fn ranges(&self, most: usize) -> Vec<Extent> {
        let extents = self.ranges.iter().take(most);
        // Every range was an extent, and a union of touching extents ends where one of them did.
        extents.filter_map(|(start, end)| Extent::new(*start, end - start).ok()).collect()
    }

    /// Bytes of all ranges.
    pub(super) fn bytes(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    /// One past the last byte.
    pub(super) fn end(&self) -> u64 {
        self.ranges.values().next_back().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(from: u64, to: u64) -> Extent {
        Extent::new(from, to - from).unwrap()
    }

    #[test]
    fn whatever_the_order_the_ranges_are_those_of_the_bytes() {
        // Compares the ledger with every byte of a small file, over a few thousand random
        // additions.
        let mut state = 7u64;
        for _ in 0..300 {
            let (mut ledger, mut bytes) = (Ledger::default(), [false; 64]);
            for _ in 0..12 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (from, length) = ((state >> 33) % 60, (state >> 40) % 9);
                let to = (from + length).min(64);
                ledger.add(extent(from, to));
                bytes[from as usize..to as usize].fill(true);
                let mut expected = Vec::new();
                let mut at = 0;
                while at < 64 {
                    let run = bytes[at..].iter().take_while(|set| **set).count();
                    if run > 0 {
                        expected.push(extent(at as u64, (at + run) as u64));
                    }
                    at += run + 1;
                }
                assert_eq!(ledger.ranges(usize::MAX), expected);
                assert_eq!(ledger.bytes(), bytes.iter().filter(|set| **set).count() as u64);
                assert_eq!(ledger.end(), expected.last().map_or(0, |last| last.end()));
            }
        }
    }

    #[test]
    fn what_is_cut_off_is_no_longer_there() {
        let mut ledger = Ledger::of(&[extent(0, 10), extent(20, 30)]);
        ledger.cut(25);
        assert_eq!(ledger.ranges(9), [extent(0, 10), extent(20, 25)]);
        ledger.cut(15);
        assert_eq!(ledger.ranges(9), [extent(0, 10)]);
        assert_eq!(ledger.ranges(0), []);
    }
}
