//! One TLS connection, fed record by record.
//!
//! It must not read ahead: its driver reads [`RECORD_HEAD_BYTES`], then what [`Stream::want`]
//! returns, and never more.

use std::io::{Read, Write};

use rustls::Connection;
use xdfs_proto::base::{Error, ErrorKind, SessionId, Suite};
use zeroize::Zeroizing;

use super::{DATA_BYTES_MAX, FAREWELL_BYTES, Farewell, PROTOCOL, failed};
use crate::keys::{JoinSecret, SECRET_BYTES};
use crate::policy::Fingerprint;
use crate::secret::Secret;

/// Bytes of a TLS record's head.
pub const RECORD_HEAD_BYTES: usize = 5;
/// Longest TLS record: 2^14 bytes and what encryption may add (RFC 8446, section 5.2).
const RECORD_BYTES_MAX: usize = (1 << 14) + 256;

/// Label of the exporter's value from which a session's keys are derived; its context is the
/// session id.
const JOIN_LABEL: &[u8] = b"EXPORTER-xdfs-join-v1";
/// Label of the value that signatures of a login are bound to.
const LOGIN_LABEL: &[u8] = b"EXPORTER-xdfs-login-v1";
/// RFC 9266's label for channel bindings, which SCRAM uses.
const CHANNEL_BINDING_LABEL: &[u8] = b"EXPORTER-Channel-Binding";

/// Collects one record: head, then body.
#[derive(Debug, Default)]
pub(super) struct Record {
    bytes: Vec<u8>,
    /// One of data has come: all that follows is sealed, and sealed records are of no other type
    /// (RFC 8446, section 5.2).
    sealed: bool,
}

impl Record {
    /// Bytes that are missing.
    pub(super) fn want(&self) -> usize {
        match self.bytes.as_slice() {
            [_, _, _, high, low] => usize::from(u16::from_be_bytes([*high, *low])),
            _ => RECORD_HEAD_BYTES,
        }
    }

    /// The requested bytes arrived. Returns the record when it is complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let head = self.bytes.is_empty();
        if bytes.len() != self.want() {
            return Err(Error::new(ErrorKind::Protocol, "not the bytes that were asked for"));
        }
        self.bytes.extend_from_slice(bytes);
        if !head {
            return Ok(Some(std::mem::take(&mut self.bytes)));
        }
        // Alert, handshake, change of ciphers (for old middle boxes), data: nothing else is a TLS
        // record. Its version means nothing (RFC 8446, section 5.1) and is covered by no key, so
        // there is one that is taken, and the one that hellos have for old servers: what cannot
        // differ carries nothing for somebody on the way.
        let version = bytes[2] == 3 || bytes[2] == 1 && bytes[0] == 22;
        if !(20..=23).contains(&bytes[0]) || bytes[1] != 3 || !version {
            return Err(Error::new(ErrorKind::Protocol, "these bytes are no TLS"));
        }
        if self.sealed && bytes[0] != 23 {
            return Err(Error::new(ErrorKind::Protocol, "a TLS record in clear behind one that was sealed"));
        }
        self.sealed |= bytes[0] == 23;
        if self.want() > RECORD_BYTES_MAX || self.want() == 0 {
            return Err(Error::new(ErrorKind::Protocol, "a TLS record is empty or too long"));
        }
        Ok(None)
    }
}

/// One TLS connection, fed record by record.
#[derive(Debug)]
pub struct Stream {
    connection: Connection,
    record: Record,
    /// Wiped when it is dropped: logins pass here.
    received: Zeroizing<Vec<u8>>,
    received_in_all: usize,
    sent_in_all: usize,
    host: Option<Fingerprint>,
}

impl Stream {
    pub(super) fn new(mut connection: Connection, host: Option<Fingerprint>) -> Self {
        // The limit is enforced here, over the whole connection.
        connection.set_buffer_limit(None);
        let record = Record::default();
        Self { connection, record, received: Zeroizing::default(), received_in_all: 0, sent_in_all: 0, host }
    }

    /// Bytes to read next.
    pub fn want(&self) -> usize {
        self.record.want()
    }

