//! Retries after a lost connection: the same transfer again, which sends only what is missing.
//!
//! Waits grow from attempt to attempt and end at a deadline, which counts from the last progress.
//! Only temporary errors are retried, and only once a server had answered: a server that was never
//! reachable, or that refuses, is reported at once.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use xdfs_client::ErrorKind;

use super::failure::Failed;
use super::items::{Download, Upload};
use super::monitor::FileOutcome;
use super::{Arrived, Copy, input};
use crate::plan::{Local, LocalTarget};
use crate::signal;
use crate::url::Url;

/// The first wait: a server that is restarted is back within moments.
const WAIT_MIN: Duration = Duration::from_millis(100);
/// The longest wait: a server that is down for long is tried now and then.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// How long one file is retried.
#[derive(Debug)]
pub(in crate::cmd) struct Backoff {
    limit: Duration,
    wait: Duration,
    until: Option<Instant>,
    /// The progress of the file when it was last lost.
    reached: u64,
    attempts: u64,
}

impl Backoff {
    /// Gives up when nothing moved for `limit`.
    pub(in crate::cmd) fn new(limit: Duration) -> Self {
        Self { limit, wait: WAIT_MIN, until: None, reached: 0, attempts: 0 }
    }

    /// Attempts after the first.
    pub(in crate::cmd) fn attempts(&self) -> u64 {
        self.attempts
    }

    /// How long to wait before the next attempt; `None` to give up.
    fn next(&mut self, failed: &Failed, reached: u64, now: Instant) -> Option<Duration> {
        let passes = matches!(
            failed.kind,
            Some(ErrorKind::ConnectionLost | ErrorKind::TimedOut | ErrorKind::Draining | ErrorKind::Busy)
        );
        let begun = failed.connected || self.attempts > 0;
        if passes && begun { self.next_wait(reached, now) } else { None }
    }

    fn next_wait(&mut self, reached: u64, now: Instant) -> Option<Duration> {
        if self.limit.is_zero() {
            return None;
        }
        if reached > self.reached || self.until.is_none() {
            (self.until, self.wait) = (Some(now + self.limit), WAIT_MIN);
            self.reached = self.reached.max(reached);
        }
        let left = self.until?.saturating_duration_since(now);
        if left.is_zero() {
            return None;
        }
        let wait = self.wait.min(left);
        self.wait = (self.wait * 2).min(WAIT_MAX);
        self.attempts += 1;
        Some(wait)
    }

    /// Waits for the next attempt. False to give up, or if a stop was requested.
    pub(super) fn again(&mut self, failed: &Failed, reached: u64) -> bool {
        self.next(failed, reached, Instant::now()).is_some_and(waited)
    }

    /// The same after a connection that was lost before there was a session.
    pub(in crate::cmd) fn again_connecting(&mut self) -> bool {
        self.next_wait(0, Instant::now()).is_some_and(waited)
    }

    /// The note about retries for a failure's message.
    pub(in crate::cmd) fn story(&self) -> String {
        match self.attempts {
            0 => String::new(),
            1 => " (tried once more)".to_owned(),
            more => format!(" (tried {more} times more)"),
        }
    }
}

/// Waits. False if a stop was requested meanwhile.
fn waited(wait: Duration) -> bool {
    signal::wake_on_stop().is_ok_and(|stopped| !input::wait(stopped.as_fd(), Some(wait)))
}

