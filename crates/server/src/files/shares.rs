//! Share modes: what the handles of a file are for, and what they deny to others. Without I/O.

use std::collections::BTreeMap;
use xdfs_proto::wire::file::FileIdentity;

/// What one handle does, and what it denies to others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Sharing {
    pub read: bool,
    pub write: bool,
    pub deny_read: bool,
    pub deny_write: bool,
}

/// How many handles of a file do and deny each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Counts {
    handles: usize,
    read: usize,
    write: usize,
    deny_read: usize,
    deny_write: usize,
}

/// The share modes of all open files.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Shares(BTreeMap<FileIdentity, Counts>);

impl Counts {
    fn excludes(&self, new: Sharing) -> bool {
        (new.read && self.deny_read > 0)
            || (new.write && self.deny_write > 0)
            || (new.deny_read && self.read > 0)
            || (new.deny_write && self.write > 0)
    }

    fn count(&mut self, one: Sharing, add: impl Fn(&mut usize)) {
        let fields = [
            (true, &mut self.handles),
            (one.read, &mut self.read),
            (one.write, &mut self.write),
            (one.deny_read, &mut self.deny_read),
            (one.deny_write, &mut self.deny_write),
        ];
        fields.into_iter().filter(|(set, _)| *set).for_each(|(_, field)| add(field));
    }
}

impl Shares {
    /// Opens a file in this way; false if the other handles of it exclude that.
    pub(super) fn open(&mut self, file: &FileIdentity, new: Sharing) -> bool {
        let counts = self.0.entry(*file).or_default();
        if counts.excludes(new) {
            return false;
        }
        counts.count(new, |field| *field += 1);
        true
    }

    /// A handle that was opened so is closed.
    pub(super) fn close(&mut self, file: &FileIdentity, old: Sharing) {
        let Some(counts) = self.0.get_mut(file) else { return };
        counts.count(old, |field| *field = field.saturating_sub(1));
        if counts.handles == 0 {
            self.0.remove(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = Sharing> {
        (0..16).map(|bits: u8| Sharing {
            read: bits & 1 != 0,
            write: bits & 2 != 0,
            deny_read: bits & 4 != 0,
            deny_write: bits & 8 != 0,
        })
    }

    /// The rule, for two handles.
    fn agree(one: Sharing, other: Sharing) -> bool {
        let denies = |by: Sharing, to: Sharing| (by.deny_read && to.read) || (by.deny_write && to.write);
        !denies(one, other) && !denies(other, one)
    }

    #[test]
    fn every_pair_is_open_together_exactly_if_neither_denies_what_the_other_does() {
        let file = [7; 24];
        for (one, other) in all().flat_map(|one| all().map(move |other| (one, other))) {
            let mut shares = Shares::default();
            assert!(shares.open(&file, one));
            assert_eq!(shares.open(&file, other), agree(one, other), "{one:?} {other:?}");
            assert!(shares.open(&[8; 24], other), "another file");
            if agree(one, other) {
                shares.close(&file, other);
            }
            shares.close(&file, one);
            assert!(shares.open(&file, other), "closed");
            shares.close(&file, other);
            shares.close(&[8; 24], other);
            assert_eq!(shares, Shares::default());
        }
    }

    #[test]
    fn the_last_of_many_handles_ends_what_they_deny() {
        let (mut shares, file) = (Shares::default(), [7; 24]);
        let (denies, writes) =
            (Sharing { deny_write: true, ..Sharing::default() }, Sharing { write: true, ..Sharing::default() });
        assert!(shares.open(&file, denies) && shares.open(&file, denies));
        shares.close(&file, denies);
        assert!(!shares.open(&file, writes));
        shares.close(&file, denies);
        assert!(shares.open(&file, writes));
    }
}
