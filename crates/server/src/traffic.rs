//! What moved, counted while it moves: of a session for the log, of an export for the metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use xdfs_engine::pace::Limit;

/// Counters of what moved.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    received: AtomicU64,
    sent: AtomicU64,
    uploads: Outcomes,
    downloads: Outcomes,
    calls: Outcomes,
}

/// How often something succeeded, and failed.
#[derive(Debug, Default)]
struct Outcomes {
    done: AtomicU64,
    failed: AtomicU64,
}

impl Outcomes {
    fn add(&self, done: u64, failed: u64) {
        self.done.fetch_add(done, Ordering::Relaxed);
        self.failed.fetch_add(failed, Ordering::Relaxed);
    }

    fn read(&self) -> Count {
        Count { done: self.done.load(Ordering::Relaxed), failed: self.failed.load(Ordering::Relaxed) }
    }
}

/// How often something succeeded, and failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// It succeeded.
    pub done: u64,
    /// It failed.
    pub failed: u64,
}

/// What moved in a session, or on an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moved {
    /// Bytes of payloads from clients.
    pub received: u64,
    /// Bytes of payloads to clients.
    pub sent: u64,
    /// Uploads that are over.
    pub uploads: Count,
    /// Downloads that are over.
    pub downloads: Count,
    /// Calls: those that changed something, read a small file, or failed.
    pub calls: Count,
}

impl Moved {
    /// How much failed.
    pub const fn failed(&self) -> u64 {
        self.uploads.failed + self.downloads.failed + self.calls.failed
    }
}

impl Traffic {
    /// Bytes of payload passed.
    pub fn moved(&self, received: bool, bytes: u64) {
        let counter = if received { &self.received } else { &self.sent };
        counter.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A transfer is over.
    pub fn transfer(&self, upload: bool, ok: bool) {
        let counter = if upload { &self.uploads } else { &self.downloads };
        counter.add(ok.into(), (!ok).into());
    }

    /// Calls of a batch were executed.
    pub fn calls(&self, count: Count) {
        self.calls.add(count.done, count.failed);
    }

    /// The counters as they are now.
    pub fn read(&self) -> Moved {
        Moved {
            received: self.received.load(Ordering::Relaxed),
            sent: self.sent.load(Ordering::Relaxed),
            uploads: self.uploads.read(),
            downloads: self.downloads.read(),
            calls: self.calls.read(),
        }
    }
}

/// What the sessions on an export share; a reload keeps it.
#[derive(Debug)]
pub(crate) struct ExportLoad {
    /// Their limit of bandwidth.
    pub limit: Arc<Limit>,
    /// What they moved.
    pub traffic: Traffic,
}

impl ExportLoad {
    /// That of a new export with this rate; 0 is no limit.
    pub fn new(rate: u64) -> Self {
        Self { limit: Arc::new(Limit::new(rate)), traffic: Traffic::default() }
    }
}
