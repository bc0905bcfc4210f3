//! What an attempt leaves to the next one: the ranges of a part file that are written, and how far
//! each of them can be trusted.

use xdfs_proto::base::{Digest, Extent, Subtree};

/// A range that is on stable storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredRange {
    /// The bytes, counted from byte 0 of the transfer.
    pub extent: Extent,
    /// Their chaining value; none if they were not hashed, so that they must be read before they
    /// are compared.
    pub value: Option<Digest>,
    /// They are bytes of the source that the journal names. Otherwise the resuming peer must
    /// compare them with it.
    pub proved: bool,
}

impl StoredRange {
    /// A range of which nothing more is known.
    pub const fn plain(extent: Extent) -> Self {
        Self { extent, value: None, proved: true }
    }

    /// Its chaining value as a subtree, where it is known.
    pub fn subtree(&self) -> Option<Subtree> {
        self.value.map(|value| Subtree { extent: self.extent, value })
    }
}

/// Hashes the bytes of a stage and reports on request which ranges can be recorded. It must report
/// only ranges that were written.
pub trait Hashes: Send + Sync + std::fmt::Debug {
    /// The written ranges, ascending and disjoint.
    fn noted(&self) -> Vec<StoredRange>;
}

/// Authenticates journals, under a key that nobody else has.
pub trait JournalTags: Send + Sync + std::fmt::Debug {
    /// The authentication code of `parts`.
    fn tag(&self, parts: &[&[u8]]) -> Digest;
}

/// The ranges, neighbours merged.
pub fn ranges(noted: &[StoredRange]) -> Vec<Extent> {
    let mut ranges: Vec<Extent> = Vec::with_capacity(noted.len());
    for one in noted {
        let touching = ranges.pop_if(|last| last.end() == one.extent.offset());
        let from = touching.map_or(one.extent.offset(), Extent::offset);
        // Both ends are ends of extents.
        ranges.extend(Extent::new(from, one.extent.end() - from).ok());
    }
    ranges
}

/// What an attempt has in common with the earlier one.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResumeMatch {
    /// The version of the source; otherwise it is at best a copy.
    pub(super) source: bool,
    /// The boot of this machine and the key of the journal; otherwise there may have been a power
    /// cut in between, or the journal was not written by this program.
    pub(super) boot: bool,
}

/// The ranges of `noted` that an attempt can resume from. With `hashed` the sender also hashes
/// unverified ranges; without, only ranges that need no comparison count. Data from before a power
/// cut must be read.
pub(super) fn usable(noted: &[StoredRange], hashed: bool, same: ResumeMatch) -> Vec<StoredRange> {
    let trusted = same.boot && same.source;
    let seen = noted.iter().map(|one| StoredRange {
        extent: one.extent,
        value: one.value.filter(|_| same.boot),
        proved: one.proved && trusted,
    });
    seen.filter(|one| hashed || one.proved).collect()
}

/// `ranges` with what is known about parts of them from `base`; both ascending and disjoint.
pub(super) fn filled(base: &[StoredRange], ranges: &[Extent]) -> Vec<StoredRange> {
    let mut all = Vec::with_capacity(base.len() + ranges.len());
    for range in ranges {
        let mut at = range.offset();
        let plain = |from: u64, to: u64| Extent::new(from, to.saturating_sub(from)).ok().filter(|gap| !gap.is_empty());
        for one in base.iter().filter(|one| range.contains(one.extent)) {
            all.extend(plain(at, one.extent.offset()).map(StoredRange::plain));
            all.push(*one);
            at = one.extent.end();
        }
        all.extend(plain(at, range.end()).map(StoredRange::plain));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(from: u64, to: u64, value: Option<u8>, proved: bool) -> StoredRange {
        StoredRange { extent: Extent::new(from, to - from).unwrap(), value: value.map(|byte| [byte; 32]), proved }
    }

    #[test]
    fn what_is_in_doubt_counts_only_where_it_is_compared() {
        let all = [noted(0, 10, None, true), noted(10, 20, Some(1), true), noted(30, 40, Some(2), false)];
        let same = |source, boot| ResumeMatch { source, boot };
        assert_eq!(usable(&all, true, same(true, true)), all);
        assert_eq!(usable(&all, false, same(true, true)), all[..2]);
        for (source, boot) in [(false, true), (true, false), (false, false)] {
            assert_eq!(usable(&all, false, same(source, boot)), []);
        }
        let doubted = |value| [noted(0, 10, None, false), noted(10, 20, value, false)];
        assert_eq!(usable(&all, true, same(false, true))[..2], doubted(Some(1)));
        assert_eq!(usable(&all, true, same(true, false))[..2], doubted(None));
    }

    #[test]
    fn what_is_known_of_a_part_of_a_range_stays_known() {
        let base = [noted(0, 10, Some(1), true), noted(20, 30, Some(2), false)];
        let extents = |list: &[(u64, u64)]| -> Vec<Extent> {
            list.iter().map(|(from, to)| Extent::new(*from, to - from).unwrap()).collect()
        };
        let all = filled(&base, &extents(&[(0, 15), (20, 30), (40, 50)]));
        assert_eq!(all, [base[0], noted(10, 15, None, true), base[1], noted(40, 50, None, true)]);
        assert_eq!(ranges(&all), extents(&[(0, 15), (20, 30), (40, 50)]));
        assert_eq!(ranges(&base[..1]), extents(&[(0, 10)]));
    }
}
