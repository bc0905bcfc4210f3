//! A stage that discards what it is given, for benchmarks of everything but storage.

use super::{Attributes, CommitRequest, FileKind, Result, Stage, StageCapability, StagedFile, Version};

/// Accepts every byte and discards it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullStage;

impl Stage {
    /// A stage that discards every byte.
    pub fn null() -> Self {
        Self::new(NullStage)
    }
}

impl StagedFile for NullStage {
    fn capability(&self) -> StageCapability {
        StageCapability { discards: true, ..StageCapability::default() }
    }

    fn shown(&self) -> &str {
        "null"
    }

    fn write(&self, _: &[u8], _: u64) -> Result<()> {
        Ok(())
    }

    fn finish(&self, _: &CommitRequest) -> Result<()> {
        Ok(())
    }

    /// Reports the attributes of the file that was discarded.
    fn name(&mut self, request: &CommitRequest) -> Result<Attributes> {
        Ok(Attributes {
            kind: FileKind::Other,
            size: Some(request.length),
            mode: request.mode & 0o777,
            modified: request.modified.unwrap_or_default(),
            version: Version::default(),
        })
    }
}
