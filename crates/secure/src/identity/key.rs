//! An Ed25519 key pair in this process's memory.
//!
//! It must not be printed, compared or cloned. Its seed leaves only for formats that this folder writes.

use core::fmt;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use zeroize::Zeroizing;

use super::{SIGNATURE_BYTES, Signer};
use crate::Error;
use crate::policy::{PUBLIC_KEY_BYTES, PublicKey};
use crate::secret::Secret;

/// Bytes of the seed from which both halves come.
pub const SEED_BYTES: usize = 32;

/// What stands before the seed in PKCS#8 (RFC 8410, section 7).
const PKCS8_PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// An Ed25519 key pair in memory. It cannot be printed, compared or cloned.
pub struct KeyPair {
    seed: Secret<SEED_BYTES>,
    pair: Ed25519KeyPair,
    public: PublicKey,
}

impl KeyPair {
    /// A fresh key.
    pub fn generate() -> Result<Self, Error> {
        let mut seed = Secret::zeroed();
        crate::random::fill(seed.bytes_mut())?;
        Self::new(seed)
    }

    /// The key of this seed; the caller wipes its own copy.
    pub fn from_seed(seed: &[u8; SEED_BYTES]) -> Result<Self, Error> {
        Self::new(Secret::copied(seed))
    }

    fn new(seed: Secret<SEED_BYTES>) -> Result<Self, Error> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.bytes()).map_err(|_| Error::Library)?;
        let mut public = [0; PUBLIC_KEY_BYTES];
        public.copy_from_slice(pair.public_key().as_ref());
        Ok(Self { seed, pair, public: PublicKey(public) })
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// The signature over `message`.
    pub fn sign(&self, message: &[u8]) -> Result<[u8; SIGNATURE_BYTES], Error> {
        let signature = self.pair.try_sign(message).map_err(|_| Error::Library)?;
        signature.as_ref().try_into().map_err(|_| Error::Library)
    }

    /// The seed, for the formats in which keys are kept.
    pub fn seed(&self) -> &[u8; SEED_BYTES] {
        self.seed.bytes()
    }

    /// The private key as PKCS#8, the form that TLS and X.509 libraries take.
    pub fn pkcs8(&self) -> Zeroizing<Vec<u8>> {
        // Of the final size at once: a vector that grows leaves a copy behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(PKCS8_PREFIX.len() + SEED_BYTES));
        bytes.extend_from_slice(&PKCS8_PREFIX);
        bytes.extend_from_slice(self.seed.bytes());
        bytes
    }
}

impl Signer for KeyPair {
    fn public(&self) -> PublicKey {
        self.public
    }

    fn sign(&self, message: &[u8]) -> Result<[u8; SIGNATURE_BYTES], Error> {
        Self::sign(self, message)
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({})", self.public.fingerprint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::verify;

    /// The first test of RFC 8032, section 7.1.
    const SEED: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
    const PUBLIC: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    const SIGNATURE: &str = "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b";

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        core::array::from_fn(|index| u8::from_str_radix(&hex[2 * index..2 * index + 2], 16).unwrap())
    }

    #[test]
    fn keys_and_signatures_are_those_of_rfc_8032() {
        let key = KeyPair::from_seed(&bytes(SEED)).unwrap();
        assert_eq!(key.public().0, bytes(PUBLIC));
        assert_eq!(key.sign(b"").unwrap(), bytes::<64>(SIGNATURE));
    }

    #[test]
    fn a_signature_holds_for_its_key_and_message_alone() {
        let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let signature = key.sign(b"message").unwrap();
        assert!(verify(&key.public(), b"message", &signature));
        assert!(!verify(&key.public(), b"massage", &signature));
        assert!(!verify(&other.public(), b"message", &signature));
    }

    #[test]
    fn a_printed_key_shows_its_public_half_alone() {
        let key = KeyPair::from_seed(&bytes(SEED)).unwrap();
        assert_eq!(format!("{key:?}"), format!("KeyPair({})", key.public().fingerprint()));
    }
}
