//! The authorities that a site trusts, each with its signing policy and its revocation lists.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{CertificateError, RootCertStore};

use super::certificate::Parsed;
use super::fault::GsiFault;
use super::names::same;
use super::policy::permits;

/// Most authorities between a certificate and the one that signed itself.
const AUTHORITIES_MAX: usize = 8;

/// What a certificate is checked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// It is a server's.
    Host,
    /// It is a user's.
    User,
}

/// An authority.
#[derive(Debug)]
struct Authority {
    certificate: CertificateDer<'static>,
    parsed: Parsed,
    policy: Option<String>,
    /// Its revocation lists, or why they cannot be read.
    lists: Result<Vec<CertificateRevocationListDer<'static>>, GsiFault>,
}

/// The authorities that a site trusts.
#[derive(Debug, Default)]
pub struct TrustStore {
    authorities: Vec<Authority>,
}

impl TrustStore {
    /// Adds an authority's certificate in PEM, with its signing policy and its revocation lists, in PEM or DER. A list that
    /// cannot be read makes whatever the authority signed refused, and nothing else.
    ///
    /// # Errors
    /// If the certificate is none.
    pub fn add(&mut self, certificate: &[u8], policy: Option<String>, lists: &[Vec<u8>]) -> Result<(), GsiFault> {
        let certificate = CertificateDer::from_pem_slice(certificate);
        let certificate = certificate.map_err(|error| GsiFault::Unreadable(error.to_string()))?;
        self.add_der(certificate, policy, lists)
    }

    /// The same for a certificate in DER.
    pub(super) fn add_der(
        &mut self,
        certificate: CertificateDer<'static>,
        policy: Option<String>,
        lists: &[Vec<u8>],
    ) -> Result<(), GsiFault> {
        let parsed = Parsed::of(&certificate)?;
        let read = |list: &Vec<u8>| match list.first() {
            Some(0x30) => Ok(CertificateRevocationListDer::from(list.clone())),
            _ => CertificateRevocationListDer::from_pem_slice(list)
                .map_err(|error| GsiFault::List(parsed.subject(), error.to_string())),
        };
        let lists = lists.iter().map(read).collect();
        // Directories have a certificate under two names, by the old and the new way to hash.
        if !self.authorities.iter().any(|known| known.certificate == certificate) {
            self.authorities.push(Authority { certificate, parsed, policy, lists });
        }
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.authorities.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.authorities.is_empty()
    }

    /// Checks somebody's own certificate. All authorities above it must be known here.
    pub(super) fn check(&self, own: &[u8], role: Role, now: u64) -> Result<(), GsiFault> {
        let path = self.path(own)?;
        let Some((root, between)) = path.split_last() else { return Err(GsiFault::Empty) };
        let own = CertificateDer::from(own.to_vec());
        let subject = Parsed::of(&own)?.subject();
        let unusable = |error: rustls::Error| GsiFault::Chain(root.parsed.subject(), error.to_string());
        let mut roots = RootCertStore::empty();
        roots.add(root.certificate.clone()).map_err(unusable)?;
        let between: Vec<_> = between.iter().map(|authority| authority.certificate.clone()).collect();
        let mut lists = Vec::new();
        for authority in &path {
            lists.extend(authority.lists.clone()?);
        }
        let no_verifier = |error: VerifierBuilderError| {
            let has_list = |authority: &&&Authority| authority.lists.as_ref().is_ok_and(|lists| !lists.is_empty());
            let with_list = path.iter().find(has_list);
            GsiFault::List(with_list.unwrap_or(root).parsed.subject(), error.to_string())
        };
        let (roots, provider) = (Arc::new(roots), provider());
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now));
        let checked = match role {
            Role::Host => {
                let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider);
                let verifier = verifier.with_crls(lists).allow_unknown_revocation_status();
                let verifier = verifier.enforce_revocation_expiration().build().map_err(no_verifier)?;
                // Its name is checked by other rules; this one is nobody's.
                let nobody = ServerName::try_from("nobody.invalid").map_err(|_| GsiFault::Empty)?;
                verifier.verify_server_cert(&own, &between, &nobody, &[], now).map(drop)
            }
            Role::User => {
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier = verifier.with_crls(lists).allow_unknown_revocation_status();
                let verifier = verifier.enforce_revocation_expiration().build().map_err(no_verifier)?;
                verifier.verify_client_cert(&own, &between, now).map(drop)
            }
        };
        match checked {
            Ok(()) => Ok(()),
            Err(rustls::Error::InvalidCertificate(error)) => why(error, subject, &path[0].parsed.subject()),
            Err(error) => Err(GsiFault::Chain(subject, error.to_string())),
        }
    }

    /// The authorities above a certificate, up to one that signed itself, as their policies permit.
    fn path(&self, own: &[u8]) -> Result<Vec<&Authority>, GsiFault> {
        let mut path: Vec<&Authority> = Vec::new();
        let mut current = Parsed::of(own)?;
        loop {
            let issuer = &current.certificate.tbs_certificate.issuer;
            let named = |authority: &&Authority| same(&authority.parsed.certificate.tbs_certificate.subject, issuer);
            let mut candidates = self.authorities.iter().filter(named).peekable();
            let (subject, issuer) = (current.subject(), current.issuer());
            if candidates.peek().is_none() || path.len() == AUTHORITIES_MAX {
                return Err(GsiFault::Unknown { subject, issuer });
            }
            let mut found = None;
            for authority in candidates {
                if current.is_signed_by(authority.parsed.key())? {
                    found = Some(authority);
                    break;
                }
            }
            let Some(authority) = found else {
                return Err(GsiFault::Chain(subject, format!("it was not signed by '{issuer}'")));
            };
            let is_root = path.last().is_some_and(|last| std::ptr::eq(*last, authority));
            if is_root {
                return Ok(path);
            }
            let policy = authority.policy.as_deref().and_then(|policy| permits(policy, &issuer, &subject));
            // An authority's own name needs nobody's permission.
            match policy {
                _ if subject == issuer => {}
                Some(true) => {}
                Some(false) => return Err(GsiFault::SigningPolicy { subject, issuer }),
                None => return Err(GsiFault::NoSigningPolicy(issuer)),
            }
            path.push(authority);
            current = authority.parsed.clone();
        }
    }
}

/// What the library says of a certificate, in our words. That it is for nobody is what is expected.
fn why(error: CertificateError, subject: String, issuer: &str) -> Result<(), GsiFault> {
    use CertificateError as Why;
    match error {
        Why::NotValidForName | Why::NotValidForNameContext { .. } => Ok(()),
        Why::Revoked => Err(GsiFault::Revoked(subject)),
        Why::ExpiredRevocationList | Why::ExpiredRevocationListContext { .. } => {
            Err(GsiFault::List(issuer.to_owned(), "it has expired".to_owned()))
        }
        Why::Other(other) => Err(GsiFault::Chain(subject, other.to_string())),
        other => Err(GsiFault::Chain(subject, other.to_string())),
    }
}

/// The ciphers of GSI, the fastest first; grids had no others to talk to before TLS 1.3.
pub(super) fn provider() -> Arc<CryptoProvider> {
    use rustls::crypto::aws_lc_rs::{cipher_suite, kx_group};
    Arc::new(CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        kx_groups: vec![kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1],
        ..aws_lc_rs::default_provider()
    })
}
