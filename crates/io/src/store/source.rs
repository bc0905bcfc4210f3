//! Data sources: what a store implements to be read, and the handle by which everybody reads it.

use super::errors::{self, Verb};
use super::{Attributes, Result};
use std::os::fd::{BorrowedFd, OwnedFd};
use xdfs_proto::base::{Error, ErrorKind, Extent, Timestamp};

/// What an open file declares about itself, once. The default is a file that is read by ranges and
/// may be far away.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SourceCapability {
    /// It is read with [`SourceFile::read`], in order and once, and not with
    /// [`SourceFile::read_at`].
    pub sequential: bool,
    /// [`SourceFile::revalidate`] waits for no device and no other machine.
    pub local: bool,
    /// Every byte is zero, so that it need not be read.
    pub zero: bool,
}

/// An open file, as its store implements it. Ranges may be read from several threads at
/// once.
///
/// The calls come from a [`Source`], which has checked that a range ends below 2^63.
pub trait SourceFile: Send + Sync + std::fmt::Debug {
    /// What the engine needs to know before it reads. Asked once.
    fn capability(&self) -> SourceCapability {
        SourceCapability::default()
    }

    /// The name in messages, escaped: see [`errors::shown`].
    fn shown(&self) -> &str;

    /// The attributes of the file when it was opened.
    fn attributes(&self) -> &Attributes;

    /// Reads the bytes at `offset` until `buf` is full or the file ends; the count is short only at
    /// the end.
    fn read_at(&self, _buf: &mut [u8], _offset: u64) -> Result<usize> {
        Err(errors::refused(ErrorKind::Unsupported, Verb::Read, self.shown(), "it can be read in order alone"))
    }

    /// Continues reading where the last call ended, until `buf` is full or the file ends; the count
    /// is short only at the end. For sequential files.
    fn read(&mut self, _buf: &mut [u8]) -> Result<usize> {
        Err(errors::refused(ErrorKind::Unsupported, Verb::Read, self.shown(), "it is read by ranges"))
    }

    /// Identifies this exact content across processes. None where a version is meaningful only
    /// within this process.
    fn identity(&self) -> Option<&[u8]> {
        None
    }

    /// The part of a `version` that a file shares with a copy of it; none where there is no such
    /// part.
    fn weak_part<'v>(&self, _version: &'v [u8]) -> Option<&'v [u8]> {
        None
    }

    /// The modification time that a copy should get; none where the bytes have no date.
    fn modified(&self) -> Option<Timestamp> {
        Some(self.attributes().modified)
    }

    /// The descriptor of a file of this machine, from which the kernel can move bytes by itself.
    /// Where there is none, the bytes are read into buffers.
    fn as_local(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Fails with `SourceChanged` if the file has changed since it was opened.
    fn revalidate(&self) -> Result<()> {
        Ok(())
    }
}

/// An open source: a file of some store, and what it declared.
#[derive(Debug)]
pub struct Source {
    file: Box<dyn SourceFile>,
    capability: SourceCapability,
}

impl Source {
    /// A source that reads `file`.
    pub fn new(file: impl SourceFile + 'static) -> Self {
        let file: Box<dyn SourceFile> = Box::new(file);
        let capability = file.capability();
        Self { file, capability }
    }

    /// What the file declared when it was opened.
    pub const fn capability(&self) -> SourceCapability {
        self.capability
    }

    /// Whether [`Self::revalidate`] waits for no device and no other machine.
    pub const fn is_local(&self) -> bool {
        self.capability.local
    }

    /// Whether the source is read with [`Self::read`], in order and once, and not with
    /// [`Self::read_at`].
    pub const fn is_sequential(&self) -> bool {
        self.capability.sequential
    }

    /// Whether every byte is zero, so that it need not be read.
    pub const fn is_zero(&self) -> bool {
        self.capability.zero
    }

    /// Continues reading where the last call ended, until `buf` is full or the source ends; the
    /// count is short only at the end. Blocks until the writer of the pipe provides data. For
    /// sequential sources.
    pub fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        self.file.read(buf)
    }

    /// Reads the bytes at `offset` until `buf` is full or the source ends; the count is short only
    /// at the end.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        // Checked here for every store: an offset that the kernel would treat as negative is
        // rejected.
        Extent::new(offset, buf.len() as u64).map_err(|_| self.out_of_range(offset, buf.len()))?;
        self.file.read_at(buf, offset)
    }

    /// Fills `buf` from `offset`. A source that ends earlier has changed since its size was
    /// reported: nothing is padded with zeros.
    pub fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let count = self.read_at(buf, offset)?;
        if count == buf.len() {
            return Ok(());
        }
        let (end, wanted) = (offset + count as u64, offset + buf.len() as u64);
        let message = format!(
            "source '{}' changed while it was read: it ends at byte {end}, at least {wanted} were there",
            self.shown()
        );
        Err(Error::new(ErrorKind::SourceChanged, message))
    }

    /// The attributes of the source when it was opened.
    pub fn attributes(&self) -> &Attributes {
        self.file.attributes()
    }

    /// Identifies this exact content across processes: for a file of this machine, device, inode,
    /// size and times. None where a version is meaningful only within this process.
    pub fn identity(&self) -> Option<&[u8]> {
        self.file.identity()
    }

    /// The part of a `version` that the file shares with a copy of it; none where there is none.
    pub fn weak_part<'v>(&self, version: &'v [u8]) -> Option<&'v [u8]> {
        self.file.weak_part(version)
    }

    /// What the source shares with a copy of it, for files of this machine: size and modification
    /// time.
    pub fn weak_version(&self) -> Option<&[u8]> {
        self.identity().and_then(|own| self.weak_part(own))
    }

    /// Whether `version` may belong to a copy of it: only a comparison of the bytes can decide.
    pub fn may_match(&self, version: &[u8]) -> bool {
        self.weak_version().is_some_and(|own| self.weak_part(version) == Some(own))
    }

    /// The modification time that a copy should get; none where the bytes have no date (zero bytes,
    /// random ones, pipes, and bytes of memory that nobody dated).
    pub fn modified(&self) -> Option<Timestamp> {
        self.file.modified()
    }

    /// The descriptor of a file of this machine, from which the kernel can move bytes by itself;
    /// none where the store has none.
    pub fn as_local(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_local()
    }

    /// A duplicate of [`Self::as_local`]; none as well where no descriptor is free. The buffered path
    /// works in either case.
    pub fn descriptor(&self) -> Option<OwnedFd> {
        self.as_local().and_then(|file| file.try_clone_to_owned().ok())
    }

    /// Fails with `SourceChanged` if the source has changed since it was opened. Call it
    /// after the last byte was read and before the receiver may commit.
    pub fn revalidate(&self) -> Result<()> {
        self.file.revalidate()
    }

    /// The name in messages, escaped.
    pub fn shown(&self) -> &str {
        self.file.shown()
    }

    fn out_of_range(&self, offset: u64, length: usize) -> Error {
        let because = format!("{length} bytes at offset {offset} end beyond 2^63 - 1");
        errors::refused(ErrorKind::OutOfRange, Verb::Read, self.shown(), &because)
    }
}