impl Copy<'_> {
    pub(super) fn upload_with_patience(
        &mut self,
        pair: &Upload,
        number: (usize, usize),
    ) -> Result<FileOutcome, Failed> {
        // What was read from a pipe cannot be read again.
        let again = match &pair.source {
            Local::File(path) => path.is_file(),
            Local::Zero(_) | Local::Random(_) => true,
            Local::Stdin => false,
        };
        let again = again || self.options.dry_run;
        let copied = self.with_patience(&pair.target, again, |copy| match copy.options.dry_run {
            true => copy.plan_upload(pair, number),
            false => copy.upload(pair, number),
        })?;
        self.keep_up(pair, copied)
    }

    pub(super) fn download_with_patience(
        &mut self,
        pair: &Download,
        number: (usize, usize),
    ) -> Result<FileOutcome, Failed> {
        // What was written to a pipe cannot be taken back.
        let again = match &pair.target {
            LocalTarget::Path(path) => path.is_file() || !path.exists(),
            LocalTarget::Null => true,
            LocalTarget::Stdout => false,
        };
        let again = again || self.options.dry_run;
        let copied = self.with_patience(&pair.source, again, |copy| match copy.options.dry_run {
            true => copy.plan_download(pair, number),
            false => copy.download(pair, number),
        })?;
        self.keep_down(pair, copied)
    }

    /// Makes attempts until one succeeds, or nothing has moved for the time limit.
    pub(super) fn with_patience(
        &mut self,
        server: &Url,
        again: bool,
        attempt: impl Fn(&mut Self) -> Result<FileOutcome, Failed>,
    ) -> Result<FileOutcome, Failed> {
        let mut patience = Backoff::new(if again { self.options.retry } else { Duration::ZERO });
        self.monitor.begin();
        (self.base, self.arrived) = (None, Arrived::default());
        loop {
            let failed = match attempt(self) {
                Ok(outcome) => return Ok(outcome.after(patience.attempts())),
                Err(failed) => failed,
            };
            self.monitor.wait_for_another(&mut patience, failed)?;
            self.sessions.forget(server);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::{Exit, Failure};

    fn failed(kind: ErrorKind, connected: bool) -> Failed {
        let failure = Failure::new(Exit::ConnectionLost, "why");
        Failed { path: "x".to_owned(), kind: Some(kind), failure, connected }
    }

    #[test]
    fn waits_grow_to_a_bound_and_end_at_the_deadline() {
        let (mut patience, start) = (Backoff::new(Duration::from_secs(60)), Instant::now());
        let lost = failed(ErrorKind::ConnectionLost, true);
        let (mut now, mut waits) = (start, Vec::new());
        while let Some(wait) = patience.next(&lost, 0, now) {
            assert!(wait <= WAIT_MAX);
            now += wait;
            waits.push(wait);
        }
        assert_eq!(waits[..4].iter().map(Duration::as_millis).collect::<Vec<_>>(), [100, 200, 400, 800]);
        assert_eq!(now - start, Duration::from_secs(60));
        assert!(waits.len() < 25, "{waits:?}");
    }

    #[test]
    fn what_moves_gets_new_patience() {
        let (mut patience, start) = (Backoff::new(Duration::from_secs(1)), Instant::now());
        let lost = failed(ErrorKind::ConnectionLost, true);
        for step in 1..100u32 {
            let now = start + Duration::from_secs(10) * step;
            assert_eq!(patience.next(&lost, step.into(), now), Some(WAIT_MIN));
        }
        let late = start + Duration::from_secs(2000);
        assert_eq!(patience.next(&lost, 99, late), None);
    }

    #[test]
    fn what_does_not_pass_or_never_began_is_not_tried_again() {
        let now = Instant::now();
        let mut patience = Backoff::new(Duration::from_secs(60));
        assert_eq!(patience.next(&failed(ErrorKind::ConnectionLost, false), 0, now), None);
        assert_eq!(patience.next(&failed(ErrorKind::NoSpace, true), 0, now), None);
        assert_eq!(patience.next(&failed(ErrorKind::Superseded, true), 0, now), None);
        assert!(patience.next(&failed(ErrorKind::Draining, true), 0, now).is_some());
        assert!(
            patience.next(&failed(ErrorKind::ConnectionLost, false), 0, now).is_some(),
            "the server is not back yet"
        );
        assert_eq!(Backoff::new(Duration::ZERO).next(&failed(ErrorKind::ConnectionLost, true), 0, now), None);
    }
}
