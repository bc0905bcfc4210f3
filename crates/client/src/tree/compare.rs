//! What is known of the names of a directory that exists on both sides, in a few bytes per name.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};

/// What the target has under a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TargetState {
    /// Equal to the source: nothing to do.
    Same,
    /// Equal to the source, except for mode or owner, if they are kept, or for the time of a link
    /// or special file: these are set by calls of their own, which a copy that was killed had not
    /// made yet.
    OtherAttributes,
    /// Equal to the source in size, time and attributes; the content is still to be compared.
    Unhashed,
    /// Another state of the same type of file.
    Older,
    /// A file of the same type that other names of the target share, and those of the source do not:
    /// whatever is written to it, they would get.
    Joined,
    /// Something of another type, not a directory.
    OtherKind,
    /// A directory; `OlderDirectory` has another time.
    Directory,
    /// See `Directory`.
    OlderDirectory,
    /// The same two, for a directory whose owner may not change its entries.
    LockedDirectory,
    /// See `LockedDirectory`.
    OlderLockedDirectory,
}

impl TargetState {
    const ALL: [Self; 10] = [
        Self::Same,
        Self::OtherAttributes,
        Self::Unhashed,
        Self::Older,
        Self::Joined,
        Self::OtherKind,
        Self::Directory,
        Self::OlderDirectory,
        Self::LockedDirectory,
        Self::OlderLockedDirectory,
    ];

    /// A directory with this mode; `same` if it has time and attributes of the source's.
    pub(super) fn directory(same: bool, mode: Option<u32>) -> Self {
        match (same, mode.is_some_and(|mode| mode & 0o700 != 0o700)) {
            (true, false) => Self::Directory,
            (false, false) => Self::OlderDirectory,
            (true, true) => Self::LockedDirectory,
            (false, true) => Self::OlderLockedDirectory,
        }
    }

    /// Whether it is a directory.
    pub(super) fn is_directory(self) -> bool {
        matches!(self, Self::Directory | Self::OlderDirectory) || self.is_locked()
    }

    /// Whether it is a directory whose owner may not change its entries.
    pub(super) fn is_locked(self) -> bool {
        matches!(self, Self::LockedDirectory | Self::OlderLockedDirectory)
    }

    /// Whether it is a file, link or special file that stays.
    pub(super) fn stays(self) -> bool {
        matches!(self, Self::Same | Self::OtherAttributes)
    }
}

/// File system and number of a file at the target: equal for two names of one file.
pub(super) type Inode = [u8; 16];

/// Names by their keyed hash: eight bytes each. Two names of one directory collide with a chance of
/// 2^-60 for each pair, and an attacker cannot choose names that do.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    slots: HashSet<Slot, BuildHasherDefault<IdentityHasher>>,
    key: RandomState,
    /// For names of files with several names, which file it is. These are few.
    inodes: HashMap<Vec<u8>, Inode>,
}

impl Names {
    /// Adds a name. False if it was already present.
    pub(super) fn insert(&mut self, name: &[u8], there: TargetState) -> bool {
        self.slots.insert(self.slot(name, there))
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<TargetState> {
        self.slots.get(&self.slot(name, TargetState::Same)).map(|slot| slot.there())
    }

    /// The target reports that the file of this name has other names, too.
    pub(super) fn insert_inode(&mut self, name: &[u8], inode: Inode) {
        self.inodes.insert(name.to_vec(), inode);
    }

    /// Which file of several names it is.
    pub(super) fn inode(&self, name: &[u8]) -> Option<Inode> {
        self.inodes.get(name).copied()
    }

    fn slot(&self, name: &[u8], there: TargetState) -> Slot {
        Slot(self.key.hash_one(name) & !THERE | there as u64)
    }
}

/// Bits of a slot that hold the target's state.
const THERE: u64 = 0b1111;

/// The hash of a name, with the target's state in its lowest bits, which are ignored when names are
/// compared.
#[derive(Clone, Copy, Debug)]
struct Slot(u64);

impl Slot {
    fn there(self) -> TargetState {
        TargetState::ALL.into_iter().find(|there| *there as u64 == self.0 & THERE).unwrap_or(TargetState::Older)
    }
}

impl PartialEq for Slot {
    fn eq(&self, other: &Self) -> bool {
        self.0 & !THERE == other.0 & !THERE
    }
}

impl Eq for Slot {}

impl Hash for Slot {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // A hash table uses the bits of both ends.
        state.write_u64((self.0 & !THERE).rotate_right(THERE.count_ones()));
    }
}

/// A hasher for values that are already hashes.
#[derive(Clone, Debug, Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_with_what_is_there_and_none_twice() {
        let all = TargetState::ALL;
        let name = |number: usize| format!("file-{number}").into_bytes();
        let mut names = Names::default();
        for number in 0..100_000 {
            assert!(names.insert(&name(number), all[number % all.len()]), "{number} is new");
        }
        for number in 0..100_000 {
            assert_eq!(names.get(&name(number)), Some(all[number % all.len()]));
            assert!(!names.insert(&name(number), TargetState::Same), "{number} is known");
        }
        assert_eq!(names.get(b"file-100000"), None);
        assert_eq!(size_of::<Slot>(), 8);
    }
}
