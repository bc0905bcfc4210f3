//! Time as the protocol sees it: a number that its driver supplies. There is no clock in this
//! crate.

pub use core::time::Duration;

/// Nanoseconds since an epoch that the driver chose; only differences are meaningful.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// This moment plus `duration`; the largest value if that is out of range.
    pub const fn after(self, duration: Duration) -> Self {
        let nanos = duration.as_nanos();
        if nanos > u64::MAX as u128 {
            return Self(u64::MAX);
        }
        Self(self.0.saturating_add(nanos as u64))
    }

    /// Time from `earlier` to this moment, zero when `earlier` is later.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}
