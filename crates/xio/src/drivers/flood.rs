//! A layer below, for tests: bytes that come without an end as far as a call can see.

use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use xdfs_io::stack::{Flow, ReadInfo, WriteInfo};

/// More than a call may take.
const CALLS_MAX: usize = 1000;

/// Gives `first`, and then `again` and `again`.
pub(super) struct Flood {
    first: Vec<u8>,
    again: &'static [u8],
    calls: Arc<AtomicUsize>,
}

impl Flood {
    /// And how often it was called.
    pub(super) fn new(first: &[u8], again: &'static [u8]) -> (Self, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::new(0));
        (Self { first: first.to_vec(), again, calls: calls.clone() }, calls)
    }
}

impl Flow for Flood {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        info.end = self.calls.fetch_add(1, Ordering::Relaxed) == CALLS_MAX;
        if info.end {
            return Ok(0);
        }
        let bytes = self.first.drain(..).chain(self.again.iter().copied().cycle());
        let room = into[0].len() / self.again.len() * self.again.len();
        into[0][..room].iter_mut().zip(bytes).for_each(|(byte, next)| *byte = next);
        Ok(room)
    }

    fn send(&mut self, from: &[IoSlice<'_>], _: &WriteInfo) -> io::Result<usize> {
        Ok(from.iter().map(|slice| slice.len()).sum())
    }
}
