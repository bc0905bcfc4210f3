//! A regular file as a source.

use crate::store::errors::{self, Verb};
use crate::store::io_loops::read_full;
use crate::store::medium::at_hand;
use crate::store::stat::{attributes_of, likeness};
use crate::store::{Attributes, Result, SourceCapability, SourceFile};
use rustix::fs::Stat;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use xdfs_proto::base::{Error, ErrorKind};

/// An open file and its attributes when it was opened.
#[derive(Debug)]
pub struct LocalSource {
    file: OwnedFd,
    /// Its name in messages.
    shown: String,
    /// The result of `fstat` right after the open.
    opened: Attributes,
    /// See [`at_hand`].
    at_hand: bool,
}

impl LocalSource {
    pub(in crate::store) fn new(file: OwnedFd, shown: String, stat: &Stat) -> Self {
        let at_hand = at_hand(&file);
        Self { file, shown, opened: attributes_of(stat), at_hand }
    }
}

impl SourceFile for LocalSource {
    fn capability(&self) -> SourceCapability {
        SourceCapability { local: self.at_hand, ..SourceCapability::default() }
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        read_full(buf, offset, |part, at| rustix::io::pread(&self.file, part, at))
            .map_err(|errno| errors::failed(Verb::Read, &self.shown, errno))
    }

    fn attributes(&self) -> &Attributes {
        &self.opened
    }

    fn identity(&self) -> Option<&[u8]> {
        Some(&self.opened.version.0)
    }

    /// Size and modification time.
    fn weak_part<'v>(&self, version: &'v [u8]) -> Option<&'v [u8]> {
        likeness(version)
    }

    fn as_local(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    /// Size, times and identity have not changed since the open.
    fn revalidate(&self) -> Result<()> {
        let stat = rustix::fs::fstat(&self.file).map_err(|errno| errors::failed(Verb::Read, &self.shown, errno))?;
        let now = attributes_of(&stat);
        if now == self.opened {
            return Ok(());
        }
        let what = match (self.opened.size, now.size) {
            (Some(before), Some(after)) if before != after => {
                format!("its size went from {before} to {after} bytes")
            }
            _ if stat.st_nlink == 0 => "it was removed".to_owned(),
            _ if self.opened.modified != now.modified => "it was written".to_owned(),
            _ => "its attributes were changed".to_owned(),
        };
        let message = format!("source '{}' changed while it was read: {what}", self.shown);
        Err(Error::new(ErrorKind::SourceChanged, message))
    }

    fn shown(&self) -> &str {
        &self.shown
    }
}
