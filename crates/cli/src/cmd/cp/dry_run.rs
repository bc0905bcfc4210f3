//! `cp --dry-run`: what would be copied, found by looking at both ends. Nothing is opened for
//! writing, and no transfer begins.

use std::os::unix::fs::FileTypeExt;

use xdfs_client::wire::{FileType, Wanted};
use xdfs_client::{Error, ErrorKind, Facts};

use super::ends::{payload, source_of, target_of, written_place};
use super::failure::Failed;
use super::items::{Download, Upload};
use super::monitor::FileOutcome;
use super::tree::not_found;
use super::{Copy, wire_name};
use crate::output::{CopyItem, PlannedCopy};
use crate::plan::{Local, LocalTarget};
use crate::url::{Url, Via};

/// The rights in the export that all targets of a command are in, as the mode of a directory.
pub(super) enum TargetRights {
    NotAsked,
    /// What the server listed; none if it does not tell them.
    Known(Option<u32>),
}

/// How an export shows that one may add to it and replace nothing.
const STICKY: u32 = 0o1000;

impl Copy<'_> {
    /// What an upload would do. A target that is a directory is an error, as it is for an upload.
    pub(super) fn plan_upload(
        &mut self,
        pair: &Upload,
        (number, count): (usize, usize),
    ) -> Result<FileOutcome, Failed> {
        let source = source_of(&pair.source);
        let bytes = self.bytes_of(&pair.source).map_err(|error| Failed::of_local(source.shown(), error))?;
        let item = CopyItem { source, target: (&pair.target).into(), number, count };
        self.planned_at(item, &pair.target, bytes)
    }

    /// What a download would do.
    pub(super) fn plan_download(
        &mut self,
        pair: &Download,
        (number, count): (usize, usize),
    ) -> Result<FileOutcome, Failed> {
        let item = CopyItem { source: (&pair.source).into(), target: target_of(&pair.target), number, count };
        let replaces = match &pair.target {
            LocalTarget::Path(path) => {
                let place = written_place(path).map_err(|error| Failed::of_local(item.target.shown(), error))?;
                place.existing.is_some()
            }
            LocalTarget::Stdout | LocalTarget::Null => false,
        };
        let bytes = self.bytes_at(&pair.source)?;
        Ok(self.planned(item, bytes, replaces))
    }

    /// What a copy between two servers would do.
    pub(super) fn plan_between(
        &mut self,
        source: &Url,
        target: &Url,
        (number, count): (usize, usize),
    ) -> Result<FileOutcome, Failed> {
        let item = CopyItem { source: source.into(), target: target.into(), number, count };
        let bytes = self.bytes_at(source)?;
        self.planned_at(item, target, bytes)
    }

    fn planned_at(&mut self, item: CopyItem, target: &Url, bytes: Option<u64>) -> Result<FileOutcome, Failed> {
        let refused = |url: &Url, kind, text: &str| Err(Failed::of_peer(&url.to_string(), Error::new(kind, text)));
        let found = self.look(target)?;
        self.must_be_writable(target, found.is_some())?;
        match &found {
            Some(file) if file.kind == FileType::Directory => {
                return refused(target, ErrorKind::IsDirectory, "is a directory");
            }
            Some(_) => {}
            None => {
                if let Some(above) = target.parent() {
                    match self.look(&above)? {
                        Some(file) if file.kind == FileType::Directory => {}
                        Some(_) => return refused(&above, ErrorKind::NotDirectory, "not a directory"),
                        None => return Err(not_found(&above).make_first(&above)),
                    }
                }
            }
        }
        Ok(self.planned(item, bytes, found.is_some()))
    }

    /// Fails where the export of a target does not take the copy, as far as its rights tell.
    pub(super) fn must_be_writable(&mut self, target: &Url, replaces: bool) -> Result<(), Failed> {
        let (name, shown) = (&target.export, target.to_string());
        let (kind, text) = match self.rights_at(target)? {
            Some(mode) if mode & 0o222 == 0 => {
                (ErrorKind::ReadOnly, format!("export '{name}' may be read by you and not be written to"))
            }
            Some(mode) if mode & STICKY != 0 && replaces && !self.options.keep_existing => (
                ErrorKind::AlreadyExists,
                format!("it is there already, and in export '{name}' you may replace nothing"),
            ),
            _ => return Ok(()),
        };
        Err(Failed::of_peer(&shown, Error::new(kind, text)))
    }

    /// The rights in the export of a target, as the mode of a directory; all targets of a command are in
    /// one export. Nothing if they are not told.
    fn rights_at(&mut self, target: &Url) -> Result<Option<u32>, Failed> {
        if target.via != Via::Port {
            return Ok(None);
        }
        if let TargetRights::Known(mode) = self.rights {
            return Ok(mode);
        }
        let mut found = None;
        let pages = self.session_of(target)?.list(b"", Wanted::MODE);
        for page in pages.into_iter().flatten().map_while(Result::ok) {
            let mut entries = page.entries().into_iter().flatten();
            found = found.or(entries.find(|entry| entry.name == target.export.as_bytes()).map(|e| e.attributes.mode));
        }
        self.rights = TargetRights::Known(found.flatten());
        Ok(found.flatten())
    }

    fn planned(&self, item: CopyItem, bytes: Option<u64>, replaces: bool) -> FileOutcome {
        match replaces && self.options.keep_existing {
            true => FileOutcome::Skipped(item),
            false => FileOutcome::Planned(PlannedCopy { item, bytes, replaces }),
        }
    }

    /// Bytes of a local source, where they are known before it is read.
    fn bytes_of(&self, source: &Local) -> Result<Option<u64>, Error> {
        let waits = match source {
            Local::Stdin => true,
            Local::File(path) => path.metadata().is_ok_and(|found| found.file_type().is_fifo()),
            Local::Zero(_) | Local::Random(_) => false,
        };
        if waits {
            return Ok(None);
        }
        Ok(payload(source, self.options, &|| self.monitor.stopped())?.length())
    }

    /// Bytes of a source on a server, where they are known before it is read.
    fn bytes_at(&mut self, source: &Url) -> Result<Option<u64>, Failed> {
        let refused = |kind, text: &str| Failed::of_peer(&source.to_string(), Error::new(kind, text));
        let found = match source.is_ftp() {
            true => self.look_ftp(source)?.ok_or_else(|| refused(ErrorKind::NotFound, "no such file"))?,
            false => {
                let looked = self.session_of(source)?.look(wire_name(source), Wanted::SIZE);
                looked.map_err(|error| Failed::of_peer(&source.to_string(), error))?
            }
        };
        match found {
            Facts { kind: FileType::Directory, .. } => Err(refused(ErrorKind::IsDirectory, "is a directory")),
            Facts { kind: FileType::Regular, size: Some(size), .. } => {
                let rest = size.checked_sub(self.options.offset);
                let length =
                    rest.map(|rest| self.options.length.unwrap_or(rest)).filter(|length| Some(*length) <= rest);
                let length = length.ok_or_else(|| refused(ErrorKind::OutOfRange, "it ends before the range does"))?;
                Ok(Some(length))
            }
            // A link is followed, and a pipe read, when the copy runs.
            _ => Ok(None),
        }
    }
}
