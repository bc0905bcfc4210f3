//! What is read: one enum, so that a read costs a match and no call through a table.

use super::local::source::LocalSource;
use super::memory::MemorySource;
use super::words::{self, Verb};
use super::zero::ZeroSource;
use super::{Attributes, Result};
use std::os::fd::OwnedFd;
use xdfs_proto::base::{Error, ErrorKind, Extent};

/// An open source. Ranges may be read from several threads at once.
#[derive(Debug)]
pub enum Source {
    /// A regular file of this machine.
    Local(LocalSource),
    /// Zero bytes, endless or of a size.
    Zero(ZeroSource),
    /// A file of a [`super::MemoryStore`], as it was when it was opened.
    Memory(MemorySource),
}

impl Source {
    /// Zero bytes: `size` of them, or without end.
    pub fn zero(size: Option<u64>) -> Self {
        Self::Zero(ZeroSource::new(size))
    }

    /// Reads the bytes at `offset` until `buf` is full or the source ends; the count is short at the end alone.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        // Checked here for every member: an offset that the kernel would take for a negative number goes no further.
        Extent::new(offset, buf.len() as u64).map_err(|_| self.out_of_range(offset, buf.len()))?;
        match self {
            Self::Local(source) => source.read_at(buf, offset),
            Self::Zero(source) => Ok(source.read_at(buf, offset)),
            Self::Memory(source) => Ok(source.read_at(buf, offset)),
        }
    }

    /// Fills `buf` from `offset` on. A source that ends before has changed since its size was told (rule D20: never
    /// filled up with zeros).
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

    /// What the source was when it was opened.
    pub fn attributes(&self) -> &Attributes {
        match self {
            Self::Local(source) => source.attributes(),
            Self::Zero(source) => source.attributes(),
            Self::Memory(source) => source.attributes(),
        }
    }

    /// A descriptor of its own that the kernel can splice from; none where the member has none, or none is left. The
    /// buffered route works in either case.
    pub fn descriptor(&self) -> Option<OwnedFd> {
        match self {
            Self::Local(source) => source.descriptor(),
            Self::Zero(_) | Self::Memory(_) => None,
        }
    }

    /// Fails with `SourceChanged` unless the source is what it was at the open (rule D18). To be asked after the last
    /// byte was read and before the receiver may commit.
    pub fn revalidate(&self) -> Result<()> {
        match self {
            Self::Local(source) => source.revalidate(),
            Self::Zero(_) | Self::Memory(_) => Ok(()),
        }
    }

    /// Whether every byte is zero, so that nobody needs to read it.
    pub fn is_zero(&self) -> bool {
        matches!(self, Self::Zero(_))
    }

    /// The name in messages, escaped.
    pub fn shown(&self) -> &str {
        match self {
            Self::Local(source) => source.shown(),
            Self::Zero(_) => "zero",
            Self::Memory(source) => source.shown(),
        }
    }

    fn out_of_range(&self, offset: u64, length: usize) -> Error {
        let because = format!("{length} bytes at offset {offset} end beyond 2^63 - 1");
        words::refused(ErrorKind::OutOfRange, Verb::Read, self.shown(), &because)
    }
}
