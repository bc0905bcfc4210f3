//! A target that was created while an identical file was being transferred to it: a client was
//! killed, its server executed the requests it had received, and the client's next command could
//! not know of that yet. This avoids writing the file twice.
//!
//! It must not change anything: the caller decides.

use crate::store::Existing;
use crate::store::io_loops::read_full;
use crate::store::resolve::Parent;
use crate::store::stat::{nanoseconds, version_of};
use rustix::fs::{Advice, FileType, Stat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use xdfs_proto::base::Timestamp;

/// Clocks of file systems advance in ticks, and are at most one tick behind; the longest is 10 ms.
const TICK_NANOSECONDS: i128 = 20_000_000;

/// Bytes compared at a time.
const STEP: usize = 256 << 10;

/// The existing file that is kept instead of renaming `new`: `found`, if `existing` permits that
/// and it is identical on stable storage. On any error the file is replaced, which is correct as
/// well.
pub(super) fn stays(parent: &Parent, name: &[u8], found: &Stat, new: &OwnedFd, existing: Existing) -> Option<Stat> {
    let Existing::ReplaceOther { since } = existing else { return None };
    if Timestamp::new(found.st_ctime, nanoseconds(found.st_ctime_nsec)).as_nanoseconds() + TICK_NANOSECONDS
        < since.as_nanoseconds()
    {
        return None;
    }
    let own = rustix::fs::fstat(new).ok()?;
    if !is_alike(&own, found) {
        return None;
    }
    let (file, opened) = parent.open_regular(name).ok()?;
    // The writer may not have waited for it. It is read from where it is to stay: the kernel marks
    // pages that a sync could not write as clean, and does not report that a second time.
    rustix::io::retry_on_intr(|| rustix::fs::fsync(&file)).ok()?;
    let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
    let same = have_the_same_bytes(&file, new, u64::try_from(own.st_size).ok()?).ok()?;
    let behind = parent.look(name).ok()??;
    let version = version_of(found);
    (same && version_of(&opened) == version && version_of(&behind) == version).then_some(behind)
}

/// All attributes are equal, and there is no second link through which another user has it.
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
