//! The proofs that bind a connection to a channel of a session: one in JOIN, one in its reply.
//!
//! ```text
//! proof = HMAC-SHA256(join key, 'C' or 'S' || transcript)
//! ```
//!
//! The role is part of the input, so a proof cannot be reflected to the end that made it. The
//! protocol defines the content of a transcript (the connection's preface, JOIN itself, and in the
//! reply the client's proof too).
//!
//! It must not remember which grants were used: the table from which the server takes the grant
//! does that.

use core::fmt;

use aws_lc_rs::{constant_time, hmac};

use super::{KEY_BYTES, Role};
use crate::Error;
use crate::secret::Secret;

/// Bytes of a proof.
pub const PROOF_BYTES: usize = 32;

/// The key that authenticates one channel's JOIN and reply.
pub struct JoinKey(Secret<KEY_BYTES>);

impl JoinKey {
    pub(crate) fn new(secret: Secret<KEY_BYTES>) -> Self {
        Self(secret)
    }

    /// The proof that `role` sends over `transcript`.
    pub fn prove(&self, role: Role, transcript: &[u8]) -> [u8; PROOF_BYTES] {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, self.0.bytes()));
        context.update(match role {
            Role::Client => b"C",
            Role::Server => b"S",
        });
        context.update(transcript);
        let mut proof = [0; PROOF_BYTES];
        proof.copy_from_slice(context.sign().as_ref());
        proof
    }

    /// Whether `proof` is what `role` (the peer's) sends over `transcript`, compared in constant
    /// time.
    pub fn verify(&self, role: Role, transcript: &[u8], proof: &[u8; PROOF_BYTES]) -> Result<(), Error> {
        constant_time::verify_slices_are_equal(&self.prove(role, transcript), proof).map_err(|_| Error::BadProof)
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> &[u8; KEY_BYTES] {
        self.0.bytes()
    }
}

impl fmt::Debug for JoinKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> JoinKey {
        JoinKey::new(Secret::copied(&[byte; 32]))
    }

    #[test]
    fn a_proof_is_accepted_by_the_other_end() {
        let proof = key(1).prove(Role::Client, b"join");
        assert_eq!(key(1).verify(Role::Client, b"join", &proof), Ok(()));
    }

    #[test]
    fn a_proof_of_another_key_role_or_transcript_is_refused() {
        let proof = key(1).prove(Role::Client, b"join");
        assert_eq!(key(2).verify(Role::Client, b"join", &proof), Err(Error::BadProof));
        assert_eq!(key(1).verify(Role::Server, b"join", &proof), Err(Error::BadProof));
        assert_eq!(key(1).verify(Role::Client, b"joint", &proof), Err(Error::BadProof));
        assert_eq!(key(1).verify(Role::Client, b"", &proof), Err(Error::BadProof));
    }

    #[test]
    fn a_flipped_bit_anywhere_in_the_proof_is_refused() {
        let proof = key(1).prove(Role::Server, b"answer");
        for bit in 0..PROOF_BYTES * 8 {
            let mut altered = proof;
            altered[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key(1).verify(Role::Server, b"answer", &altered), Err(Error::BadProof), "bit {bit}");
        }
    }
}
