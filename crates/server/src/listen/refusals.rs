//! Which refused connections are in the log: a flood must not fill it.

/// Refused connections that are logged one by one between two sweeps (a second).
const LOGGED_MAX: u32 = 200;

/// How many refusals were logged, and how many were not.
#[derive(Default, Debug)]
pub(super) struct RefusalLog {
    /// Logged since the last sweep.
    logged: u32,
    /// Only counted, since these were last reported.
    suppressed: u64,
}

impl RefusalLog {
    /// One more: whether it is logged.
    pub(super) fn admit(&mut self) -> bool {
        let admitted = self.logged < LOGGED_MAX;
        if admitted {
            self.logged += 1;
        } else {
            self.suppressed += 1;
        }
        admitted
    }

    /// Whether the next sweep has something to do.
    pub(super) fn needs_sweep(&self) -> bool {
        self.logged > 0
    }

    /// As many again are logged from now on.
    pub(super) fn sweep(&mut self) {
        self.logged = 0;
    }

    /// How many were only counted, to be reported now.
    pub(super) fn take_suppressed(&mut self) -> u64 {
        std::mem::take(&mut self.suppressed)
    }
}
