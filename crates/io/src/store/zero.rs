//! A source of zero bytes, for benchmarks of everything but storage.

use super::{Attributes, FileKind, Result, Source, SourceCapability, SourceFile, Version};
use xdfs_proto::base::Timestamp;

/// Zero bytes, endless or of a given size.
#[derive(Debug)]
pub struct ZeroSource {
    attributes: Attributes,
}

impl ZeroSource {
    /// `size` zero bytes, or endless ones.
    pub fn new(size: Option<u64>) -> Self {
        Self { attributes: zero_attributes(size) }
    }
}

impl Source {
    /// Zero bytes: `size` of them, or endless.
    pub fn zero(size: Option<u64>) -> Self {
        Self::new(ZeroSource::new(size))
    }
}

impl SourceFile for ZeroSource {
    fn capability(&self) -> SourceCapability {
        SourceCapability { zero: true, local: true, sequential: false }
    }

    fn shown(&self) -> &str {
        "zero"
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let count = match self.attributes.size {
            // A range longer than the address space is longer than `buf`.
            Some(size) => buf.len().min(usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX)),
            None => buf.len(),
        };
        if let Some(part) = buf.get_mut(..count) {
            part.fill(0);
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

/// Attributes of zero bytes: they never change, so they have only one version.
pub(super) fn zero_attributes(size: Option<u64>) -> Attributes {
    Attributes {
        kind: FileKind::Regular,
        size,
        mode: 0o644,
        modified: Timestamp::default(),
        version: Version(b"zero".to_vec()),
    }
}
