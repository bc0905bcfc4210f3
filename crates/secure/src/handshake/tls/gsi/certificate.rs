//! A certificate as far as proxies are concerned: what it says of itself, and whether a key signed it.

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::SignatureVerificationAlgorithm;
use x509_cert::Certificate;
use x509_cert::der::asn1::{Any, ObjectIdentifier, OctetStringRef};
use x509_cert::der::oid::AssociatedOid;
use x509_cert::der::{Decode, Encode, Reader, SliceReader};
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage, KeyUsages, SubjectAltName};
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};

use super::super::der::decode;
use super::fault::GsiFault;
use super::names::{last_common_name, one_line, same};

/// proxyCertInfo of RFC 3820.
pub(super) const PROXY_INFO: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.1.14");
/// The same as it was drafted.
const PROXY_INFO_DRAFT: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.3536.1.222");
const INHERIT_ALL: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.21.1");
const INDEPENDENT: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.21.2");
const LIMITED: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.3536.1.1.1.9");

/// A certificate and the bytes it was read from.
#[derive(Clone, Debug)]
pub(super) struct Parsed {
    pub(super) certificate: Certificate,
    /// What is signed.
    signed: Vec<u8>,
}

/// What a proxy may do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ProxyKind {
    /// It is no proxy, but somebody's own certificate.
    None,
    /// All that its signer may do.
    Full,
    /// The same, but start no programs.
    Limited,
    /// Nothing of what its signer may do.
    Independent,
}

/// What a proxy says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ProxyInfo {
    pub(super) kind: ProxyKind,
    /// How many proxies may follow.
    pub(super) further: Option<u64>,
}

impl Parsed {
    pub(super) fn of(der: &[u8]) -> Result<Self, GsiFault> {
        let certificate = decode::<Certificate>(der)?;
        Ok(Self { certificate, signed: first_element(der)? })
    }

    pub(super) fn subject(&self) -> String {
        one_line(&self.certificate.tbs_certificate.subject)
    }

    pub(super) fn issuer(&self) -> String {
        one_line(&self.certificate.tbs_certificate.issuer)
    }

    pub(super) fn key(&self) -> &SubjectPublicKeyInfoOwned {
        &self.certificate.tbs_certificate.subject_public_key_info
    }

    /// Refuses a certificate that is not valid at `now`, in seconds since 1970.
    pub(super) fn check_time(&self, now: u64) -> Result<(), GsiFault> {
        let validity = &self.certificate.tbs_certificate.validity;
        let (from, until) = (validity.not_before, validity.not_after);
        if now < from.to_unix_duration().as_secs() {
            return Err(GsiFault::NotYetValid { subject: self.subject(), from: from.to_date_time().to_string() });
        }
        if now > until.to_unix_duration().as_secs() {
            return Err(GsiFault::Expired { subject: self.subject(), until: until.to_date_time().to_string() });
        }
        Ok(())
    }

    fn extension(&self, oid: ObjectIdentifier) -> Option<&[u8]> {
        let mut all = self.certificate.tbs_certificate.extensions.iter().flatten();
        all.find(|extension| extension.extn_id == oid).map(|extension| extension.extn_value.as_bytes())
    }

    /// What it says as a proxy; none if it is none.
    pub(super) fn proxy_info(&self) -> Result<Option<ProxyInfo>, GsiFault> {
        if let Some(bytes) = self.extension(PROXY_INFO) {
            return proxy_info(bytes, &self.subject()).map(Some);
        }
        let last = last_common_name(&self.certificate.tbs_certificate.subject);
        let is_old = matches!(last.as_deref(), Some("proxy" | "limited proxy"));
        if is_old || self.extension(PROXY_INFO_DRAFT).is_some() {
            return Err(GsiFault::Legacy(self.subject()));
        }
        Ok(None)
    }

    /// The other names of its holder, as they are encoded.
    pub(super) fn alternative_names(&self) -> Option<&[u8]> {
        self.extension(SubjectAltName::OID)
    }

    /// Whether another certificate is of somebody else.
    pub(super) fn has_other_subject(&self, other: &Self) -> bool {
        !same(&self.certificate.tbs_certificate.subject, &other.certificate.tbs_certificate.subject)
    }

