//! A connection whose bytes are put into order as an element of a stack.

use crate::drivers::queues::{CHUNK_BYTES, FILLS_PER_CALL, cut_off};
use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};
use xdfs_io::stack::{Flow, ReadInfo, WriteInfo};

/// Most pieces that are kept: each costs some bytes more than it has.
const PIECES_MAX: usize = 4096;

/// Bytes that came before it was their turn.
pub(super) struct Early {
    /// By their offsets; none is empty.
    pieces: BTreeMap<u64, Vec<u8>>,
    bytes: u64,
    bytes_max: u64,
}

impl Early {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { pieces: BTreeMap::new(), bytes: 0, bytes_max }
    }

    /// Keeps a piece: the turn is that of the byte at `next`.
    pub(super) fn keep(&mut self, next: u64, offset: u64, piece: &[u8]) -> Result<(), &'static str> {
        if piece.is_empty() {
            return Ok(());
        }
        let end = offset.checked_add(piece.len() as u64).ok_or("bytes lie behind the last offset that there is")?;
        let before = self.pieces.range(..=offset).next_back();
        let overlaps = before.is_some_and(|(start, bytes)| start + bytes.len() as u64 > offset)
            || self.pieces.range(offset..).next().is_some_and(|(start, _)| *start < end);
        if offset < next || overlaps {
            return Err("bytes came twice");
        }
        let too_much =
            piece.len() as u64 > self.bytes_max.saturating_sub(self.bytes) || self.pieces.len() == PIECES_MAX;
        if too_much && offset != next {
            return Err("too much came before what is missing; 'kept' allows more");
        }
        self.bytes += piece.len() as u64;
        self.pieces.insert(offset, piece.to_vec());
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether the byte at `next` is there.
    pub(super) fn has(&self, next: u64) -> bool {
        self.pieces.contains_key(&next)
    }

    /// Takes what begins at `next` and fits into `into`.
    pub(super) fn take(&mut self, next: u64, into: &mut [u8]) -> usize {
        let Some(mut piece) = self.pieces.remove(&next) else { return 0 };
        let bytes = piece.len().min(into.len());
        into[..bytes].copy_from_slice(&piece[..bytes]);
        if bytes < piece.len() {
            piece.drain(..bytes);
            self.pieces.insert(next + bytes as u64, piece);
        }
        self.bytes -= bytes as u64;
        bytes
    }
}

/// How far the receiving is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Receiving {
    Going,
    /// The layer below has ended; what was kept may be left.
    Ended,
    Refused(&'static str),
}

/// A connection whose bytes are put into order.
pub(super) struct OrderingFlow {
    below: Box<dyn Flow>,
    early: Early,
    /// The offset of the byte whose turn it is.
    next: u64,
    /// Where bytes without an offset belong: behind those that came last.
    follows: u64,
    receiving: Receiving,
    chunk: Vec<u8>,
}

impl OrderingFlow {
    pub(super) fn new(below: Box<dyn Flow>, kept: u64, offset: u64) -> Self {
        let (early, chunk) = (Early::new(kept), vec![0; CHUNK_BYTES]);
        Self { below, early, next: offset, follows: offset, receiving: Receiving::Going, chunk }
    }

    /// Takes a piece from below.
    fn fill(&mut self) -> io::Result<()> {
        let mut info = ReadInfo::default();
        let bytes = self.below.receive(&mut [IoSliceMut::new(&mut self.chunk)], &mut info)?;
        if info.end {
            self.receiving = Receiving::Ended;
        }
        let offset = info.offset.unwrap_or(self.follows);
        self.follows = offset.saturating_add(bytes as u64);
        if let Err(what) = self.early.keep(self.next, offset, &self.chunk[..bytes]) {
            self.receiving = Receiving::Refused(what);
        }
        Ok(())
    }
}

fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl Flow for OrderingFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        let Some(first) = into.iter_mut().find(|slice| !slice.is_empty()) else { return Ok(0) };
        for _ in 0..FILLS_PER_CALL {
            let bytes = self.early.take(self.next, first);
            if bytes > 0 {
                info.offset = Some(self.next);
                self.next += bytes as u64;
                return Ok(bytes);
            }
            match self.receiving {
                Receiving::Going => self.fill()?,
                Receiving::Ended if self.early.is_empty() => {
                    info.end = true;
                    return Ok(0);
                }
                Receiving::Ended => return Err(cut_off("the end came, and bytes before those that came are missing")),
                Receiving::Refused(what) => return Err(refused(what)),
            }
        }
        Err(io::ErrorKind::Interrupted.into())
    }

    fn send(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize> {
        self.below.send(from, info)
    }

    fn below(&self) -> Option<&dyn Flow> {
        Some(&*self.below)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Flow> {
        Some(&mut *self.below)
    }

    fn holds(&self) -> bool {
        self.receiving != Receiving::Going || self.early.has(self.next) || self.below.holds()
    }
}
