//! Watches a transfer: shows progress, handles Ctrl-C and reports the outcome.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use xdfs_client::retry::{Backoff, Outage};
use xdfs_client::{Error, ErrorKind, Report, Safety, Session, Target, TargetInfo, Transfer, Verify, hexadecimal};
use xdfs_io::store::{Kept, Recovered, Stage};

use super::failure::{CONTINUE, Failed};
use crate::cmd::pause::{attempts_told, paused};
use crate::exit::{Exit, Failure};
use crate::output::{self, CopyItem, Output, PlannedCopy};
use crate::plan::{Check, Options, WhenDone};
use crate::signal::StopFlag;
use crate::text::printable_path;
use crate::url::{Url, Via};
use xdfs_proto::base::TransferId;

/// Whoever asks for more channels than this perhaps means a port.
const PORTS_FROM: u16 = 1024;

/// Interval between checks of Ctrl-C and the progress: short for a person, long for a processor.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Where part files are, beside their targets.
const STAGING: &str = ".xdfs-staging";
/// Time for both sides to agree on a cancelled transfer before this one exits.
const CANCEL_DEADLINE: Duration = Duration::from_secs(5);

/// The result of a file that did not fail.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum FileOutcome {
    /// It is complete.
    Copied(CopyItem, output::CopiedFile),
    /// Its target existed and was kept.
    Skipped(CopyItem),
    /// A dry run: nothing was copied.
    Planned(PlannedCopy),
    /// The reader of standard output closed it.
    NotWanted,
}

impl FileOutcome {
    /// The same after this many lost attempts.
    pub(super) fn after(mut self, attempts: u64) -> Self {
        if let Self::Copied(_, transfer) = &mut self {
            transfer.retries += attempts;
        }
        self
    }
}

/// Watches transfers.
pub(super) struct TransferMonitor<'a> {
    output: &'a mut dyn Output,
    stop: StopFlag,
    /// Reported once, not with every file.
    told_join_failure: bool,
    /// The progress of the present file or tree, over all its attempts.
    reached: u64,
}

impl<'a> TransferMonitor<'a> {
    pub(super) fn new(output: &'a mut dyn Output, stop: StopFlag) -> Self {
        Self { output, stop, told_join_failure: false, reached: 0 }
    }

    /// Reports what was found of earlier downloads, if part of it was removed.
    pub(super) fn tell_expired(&mut self, directory: &str, found: Recovered) -> Result<(), Failure> {
        if found.expired == 0 {
            return Ok(());
        }
        let Recovered { parts, bytes, others, expired } = found;
        self.output.expired(directory, &output::Recovered { parts, bytes, others, expired })
    }

    /// Says where what has arrived of a cancelled download is, if it is in this directory.
    pub(super) fn tell_staged(&mut self, directory: Option<&Path>) {
        let staging = directory.unwrap_or(Path::new("")).join(STAGING);
        if staging.is_dir() {
            let text = "what has arrived is kept there for seven days, for the same command to go on with";
            self.output.note(&format!("{}: {text}", printable_path(&staging)));
        }
    }

    /// The same of an upload to the user's own directory, where nobody else looks after it.
    pub(super) fn tell_staged_there(&mut self, target: &Url, exit: Exit) {
        let has_ended = matches!(exit, Exit::Cancelled | Exit::ConnectionLost) && self.reached > 0;
        if target.via == Via::Ssh && has_ended {
            let text = "what has arrived of an unfinished file is kept beside it";
            let until = "for seven days, for the same command to go on with";
            self.output.note(&format!("{target}: {text}, in {STAGING}, {until}"));
        }
    }

    /// Starts the next file.
    pub(super) fn begin(&mut self) {
        self.reached = 0;
    }

    /// The progress of the present file or tree.
    pub(super) fn reached(&self) -> u64 {
        self.reached
    }

    /// Waits before another attempt. False if a stop was requested.
    pub(super) fn pause(&self, time: Duration) -> bool {
        !self.stopped() && paused(time)
    }

