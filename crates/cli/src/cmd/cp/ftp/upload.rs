//! From this machine to an FTP server.

use std::time::Instant;
use xdfs_proto::base::{Timestamp, TransferId};

use xdfs_client::{Error, ErrorKind};
use xdfs_gridftp::client::{self, Session};
use xdfs_gridftp::listing::Kind;
use xdfs_io::store::Source;
use xdfs_secure::checksum::Sha256;
use xdfs_secure::naming::transfer_id;
use xdfs_secure::random;

use super::super::failure::Failed;
use super::super::items::Upload;
use super::super::monitor::FileOutcome;
use super::super::{Copy, open_source, source_of};
use super::{LARGE_BYTES_MIN, OwnError, Progress, copied, is_usable_after, streams};
use crate::cmd::ftp::facts::digits_of;
use crate::cmd::ftp::part::{hash_range, part_name};
use crate::cmd::ftp::{error_of, is_cut, is_gone, is_refused_name};
use crate::output::{CopiedFile, CopyItem};
use crate::plan::{Check, WhenDone};
use crate::url::Url;

/// Where an upload is written.
#[derive(Clone)]
pub(super) struct Target<'u> {
    pub(super) url: &'u Url,
    pub(super) path: Vec<u8>,
    /// Under this name until it is whole; `None` where the server renames nothing.
    pub(super) staged: Option<Vec<u8>>,
    /// What an attempt of this command that lost its target may have left.
    pub(super) stale: Option<Vec<u8>>,
}

impl Target<'_> {
    pub(super) fn written(&self) -> &[u8] {
        self.staged.as_deref().unwrap_or(&self.path)
    }
}

