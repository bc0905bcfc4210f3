//! Who a server is: one Ed25519 key in two forms, and a site's own certificate where it has one.
//!
//! It must not keep keys on disk: the caller supplies them.

use core::fmt;
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use xdfs_proto::base::{Error, ErrorKind};

use super::{Validity, failed, provider};
use crate::identity::KeyPair;
use crate::policy::Fingerprint;

/// A certificate issued by a third party.
pub struct SiteCertificate {
    /// The chain, the server's own certificate first.
    chain: Vec<CertificateDer<'static>>,
    /// Its private key, of any kind that the library knows.
    key: PrivateKeyDer<'static>,
    validity: Validity,
}

impl SiteCertificate {
    /// The chain in the PEM file `chain`, the server's own certificate first, and its private key
    /// in the PEM file `key`. An error says which of the two is of no use; whether the certificate
    /// is good now is the caller's to ask.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, SiteError> {
        let certificates = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
        let chain = certificates.map_err(|error| SiteError::Chain(error.to_string()))?;
        let Some(first) = chain.first() else {
            return Err(SiteError::Chain("it holds no certificate in PEM".to_owned()));
        };
        let validity =
            Validity::of(first).ok_or_else(|| SiteError::Chain("it does not say when it is good".to_owned()))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            pem::Error::NoItemsFound => SiteError::Key(
                "it holds no private key in PEM, or one with a passphrase, which nobody types here".to_owned(),
            ),
            error => SiteError::Key(error.to_string()),
        })?;
        let site = Self { chain, key, validity };
        site.certified()?;
        Ok(site)
    }

    /// From when until when clients that check it take it.
    pub fn validity(&self) -> &Validity {
        &self.validity
    }

    /// As the library wants it, and the fingerprint of its key.
    fn certified(&self) -> Result<(CertifiedKey, Fingerprint), SiteError> {
        let first = self.chain.first().ok_or_else(|| SiteError::Chain("it is empty".to_owned()))?;
        let parsed = rustls::server::ParsedCertificate::try_from(first);
        let parsed = parsed.map_err(|error| SiteError::Chain(error.to_string()))?;
        let fingerprint = Fingerprint::of_spki(parsed.subject_public_key_info().as_ref());
        let key = provider().key_provider.load_private_key(self.key.clone_key());
        let key = key.map_err(|error| SiteError::Key(error.to_string()))?;
        let certified = CertifiedKey::new(self.chain.clone(), key);
        certified.keys_match().map_err(|_| {
            SiteError::Key("it is not the key of the certificate, which has to stand first in its file".to_owned())
        })?;
        Ok((certified, fingerprint))
    }
}

impl fmt::Debug for SiteCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SiteCertificate({} certificates)", self.chain.len())
    }
}

/// Why a site's certificate is unusable: what is wrong with which of its two files.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SiteError {
    /// The certificates.
    #[error("the certificate is of no use: {0}")]
    Chain(String),
    /// The private key.
    #[error("the private key is of no use: {0}")]
    Key(String),
}

impl From<SiteError> for Error {
    fn from(error: SiteError) -> Self {
        Self::new(ErrorKind::Refused, error.to_string())
    }
}

/// What a server shows of itself.
pub struct HostIdentity {
    key: KeyPair,
    site: Option<SiteCertificate>,
}

impl HostIdentity {
    /// A server that is known by its key alone.
    pub fn new(key: KeyPair) -> Self {
        Self { key, site: None }
    }

    /// The same, and to clients that ask for certificates it shows this one.
    pub fn with_site(mut self, site: SiteCertificate) -> Self {
        self.site = Some(site);
        self
    }

    /// What clients pin.
    pub fn fingerprint(&self) -> Fingerprint {
        self.key.public().fingerprint()
    }

    pub(super) fn key(&self) -> &KeyPair {
        &self.key
    }

    /// The key as such (RFC 7250).
    pub(super) fn raw(&self) -> Result<CertifiedKey, Error> {
        let spki = CertificateDer::from(self.key.public().spki());
        certified(vec![spki], &self.key.pkcs8())
    }

    /// The key in a certificate that it signed itself: X.509 for clients that cannot do without.
    /// Nobody is to believe anything that stands in it but the key.
    pub(super) fn self_signed(&self) -> Result<CertifiedKey, Error> {
        let cannot =
            |error: rcgen::Error| Error::new(ErrorKind::Resources, format!("cannot make a certificate: {error}"));
        let pkcs8 = self.key.pkcs8();
        let der = PrivatePkcs8KeyDer::from(pkcs8.as_slice());
        let signer = rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&der, &rcgen::PKCS_ED25519).map_err(cannot)?;
        let mut parameters = rcgen::CertificateParams::new(vec!["xdfs".to_owned()]).map_err(cannot)?;
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "xdfs");
        let certificate = parameters.self_signed(&signer).map_err(cannot)?;
        certified(vec![certificate.der().clone()], &pkcs8)
    }

    /// The site's own certificate, and the fingerprint of its key.
    pub(super) fn site(&self) -> Result<Option<(CertifiedKey, Fingerprint)>, Error> {
        self.site.as_ref().map(SiteCertificate::certified).transpose().map_err(Error::from)
    }
}

impl fmt::Debug for HostIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostIdentity({})", self.fingerprint())
    }
}

fn certified(chain: Vec<CertificateDer<'static>>, pkcs8: &[u8]) -> Result<CertifiedKey, Error> {
    let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pkcs8.to_vec()));
    let key: Arc<_> = provider().key_provider.load_private_key(der).map_err(|error| failed(&error))?;
    Ok(CertifiedKey::new(chain, key))
}