    /// The requested bytes arrived. An error is fatal; the following [`output`](Self::output)
    /// reports it to the peer.
    pub fn on_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match self.record.push(bytes)? {
            Some(record) => self.on_record(&record),
            None => Ok(()),
        }
    }

    fn on_record(&mut self, record: &[u8]) -> Result<(), Error> {
        let fresh = self.connection.is_handshaking();
        let mut rest = record;
        while !rest.is_empty() {
            let read = self.connection.read_tls(&mut rest);
            let read = read.map_err(|error| Error::new(ErrorKind::Protocol, format!("TLS takes no more: {error}")))?;
            if read == 0 {
                return Err(Error::new(ErrorKind::Protocol, "bytes behind the end of TLS"));
            }
        }
        let state = self.connection.process_new_packets().map_err(|error| failed(&error))?;
        let plain = state.plaintext_bytes_to_read();
        if state.peer_has_closed() {
            return Err(Error::new(ErrorKind::ConnectionLost, "the peer ended the handshake"));
        }
        self.received_in_all += plain;
        if self.received_in_all > DATA_BYTES_MAX {
            return Err(Error::new(ErrorKind::LimitExceeded, "too many bytes inside the handshake"));
        }
        if !fresh && plain == 0 {
            // A ticket, a change of keys, an empty record: none has a place here.
            return Err(Error::new(ErrorKind::Protocol, "a TLS message that may not come behind the handshake"));
        }
        if plain > 0 {
            let old = self.received.len();
            // To the byte: strangers decide how much of it there is.
            self.received.reserve_exact(plain);
            self.received.resize(old + plain, 0);
            let read = self.connection.reader().read_exact(&mut self.received[old..]);
            read.map_err(|error| Error::new(ErrorKind::Resources, error.to_string()))?;
        }
        if fresh && !self.connection.is_handshaking() && self.connection.alpn_protocol() != Some(PROTOCOL) {
            return Err(Error::new(ErrorKind::Protocol, "the peer does not speak this protocol inside TLS"));
        }
        Ok(())
    }

    /// Whether the handshake still runs.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// The application's bytes that arrived and were not consumed; the caller drains what it
    /// consumes.
    pub fn received(&mut self) -> &mut Vec<u8> {
        &mut self.received
    }

    /// Sends bytes of the application with the next [`output`](Self::output).
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.sent_in_all += bytes.len();
        if self.sent_in_all > DATA_BYTES_MAX {
            return Err(Error::new(ErrorKind::LimitExceeded, "too many bytes for the handshake"));
        }
        let written = self.connection.writer().write_all(bytes);
        written.map_err(|error| Error::new(ErrorKind::Resources, error.to_string()))
    }

    /// What is to be sent now.
    pub fn output(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.connection.wants_write() {
            // A vector takes everything.
            if self.connection.write_tls(&mut bytes).is_err() {
                break;
            }
        }
        bytes
    }

    /// The key that the server holds, once that is proved.
    pub fn host(&self) -> Result<Fingerprint, Error> {
        if self.is_handshaking() {
            return Err(unfinished());
        }
        self.host.ok_or_else(unfinished)
    }

    pub(super) fn set_host(&mut self, host: Fingerprint) {
        self.host = Some(host);
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The secret of `session`.
    pub fn join_secret(&self, session: SessionId, suite: Suite) -> Result<JoinSecret, Error> {
        let mut secret = Secret::<SECRET_BYTES>::zeroed();
        self.export(secret.bytes_mut(), JOIN_LABEL, &session.0)?;
        Ok(JoinSecret::from_secret(secret, suite))
    }

    /// What signatures are bound to.
    pub fn login_binding(&self) -> Result<[u8; 32], Error> {
        let mut binding = [0; 32];
        self.export(&mut binding, LOGIN_LABEL, &[])?;
        Ok(binding)
    }

    /// What SCRAM is bound to.
    pub fn channel_binding(&self) -> Result<[u8; 32], Error> {
        let mut binding = [0; 32];
        self.export(&mut binding, CHANNEL_BINDING_LABEL, &[])?;
        Ok(binding)
    }

    /// What no client of ours does.
    #[cfg(test)]
    pub(super) fn refresh_keys(&mut self) {
        self.connection.refresh_traffic_keys().expect("a finished handshake");
    }

    /// What no end of ours does.
    #[cfg(test)]
    pub(super) fn send_unbounded(&mut self, bytes: &[u8]) {
        self.connection.writer().write_all(bytes).expect("memory");
    }

    fn export(&self, into: &mut [u8], label: &[u8], context: &[u8]) -> Result<(), Error> {
        if self.is_handshaking() {
            return Err(unfinished());
        }
        let exported = self.connection.export_keying_material(into, label, Some(context));
        exported.map(drop).map_err(|error| failed(&error))
    }

    /// Leaves TLS: returns the last bytes for the peer, after which records follow, and the state
    /// that waits for the peer's close_notify.
    pub fn leave(mut self) -> Result<(Vec<u8>, Farewell), Error> {
        if self.is_handshaking() || !self.received.is_empty() {
            return Err(Error::new(ErrorKind::Protocol, "bytes of the handshake where records are due"));
        }
        self.connection.send_close_notify();
        let bytes = self.output();
        let secrets = self.connection.dangerous_extract_secrets().map_err(|error| failed(&error))?;
        let (sequence, secrets) = secrets.rx;
        Ok((bytes, Farewell::new(sequence, &secrets)?))
    }
}

fn unfinished() -> Error {
    Error::new(ErrorKind::Internal, "the handshake is not finished")
}

const _: () = assert!(FAREWELL_BYTES > RECORD_HEAD_BYTES);