impl Copy<'_> {
    /// Uploads a file.
    pub(in crate::cmd::cp) fn upload_ftp(
        &mut self,
        pair: &Upload,
        (number, count): (usize, usize),
    ) -> Result<FileOutcome, Failed> {
        let name = source_of(&pair.source);
        let here = |error: Error| Failed::of_local(name.shown(), error);
        let mut source = open_source(&pair.source, &|| self.monitor.stopped()).map_err(here)?;
        let item = CopyItem { source: name.clone(), target: (&pair.target).into(), number, count };
        let shown = item.target.shown().to_owned();
        let server = self.ftp.with(&pair.target).map_err(|failed| Failed::of_session(&shown, failed))?;
        let path = server.path(&pair.target);
        let size = source.attributes().size.filter(|_| !source.is_sequential());
        let streams = if source.is_sequential() { 1 } else { streams(&pair.target, server, size, self.options) };
        let is_in_place = server.in_place;
        let found = server.session.look(&path);
        match found.map_err(|error| self.failed_upload(&pair.target, error))? {
            Some(entry) if entry.kind == Kind::Directory => {
                return Err(Failed::of_peer(&shown, Error::new(ErrorKind::IsDirectory, "is a directory")));
            }
            Some(_) if self.options.keep_existing => return Ok(FileOutcome::Skipped(item)),
            _ => {}
        }
        let staged = match is_in_place {
            true => None,
            false => {
                let name = staged_name(&path, &source, streams > 1).map_err(here)?;
                Some(self.begin_part(&pair.target, &path, (&source, name)).map_err(here)?)
            }
        };
        let mut target = Target { url: &pair.target, path, staged, stale: None };
        let sent = loop {
            let sent = self.send_ftp(&item, &mut source, &target, streams);
            let Err((error, false)) = &sent else { break sent };
            if is_cut(error) {
                break sent;
            }
            self.remove_part(&target);
            if target.staged.is_none() || !is_refused_name(error) || source.is_sequential() {
                break sent;
            }
            // Said once; from now on this server's files are written under their names.
            target.staged = None;
            self.note_in_place(&pair.target)?;
        };
        sent.map(|copied| FileOutcome::Copied(item.clone(), copied)).map_err(|(error, is_ours)| {
            if is_ours {
                self.ftp.forget(&pair.target);
            }
            Failed::of_upload(&item, error)
        })
    }

    /// Records the temporary name of an upload, and returns it, or another if another command has it.
    fn begin_part(&mut self, url: &Url, path: &[u8], (source, name): (&Source, Vec<u8>)) -> Result<Vec<u8>, Error> {
        if source.identity().is_some() {
            return self.ftp.begin_resumable(url, path, name);
        }
        self.ftp.begin_part(url, &name);
        Ok(name)
    }

    /// Sends the bytes, verifies them and gives the file its name. An error comes with whether the
    /// session is of no more use.
    fn send_ftp(
        &mut self,
        item: &CopyItem,
        source: &mut Source,
        target: &Target<'_>,
        streams: u16,
    ) -> Result<CopiedFile, (Error, bool)> {
        let began = Instant::now();
        let size = source.attributes().size.filter(|_| !source.is_sequential());
        let server = self.ftp.with(target.url).map_err(|(failure, kind)| (Error::new(kind, failure.message), true))?;
        let may_resume = self.options.resume && streams == 1 && target.staged.is_some() && source.identity().is_some();
        let start = match size.filter(|size| may_resume && *size >= LARGE_BYTES_MIN) {
            // Its name says that it is of this very source.
            Some(size) => match server.session.client().size(target.written()) {
                Ok(there) if there <= size => there,
                Ok(_) | Err(client::Error::Refused { .. }) => 0,
                Err(error) => return Err((error_of(error), true)),
            },
            None => 0,
        };
        if start > 0 {
            let percent = u128::from(start) * 100 / u128::from(size.unwrap_or(1).max(1));
            self.monitor.output().note(&format!("{}: resumes at {percent} %", item.target));
        }
        let asked =
            matches!(self.options.check, Check::Hash | Check::Reread) && server.session.features().sha256.is_some();
        let mut sum = Sha256::default();
        if asked && start > 0 {
            hash_range(source, 0, start, &mut sum).map_err(|error| (error, false))?;
        }
        let mut own = OwnError::default();
        let mut progress = Progress::new(&mut self.monitor, item, size, start);
        let mut fill = |at: u64, into: &mut [u8]| {
            let read = if source.is_sequential() { source.read(into) } else { source.read_at(into, at) };
            if let (Ok(read), true) = (&read, asked && streams == 1) {
                sum.update(&into[..*read]);
            }
            own.keep(read.and_then(|read| progress.add(read).map(|()| read)))
        };
        let client = server.session.client();
        let sent = match streams {
            1 => client.upload(target.written(), start, &mut fill),
            streams => client.upload_parallel(target.written(), streams, &mut fill),
        };
        let length = sent.map_err(|error| {
            let is_lost = !is_usable_after(&error);
            (own.of(error), is_lost)
        })?;
        if asked && streams > 1 {
            hash_range(source, 0, length, &mut sum).map_err(|error| (error, false))?;
        }
        source.revalidate().map_err(|error| (error, false))?;
        let check = self.verify_upload(target, length, asked.then(|| sum.finish()))?;
        self.name_upload(source.modified(), target)?;
        Ok(copied(self.ftp.level(target.url), length, start, streams, check, began.elapsed()))
    }

    /// Compares what the server has with what was sent.
    pub(super) fn verify_upload(
        &mut self,
        target: &Target<'_>,
        length: u64,
        sum: Option<String>,
    ) -> Result<Check, (Error, bool)> {
        let server = self.ftp.with(target.url).map_err(|(failure, kind)| (Error::new(kind, failure.message), true))?;
        let session = &mut server.session;
        let there = session.client().size(target.written());
        let wrong = |session: &mut Session, text: String| {
            // What is wrong is not continued by the next attempt.
            if let Some(staged) = &target.staged {
                let _ = session.client().remove(staged);
            }
            Err((Error::new(ErrorKind::Corrupted, text), false))
        };
        match there {
            Ok(there) if there != length => return wrong(session, format!("the server has {there} bytes of {length}")),
            Err(error) if !is_usable_after(&error) => return Err((error_of(error), true)),
            Ok(_) | Err(_) => {}
        }
        let told = match &sum {
            Some(_) => session.sha256(target.written()).map_err(|error| (error_of(error), true))?,
            None => None,
        };
        match (sum, told) {
            (Some(sum), Some(told)) if sum != told => {
                wrong(session, format!("what was sent has the SHA-256 {sum}, what the server has {told}"))
            }
            (Some(_), Some(_)) => Ok(Check::Hash),
            _ => {
                if self.options.check != Check::None {
                    self.note_unverified(target.url)
                        .map_err(|failed| (Error::new(ErrorKind::ConnectionLost, failed.failure.message), true))?;
                }
                Ok(Check::None)
            }
        }
    }

    /// Sets the time and gives the file its name.
    pub(super) fn name_upload(
        &mut self,
        modified: Option<Timestamp>,
        target: &Target<'_>,
    ) -> Result<(), (Error, bool)> {
        let server = self.ftp.with(target.url).map_err(|(failure, kind)| (Error::new(kind, failure.message), true))?;
        let told = |error: client::Error| {
            let is_lost = !is_usable_after(&error);
            (error_of(error), is_lost)
        };
        if let Some(time) = modified.and_then(digits_of)
            && !server.session.set_modified(target.written(), time).map_err(told)?
            && !std::mem::replace(&mut server.told_undated, true)
        {
            self.monitor.output().note(&format!("{}: the server sets no times", target.url.host));
        }
        if let Some(staged) = &target.staged
            && let Err(error) = server.session.client().rename(staged, &target.path)
        {
            let (error, is_lost) = told(error);
            if !is_lost {
                // It is uploaded again, under its name.
                let _ = server.session.client().remove(staged);
            }
            return Err((error, is_lost));
        }
        if let Some(staged) = &target.staged {
            self.ftp.end_part(target.url, staged);
        }
        if self.options.durability == WhenDone::DurableAsked {
            self.monitor.output().note(&format!("{}: written; FTP servers promise no more", target.url));
        }
        Ok(())
    }

    /// Removes what an attempt that lost its target has left. That there is nothing is usual.
    pub(super) fn remove_stale(&mut self, target: &Target<'_>) {
        let Some(stale) = &target.stale else { return };
        let Ok(server) = self.ftp.with(target.url) else { return };
        if server.session.client().remove(stale).is_err_and(|error| !is_usable_after(&error)) {
            self.ftp.forget(target.url);
        }
    }

    /// Removes what an upload that failed has left, on a server that still answers: nothing stays that takes its room. What
    /// was cut is left for the next attempt.
    pub(super) fn remove_part(&mut self, target: &Target<'_>) {
        let Some(staged) = &target.staged else { return };
        let Ok(server) = self.ftp.with(target.url) else { return };
        match server.session.client().remove(staged) {
            Err(error) if !is_usable_after(&error) => self.ftp.forget(target.url),
            removed if is_gone(&removed) => self.ftp.end_part(target.url, staged),
            // It stays recorded, and is removed later.
            Ok(()) | Err(_) => {}
        }
    }

    pub(super) fn note_in_place(&mut self, url: &Url) -> Result<(), Failed> {
        let server = self.ftp.with(url).map_err(|failed| Failed::of_session(&url.to_string(), failed))?;
        server.in_place = true;
        self.note_written_in_place(url);
        Ok(())
    }

    pub(super) fn failed_upload(&mut self, url: &Url, error: client::Error) -> Failed {
        if !is_usable_after(&error) {
            self.ftp.forget(url);
        }
        Failed::of_peer(&url.to_string(), error_of(error))
    }
}

/// The temporary name of an upload: the same for the same source, so that it can be gone on with. A part
/// that several connections have written may have holes, which its length does not tell: it has a name of
/// its own.
fn staged_name(path: &[u8], source: &Source, is_parallel: bool) -> Result<Vec<u8>, Error> {
    let kind: &[u8] = if is_parallel { b"ftp parallel" } else { b"ftp" };
    let id = match source.identity() {
        Some(version) => transfer_id(&[kind, path, version]),
        None => TransferId(random::array().map_err(Error::from)?),
    };
    Ok(part_name(path, id))
}
