//! Opening one end of a FIFO, without waiting for the other one.

use super::{Blocked, Cause, Root};
use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use xdfs_proto::base::RelPath;

impl Root {
    /// The FIFO at `path`, as a descriptor that neither reads nor writes, and the requested end of it;
    /// none to write where nobody reads.
    pub(in crate::store) fn open_fifo(
        &self,
        path: &RelPath,
        write: bool,
    ) -> Result<(OwnedFd, Option<OwnedFd>), Blocked> {
        let at = |errno| Blocked::at(path, errno);
        // Checked before the open, which may have side effects on anything else, and once more on the
        // opened descriptor, which counts.
        let held = self.beneath(path, OFlags::PATH | self.last())?;
        must_be_fifo(path, &rustix::fs::fstat(&held).map_err(at)?)?;
        let access = if write { OFlags::WRONLY } else { OFlags::RDONLY };
        let end = match self.beneath(path, access | OFlags::NONBLOCK | OFlags::NOCTTY | self.last()) {
            Err(Blocked { cause: Cause::Errno(Errno::NXIO), .. }) if write => return Ok((held, None)),
            end => end?,
        };
        let stat = rustix::fs::fstat(&end).map_err(at)?;
        must_be_fifo(path, &stat)?;
        let named = rustix::fs::fstat(&held).map_err(at)?;
        if (stat.st_dev, stat.st_ino) != (named.st_dev, named.st_ino) {
            return Err(at(Errno::AGAIN));
        }
        Ok((held, Some(end)))
    }
}

fn must_be_fifo(path: &RelPath, stat: &Stat) -> Result<(), Blocked> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Fifo => Ok(()),
        kind => Err(Blocked { depth: path.depth(), cause: Cause::Kind(kind) }),
    }
}
