//! The settings of both sides: TLS 1.3, AES-256-GCM, one Ed25519 certificate that the client knows byte by byte. No
//! tickets and no resumption, so that every handshake is a whole one.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme};

use super::NAME;
use crate::error::{Context, Error, Result};

fn provider() -> Arc<CryptoProvider> {
    let suites = vec![aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384];
    Arc::new(CryptoProvider { cipher_suites: suites, ..aws_lc_rs::default_provider() })
}

/// A new key and its certificate, which is written to `certificate`.
pub(super) fn server(certificate: &Path) -> Result<ServerConfig> {
    let unusable = |error: rcgen::Error| Error::Wrong { system: "tls-bound".to_owned(), detail: error.to_string() };
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).map_err(unusable)?;
    let signed = rcgen::CertificateParams::new(vec![NAME.to_owned()])
        .and_then(|parameters| parameters.self_signed(&key))
        .map_err(unusable)?;
    fs::write(certificate, signed.der()).context(|| certificate.display().to_string())?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![signed.der().clone()], key.into())?;
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Trusts the certificate in the file `certificate`, and no other.
pub(super) fn client(certificate: &Path) -> Result<ClientConfig> {
    let known = fs::read(certificate).context(|| certificate.display().to_string())?;
    let provider = provider();
    let verifier = Known { certificate: CertificateDer::from(known), provider: Arc::clone(&provider) };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// The one certificate; the signature of the handshake is verified as always, since its cost belongs to a handshake.
#[derive(Debug)]
struct Known {
    certificate: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        if *end_entity == self.certificate {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
