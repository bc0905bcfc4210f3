//! Upload in Mode E: we connect n times, and whichever connection has room takes the next block.

use std::io::ErrorKind;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags};

use super::link::Link;
use super::{Client, Error, Fill, PIECE_BYTES};
use crate::command::{Command, Mode};
use crate::mode_e::{HEAD_BYTES, Head, STREAMS_MAX};
use crate::ranges::Range;

/// A data connection of an upload.
struct Connection {
    link: Link,
    state: ConnectionState,
    /// What is being sent, as it is sent.
    outgoing: Vec<u8>,
    /// Memory for the block before it is sealed.
    block: Vec<u8>,
}

/// What a connection does.
enum ConnectionState {
    /// It may take a block.
    Free,
    /// `outgoing` is being sent; `last` when nothing follows it.
    Sending { sent: usize, last: bool },
    /// Its end was sent.
    Ended,
}

/// What is left to send.
struct Remainder {
    /// Offset of the next byte.
    at: u64,
    /// Whether the source has given its last byte, and a connection the mark of the file's end.
    is_ended: bool,
    /// How many connections mark their end.
    streams: u16,
}

impl Client {
    /// Uploads what `fill` gives from offset 0 to its end, on `streams` connections; with TLS, on one. Returns the file's
    /// length.
    ///
    /// # Errors
    /// If the server refuses, or reading fails.
    pub fn upload_parallel(&mut self, name: &[u8], streams: u16, fill: Fill<'_>) -> Result<u64, Error> {
        self.upload_parallel_from(name, 0, streams, fill)
    }

    /// The same from offset `start`. Bytes of the server's file before it stay.
    ///
    /// # Errors
    /// As [`Client::upload_parallel`].
    pub fn upload_parallel_from(
        &mut self,
        name: &[u8],
        start: u64,
        streams: u16,
        fill: Fill<'_>,
    ) -> Result<u64, Error> {
        if self.channels.are_single() {
            return self.upload(name, start, fill);
        }
        let streams = streams.clamp(1, STREAMS_MAX);
        let command = Command::Stor(name.to_vec());
        command.encode()?;
        self.use_mode(Mode::Extended)?;
        let address = self.passive()?;
        if start > 0 {
            self.ask(&Command::RestRanges(vec![Range { start: 0, end: start }]))?;
        }
        self.begin(&command)?;
        let mut connections = Vec::new();
        for _ in 0..streams {
            let mut link = self.connect_data(address)?;
            self.protect_connected(&mut link, &command)?;
            let (outgoing, block) = (Vec::new(), Vec::new());
            connections.push(Connection { link, state: ConnectionState::Free, outgoing, block });
        }
        let mut remainder = Remainder { at: start, is_ended: false, streams };
        let has_ended = |connection: &Connection| matches!(connection.state, ConnectionState::Ended);
        while !connections.iter().all(has_ended) {
            let ready = self.wait_for_room(&connections)?;
            if ready[0] && self.hear(&command)? {
                let reply = "it ended the transfer before the file's end".to_owned();
                return Err(Error::Answer { verb: command.verb(), reply });
            }
            for (connection, _) in connections.iter_mut().zip(&ready[1..]).filter(|(_, ready)| **ready) {
                if let Err(error) = connection.advance(&mut remainder, fill) {
                    let Error::Lost(_) = error else { return Err(error) };
                    return Err(self.why(&command, error));
                }
            }
        }
        // The connections stay open until the server has answered.
        if !self.control.is_ready() {
            self.finish(&command)?;
        }
        Ok(remainder.at)
    }

    /// Which of control channel (something to read) and connections (room to write) are ready.
    fn wait_for_room(&self, connections: &[Connection]) -> Result<Vec<bool>, Error> {
        let mut waited = vec![PollFd::from_borrowed_fd(self.link.as_fd(), PollFlags::IN)];
        for connection in connections {
            let flags = match connection.state {
                ConnectionState::Ended => PollFlags::empty(),
                _ => PollFlags::OUT,
            };
            waited.push(PollFd::from_borrowed_fd(connection.link.as_fd(), flags));
        }
        self.waiting.until_ready(&mut waited, self.waiting.deadline())?;
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        Ok(waited.iter().map(is_ready).collect())
    }
}

impl Connection {
    /// Sends what there is room for, and takes the next block when one is sent.
    fn advance(&mut self, remainder: &mut Remainder, fill: Fill<'_>) -> Result<(), Error> {
        match &mut self.state {
            // It is waited for only because its connection fails.
            ConnectionState::Ended => Err(Error::Lost(ErrorKind::ConnectionReset.into())),
            ConnectionState::Free => {
                let last = remainder.next(fill, &mut self.block)?;
                // Servers read the head alone: of a record that holds more, they would move the rest about.
                self.link.seal(HEAD_BYTES, &mut self.block, &mut self.outgoing)?;
                self.state = ConnectionState::Sending { sent: 0, last };
                self.advance(remainder, fill)
            }
            ConnectionState::Sending { sent, last } => match self.link.write_ready(&self.outgoing[*sent..]) {
                Ok(written) => {
                    *sent += written;
                    if *sent == self.outgoing.len() {
                        self.state = if *last { ConnectionState::Ended } else { ConnectionState::Free };
                    }
                    Ok(())
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
                Err(error) => Err(Error::Lost(error)),
            },
        }
    }
}

impl Remainder {
    /// Makes the next block, or the end of a connection; returns whether it is that.
    fn next(&mut self, fill: Fill<'_>, block: &mut Vec<u8>) -> Result<bool, Error> {
        let head = if self.is_ended {
            Head::End
        } else {
            block.resize(HEAD_BYTES + PIECE_BYTES, 0);
            let read = fill(self.at, &mut block[HEAD_BYTES..]).map_err(Error::Local)?;
            if read > 0 {
                let head = Head::Data { count: read as u64, offset: self.at, last: false };
                block[..HEAD_BYTES].copy_from_slice(&head.encode());
                block.truncate(HEAD_BYTES + read);
                self.at += read as u64;
                return Ok(false);
            }
            self.is_ended = true;
            Head::File { ends: self.streams.into(), last: true }
        };
        block.clear();
        block.extend_from_slice(&head.encode());
        Ok(true)
    }
}
