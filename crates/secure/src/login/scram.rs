//! SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677) with the channel binding `tls-exporter` (RFC 9266): a
//! password is proved without being shown, the server proves that it knows the verifier, and both
//! proofs hold on this TLS connection alone.
//!
//! It must not fall back to SCRAM without the binding. User names are taken as the UTF-8 that was
//! typed; in which form a password comes is `client`'s business.

use aws_lc_rs::{constant_time, digest, hmac};
use base64ct::{Base64, Encoding};
use core::num::NonZeroU32;

use super::messages::{self, Challenge, ClientFinal, ClientFirst, HEADER};
use crate::Error;
use crate::policy::PasswordVerifier;
use crate::secret::Secret;

/// The client's side after its first message.
pub(super) struct ScramClient {
    first_bare: String,
    nonce: String,
}

/// The client's first message.
pub(super) fn client_first(user: &str, nonce: &str) -> (ScramClient, Vec<u8>) {
    let message = ClientFirst::write(user, nonce);
    let first_bare = message[HEADER.len()..].to_owned();
    (ScramClient { first_bare, nonce: nonce.to_owned() }, message.into_bytes())
}

/// What the server has to prove when it accepts.
pub(super) struct Expected([u8; 32]);

impl ScramClient {
    /// The server's first message: how the password is to be salted and stretched.
    pub(super) fn on_challenge(self, server_first: &[u8]) -> Result<Challenged, Error> {
        let Challenge { nonce, salt, rounds } = Challenge::read(server_first, &self.nonce).ok_or(Error::BadLogin)?;
        let (nonce, server_first) = (nonce.to_owned(), server_first.to_vec());
        Ok(Challenged { first_bare: self.first_bare, server_first, nonce, salt, rounds })
    }
}

/// The client's side after the server's first message.
pub(super) struct Challenged {
    first_bare: String,
    server_first: Vec<u8>,
    nonce: String,
    pub(super) salt: Vec<u8>,
    pub(super) rounds: NonZeroU32,
}

impl Challenged {
    /// The proof that answers it, and what the server must prove then.
    pub(super) fn answer(&self, salted: &Secret<32>, channel: &[u8; 32]) -> (Vec<u8>, Expected) {
        let without_proof = format!("c={},r={}", Base64::encode_string(&bound(channel)), self.nonce);
        let everything = [self.first_bare.as_bytes(), b",", &self.server_first, b",", without_proof.as_bytes()];
        let (proof, expected) = proofs(salted, &everything);
        let message = format!("{without_proof},p={}", Base64::encode_string(&proof)).into_bytes();
        (message, Expected(expected))
    }
}

impl Expected {
    /// Whether the server knows the verifier.
    pub(super) fn check(&self, server_final: &[u8]) -> Result<(), Error> {
        let shown = messages::server_final(server_final).ok_or(Error::BadLogin)?;
        constant_time::verify_slices_are_equal(&shown, &self.0).map_err(|_| Error::BadLogin)
    }
}

/// The server's side after its first message.
pub(super) struct ScramServer {
    first_bare: String,
    server_first: String,
    nonce: String,
    verifier: PasswordVerifier,
}

impl ScramServer {
    /// The server's first message.
    pub(super) fn first(
        first_bare: String,
        client_nonce: &str,
        nonce: &str,
        verifier: PasswordVerifier,
    ) -> (Self, Vec<u8>) {
        let nonce = format!("{client_nonce}{nonce}");
        let server_first = Challenge::write(&nonce, &verifier.salt, verifier.iterations);
        let message = server_first.clone().into_bytes();
        (Self { first_bare, server_first, nonce, verifier }, message)
    }

    /// The server's proof, where the client's is right.
    pub(super) fn judge(&self, client_final: &[u8], channel: &[u8; 32]) -> Option<Vec<u8>> {
        let ClientFinal { bound: shown, nonce, proof, without_proof } = ClientFinal::read(client_final)?;
        let everything =
            [self.first_bare.as_bytes(), b",", self.server_first.as_bytes(), b",", without_proof.as_bytes()];
        let signature = mac(&self.verifier.stored_key, &everything);
        let client_key: [u8; 32] = core::array::from_fn(|index| proof[index] ^ signature[index]);
        let right = constant_time::verify_slices_are_equal(&sha256(&client_key), &self.verifier.stored_key).is_ok();
        let bound = shown == Base64::encode_string(&bound(channel)) && nonce == self.nonce;
        if !right || !bound {
            return None;
        }
        let mine = mac(&self.verifier.server_key, &everything);
        Some(format!("v={}", Base64::encode_string(&mine)).into_bytes())
    }
}

/// What `c=` says: the header and the connection's own value.
fn bound(channel: &[u8; 32]) -> Vec<u8> {
    [HEADER.as_bytes(), channel].concat()
}

/// The client's proof over `everything`, and what the server's has to be.
fn proofs(salted: &Secret<32>, everything: &[&[u8]]) -> ([u8; 32], [u8; 32]) {
    let client_key = mac(salted.bytes(), &[b"Client Key"]);
    let signature = mac(&sha256(&client_key), everything);
    let proof = core::array::from_fn(|index| client_key[index] ^ signature[index]);
    let server_key = mac(salted.bytes(), &[b"Server Key"]);
    (proof, mac(&server_key, everything))
}

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    parts.iter().for_each(|part| context.update(part));
    let mut bytes = [0; 32];
    bytes.copy_from_slice(context.sign().as_ref());
    bytes
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::password::salted;

    #[test]
    fn the_proofs_are_those_of_rfc_7677() {
        let salt = Base64::decode_vec("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let everything = "n=user,r=rOprNGfwEbeRWgbNEkqO,\
            r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,\
            c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let (proof, server) =
            proofs(&salted(b"pencil", &salt, NonZeroU32::new(4096).unwrap()), &[everything.as_bytes()]);
        assert_eq!(Base64::encode_string(&proof), "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        assert_eq!(Base64::encode_string(&server), "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn a_server_that_asks_for_too_few_or_too_many_rounds_gets_no_proof() {
        for (iterations, good) in [(1, false), (99_999, false), (100_000, true), (5_000_001, false)] {
            let (client, _) = client_first("ada", "nonce");
            let challenge = format!("r=noncemore,s=AAAA,i={iterations}");
            assert_eq!(client.on_challenge(challenge.as_bytes()).is_ok(), good, "{iterations}");
        }
    }
}