    /// Reports that what failed is tried again; once for each outage.
    pub(super) fn tell_again(&mut self, failed: &Failed, outage: Outage) {
        if outage == Outage::Begins {
            let why = failed.kind.map_or("connection lost", ErrorKind::text);
            self.output.note(&format!("{}: {why}; trying again", failed.path));
        }
    }

    /// The failure to report of what is not tried again.
    pub(super) fn given_up(&self, backoff: &Backoff, mut failed: Failed) -> Failed {
        if self.stopped() {
            return failed.cancelled();
        }
        failed.failure.add_to_cause(&attempts_told(backoff));
        // It had begun.
        if backoff.attempts() > 0 && !failed.failure.message.contains("the same command") {
            failed.failure = failed.failure.help(CONTINUE);
        }
        failed
    }

    /// Records the progress of the present file or tree.
    pub(super) fn reach(&mut self, reached: u64) {
        self.reached = self.reached.max(reached);
    }

    /// The output of the copy.
    pub(super) fn output(&mut self) -> &mut dyn Output {
        self.output
    }

    /// Reports the result of a tree.
    pub(super) fn tell_tree(&mut self, tree: &output::CopiedTree) -> Result<(), Failure> {
        self.output.tree_finished(tree)
    }

    /// Ctrl-C was pressed.
    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Reports what a new session was not granted.
    pub(super) fn report_grant(&mut self, session: &Session, options: &Options) {
        let facts = session.facts();
        if let Some(block) = options.block.filter(|block| *block != facts.block) {
            self.output.note(&format!("asked for blocks of {block} bytes, the server grants {}", facts.block));
        }
        if let Some(window) = options.window.filter(|window| u64::from(*window) != facts.window) {
            self.output.note(&format!("asked for a window of {window} bytes, the server grants {}", facts.window));
        }
        if facts.channels < facts.asked {
            let plural = if facts.channels == 1 { "" } else { "s" };
            // scp's -P is a port.
            let hint =
                if facts.asked > PORTS_FROM { "; a port is written in the URL, as in xdfs://HOST:PORT/" } else { "" };
            self.output.note(&format!(
                "asked for {} channels, the server grants {} channel{plural}{hint}",
                facts.asked, facts.channels
            ));
        }
    }

    /// Waits for a transfer's end.
    pub(super) fn watch(
        &mut self,
        item: &CopyItem,
        session: &Session,
        transfer: &Transfer,
        size: &dyn Fn() -> Option<u64>,
        options: &Options,
    ) -> Result<FileOutcome, Error> {
        self.output.begin(item);
        let mut told = false;
        let report = loop {
            let outcome = transfer.wait_for(LOOK_EVERY);
            let reached = transfer.resumed() + transfer.moved();
            self.reach(reached);
            if !told && transfer.resumed() > 0 {
                told = true;
                self.output.resumes_at(transfer.resumed(), size());
                self.tell_resumed(item, transfer.resumed(), size());
            }
            if let Some(outcome) = outcome {
                break outcome?;
            }
            if self.stopped() {
                transfer.cancel();
                let outcome = transfer.wait_for(CANCEL_DEADLINE);
                // The receiver may have been faster than Ctrl-C: then the file is complete.
                break outcome.unwrap_or_else(|| Err(Error::new(ErrorKind::Cancelled, "cancelled")))?;
            }
            self.output.progress(transfer.resumed() + transfer.moved(), size());
        };
        if let (Some(error), false) = (session.join_failure(), self.told_join_failure) {
            self.told_join_failure = true;
            let (joined, granted) = (session.joined(), session.facts().channels);
            self.output
                .note(&format!("{joined} of {granted} channels carried the data; the last that failed: {error}"));
        }
        if report.level > options.level {
            let (asked, granted) = (options.level.name(), report.level.name());
            self.output
                .note(&format!("{}: asked for --protection {asked}, the server insists on {granted}", item.target));
        }
        if options.check == Check::Reread && report.verified < Verify::Reread {
            self.output.note(&format!("{}: it cannot be read back; checked by the hash of what arrived", item.target));
        }
        if options.durability == WhenDone::DurableAsked && report.safety < Safety::Durable {
            self.output.note(&format!("{}: written; its file system cannot promise more", item.target));
        }
        Ok(FileOutcome::Copied(item.clone(), done(&report, session, options)))
    }

