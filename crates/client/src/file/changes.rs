//! What makes bytes stale that were read before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The change number of a file that a reader knows, and whether what it reads tells another one ([`File::read_ahead_seeing`]).
///
/// [`File::read_ahead_seeing`]: super::File::read_ahead_seeing
#[derive(Clone, Debug)]
pub struct Seen {
    known: Option<u64>,
    changed: bool,
}

impl Seen {
    /// A reader that knows this one, or none.
    pub fn of(known: Option<u64>) -> Self {
        Self { known, changed: false }
    }

    /// Whether any bytes may be of a file that was changed before or after the reader knew of it.
    pub fn changed(&self) -> bool {
        self.changed
    }

    pub(super) fn see(&mut self, change: Option<u64>) {
        self.changed |= change != self.known;
    }
}

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
