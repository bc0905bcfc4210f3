//! Loops that turn partial reads and writes into complete ones: the system calls of a store may be
//! short or interrupted at any time.
//!
//! Shared by every store, so that the fault and sim stores exercise the same loops as the disk.

use super::errors::{self, Verb};
use rustix::io::Errno;
use xdfs_proto::base::{Error, ErrorKind};

/// Consecutive interrupted calls before the error is reported. A signal storm is a fault in itself;
/// without a bound the loop would be endless.
const INTERRUPTS_MAX: u32 = 10_000;

/// Why a loop failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stuck {
    /// The operating system's error.
    Errno(Errno),
    /// A write transferred nothing and returned no error.
    NoProgress,
}

/// The error of a write that made no progress.
pub(super) fn stuck_words(shown: &str, stuck: Stuck) -> Error {
    match stuck {
        Stuck::Errno(errno) => errors::failed(Verb::Write, shown, errno),
        Stuck::NoProgress => errors::refused(ErrorKind::Storage, Verb::Write, shown, "the storage took no bytes"),
    }
}

/// Fills `buf` from `offset` by calls of `some`; fewer bytes are returned only at the end of the
/// source.
pub(super) fn read_full(
    buf: &mut [u8],
    offset: u64,
    mut some: impl FnMut(&mut [u8], u64) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let mut done = 0;
    let mut interrupts = 0;
    while let Some(rest) = buf.get_mut(done..)
        && !rest.is_empty()
    {
        match some(rest, offset + done as u64) {
            Ok(0) => break,
            Ok(count) => {
                done += count;
                interrupts = 0;
            }
            Err(Errno::INTR) if interrupts < INTERRUPTS_MAX => interrupts += 1,
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

/// Writes all of `buf` at `offset` by calls of `some`.
pub(super) fn write_full(
    buf: &[u8],
    offset: u64,
    mut some: impl FnMut(&[u8], u64) -> Result<usize, Errno>,
) -> Result<(), Stuck> {
    let mut done = 0;
    let mut interrupts = 0;
    while let Some(rest) = buf.get(done..)
        && !rest.is_empty()
    {
        match some(rest, offset + done as u64) {
            Ok(0) => return Err(Stuck::NoProgress),
            Ok(count) => {
                done += count;
                interrupts = 0;
            }
            Err(Errno::INTR) if interrupts < INTERRUPTS_MAX => interrupts += 1,
            Err(errno) => return Err(Stuck::Errno(errno)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_interrupted_writes_are_continued() {
        let mut written = Vec::new();
        let mut turn = 0;
        let result = write_full(b"abcdefg", 10, |part, offset| {
            turn += 1;
            assert_eq!(offset, 10 + written.len() as u64);
            if turn % 2 == 0 {
                return Err(Errno::INTR);
            }
            written.extend_from_slice(&part[..part.len().min(2)]);
            Ok(part.len().min(2))
        });
        assert_eq!(result, Ok(()));
        assert_eq!(written, b"abcdefg");
    }

    #[test]
    fn a_write_without_progress_is_an_error_and_not_a_loop() {
        assert_eq!(write_full(b"a", 0, |_, _| Ok(0)), Err(Stuck::NoProgress));
        assert_eq!(write_full(b"a", 0, |_, _| Err(Errno::INTR)), Err(Stuck::Errno(Errno::INTR)));
    }

    #[test]
    fn a_read_is_short_at_the_end_only() {
        let source = b"hello";
        let mut buf = [0; 8];
        let count = read_full(&mut buf, 1, |part, offset| {
            let rest = &source[(offset as usize).min(source.len())..];
            let count = rest.len().min(2).min(part.len());
            part[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        });
        assert_eq!(count, Ok(4));
        assert_eq!(&buf[..4], b"ello");
    }
}
