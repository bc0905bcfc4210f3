//! One direction of a pipe: a descriptor that never waits, whatever it is, and whose flags nobody
//! else sees.

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long between two looks whether a named pipe has a reader: the kernel does not tell.
const READER_PAUSE: Duration = Duration::from_millis(10);

/// A descriptor.
pub(super) struct End {
    descriptor: OwnedFd,
    socket: bool,
    /// The kernel can report on it: it is neither a file nor a device that is always ready.
    waits: bool,
}

impl End {
    /// Of a standard stream. Its flags belong to all who share it: what can be is opened anew, with
    /// flags of its own; a file's position is shared on purpose.
    fn of_standard(stream: BorrowedFd<'_>, access: OFlags) -> io::Result<Self> {
        let kind = FileType::from_raw_mode(rustix::fs::fstat(stream)?.st_mode);
        let descriptor = match kind {
            FileType::Fifo | FileType::CharacterDevice => {
                let path = format!("/proc/self/fd/{}", stream.as_raw_fd());
                rustix::fs::open(path, access | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())?
            }
            _ => rustix::io::fcntl_dupfd_cloexec(stream, 3)?,
        };
        Self::new(descriptor, kind == FileType::Socket)
    }

    fn new(descriptor: OwnedFd, socket: bool) -> io::Result<Self> {
        let probe = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let waits = match epoll::add(&probe, &descriptor, EventData::new_u64(0), EventFlags::empty()) {
            Ok(()) => true,
            Err(Errno::PERM) => false,
            Err(error) => return Err(error.into()),
        };
        Ok(Self { descriptor, socket, waits })
    }

    /// What to watch; none where it is always ready.
    pub(super) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.waits.then(|| self.descriptor.as_fd())
    }
}

/// Where bytes come from.
pub(super) struct Input(pub(super) End);

impl Input {
    pub(super) fn standard() -> io::Result<Self> {
        End::of_standard(io::stdin().as_fd(), OFlags::RDONLY).map(Self)
    }

    pub(super) fn named(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let opened = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| named(error, path))?;
        End::new(opened, false).map(Self)
    }

    /// No bytes are the end.
    pub(super) fn receive(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let end = &self.0;
        if end.socket {
            let mut control = RecvAncillaryBuffer::default();
            return Ok(rustix::net::recvmsg(&end.descriptor, into, &mut control, RecvFlags::DONTWAIT)?.bytes);
        }
        let bytes = rustix::io::readv(&end.descriptor, into)?;
        if bytes == 0 && end.waits && !self.has_ended()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(bytes)
    }

    /// A named pipe that had no writer yet gives no bytes, as one does whose writers have left; only
    /// the latter has hung up.
    fn has_ended(&self) -> io::Result<bool> {
        let mut asked = [PollFd::new(&self.0.descriptor, PollFlags::IN)];
        rustix::event::poll(&mut asked, Some(&rustix::event::Timespec::default()))?;
        Ok(asked[0].revents().intersects(PollFlags::HUP | PollFlags::IN | PollFlags::ERR))
    }
}

/// Where bytes go to.
pub(super) enum Output {
    /// A named pipe that may have no reader yet.
    Waiting {
        path: PathBuf,
        /// When to look again; none: now.
        next: Option<Instant>,
    },
    Open(End),
}

impl Output {
    pub(super) fn standard() -> io::Result<Self> {
        End::of_standard(io::stdout().as_fd(), OFlags::WRONLY).map(Self::Open)
    }

    pub(super) fn named(path: &Path) -> Self {
        Self::Waiting { path: path.to_owned(), next: None }
    }

    /// `WouldBlock` until the pipe has a reader.
    pub(super) fn connect(&mut self) -> io::Result<()> {
        let Self::Waiting { path, next } = self else { return Ok(()) };
        if next.is_some() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        match rustix::fs::open(&*path, flags, Mode::empty()) {
            Ok(opened) => {
                *self = Self::Open(End::new(opened, false)?);
                Ok(())
            }
            Err(Errno::NXIO) => {
                *next = Instant::now().checked_add(READER_PAUSE);
                Err(io::ErrorKind::WouldBlock.into())
            }
            Err(error) => Err(named(error, path)),
        }
    }

    /// When to look again for a reader.
    pub(super) fn next_look(&self) -> Option<Instant> {
        if let Self::Waiting { next, .. } = self { *next } else { None }
    }

    /// It is time to look.
    pub(super) fn look(&mut self) {
        if let Self::Waiting { next, .. } = self {
            *next = None;
        }
    }

    pub(super) fn send(&self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        let Self::Open(end) = self else { return Err(io::ErrorKind::NotConnected.into()) };
        if end.socket {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            return Ok(rustix::net::sendmsg(&end.descriptor, from, &mut SendAncillaryBuffer::default(), flags)?);
        }
        Ok(rustix::io::writev(&end.descriptor, from)?)
    }

    pub(super) fn watched(&self) -> Option<BorrowedFd<'_>> {
        if let Self::Open(end) = self { end.watched() } else { None }
    }
}

fn named(error: Errno, path: &Path) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(error.kind(), format!("'{}': {error}", path.display()))
}
