//! Where two copies of a transfer differ, determined from their subtrees alone.

use super::fold::value_of;
use xdfs_proto::base::{Extent, Subtree};

/// The ranges in which `mine` and `theirs` do not agree, ascending: other values, or bytes that
/// only one of them has. Each is made of whole subtrees. Both are ascending and apart.
pub fn differences(mine: &[Subtree], theirs: &[Subtree]) -> Vec<Extent> {
    let mut bad: Vec<Extent> = Vec::new();
    let (mut left, mut right) = (mine, theirs);
    loop {
        let extent = match (left.first(), right.first()) {
            (None, None) => return bad,
            (Some(one), None) | (None, Some(one)) => one.extent,
            (Some(one), Some(other)) if one.extent.offset() <= other.extent.offset() => one.extent,
            (_, Some(other)) => other.extent,
        };
        // The range of all subtrees that hang together by overlapping: usually two equal ones, or
        // one over several.
        let extent = closed(left, right, extent);
        let (here, rest) = split(left, extent);
        let (there, other_rest) = split(right, extent);
        let value = value_of(here.iter().copied(), extent);
        if value.is_none() || value != value_of(there.iter().copied(), extent) {
            push(&mut bad, extent);
        }
        (left, right) = (rest, other_rest);
    }
}

fn closed(left: &[Subtree], right: &[Subtree], first: Extent) -> Extent {
    let (mut end, mut at) = (first.end(), [0, 0]);
    loop {
        let before = end;
        for (side, place) in [left, right].into_iter().zip(&mut at) {
            while let Some(one) = side.get(*place).filter(|one| one.extent.offset() < end) {
                end = end.max(one.extent.end());
                *place += 1;
            }
        }
        if end == before {
            // Both ends are ends of extents.
            return Extent::new(first.offset(), end - first.offset()).unwrap_or(first);
        }
    }
}

fn split(side: &[Subtree], extent: Extent) -> (&[Subtree], &[Subtree]) {
    side.split_at(side.partition_point(|one| one.extent.offset() < extent.end()))
}

fn push(bad: &mut Vec<Extent>, extent: Extent) {
    if let Some(last) = bad.last_mut().filter(|last| last.end() == extent.offset())
        && let Ok(both) = Extent::new(last.offset(), last.length() + extent.length())
    {
        *last = both;
        return;
    }
    bad.push(extent);
}
