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

/// Which end this is, until the flag was exchanged.
#[derive(Clone, Debug)]
enum Role {
    /// The one that was connected to.
    Acceptor,
    /// The one that connected; with a credential it signs a proxy for the other.
    Initiator(Option<Arc<Credential>>),
}

/// What is awaited.
#[derive(Debug)]
enum Awaiting {
    /// The end of TLS's own handshake.
    Tls(Role),
    /// The byte that follows it.
    Flag(Role),
    /// The request for a proxy that the credential signs, of which these bytes have come.
    Request { credential: Arc<Credential>, bytes: Vec<u8> },
    /// Nothing.
    Done,
}

/// A handshake.
#[derive(Debug)]
pub struct Handshake {
    tls: Tls,
    awaiting: Awaiting,
    extent: Extent,
}

impl Handshake {
    pub(super) fn initiate(tls: Tls, extent: Extent, delegates: Option<Arc<Credential>>) -> Self {
        Self { tls, awaiting: Awaiting::Tls(Role::Initiator(delegates)), extent }
    }

    pub(super) fn accept(tls: Tls, extent: Extent) -> Self {
        Self { tls, awaiting: Awaiting::Tls(Role::Acceptor), extent }
    }

    /// Takes what the other end sent, whole records of TLS, and returns what is to be sent; the end that connects begins
    /// with nothing. With an error comes what tells the other end of it.
    ///
    /// # Errors
    /// If the other end is refused, or breaks a rule.
    pub fn step(&mut self, token: &[u8]) -> Result<Vec<u8>, (StreamError, Vec<u8>)> {
        if let Awaiting::Tls(Role::Acceptor) = self.awaiting {
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
            if token.is_empty() || token.len() == before || self.is_done() {
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
        matches!(self.awaiting, Awaiting::Done)
    }

    /// The protected connection, for what follows.
    pub fn into_tls(self) -> Tls {
        self.tls
    }

    fn advance(&mut self) -> Result<(), StreamError> {
        loop {
            let mut bytes = [0; 1024];
            self.awaiting = match &mut self.awaiting {
                Awaiting::Tls(_) if self.tls.is_handshaking() => return Ok(()),
                Awaiting::Tls(role) => after_tls(&mut self.tls, role, self.extent)?,
                Awaiting::Flag(role) => {
                    // Not one byte of what follows the flag.
                    let Some(flag) = received(&mut self.tls, &mut bytes[..1])? else { return Ok(()) };
                    on_flag(&mut self.tls, role, flag[0])?
                }
                Awaiting::Request { credential, bytes: request } => {
                    let Some(more) = received(&mut self.tls, &mut bytes)? else { return Ok(()) };
                    request.extend_from_slice(more);
                    if !answer(&mut self.tls, credential, request)? {
                        continue;
                    }
                    Awaiting::Done
                }
                Awaiting::Done => return Ok(()),
            };
        }
    }
}

/// What is awaited behind TLS's own handshake.
fn after_tls(tls: &mut Tls, role: &Role, extent: Extent) -> Result<Awaiting, StreamError> {
    if extent == Extent::Whole {
        return Ok(Awaiting::Done);
    }
    if let Role::Acceptor = role {
        put(tls, b"\0")?;
    }
    Ok(Awaiting::Flag(role.clone()))
}

/// What is awaited behind the flag.
fn on_flag(tls: &mut Tls, role: &Role, flag: u8) -> Result<Awaiting, StreamError> {
    match (role, flag) {
        (Role::Acceptor, b'0') => Ok(Awaiting::Done),
        (Role::Acceptor, b'D') => Err(broken("a wish to delegate, which nobody asked for")),
        (Role::Initiator(Some(credential)), 0) => {
            put(tls, b"D")?;
            Ok(Awaiting::Request { credential: Arc::clone(credential), bytes: Vec::new() })
        }
        (Role::Initiator(None), 0) => {
            put(tls, b"0")?;
            Ok(Awaiting::Done)
        }
        _ => Err(broken("an unknown flag")),
    }
}

/// Answers a request with a proxy; false where it is not whole yet.
fn answer(tls: &mut Tls, credential: &Credential, request: &[u8]) -> Result<bool, StreamError> {
    let failed = |error| StreamError::Protocol(format!("delegation: {error}"));
    let Some(request) = length_of(request).map_err(failed)?.and_then(|length| request.get(..length)) else {
        return Ok(false);
    };
    let serial = random::array::<4>().map_err(|error| StreamError::Settings(error.to_string()))?;
    let proxy = delegate(credential, request, u32::from_be_bytes(serial)).map_err(failed)?;
    put(tls, &proxy)?;
    Ok(true)
}

/// What has come, if something has.
fn received<'a>(tls: &mut Tls, into: &'a mut [u8]) -> Result<Option<&'a [u8]>, StreamError> {
    match tls.take(into)? {
        Taken::Bytes(0) | Taken::Nothing => Ok(None),
        Taken::Bytes(taken) => Ok(Some(&into[..taken])),
        Taken::End => Err(broken("the end of the connection")),
    }
}

fn put(tls: &mut Tls, bytes: &[u8]) -> Result<(), StreamError> {
    // They are few, and the buffer is empty.
    match tls.put(bytes)? {
        put if put == bytes.len() => Ok(()),
        _ => Err(StreamError::Protocol("the connection takes nothing".to_owned())),
    }
}

fn broken(what: &str) -> StreamError {
    StreamError::Protocol(format!("the other end sent {what} in the handshake of GSI"))
}
