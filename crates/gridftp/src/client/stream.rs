//! Mode S: one connection, which ends with the file.

use std::io;

use super::{Client, Error, Fill, PIECE_BYTES, Sink, check_range};
use crate::command::{Command, Mode};
use crate::ranges::Range;
use crate::reply::Reply;

impl Client {
    /// Downloads the bytes of a file from `wanted.start` up to its end, which is `wanted.end`.
    ///
    /// # Errors
    /// If the server refuses, sends more or fewer bytes, or the sink fails.
    pub fn download(&mut self, name: &[u8], wanted: Range, sink: Sink<'_>) -> Result<(), Error> {
        check_range(wanted)?;
        let mut at = wanted.start;
        if at > 0 {
            // A name that cannot be sent is found before REST, which the next transfer would obey.
            Command::Retr(name.to_vec()).encode()?;
        }
        let wrong = |received| Error::Length { received, expected: wanted.end };
        let command = Command::Retr(name.to_vec());
        self.receive_data(wanted.start, &command, &mut |bytes| {
            let end = at + bytes.len() as u64;
            if end > wanted.end {
                return Err(wrong(end));
            }
            sink(at, bytes).map_err(Error::Local)?;
            at = end;
            Ok(())
        })?;
        if at == wanted.end {
            return self.finish(&command).map(drop);
        }
        // A server that has sent all it has says so soon; of a connection that was cut some say nothing.
        match self.why(&command, Error::Lost(io::ErrorKind::UnexpectedEof.into())) {
            Error::Lost(_) if self.is_ready() => Err(wrong(at)),
            error => Err(error),
        }
    }

    /// Downloads a file from `start` to wherever it ends, and returns where that is.
    ///
    /// # Errors
    /// If the server refuses, or the sink fails.
    pub fn download_to_end(&mut self, name: &[u8], start: u64, sink: Sink<'_>) -> Result<u64, Error> {
        let mut at = start;
        self.receive_stream_from(start, &Command::Retr(name.to_vec()), &mut |bytes| {
            sink(at, bytes).map_err(Error::Local)?;
            at += bytes.len() as u64;
            Ok(())
        })?;
        Ok(at)
    }

    /// Uploads what `fill` gives from offset `start` to its end. Bytes of the server's file before
    /// `start` stay. Returns the file's length.
    ///
    /// # Errors
    /// If the server refuses, or reading fails.
    pub fn upload(&mut self, name: &[u8], start: u64, fill: Fill<'_>) -> Result<u64, Error> {
        let command = Command::Stor(name.to_vec());
        command.encode()?;
        self.use_mode(Mode::Stream)?;
        let address = self.passive()?;
        if start > 0 {
            self.ask(&Command::Rest(start))?;
        }
        let mut data = self.connect_data(address)?;
        self.open_data(&mut data, &command)?;
        let mut bytes = vec![0; PIECE_BYTES];
        let mut at = start;
        loop {
            let read = fill(at, &mut bytes).map_err(Error::Local)?;
            if read == 0 {
                break;
            }
            match data.write_all(&bytes[..read]) {
                // The server says why it closed, if it does.
                Err(error @ Error::Lost(_)) => return Err(self.why(&command, error)),
                written => written?,
            }
            at += read as u64;
        }
        data.end()?;
        self.finish(&command)?;
        data.take_tickets();
        Ok(at)
    }

    /// Receives everything that a command sends, and returns what the server says at its end.
    pub(super) fn receive_stream(
        &mut self,
        command: &Command,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<Reply, Error> {
        self.receive_stream_from(0, command, take)
    }

    fn receive_stream_from(
        &mut self,
        start: u64,
        command: &Command,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<Reply, Error> {
        self.receive_data(start, command, take)?;
        self.finish(command)
    }

    /// Receives what a command sends, to the end of the data channel.
    fn receive_data(
        &mut self,
        start: u64,
        command: &Command,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        command.encode()?;
        self.use_mode(Mode::Stream)?;
        let address = self.passive()?;
        if start > 0 {
            self.ask(&Command::Rest(start))?;
        }
        let mut data = self.connect_data(address)?;
        self.open_data(&mut data, command)?;
        let mut bytes = vec![0; PIECE_BYTES];
        loop {
            match data.read(&mut bytes, self.waiting.deadline()) {
                Ok(0) => break,
                Ok(read) => take(&bytes[..read])?,
                Err(error @ Error::Lost(_)) => {
                    // Some servers say nothing as long as it is open.
                    drop(data);
                    return Err(self.why(command, error));
                }
                Err(error) => return Err(error),
            }
        }
        data.leave(b"");
        Ok(())
    }
}
