//! Files with holes: zeros are not written, and take no space. On a file system without holes they
//! are written.
//!
//! Must not: be called for files that need no holes; every byte is examined here.

use crate::store::io_loops::{Stuck, write_full};
use crate::store::stored_range::{self, StoredRange};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::OwnedFd;

/// Zeros are searched for in pieces of this size, at multiples of it: the block size of nearly
/// every file system.
const PIECE: usize = 4096;

/// Sets `file` to its final length, containing nothing but what is `kept` of an earlier attempt.
/// Space that the attempt had preallocated is released.
pub(super) fn prepare(file: &OwnedFd, size: u64, kept: &[StoredRange]) -> Result<(), Errno> {
    if size > i64::MAX as u64 {
        return Err(Errno::FBIG);
    }
    rustix::fs::ftruncate(file, size)?;
    let mut from = 0;
    for range in stored_range::ranges(kept) {
        punch(file, from, range.offset().saturating_sub(from));
        from = range.end();
    }
    punch(file, from, size.saturating_sub(from));
    Ok(())
}

/// Writes `buf` at `offset`, where there may be other data.
pub(super) fn write(file: &OwnedFd, buf: &[u8], offset: u64) -> Result<(), Stuck> {
    for (zeros, range) in runs(buf, offset) {
        let at = offset.saturating_add(range.start as u64);
        if !(zeros && punch(file, at, range.len() as u64)) {
            write_all(file, buf, range, at)?;
        }
    }
    Ok(())
}

/// Writes `content` to an empty file.
pub(super) fn write_new(file: &OwnedFd, content: &[u8]) -> Result<(), Stuck> {
    for (zeros, range) in runs(content, 0) {
        if !zeros {
            let at = range.start as u64;
            write_all(file, content, range, at)?;
        }
    }
    // No write follows a hole at the end.
    rustix::fs::ftruncate(file, content.len() as u64).map_err(Stuck::Errno)
}

fn write_all(file: &OwnedFd, buf: &[u8], range: Range<usize>, at: u64) -> Result<(), Stuck> {
    write_full(buf.get(range).unwrap_or_default(), at, |part, at| rustix::io::pwrite(file, part, at))
}

/// Whether the range now is zeros that take no space. On an error the zeros are written, which
/// reports it.
fn punch(file: &OwnedFd, offset: u64, length: u64) -> bool {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    length == 0 || rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, flags, offset, length)).is_ok()
}

/// The consecutive runs of `buf`, which is written at `offset`: whether each is zeros, and its
/// range.
fn runs(buf: &[u8], offset: u64) -> impl Iterator<Item = (bool, Range<usize>)> + '_ {
    let mut start = 0;
    std::iter::from_fn(move || {
        let end_of = |at: usize| {
            // Below a piece: fits.
            let inside = (offset.wrapping_add(at as u64) % PIECE as u64) as usize;
            (at + PIECE - inside).min(buf.len())
        };
        let piece = |at: usize| buf.get(at..end_of(at)).filter(|piece| !piece.is_empty()).map(is_zeros);
        let zeros = piece(start)?;
        let from = start;
        while piece(start) == Some(zeros) {
            start = end_of(start);
        }
        Some((zeros, from..start))
    })
}

/// A cache line at a time: nonzero data is usually detected in the first one.
fn is_zeros(piece: &[u8]) -> bool {
    piece.chunks(64).all(|line| line.iter().fold(0, |all, byte| all | byte) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(buf: &[u8], offset: u64) -> Vec<(bool, Range<usize>)> {
        runs(buf, offset).collect()
    }

    #[test]
    fn runs_of_zeros_begin_and_end_at_the_blocks_of_the_file_and_not_of_the_buffer() {
        let mut buf = vec![0; 5 * PIECE];
        assert_eq!(found(&buf, 0), [(true, 0..5 * PIECE)]);
        assert_eq!(found(&[], 0), []);
        buf[2 * PIECE] = 1;
        let three = [(true, 0..2 * PIECE), (false, 2 * PIECE..3 * PIECE), (true, 3 * PIECE..5 * PIECE)];
        assert_eq!(found(&buf, 7 * PIECE as u64), three);
        // A quarter of a block is in front of the first boundary.
        let (from, to) = (PIECE + PIECE / 4, 2 * PIECE + PIECE / 4);
        let three = [(true, 0..from), (false, from..to), (true, to..5 * PIECE)];
        assert_eq!(found(&buf, 3 * PIECE as u64 / 4), three);
        buf.fill(9);
        assert_eq!(found(&buf, 1), [(false, 0..5 * PIECE)]);
    }
}
