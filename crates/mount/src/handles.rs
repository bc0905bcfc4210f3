//! Numbers for what the kernel has open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Open files, or directories, by their numbers; at most so many.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    most: usize,
    open: Mutex<(u64, BTreeMap<u64, Arc<T>>)>,
}

impl<T> Handles<T> {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, open: Mutex::new((0, BTreeMap::new())) }
    }

    fn lock(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Arc<T>>)> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is room for one more.
    pub(crate) fn has_room(&self) -> bool {
        self.lock().1.len() < self.most
    }

    /// Its number, which is never given again.
    pub(crate) fn insert(&self, value: T) -> u64 {
        let (next, open) = &mut *self.lock();
        *next += 1;
        open.insert(*next, Arc::new(value));
        *next
    }

    pub(crate) fn find(&self, handle: u64) -> Option<Arc<T>> {
        self.lock().1.get(&handle).cloned()
    }

    pub(crate) fn remove(&self, handle: u64) -> Option<Arc<T>> {
        self.lock().1.remove(&handle)
    }

    /// Whether one that is open is such.
    pub(crate) fn any(&self, is: impl Fn(&T) -> bool) -> bool {
        self.lock().1.values().any(|value| is(value))
    }

    /// All that are open.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.lock().1.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_given_once_and_the_table_has_a_bound() {
        let handles = Handles::new(2);
        let (one, two) = (handles.insert("one"), handles.insert("two"));
        assert!(!handles.has_room());
        assert_eq!(handles.remove(one).as_deref(), Some(&"one"));
        assert!(handles.has_room() && handles.find(one).is_none());
        assert!(handles.insert("three") > two);
        assert_eq!(handles.all().len(), 2);
        assert!(handles.any(|value| *value == "three") && !handles.any(|value| *value == "one"));
    }
}
