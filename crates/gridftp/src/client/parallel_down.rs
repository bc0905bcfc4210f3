//! Download in Mode E: we listen, the server connects as often as was asked, and one thread reads
//! whatever is ready.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};

use super::link::{Link, set_window};
use super::{Client, Error, Kept, PIECE_BYTES, Sink, WAITS_WITH_MARKERS, check_range};
use crate::command::{Command, Mode};
use crate::mode_e::{Assembly, BlockError, Piece};
use crate::ranges::Range;

/// A part of a file to download on several connections.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    /// Which bytes.
    pub wanted: Range,
    /// How long the file is.
    pub length: u64,
    /// How many connections.
    pub streams: u16,
}

/// Takes the file bytes of several connections.
pub trait Take {
    /// Takes bytes at their offset, as a [`Sink`] does.
    ///
    /// # Errors
    /// Whatever ends the transfer.
    fn take(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Whether a connection that is at `offset` may be read. One that runs far ahead of the others waits,
    /// so that what is kept until they follow has a bound.
    fn has_room_at(&self, offset: u64) -> bool;
}

/// A sink that takes everything at once.
struct Anywhere<'a>(Sink<'a>);

impl Take for Anywhere<'_> {
    fn take(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        (self.0)(offset, bytes)
    }

    fn has_room_at(&self, _: u64) -> bool {
        true
    }
}

/// A data connection, and its number in the assembly.
struct Connection {
    link: Link,
    number: usize,
}

impl Client {
    /// Downloads the bytes of a file from `wanted.start` up to its end, which is `wanted.end`, on
    /// `streams` connections; with TLS, on one. The sink gets them in any order, each byte once.
    ///
    /// # Errors
    /// If the server refuses, a block breaks a rule, or the sink fails.
    pub fn download_parallel(&mut self, name: &[u8], wanted: Range, streams: u16, sink: Sink<'_>) -> Result<(), Error> {
        let part = Part { wanted, length: wanted.end, streams };
        self.download_part(name, part, &mut Anywhere(sink))
    }

