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

use xdfs_secure::handshake::tls::byte_stream::{StreamError, Taken, Tls};
use xdfs_secure::handshake::tls::gsi::Handshake;

use super::Error;

/// How often a wait looks whether to stop.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Bytes of TLS that are read at a time.
const TLS_BYTES: usize = 256 * 1024;

/// The head of a record of TLS: its kind, a version and a length.
const RECORD_HEAD_BYTES: usize = 5;

/// Longest record of TLS behind its head.
const RECORD_BYTES_MAX: usize = 16 * 1024 + 256;

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
    /// Whether the peer may end the connection without the end of TLS, as servers with GSI do.
    may_just_end: bool,
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

    /// A connection that the server began, which does not block.
    pub(super) fn accepted(stream: TcpStream, waiting: &Waiting) -> Self {
        Self { stream, waiting: waiting.clone(), tls: None }
    }

    /// No wait without any progress is longer from now on.
    pub(super) fn wait_at_most(&mut self, limit: Duration) {
        self.waiting.limit = limit;
    }

    /// Tells the peer at once that what arrives has arrived, until the system thinks better of it: many servers send the
    /// second of two replies only when they know that of the first, which otherwise takes 40 ms.
    pub(super) fn acknowledge_at_once(&self) {
        // Without it all is as well, but late.
        let _ = sockopt::set_tcp_quickack(&self.stream, true);
    }

    /// The own address that the server sees, if nothing between changes it.
    pub(super) fn own_ip(&self) -> Result<IpAddr, Error> {
        self.stream.local_addr().map(|address| address.ip()).map_err(Error::Lost)
    }

    /// Begins TLS. Returns whether it continues the session of an earlier connection.
    pub(super) fn protect(&mut self, tls: Tls) -> Result<bool, Error> {
        let mut protected = Box::new(Protected { tls, incoming: Vec::new(), taken: 0, may_just_end: false });
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

    /// The handshake of GSI. Nothing behind it is read, so that what follows may be bare. `wait` returns when there is
    /// something to read.
    pub(super) fn shake_hands(
        &mut self,
        mut handshake: Handshake,
        wait: &mut dyn FnMut(&Self) -> Result<(), Error>,
    ) -> Result<Tls, Error> {
        let deadline = self.waiting.deadline();
        let mut record = Vec::new();
        loop {
            let output = match handshake.step(&record) {
                Ok(output) => output,
                Err((error, output)) => {
                    self.write_at_once(&output);
                    return Err(error.into());
                }
            };
            self.write_bare(&output)?;
            if handshake.is_done() {
                return Ok(handshake.into_tls());
            }
            wait(self)?;
            record.resize(RECORD_HEAD_BYTES, 0);
            self.read_exactly(&mut record, deadline)?;
            let length = usize::from(u16::from_be_bytes([record[3], record[4]]));
            if length > RECORD_BYTES_MAX {
                return Err(StreamError::Protocol("the server sent no TLS on a data channel".to_owned()).into());
            }
            record.resize(RECORD_HEAD_BYTES + length, 0);
            self.read_exactly(&mut record[RECORD_HEAD_BYTES..], deadline)?;
        }
    }

    fn read_exactly(&mut self, mut into: &mut [u8], deadline: Instant) -> Result<(), Error> {
        while !into.is_empty() {
            match self.read_bare(into, deadline)? {
                0 => return Err(Error::Lost(ErrorKind::UnexpectedEof.into())),
                read => into = &mut into[read..],
            }
        }
        Ok(())
    }

    /// TLS from now on, whose handshake is done. Servers with GSI end its connections without a word; what they carry
    /// is whole if it has the length or the marks that it should have.
    pub(super) fn carry(&mut self, tls: Tls) {
        self.tls = Some(Box::new(Protected { tls, incoming: Vec::new(), taken: 0, may_just_end: true }));
    }

    /// Reads more for TLS. False at an end that may come without a word.
    fn refill(&mut self, protected: &mut Protected, deadline: Instant) -> Result<bool, Error> {
        protected.incoming.resize(TLS_BYTES, 0);
        protected.taken = 0;
        let read = self.read_bare(&mut protected.incoming, deadline);
        protected.incoming.truncate(*read.as_ref().unwrap_or(&0));
        // Whoever is between can end a connection, but not say that this is the end.
        match read? {
            0 if protected.may_just_end => Ok(false),
            0 => Err(Error::Lost(ErrorKind::UnexpectedEof.into())),
            _ => Ok(true),
        }
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
            if !self.refill(protected, deadline)? {
                return Ok(0);
            }
        }
    }

    /// Reads what there is without waiting; `None` if there is nothing, 0 at the end.
    pub(super) fn read_ready(&mut self, into: &mut [u8]) -> Result<Option<usize>, Error> {
        let Some(protected) = &mut self.tls else { return read_once(&self.stream, into) };
        let mut filled = 0;
        loop {
            while let Some(taken) = protected.take(&mut into[filled..])? {
                filled += taken;
                if taken == 0 || filled == into.len() {
                    return Ok(Some(filled));
                }
            }
            if filled > 0 {
                return Ok(Some(filled));
            }
            protected.incoming.resize(TLS_BYTES, 0);
            protected.taken = 0;
            let read = read_once(&self.stream, &mut protected.incoming);
            protected.incoming.truncate(read.as_ref().map_or(0, |read| read.unwrap_or(0)));
            match read? {
                None => return Ok(None),
                Some(0) if protected.may_just_end => return Ok(Some(0)),
                Some(0) => return Err(Error::Lost(ErrorKind::UnexpectedEof.into())),
                Some(_) => {}
            }
        }
    }

    /// Makes of these bytes what is sent, and [`Link::write_ready`] takes; the memory of both is used again. TLS has the
    /// first `head` bytes apart.
    pub(super) fn seal(&mut self, head: usize, bytes: &mut Vec<u8>, sealed: &mut Vec<u8>) -> Result<(), Error> {
        let Some(protected) = &mut self.tls else {
            std::mem::swap(bytes, sealed);
            return Ok(());
        };
        sealed.clear();
        let (head, content) = bytes.split_at(head.min(bytes.len()));
        for mut rest in [head, content] {
            while !rest.is_empty() {
                let put = protected.tls.put(rest)?;
                rest = &rest[put..];
                protected.tls.output(sealed);
            }
        }
        Ok(())
    }

    /// Writes what there is room for, of bytes that are sealed.
    pub(super) fn write_ready(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
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
    pub(super) fn write_at_once(&mut self, bytes: &[u8]) {
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
}

/// Reads once without waiting; `None` if there is nothing.
fn read_once(mut stream: &TcpStream, into: &mut [u8]) -> Result<Option<usize>, Error> {
    match stream.read(into) {
        Ok(read) => Ok(Some(read)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(Error::Lost(error)),
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
