//! From an FTP server to this machine.

use std::time::Instant;

use xdfs_client::{Error, ErrorKind, Existing, Safety};
use xdfs_gridftp::listing::{Entry, Kind};
use xdfs_gridftp::ranges::Range;
use xdfs_io::store::{CommitRequest, LocalPlace, Order, Stage};
use xdfs_secure::checksum::Sha256;
use xdfs_secure::naming::transfer_id;

use super::super::failure::Failed;
use super::super::items::Download;
use super::super::monitor::FileOutcome;
use super::super::{Copy, is_there, target_of, written_place};
use super::{LARGE_BYTES_MIN, OwnError, Progress, copied, is_usable_after, streams};
use crate::cmd::ftp::error_of;
use crate::cmd::ftp::facts::facts_of;
use crate::cmd::ftp::stage::{self, commit, read_back, resume_of, start_of};
use crate::output::{self, CopiedFile, CopyItem};
use crate::plan::{Check, LocalTarget, WhenDone};
use crate::url::Url;

/// What is known of a file before it moves.
pub(super) struct Source<'u> {
    pub(super) url: &'u Url,
    pub(super) path: Vec<u8>,
    pub(super) entry: Entry,
    pub(super) size: u64,
}

impl Copy<'_> {
    /// Downloads a file.
    pub(in crate::cmd::cp) fn download_ftp(
        &mut self,
        pair: &Download,
        (number, count): (usize, usize),
    ) -> Result<FileOutcome, Failed> {
        let target_name = target_of(&pair.target);
        let item = CopyItem { source: (&pair.source).into(), target: target_name.clone(), number, count };
        let here = |error: Error| Failed::of_local(target_name.shown(), error);
        let place = match &pair.target {
            LocalTarget::Path(path) => Some(written_place(path).map_err(here)?),
            LocalTarget::Stdout | LocalTarget::Null => None,
        };
        if self.options.keep_existing && place.as_ref().is_some_and(|place| place.existing.is_some()) {
            return Ok(FileOutcome::Skipped(item));
        }
        let source = self.source_ftp(&pair.source)?;
        let mut stage = match (&place, &pair.target) {
            (Some(place), _) => self.stage_ftp(place, &source),
            (None, LocalTarget::Stdout) => Stage::standard_output(),
            (None, _) => Ok(Stage::null()),
        }
        .map_err(here)?;
        let received = self.receive_ftp(&item, &source, &stage).and_then(|copied| {
            let commit = self.commit_ftp(&mut stage, &source).map_err(|error| (error, true));
            commit.map(|safety| CopiedFile { safety, ..copied })
        });
        match received {
            Ok(copied) => Ok(FileOutcome::Copied(item, copied)),
            Err((error, is_ours)) => {
                self.ftp.forget(&pair.source);
                if self.options.keep_existing && is_there(error.kind) {
                    return Ok(FileOutcome::Skipped(item));
                }
                if pair.target == LocalTarget::Stdout && output::reader_is_gone() {
                    return Ok(FileOutcome::NotWanted);
                }
                // What has arrived is for the next attempt, unless it is wrong.
                if self.options.resume && error.kind != ErrorKind::Corrupted {
                    stage.keep();
                }
                Err(Failed::of_download(&item, error, is_ours))
            }
        }
    }

    /// Looks at a file of a server.
    pub(super) fn source_ftp<'u>(&mut self, url: &'u Url) -> Result<Source<'u>, Failed> {
        let shown = url.to_string();
        let server = self.ftp.with(url).map_err(|failed| Failed::of_session(&shown, failed))?;
        let path = server.path(url);
        let looked = server.session.look(&path).and_then(|entry| {
            let known = entry.as_ref().and_then(|entry| entry.size);
            let is_file = entry.as_ref().is_some_and(|entry| entry.kind == Kind::File);
            let size = if is_file && known.is_none() { Some(server.session.client().size(&path)?) } else { known };
            Ok((entry, size.unwrap_or(0)))
        });
        let refuse = |kind, text: &str| Err(Failed::of_peer(&shown, Error::new(kind, text)));
        match looked {
            Ok((Some(entry), size)) if entry.kind == Kind::File => Ok(Source { url, path, entry, size }),
            Ok((None, _)) => refuse(ErrorKind::NotFound, "no such file"),
            Ok((Some(entry), _)) if entry.kind == Kind::Directory => refuse(ErrorKind::IsDirectory, "is a directory"),
            Ok(_) => refuse(ErrorKind::NotRegular, "not a regular file"),
            Err(error) => {
                if !is_usable_after(&error) {
                    self.ftp.forget(url);
                }
                Err(Failed::of_peer(&shown, error_of(error)))
            }
        }
    }

    fn stage_ftp(&self, place: &LocalPlace, source: &Source<'_>) -> Result<Stage, Error> {
        let existing = if self.options.keep_existing { Existing::Keep } else { Existing::Replace };
        let transfer = transfer_id(&[b"ftp", source.url.to_string().as_bytes()]);
        let may_resume = self.options.resume && source.size >= LARGE_BYTES_MIN;
        let synced = self.options.durability != WhenDone::Written;
        let resume = if may_resume { resume_of(&source.entry, source.size, synced) } else { None };
        place.stage(Some(source.size), existing, transfer, resume, None, self.options.holes)
    }

    /// Receives the bytes and verifies them. An error comes with whether it is of this machine.
    fn receive_ftp(
        &mut self,
        item: &CopyItem,
        source: &Source<'_>,
        stage: &Stage,
    ) -> Result<CopiedFile, (Error, bool)> {
        let began = Instant::now();
        let start = start_of(stage, source.size);
        let server = self.ftp.with(source.url).map_err(|(failure, kind)| (Error::new(kind, failure.message), false))?;
        let streams = match stage.order() {
            Order::Any => streams(source.url, server, Some(source.size), self.options),
            Order::Ascending => 1,
        };
        if start > 0 {
            let percent = u128::from(start) * 100 / u128::from(source.size.max(1));
            self.monitor.output().note(&format!("{}: resumes at {percent} %", item.target));
        }
        let (mut own, mut sum) = (OwnError::default(), Sha256::default());
        let mut progress = Progress::new(&mut self.monitor, item, Some(source.size), start);
        let wanted = Range { start, end: source.size };
        let asked = matches!(self.options.check, Check::Hash | Check::Reread);
        let is_hashed = streams == 1 && start == 0 && asked && server.session.features().sha256.is_some();
        let mut sink = |offset: u64, bytes: &[u8]| {
            let written = stage::write(stage, bytes, offset);
            if is_hashed {
                sum.update(bytes);
            }
            own.keep(written.and_then(|()| progress.add(bytes.len())))
        };
        let client = server.session.client();
        let moved = match streams {
            _ if wanted.start == wanted.end && start > 0 => Ok(()),
            1 => client.download(&source.path, wanted, &mut sink),
            streams => client.download_parallel(&source.path, wanted, streams, &mut sink),
        };
        if let Err(error) = moved {
            let is_ours = own.0.is_some();
            return Err((own.of(error), is_ours));
        }
        let verified = self.verify_download(source, stage, is_hashed.then(|| sum.finish()))?;
        let check = if verified { Check::Hash } else { Check::None };
        Ok(copied(self.ftp.level(source.url), source.size, start, streams, check, began.elapsed()))
    }

    /// Compares what arrived with what the server has; false where it does not say. `sum` is of what
    /// arrived, if it passed in order.
    fn verify_download(
        &mut self,
        source: &Source<'_>,
        stage: &Stage,
        sum: Option<String>,
    ) -> Result<bool, (Error, bool)> {
        let asked = matches!(self.options.check, Check::Hash | Check::Reread);
        if !asked {
            return Ok(false);
        }
        let server = self.ftp.with(source.url).map_err(|(failure, kind)| (Error::new(kind, failure.message), false))?;
        if server.session.features().sha256.is_some() && sum.is_none() && !stage.can_read_back() {
            return Ok(false);
        }
        let told = server.session.sha256(&source.path).map_err(|error| (error_of(error), false))?;
        let Some(told) = told else {
            self.note_unverified(source.url)
                .map_err(|failed| (Error::new(ErrorKind::ConnectionLost, failed.failure.message), false))?;
            return Ok(false);
        };
        let own = match sum {
            Some(sum) if self.options.check != Check::Reread => sum,
            _ => read_back(stage, source.size, self.options.check == Check::Reread).map_err(|error| (error, true))?,
        };
        if own != told {
            let text = format!("what arrived has the SHA-256 {own}, the server's file {told}");
            return Err((Error::new(ErrorKind::Corrupted, text), false));
        }
        Ok(true)
    }

    /// Gives the file its name.
    fn commit_ftp(&mut self, stage: &mut Stage, source: &Source<'_>) -> Result<Safety, Error> {
        let facts = facts_of(&source.entry);
        let mode = facts.mode.unwrap_or(0o644) & 0o777;
        let request = CommitRequest { length: source.size, mode, modified: facts.modified };
        let safety = commit(stage, &request, self.options.durability != WhenDone::Written)?;
        if self.options.durability == WhenDone::DurableAsked && safety < Safety::Durable {
            self.monitor.output().note(&format!("{}: written; its file system cannot promise more", stage.shown()));
        }
        Ok(safety)
    }
}
