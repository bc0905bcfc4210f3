//! `-a` of a file that is copied alone.

use std::os::unix::ffi::OsStrExt;

use xdfs_client::tree::{Preserve, Reduced, preserve_down, preserve_up};
use xdfs_client::wire::{FileType, Wanted};
use xdfs_io::store::LocalPlace;

use super::Copy;
use super::ends::written_place;
use super::failure::Failed;
use super::items::{Download, Upload};
use super::monitor::FileOutcome;
use crate::cmd::remote::wire_name;
use crate::output::{CopyItem, Output, not_preserved};
use crate::plan::{Local, LocalTarget};

impl Copy<'_> {
    /// Gives a file that was copied to a server what is to be kept of it. If the session is lost, that
    /// alone is done again: the file has its name by then.
    pub(super) fn preserve_up(&mut self, pair: &Upload, outcome: FileOutcome) -> Result<FileOutcome, Failed> {
        let (FileOutcome::Copied(item, _), Local::File(path)) = (&outcome, &pair.source) else { return Ok(outcome) };
        if self.keep == Preserve::default() || !path.is_file() || pair.target.is_ftp() {
            return Ok(outcome);
        }
        self.with_patience(&pair.target, true, |copy| {
            let place = LocalPlace::of(path.as_os_str().as_bytes());
            let place = place.map_err(|error| Failed::of_local(item.source.shown(), error))?;
            let opened = copy.sessions.with(&pair.target);
            let (session, _) = opened.map_err(|failed| Failed::of_session(item.target.shown(), failed))?;
            let target = wire_name(&pair.target);
            // A pipe keeps what it has.
            let kept = session.look(&target, Wanted::NOTHING).and_then(|found| match found.kind {
                FileType::Regular => preserve_up(session, (&place.store, &place.name), &target, copy.keep),
                _ => Ok(Reduced::default()),
            });
            say(&kept.map_err(|error| Failed::of_upload(item, error))?, item, copy.monitor.output());
            Ok(outcome.clone())
        })
    }

    /// The same for a file that was copied from a server.
    pub(super) fn preserve_down(&mut self, pair: &Download, outcome: FileOutcome) -> Result<FileOutcome, Failed> {
        let (FileOutcome::Copied(item, _), LocalTarget::Path(path)) = (&outcome, &pair.target) else {
            return Ok(outcome);
        };
        if self.keep == Preserve::default() || !path.is_file() || pair.source.is_ftp() {
            return Ok(outcome);
        }
        self.with_patience(&pair.source, true, |copy| {
            let place = written_place(path).map_err(|error| Failed::of_local(item.target.shown(), error))?;
            let opened = copy.sessions.with(&pair.source);
            let (session, _) = opened.map_err(|failed| Failed::of_session(item.source.shown(), failed))?;
            let kept = preserve_down(session, &wire_name(&pair.source), (&place.store, &place.name), copy.keep);
            say(&kept.map_err(|error| Failed::of_download(item, error, true))?, item, copy.monitor.output());
            Ok(outcome.clone())
        })
    }
}

fn say(reduced: &Reduced, item: &CopyItem, output: &mut dyn Output) {
    if reduced.count > 0 {
        output.note(&not_preserved(item.target.shown(), reduced.count, reduced.kinds, true));
    }
}
