//! Targets of symbolic links, which a listing of their directory tells: `ls -l` reads each of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Links of which that is known: the longest targets take 4 KiB each.
const KNOWN_MAX: usize = 4096;

/// Of inodes, and how long they may be used.
type Targets = BTreeMap<u64, (Arc<[u8]>, Instant)>;

/// What is known, for as long as attributes may be used without another look.
#[derive(Default, Debug)]
pub(super) struct KnownTargets(Mutex<Targets>);

impl KnownTargets {
    fn lock(&self) -> MutexGuard<'_, Targets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn keep(&self, inode: u64, target: &[u8], until: Instant) {
        let mut known = self.lock();
        if known.len() >= KNOWN_MAX {
            let now = Instant::now();
            known.retain(|_, (_, until)| now < *until);
        }
        if known.len() < KNOWN_MAX {
            known.insert(inode, (target.into(), until));
        }
    }

    pub(super) fn find(&self, inode: u64) -> Option<Arc<[u8]>> {
        let known = self.lock();
        let (target, _) = known.get(&inode).filter(|(_, until)| Instant::now() < *until)?;
        Some(Arc::clone(target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_known_has_a_bound_and_a_time() {
        let (known, now) = (KnownTargets::default(), Instant::now());
        known.keep(0, b"old", now);
        assert_eq!(known.find(0), None);
        for inode in 1..=KNOWN_MAX as u64 + 1 {
            known.keep(inode, b"target", now + Duration::from_secs(3600));
        }
        assert_eq!(known.lock().len(), KNOWN_MAX);
        assert_eq!(known.find(1).as_deref(), Some(&b"target"[..]));
        assert_eq!(known.find(KNOWN_MAX as u64 + 1), None, "there was no room");
    }
}
