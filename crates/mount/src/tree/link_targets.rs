//! Targets of symbolic links, which a listing of their directory tells: `ls -l` reads each of them.

use super::generations::Generations;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Links of which that is known: the longest targets take 4 KiB each.
const KNOWN_MAX: usize = 8192;

type Targets = Generations<u64, Known>;

#[derive(Debug)]
struct Known {
    target: Arc<[u8]>,
    /// The change number of the link.
    change: Option<u64>,
    until: Instant,
}

/// What is known, for as long as attributes may be used without another look.
#[derive(Debug)]
pub(super) struct KnownTargets(Mutex<Targets>);

impl Default for KnownTargets {
    fn default() -> Self {
        Self(Mutex::new(Generations::new(KNOWN_MAX)))
    }
}

impl KnownTargets {
    fn lock(&self) -> MutexGuard<'_, Targets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn keep(&self, inode: u64, target: &[u8], change: Option<u64>, until: Instant) {
        self.lock().insert(inode, Known { target: target.into(), change, until });
    }

    pub(super) fn find(&self, inode: u64) -> Option<Arc<[u8]>> {
        let known = self.lock();
        let known = known.get(&inode).filter(|known| Instant::now() < known.until)?;
        Some(Arc::clone(&known.target))
    }

    /// The kernel is told of a link with this change number: another one, with the number of an old one, has another target.
    pub(super) fn compare(&self, inode: u64, change: Option<u64>) {
        let mut known = self.lock();
        if known.get(&inode).is_some_and(|known| known.change != change) {
            known.remove(&inode);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_known_has_a_bound_and_a_time() {
        let (known, now) = (KnownTargets::default(), Instant::now());
        known.keep(0, b"old", None, now);
        assert_eq!(known.find(0), None);
        for inode in 1..=KNOWN_MAX as u64 + 1 {
            known.keep(inode, b"target", Some(7), now + Duration::from_secs(3600));
        }
        assert!(known.lock().len() < KNOWN_MAX);
        let last = KNOWN_MAX as u64 + 1;
        assert_eq!(known.find(last).as_deref(), Some(&b"target"[..]));
        assert_eq!(known.find(1), None, "newer ones have its room");
        known.compare(last, Some(7));
        assert!(known.find(last).is_some());
        known.compare(last, Some(8));
        assert!(known.find(last).is_none(), "it is another link");
    }
}
