//! Data sources: one enum, so that a read costs a match and no call through a table.

use super::errors::{self, Verb};
use super::fault::FaultSource;
use super::local::{self, source::LocalSource};
use super::memory::MemorySource;
use super::random::RandomSource;
use super::stream::StreamSource;
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
    /// Random bytes, endless or of a size.
    Random(RandomSource),
    /// A file of a [`super::MemoryStore`], as it was when it was opened.
    Memory(MemorySource),
    /// A pipe or device: read in order, once.
    Stream(StreamSource),
    /// A source whose calls fail according to a plan.
    Fault(Box<FaultSource>),
}

impl Source {
    /// Zero bytes: `size` of them, or endless.
    pub fn zero(size: Option<u64>) -> Self {
        Self::Zero(ZeroSource::new(size))
    }

    /// Random bytes, the same for the whole life of the process: `size` of them, or endless.
    pub fn random(size: Option<u64>) -> Result<Self> {
        RandomSource::new(size).map(Self::Random)
    }

    /// Standard input.
    pub fn standard_input() -> Result<Self> {
        let file = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 0);
        let file = file.map_err(|errno| errors::failed(Verb::Open, "standard input", errno))?;
        Ok(Self::Stream(StreamSource::new(file, "standard input")))
    }

    /// Whether [`Self::revalidate`] waits for no device and no other machine.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Local(source) => source.at_hand(),
            Self::Zero(_) | Self::Random(_) | Self::Memory(_) => true,
            Self::Stream(_) | Self::Fault(_) => false,
        }
    }

    /// Whether the source is read with [`Self::read`], in order and once, and not with
    /// [`Self::read_at`].
    pub fn is_sequential(&self) -> bool {
        match self {
            Self::Stream(_) => true,
            Self::Local(_) | Self::Zero(_) | Self::Random(_) | Self::Memory(_) => false,
            Self::Fault(source) => source.inner().is_sequential(),
        }
    }

    /// Continues reading where the last call ended, until `buf` is full or the source ends; the
    /// count is short only at the end. Blocks until the writer of the pipe provides data. For
    /// sequential sources.
    pub fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        match self {
            Self::Stream(source) => source.read(buf),
            Self::Fault(source) => source.read(buf),
            Self::Local(_) | Self::Zero(_) | Self::Random(_) | Self::Memory(_) => {
                Err(errors::refused(ErrorKind::Unsupported, Verb::Read, self.shown(), "it is read by ranges"))
            }
        }
    }

    /// Reads the bytes at `offset` until `buf` is full or the source ends; the count is short only
    /// at the end.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        // Checked here for every member: an offset that the kernel would treat as negative is
        // rejected.
        Extent::new(offset, buf.len() as u64).map_err(|_| self.out_of_range(offset, buf.len()))?;
        match self {
            Self::Local(source) => source.read_at(buf, offset),
            Self::Zero(source) => Ok(source.read_at(buf, offset)),
            Self::Random(source) => Ok(source.read_at(buf, offset)),
            Self::Memory(source) => Ok(source.read_at(buf, offset)),
            Self::Fault(source) => source.read_at(buf, offset),
            Self::Stream(source) => {
                let because = "it can be read in order alone";
                Err(errors::refused(ErrorKind::Unsupported, Verb::Read, source.shown(), because))
            }
        }
    }

    /// Fills `buf` from `offset`. A source that ends earlier has changed since its size was
    /// reported (rule D20: never padded with zeros).
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
        match self {
            Self::Local(source) => source.attributes(),
            Self::Zero(source) => source.attributes(),
            Self::Random(source) => source.attributes(),
            Self::Memory(source) => source.attributes(),
            Self::Stream(source) => source.attributes(),
            Self::Fault(source) => source.inner().attributes(),
        }
    }

    /// Identifies this exact content across processes: for a file of this machine, device, inode,
    /// size and times. None where a version is meaningful only within this process.
    pub fn identity(&self) -> Option<&[u8]> {
        match self {
            Self::Local(source) => Some(&source.attributes().version.0),
            Self::Fault(source) => source.inner().identity(),
            Self::Zero(_) | Self::Random(_) | Self::Memory(_) | Self::Stream(_) => None,
        }
    }

    /// What the source shares with a copy of it, for files of this machine: size and modification
    /// time.
    pub fn weak_version(&self) -> Option<&[u8]> {
        self.identity().and_then(local::source::likeness)
    }

    /// Whether `version` may belong to a copy of it: only a comparison of the bytes can decide.
    pub fn may_match(&self, version: &[u8]) -> bool {
        self.weak_version().is_some_and(|own| local::source::likeness(version) == Some(own))
    }

    /// The modification time that a copy should get; none where the bytes have no date (zero bytes,
    /// random ones, pipes, and bytes of memory that nobody dated).
    pub fn modified(&self) -> Option<(i64, u32)> {
        match self {
            Self::Local(_) => Some(self.attributes().modified),
            Self::Memory(source) => Some(source.attributes().modified).filter(|date| *date != (0, 0)),
            Self::Zero(_) | Self::Random(_) | Self::Stream(_) => None,
            Self::Fault(source) => source.inner().modified(),
        }
    }

    /// A duplicated descriptor that the kernel can splice from; none where the member has none, or
    /// no descriptor is free. The buffered path works in either case.
    pub fn descriptor(&self) -> Option<OwnedFd> {
        match self {
            Self::Local(source) => source.descriptor(),
            // A pipe has no offsets to splice from; a descriptor of the fault member would bypass
            // its plan.
            Self::Zero(_) | Self::Random(_) | Self::Memory(_) | Self::Stream(_) | Self::Fault(_) => None,
        }
    }

    /// Fails with `SourceChanged` if the source has changed since it was opened (rule D18). Call it
    /// after the last byte was read and before the receiver may commit.
    pub fn revalidate(&self) -> Result<()> {
        match self {
            Self::Local(source) => source.revalidate(),
            Self::Fault(source) => source.revalidate(),
            Self::Zero(_) | Self::Random(_) | Self::Memory(_) | Self::Stream(_) => Ok(()),
        }
    }

    /// Whether every byte is zero, so that it need not be read.
    pub fn is_zero(&self) -> bool {
        matches!(self, Self::Zero(_))
    }

    /// The name in messages, escaped.
    pub fn shown(&self) -> &str {
        match self {
            Self::Local(source) => source.shown(),
            Self::Zero(_) => "zero",
            Self::Random(_) => "random",
            Self::Memory(source) => source.shown(),
            Self::Stream(source) => source.shown(),
            Self::Fault(source) => source.inner().shown(),
        }
    }

    fn out_of_range(&self, offset: u64, length: usize) -> Error {
        let because = format!("{length} bytes at offset {offset} end beyond 2^63 - 1");
        errors::refused(ErrorKind::OutOfRange, Verb::Read, self.shown(), &because)
    }
}
