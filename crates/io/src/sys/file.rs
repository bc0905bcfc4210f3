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
