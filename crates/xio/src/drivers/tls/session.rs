//! What runs above a transport's bytes: TLS by itself, or with what grids do in it.

use xdfs_secure::handshake::tls::byte_stream::{StreamError, Taken, Tls};
use xdfs_secure::handshake::tls::gsi::GsiStream;

/// The machine of a stream.
pub(in crate::drivers) trait Session: Send {
    /// What it is, for messages.
    const NAME: &'static str;

    fn is_handshaking(&self) -> bool;

    /// Takes from the front of `bytes`, until there is something to take. What it leaves is to come again.
    fn feed(&mut self, bytes: &mut &[u8]) -> Result<(), StreamError>;

    fn has_something(&self) -> bool;

    fn take(&mut self, into: &mut [u8]) -> Result<Taken, StreamError>;

    fn put(&mut self, bytes: &[u8]) -> Result<usize, StreamError>;

    /// Puts behind `into` what is to be sent.
    fn output(&mut self, into: &mut Vec<u8>);

    /// Ends the own direction.
    fn close(&mut self);

    /// Answers a command of its own: the text, or nothing where there is none yet.
    fn tells(&self, command: &str) -> Option<Option<String>>;
}

impl Session for Tls {
    const NAME: &'static str = "TLS";

    fn is_handshaking(&self) -> bool {
        self.is_handshaking()
    }

    fn feed(&mut self, bytes: &mut &[u8]) -> Result<(), StreamError> {
        self.feed(bytes)
    }

    fn has_something(&self) -> bool {
        self.has_something()
    }

    fn take(&mut self, into: &mut [u8]) -> Result<Taken, StreamError> {
        self.take(into)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<usize, StreamError> {
        self.put(bytes)
    }

    fn output(&mut self, into: &mut Vec<u8>) {
        self.output(into);
    }

    fn close(&mut self) {
        self.close();
    }

    /// `alpn`: the protocol agreed on; `server_name`: what the client asked for; `peer_key`: the fingerprint of its
    /// certificate's key; `suite`.
    fn tells(&self, command: &str) -> Option<Option<String>> {
        match command {
            "alpn" => Some(self.protocol()),
            "server_name" => Some(self.server_name().map(str::to_owned)),
            "peer_key" => Some(self.peer().map(|key| key.to_string())),
            "suite" => Some(self.suite()),
            _ => None,
        }
    }
}

impl Session for GsiStream {
    const NAME: &'static str = "GSI";

    fn is_handshaking(&self) -> bool {
        self.is_handshaking()
    }

    fn feed(&mut self, bytes: &mut &[u8]) -> Result<(), StreamError> {
        self.feed(bytes)
    }

    fn has_something(&self) -> bool {
        self.has_something()
    }

    fn take(&mut self, into: &mut [u8]) -> Result<Taken, StreamError> {
        self.take(into)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<usize, StreamError> {
        self.put(bytes)
    }

    fn output(&mut self, into: &mut Vec<u8>) {
        self.output(into);
    }

    fn close(&mut self) {
        self.close();
    }

    /// `peer`: the name of the other end's certificate; `suite`.
    fn tells(&self, command: &str) -> Option<Option<String>> {
        match command {
            "peer" => Some(self.peer()),
            "suite" => Some(self.suite()),
            _ => None,
        }
    }
}
