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
    /// Bytes that arrived, by their offset: calls of several channels have no order.
    arrived: BTreeMap<u64, Bytes>,
    /// Bytes that the program has.
    passed: u64,
    /// Calls on their way at a time, if it reads ahead; else one, for what the program asks.
    ahead: bool,
    window: usize,
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
            if let Some(bytes) = self.take(buf) {
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
                if offset < self.passed || self.arrived.insert(offset, Bytes::copy_from_slice(data)).is_some() {
                    return Err(pipe_end.fail(unexpected()));
                }
                self.window = (self.window * 2).clamp(1, CALLS_MAX);
                pipe_end.progress();
            } else if end && self.arrived.is_empty() && offset == self.passed {
                return Ok(Some(0));
            } else if self.arrived.is_empty() {
                self.window = 1;
                if self.pending.is_empty() {
                    pipe_end.rest(at, until);
                }
            }
        }
    }

    /// What comes next, if it is there.
    fn take(&mut self, buf: &mut [u8]) -> Option<usize> {
        let mut bytes = self.arrived.remove(&self.passed)?;
        let count = buf.len().min(bytes.len());
        buf[..count].copy_from_slice(&bytes.split_to(count));
        self.passed += count as u64;
        if !bytes.is_empty() {
            self.arrived.insert(self.passed, bytes);
        }
        Some(count)
    }
}
