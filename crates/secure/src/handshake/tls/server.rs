//! The server's side: one identity, presented in the form that a client requests.
//!
//! It must not determine the client's identity.

use core::fmt;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::server::{
    Acceptor, AlwaysResolvesServerRawPublicKeys, ClientHello, NoServerSessionStorage, ResolvesServerCert,
};
use rustls::sign::CertifiedKey;
use rustls::{Connection, ServerConfig};
use xdfs_proto::base::{Error, ErrorKind};

use super::identity::HostIdentity;
use super::stream::{Record, Stream};
use super::{PROTOCOL, failed, provider};
use crate::login::Decoy;
use crate::policy::Fingerprint;

/// A [`HostIdentity`] made ready to answer clients; made once and shared.
pub struct ServerIdentity {
    /// For clients that ask for the key as such.
    raw: Arc<ServerConfig>,
    /// For all others.
    x509: Arc<ServerConfig>,
    fingerprint: Fingerprint,
    x509_fingerprint: Fingerprint,
    decoy: Decoy,
}

impl ServerIdentity {
    /// Makes ready.
    pub fn new(identity: &HostIdentity) -> Result<Self, Error> {
        let provider = provider();
        let raw = Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(identity.raw()?)));
        let fingerprint = identity.fingerprint();
        let (certified, x509_fingerprint) = match identity.site()? {
            Some(site) => site,
            None => (identity.self_signed()?, fingerprint),
        };
        let one = Arc::new(One(Arc::new(certified)));
        Ok(Self {
            raw: config(&provider, raw)?,
            x509: config(&provider, one)?,
            fingerprint,
            x509_fingerprint,
            decoy: Decoy::new(identity.key())?,
        })
    }

    /// What clients pin.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Made-up verifiers for users that do not exist.
    pub fn decoy(&self) -> &Decoy {
        &self.decoy
    }
}

impl fmt::Debug for ServerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerIdentity({})", self.fingerprint)
    }
}

fn config(provider: &Arc<CryptoProvider>, resolver: Arc<dyn ResolvesServerCert>) -> Result<Arc<ServerConfig>, Error> {
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider));
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).map_err(|error| failed(&error))?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    // No resumption: a session id is a name, a grant is a right, and a ticket would be a third
    // thing.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.max_early_data_size = 0;
    // What the server says first tells the client that nobody altered the prefaces, before the
    // client says who it is.
    config.send_half_rtt_data = true;
    // For the last record of the client's direction, see `Farewell`.
    config.enable_secret_extraction = true;
    Ok(Arc::new(config))
}

/// The one certificate there is, whatever name was asked for.
#[derive(Debug)]
struct One(Arc<CertifiedKey>);

impl ResolvesServerCert for One {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

/// A connection whose client has not said yet what it can.
#[derive(Default)]
pub struct ServerStart {
    acceptor: Acceptor,
    record: Record,
}

impl fmt::Debug for ServerStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerStart")
    }
}

/// An error, and the alert that tells the client.
pub type Alerted = (Error, Vec<u8>);

impl ServerStart {
    /// Bytes to read next.
    pub fn want(&self) -> usize {
        self.record.want()
    }

    /// The wanted bytes have come. The connection, once the client's hello is complete.
    pub fn on_bytes(&mut self, bytes: &[u8], identity: &ServerIdentity) -> Result<Option<Stream>, Alerted> {
        let silent = |error| (error, Vec::new());
        let Some(record) = self.record.push(bytes).map_err(silent)? else { return Ok(None) };
        let mut rest = &record[..];
        while !rest.is_empty() {
            let read = self.acceptor.read_tls(&mut rest);
            if !matches!(read, Ok(1..)) {
                return Err(silent(Error::new(ErrorKind::Protocol, "the TLS hello is too long")));
            }
        }
        let told = |(error, mut alert): (rustls::Error, rustls::server::AcceptedAlert)| {
            let mut bytes = Vec::new();
            // A vector takes everything.
            let _ = alert.write_all(&mut bytes);
            (failed(&error), bytes)
        };
        let Some(accepted) = self.acceptor.accept().map_err(told)? else { return Ok(None) };
        let wants_raw = accepted
            .client_hello()
            .server_cert_types()
            .is_some_and(|types| types.contains(&rustls::server::CertificateType::RawPublicKey));
        let (config, host) = match wants_raw {
            true => (&identity.raw, identity.fingerprint),
            false => (&identity.x509, identity.x509_fingerprint),
        };
        let connection = accepted.into_connection(Arc::clone(config)).map_err(told)?;
        Ok(Some(Stream::new(Connection::Server(connection), Some(host))))
    }
}
