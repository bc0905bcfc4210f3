//! One counter per limit, so that a limit that bites is seen (SRV-54).

use alloc::vec::Vec;

/// Which limit it was.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Drop {
    /// Too many connections that had not said what they are: the oldest had to go.
    Silent,
    /// A connection did not say within its time what it is.
    FirstBytes,
    /// Too many logins at a time: one had to go, or was refused.
    Logins,
    /// Too many logins of one source at a time.
    PerSource,
    /// A source whose logins failed has to wait.
    Penalty,
    /// An opening took too long.
    Deadline,
    /// A login failed.
    LoginFailed,
    /// A JOIN that no session takes.
    Join,
    /// Too many sessions.
    Sessions,
    /// Too many sessions of one user.
    UserSessions,
    /// The session was quiet for too long.
    Idle,
}

/// What each counter is called, in the order of [`Drop`].
const NAMES: [&str; 11] = [
    "silent_full",
    "first_bytes_late",
    "logins_full",
    "logins_per_source",
    "penalty",
    "opening_late",
    "login_failed",
    "join_refused",
    "sessions_full",
    "sessions_per_user",
    "idle",
];

/// One counter per limit, incremented when that limit refuses a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Drops {
    counts: [u64; NAMES.len()],
    told: [u64; NAMES.len()],
}

impl Drops {
    /// The limit bit once more.
    pub fn count(&mut self, which: Drop) {
        // `NAMES` has an entry for each variant.
        self.counts[which as usize] += 1;
    }

    /// Limits that have bitten so far.
    pub fn all(&self) -> Vec<(&'static str, u64)> {
        NAMES.into_iter().zip(self.counts).filter(|(_, count)| *count > 0).collect()
    }

    /// What has been added since the last time this was asked.
    pub fn fresh(&mut self) -> Vec<(&'static str, u64)> {
        let before = core::mem::replace(&mut self.told, self.counts);
        let added = self.counts.into_iter().zip(before).map(|(now, before)| now - before);
        NAMES.into_iter().zip(added).filter(|(_, count)| *count > 0).collect()
    }
}
