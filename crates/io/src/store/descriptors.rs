//! How many files this process may have open, and how they are shared.
//!
//! A new descriptor gets the lowest free number, so at least that many are open. Descriptors that a
//! transfer holds for its whole duration are refused above a threshold below the limit: calls and
//! groups of small files hold theirs only briefly, and need some to be free.

use super::errors::{self, Verb};
use super::{Error, Result};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::os::fd::{AsFd, AsRawFd};
use xdfs_proto::base::ErrorKind;
use xdfs_proto::base::commit::MEMBERS_MAX;

/// Maximum number of descriptors above the threshold; a file of a group takes two, since each may
/// be in its own directory.
const ABOVE_MAX: u64 = 64;

/// EMFILE and ENFILE, as errors carry them.
const SCARCE: [u16; 2] = [24, 23];

/// Maximum number of files that this process may have open.
pub fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Whether an error reports that too many files are open, here or at the peer: it is temporary.
pub fn are_scarce(error: &Error) -> bool {
    error.kind == ErrorKind::Resources && SCARCE.contains(&error.errno)
}

/// How many files of a group may be open at a time: the groups of several threads together use a
/// part of the limit.
pub(super) fn members_max() -> usize {
    usize::try_from(limit() / 16).unwrap_or(usize::MAX).clamp(1, MEMBERS_MAX)
}

/// Refuses `file`, which was just opened for a transfer, if that leaves too few descriptors for
/// everything else.
pub(super) fn must_be_below_line(file: impl AsFd, verb: Verb, shown: &str) -> Result<()> {
    let limit = limit();
    let number = u64::try_from(file.as_fd().as_raw_fd()).unwrap_or(0);
    if number < line(limit) { Ok(()) } else { Err(errors::failed(verb, shown, Errno::MFILE)) }
}

/// Refuses what needs another descriptor, if that would leave too few; `any` is open.
pub(super) fn must_leave_room(any: impl AsFd, verb: Verb, shown: &str) -> Result<()> {
    let next = rustix::io::fcntl_dupfd_cloexec(any, 0).map_err(|errno| errors::failed(verb, shown, errno))?;
    must_be_below_line(next, verb, shown)
}

/// The lowest descriptor number that no transfer may use.
fn line(limit: u64) -> u64 {
    limit - (limit / 3).min(ABOVE_MAX).max(limit / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_limit_is_above_the_line() {
        for (limit, expected) in [(32, 22), (64, 43), (128, 86), (256, 192), (1024, 896), (1 << 20, 917_504)] {
            assert_eq!(line(limit), expected, "{limit}");
        }
    }

    #[test]
    fn too_many_open_files_are_known_by_their_number() {
        let error = |errno| errors::failed(Verb::Open, "f", errno);
        assert!(are_scarce(&error(Errno::MFILE)) && are_scarce(&error(Errno::NFILE)));
        assert!(!are_scarce(&error(Errno::NOMEM)) && !are_scarce(&error(Errno::ACCESS)));
    }
}
