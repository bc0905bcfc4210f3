//! An object as a source.

use crate::bucket::Object;
use crate::store::attributes_of;
use std::sync::Arc;
use xdfs_io::store::errors;
use xdfs_io::store::{Attributes, Result, SourceFile};
use xdfs_proto::base::RelPath;

/// An object that is read by ranges. It is the version that was found when it was opened: a service
/// without versions asks for its ranges under a condition, and `SourceChanged` is the answer where it
/// fails.
#[derive(Debug)]
pub(crate) struct ObjectSource {
    object: Arc<Object>,
    attributes: Attributes,
    shown: String,
}

impl ObjectSource {
    pub(crate) fn new(path: &RelPath, object: Arc<Object>) -> Self {
        Self { attributes: attributes_of(&object), shown: errors::shown("", path), object }
    }
}

// The default capability is right: it is read by ranges, and the service may be far away. Nor is
// there a descriptor for `as_local`. `identity` is none since the versions of a bucket in memory end
// with the process; those of a real service do not.
impl SourceFile for ObjectSource {
    fn shown(&self) -> &str {
        &self.shown
    }

    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        Ok(self.object.read(buf, offset))
    }
}
