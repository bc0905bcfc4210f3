//! One counter per limit, so that refusals are visible (SRV-54).

use alloc::vec::Vec;

/// The limit that was exceeded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Drop {
    /// Too many connections that had not yet identified themselves: the oldest was closed.
    Silent,
    /// A connection did not identify itself in time.
    FirstBytes,
    /// Too many concurrent logins: one was closed or refused.
    Logins,
    /// Too many concurrent logins from one source.
    PerSource,
    /// A source with failed logins is in its penalty period.
    Penalty,
    /// A handshake took too long.
    Deadline,
    /// A login failed.
    LoginFailed,
    /// A JOIN that matches no session.
    Join,
    /// Too many sessions.
    Sessions,
    /// Too many sessions of one user.
    UserSessions,
    /// The session was idle for too long.
    Idle,
}

/// The name of each counter, in the order of [`Drop`].
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
    /// Counts one refusal by the limit.
    pub fn count(&mut self, which: Drop) {
        // `NAMES` has an entry for each variant.
        self.counts[which as usize] += 1;
    }

    /// The counts so far.
    pub fn all(&self) -> Vec<(&'static str, u64)> {
        NAMES.into_iter().zip(self.counts).filter(|(_, count)| *count > 0).collect()
    }

    /// The increments since the last call.
    pub fn fresh(&mut self) -> Vec<(&'static str, u64)> {
        let before = core::mem::replace(&mut self.told, self.counts);
        let added = self.counts.into_iter().zip(before).map(|(now, before)| now - before);
        NAMES.into_iter().zip(added).filter(|(_, count)| *count > 0).collect()
    }
}
