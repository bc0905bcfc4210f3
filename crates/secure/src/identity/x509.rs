//! The same keys for X.509: a self-signed certificate and PKCS#8 out, PKCS#8 in (SEC-29).
//!
//! A certificate here is a coat for a key: its fingerprint is that of the key in it, and its dates and names say nothing
//! that xdfs believes. It must not check anybody's certificates.

use aws_lc_rs::encoding::AsBigEndian;
use aws_lc_rs::signature::Ed25519KeyPair;
use base64ct::{Base64, Encoding};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, PKCS_ED25519, PublicKeyData, SignatureAlgorithm, SigningKey,
};
use zeroize::Zeroizing;

use super::{KeyFileError, KeyPair, SEED_BYTES};
use crate::Error;

/// Digits in a line of PEM (RFC 7468).
const LINE_DIGITS: usize = 64;

/// What PEM calls a private key of any kind.
const PRIVATE_KEY: &str = "PRIVATE KEY";

/// A self-signed certificate of `key` for `names` (host names and addresses), in DER.
pub fn certificate(key: &KeyPair, names: &[String]) -> Result<Vec<u8>, Error> {
    let mut parameters = CertificateParams::new(names).map_err(|_| Error::Library)?;
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, names.first().map_or("xdfs", String::as_str));
    parameters.distinguished_name = name;
    let signed = parameters.self_signed(&Signing(key, key.public().0)).map_err(|_| Error::Library)?;
    Ok(signed.der().to_vec())
}

/// The certificate as PEM.
pub fn certificate_pem(key: &KeyPair, names: &[String]) -> Result<String, Error> {
    Ok(pem("CERTIFICATE", &certificate(key, names)?).to_string())
}

/// The private key as PKCS#8 in PEM.
pub fn private_pem(key: &KeyPair) -> Zeroizing<String> {
    pem(PRIVATE_KEY, &key.pkcs8())
}

/// Reads a private key as PKCS#8 in PEM; a certificate in the same file is left aside.
pub fn read_private_pem(text: &str) -> Result<KeyPair, KeyFileError> {
    if text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") {
        return Err(KeyFileError::EncryptedPkcs8);
    }
    let der = section(text, PRIVATE_KEY)?;
    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map_err(|_| of_another_kind(&der))?;
    let seed = pair.seed().map_err(|_| KeyFileError::Damaged)?;
    let bytes = seed.as_be_bytes().map_err(|_| KeyFileError::Damaged)?;
    let seed: &[u8; SEED_BYTES] = bytes.as_ref().try_into().map_err(|_| KeyFileError::Damaged)?;
    KeyPair::from_seed(seed).map_err(|_| KeyFileError::Damaged)
}

/// The OID of Ed25519 in DER; a PKCS#8 key without it is of another kind.
fn of_another_kind(der: &[u8]) -> KeyFileError {
    const ED25519: [u8; 5] = [0x06, 0x03, 0x2b, 0x65, 0x70];
    if der.windows(ED25519.len()).any(|bytes| bytes == ED25519) {
        return KeyFileError::Damaged;
    }
    KeyFileError::Kind("of another kind".to_owned())
}

fn section(text: &str, label: &str) -> Result<Zeroizing<Vec<u8>>, KeyFileError> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----")).ok_or(KeyFileError::NoKey)?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----")).ok_or(KeyFileError::Damaged)?;
    let mut digits = Zeroizing::new(String::with_capacity(body.len()));
    digits.extend(body.split_whitespace());
    Base64::decode_vec(&digits).map(Zeroizing::new).map_err(|_| KeyFileError::Damaged)
}

fn pem(label: &str, der: &[u8]) -> Zeroizing<String> {
    let digits = Zeroizing::new(Base64::encode_string(der));
    // Of its final size at once, so that a secret leaves no copies behind.
    let lines = digits.len().div_ceil(LINE_DIGITS);
    let mut text = Zeroizing::new(String::with_capacity(digits.len() + lines + 2 * (label.len() + 20)));
    text.push_str(&format!("-----BEGIN {label}-----\n"));
    let mut rest = digits.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE_DIGITS));
        text.push_str(line);
        text.push('\n');
        rest = after;
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

/// The key as the certificate's maker wants it: it signs here, so no second copy of the seed is made.
struct Signing<'a>(&'a KeyPair, [u8; 32]);

impl PublicKeyData for Signing<'_> {
    fn der_bytes(&self) -> &[u8] {
        &self.1
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ED25519
    }
}

impl SigningKey for Signing<'_> {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        self.0.sign(message).map(Vec::from).map_err(|_| rcgen::Error::RingUnspecified)
    }
}
