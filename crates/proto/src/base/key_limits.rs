//! How much one key may protect. The machine that plans its records and the cipher that enforces
//! the limit use the same numbers.

use super::Duration;

/// How much one key may protect before its direction must move to the next epoch. Both ends use the
/// same limits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KeyLimits {
    /// Records of an epoch, including the one that announces the next epoch; at least 2, so that an
    /// epoch can carry one.
    pub records: u64,
    /// Bytes that the cipher processes in an epoch: every head, and the payloads at `integrity` and
    /// `private`. `u64::MAX` means no limit, and then nothing is counted.
    pub bytes: u64,
    /// No record is started under an older key. Only the sender enforces it: the receiver has
    /// another clock.
    pub age: Duration,
}

impl KeyLimits {
    /// 2^30 records, 1 TiB or a day. A TiB is 2^36 blocks of the cipher, so an observer
    /// distinguishes it from a random function with a probability of at most 2^(2 * 36 - 129) =
    /// 2^-57; and because a record that fails to open ends the channel, a forger has one attempt
    /// per key, which succeeds with less than 2^-109 for a payload of 4 MiB. The day limits what a
    /// stolen key can open.
    pub const STANDARD: Self = Self { records: 1 << 30, bytes: 1 << 40, age: Duration::from_secs(24 * 60 * 60) };
}

impl Default for KeyLimits {
    fn default() -> Self {
        Self::STANDARD
    }
}
