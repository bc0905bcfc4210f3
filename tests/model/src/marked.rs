//! A value that is shared between states and hashed once, when it changes: most actions touch one session of several.

use ahash::RandomState;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A shared value whose hash is computed once per change.
#[derive(Clone, Debug)]
pub struct Marked<T> {
    value: Arc<T>,
    mark: u64,
}

impl<T: Clone + Hash> Marked<T> {
    /// Takes the value and marks it.
    pub fn new(value: T) -> Self {
        let mark = mark_of(&value);
        Self { value: Arc::new(value), mark }
    }

    /// The value to be changed, in a copy where other states share it. It has to be marked again afterwards.
    pub fn change(&mut self) -> &mut T {
        self.mark = UNMARKED;
        Arc::make_mut(&mut self.value)
    }

    /// Marks the value if it may have changed.
    pub fn mark(&mut self) {
        if self.mark == UNMARKED {
            self.mark = mark_of(&*self.value);
        }
    }
}

/// No value has this mark but those that were changed since.
const UNMARKED: u64 = 0;

impl<T> std::ops::Deref for Marked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> PartialEq for Marked<T> {
    fn eq(&self, other: &Self) -> bool {
        self.mark == other.mark
    }
}

impl<T> Eq for Marked<T> {}

impl<T> Hash for Marked<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.mark.hash(state);
    }
}

/// A hash of a value, the same in every run.
pub(crate) fn mark_of(value: &impl Hash) -> u64 {
    RandomState::with_seeds(1, 2, 3, 4).hash_one(value).max(1)
}
