//! What one end shows: a proxy, or somebody's own certificate, and its key.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_cert::der::Encode;

use super::certificate::Parsed;
use super::chain::{self, Holder};
use super::fault::GsiFault;
use super::trust::{Role, TrustStore};

/// A chain of certificates and the key of the first.
pub struct Credential {
    pub(super) certified: Arc<CertifiedKey>,
}

impl Credential {
    /// From PEM: the chain, the own certificate first, and its key. A proxy has both in one file.
    ///
    /// # Errors
    /// If one of them is missing or of no use, or they do not belong together.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, GsiFault> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let certificates = certificates.map_err(|error| GsiFault::Unreadable(error.to_string()))?;
        let first = Parsed::of(certificates.first().ok_or(GsiFault::Empty)?)?;
        // The library's words hold nothing of the key.
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
            GsiFault::Unreadable(format!("its private key: {error}; one with a passphrase needs a proxy"))
        })?;
        let key = aws_lc_rs::default_provider().key_provider.load_private_key(key);
        let key = key.map_err(|error| GsiFault::Unreadable(format!("its private key: {error}")))?;
        if key.public_key().is_none_or(|public| first.key().to_der().ok().as_deref() != Some(public.as_ref())) {
            return Err(GsiFault::Key);
        }
        Ok(Self { certified: Arc::new(CertifiedKey::new(certificates, key)) })
    }

    /// Checks it as the other end will: who its holder is, and that nothing of it is refused.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn check(&self, trust: &TrustStore, role: Role, now: u64) -> Result<Holder, GsiFault> {
        let chain: Vec<&[u8]> = self.certified.cert.iter().map(AsRef::as_ref).collect();
        chain::check(&chain, trust, role, now)
    }
}

impl fmt::Debug for Credential {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({} certificates)", self.certified.cert.len())
    }
}