    /// The same for a part that may end before the file does; with TLS all that follows comes, too.
    ///
    /// # Errors
    /// As [`Client::download_parallel`].
    pub fn download_part(&mut self, name: &[u8], part: Part, sink: &mut dyn Take) -> Result<(), Error> {
        let Part { wanted, length, streams } = part;
        if self.channels.are_single() {
            let rest = Range { start: wanted.start, end: length };
            return self.download(name, rest, &mut |offset, bytes| sink.take(offset, bytes));
        }
        check_range(wanted)?;
        let command = Command::Retr(name.to_vec());
        command.encode()?;
        self.use_mode(Mode::Extended)?;
        self.ask(&Command::Parallelism(streams))?;
        let listener = self.listen()?;
        let unwanted = [Range { start: 0, end: wanted.start }, Range { start: wanted.end, end: length }];
        let unwanted: Vec<Range> = unwanted.into_iter().filter(|range| range.start < range.end).collect();
        if !unwanted.is_empty() {
            self.ask(&Command::RestRanges(unwanted))?;
        }
        self.begin(&command)?;
        let mut assembly = Assembly::new(wanted, streams);
        let mut connections: Vec<Connection> = Vec::new();
        let (mut is_answered, mut bytes) = (false, vec![0; PIECE_BYTES]);
        let most = self.waiting.limit * WAITS_WITH_MARKERS;
        let mut last = Instant::now() + most;
        while !(is_answered && assembly.is_complete()?) {
            if last <= Instant::now() {
                return Err(Error::Silent(self.waiting.limit.as_secs()));
            }
            let has_room = |connection: &Connection| {
                assembly.position(connection.number).is_none_or(|offset| sink.has_room_at(offset))
            };
            let may_read: Vec<bool> = connections.iter().map(has_room).collect();
            let ready = self.wait_for(&listener, &connections, &may_read)?;
            if ready[0] {
                is_answered |= self.hear(&command)?;
            }
            if ready[1] {
                self.accept(&listener, &mut assembly, &mut connections)?;
            }
            // From the end: those that close are taken out.
            for at in (0..ready.len() - 2).rev().filter(|at| ready[at + 2]) {
                last = Instant::now() + most;
                match receive(&mut connections[at], &mut assembly, &mut bytes, sink) {
                    Ok(true) => {}
                    Ok(false) => drop(connections.swap_remove(at)),
                    Err(error @ (Error::Lost(_) | Error::Block(BlockError::Cut))) if !is_answered => {
                        // None of the others keeps the server from saying why.
                        connections.clear();
                        return Err(self.why(&command, error));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Listens for the server, and says where. What was kept of other transfers ends.
    pub(super) fn listen(&mut self) -> Result<TcpListener, Error> {
        self.kept = Kept::Nothing;
        let listener = TcpListener::bind(SocketAddr::new(self.link.own_ip()?, 0)).map_err(Error::Local)?;
        set_window(&listener, self.window)?;
        listener.set_nonblocking(true).map_err(Error::Local)?;
        self.ask(&Command::Port(listener.local_addr().map_err(Error::Local)?))?;
        Ok(listener)
    }

    /// A connection of the server, if there is one.
    pub(super) fn accept_one(&self, listener: &TcpListener) -> Result<Option<Link>, Error> {
        match listener.accept() {
            // Nobody but the server may send us the file.
            Ok((_, from)) if from.ip().to_canonical() != self.peer.ip().to_canonical() => Ok(None),
            Ok((stream, _)) => {
                stream.set_nonblocking(true).map_err(Error::Lost)?;
                let mut link = Link::accepted(stream, &self.waiting);
                self.channels.accept(&mut link)?;
                Ok(Some(link))
            }
            Err(error) if is_for_later(error.kind()) => Ok(None),
            Err(error) => Err(Error::Local(error)),
        }
    }

    fn accept(
        &self,
        listener: &TcpListener,
        assembly: &mut Assembly,
        connections: &mut Vec<Connection>,
    ) -> Result<(), Error> {
        if let Some(link) = self.accept_one(listener)? {
            connections.push(Connection { link, number: assembly.open()? });
        }
        Ok(())
    }

    /// Which of control channel, listener and the connections that may be read have something, in this
    /// order.
    fn wait_for(
        &self,
        listener: &TcpListener,
        connections: &[Connection],
        may_read: &[bool],
    ) -> Result<Vec<bool>, Error> {
        let read = connections.iter().zip(may_read).filter(|(_, may_read)| **may_read);
        let all = [self.link.as_fd(), listener.as_fd()].into_iter();
        let all = all.chain(read.map(|(connection, _)| connection.link.as_fd()));
        let mut waited: Vec<PollFd<'_>> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        self.waiting.until_ready(&mut waited, self.waiting.deadline())?;
        let mut found = waited.iter().map(|fd| !fd.revents().is_empty());
        let mut next = || found.next().unwrap_or(false);
        let mut ready = vec![next(), next()];
        ready.extend(may_read.iter().map(|may_read| *may_read && next()));
        Ok(ready)
    }
}

fn is_for_later(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted)
}

/// Reads what a connection has. False when the server has closed it.
fn receive(
    connection: &mut Connection,
    assembly: &mut Assembly,
    bytes: &mut [u8],
    sink: &mut dyn Take,
) -> Result<bool, Error> {
    loop {
        let read = match connection.link.read_ready(bytes)? {
            None => return Ok(true),
            Some(0) => {
                assembly.close(connection.number)?;
                return Ok(false);
            }
            Some(read) => read,
        };
        let mut rest = &bytes[..read];
        while !rest.is_empty() {
            match assembly.take(connection.number, rest)? {
                Piece::Control { length } => rest = &rest[length..],
                Piece::Data { offset, length } => {
                    sink.take(offset, &rest[..length]).map_err(Error::Local)?;
                    rest = &rest[length..];
                }
            }
        }
        // What TLS has read already no poll would show.
        if !connection.link.holds_more() {
            return Ok(true);
        }
    }
}
