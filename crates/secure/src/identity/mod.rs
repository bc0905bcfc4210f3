//! Keys that identify a host, a user or a token.
//!
//! What it is for: [`Signer`] is all that a login needs, so a key may lie in this process
//! ([`KeyPair`]), in an agent or in a device. The formats in which keys are kept are here too:
//! [`openssh`] for people and their agents, [`x509`] for sites that have certificates, tokens for
//! programs, and what a server keeps of a [`password`]. What it must not do: look for keys (client
//! and server know the places), or show a private half.

mod file_error;
mod key;
pub mod openssh;
pub mod password;
mod token;
pub mod x509;

pub use file_error::KeyFileError;
pub use key::{KeyPair, SEED_BYTES};
pub use token::{TOKEN_PREFIX, read_token, write_token};

use crate::Error;
use crate::policy::PublicKey;

/// Bytes of an Ed25519 signature.
pub const SIGNATURE_BYTES: usize = 64;

/// Something that signs with one Ed25519 key. It may ask an agent and so may wait: nothing that
/// serves other peers calls it but with a key of its own memory.
pub trait Signer: Send + Sync {
    /// The public half.
    fn public(&self) -> PublicKey;
    /// The signature over `message`.
    fn sign(&self, message: &[u8]) -> Result<[u8; SIGNATURE_BYTES], Error>;
}

/// Whether `signature` over `message` was made with the private half of `key`.
pub fn verify(key: &PublicKey, message: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool {
    use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
    UnparsedPublicKey::new(&ED25519, &key.0).verify(message, signature).is_ok()
}
