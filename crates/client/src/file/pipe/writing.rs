//! The end of a FIFO that bytes go into.
//!
//! Several calls are on their way at a time. A pipe that is full takes a part of one, and then nothing of
//! those behind it, which begin where the pipe does not expect them; they are sent again.

use super::{CALLS_MAX, PipeEnd, PipeSide, WAIT_MS};
use crate::file::batches::{PendingFileReply, unexpected};
use bytes::Bytes;
use std::collections::VecDeque;
use std::time::Instant;
use xdfs_proto::base::Error;
use xdfs_proto::wire::file::{FileAnswer, FileCall};

/// Bytes on their way.
#[derive(Default)]
pub(super) struct Writing {
    queue: VecDeque<Sent>,
    /// Bytes that the program wrote.
    written: u64,
    /// Bytes that the pipe has taken.
    taken: u64,
    /// Calls on their way at a time: fewer while the pipe is full.
    window: usize,
    /// Somebody has read.
    connected: bool,
}

struct Sent {
    offset: u64,
    data: Bytes,
    /// None if it has to be sent again.
    reply: Option<PendingFileReply>,
    at: Instant,
}

impl Writing {
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Sends what one call may carry, once few enough are on their way; 0 bytes if that takes longer.
    pub(super) fn write(&mut self, pipe_end: &mut PipeEnd, data: &[u8], until: Instant) -> Result<usize, Error> {
        pipe_end.must_work()?;
        while self.queue.len() >= self.window.max(1) {
            if !self.advance(pipe_end, until)? {
                return Ok(0);
            }
        }
        let part = Bytes::copy_from_slice(&data[..data.len().min(pipe_end.chunk())]);
        let bytes = part.len();
        if bytes > 0 {
            self.push(pipe_end, part)?;
        }
        Ok(bytes)
    }

    /// Waits until the pipe has taken everything, and somebody was there to read.
    pub(super) fn settle(&mut self, pipe_end: &mut PipeEnd, until: Instant) -> Result<bool, Error> {
        pipe_end.must_work()?;
        if !self.connected && self.queue.is_empty() {
            self.push(pipe_end, Bytes::new())?;
        }
        while !self.queue.is_empty() {
            if !self.advance(pipe_end, until)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn push(&mut self, pipe_end: &mut PipeEnd, data: Bytes) -> Result<(), Error> {
        let mut sent = Sent { offset: self.written, data, reply: None, at: Instant::now() };
        self.written += sent.data.len() as u64;
        let outcome = sent.send(pipe_end);
        self.queue.push_back(sent);
        outcome
    }

    /// Waits for the answer to the first call; false if there is none until then.
    fn advance(&mut self, pipe_end: &mut PipeEnd, until: Instant) -> Result<bool, Error> {
        let Some(first) = self.queue.front_mut() else { return Ok(true) };
        if first.reply.is_none() {
            first.send(pipe_end)?;
        }
        let Some(reply) = &first.reply else { return Ok(false) };
        let Some(answered) = pipe_end.receive(reply, until)? else { return Ok(false) };
        let (open, taken) = match pipe_end.answer(&answered, PipeSide::Write)? {
            FileAnswer::WrotePipe { open, taken } => (open, taken),
            _ => return Err(pipe_end.fail(unexpected())),
        };
        let end = first.offset + first.data.len() as u64;
        // Calls of several channels have no order: the answer may be an older one.
        let taken = taken.max(self.taken);
        if taken > self.written || (taken > self.taken && !open) {
            return Err(pipe_end.fail(unexpected()));
        }
        let (moved, asked) = (taken > self.taken, first.at);
        (self.taken, self.connected) = (taken, self.connected || open);
        if moved {
            pipe_end.progress();
        }
        if open && taken >= end {
            self.queue.pop_front();
            self.window = (self.window + 1).min(CALLS_MAX);
            return Ok(true);
        }
        first.reply = None;
        let late = usize::try_from(taken.saturating_sub(first.offset)).unwrap_or(usize::MAX);
        let _ = first.data.split_to(late.min(first.data.len()));
        first.offset = taken.max(first.offset);
        self.window = (self.window / 2).max(1);
        self.recall(pipe_end)?;
        if !moved {
            pipe_end.rest(asked, until);
        }
        Ok(true)
    }

    /// The calls behind the first one had no effect, and are sent again in their turn.
    fn recall(&mut self, pipe_end: &mut PipeEnd) -> Result<(), Error> {
        for one in self.queue.iter_mut().skip(1) {
            if let Some(reply) = one.reply.take() {
                let answered = reply.wait().map_err(|error| pipe_end.fail(error))?;
                pipe_end.answer(&answered, PipeSide::Write)?;
            }
        }
        Ok(())
    }
}

impl Sent {
    fn send(&mut self, pipe_end: &mut PipeEnd) -> Result<(), Error> {
        self.at = Instant::now();
        let call = FileCall::WritePipe { offset: self.offset, wait_ms: WAIT_MS, data: &self.data };
        self.reply = Some(pipe_end.send(call)?);
        Ok(())
    }
}
