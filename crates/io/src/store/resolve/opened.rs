//! Opening a file to read and write it in place.

use super::{Blocked, Root, must_be_regular};
use crate::store::medium::is_generated;
use crate::store::open_file::OpenRequest;
use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use xdfs_proto::base::RelPath;

/// Tries where a file appears and disappears in turn.
const RACE_TRIES_MAX: u32 = 16;

impl Root {
    /// Opens, or creates, the regular file at `path`; a new one gets exactly `mode`. Returns
    /// whether it was created.
    pub(in crate::store) fn open_in_place(
        &self,
        path: &RelPath,
        request: &OpenRequest,
        mode: Mode,
    ) -> Result<(OwnedFd, Stat, bool), Blocked> {
        for _ in 0..RACE_TRIES_MAX {
            if !request.exclusive {
                match self.open_existing(path, request) {
                    Err(stop) if stop == Blocked::at(path, Errno::NOENT) && request.create => {}
                    outcome => return outcome.map(|(file, stat)| (file, stat, false)),
                }
            }
            match self.create_in_place(path, request, mode) {
                Err(stop) if stop == Blocked::at(path, Errno::EXIST) && !request.exclusive => {}
                outcome => return outcome.map(|(file, stat)| (file, stat, true)),
            }
        }
        Err(Blocked::at(path, Errno::BUSY))
    }

    fn open_existing(&self, path: &RelPath, request: &OpenRequest) -> Result<(OwnedFd, Stat), Blocked> {
        let at = |errno| Blocked::at(path, errno);
        // Checked before the open, which may have side effects on anything but a file, and once
        // more on the opened descriptor, which counts.
        let held = self.beneath(path, OFlags::PATH | self.last())?;
        must_be_regular(path, &rustix::fs::fstat(&held).map_err(at)?)?;
        let file = self.beneath(path, access(request) | OFlags::NONBLOCK | OFlags::NOCTTY | self.last())?;
        let stat = rustix::fs::fstat(&file).map_err(at)?;
        must_be_regular(path, &stat)?;
        if stat.st_size == 0 && is_generated(&file).map_err(at)? {
            return Err(Blocked { depth: path.depth(), cause: super::Cause::KernelFile });
        }
        rustix::fs::fcntl_setfl(&file, OFlags::empty()).map_err(at)?;
        Ok((file, stat))
    }

    fn create_in_place(&self, path: &RelPath, request: &OpenRequest, mode: Mode) -> Result<(OwnedFd, Stat), Blocked> {
        let at = |errno| Blocked::at(path, errno);
        let (parent, name) = self.parent_of(path)?;
        let file = parent.create_to_open(name, access(request), mode).map_err(at)?;
        // The umask of the process took something of it, which the caller has considered already.
        rustix::fs::fchmod(&file, mode).map_err(at)?;
        let stat = rustix::fs::fstat(&file).map_err(at)?;
        Ok((file, stat))
    }
}

fn access(request: &OpenRequest) -> OFlags {
    match (request.read, request.write) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        (_, false) => OFlags::RDONLY,
    }
}
