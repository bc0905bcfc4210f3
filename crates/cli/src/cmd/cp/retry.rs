//! A file is tried again when its connection was lost: the same transfer, which sends only what is missing.

use std::time::Duration;

use xdfs_client::retry::{Attempts, Backoff, FailureClass, Outage};

use super::failure::Failed;
use super::items::{Download, Upload};
use super::monitor::FileOutcome;
use super::{Arrived, Copy};
use crate::plan::{Local, LocalTarget};
use crate::url::Url;

/// The attempts at one file.
struct FileAttempts<'c, 'a, A> {
    copy: &'c mut Copy<'a>,
    /// The server whose session is a new one after a loss.
    server: &'c Url,
    attempt: A,
}

impl<'a, A: Fn(&mut Copy<'a>) -> Result<FileOutcome, Failed>> Attempts for FileAttempts<'_, 'a, A> {
    type Done = FileOutcome;
    type Failure = Failed;

    fn attempt(&mut self) -> Result<FileOutcome, Failed> {
        (self.attempt)(self.copy)
    }

    fn classify(&self, failed: &Failed) -> FailureClass {
        failed.classify()
    }

    fn progress(&self) -> u64 {
        self.copy.monitor.reached()
    }

    fn pause(&mut self, time: Duration) -> bool {
        self.copy.monitor.pause(time)
    }

    fn on_retry(&mut self, failed: Failed, outage: Outage) {
        self.copy.monitor.tell_again(&failed, outage);
        self.copy.sessions.forget(self.server);
    }
}

impl<'a> Copy<'a> {
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
        self.preserve_up(pair, copied)
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
        self.preserve_down(pair, copied)
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
        let outcome = backoff.retry(&mut FileAttempts { copy: self, server, attempt });
        match outcome {
            Ok(outcome) => Ok(outcome.after(backoff.attempts())),
            Err(failed) => Err(self.monitor.given_up(&backoff, failed)),
        }
    }
}