    fn tell_resumed(&mut self, item: &CopyItem, resumed: u64, size: Option<u64>) {
        let percent = size.filter(|size| *size > 0).map_or(0, |size| u128::from(resumed) * 100 / u128::from(size));
        self.output.note(&format!("{}: resumes at {percent} %", item.target));
    }

    /// Reports an outcome; returns its exit code.
    pub(super) fn tell(&mut self, outcome: Result<FileOutcome, Failed>) -> Result<Exit, Failure> {
        match outcome {
            Ok(FileOutcome::Copied(item, transfer)) => self.output.finished(&item, &transfer).map(|()| Exit::Done),
            Ok(FileOutcome::Skipped(item)) => self.output.kept(&item).map(|()| Exit::Done),
            Ok(FileOutcome::Planned(planned)) => self.output.planned(&planned).map(|()| Exit::Done),
            Ok(FileOutcome::NotWanted) => Ok(Exit::Done),
            Err(failed) => {
                let kind = failed.kind.unwrap_or(ErrorKind::InvalidPath);
                self.output.failed(&failed.path, kind, &failed.failure.message)?;
                Ok(failed.failure.exit)
            }
        }
    }
}

/// What was copied and how.
pub(super) fn done(report: &Report, session: &Session, options: &Options) -> output::CopiedFile {
    let facts = session.facts();
    let channels = report.channel_bytes.keys().copied().max().unwrap_or(0).max(facts.channels);
    let by_channel = (1..=channels).map(|channel| report.channel_bytes.get(&channel).copied().unwrap_or(0));
    output::CopiedFile {
        bytes: report.length,
        elapsed: Duration::try_from_secs_f64(report.seconds).unwrap_or_default(),
        channels: facts.channels,
        congestion: facts.congestion.clone().unwrap_or_default(),
        level: report.level,
        safety: report.safety,
        resumed: report.resumed,
        check: match report.verified {
            Verify::Reread => Check::Reread,
            Verify::Hash => Check::Hash,
            // If the server raised the level, every block had its tag after all.
            Verify::None if report.level > options.level => Check::Wire,
            Verify::None => options.check,
        },
        hash: report.hash.as_ref().map(hexadecimal),
        retries: 0,
        channel_bytes: by_channel.collect(),
    }
}

/// What a download's target knows: that the server has let the transfer begin, and the size of the
/// file.
#[derive(Debug, Default)]
pub(super) struct DownloadProgress {
    began: AtomicBool,
    /// The size, or [`NO_SIZE`].
    size: AtomicU64,
}

/// No file is that long.
const NO_SIZE: u64 = u64::MAX;

impl DownloadProgress {
    /// A target that `stage` prepares; `look` finds what an earlier attempt left.
    pub(super) fn target(
        self: &Arc<Self>,
        look: impl FnOnce(TransferId) -> Option<Kept> + Send + 'static,
        stage: impl FnOnce(TargetInfo) -> Result<Stage, Error> + Send + 'static,
    ) -> Target {
        let staged = Arc::clone(self);
        Target::resumable(look, move |staging| {
            staged.size.store(staging.size.unwrap_or(NO_SIZE), Ordering::Relaxed);
            staged.began.store(true, Ordering::Release);
            stage(staging)
        })
    }

    /// The server accepted the request, so later errors are local.
    pub(super) fn began(&self) -> bool {
        self.began.load(Ordering::Acquire)
    }

    /// Bytes to come, once they are known.
    pub(super) fn size(&self) -> Option<u64> {
        let size = self.size.load(Ordering::Relaxed);
        (self.began() && size != NO_SIZE).then_some(size)
    }
}
