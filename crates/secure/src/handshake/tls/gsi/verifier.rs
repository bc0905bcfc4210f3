//! The judgement of the other end's chain within TLS, and what starts handshakes with it.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, DistinguishedName, OtherError,
    PeerIncompatible, ServerConfig, ServerConnection, SignatureScheme,
};
use x509_cert::der::Encode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use super::super::byte_stream::{StreamError, Tls};
use super::super::der::decode;
use super::certificate::{Parsed, ProxyKind};
use super::chain::{self, Holder};
use super::credential::Credential;
use super::fault::GsiFault;
use super::handshake::{Extent, Handshake};
use super::names::{last_common_name, normal};
use super::server_name::suites;
use super::trust::{Role, TrustStore, provider};

/// Who the other end must be.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Expected {
    /// The server of this name.
    Host(String),
    /// The holder of this name, as `/O=Grid/CN=Anna`.
    Subject(String),
    /// Who this end is: a server with what it was delegated.
    Same,
    /// Whoever the authorities vouch for.
    Anyone,
}

/// A credential and whom it trusts: what starts handshakes.
#[derive(Clone, Debug)]
pub struct Gsi {
    credential: Arc<Credential>,
    trust: Arc<TrustStore>,
    holder: Holder,
}

impl Gsi {
    /// Checks the credential first, at `now` in seconds since 1970: what the other end would refuse with a number is
    /// refused here with its reason.
    ///
    /// # Errors
    /// What is wrong with the credential.
    pub fn new(credential: Credential, trust: TrustStore, now: u64) -> Result<Self, GsiFault> {
        Self::of_parts(Arc::new(credential), Arc::new(trust), now)
    }

    pub(super) fn of_parts(credential: Arc<Credential>, trust: Arc<TrustStore>, now: u64) -> Result<Self, GsiFault> {
        let holder = credential.check(&trust, Role::User, now)?;
        Ok(Self { credential, trust, holder })
    }

    /// The same for a server, which may have a certificate that is for servers alone, or a user's.
    ///
    /// # Errors
    /// What is wrong with the credential.
    pub fn of_server(credential: Credential, trust: TrustStore, now: u64) -> Result<Self, GsiFault> {
        let holder = credential.check(&trust, Role::Host, now);
        let holder = holder.or_else(|_| credential.check(&trust, Role::User, now))?;
        Ok(Self { credential: Arc::new(credential), trust: Arc::new(trust), holder })
    }

    /// Who this end is.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// The first certificate that it shows, in DER.
    pub fn certificate(&self) -> &[u8] {
        self.credential.certified.cert.first().map(AsRef::as_ref).unwrap_or_default()
    }

    fn verifier(&self, expected: Expected) -> Arc<Verifier> {
        Arc::new(Verifier { trust: Arc::clone(&self.trust), own: self.holder.own.clone(), expected })
    }

    /// The end that connected. With `delegates` the other end gets a proxy.
    ///
    /// # Errors
    /// If TLS cannot be set up.
    pub fn initiate(&self, expected: &Expected, extent: Extent, delegates: bool) -> Result<Handshake, StreamError> {
        let builder = ClientConfig::builder_with_provider(provider());
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13])?;
        let builder = builder.dangerous().with_custom_certificate_verifier(self.verifier(expected.clone()));
        let own = SingleCertAndKey::from(Arc::clone(&self.credential.certified));
        let mut config = builder.with_client_cert_resolver(Arc::new(own));
        config.resumption = Resumption::disabled();
        // Who is expected is not the library's to check; grids do not ask for names.
        config.enable_sni = false;
        let nobody =
            ServerName::try_from("nobody.invalid").map_err(|error| StreamError::Settings(error.to_string()))?;
        let tls = Tls::of_client(ClientConnection::new(Arc::new(config), nobody)?);
        let credential = delegates.then(|| Arc::clone(&self.credential));
        Ok(Handshake::initiate(tls, extent, credential))
    }

    /// The end that was connected to.
    ///
    /// # Errors
    /// If TLS cannot be set up.
    pub fn accept(&self, expected: &Expected, extent: Extent) -> Result<Handshake, StreamError> {
        let provider = CryptoProvider { cipher_suites: suites(), ..(*provider()).clone() };
        let builder = ServerConfig::builder_with_provider(Arc::new(provider));
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13])?;
        let builder = builder.with_client_cert_verifier(self.verifier(expected.clone()));
        let own = SingleCertAndKey::from(Arc::clone(&self.credential.certified));
        let mut config = builder.with_cert_resolver(Arc::new(own));
        config.send_tls13_tickets = 0;
        Ok(Handshake::accept(Tls::of_server(ServerConnection::new(Arc::new(config))?), extent))
    }
}

