//! Many small files: in Mode E the data channel stays open between them, and commands are sent ahead of the replies to
//! those before. A file of some kilobytes then costs one command, not a connection and the round trips of five.

use std::net::TcpListener;
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};

use super::link::Link;
use super::{Client, Error, WAITS_WITH_MARKERS, refused};
use crate::command::{Command, Mode};
use crate::control::{AHEAD_MAX, ControlError, Event};
use crate::mode_e::{Assembly, BlockError, HEAD_BYTES, Head, Piece};
use crate::ranges::Range;
use crate::reply::Reply;

/// Bytes of commands that are sent ahead. The server reads them when it is done with those before, and until then they
/// have room in its socket: more would stop both ends, each waiting for the other to read.
const AHEAD_BYTES_MAX: usize = 8 * 1024;

/// Bytes that are read at a time: several small files.
const READ_BYTES: usize = 128 * 1024;

/// A data channel in Mode E that stays open between files.
#[derive(Debug)]
pub(super) enum Kept {
    /// None.
    Nothing,
    /// The server connects where we listen, and sends.
    Down(Incoming),
    /// We connected, and send.
    Up(Link),
}

/// What the server sends.
#[derive(Debug)]
pub(super) struct Incoming {
    listener: TcpListener,
    /// Its connection, as long as it keeps one.
    link: Option<Link>,
    /// What was read of it, of which the first `taken` bytes are done with: behind the end of a file the next one begins.
    bytes: Vec<u8>,
    taken: usize,
}

impl Incoming {
    /// Whether there is more to read that no poll of the connection shows.
    fn has_more(&self) -> bool {
        self.link.as_ref().is_some_and(Link::holds_more)
    }

    /// Reads once without waiting, when all that was read is taken. False at the end of the connection.
    fn read(&mut self) -> Result<bool, Error> {
        let Some(link) = &mut self.link else { return Ok(true) };
        self.taken = 0;
        self.bytes.resize(READ_BYTES, 0);
        let read = link.read_ready(&mut self.bytes);
        self.bytes.truncate(*read.as_ref().map_or(&0, |read| read.as_ref().unwrap_or(&0)));
        Ok(read? != Some(0))
    }
}

/// Commands of which some are sent ahead of the replies to those before.
struct Ahead<'c> {
    commands: &'c [Command],
    sent: usize,
    answered: usize,
    /// Bytes of the lines that are not answered, in their order.
    bytes: usize,
}

impl<'c> Ahead<'c> {
    fn new(commands: &'c [Command]) -> Self {
        Self { commands, sent: 0, answered: 0, bytes: 0 }
    }

    /// Sends what may be sent now: at least the next command.
    fn send(&mut self, client: &mut Client) -> Result<(), Error> {
        let mut lines = Vec::new();
        while let Some(command) = self.commands.get(self.sent) {
            let length = command.encode().map_err(ControlError::from)?.len();
            if !self.is_idle() && (self.sent - self.answered >= AHEAD_MAX || self.bytes + length > AHEAD_BYTES_MAX) {
                break;
            }
            let line = client.control.begin_ahead(command)?;
            lines.extend_from_slice(&client.wrap(&line)?);
            self.bytes += length;
            self.sent += 1;
        }
        if lines.is_empty() { Ok(()) } else { client.link.write_all(&lines) }
    }

    /// Sends the next command alone.
    fn send_next(&mut self, client: &mut Client) -> Result<(), Error> {
        let (all, sent) = (self.commands, self.sent + 1);
        self.commands = all.get(..sent).unwrap_or(all);
        let outcome = self.send(client);
        self.commands = all;
        outcome
    }

    /// Whether every command that was sent is answered.
    fn is_idle(&self) -> bool {
        self.sent == self.answered
    }

    /// The next command was answered.
    fn answered(&mut self) {
        if let Some(command) = self.commands.get(self.answered) {
            // It was encoded before.
            self.bytes = self.bytes.saturating_sub(command.encode().map_or(0, |line| line.len()));
        }
        self.answered += 1;
    }
}

impl Client {
    /// Whether many files can share a data channel: what TLS protects is one connection a file.
    pub fn keeps_channels(&self) -> bool {
        !self.channels.are_single()
    }

