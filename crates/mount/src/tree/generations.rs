//! A map with a bound that costs nothing to keep: when it is full, the older half of it is forgotten.

use std::collections::BTreeMap;

/// What was put in last, and what was put in before that.
#[derive(Debug)]
pub(super) struct Generations<Key, Value> {
    young: BTreeMap<Key, Value>,
    old: BTreeMap<Key, Value>,
    most: usize,
}

impl<Key: Ord, Value> Generations<Key, Value> {
    /// At most so many entries; at least half as many of the last ones are remembered.
    pub(super) fn new(most: usize) -> Self {
        Self { young: BTreeMap::new(), old: BTreeMap::new(), most }
    }

    pub(super) fn insert(&mut self, key: Key, value: Value) {
        self.old.remove(&key);
        self.young.insert(key, value);
        if self.young.len() >= self.most / 2 {
            self.old = std::mem::take(&mut self.young);
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Value> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut Value> {
        match self.young.get_mut(key) {
            Some(value) => Some(value),
            None => self.old.get_mut(key),
        }
    }

    pub(super) fn remove(&mut self, key: &Key) {
        self.young.remove(key);
        self.old.remove(key);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_half_is_forgotten_and_no_key_is_there_twice() {
        let mut map = Generations::new(8);
        for key in 0..100 {
            map.insert(key, key);
            map.insert(key, -key);
            assert!(map.len() < 8, "{key}");
            assert!((key - 3..=key).filter(|key| *key >= 0).all(|key| map.get(&key) == Some(&-key)), "{key}");
        }
        assert_eq!(map.get(&50), None);
        let kept: Vec<i32> = (0..100).filter(|key| map.get(key).is_some()).collect();
        for key in kept {
            *map.get_mut(&key).expect("it is there") = 1;
            assert_eq!(map.get(&key), Some(&1));
            map.remove(&key);
            assert_eq!(map.get(&key), None);
        }
        assert_eq!(map.len(), 0);
    }
}
