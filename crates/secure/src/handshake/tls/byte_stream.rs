//! TLS 1.3 over a byte stream of any protocol, with certificates on either side: what the driver
//! `tls` of XIO puts above its transport. The handshake of xdfs itself, which leaves TLS behind, is
//! the rest of [`crate::handshake`].
//!
//! No tickets, no resumption, no early data. It moves no bytes: whoever has the transport feeds
//! what arrived ([`Tls::feed`]) and sends what is to be sent ([`Tls::output`]).

use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
};

use super::client::why_bad;
use super::provider;
use crate::policy::Fingerprint;

/// Bytes that wait to be sent, at most: more are taken when those are gone.
const WAITING_BYTES_MAX: usize = 64 * 1024;

/// Why a stream cannot be set up or cannot go on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StreamError {
    /// What it was to be set up with is of no use.
    #[error("{0}")]
    Settings(String),
    /// One end does not take the other's certificate.
    #[error("the certificate is not accepted: {0}")]
    Untrusted(String),
    /// The peer speaks another version of TLS, or has no cipher for it.
    #[error("TLS failed: the ends have no version and no cipher in common")]
    Version,
    /// The peer breaks the rules of TLS.
    #[error("TLS failed: {0}")]
    Protocol(String),
}

impl From<rustls::Error> for StreamError {
    fn from(error: rustls::Error) -> Self {
        use AlertDescription as Alert;
        if let rustls::Error::AlertReceived(Alert::ProtocolVersion | Alert::HandshakeFailure) = error {
            return Self::Version;
        }
        let untrusted = match &error {
            rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => true,
            rustls::Error::AlertReceived(alert) => matches!(
                alert,
                Alert::BadCertificate
                    | Alert::UnsupportedCertificate
                    | Alert::CertificateRevoked
                    | Alert::CertificateExpired
                    | Alert::CertificateUnknown
                    | Alert::UnknownCA
                    | Alert::AccessDenied
                    | Alert::CertificateRequired
            ),
            _ => false,
        };
        if untrusted { Self::Untrusted(why_bad(&error)) } else { Self::Protocol(error.to_string()) }
    }
}

/// A certificate and its key, in PEM.
#[derive(Clone, Copy)]
pub struct Identity<'a> {
    /// The chain, the own certificate first.
    pub chain: &'a [u8],
    /// The private key.
    pub key: &'a [u8],
}

impl Identity<'_> {
    fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), StreamError> {
        let chain = certificates(self.chain)?;
        let key = PrivateKeyDer::from_pem_slice(self.key)
            .map_err(|error| StreamError::Settings(format!("the private key is of no use: {error}")))?;
        Ok((chain, key))
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, StreamError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(StreamError::Settings("it holds no certificate in PEM".to_owned())),
        Err(error) => Err(StreamError::Settings(format!("the certificate is of no use: {error}"))),
    }
}

fn roots(pem: &[u8]) -> Result<Arc<RootCertStore>, StreamError> {
    let mut store = RootCertStore::empty();
    let (usable, _) = store.add_parsable_certificates(certificates(pem)?);
    if usable == 0 {
        return Err(StreamError::Settings("none of the trusted certificates can be read".to_owned()));
    }
    Ok(Arc::new(store))
}

fn protocols(names: &[String]) -> Vec<Vec<u8>> {
    names.iter().map(|name| name.clone().into_bytes()).collect()
}

/// A client's settings.
#[derive(Clone, Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
}

impl Client {
    /// Trusts servers whose certificates lead to one of `trusted` (PEM); shows `identity` to those
    /// that ask. `alpn` are the protocols that it offers, the best first.
    pub fn new(trusted: &[u8], identity: Option<Identity<'_>>, alpn: &[String]) -> Result<Self, StreamError> {
        let roots = roots(trusted)?;
        let builder = ClientConfig::builder_with_provider(provider());
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13])?.with_root_certificates(roots);
        let mut config = match identity {
            Some(identity) => {
                let (chain, key) = identity.read()?;
                builder.with_client_auth_cert(chain, key).map_err(|error| unusable(&error))?
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = protocols(alpn);
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config) })
    }

    /// Starts a stream to `name`, which the server's certificate must be for.
    pub fn start(&self, name: &str) -> Result<Tls, StreamError> {
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| StreamError::Settings(format!("'{}' is no name of a server", name.escape_debug())))?;
        Ok(Tls::new(ClientConnection::new(Arc::clone(&self.config), name)?.into()))
    }
}

/// A server's settings.
#[derive(Clone, Debug)]
pub struct Server {
    config: Arc<ServerConfig>,
}