    /// Whether it may sign proxies: it is no authority, and its key is for signatures.
    pub(super) fn may_sign_proxies(&self) -> bool {
        let constraints = self.extension(BasicConstraints::OID).map(decode::<BasicConstraints>);
        let usage = self.extension(KeyUsage::OID).map(decode::<KeyUsage>);
        let is_authority = constraints.is_some_and(|constraints| constraints.is_ok_and(|constraints| constraints.ca));
        let signs = usage.is_none_or(|usage| usage.is_ok_and(|usage| usage.0.contains(KeyUsages::DigitalSignature)));
        signs && !is_authority
    }

    /// Whether this key signed it.
    pub(super) fn is_signed_by(&self, key: &SubjectPublicKeyInfoOwned) -> Result<bool, GsiFault> {
        let signature = self.certificate.signature.as_bytes().unwrap_or_default();
        is_signed(key, &self.certificate.signature_algorithm, &self.signed, signature)
    }
}

/// The first element of a sequence, as it stands there.
pub(super) fn first_element(der: &[u8]) -> Result<Vec<u8>, GsiFault> {
    let mut reader = SliceReader::new(der)?;
    let header = x509_cert::der::Header::decode(&mut reader)?;
    header.tag.assert_eq(x509_cert::der::Tag::Sequence)?;
    Ok(reader.tlv_bytes()?.to_vec())
}

/// Whether a key made this signature.
pub(super) fn is_signed(
    key: &SubjectPublicKeyInfoOwned,
    algorithm: &AlgorithmIdentifierOwned,
    message: &[u8],
    signature: &[u8],
) -> Result<bool, GsiFault> {
    let (of_signature, of_key) = (identifier(algorithm)?, identifier(&key.algorithm)?);
    let known = aws_lc_rs::default_provider().signature_verification_algorithms.all;
    let fits = |one: &&&dyn SignatureVerificationAlgorithm| {
        one.signature_alg_id().as_ref() == of_signature && one.public_key_alg_id().as_ref() == of_key
    };
    let Some(fitting) = known.iter().find(fits) else {
        return Err(GsiFault::Unreadable(format!("its signature is of a kind that is not used ({})", algorithm.oid)));
    };
    let public = key.subject_public_key.as_bytes().unwrap_or_default();
    Ok(fitting.verify_signature(public, message, signature).is_ok())
}

/// An algorithm without the head of its sequence.
fn identifier(algorithm: &AlgorithmIdentifierOwned) -> Result<Vec<u8>, GsiFault> {
    Ok(decode::<Any>(&algorithm.to_der()?)?.value().to_vec())
}

/// Reads the extension that makes a certificate a proxy.
fn proxy_info(bytes: &[u8], subject: &str) -> Result<ProxyInfo, GsiFault> {
    let mut reader = SliceReader::new(bytes)?;
    let (further, language) = reader.sequence(|reader| {
        let further = Option::<u64>::decode(reader)?;
        let language = reader.sequence(|reader| {
            let language = ObjectIdentifier::decode(reader)?;
            let _ = Option::<OctetStringRef<'_>>::decode(reader)?;
            Ok(language)
        })?;
        Ok((further, language))
    })?;
    reader.finish(())?;
    let kind = match language {
        INHERIT_ALL => ProxyKind::Full,
        LIMITED => ProxyKind::Limited,
        INDEPENDENT => ProxyKind::Independent,
        other => return Err(GsiFault::Policy(subject.to_owned(), other.to_string())),
    };
    Ok(ProxyInfo { kind, further })
}

/// The extension of a proxy that has all rights of its signer, or a limited proxy's.
pub(super) fn encoded_proxy_info(kind: ProxyKind) -> Result<Vec<u8>, GsiFault> {
    let language = match kind {
        ProxyKind::Limited => LIMITED,
        ProxyKind::Independent => INDEPENDENT,
        ProxyKind::None | ProxyKind::Full => INHERIT_ALL,
    };
    let policy = sequence(&language.to_der()?)?;
    sequence(&policy)
}

fn sequence(content: &[u8]) -> Result<Vec<u8>, GsiFault> {
    Ok(Any::new(x509_cert::der::Tag::Sequence, content)?.to_der()?)
}
