//! Retries after a lost connection: the same transfer again, which sends only what is missing.
//!
//! Only temporary errors are retried, and only once a server had answered: a server that was never
//! reachable, or that refuses, is reported at once.

use std::time::{Duration, Instant};

use xdfs_client::retry::{Backoff, passes};

use super::failure::Failed;
use super::items::{Download, Upload};
use super::monitor::FileOutcome;
use super::{Arrived, Copy};
use crate::cmd::pause::paused;
use crate::plan::{Local, LocalTarget};
use crate::url::Url;

/// Waits for the next attempt at what failed. False to give up, or if a stop was requested.
pub(super) fn again(backoff: &mut Backoff, failed: &Failed, reached: u64) -> bool {
    next(backoff, failed, reached, Instant::now()).is_some_and(paused)
}

/// How long to wait before the next attempt; `None` to give up.
fn next(backoff: &mut Backoff, failed: &Failed, reached: u64, now: Instant) -> Option<Duration> {
    let begun = failed.connected || backoff.attempts() > 0;
    if failed.kind.is_some_and(passes) && begun { backoff.next(reached, now) } else { None }
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
        let mut backoff = Backoff::since_progress(if again { self.options.retry } else { Duration::ZERO });
        self.monitor.begin();
        (self.base, self.arrived) = (None, Arrived::default());
        loop {
            let failed = match attempt(self) {
                Ok(outcome) => return Ok(outcome.after(backoff.attempts())),
                Err(failed) => failed,
            };
            self.monitor.wait_for_another(&mut backoff, failed)?;
            self.sessions.forget(server);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::{Exit, Failure};
    use xdfs_client::ErrorKind;

    fn failed(kind: ErrorKind, connected: bool) -> Failed {
        let failure = Failure::new(Exit::ConnectionLost, "why");
        Failed { path: "x".to_owned(), kind: Some(kind), failure, connected }
    }

    #[test]
    fn what_does_not_pass_or_never_began_is_not_tried_again() {
        let now = Instant::now();
        let mut backoff = Backoff::since_progress(Duration::from_secs(60));
        assert_eq!(next(&mut backoff, &failed(ErrorKind::ConnectionLost, false), 0, now), None);
        assert_eq!(next(&mut backoff, &failed(ErrorKind::NoSpace, true), 0, now), None);
        assert_eq!(next(&mut backoff, &failed(ErrorKind::Superseded, true), 0, now), None);
        assert!(next(&mut backoff, &failed(ErrorKind::Draining, true), 0, now).is_some());
        let lost_again = failed(ErrorKind::ConnectionLost, false);
        assert!(next(&mut backoff, &lost_again, 0, now).is_some(), "the server is not back yet");
    }
}
