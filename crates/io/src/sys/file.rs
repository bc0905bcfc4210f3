//! System calls on files that `rustix` does not provide.

use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd};

/// Makes the kernel start writing back the dirty pages of a file, without waiting. It guarantees
/// nothing: a write error is reported to a later sync.
pub(crate) fn begin_writing(file: impl AsFd) -> Result<(), Errno> {
    // SAFETY: the call takes a descriptor, which is open for as long as it is borrowed here, and
    // numbers.
    let result = unsafe { libc::sync_file_range(file.as_fd().as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
    if result == 0 {
        return Ok(());
    }
    match std::io::Error::last_os_error().raw_os_error().map(Errno::from_raw_os_error) {
        // Not supported by this file system, kernel or sandbox.
        None | Some(Errno::INVAL | Errno::SPIPE | Errno::NOSYS | Errno::PERM | Errno::OPNOTSUPP) => Ok(()),
        Some(errno) => Err(errno),
    }
}

/// A lock of a range as fcntl(2) has it; length 0 reaches to the end.
pub(crate) struct LockRange {
    /// F_RDLCK, F_WRLCK or F_UNLCK.
    pub kind: i32,
    pub offset: i64,
    pub length: i64,
}

fn lock_call(file: impl AsFd, command: i32, range: &LockRange) -> Result<LockRange, Errno> {
    // SAFETY: the structure has integers only; some targets have more of them than are set here.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    // The constants of the three kinds and of SEEK_SET are below 3: they fit.
    (lock.l_type, lock.l_whence) = (range.kind as libc::c_short, libc::SEEK_SET as libc::c_short);
    (lock.l_start, lock.l_len) = (range.offset, range.length);
    loop {
        // SAFETY: the descriptor is open for as long as it is borrowed here, and the structure is one
        // of ours, which the call reads and writes.
        if unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, &raw mut lock) } == 0 {
            return Ok(LockRange { kind: lock.l_type.into(), offset: lock.l_start, length: lock.l_len });
        }
        match Errno::from_io_error(&std::io::Error::last_os_error()) {
            Some(Errno::INTR) => {}
            errno => return Err(errno.unwrap_or(Errno::IO)),
        }
    }
}

/// Sets or ends a lock of this open file description, without waiting.
pub(crate) fn set_lock(file: impl AsFd, range: &LockRange) -> Result<(), Errno> {
    lock_call(file, libc::F_OFD_SETLK, range).map(drop)
}

/// A lock that would keep this description from having that one; F_UNLCK where nothing would.
pub(crate) fn find_lock(file: impl AsFd, range: &LockRange) -> Result<LockRange, Errno> {
    lock_call(file, libc::F_OFD_GETLK, range)
}
