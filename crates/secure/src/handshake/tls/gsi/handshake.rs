//! The handshake: TLS, then a byte with which the end that connected says whether it delegates, and the delegation.

use std::sync::Arc;

use super::super::byte_stream::{StreamError, Taken, Tls};
use super::credential::Credential;
use super::delegation::{delegate, length_of};
use super::server_name;
use crate::random;

/// How far GSI goes on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Extent {
    /// It says whether it delegates: control channels, and data channels that are bare afterwards.
    Flagged,
    /// It is TLS to its end.
    Whole,
}

/// What is awaited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Awaiting {
    /// The end of TLS's own handshake.
    Tls,
    /// The byte that follows it.
    Flag,
    /// The request for a proxy.
    Request,
    /// Nothing.
    Done,
}

/// A handshake.
#[derive(Debug)]
pub struct Handshake {
    tls: Tls,
    awaiting: Awaiting,
    extent: Extent,
    is_acceptor: bool,
    /// What signs a proxy for the other end.
    delegates: Option<Arc<Credential>>,
    request: Vec<u8>,
}

impl Handshake {
    pub(super) fn initiate(tls: Tls, extent: Extent, delegates: Option<Arc<Credential>>) -> Self {
        Self { tls, awaiting: Awaiting::Tls, extent, is_acceptor: false, delegates, request: Vec::new() }
    }

    pub(super) fn accept(tls: Tls, extent: Extent) -> Self {
        Self { is_acceptor: true, ..Self::initiate(tls, extent, None) }
    }

    /// Takes what the other end sent, whole records of TLS, and returns what is to be sent; the end that connects begins
    /// with nothing. With an error comes what tells the other end of it.
    ///
    /// # Errors
    /// If the other end is refused, or breaks a rule.
    pub fn step(&mut self, token: &[u8]) -> Result<Vec<u8>, (StreamError, Vec<u8>)> {
        if self.is_acceptor && self.awaiting == Awaiting::Tls {
            let mut token = token.to_vec();
            server_name::hide(&mut token);
            return self.take(&token);
        }
        self.take(token)
    }

    fn take(&mut self, mut token: &[u8]) -> Result<Vec<u8>, (StreamError, Vec<u8>)> {
        let mut outcome = Ok(());
        while outcome.is_ok() {
            let before = token.len();
            outcome = self.tls.feed(&mut token).and_then(|()| self.advance());
            if token.is_empty() || token.len() == before || self.awaiting == Awaiting::Done {
                break;
            }
        }
        let mut output = Vec::new();
        self.tls.output(&mut output);
        match outcome {
            Ok(()) if token.is_empty() => Ok(output),
            Ok(()) => Err((broken("more than its next token"), output)),
            Err(error) => Err((error, output)),
        }
    }

    /// Whether nothing more is awaited.
    pub fn is_done(&self) -> bool {
        self.awaiting == Awaiting::Done
    }

    /// The protected connection, for what follows.
    pub fn into_tls(self) -> Tls {
        self.tls
    }

    fn advance(&mut self) -> Result<(), StreamError> {
        if self.awaiting == Awaiting::Tls && !self.tls.is_handshaking() {
            self.awaiting = if self.extent == Extent::Whole { Awaiting::Done } else { Awaiting::Flag };
            if self.awaiting == Awaiting::Flag && self.is_acceptor {
                self.put(b"\0")?;
            }
        }
        while matches!(self.awaiting, Awaiting::Flag | Awaiting::Request) {
            let mut bytes = [0; 1024];
            // Not one byte of what follows the flag.
            let room = if self.awaiting == Awaiting::Flag { 1 } else { bytes.len() };
            let taken = match self.tls.take(&mut bytes[..room])? {
                Taken::Bytes(0) | Taken::Nothing => return Ok(()),
                Taken::Bytes(taken) => taken,
                Taken::End => return Err(broken("the end of the connection")),
            };
            match self.awaiting {
                Awaiting::Flag => self.on_flag(bytes[0])?,
                _ => self.on_request(&bytes[..taken])?,
            }
        }
        Ok(())
    }

    fn on_flag(&mut self, flag: u8) -> Result<(), StreamError> {
        match (self.is_acceptor, flag) {
            (true, b'0') => self.awaiting = Awaiting::Done,
            (true, b'D') => return Err(broken("a wish to delegate, which nobody asked for")),
            (false, 0) if self.delegates.is_some() => {
                self.put(b"D")?;
                self.awaiting = Awaiting::Request;
            }
            (false, 0) => {
                self.put(b"0")?;
                self.awaiting = Awaiting::Done;
            }
            _ => return Err(broken("an unknown flag")),
        }
        Ok(())
    }

    fn on_request(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        self.request.extend_from_slice(bytes);
        let failed = |error| StreamError::Protocol(format!("delegation: {error}"));
        let Some(length) = length_of(&self.request).map_err(failed)? else { return Ok(()) };
        if self.request.len() < length {
            return Ok(());
        }
        let Some(credential) = self.delegates.take() else { return Err(broken("a request for a proxy")) };
        let serial = random::array::<4>().map_err(|error| StreamError::Settings(error.to_string()))?;
        let proxy = delegate(&credential, &self.request[..length], u32::from_be_bytes(serial)).map_err(failed)?;
        self.put(&proxy)?;
        self.awaiting = Awaiting::Done;
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        // They are few, and the buffer is empty.
        match self.tls.put(bytes)? {
            put if put == bytes.len() => Ok(()),
            _ => Err(StreamError::Protocol("the connection takes nothing".to_owned())),
        }
    }
}

fn broken(what: &str) -> StreamError {
    StreamError::Protocol(format!("the other end sent {what} in the handshake of GSI"))
}
