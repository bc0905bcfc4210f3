//! The layout of a transfer: the block grid, the share of each pipeline, and the window that may be
//! unacknowledged.

use crate::base::{Extent, Level};
use crate::limits;
use alloc::vec::Vec;

/// Cuts `[0, length)` into at most `pipelines` ranges, one per pipeline, each except the last a
/// multiple of `block`. No range is empty, except that an empty transfer has one empty range.
pub fn split(length: u64, block: u32, pipelines: u8) -> Vec<Extent> {
    let blocks = length.div_ceil(block.into());
    let parts = u64::from(pipelines).min(blocks).max(1);
    let share = blocks.div_ceil(parts).max(1) * u64::from(block);
    let mut ranges = Vec::new();
    let mut offset = 0;
    loop {
        let end = (offset + share).min(length);
        // Within `length`, which the request limits to 2^63.
        ranges.extend(Extent::new(offset, end - offset).ok());
        offset = end;
        if offset >= length {
            return ranges;
        }
    }
}

/// Whether `ranges` are a division of `[0, length)` as [`split`] produces: no gap, no overlap, all
/// but the last in whole blocks; none at all if the length is not known. Validates a peer's GRANT.
pub fn covers(ranges: &[Extent], length: Option<u64>, block: u32) -> bool {
    let Some(length) = length else { return ranges.is_empty() };
    let whole = |range: &Extent| range.length() > 0 && range.length().is_multiple_of(block.into());
    let mut end = 0;
    for (index, range) in ranges.iter().enumerate() {
        if range.offset() != end || (index + 1 < ranges.len() && !whole(range)) {
            return false;
        }
        end = range.end();
    }
    !ranges.is_empty() && end == length
}

/// The parts of `kept` that are whole blocks of the grid of a transfer of `length` bytes, merged
/// and ascending: the rest is sent again. `kept` is ascending.
pub fn whole_blocks(kept: &[Extent], length: u64, block: u32) -> Vec<Extent> {
    let block = u64::from(block);
    let mut whole: Vec<Extent> = Vec::new();
    let mut open: Option<(u64, u64)> = None;
    let mut close = |range: Option<(u64, u64)>| {
        let Some((from, to)) = range else { return };
        let from = from.div_ceil(block).saturating_mul(block);
        let to = if to >= length { length } else { to - to % block };
        if from < to && whole.len() < limits::LEDGER_ENTRIES_MAX {
            whole.extend(Extent::new(from, to - from).ok());
        }
    };
    for range in kept {
        open = match open {
            // Touching ranges are merged: a block may span their boundary.
            Some((from, to)) if range.offset() <= to => Some((from, to.max(range.end()))),
            other => {
                close(other);
                Some((range.offset(), range.end()))
            }
        };
    }
    close(open);
    whole
}

/// The `most` longest of these ranges, in their order.
pub fn longest(mut ranges: Vec<Extent>, most: usize) -> Vec<Extent> {
    if ranges.len() > most {
        ranges.sort_by_key(|range| core::cmp::Reverse(range.length()));
        ranges.truncate(most);
        ranges.sort_unstable_by_key(|range| range.offset());
    }
    ranges
}

/// Whether `kept` are whole blocks of the grid, as [`whole_blocks`] returns them.
pub fn are_whole_blocks(kept: &[Extent], length: Option<u64>, block: u32) -> bool {
    let Some(length) = length else { return kept.is_empty() };
    let on_grid = |offset: u64| offset.is_multiple_of(block.into());
    kept.iter().all(|range| {
        !range.is_empty()
            && on_grid(range.offset())
            && range.end() <= length
            && (on_grid(range.end()) || range.end() == length)
    })
}

/// The parts of `kept` that lie in `range`.
pub fn within(kept: &[Extent], range: Extent) -> Vec<Extent> {
    kept.iter().filter_map(|one| one.intersection(range)).collect()
}

/// Bytes that a sender may be ahead of the lowest missing block. It costs one bit per block, not a
/// buffer, so it is generous: 256 MiB fill a path of 10 Gbit/s and 200 ms, and two blocks per
/// channel keep every channel busy.
pub fn flow_window(channels: u16, block: u32) -> u64 {
    limits::CREDIT_BYTES_MIN.max(256 << 20).max(2 * u64::from(channels) * u64::from(block))
}

