//! A source of incompressible random bytes, for benchmarks of everything but storage.

use super::errors::{self, Verb};
use super::{Attributes, FileKind, Result, Source, SourceCapability, SourceFile, Version};
use rustix::rand::{GetRandomFlags, getrandom};
use std::sync::OnceLock;
use xdfs_proto::base::Timestamp;

/// Size of the repeated block: larger than a processor's second-level cache, and quick to generate.
const BLOCK_BYTES: usize = 4 << 20;

/// Random bytes, endless or of a given size. They are generated once per process and repeated, so
/// that generating them takes no time during the transfer.
#[derive(Debug)]
pub struct RandomSource {
    block: &'static [u8],
    attributes: Attributes,
}

impl RandomSource {
    /// `size` random bytes, or endless ones.
    pub fn new(size: Option<u64>) -> Result<Self> {
        Ok(Self { block: block()?, attributes: random_attributes(size) })
    }
}

impl Source {
    /// Random bytes, the same for the whole life of the process: `size` of them, or endless.
    pub fn random(size: Option<u64>) -> Result<Self> {
        RandomSource::new(size).map(Self::new)
    }
}

impl SourceFile for RandomSource {
    fn capability(&self) -> SourceCapability {
        SourceCapability { local: true, ..SourceCapability::default() }
    }

    fn shown(&self) -> &str {
        "random"
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let count = match self.attributes.size {
            // A range longer than the address space is longer than `buf`.
            Some(size) => buf.len().min(usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX)),
            None => buf.len(),
        };
        // Less than a block, so it fits.
        let mut from = (offset % BLOCK_BYTES as u64) as usize;
        let mut rest = &mut buf[..count];
        while !rest.is_empty() {
            let length = rest.len().min(BLOCK_BYTES - from);
            let (part, behind) = rest.split_at_mut(length);
            part.copy_from_slice(&self.block[from..from + length]);
            (rest, from) = (behind, 0);
        }
        Ok(count)
    }

    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn modified(&self) -> Option<Timestamp> {
        None
    }
}

/// Attributes of random bytes. Each process has different ones, so no two of them are versions of
/// one file.
pub(super) fn random_attributes(size: Option<u64>) -> Attributes {
    Attributes {
        kind: FileKind::Regular,
        size,
        mode: 0o644,
        modified: Timestamp::default(),
        version: Version(b"random".to_vec()),
    }
}

/// The random block of this process.
fn block() -> Result<&'static [u8]> {
    static BLOCK: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(block) = BLOCK.get() {
        return Ok(block);
    }
    let mut made = vec![0; BLOCK_BYTES];
    let mut filled = 0;
    while filled < BLOCK_BYTES {
        let count = rustix::io::retry_on_intr(|| getrandom(&mut made[filled..], GetRandomFlags::empty()));
        filled += count.map_err(|errno| errors::failed(Verb::Read, "random", errno))?;
    }
    Ok(BLOCK.get_or_init(|| made))
}
