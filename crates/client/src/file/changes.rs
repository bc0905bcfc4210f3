//! What makes bytes stale that were read before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts changes of a file and locks that were gained on it: what was read ahead before one of them is
/// not used any more. Open files of the same file share one ([`File::sharing`](super::File::sharing)).
#[derive(Clone, Debug, Default)]
pub struct Changes(Arc<AtomicU64>);

impl Changes {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Somebody else changed the file, too: what was read ahead is not used any more.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}
