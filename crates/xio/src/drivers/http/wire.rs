//! What both ends of an exchange do with the layer below: heads and bodies, in and out.

use super::body::{Decoder, Encoder, Next};
use super::head::{BadHead, Scan};
use crate::drivers::queues::{Incoming, Outgoing, cut_off};
use std::io::{self, IoSlice, IoSliceMut};
use xdfs_io::stack::{Flow, Interest, ReadInfo, WriteInfo};

/// Slices that one call passes on.
const SLICES: usize = 16;

/// The layer below and what waits on either side of it.
pub(super) struct Wire {
    pub(super) below: Box<dyn Flow>,
    pub(super) incoming: Incoming,
    pub(super) outgoing: Outgoing,
    /// How far the head that arrives was looked at.
    scan: Scan,
}

/// Why there is no head.
pub(super) enum NoHead {
    /// The peer left before it began one.
    Left,
    /// What came is none.
    Bad(BadHead),
    Failed(io::Error),
}

impl From<io::Error> for NoHead {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<BadHead> for NoHead {
    fn from(bad: BadHead) -> Self {
        Self::Bad(bad)
    }
}

/// Something that the protocol does not allow.
pub(super) fn refused(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

impl Wire {
    pub(super) fn new(below: Box<dyn Flow>) -> Self {
        let (incoming, outgoing, scan) = Default::default();
        Self { below, incoming, outgoing, scan }
    }

    /// Passes on what waits: `WouldBlock` while some is left.
    pub(super) fn pass_on(&mut self) -> io::Result<()> {
        self.outgoing.pass_on(&mut *self.below)
    }

    /// The next head: `WouldBlock` while it is incomplete.
    pub(super) fn receive_head(&mut self) -> Result<Vec<u8>, NoHead> {
        loop {
            if let Some(end) = self.scan.end_of(self.incoming.rest())? {
                self.scan = Scan::default();
                let head = self.incoming.rest()[..end].to_vec();
                self.incoming.consume(end);
                return Ok(head);
            }
            if self.incoming.has_ended() {
                let left = self.incoming.rest().is_empty();
                return Err(if left { NoHead::Left } else { cut_off("the peer left in the middle of a head").into() });
            }
            self.incoming.fill(&mut *self.below)?;
        }
    }

    /// Receives from a body: no bytes are its end.
    pub(super) fn receive_body(&mut self, body: &mut Decoder, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let Some(into) = into.iter_mut().find(|slice| !slice.is_empty()) else { return Ok(0) };
        loop {
            let rest = self.incoming.rest();
            match body.next(rest).map_err(|what| refused(format!("the body is malformed: {what}")))? {
                Next::End => return Ok(0),
                Next::Framing(bytes) => self.incoming.consume(bytes),
                Next::Content(left) if !rest.is_empty() => {
                    let bytes = into.len().min(rest.len()).min(usize::try_from(left).unwrap_or(usize::MAX));
                    into[..bytes].copy_from_slice(&rest[..bytes]);
                    self.incoming.consume(bytes);
                    body.took(bytes as u64);
                    return Ok(bytes);
                }
                Next::Content(_) | Next::More if self.incoming.has_ended() => {
                    if *body != Decoder::UntilClose {
                        return Err(cut_off("the connection was cut in the middle of the body"));
                    }
                    *body = Decoder::End;
                }
                // The layer below fills the caller's buffer itself.
                Next::Content(left) => {
                    let length = into.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    let mut info = ReadInfo::default();
                    let bytes = self.below.receive(&mut [IoSliceMut::new(&mut into[..length])], &mut info)?;
                    body.took(bytes as u64);
                    if info.end {
                        self.incoming.end();
                    }
                    if bytes > 0 {
                        return Ok(bytes);
                    }
                }
                Next::More => {
                    self.incoming.fill(&mut *self.below)?;
                }
            }
        }
    }

    /// Sends to a body, from the caller's buffers and without a copy.
    pub(super) fn send_body(
        &mut self,
        body: &mut Encoder,
        from: &[IoSlice<'_>],
        info: &WriteInfo,
    ) -> io::Result<usize> {
        self.pass_on()?;
        let asked = from.iter().map(|slice| slice.len()).sum();
        let usage = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
        let allowed = body.allowed(asked, info.end_of_message).map_err(usage)?;
        let below = WriteInfo { more: info.more, ..WriteInfo::default() };
        let sent = match body {
            _ if allowed == 0 => 0,
            Encoder::Discard => allowed,
            Encoder::Chunked => self.send_chunk(from, allowed, &below)?,
            Encoder::Length(_) | Encoder::UntilClose | Encoder::End => {
                let mut slices = [IoSlice::new(&[]); SLICES];
                let (count, _) = first(from, allowed, &mut slices);
                self.below.send(&slices[..count], &below)?
            }
        };
        body.sent(sent);
        if sent == asked && info.end_of_message {
            body.finish(self.outgoing.end()).map_err(usage)?;
        }
        Ok(sent)
    }

    /// Sends a chunk of up to `allowed` bytes, and keeps what the layer below does not take of it.
    fn send_chunk(&mut self, from: &[IoSlice<'_>], allowed: usize, info: &WriteInfo) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES + 2];
        let (count, bytes) = first(from, allowed, &mut slices[1..=SLICES]);
        let head = format!("{bytes:x}\r\n");
        slices[0] = IoSlice::new(head.as_bytes());
        slices[count + 1] = IoSlice::new(b"\r\n");
        let chunk = &slices[..count + 2];
        let mut sent = self.below.send(chunk, info)?;
        for slice in chunk {
            let before = sent.min(slice.len());
            sent -= before;
            self.outgoing.end().extend_from_slice(&slice[before..]);
        }
        Ok(bytes)
    }

    /// Whether something came that can be used without the kernel.
    pub(super) fn holds(&self) -> bool {
        self.incoming.holds() || self.below.holds()
    }

    /// What is waited for besides `asked`.
    pub(super) fn wants(&self, asked: Interest) -> Interest {
        let waiting = if self.outgoing.is_empty() { Interest::NONE } else { Interest::WRITE };
        self.below.wants(asked.with(waiting))
    }
}

/// The first `bytes` of `from`, or fewer: how many slices and bytes they are.
fn first<'a>(from: &'a [IoSlice<'_>], bytes: usize, slices: &mut [IoSlice<'a>]) -> (usize, usize) {
    let (mut count, mut taken) = (0, 0);
    for slice in from.iter().filter(|slice| !slice.is_empty()) {
        if count == slices.len() || taken == bytes {
            break;
        }
        let part = slice.len().min(bytes - taken);
        slices[count] = IoSlice::new(&slice[..part]);
        count += 1;
        taken += part;
    }
    (count, taken)
}
