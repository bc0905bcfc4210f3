//! The end of a FIFO that bytes come out of.

use super::{CALLS_MAX, PipeEnd, PipeSide, WAIT_MS};
use crate::file::batches::{PendingFileReply, unexpected};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;
use xdfs_proto::base::Error;
use xdfs_proto::wire::file::{FileAnswer, FileCall};

/// What is on its way, and what arrived.
#[derive(Default)]
pub(super) struct Reading {
    /// Calls that were sent, in this order.
    pending: VecDeque<Asked>,
    arrived: Arrived,
    /// Calls on their way at a time, if it reads ahead; else one, for what the program asks.
    ahead: bool,
    window: usize,
}

/// Bytes that arrived, by their offset: calls of several channels have no order.
#[derive(Default)]
struct Arrived {
    parts: BTreeMap<u64, Bytes>,
    /// Bytes that the program has.
    passed: u64,
}

struct Asked {
    reply: PendingFileReply,
    length: usize,
    at: Instant,
}

impl Reading {
    pub(super) fn ahead(&mut self) {
        self.ahead = true;
    }

    /// At most `buf.len()` bytes; 0 at the end, none if nothing comes until then.
    pub(super) fn read(
        &mut self,
        pipe_end: &mut PipeEnd,
        buf: &mut [u8],
        until: Instant,
    ) -> Result<Option<usize>, Error> {
        loop {
            if let Some(bytes) = self.arrived.take(buf) {
                return Ok(Some(bytes));
            }
            pipe_end.must_work()?;
            let (window, length) = if self.ahead { (self.window.max(1), usize::MAX) } else { (1, buf.len()) };
            while self.pending.len() < window {
                let length = length.min(pipe_end.chunk());
                // At most 256 KiB: fits.
                let reply = pipe_end.send(FileCall::ReadPipe { length: length as u32, wait_ms: WAIT_MS })?;
                self.pending.push_back(Asked { reply, length, at: Instant::now() });
            }
            let Some(asked) = self.pending.front() else { return Ok(None) };
            let Some(answered) = pipe_end.receive(&asked.reply, until)? else { return Ok(None) };
            let (length, at) = (asked.length, asked.at);
            self.pending.pop_front();
            let (offset, data, end) = match pipe_end.answer(&answered, PipeSide::Read)? {
                FileAnswer::ReadPipe { offset, data, end } if data.len() <= length => (offset, data, end),
                _ => return Err(pipe_end.fail(unexpected())),
            };
            if !data.is_empty() {
                if !self.arrived.put(offset, data) {
                    return Err(pipe_end.fail(unexpected()));
                }
                self.window = (self.window * 2).clamp(1, CALLS_MAX);
                pipe_end.progress();
            } else if end && self.arrived.parts.is_empty() && offset == self.arrived.passed {
                return Ok(Some(0));
            } else if self.arrived.parts.is_empty() {
                self.window = 1;
                if self.pending.is_empty() {
                    pipe_end.rest(at, until);
                }
            }
        }
    }
}

impl Arrived {
    /// Takes what an answer brought; false if it cannot be. What is missing before it is the answer to a call that was sent
    /// before: no more calls than are on their way can bring what is behind it.
    fn put(&mut self, offset: u64, data: &[u8]) -> bool {
        offset >= self.passed
            && self.parts.insert(offset, Bytes::copy_from_slice(data)).is_none()
            && (self.parts.contains_key(&self.passed) || self.parts.len() <= CALLS_MAX)
    }

    /// What comes next, if it is there.
    fn take(&mut self, buf: &mut [u8]) -> Option<usize> {
        let mut bytes = self.parts.remove(&self.passed)?;
        let count = buf.len().min(bytes.len());
        buf[..count].copy_from_slice(&bytes.split_to(count));
        self.passed += count as u64;
        if !bytes.is_empty() {
            self.parts.insert(self.passed, bytes);
        }
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_in_their_order() {
        let mut arrived = Arrived::default();
        assert!(arrived.put(3, b"def") && arrived.put(0, b"abc"));
        let mut buf = [0; 2];
        let mut read = Vec::new();
        while let Some(count) = arrived.take(&mut buf) {
            read.extend_from_slice(&buf[..count]);
        }
        assert_eq!(read, b"abcdef");
        assert!(!arrived.put(5, b"f"), "it was passed on");
        assert!(arrived.put(6, b"g") && !arrived.put(6, b"g"), "it is there");
    }

    #[test]
    fn a_server_that_leaves_out_bytes_is_not_read_for_ever() {
        let mut arrived = Arrived::default();
        assert!((1..=CALLS_MAX as u64).all(|offset| arrived.put(offset, b"x")));
        assert!(!arrived.put(100, b"x"));
    }
}
