//! Neighbouring subtrees folded into one, as the tree of BLAKE3 has them: complete siblings first, then from the right.

use super::CHUNK_BYTES;
use blake3::hazmat::{Mode, merge_subtrees_non_root, merge_subtrees_root};
use xdfs_proto::base::{Digest, Extent, Subtree};

/// A range that can be one complete subtree of any tree: a power of two of chunks, aligned to itself.
pub(super) fn is_complete(extent: Extent) -> bool {
    extent.length() >= CHUNK_BYTES
        && extent.length().is_power_of_two()
        && extent.offset().is_multiple_of(extent.length())
}

/// Whether the two are the halves of a complete subtree.
fn are_siblings(left: Extent, right: Extent) -> bool {
    is_complete(left)
        && right.length() == left.length()
        && right.offset() == left.end()
        // A length of 2^63 has no extent.
        && left.length().checked_mul(2).is_some_and(|both| left.offset().is_multiple_of(both))
}

pub(super) fn parent(left: &Digest, right: &Digest) -> Digest {
    merge_subtrees_non_root(left, right, Mode::Hash)
}

pub(super) fn root(left: &Digest, right: &Digest) -> Digest {
    *merge_subtrees_root(left, right, Mode::Hash).as_bytes()
}

/// The subtrees left when every pair of complete siblings is one, but for the pair that is `whole`; none where there is a gap.
fn stacked(subtrees: impl Iterator<Item = Subtree>, whole: Extent) -> Option<Vec<Subtree>> {
    let mut stack: Vec<Subtree> = Vec::new();
    let mut at = whole.offset();
    for mut next in subtrees {
        if next.extent.offset() != at {
            return None;
        }
        at = next.extent.end();
        while let Some(left) = stack.last().copied() {
            let both = Extent::new(left.extent.offset(), left.extent.length() + next.extent.length()).ok()?;
            if !are_siblings(left.extent, next.extent) || both == whole {
                break;
            }
            stack.pop();
            next = Subtree { extent: both, value: parent(&left.value, &next.value) };
        }
        stack.push(next);
    }
    (at == whole.end() && !stack.is_empty()).then_some(stack)
}

/// The value of `whole` from subtrees that cover it, ascending; none where they do not.
pub(super) fn value_of(subtrees: impl Iterator<Item = Subtree>, whole: Extent) -> Option<Digest> {
    let mut stack = stacked(subtrees, whole)?;
    let mut right = stack.pop()?.value;
    while let Some(left) = stack.pop() {
        right = parent(&left.value, &right);
    }
    Some(right)
}

/// The root of a transfer from subtrees that cover it, ascending; `alone` where one of them is all of it.
pub(super) fn root_of(
    subtrees: impl Iterator<Item = Subtree>,
    whole: Extent,
    alone: impl FnOnce() -> Option<Digest>,
) -> Option<Digest> {
    let mut stack = stacked(subtrees, whole)?;
    let mut right = stack.pop()?.value;
    let Some(mut left) = stack.pop() else { return alone() };
    while let Some(further) = stack.pop() {
        right = parent(&left.value, &right);
        left = further;
    }
    Some(root(&left.value, &right))
}
