//! What transforms that change bytes need: bytes that wait for the layer below, and bytes that came
//! from it and were not used yet.

use std::io::{self, IoSlice, IoSliceMut};
use xdfs_io::stack::{Flow, ReadInfo, WriteInfo};

/// Bytes that are taken from the layer below at a time.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;

/// How often one call takes more from the layer below where nothing comes of it. Then it fails with
/// `Interrupted`: others have their turn, and it goes on after them.
pub(super) const FILLS_PER_CALL: usize = 16;

/// Bytes for the layer below. Whoever adds some looks first whether those before have gone.
#[derive(Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    /// The layer below may keep some of them.
    unflushed: bool,
}

impl Outgoing {
    pub(super) fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// To add to its end.
    pub(super) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Passes everything on, also what layers below would keep: the peer may wait for it.
    /// `WouldBlock` while some is left.
    pub(super) fn pass_on(&mut self, below: &mut dyn Flow) -> io::Result<()> {
        while self.sent < self.bytes.len() {
            match below.send(&[IoSlice::new(&self.bytes[self.sent..])], &WriteInfo::default()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => {
                    self.sent += bytes;
                    self.unflushed = true;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.bytes.drain(..self.sent);
                    self.sent = 0;
                    return Err(error);
                }
            }
        }
        self.bytes.clear();
        self.sent = 0;
        if self.unflushed {
            below.flush()?;
            self.unflushed = false;
        }
        Ok(())
    }
}

/// Bytes from the layer below.
pub(super) struct Incoming {
    bytes: Vec<u8>,
    used: usize,
    filled: usize,
    ended: bool,
    /// The rest did not suffice: only more bytes help.
    short: bool,
}

impl Default for Incoming {
    fn default() -> Self {
        Self { bytes: vec![0; CHUNK_BYTES], used: 0, filled: 0, ended: false, short: false }
    }
}

impl Incoming {
    /// What was not used yet.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.used..self.filled]
    }

    /// `bytes` of the rest were used.
    pub(super) fn consume(&mut self, bytes: usize) {
        self.used = (self.used + bytes).min(self.filled);
    }

    /// The layer below has ended: the rest is the last.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// The layer below has told its end to somebody else.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Whether there is a rest that was not found to be too short.
    pub(super) fn holds(&self) -> bool {
        !self.rest().is_empty() && !self.short
    }

    /// The rest does not suffice: takes more from the layer below, behind the rest; `WouldBlock` while there is none. How many
    /// bytes; zero where the rest fills the buffer, or at the end.
    pub(super) fn fill(&mut self, below: &mut dyn Flow) -> io::Result<usize> {
        if self.ended {
            return Ok(0);
        }
        self.bytes.copy_within(self.used..self.filled, 0);
        self.filled -= self.used;
        self.used = 0;
        if self.filled == self.bytes.len() {
            return Ok(0);
        }
        self.short = true;
        let mut info = ReadInfo::default();
        let bytes = below.receive(&mut [IoSliceMut::new(&mut self.bytes[self.filled..])], &mut info)?;
        self.ended = info.end;
        self.short = bytes == 0 && !info.end;
        self.filled += bytes;
        Ok(bytes)
    }
}

/// The layer below does not take it now: that is no error of who would have it try.
pub(super) fn unless_blocked(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == io::ErrorKind::WouldBlock { Ok(()) } else { Err(error) })
}

/// The end of the layer below where more had to come.
pub(super) fn cut_off(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, what)
}
