//! A connection to a server. Every wait on it has a deadline, and ends a moment after the caller has
//! asked to stop.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

use super::Error;

/// How often a wait looks whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long a client waits, and whether it is still to wait.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// No wait without any progress is longer.
    pub limit: Duration,
    /// Once it is set every call ends with [`Error::Cancelled`].
    pub stop: Arc<AtomicBool>,
}

impl From<Duration> for Waiting {
    /// Nobody stops it.
    fn from(limit: Duration) -> Self {
        Self { limit, stop: Arc::default() }
    }
}

impl Waiting {
    /// When a wait that begins now ends.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.limit
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        if self.stop.load(Ordering::Acquire) { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Waits until one of these is ready.
    pub(super) fn until_ready(&self, waited: &mut [PollFd<'_>], deadline: Instant) -> Result<(), Error> {
        loop {
            self.check()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::Silent(self.limit.as_secs()));
            }
            let time = Timespec { tv_sec: 0, tv_nsec: left.min(LOOK_EVERY).subsec_nanos().into() };
            match poll(waited, Some(&time)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(Error::Local(error.into())),
            }
        }
    }
}

/// A connection that is never waited for in a call of the system.
#[derive(Debug)]
pub(super) struct Link {
    stream: TcpStream,
    waiting: Waiting,
}

impl Link {
    /// Connects.
    pub(super) fn connect(address: SocketAddr, waiting: &Waiting) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::Connect { address, error };
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            socket_with(family, SocketType::STREAM, flags, None).map_err(|error| Error::Local(error.into()))?;
        match connect(&socket, &address) {
            Ok(()) => {}
            Err(Errno::INPROGRESS | Errno::INTR) => {
                let mut waited = [PollFd::new(&socket, PollFlags::OUT)];
                match waiting.until_ready(&mut waited, waiting.deadline()) {
                    Err(Error::Silent(_)) => return Err(failed(ErrorKind::TimedOut.into())),
                    ready => ready?,
                }
                let outcome = sockopt::socket_error(&socket).map_err(|error| Error::Local(error.into()))?;
                outcome.map_err(|error| failed(error.into()))?;
            }
            Err(error) => return Err(failed(error.into())),
        }
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true).map_err(Error::Lost)?;
        Ok(Self { stream, waiting: waiting.clone() })
    }

    /// The own address that the server sees, if nothing between changes it.
    pub(super) fn own_ip(&self) -> Result<IpAddr, Error> {
        self.stream.local_addr().map(|address| address.ip()).map_err(Error::Lost)
    }

    /// Reads once, when there is something; 0 at the end.
    pub(super) fn read(&mut self, into: &mut [u8], deadline: Instant) -> Result<usize, Error> {
        loop {
            self.waiting.check()?;
            match self.stream.read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => return read.map_err(Error::Lost),
            }
            self.waiting.until_ready(&mut [PollFd::new(&self.stream, PollFlags::IN)], deadline)?;
        }
    }

    /// Writes all of it; no wait for room is longer than the limit.
    pub(super) fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            self.waiting.check()?;
            match self.stream.write(bytes) {
                Ok(0) => return Err(Error::Lost(ErrorKind::WriteZero.into())),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let deadline = self.waiting.deadline();
                    self.waiting.until_ready(&mut [PollFd::new(&self.stream, PollFlags::OUT)], deadline)?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::Lost(error)),
            }
        }
        Ok(())
    }

    /// Writes what there is room for, without waiting: for the last words of a session.
    pub(super) fn write_at_once(&mut self, bytes: &[u8]) {
        // It ends either way.
        let _ = self.stream.write(bytes);
    }

    /// Ends the own direction.
    pub(super) fn end(&mut self) -> Result<(), Error> {
        self.stream.shutdown(Shutdown::Write).map_err(Error::Lost)
    }

    /// The bare connection, which does not block.
    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