/// The block size of a session: the requested size within the limits, less if the level requires a
/// channel to hold a whole block in memory before it is written (at `clear` it is written as it
/// arrives).
pub fn block(asked: u32, level: Level, channels: u16) -> u32 {
    let asked = match asked {
        0 if level > Level::Clear && channels >= limits::BLOCK_SHARED_CHANNELS => limits::BLOCK_BYTES_SHARED,
        0 => limits::BLOCK_BYTES_DEFAULT,
        asked => asked,
    };
    let block = asked.clamp(limits::BLOCK_BYTES_MIN, limits::BLOCK_BYTES_MAX);
    let block = if block.is_power_of_two() { block } else { block.next_power_of_two() / 2 };
    match level {
        Level::Clear => block,
        // Sixteen blocks are open at a time whatever the channel count; the others wait in the
        // kernel.
        Level::Integrity | Level::Private => {
            let most = (limits::SESSION_BUFFER_BYTES / 16) as u32;
            block.min(most)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranges_of_the_pipelines_cover_the_transfer_once() {
        for length in [0, 1, 99, 100, 101, 1000, 1001, 12_345] {
            for pipelines in 1..=5 {
                let ranges = split(length, 100, pipelines);
                assert!(ranges.len() <= usize::from(pipelines) && !ranges.is_empty());
                let mut at = 0;
                for range in &ranges {
                    assert_eq!(range.offset(), at);
                    assert_eq!(at % 100, 0);
                    at = range.end();
                }
                assert_eq!(at, length);
                assert!(ranges.len() == 1 || ranges.iter().all(|range| !range.is_empty()));
                assert!(covers(&ranges, Some(length), 100) && !covers(&ranges, Some(length + 1), 100));
            }
        }
    }

    #[test]
    fn of_what_was_kept_only_whole_blocks_count_and_touching_ranges_are_one() {
        let extents = |list: &[(u64, u64)]| -> Vec<Extent> {
            list.iter().map(|(from, to)| Extent::new(*from, to - from).unwrap()).collect()
        };
        for (kept, whole) in [
            (&[(0, 30)][..], &[(0, 30)][..]),
            (&[(1, 30)], &[(10, 30)]),
            (&[(0, 29)], &[(0, 20)]),
            (&[(0, 5), (5, 10)], &[(0, 10)]),
            (&[(0, 5), (6, 10)], &[]),
            (&[(30, 45)], &[(30, 45)]),
            (&[(31, 45)], &[(40, 45)]),
            (&[(0, 10), (20, 30)], &[(0, 10), (20, 30)]),
            (&[(0, 99)], &[(0, 45)]),
            (&[], &[]),
        ] {
            let found = whole_blocks(&extents(kept), 45, 10);
            assert_eq!(found, extents(whole), "{kept:?}");
            assert!(are_whole_blocks(&found, Some(45), 10));
        }
        for bad in [(1, 10), (0, 9), (0, 46), (40, 44)] {
            assert!(!are_whole_blocks(&extents(&[bad]), Some(45), 10), "{bad:?}");
        }
        assert!(!are_whole_blocks(&extents(&[(0, 10)]), None, 10));
    }

    #[test]
    fn of_many_ranges_the_longest_are_gone_on_with() {
        let extents = |list: &[(u64, u64)]| -> Vec<Extent> {
            list.iter().map(|(from, to)| Extent::new(*from, to - from).unwrap()).collect()
        };
        let ranges = extents(&[(0, 10), (20, 21), (30, 50), (60, 75), (80, 90)]);
        assert_eq!(longest(ranges.clone(), 3), extents(&[(0, 10), (30, 50), (60, 75)]));
        assert_eq!(longest(ranges.clone(), 5), ranges);
    }

    #[test]
    fn block_sizes_stay_powers_of_two_within_the_limits() {
        assert_eq!(block(0, Level::Clear, 1), 512 << 10);
        assert_eq!(block(1, Level::Clear, 1), 64 << 10);
        assert_eq!(block(3 << 20, Level::Clear, 1), 2 << 20);
        assert_eq!(block(u32::MAX, Level::Clear, 1), 4 << 20);
        assert_eq!(block(u32::MAX, Level::Integrity, 1), 2 << 20);
        assert_eq!(block(0, Level::Integrity, 1), 512 << 10);
        assert_eq!(block(0, Level::Integrity, 8), 256 << 10);
        assert_eq!(block(0, Level::Clear, 8), 512 << 10);
        assert_eq!(block(1 << 20, Level::Private, 8), 1 << 20, "what was asked for holds");
    }
}
