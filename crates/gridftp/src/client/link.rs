//! A connection to a server, in the clear or with TLS. Every wait on it has a deadline, and ends a
//! moment after the caller has asked to stop.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

use xdfs_secure::handshake::tls::byte_stream::{Taken, Tls};

use super::Error;

/// How often a wait looks whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Bytes of TLS that are read at a time.
const TLS_BYTES: usize = 64 * 1024;

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
    tls: Option<Box<Protected>>,
}

/// TLS on a connection.
#[derive(Debug)]
struct Protected {
    tls: Tls,
    /// What was read and not given to TLS yet.
    incoming: Vec<u8>,
    /// Where that begins.
    taken: usize,
}

impl Protected {
    /// Gives TLS what was read, until it has something for the reader.
    fn feed(&mut self) -> Result<(), Error> {
        let mut rest = &self.incoming[self.taken..];
        let fed = self.tls.feed(&mut rest);
        self.taken = self.incoming.len() - rest.len();
        Ok(fed?)
    }

    /// Takes what the server sent; `None` if more has to be read first.
    fn take(&mut self, into: &mut [u8]) -> Result<Option<usize>, Error> {
        loop {
            match self.tls.take(into)? {
                Taken::Bytes(0) | Taken::Nothing if self.taken < self.incoming.len() => self.feed()?,
                Taken::Bytes(0) | Taken::Nothing => return Ok(None),
                Taken::Bytes(bytes) => return Ok(Some(bytes)),
                Taken::End => return Ok(Some(0)),
            }
        }
    }

    fn output(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.tls.output(&mut bytes);
        bytes
    }
}

impl Link {
    /// Connects, with socket buffers of that size where one is given.
    pub(super) fn connect(address: SocketAddr, waiting: &Waiting, window: Option<u32>) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::Connect { address, error };
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            socket_with(family, SocketType::STREAM, flags, None).map_err(|error| Error::Local(error.into()))?;
        set_window(&socket, window)?;
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
        Ok(Self { stream, waiting: waiting.clone(), tls: None })
    }

    /// The own address that the server sees, if nothing between changes it.
    pub(super) fn own_ip(&self) -> Result<IpAddr, Error> {
        self.stream.local_addr().map(|address| address.ip()).map_err(Error::Lost)
    }

    /// Begins TLS. Returns whether it continues the session of an earlier connection.
    pub(super) fn protect(&mut self, tls: Tls) -> Result<bool, Error> {
        let mut protected = Box::new(Protected { tls, incoming: Vec::new(), taken: 0 });
        let deadline = self.waiting.deadline();
        loop {
            self.write_bare(&protected.output())?;
            if !protected.tls.is_handshaking() {
                break;
            }
            self.refill(&mut protected, deadline)?;
            if let Err(error) = protected.feed() {
                // The alert says to the server what is wrong.
                self.write_at_once(&protected.output());
                return Err(error);
            }
        }
        let is_resumed = protected.tls.is_resumed();
        self.tls = Some(protected);
        Ok(is_resumed)
    }

    /// Reads more for TLS.
    fn refill(&mut self, protected: &mut Protected, deadline: Instant) -> Result<(), Error> {
        protected.incoming.resize(TLS_BYTES, 0);
        protected.taken = 0;
        let read = self.read_bare(&mut protected.incoming, deadline);
        protected.incoming.truncate(*read.as_ref().unwrap_or(&0));
        // Whoever is between can end a connection, but not say that this is the end.
        if read? == 0 { Err(Error::Lost(ErrorKind::UnexpectedEof.into())) } else { Ok(()) }
    }

    /// Reads once, when there is something; 0 at the end.
    pub(super) fn read(&mut self, into: &mut [u8], deadline: Instant) -> Result<usize, Error> {
        let Some(mut protected) = self.tls.take() else { return self.read_bare(into, deadline) };
        let read = self.read_protected(&mut protected, into, deadline);
        self.tls = Some(protected);
        read
    }

    fn read_protected(
        &mut self,
        protected: &mut Protected,
        into: &mut [u8],
        deadline: Instant,
    ) -> Result<usize, Error> {
        loop {
            self.waiting.check()?;
            if let Some(read) = protected.take(into)? {
                return Ok(read);
            }
            self.write_bare(&protected.output())?;
            self.refill(protected, deadline)?;
        }
    }

    /// Whether [`Link::read`] has something without waiting that no poll of the connection shows.
    pub(super) fn holds_more(&self) -> bool {
        self.tls
            .as_ref()
            .is_some_and(|protected| protected.tls.has_something() || protected.taken < protected.incoming.len())
    }

    /// Whether there is something to read, or the end.
    pub(super) fn has_something(&self) -> bool {
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let found = poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], Some(&none));
        self.holds_more() || !matches!(found, Ok(0))
    }

    /// Takes the tickets that the server may have sent, of a connection on which nothing else is read.
    pub(super) fn take_tickets(&mut self) {
        let Some(protected) = &mut self.tls else { return };
        protected.incoming.resize(TLS_BYTES, 0);
        protected.taken = 0;
        let read = self.stream.read(&mut protected.incoming).unwrap_or(0);
        protected.incoming.truncate(read);
        // Without a ticket the next connection begins a new session, which the server may refuse.
        let _ = protected.feed();
    }

    fn read_bare(&mut self, into: &mut [u8], deadline: Instant) -> Result<usize, Error> {
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
        let Some(mut protected) = self.tls.take() else { return self.write_bare(bytes) };
        let written = (|| {
            while !bytes.is_empty() {
                let put = protected.tls.put(bytes)?;
                bytes = &bytes[put..];
                self.write_bare(&protected.output())?;
            }
            Ok(())
        })();
        self.tls = Some(protected);
        written
    }

    fn write_bare(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
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
    fn write_at_once(&mut self, bytes: &[u8]) {
        // It ends either way.
        let _ = self.stream.write(bytes);
    }

    /// Sends these last bytes without waiting, and ends.
    pub(super) fn leave(mut self, last: &[u8]) {
        let bytes = match &mut self.tls {
            None => last.to_vec(),
            Some(protected) => {
                let _ = protected.tls.put(last);
                protected.tls.close();
                protected.output()
            }
        };
        self.write_at_once(&bytes);
    }

    /// Ends the own direction.
    pub(super) fn end(&mut self) -> Result<(), Error> {
        if let Some(protected) = &mut self.tls {
            protected.tls.close();
            let last = protected.output();
            self.write_bare(&last)?;
        }
        self.stream.shutdown(Shutdown::Write).map_err(Error::Lost)
    }

    /// The bare connection, which does not block.
    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }
}

/// Sets the size of both buffers of a socket.
pub(super) fn set_window(socket: impl AsFd, window: Option<u32>) -> Result<(), Error> {
    let Some(bytes) = window.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)) else { return Ok(()) };
    let set = sockopt::set_socket_send_buffer_size(&socket, bytes);
    set.and_then(|()| sockopt::set_socket_recv_buffer_size(&socket, bytes)).map_err(|error| Error::Local(error.into()))
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
