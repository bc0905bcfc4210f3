//! What was changed and is not known to be on stable storage: made again if the server restarts.

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use xdfs_proto::wire::file::FileCall;

/// A change that can be made again without harm.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Write { offset: u64, data: Bytes },
    SetLength { length: u64 },
    Allocate { offset: u64, length: u64, keep_size: bool },
    Punch { offset: u64, length: u64 },
}

/// The changes since the last sync, in their order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Unsynced {
    changes: BTreeMap<u64, Change>,
    /// Those whose answers have not come: they may come after a sync that another thread asks for.
    on_their_way: BTreeSet<u64>,
    next: u64,
    bytes: usize,
}

impl Change {
    pub(super) fn call(&self) -> FileCall<'_> {
        match *self {
            Self::Write { offset, ref data } => FileCall::Write { offset, data },
            Self::SetLength { length } => FileCall::SetLength { length },
            Self::Allocate { offset, length, keep_size } => FileCall::Allocate { offset, length, keep_size },
            Self::Punch { offset, length } => FileCall::Punch { offset, length },
        }
    }

    /// Whether the order of this and a write matters.
    pub(super) fn overlaps(&self, at: u64, length: usize) -> bool {
        let Range { start, end } = self.range();
        start < at + length as u64 && at < end
    }

    /// The places where the order of this and other changes matters.
    pub(super) fn range(&self) -> Range<u64> {
        match self {
            Self::Write { offset, data } => *offset..offset + data.len() as u64,
            _ => 0..u64::MAX,
        }
    }

    /// Memory that it takes, in a batch as here.
    pub(super) fn bytes(&self) -> usize {
        // What an entry takes besides its data.
        const ENTRY: usize = 128;
        match self {
            Self::Write { data, .. } => ENTRY + data.len(),
            _ => ENTRY,
        }
    }
}

impl Unsynced {
    /// Whether everything is on stable storage.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Adds a change; returns its number.
    pub(super) fn add(&mut self, change: Change) -> u64 {
        self.bytes += change.bytes();
        self.next += 1;
        self.changes.insert(self.next, change);
        self.on_their_way.insert(self.next);
        self.next
    }

    /// The change was made.
    pub(super) fn made(&mut self, number: u64) {
        self.on_their_way.remove(&number);
    }

    /// A hole was made where the file ended at `end`: behind that it changed nothing, and does not, made again, empty what has come to
    /// stand there.
    pub(super) fn end_hole(&mut self, number: u64, end: u64) {
        if let Some(Change::Punch { offset, length }) = self.changes.get_mut(&number) {
            *length = (*length).min(end.saturating_sub(*offset));
            if *length == 0 {
                self.remove(number);
            }
        }
    }

    /// The change is made again, behind those that were made meanwhile; returns its new number.
    pub(super) fn again(&mut self, number: u64) -> u64 {
        let Some(change) = self.changes.remove(&number) else { return number };
        self.on_their_way.remove(&number);
        self.bytes -= change.bytes();
        self.add(change)
    }

    /// The change failed, and was not made.
    pub(super) fn remove(&mut self, number: u64) {
        self.on_their_way.remove(&number);
        if let Some(change) = self.changes.remove(&number) {
            self.bytes -= change.bytes();
        }
    }

    /// Everything up to this number is on stable storage.
    pub(super) fn synced(&mut self, number: u64) {
        let later = self.changes.split_off(&(number + 1));
        let synced = std::mem::replace(&mut self.changes, later);
        self.bytes -= synced.values().map(Change::bytes).sum::<usize>();
    }

    /// The number up to which every change was made or failed: a sync that begins now covers them.
    pub(super) fn last_made(&self) -> u64 {
        self.on_their_way.first().map_or(self.next, |first| first - 1)
    }

    /// Memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The changes that were made, in their order. Those on their way are sent again by whoever waits
    /// for their answers.
    pub(super) fn all_made(&self) -> Vec<Change> {
        let made = self.changes.iter().filter(|(number, _)| !self.on_their_way.contains(number));
        made.map(|(_, change)| change.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_synced_or_failed_is_not_kept_and_the_rest_keeps_its_order() {
        let mut unsynced = Unsynced::default();
        let write = |offset| Change::Write { offset, data: Bytes::from_static(b"data") };
        let numbers: Vec<u64> = (0..4).map(|offset| unsynced.add(write(offset))).collect();
        assert_eq!((unsynced.last_made(), unsynced.all_made()), (0, Vec::new()), "none was answered");
        unsynced.made(numbers[1]);
        unsynced.made(numbers[0]);
        assert_eq!(unsynced.last_made(), numbers[1]);
        unsynced.remove(numbers[2]);
        assert_eq!(unsynced.last_made(), numbers[2]);
        unsynced.made(numbers[3]);
        unsynced.synced(numbers[0]);
        assert_eq!(unsynced.all_made(), [write(1), write(3)]);
        let later = unsynced.again(numbers[1]);
        assert_eq!((unsynced.last_made(), unsynced.all_made()), (numbers[3], vec![write(3)]), "it is on its way again");
        unsynced.made(later);
        assert_eq!(unsynced.all_made(), [write(3), write(1)], "it was made later");
        let later = unsynced.add(Change::SetLength { length: 1 });
        unsynced.made(later);
        assert_eq!(unsynced.last_made(), later);
        unsynced.synced(later);
        assert_eq!((unsynced.bytes(), unsynced.all_made()), (0, Vec::new()));
    }

    #[test]
    fn a_hole_is_made_again_as_far_as_there_was_a_file() {
        for (offset, length, left) in
            [(5, 100, Some(5)), (0, 10, Some(10)), (2, 3, Some(3)), (10, 1, None), (50, 9, None)]
        {
            let mut unsynced = Unsynced::default();
            let number = unsynced.add(Change::Punch { offset, length });
            unsynced.made(number);
            unsynced.end_hole(number, 10);
            let expected: Vec<_> = left.map(|length| Change::Punch { offset, length }).into_iter().collect();
            assert_eq!(unsynced.all_made(), expected, "{length} at {offset}");
            assert_eq!(unsynced.bytes() == 0, left.is_none());
        }
    }
}
