//! A tree is tried again when its session was lost: what is done is not done again.

use std::time::Duration;

use xdfs_client::retry::{Attempts, FailureClass, Outage};
use xdfs_client::tree::{Ended, Observer as _, Summary, Total};
use xdfs_client::{Error, ErrorKind};
use xdfs_io::store::LocalStore;

use super::super::Copy;
use super::super::failure::Failed;
use super::link::{DirectionRun, LinkFacts, TreeServer};
use super::names::{Failures, Only};
use super::reporter::TreeReporter;
use crate::exit::Failure;
use crate::output::Endpoint;
use crate::plan::TreePlan;
use crate::url::Url;

/// The attempts at one tree.
pub(super) struct TreeAttempts<'c, 'a> {
    pub(super) copy: &'c mut Copy<'a>,
    pub(super) direction: &'c mut dyn DirectionRun,
    pub(super) server: &'c Url,
    /// The other end.
    pub(super) local: &'c LocalStore,
    /// Source and target, as they are shown.
    pub(super) ends: (&'c Endpoint, &'c Endpoint),
    pub(super) plan: &'c TreePlan,
    /// The only names that are copied.
    pub(super) listed: Option<&'c Only>,
    pub(super) failures: &'c mut Failures,
    pub(super) total: &'c Total,
}

/// How a copy of a tree came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RunEnd {
    /// Everything was tried.
    Complete,
    /// A stop was requested.
    Stopped,
}

/// Why an attempt at a tree broke off.
pub(super) enum AttemptError {
    /// An event could not be written.
    Output(Failure),
    /// The session was lost, or there was none.
    Session(Failed),
}

impl Attempts for TreeAttempts<'_, '_> {
    /// What was done, or why nothing of the tree can be copied; and over which link.
    type Done = (Result<(Summary, RunEnd), Error>, LinkFacts);
    type Failure = AttemptError;

    fn attempt(&mut self) -> Result<Self::Done, AttemptError> {
        let (copy, server) = (&mut *self.copy, self.server);
        let opened = TreeServer::open((&mut copy.sessions, &mut copy.ftp), server, (self.local, copy.options));
        let (mut link, new) =
            opened.map_err(|failed| AttemptError::Session(Failed::of_session(&server.to_string(), failed)))?;
        if let (TreeServer::Session(session), true) = (&link, new) {
            copy.monitor.report_grant(session, copy.options);
        }
        let mut news = TreeReporter::new(&mut copy.monitor, self.failures, self.plan, self.ends, self.total);
        let mut ended = self.direction.run(&mut link, &mut news);
        if let Ended::Complete(summary) = &mut ended {
            for name in self.listed.into_iter().flat_map(Only::missing) {
                summary.failed += 1;
                news.failed(name, &Error::new(ErrorKind::NotFound, "the source has no such name"));
            }
        }
        news.check().map_err(AttemptError::Output)?;
        let ran = match ended {
            Ended::Lost(error) => return Err(AttemptError::Session(Failed::of_peer(&server.to_string(), error))),
            Ended::Complete(summary) => Ok((summary, RunEnd::Complete)),
            Ended::Stopped(summary) => Ok((summary, RunEnd::Stopped)),
            Ended::Refused(error) => Err(error),
        };
        Ok((ran, link.facts()))
    }

    fn classify(&self, error: &AttemptError) -> FailureClass {
        match error {
            AttemptError::Output(_) => FailureClass::Permanent,
            AttemptError::Session(failed) => failed.classify(),
        }
    }

    fn progress(&self) -> u64 {
        self.copy.monitor.reached()
    }

    fn pause(&mut self, time: Duration) -> bool {
        self.copy.monitor.pause(time)
    }

    fn on_retry(&mut self, error: AttemptError, outage: Outage) {
        if let AttemptError::Session(failed) = error {
            self.copy.monitor.tell_again(&failed, outage);
        }
        self.copy.sessions.forget(self.server);
        self.copy.ftp.forget(self.server);
    }
}
