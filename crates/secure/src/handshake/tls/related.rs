//! TLS for protocols whose connections belong together, as the control and data channels of FTPS do:
//! every connection after the first resumes its session, which shows the server that the same client
//! opened them.
//!
//! TLS 1.2 comes first: its sessions can be resumed as often as there are connections. A ticket of
//! TLS 1.3 is good for one, and not every server gives a new one with each connection; it is for
//! servers that speak nothing else. Nothing of this is used for the protocol of xdfs.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientSessionMemoryCache, Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::byte_stream::{StreamError, Tls};
use super::validity::Validity;

/// Tickets of TLS 1.3 that are kept.
const TICKETS_MAX: usize = 8;

/// Those whose word for a server's name is taken. A copy is cheap.
#[derive(Clone, Debug)]
pub struct Authorities {
    verifier: Arc<dyn ServerCertVerifier>,
}

impl Authorities {
    /// From certificates in DER: of authorities, or of servers themselves.
    pub fn new(certificates: &[Vec<u8>]) -> Result<Self, StreamError> {
        let certificates: Vec<_> = certificates.iter().map(|der| CertificateDer::from(der.clone())).collect();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.iter().cloned());
        let unusable = |error: &dyn std::fmt::Display| StreamError::Settings(format!("the authorities: {error}"));
        let provider = Arc::new(aws_lc_rs::default_provider());
        let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let chains = chains.map_err(|error| unusable(&error))?;
        Ok(Self { verifier: Arc::new(Verifier { chains, certificates }) })
    }
}

/// A version of TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// The connections of one session of such a protocol.
#[derive(Clone, Debug)]
pub struct RelatedConnections {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl RelatedConnections {
    /// Connections to `host`, for which the server's certificate must be.
    pub fn new(authorities: &Authorities, host: &str, version: Version) -> Result<Self, StreamError> {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare.to_owned())
            .map_err(|_| StreamError::Settings(format!("'{}' is no name of a server", host.escape_debug())))?;
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let version = match version {
            Version::Tls12 => &rustls::version::TLS12,
            Version::Tls13 => &rustls::version::TLS13,
        };
        let builder = builder.with_protocol_versions(&[version])?;
        let verifier = Arc::clone(&authorities.verifier);
        let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        // A session of TLS 1.2 without it could be continued by somebody between.
        config.require_ems = true;
        config.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(TICKETS_MAX)));
        Ok(Self { config: Arc::new(config), name })
    }

    /// Starts the next connection.
    pub fn start(&self) -> Result<Tls, StreamError> {
        Ok(Tls::of_client(ClientConnection::new(Arc::clone(&self.config), self.name.clone())?))
    }
}

/// Takes chains that lead to an authority, and a server's own certificate if it was named.
#[derive(Debug)]
struct Verifier {
    chains: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let chain = self.chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let Err(rustls::Error::InvalidCertificate(error)) = &chain else { return chain };
        // A certificate that vouches for itself, as `openssl req -x509` makes it, is no end of a chain.
        let is_own = matches!(error, CertificateError::Other(_) | CertificateError::UnknownIssuer);
        if !is_own || !self.certificates.iter().any(|named| named.as_ref() == end_entity.as_ref()) {
            return chain;
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        let validity = Validity::of(end_entity).ok_or(CertificateError::BadEncoding)?;
        match now.as_secs() {
            now if now < validity.from => Err(CertificateError::NotValidYet.into()),
            now if now > validity.until => Err(CertificateError::Expired.into()),
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}
