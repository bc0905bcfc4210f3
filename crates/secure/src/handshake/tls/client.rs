//! The client's side: it takes a server's key in the form that it asked for and has the server
//! prove that it holds it.
//!
//! It must not decide whether the key is the right one: [`HostCheck`](crate::handshake::HostCheck)
//! decides that when the handshake is finished, and nothing of the client's is sent before.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct, PeerIncompatible,
    RootCertStore, SignatureScheme,
};
use xdfs_proto::base::{Error, ErrorKind};

use super::stream::Stream;
use super::{PROTOCOL, failed, provider};
use crate::handshake::{Chain, Shown};
use crate::policy::Fingerprint;

/// The form in which a client requests the server's key.
#[derive(Clone, Debug, Default)]
pub enum Certificates {
    /// As a raw public key (RFC 7250).
    #[default]
    Raw,
    /// In a certificate. `roots` are the certificates (DER) of those whose word for a server's name
    /// is taken.
    X509 {
        /// May be empty: then nobody is asked, and the key alone can be known.
        roots: Vec<Vec<u8>>,
    },
}

/// The certificates in a PEM file; what cannot be read of it is an error, and so is a file without
/// any.
pub fn read_roots(text: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let unusable = |text: String| Error::new(ErrorKind::Storage, text);
    let roots = CertificateDer::pem_slice_iter(text).map(|der| der.map(|der| der.as_ref().to_vec()));
    let roots: Vec<_> = roots.collect::<Result<_, _>>().map_err(|error| unusable(error.to_string()))?;
    if roots.is_empty() {
        return Err(unusable("it holds no certificate in PEM".to_owned()));
    }
    Ok(roots)
}

/// One connection's client side before the handshake is finished.
#[derive(Debug)]
pub struct ClientTls {
    verifier: Arc<Verifier>,
}

impl ClientTls {
    /// Starts a connection to `host`; the first output is the client's hello.
    pub fn start(host: &str, certificates: &Certificates) -> Result<(Self, Stream), Error> {
        Self::start_speaking(host, certificates, vec![PROTOCOL.to_vec()])
    }

    fn start_speaking(
        host: &str,
        certificates: &Certificates,
        protocols: Vec<Vec<u8>>,
    ) -> Result<(Self, Stream), Error> {
        let provider = provider();
        let verifier = Arc::new(Verifier::new(&provider, certificates)?);
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).map_err(|error| failed(&error))?;
        let shared: Arc<dyn ServerCertVerifier> = Arc::<Verifier>::clone(&verifier);
        let mut config = builder.dangerous().with_custom_certificate_verifier(shared).with_no_client_auth();
        config.alpn_protocols = protocols;
        config.resumption = rustls::client::Resumption::disabled();
        config.enable_early_data = false;
        // The name goes out in clear; it only helps a server that is asked for a site's
        // certificate.
        config.enable_sni = matches!(certificates, Certificates::X509 { .. });
        config.enable_secret_extraction = true;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare.to_owned())
            .or_else(|_| ServerName::try_from("xdfs.invalid"))
            .map_err(|error| Error::new(ErrorKind::InvalidPath, error.to_string()))?;
        let connection = ClientConnection::new(Arc::new(config), name).map_err(|error| failed(&error))?;
        Ok((Self { verifier }, Stream::new(Connection::Client(connection), None)))
    }

    /// What the server has presented and proved.
    pub fn shown(self, stream: &mut Stream) -> Result<Shown, Error> {
        let missing = || Error::new(ErrorKind::Protocol, "the server showed no key");
        if stream.is_handshaking() {
            return Err(missing());
        }
        let certificates = stream.connection().peer_certificates().ok_or_else(missing)?;
        let spki = self.verifier.spki(certificates.first().ok_or_else(missing)?).map_err(|error| failed(&error))?;
        let fingerprint = Fingerprint::of_spki(spki.as_ref());
        stream.set_host(fingerprint);
        let chain = self.verifier.found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Shown { fingerprint, chain })
    }
}

/// Takes any key of a server that proves to hold it, and notes whether a chain of certificates is
/// good.
#[derive(Debug)]
struct Verifier {
    raw: bool,
    chains: Option<Arc<WebPkiServerVerifier>>,
    found: Mutex<Chain>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    fn new(provider: &Arc<CryptoProvider>, certificates: &Certificates) -> Result<Self, Error> {
        let chains = match certificates {
            Certificates::X509 { roots } if !roots.is_empty() => {
                let mut store = RootCertStore::empty();
                store.add_parsable_certificates(roots.iter().map(|der| CertificateDer::from(der.as_slice())));
                let built = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider)).build();
                Some(built.map_err(|error| Error::new(ErrorKind::Refused, format!("no usable root: {error}")))?)
            }
            _ => None,
        };
        let raw = matches!(certificates, Certificates::Raw);
        let algorithms = provider.signature_verification_algorithms;
        Ok(Self { raw, chains, found: Mutex::new(Chain::Unasked), algorithms })
    }

    fn spki(&self, shown: &CertificateDer<'_>) -> Result<SubjectPublicKeyInfoDer<'static>, rustls::Error> {
        if self.raw {
            return Ok(SubjectPublicKeyInfoDer::from(shown.as_ref().to_vec()));
        }
        Ok(ParsedCertificate::try_from(shown)?.subject_public_key_info())
    }
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
        if let Some(chains) = &self.chains {
            let verified = chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
            *self.found.lock().unwrap_or_else(PoisonError::into_inner) = match verified {
                Ok(_) => Chain::Good,
                Err(error) => Chain::Bad(why_bad(&error)),
            };
        }
        self.spki(end_entity).map_err(|_| CertificateError::BadEncoding)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if self.raw {
            let spki = SubjectPublicKeyInfoDer::from(certificate.as_ref());
            return verify_tls13_signature_with_raw_key(message, &spki, signed, &self.algorithms);
        }
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.raw
    }
}

/// Why a chain is not good, in words to act on.
pub(super) fn why_bad(error: &rustls::Error) -> String {
    let rustls::Error::InvalidCertificate(error) = error else { return error.to_string() };
    match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "it is signed by nobody whom the roots vouch for".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has run out".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet; is the clock of this machine right?".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another name".to_owned()
        }
        // What a verifier of ours says, or the library in its own words.
        CertificateError::Other(other) => other.to_string(),
        other => format!("{other}"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A client of some other protocol.
    pub(in crate::handshake::tls) fn client_speaking(protocols: Vec<Vec<u8>>) -> Stream {
        ClientTls::start_speaking("localhost", &Certificates::Raw, protocols).unwrap().1
    }
}