    /// Asks many things, each without waiting for the answer to the one before. What the server refuses is an error in
    /// its place.
    ///
    /// # Errors
    /// If a name cannot be sent, before anything is; or if the session is lost.
    pub fn ask_many(&mut self, commands: &[Command]) -> Result<Vec<Result<Reply, Error>>, Error> {
        must_be_sendable(commands)?;
        let mut ahead = Ahead::new(commands);
        let mut replies = Vec::with_capacity(commands.len());
        for command in commands {
            ahead.send(self)?;
            replies.push(match self.finish(command) {
                Err(error @ Error::Refused { .. }) => Err(error),
                reply => Ok(reply?),
            });
            ahead.answered();
        }
        Ok(replies)
    }

    /// Downloads whole files of these names and lengths, and gives their contents to `take` in this order. What the
    /// server refuses is an error in its place.
    ///
    /// # Errors
    /// If a name cannot be sent, before anything is; if a file has another length, or a block breaks a rule; or if the
    /// session is lost. The session is given up then, whatever the error.
    pub fn download_many(
        &mut self,
        files: &[(&[u8], usize)],
        take: &mut dyn FnMut(Result<Vec<u8>, Error>),
    ) -> Result<(), Error> {
        let commands: Vec<Command> = files.iter().map(|(name, _)| Command::Retr(name.to_vec())).collect();
        must_be_sendable(&commands)?;
        self.use_mode(Mode::Extended)?;
        let mut incoming = match std::mem::replace(&mut self.kept, Kept::Nothing) {
            Kept::Down(incoming) => incoming,
            Kept::Nothing | Kept::Up(_) => {
                self.ask(&Command::Parallelism(1))?;
                Incoming { listener: self.listen()?, link: None, bytes: Vec::new(), taken: 0 }
            }
        };
        let mut ahead = Ahead::new(&commands);
        for (command, (_, length)) in commands.iter().zip(files) {
            ahead.send(self)?;
            take(self.receive_one(&mut incoming, command, *length)?);
            ahead.answered();
        }
        self.kept = Kept::Down(incoming);
        Ok(())
    }

    /// Receives a file that was asked for, unless it is refused. A refusal when it has begun is an error of them all: what
    /// follows on the connection may be the rest of it.
    fn receive_one(
        &mut self,
        incoming: &mut Incoming,
        command: &Command,
        length: usize,
    ) -> Result<Result<Vec<u8>, Error>, Error> {
        let mut assembly = Assembly::new(Range { start: 0, end: length as u64 }, 1);
        let connection = assembly.open()?;
        let (mut content, mut has_begun) = (vec![0; length], false);
        let (mut is_opened, mut is_answered) = (false, false);
        // Markers, and connections that come and go, are no progress.
        let most = self.waiting.limit * WAITS_WITH_MARKERS;
        let mut last = Instant::now() + most;
        loop {
            if last <= Instant::now() {
                return Err(Error::Silent(self.waiting.limit.as_secs()));
            }
            // What the server says behind its answer is about the next file.
            while !is_answered && let Some(event) = self.control.poll() {
                match event {
                    Event::Opened => is_opened = true,
                    Event::Answered(_) => is_answered = true,
                    Event::Refused(reply) if is_opened => return Err(refused(command, &reply)),
                    Event::Refused(reply) => return Ok(Err(refused(command, &reply))),
                    _ => {}
                }
            }
            // Before it has opened, the bytes may be those of the file behind one that is refused.
            while is_opened && incoming.taken < incoming.bytes.len() && !assembly.is_complete()? {
                (has_begun, last) = (true, Instant::now() + most);
                let rest = &incoming.bytes[incoming.taken..];
                incoming.taken += match assembly.take(connection, rest)? {
                    Piece::Control { length } => length,
                    Piece::Data { offset, length } => {
                        // A block lies within the file, or it is refused.
                        let at = usize::try_from(offset).unwrap_or(usize::MAX);
                        content[at..at + length].copy_from_slice(&rest[..length]);
                        length
                    }
                };
            }
            let is_whole = assembly.is_complete()?;
            if is_answered && is_whole {
                return Ok(Ok(content));
            }
            let wants_bytes = is_opened && !is_whole;
            if wants_bytes && incoming.has_more() {
                incoming.read()?;
                continue;
            }
            let [replies, connections, bytes] = self.wait_for_incoming(incoming, !is_answered, wants_bytes)?;
            if replies {
                self.read_control(self.waiting.deadline())?;
            }
            if connections {
                incoming.link = self.accept_one(&incoming.listener)?;
            }
            if bytes && !incoming.read()? {
                if has_begun {
                    return Err(BlockError::Cut.into());
                }
                // It was closed behind the file before: there will be another one.
                incoming.link = None;
            }
        }
    }

