//! The time by the clock of this machine, which somebody may set.

use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use xdfs_proto::base::Timestamp;

/// The time now, never less than before: even if the clock is set back, a
/// later session has a later start.
pub(crate) fn moment_now() -> Timestamp {
    static LAST: Mutex<Timestamp> = Mutex::new(Timestamp::new(0, 0));
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    *last = (*last).max(timestamp_now());
    *last
}

/// What this machine's clock says.
pub(crate) fn timestamp_now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::new(since.as_secs().try_into().unwrap_or(i64::MAX), since.subsec_nanos())
}

/// Seconds since 1970; a clock before that is invalid, and no token is valid then.
pub(crate) fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(u64::MAX, |since| since.as_secs())
}
