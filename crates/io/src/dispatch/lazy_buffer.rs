//! Memory that a dispatcher has once it needs it.

use super::End;
use super::slot::{IoStep, error_number};
use crate::buf::Buffer;

/// A buffer that is allocated on first use: many dispatchers are short-lived and never need theirs.
pub(super) struct LazyBuffer {
    bytes: usize,
    buffer: Option<Buffer>,
}

impl LazyBuffer {
    pub(super) fn new(bytes: usize) -> Self {
        Self { bytes, buffer: None }
    }

    /// Its payload area; the socket that needs it ends if there is no memory.
    pub(super) fn payload(&mut self) -> Result<&mut [u8], IoStep> {
        if self.buffer.is_none() {
            let made = Buffer::new(self.bytes).map_err(|error| IoStep::Ended(End::Failed(error_number(&error))))?;
            self.buffer = Some(made);
        }
        Ok(self.made())
    }

    /// The payload area if it has been allocated; otherwise empty.
    pub(super) fn made(&mut self) -> &mut [u8] {
        self.buffer.as_mut().map(Buffer::payload_mut).unwrap_or_default()
    }
}