impl Server {
    /// Shows `identity`. With `clients` (PEM) every client must have a certificate that leads to one
    /// of them.
    pub fn new(identity: Identity<'_>, clients: Option<&[u8]>, alpn: &[String]) -> Result<Self, StreamError> {
        let provider = provider();
        let (chain, key) = identity.read()?;
        let builder = ServerConfig::builder_with_provider(Arc::<CryptoProvider>::clone(&provider));
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13])?;
        let builder = match clients {
            Some(pem) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(roots(pem)?, provider).build();
                builder.with_client_cert_verifier(
                    verifier.map_err(|error| StreamError::Settings(format!("the clients' roots: {error}")))?,
                )
            }
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| unusable(&error))?;
        config.alpn_protocols = protocols(alpn);
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config) })
    }

    /// Starts a stream with whoever connected.
    pub fn start(&self) -> Result<Tls, StreamError> {
        Ok(Tls::new(ServerConnection::new(Arc::clone(&self.config))?.into()))
    }
}

fn unusable(error: &rustls::Error) -> StreamError {
    StreamError::Settings(format!("certificate and private key are of no use: {error}"))
}

/// What [`Tls::take`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// So many bytes.
    Bytes(usize),
    /// None now.
    Nothing,
    /// The peer has ended its direction: nothing follows.
    End,
}

/// One stream.
#[derive(Debug)]
pub struct Tls {
    connection: Connection,
    /// Bytes of the peer's that were not taken yet.
    untaken: usize,
    ended: bool,
}

impl Tls {
    /// The client's end of a connection.
    pub(super) fn of_client(connection: ClientConnection) -> Self {
        Self::new(connection.into())
    }

    /// The server's end of a connection.
    pub(super) fn of_server(connection: ServerConnection) -> Self {
        Self::new(connection.into())
    }

    fn new(mut connection: Connection) -> Self {
        connection.set_buffer_limit(Some(WAITING_BYTES_MAX));
        Self { connection, untaken: 0, ended: false }
    }

    /// Whether the handshake still runs.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether it continues a session of an earlier connection; known after the handshake.
    pub fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    }

    /// Takes from the front of `bytes` what arrived, until there is something for [`Tls::take`]. An
    /// error is final; [`Tls::output`] tells the peer.
    pub fn feed(&mut self, bytes: &mut &[u8]) -> Result<(), StreamError> {
        while !bytes.is_empty() && self.untaken == 0 && !self.ended {
            let taken = self.connection.read_tls(bytes).map_err(|error| StreamError::Protocol(error.to_string()))?;
            if taken == 0 {
                break;
            }
            let state = self.connection.process_new_packets()?;
            self.untaken = state.plaintext_bytes_to_read();
            self.ended = state.peer_has_closed();
        }
        Ok(())
    }

    /// Whether [`Tls::take`] has something to tell.
    pub fn has_something(&self) -> bool {
        self.untaken > 0 || self.ended
    }

    /// Takes the peer's bytes, in order.
    pub fn take(&mut self, into: &mut [u8]) -> Result<Taken, StreamError> {
        match self.connection.reader().read(into) {
            Ok(0) if self.ended => Ok(Taken::End),
            Ok(bytes) => {
                self.untaken = self.untaken.saturating_sub(bytes);
                Ok(Taken::Bytes(bytes))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Taken::Nothing),
            Err(error) => Err(StreamError::Protocol(error.to_string())),
        }
    }

    /// Takes bytes for the peer; how many it could.
    pub fn put(&mut self, bytes: &[u8]) -> Result<usize, StreamError> {
        self.connection.writer().write(bytes).map_err(|error| StreamError::Protocol(error.to_string()))
    }

    /// Puts behind `into` what is to be sent.
    pub fn output(&mut self, into: &mut Vec<u8>) {
        // A vector takes everything.
        while self.connection.wants_write() && self.connection.write_tls(into).is_ok() {}
    }

    /// Ends the own direction: close_notify is the last of the output.
    pub fn close(&mut self) {
        self.connection.send_close_notify();
    }

    /// The protocol that both ends chose.
    pub fn protocol(&self) -> Option<String> {
        self.connection.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned())
    }

    /// The name that the client asked for; a server's to know.
    pub fn server_name(&self) -> Option<&str> {
        if let Connection::Server(server) = &self.connection { server.server_name() } else { None }
    }

    /// The fingerprint of the key of the peer's certificate.
    pub fn peer(&self) -> Option<Fingerprint> {
        let first = self.connection.peer_certificates()?.first()?;
        let parsed = rustls::server::ParsedCertificate::try_from(first).ok()?;
        Some(Fingerprint::of_spki(parsed.subject_public_key_info().as_ref()))
    }

    /// The certificates that the peer has shown, its own first, in DER.
    pub(super) fn peer_chain(&self) -> Vec<&[u8]> {
        self.connection.peer_certificates().unwrap_or_default().iter().map(AsRef::as_ref).collect()
    }

    /// The cipher suite.
    pub fn suite(&self) -> Option<String> {
        self.connection.negotiated_cipher_suite().map(|suite| format!("{:?}", suite.suite()))
    }
}
