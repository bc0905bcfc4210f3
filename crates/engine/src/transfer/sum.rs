//! The hash of a source that is not moved.

use super::hashing::{BACK_BYTES, buffer};
use xdfs_proto::base::{Digest, Error, ErrorKind};
use xdfs_secure::content::Running;
use xdfs_xio::store::Source;

/// Reads `length` bytes of `source` from `offset` on, until `stopped` says so. It must be what it was when it was opened.
pub fn of_range(source: &Source, offset: u64, length: u64, stopped: &dyn Fn() -> bool) -> Result<Digest, Error> {
    let mut running = Running::default();
    let mut buffer = buffer()?;
    let mut at = 0;
    while at < length {
        must_go_on(stopped)?;
        let count = (length - at).min(BACK_BYTES as u64) as usize;
        let part = &mut buffer.payload_mut()[..count];
        source.read_exact_at(part, offset + at)?;
        running.add(part);
        at += count as u64;
    }
    source.revalidate()?;
    Ok(running.hash())
}

/// Reads a source that gives its bytes in order, to its end or so many bytes of it.
pub fn of_stream(source: &mut Source, limit: Option<u64>, stopped: &dyn Fn() -> bool) -> Result<Digest, Error> {
    let mut running = Running::default();
    let mut buffer = buffer()?;
    let mut left = limit.unwrap_or(u64::MAX);
    while left > 0 {
        must_go_on(stopped)?;
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

fn must_go_on(stopped: &dyn Fn() -> bool) -> Result<(), Error> {
    if stopped() { Err(Error::new(ErrorKind::Cancelled, "nobody waits for the hash")) } else { Ok(()) }
}
