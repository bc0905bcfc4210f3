//! What the kernel does with a file and `rustix` has no name for.

use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd};

/// Has the kernel begin to write what is dirty of a file, and waits for none of it. Nothing is promised by it: an error of the
/// writing itself is told to whoever syncs.
pub(crate) fn begin_writing(file: impl AsFd) -> Result<(), Errno> {
    // SAFETY: the call takes a descriptor, which is open for as long as it is borrowed here, and numbers.
    let result = unsafe { libc::sync_file_range(file.as_fd().as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
    if result == 0 {
        return Ok(());
    }
    match std::io::Error::last_os_error().raw_os_error().map(Errno::from_raw_os_error) {
        // Of no use to this file system, or a kernel or sandbox without it.
        None | Some(Errno::INVAL | Errno::SPIPE | Errno::NOSYS | Errno::PERM | Errno::OPNOTSUPP) => Ok(()),
        Some(errno) => Err(errno),
    }
}
