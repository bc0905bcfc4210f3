//! One TLS connection over a blocking socket. Bytes go through rustls's own reader and writer and nowhere else.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use rustls::Connection;

use crate::error::{Context, Error, Result};

/// Bytes of one write and of one read.
const BLOCK: usize = 256 << 10;

/// An open connection.
#[derive(Debug)]
pub(super) struct Flow {
    connection: Connection,
    stream: TcpStream,
}

impl Flow {
    /// Shakes hands.
    pub(super) fn open(mut connection: Connection, stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true).context(|| "TCP_NODELAY".to_owned())?;
        connection.set_buffer_limit(None);
        let mut flow = Self { connection, stream };
        while flow.connection.is_handshaking() {
            flow.connection.complete_io(&mut flow.stream).context(|| "TLS handshake".to_owned())?;
        }
        flow.flush().context(|| "TLS handshake".to_owned())?;
        Ok(flow)
    }

    /// The socket below.
    pub(super) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends `bytes` zeros.
    pub(super) fn send(&mut self, bytes: u64) -> Result<()> {
        let block = vec![0; BLOCK];
        let mut left = bytes;
        while left > 0 {
            let part = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
            self.write_all(&block[..part])?;
            left -= part as u64;
        }
        Ok(())
    }

    /// Receives `bytes` bytes; fewer are an error.
    pub(super) fn receive(&mut self, bytes: u64) -> Result<u64> {
        let mut block = vec![0; BLOCK];
        let mut got = 0;
        while got < bytes {
            let part = usize::try_from(bytes - got).unwrap_or(BLOCK).min(BLOCK);
            match self.read(&mut block[..part]).context(|| "receive over TLS".to_owned())? {
                0 => return Err(Error::Bound("closed before all bytes had come")),
                count => got += count as u64,
            }
        }
        Ok(got)
    }

    /// Writes and sends everything at once.
    pub(super) fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        let sending = || "send over TLS".to_owned();
        self.connection.writer().write_all(bytes).context(sending)?;
        self.flush().context(sending)
    }

    /// Says that nothing more comes, in order.
    pub(super) fn finish(mut self) -> Result<()> {
        self.connection.send_close_notify();
        self.flush().context(|| "end of TLS".to_owned())
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.stream)?;
        }
        Ok(())
    }
}

impl Read for Flow {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
            match self.connection.read_tls(&mut self.stream) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            self.connection.process_new_packets().map_err(io::Error::other)?;
        }
    }
}