/// Judges chains.
#[derive(Debug)]
struct Verifier {
    trust: Arc<TrustStore>,
    /// The certificate of this end's holder.
    own: Vec<u8>,
    expected: Expected,
}

impl Verifier {
    fn check(
        &self,
        first: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        role: Role,
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let chain: Vec<&[u8]> = std::iter::once(first).chain(rest).map(AsRef::as_ref).collect();
        let holder = chain::check(&chain, &self.trust, role, now.as_secs());
        let holder = match (&self.expected, role) {
            // A server that a user has started shows the user's certificate.
            (Expected::Subject(_), Role::Host) => {
                holder.or_else(|_| chain::check(&chain, &self.trust, Role::User, now.as_secs()))
            }
            _ => holder,
        };
        let checked = holder.and_then(|holder| self.check_holder(&holder, role));
        checked.map_err(|fault| CertificateError::Other(OtherError(Arc::new(fault))).into())
    }

    fn check_holder(&self, holder: &Holder, role: Role) -> Result<(), GsiFault> {
        let shown = holder.subject.clone();
        if holder.kind == ProxyKind::Independent {
            return Err(GsiFault::Independent(shown));
        }
        if holder.kind == ProxyKind::Limited && self.expected != Expected::Same {
            return Err(match role {
                Role::Host => GsiFault::Limited(shown),
                Role::User => GsiFault::LimitedUser(shown),
            });
        }
        match &self.expected {
            Expected::Host(host) if !is_for(&holder.own, host)? => {
                Err(GsiFault::Host { shown, expected: host.clone() })
            }
            Expected::Subject(expected) if normal(expected) != normal(&shown) => {
                Err(GsiFault::Subject { shown, expected: expected.clone() })
            }
            Expected::Same if Parsed::of(&holder.own)?.has_other_subject(&Parsed::of(&self.own)?) => {
                Err(GsiFault::Subject { shown, expected: Parsed::of(&self.own)?.subject() })
            }
            _ => Ok(()),
        }
    }

    fn check_signature(
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let unreadable = |_| rustls::Error::InvalidCertificate(CertificateError::BadEncoding);
        let parsed = Parsed::of(certificate).map_err(unreadable)?;
        let key = SubjectPublicKeyInfoDer::from(parsed.key().to_der().map_err(|error| unreadable(error.into()))?);
        verify_tls13_signature_with_raw_key(message, &key, signed, &provider().signature_verification_algorithms)
    }
}

/// Whether a server's certificate is for this host: by the names that it lists, or, where it lists none, by its CN, which
/// grids write as `host/NAME` too.
pub(super) fn is_for(own: &[u8], host: &str) -> Result<bool, GsiFault> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let unreadable = |error: &dyn std::fmt::Display| GsiFault::Unreadable(error.to_string());
    let der = CertificateDer::from(own.to_vec());
    let certificate = ParsedCertificate::try_from(&der).map_err(|error| unreadable(&error))?;
    let name = ServerName::try_from(bare).map_err(|error| unreadable(&error))?;
    if verify_server_name(&certificate, &name).is_ok() {
        return Ok(true);
    }
    let parsed = Parsed::of(own)?;
    let listed = match parsed.alternative_names() {
        Some(bytes) => decode::<SubjectAltName>(bytes)?.0,
        None => Vec::new(),
    };
    if listed.iter().any(|name| matches!(name, GeneralName::DnsName(_) | GeneralName::IpAddress(_))) {
        return Ok(false);
    }
    let Some(name) = last_common_name(&parsed.certificate.tbs_certificate.subject) else { return Ok(false) };
    let name = ["host/", "ftp/"].iter().find_map(|service| name.strip_prefix(service)).unwrap_or(&name);
    Ok(name.eq_ignore_ascii_case(bare))
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let role = if self.expected == Expected::Same { Role::User } else { Role::Host };
        self.check(end_entity, intermediates, role, now).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Self::check_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check(end_entity, intermediates, Role::User, now).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Self::check_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
