//! FIFOs of a store: one end, which never waits. Bytes that are taken out of it are gone.

use super::Result;
use super::errors::{self, Verb};
use super::open_file::identity_of;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What the kernel keeps between the two ends, where it permits that: a batch of calls has a quarter
/// of it.
const PIPE_BYTES: usize = 1 << 20;

/// A FIFO, and the end of it that was requested.
#[derive(Debug)]
pub struct OpenPipe {
    /// Which file it is, as [`super::OpenFile::identity`].
    pub identity: [u8; 24],
    /// The end; none to write where nobody has the other one open.
    pub end: Option<PipeEnd>,
}

/// One end of a FIFO.
#[derive(Debug)]
pub struct PipeEnd {
    file: OwnedFd,
    /// Its name in messages.
    shown: String,
}

/// What was found at the reading end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PipeRead {
    /// So many bytes.
    Bytes(usize),
    /// Nothing yet.
    Empty,
    /// Nothing, and everybody who wrote has closed it.
    End,
}

impl OpenPipe {
    pub(super) fn new(held: &OwnedFd, end: Option<OwnedFd>, shown: String) -> Result<Self> {
        let identity = identity_of(held).map_err(|errno| errors::failed(Verb::Look, &shown, errno))?;
        if let Some(file) = &end {
            // A smaller pipe only means more calls.
            let _ = rustix::pipe::fcntl_setpipe_size(file, PIPE_BYTES);
        }
        Ok(Self { identity, end: end.map(|file| PipeEnd { file, shown }) })
    }
}

impl AsFd for PipeEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl PipeEnd {
    /// Takes at most `buf.len()` bytes, which is not 0, out of it.
    pub fn read(&self, buf: &mut [u8]) -> Result<PipeRead> {
        loop {
            match rustix::io::read(&self.file, &mut *buf) {
                // Nobody has it open to write, now: that is its end if somebody had before.
                Ok(0) => {
                    let events = self.events().map_err(|errno| self.failed(Verb::Read, errno))?;
                    if !events.contains(PollFlags::IN) {
                        return Ok(if events.contains(PollFlags::HUP) { PipeRead::End } else { PipeRead::Empty });
                    }
                }
                Ok(bytes) => return Ok(PipeRead::Bytes(bytes)),
                Err(Errno::AGAIN) => return Ok(PipeRead::Empty),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.failed(Verb::Read, errno)),
            }
        }
    }

    /// Puts bytes into it; returns how many it had room for. Up to 4096 go in as a whole or not at
    /// all. It is an error (EPIPE) if nobody reads any more.
    pub fn write(&self, data: &[u8]) -> Result<usize> {
        match rustix::io::retry_on_intr(|| rustix::io::write(&self.file, data)) {
            Ok(bytes) => Ok(bytes),
            Err(Errno::AGAIN) => Ok(0),
            Err(errno) => Err(self.failed(Verb::Write, errno)),
        }
    }

    fn events(&self) -> std::result::Result<PollFlags, Errno> {
        let mut ends = [PollFd::new(&self.file, PollFlags::IN)];
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut ends, Some(&Timespec::default())))?;
        Ok(ends[0].revents())
    }

    fn failed(&self, verb: Verb, errno: Errno) -> xdfs_proto::base::Error {
        errors::failed(verb, &self.shown, errno)
    }
}
