//! Delegation: the other end sends a request for a certificate, and gets a proxy of ours for its key.

use rustls::SignatureScheme;
use x509_cert::Certificate;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::certificate::{TbsCertificate, Version};
use x509_cert::der::Encode;
use x509_cert::der::asn1::{Any, BitString, Null, ObjectIdentifier, OctetString, SetOfVec, Utf8StringRef};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::{KeyUsage, KeyUsages};
use x509_cert::name::{RdnSequence, RelativeDistinguishedName};
use x509_cert::request::CertReq;
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::AlgorithmIdentifierOwned;
use x509_cert::time::Validity;

use super::super::der::decode;
use super::certificate::{PROXY_INFO, Parsed, ProxyKind, encoded_proxy_info, first_element, is_signed};
use super::credential::Credential;
use super::fault::GsiFault;
use super::names::COMMON_NAME;

/// Longest request that is taken: one of a key of 16,384 bits has less.
pub(super) const REQUEST_BYTES_MAX: usize = 16 * 1024;

/// How the keys of proxies sign, and what certificates call that.
const SIGNATURES: [(SignatureScheme, &str, bool); 4] = [
    (SignatureScheme::RSA_PKCS1_SHA256, "1.2.840.113549.1.1.11", true),
    (SignatureScheme::ECDSA_NISTP256_SHA256, "1.2.840.10045.4.3.2", false),
    (SignatureScheme::ECDSA_NISTP384_SHA384, "1.2.840.10045.4.3.3", false),
    (SignatureScheme::ED25519, "1.3.101.112", false),
];

/// The length of an element in DER with its head, once its head is there; none if there is no such element.
pub(super) fn length_of(bytes: &[u8]) -> Result<Option<usize>, GsiFault> {
    let wrong = || GsiFault::Unreadable("the request for a proxy is none".to_owned());
    let (Some(&tag), Some(&first)) = (bytes.first(), bytes.get(1)) else { return Ok(None) };
    let length = match first {
        _ if tag != 0x30 => return Err(wrong()),
        0..=0x7f => 2 + usize::from(first),
        0x81 | 0x82 => {
            let digits = usize::from(first & 0x7f);
            let Some(digits) = bytes.get(2..2 + digits) else { return Ok(None) };
            2 + digits.len() + digits.iter().fold(0, |sum, &digit| sum << 8 | usize::from(digit))
        }
        _ => return Err(wrong()),
    };
    if length > REQUEST_BYTES_MAX { Err(wrong()) } else { Ok(Some(length)) }
}

/// A proxy for the key of a request, as long and as far as the credential itself goes. `serial` is drawn by chance.
pub(super) fn delegate(credential: &Credential, request: &[u8], serial: u32) -> Result<Vec<u8>, GsiFault> {
    let parsed = decode::<CertReq>(request)?;
    let signature = parsed.signature.as_bytes().unwrap_or_default();
    // Nobody gets a proxy for a key that he does not have.
    if !is_signed(&parsed.info.public_key, &parsed.algorithm, &first_element(request)?, signature)? {
        return Err(GsiFault::Unreadable("the request for a proxy is not signed by its own key".to_owned()));
    }
    let first = credential.certified.cert.first().ok_or(GsiFault::Empty)?;
    let signer = Parsed::of(first)?;
    let kind = signer.proxy_info()?.map_or(ProxyKind::Full, |info| info.kind);
    let above = &signer.certificate.tbs_certificate;
    let key = &credential.certified.key;
    let (scheme, name, has_null) = SIGNATURES
        .into_iter()
        .find(|(scheme, ..)| key.choose_scheme(&[*scheme]).is_some())
        .ok_or_else(|| GsiFault::Unreadable("the own key cannot sign a proxy".to_owned()))?;
    let parameters = if has_null { Some(Any::encode_from(&Null)?) } else { None };
    let algorithm = AlgorithmIdentifierOwned { oid: ObjectIdentifier::new_unwrap(name), parameters };
    // A certificate's number is positive.
    let serial = serial & 0x7fff_ffff | 1;
    let mut subject = above.subject.0.clone();
    subject.push(common_name(&serial.to_string())?);
    let usage = KeyUsage(KeyUsages::DigitalSignature | KeyUsages::KeyEncipherment | KeyUsages::DataEncipherment);
    let extensions = [(PROXY_INFO, encoded_proxy_info(kind)?), (USAGE, usage.to_der()?)];
    let extension = |(extn_id, value)| Ok(Extension { extn_id, critical: true, extn_value: OctetString::new(value)? });
    let tbs = TbsCertificate {
        version: Version::V3,
        serial_number: SerialNumber::new(&serial.to_be_bytes())?,
        signature: algorithm.clone(),
        issuer: above.subject.clone(),
        validity: Validity { not_before: above.validity.not_before, not_after: above.validity.not_after },
        subject: RdnSequence(subject),
        subject_public_key_info: parsed.info.public_key,
        issuer_unique_id: None,
        subject_unique_id: None,
        extensions: Some(extensions.into_iter().map(extension).collect::<Result<_, GsiFault>>()?),
    };
    let signature = key.choose_scheme(&[scheme]).and_then(|signer| Some(signer.sign(&tbs.to_der().ok()?)));
    let signature = match signature {
        Some(Ok(signature)) => signature,
        Some(Err(error)) => return Err(GsiFault::Unreadable(format!("the own key: {error}"))),
        None => return Err(GsiFault::Unreadable("the own key cannot sign a proxy".to_owned())),
    };
    let signature = BitString::from_bytes(&signature)?;
    Ok(Certificate { tbs_certificate: tbs, signature_algorithm: algorithm, signature }.to_der()?)
}

const USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.15");

fn common_name(text: &str) -> Result<RelativeDistinguishedName, GsiFault> {
    let value = Any::encode_from(&Utf8StringRef::new(text)?)?;
    let part = AttributeTypeAndValue { oid: COMMON_NAME, value };
    Ok(RelativeDistinguishedName(SetOfVec::try_from(vec![part])?))
}
