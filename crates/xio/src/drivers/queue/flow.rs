//! A connection with queues as an element of a stack.

use crate::drivers::queues::{Outgoing, unless_blocked};
use std::io::{self, IoSlice, IoSliceMut};
use xdfs_io::stack::{Answer, Command, Flow, Interest, ReadInfo, WriteInfo};

/// How far the own direction is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    Open,
    Ending,
    Ended,
}

/// A connection with queues.
pub(super) struct QueueFlow {
    below: Box<dyn Flow>,
    room: usize,
    /// What one read of the layer below brought; as long as the queue once something was kept.
    read: Vec<u8>,
    taken: usize,
    filled: usize,
    /// What came with it.
    info: ReadInfo,
    written: Outgoing,
    sending: Sending,
}

impl QueueFlow {
    pub(super) fn new(below: Box<dyn Flow>, room: usize) -> Self {
        let (read, info, written) = Default::default();
        Self { below, room, read, taken: 0, filled: 0, info, written, sending: Sending::Open }
    }

    fn pass_on(&mut self) -> io::Result<()> {
        self.written.pass_on(&mut *self.below)?;
        if self.sending == Sending::Ending {
            self.below.finish_sending()?;
            self.sending = Sending::Ended;
        }
        Ok(())
    }
}

impl Flow for QueueFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        let asked: usize = into.iter().map(|slice| slice.len()).sum();
        if asked == 0 {
            return Ok(0);
        }
        if self.taken == self.filled {
            if self.sending == Sending::Ending {
                // That it cannot be sent is told by the close.
                let _ = self.pass_on();
            }
            if asked >= self.room {
                return self.below.receive(into, info);
            }
            self.read.resize(self.room, 0);
            let mut came = ReadInfo::default();
            let bytes = self.below.receive(&mut [IoSliceMut::new(&mut self.read)], &mut came)?;
            // More than there is room for is found out by what stands around the layer below.
            (self.taken, self.filled, self.info) = (0, bytes.min(self.read.len()), came);
        }
        let mut moved = 0;
        for slice in into {
            let part = slice.len().min(self.filled - self.taken);
            slice[..part].copy_from_slice(&self.read[self.taken..self.taken + part]);
            self.taken += part;
            moved += part;
        }
        let is_last = self.taken == self.filled;
        *info = ReadInfo {
            end: self.info.end && is_last,
            end_of_message: self.info.end_of_message && is_last,
            ..self.info
        };
        self.info.offset = self.info.offset.map(|offset| offset + moved as u64);
        Ok(moved)
    }

    fn send(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize> {
        if self.sending != Sending::Open {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "sending was finished"));
        }
        let length: usize = from.iter().map(|slice| slice.len()).sum();
        let has_place = self.written.len() + length <= self.room;
        let is_plain = info.offset.is_none() && info.peer.is_none() && !info.end_of_message;
        if length > 0 && has_place && is_plain {
            from.iter().for_each(|slice| self.written.end().extend_from_slice(slice));
            return Ok(length);
        }
        self.pass_on()?;
        self.below.send(from, info)
    }

    fn below(&self) -> Option<&dyn Flow> {
        Some(&*self.below)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Flow> {
        Some(&mut *self.below)
    }

    fn holds_back(&self) -> bool {
        true
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass_on()?;
        self.below.flush()
    }

    fn holds(&self) -> bool {
        self.taken < self.filled || self.below.holds()
    }

    fn wants(&self, asked: Interest) -> Interest {
        let waiting = if self.sending == Sending::Ending { Interest::WRITE } else { Interest::NONE };
        self.below.wants(asked.with(waiting))
    }

    fn finish_sending(&mut self) -> io::Result<()> {
        if self.sending == Sending::Open {
            self.sending = Sending::Ending;
        }
        self.pass_on()
    }

    fn control(&mut self, command: &Command) -> io::Result<Answer> {
        match &*command.name {
            // What is left goes with the next reads.
            "finish_sending" => unless_blocked(self.finish_sending()).map(|()| Answer::Done),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}
