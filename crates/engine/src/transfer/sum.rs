//! The hash of a source that is not transferred.

use super::hashing::{BACK_BYTES, buffer};
use crate::blocking::Slice;
use std::task::Poll;
use xdfs_io::store::Source;
use xdfs_proto::base::{Digest, Error, ErrorKind};
use xdfs_secure::content::Running;

/// A range of a source that is being hashed, slice by slice.
#[derive(Debug)]
pub struct RangeHash {
    source: Source,
    offset: u64,
    length: u64,
    hashed: u64,
    running: Running,
}

impl RangeHash {
    /// The `length` bytes starting at `offset`.
    pub fn new(source: Source, offset: u64, length: u64) -> Self {
        Self { source, offset, length, hashed: 0, running: Running::default() }
    }

    /// The bytes of a file that a peer requests: `wanted` of them starting at `offset`, or all up
    /// to the end.
    pub fn asked_for(source: Source, offset: u64, wanted: Option<u64>) -> Result<Self, Error> {
        let Some(size) = source.attributes().size else {
            let text = format!("'{}' has no end, and so no hash; copy a part of it and hash that", source.shown());
            return Err(Error::new(ErrorKind::Unsupported, text));
        };
        let fits = size.checked_sub(offset).filter(|rest| wanted.is_none_or(|wanted| wanted <= *rest));
        let outside = || {
            let text =
                format!("the range from {offset} on lies outside of '{}', which has {size} bytes", source.shown());
            Error::new(ErrorKind::OutOfRange, text)
        };
        let rest = fits.ok_or_else(outside)?;
        Ok(Self::new(source, offset, wanted.unwrap_or(rest)))
    }

    /// Total number of bytes to hash.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Continues hashing until the slice is over. The source must not have changed since it was
    /// opened.
    pub fn advance(&mut self, slice: &Slice) -> Result<Poll<Digest>, Error> {
        // Not kept between slices: many hashes may be waiting.
        let mut buffer = buffer()?;
        while self.hashed < self.length {
            let count = (self.length - self.hashed).min(BACK_BYTES as u64) as usize;
            let part = &mut buffer.payload_mut()[..count];
            self.source.read_exact_at(part, self.offset + self.hashed)?;
            self.running.add(part);
            self.hashed += count as u64;
            if slice.is_over() {
                return Ok(Poll::Pending);
            }
        }
        self.source.revalidate()?;
        Ok(Poll::Ready(self.running.hash()))
    }
}

/// Reads a range of a source without yielding.
pub fn of_range(source: Source, offset: u64, length: u64) -> Result<Digest, Error> {
    let mut hash = RangeHash::new(source, offset, length);
    loop {
        if let Poll::Ready(digest) = hash.advance(&Slice::start())? {
            return Ok(digest);
        }
    }
}

/// Reads a source that delivers its bytes in order, to its end or up to `limit` bytes.
pub fn of_stream(mut source: Source, limit: Option<u64>) -> Result<Digest, Error> {
    let mut running = Running::default();
    let mut buffer = buffer()?;
    let mut left = limit.unwrap_or(u64::MAX);
    while left > 0 {
        let part = &mut buffer.payload_mut()[..left.min(BACK_BYTES as u64) as usize];
        let count = source.read(part)?;
        running.add(&part[..count]);
        left -= count as u64;
        if count < part.len() {
            break;
        }
    }
    match limit {
        Some(limit) if left > 0 => {
            let text = format!("'{}' ended after {} of {limit} bytes", source.shown(), limit - left);
            Err(Error::new(ErrorKind::OutOfRange, text))
        }
        _ => Ok(running.hash()),
    }
}
