//! How much one key may protect: the same numbers for the machine that plans its records and for the cipher that refuses
//! to go on.

use super::Duration;

/// How much one key may protect before its direction has to move to the next epoch. Both ends use the same limits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KeyLimits {
    /// Records of an epoch, the one that announces the next epoch included; at least 2, so that an epoch can move one.
    pub records: u64,
    /// Bytes that the cipher works on in an epoch: every head, and the payloads at `integrity` and `private`.
    /// `u64::MAX` is no limit, and then nothing is counted for it.
    pub bytes: u64,
    /// No record is begun under an older key. Only the sender keeps to it: the receiver has another clock.
    pub age: Duration,
}

impl KeyLimits {
    /// 2^30 records, 1 TiB or a day. A TiB is 2^36 blocks of the cipher, so an observer tells it from a random function
    /// with a chance of at most 2^(2 * 36 - 129) = 2^-57; and as a record that does not open ends the channel, a forger has
    /// one try per key, of less than 2^-109 for a payload of 4 MiB. The day bounds what a stolen key can open.
    pub const STANDARD: Self = Self { records: 1 << 30, bytes: 1 << 40, age: Duration::from_secs(24 * 60 * 60) };
}

impl Default for KeyLimits {
    fn default() -> Self {
        Self::STANDARD
    }
}
