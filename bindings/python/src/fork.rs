//! What a child of this process inherits and cannot use: the threads of a session are in the parent alone.

use std::mem::forget;
use std::ops::Deref;
use std::sync::Arc;

/// A value of the process that made it. In a child made by `fork` it is neither used nor dropped: it would
/// wait for threads that are not there, and its sockets are the parent's.
#[derive(Debug)]
pub(crate) struct OfProcess<T> {
    value: Arc<T>,
    process: u32,
}

impl<T> OfProcess<T> {
    pub(crate) fn new(value: Arc<T>) -> Self {
        Self { value, process: std::process::id() }
    }

    /// Whether this is a child of the process that made it.
    pub(crate) fn is_inherited(&self) -> bool {
        self.process != std::process::id()
    }
}

impl<T> Clone for OfProcess<T> {
    fn clone(&self) -> Self {
        Self { value: Arc::clone(&self.value), process: self.process }
    }
}

impl<T> Deref for OfProcess<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.value
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if self.is_inherited() {
            forget(Arc::clone(&self.value));
        }
    }
}
