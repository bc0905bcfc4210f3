//! What moved, counted by the threads that move it and read by the one that reports.

use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes of one stream. Each direction has one writer; on a cache line of its own, so that the
/// two do not slow each other down.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    received: CachePadded,
    sent: CachePadded,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct CachePadded(AtomicU64);

/// Bytes in each direction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Moved {
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

impl Counter {
    pub(crate) fn on_received(&self, bytes: usize) {
        self.received.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn on_sent(&self, bytes: usize) {
        self.sent.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn moved(&self) -> Moved {
        Moved { received: self.received.0.load(Ordering::Relaxed), sent: self.sent.0.load(Ordering::Relaxed) }
    }
}

impl Moved {
    /// What moved since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self { received: self.received - earlier.received, sent: self.sent - earlier.sent }
    }

    /// Of all streams together.
    pub(crate) fn total(streams: &[Self]) -> Self {
        let sum = |of: fn(&Self) -> u64| streams.iter().map(of).sum();
        Self { received: sum(|moved| moved.received), sent: sum(|moved| moved.sent) }
    }
}

/// The bytes that all streams together may still send.
#[derive(Debug)]
pub(crate) struct Budget(AtomicU64);

impl Budget {
    pub(crate) fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Takes up to `wanted` bytes of it; none is left where it gives none.
    pub(crate) fn take(&self, wanted: usize) -> usize {
        let left = |left: u64| Some(left.saturating_sub(wanted as u64));
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).unwrap_or(0);
        usize::try_from(before).unwrap_or(usize::MAX).min(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_gives_exactly_what_is_in_it() {
        let budget = Budget::new(100);
        assert_eq!((budget.take(64), budget.take(64), budget.take(64)), (64, 36, 0));
    }

    #[test]
    fn an_interval_has_what_moved_since_the_one_before() {
        let counter = Counter::default();
        counter.on_sent(5);
        let earlier = counter.moved();
        counter.on_sent(7);
        counter.on_received(1);
        assert_eq!(counter.moved().since(earlier), Moved { received: 1, sent: 7 });
        assert_eq!(Moved::total(&[earlier, counter.moved()]), Moved { received: 1, sent: 17 });
    }
}
