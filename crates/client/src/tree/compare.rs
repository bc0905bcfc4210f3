//! What is known of the names of a directory that is there on both sides, in some bytes a name.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// What the target has under a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum There {
    /// What the source has: nothing is to be done.
    Same,
    /// Another state of the same kind of thing.
    Older,
    /// Something of another kind, and no directory.
    OtherKind,
    /// A directory; the second one has another time.
    Directory,
    /// See `Directory`.
    OlderDirectory,
}

/// Names by their keyed hash. Two names of one directory meet in it with a chance of 2^-64 for each pair, and nobody can choose
/// names that do.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    hashes: HashMap<u64, There>,
    key: RandomState,
}

impl Names {
    /// Adds a name. False where it was there.
    pub(super) fn insert(&mut self, name: &[u8], there: There) -> bool {
        self.hashes.insert(self.key.hash_one(name), there).is_none()
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<There> {
        self.hashes.get(&self.key.hash_one(name)).copied()
    }
}