    /// Which of a reply, a connection and bytes there are, of those that are waited for.
    fn wait_for_incoming(&self, incoming: &Incoming, replies: bool, bytes: bool) -> Result<[bool; 3], Error> {
        if replies && self.link.holds_more() {
            return Ok([true, false, false]);
        }
        // What is not waited for is not polled at all: its end would be told again and again.
        let fds = [
            replies.then(|| self.link.as_fd()),
            incoming.link.is_none().then(|| incoming.listener.as_fd()),
            incoming.link.as_ref().filter(|_| bytes).map(|link| {
                link.acknowledge_at_once();
                link.as_fd()
            }),
        ];
        let is_polled = fds.map(|fd| fd.is_some());
        let mut waited: Vec<PollFd<'_>> =
            fds.into_iter().flatten().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        self.waiting.until_ready(&mut waited, self.waiting.deadline())?;
        let mut found = waited.iter().map(|fd| !fd.revents().is_empty());
        Ok(is_polled.map(|is_polled| is_polled && found.next().unwrap_or(false)))
    }

    /// Uploads whole files of these names and contents. What the server refuses is an error in its place.
    ///
    /// # Errors
    /// If a name cannot be sent, before anything is; if the server refuses a file that has begun, or has no address for
    /// the data channel; or if the session is lost. The session is given up then, whatever the error.
    pub fn upload_many(&mut self, files: &[(&[u8], &[u8])]) -> Result<Vec<Result<(), Error>>, Error> {
        let commands: Vec<Command> = files.iter().map(|(name, _)| Command::Stor(name.to_vec())).collect();
        must_be_sendable(&commands)?;
        self.use_mode(Mode::Extended)?;
        let mut link = match std::mem::replace(&mut self.kept, Kept::Nothing) {
            // A server says nothing here: it has closed it.
            Kept::Up(link) if !link.has_something() => Some(link),
            _ => None,
        };
        let mut outcomes = Vec::with_capacity(files.len());
        let mut ahead = Ahead::new(&commands);
        for (command, (_, content)) in commands.iter().zip(files) {
            outcomes.push(self.send_one(&mut link, &mut ahead, command, content)?);
            ahead.answered();
        }
        self.kept = link.map_or(Kept::Nothing, Kept::Up);
        Ok(outcomes)
    }

    /// Sends a file, unless it is refused. A refusal when it has begun is an error of them all: nobody knows how much of
    /// it the server has read, and the next file follows on the same connection.
    fn send_one(
        &mut self,
        link: &mut Option<Link>,
        ahead: &mut Ahead<'_>,
        command: &Command,
        content: &[u8],
    ) -> Result<Result<(), Error>, Error> {
        let opened = match link {
            Some(_) => {
                ahead.send(self)?;
                self.wait_until_open(command)
            }
            None => {
                let address = self.passive()?;
                ahead.send_next(self)?;
                let mut connected = self.connect_data(address)?;
                let opened = match self.protect_connected(&mut connected, command) {
                    Ok(false) => self.wait_until_open(command),
                    protected => protected.map(drop),
                };
                if opened.is_ok() {
                    *link = Some(connected);
                }
                opened
            }
        };
        match opened {
            Err(error @ Error::Refused { .. }) => return Ok(Err(error)),
            opened => opened?,
        }
        if let Some(link) = link {
            link.write_all(&blocks_of(content))?;
        }
        self.finish(command).map(|_| Ok(()))
    }
}

/// A whole file in Mode E, on one connection.
fn blocks_of(content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(content.len() + 2 * HEAD_BYTES);
    if !content.is_empty() {
        let head = Head::Data { count: content.len() as u64, offset: 0, last: false };
        bytes.extend_from_slice(&head.encode());
        bytes.extend_from_slice(content);
    }
    bytes.extend_from_slice(&Head::File { ends: 1, last: true }.encode());
    bytes
}

/// An error if one of the commands cannot be sent.
fn must_be_sendable(commands: &[Command]) -> Result<(), Error> {
    commands.iter().try_for_each(|command| command.encode().map(drop).map_err(ControlError::from))?;
    Ok(())
}
