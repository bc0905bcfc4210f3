//! What the kernel is told without having asked.

use super::serve::invalidate;
use std::fs::File;
use std::sync::Arc;

/// Tells the kernel what it has not asked.
#[derive(Clone, Debug)]
pub(crate) struct Notifier(Arc<File>);

impl Notifier {
    /// Through the device on which it asks.
    pub(crate) fn to(device: &File) -> std::io::Result<Self> {
        device.try_clone().map(|device| Self(Arc::new(device)))
    }

    /// Attributes and pages that the kernel keeps of an inode are old. Waits until it has dropped them.
    pub(crate) fn forget_content(&self, inode: u64) {
        // An error if it keeps nothing.
        let _ = invalidate(&self.0, inode);
    }
}
