//! Layers above a socket that were put together at run time, as a link's bytes pass through them.
//! It keeps what the contract of [`Flow`] asks of its caller and decides nothing about waiting: that
//! is the dispatcher's.

use super::{Flow, Interest, ReadInfo, Room, WriteInfo};
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// What is put above the sockets of channels.
pub trait Over: Send + Sync + fmt::Debug {
    /// The layers above `socket`, which need not be connected yet. It does not wait.
    fn over(&self, socket: Box<dyn Flow>) -> io::Result<Box<dyn Flow>>;
}

/// Whether bytes can pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LayersState {
    /// A handshake is not done.
    Opening,
    /// Every handshake is done, which the dispatcher does not know yet.
    JustOpened,
    /// The dispatcher knows it as well.
    Open,
}

/// The topmost element of a stack whose bottom is a socket.
pub struct Layers {
    flow: Box<dyn Flow>,
    state: LayersState,
    /// The deadline of which the element was told: it is told once of each.
    told: Option<Instant>,
    /// What failed first, in either direction and before or after the opening, where an errno says
    /// too little.
    failure: Option<String>,
}

impl Layers {
    /// Layers that may not be open yet.
    pub fn new(flow: Box<dyn Flow>) -> Self {
        Self { flow, state: LayersState::Opening, told: None, failure: None }
    }

    /// Opens the element: `WouldBlock` until every handshake is done. The other calls do so first.
    pub fn connected(&mut self) -> io::Result<()> {
        if self.state == LayersState::Opening {
            self.flow.connected().map_err(|error| self.remember(error))?;
            self.state = LayersState::JustOpened;
        }
        Ok(())
    }

    /// Receives into the slices, in order; zero means the end.
    pub fn receive(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.connected()?;
        let mut info = ReadInfo::default();
        match self.flow.receive(into, &mut info) {
            // An empty message means nothing to a stream.
            Ok(0) if !info.end => Err(io::ErrorKind::Interrupted.into()),
            result => result.map_err(|error| self.remember(error)),
        }
    }

    /// Sends from the slices, in order.
    pub fn send(&mut self, from: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        self.connected()?;
        let info = WriteInfo { more, ..WriteInfo::default() };
        self.flow.send(from, &info).map_err(|error| self.remember(error))
    }

    /// Passes on what was kept: `WouldBlock` while some is left.
    pub fn flush(&mut self) -> io::Result<()> {
        if !self.flow.holds_back() {
            return Ok(());
        }
        self.flow.flush().map_err(|error| self.remember(error))
    }

    /// Begins to tell the peer that no more follows. What cannot go now goes with later calls.
    pub fn finish_sending(&mut self) -> io::Result<()> {
        match self.flow.finish_sending() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            result => result,
        }
    }

    /// Whether `receive` has something that the kernel does not know of.
    pub fn holds(&self) -> bool {
        self.flow.holds()
    }

    /// Whether it has become open since the last call.
    pub fn has_just_opened(&mut self) -> bool {
        let just_opened = self.state == LayersState::JustOpened;
        if just_opened {
            self.state = LayersState::Open;
        }
        just_opened
    }

    /// The directions of the socket whose readiness makes it worth trying `asked` again.
    pub fn wants(&self, asked: Interest) -> Interest {
        if asked == Interest::NONE { asked } else { self.flow.wants(asked) }
    }

    /// How long it is until [`Layers::on_due`] is to be called.
    pub fn due_in(&self) -> Option<Duration> {
        let deadline = self.flow.deadline().filter(|deadline| Some(*deadline) != self.told)?;
        Some(deadline.saturating_duration_since(Instant::now()))
    }

    /// The time that [`Layers::due_in`] named has come.
    pub fn on_due(&mut self) {
        if self.due_in() == Some(Duration::ZERO) {
            self.told = self.flow.deadline();
            self.flow.on_deadline();
        }
    }

    /// Why it failed, if there is more to say than an errno does.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    pub(crate) fn direct(&self) -> Option<BorrowedFd<'_>> {
        self.flow.direct().filter(|_| self.state != LayersState::Opening)
    }

    pub(crate) fn moved_directly(&mut self, bytes: u64) {
        self.flow.moved_directly(bytes);
    }

    pub(crate) fn room(&self) -> Option<Room> {
        self.flow.room()
    }

    /// An error with an errno, which is all that an operation's end tells, and its text for who asks.
    fn remember(&mut self, error: io::Error) -> io::Error {
        use io::ErrorKind as Kind;
        let number = match error.kind() {
            Kind::WouldBlock | Kind::Interrupted => return error,
            Kind::ConnectionRefused => return io::Error::from_raw_os_error(libc::ECONNREFUSED),
            Kind::ConnectionReset => return io::Error::from_raw_os_error(libc::ECONNRESET),
            Kind::ConnectionAborted => return io::Error::from_raw_os_error(libc::ECONNABORTED),
            Kind::BrokenPipe => return io::Error::from_raw_os_error(libc::EPIPE),
            Kind::HostUnreachable => return io::Error::from_raw_os_error(libc::EHOSTUNREACH),
            Kind::NetworkUnreachable => return io::Error::from_raw_os_error(libc::ENETUNREACH),
            // Their own word for it, as where TLS was cut.
            Kind::UnexpectedEof => libc::ECONNRESET,
            Kind::TimedOut => libc::ETIMEDOUT,
            Kind::PermissionDenied => libc::EACCES,
            _ => libc::EPROTO,
        };
        self.failure.get_or_insert_with(|| error.to_string());
        io::Error::from_raw_os_error(number)
    }
}

impl Drop for Layers {
    /// The peer is told of the end as the layers do that, as far as it goes without waiting.
    fn drop(&mut self) {
        if self.state != LayersState::Opening && self.failure.is_none() {
            let _ = self.flow.finish_sending();
        }
    }
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layers").field("state", &self.state).field("failure", &self.failure).finish_non_exhaustive()
    }
}
