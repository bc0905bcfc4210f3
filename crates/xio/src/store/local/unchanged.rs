//! What came to have a name while the very same file was on its way there: a client was killed, its server carried out what it had
//! heard, and the client's next command could not know of it yet. Nothing is written twice then.
//!
//! It must not change anything: whoever asks decides.

use super::source::{nanoseconds, version_of};
use crate::store::Existing;
use crate::store::io_loops::read_full;
use crate::store::resolve::Parent;
use rustix::fs::{Advice, FileType, Stat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// Clocks of file systems go in ticks, and are behind by one at most; the longest has 10 ms.
const TICK_NANOSECONDS: i128 = 20_000_000;

/// Bytes that are compared at once.
const STEP: usize = 256 << 10;

/// What stays where `new` would take its name: `found`, where `existing` leaves it and it is the same on stable storage. Whatever
/// cannot be found out is no reason to leave anything: replacing it is right as well.
pub(super) fn stays(parent: &Parent, name: &[u8], found: &Stat, new: &OwnedFd, existing: Existing) -> Option<Stat> {
    let Existing::ReplaceOther { since } = existing else { return None };
    if moment((found.st_ctime, nanoseconds(found.st_ctime_nsec))) + TICK_NANOSECONDS < moment(since) {
        return None;
    }
    let own = rustix::fs::fstat(new).ok()?;
    if !is_alike(&own, found) {
        return None;
    }
    let (file, opened) = parent.open_regular(name).ok()?;
    // Whoever wrote it may not have waited for it. It is read from where it is to stay: what a sync could not write is marked as
    // clean, and nobody is told a second time.
    rustix::io::retry_on_intr(|| rustix::fs::fsync(&file)).ok()?;
    let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
    let same = have_the_same_bytes(&file, new, u64::try_from(own.st_size).ok()?).ok()?;
    let behind = parent.look(name).ok()??;
    let version = version_of(found);
    (same && version_of(&opened) == version && version_of(&behind) == version).then_some(behind)
}

/// Nanoseconds since 1970.
fn moment((seconds, nanoseconds): (i64, u32)) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)
}

/// All that a look tells, and no second name through which somebody else has it.
fn is_alike(own: &Stat, found: &Stat) -> bool {
    let told = |stat: &Stat| {
        (stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_mode, stat.st_uid, stat.st_gid, stat.st_dev)
    };
    FileType::from_raw_mode(found.st_mode) == FileType::RegularFile && found.st_nlink == 1 && told(own) == told(found)
}

fn have_the_same_bytes(one: &OwnedFd, other: &OwnedFd, length: u64) -> Result<bool, Errno> {
    let room = STEP.min(usize::try_from(length).unwrap_or(STEP));
    let (mut left, mut right) = (vec![0; room], vec![0; room]);
    let mut at = 0;
    while at < length {
        let read = |file, into: &mut [u8]| read_full(into, at, |part, at| rustix::io::pread(file, part, at));
        let (count, beside) = (read(one, &mut left)?, read(other, &mut right)?);
        if count == 0 || left.get(..count) != right.get(..beside) {
            return Ok(false);
        }
        at += count as u64;
    }
    Ok(true)
}
