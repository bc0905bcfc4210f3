//! The processing of a password: salted and stretched into the verifier that a server keeps (RFC
//! 5802, RFC 7677).
//!
//! ```text
//! salted     = PBKDF2-HMAC-SHA256(password, salt, rounds), 32 bytes
//! client key = HMAC-SHA256(salted, "Client Key")     stored key = SHA256(client key)
//! server key = HMAC-SHA256(salted, "Server Key")
//! ```
//!
//! A password counts in the form that SASLprep gives it (RFC 4013), so that one with accents fits
//! however it was typed. What SASLprep refuses counts as it was typed. It must not keep a password,
//! and must not draw anything.

use core::num::NonZeroU32;
use std::borrow::Cow;

use aws_lc_rs::{digest, hmac, pbkdf2};
use base64ct::{Base64, Encoding};

use zeroize::Zeroizing;

use crate::policy::{PasswordVerifier, SALT_BYTES, Salts};
use crate::secret::Secret;

/// Rounds of a new password: OWASP's figure for PBKDF2-HMAC-SHA256 (600,000). They are the client's
/// work at each login and that of whoever guesses with a stolen file; the server's own work is a
/// few HMACs whatever the figure.
pub const ROUNDS: u32 = 600_000;

/// Fewest rounds that a client accepts: with less, an impostor server could guess the password from
/// what it received.
pub const ROUNDS_MIN: u32 = 100_000;

/// Most rounds that a client agrees to: about 2 seconds of work.
pub const ROUNDS_MAX: u32 = 5_000_000;

/// Longest salt, in bytes.
pub const SALT_BYTES_MAX: usize = 64;

/// Shortest password, in bytes. It is no measure of a good one; it stops an empty file and a slip
/// of a finger.
pub const PASSWORD_BYTES_MIN: usize = 8;

/// Longest password, in bytes.
pub const PASSWORD_BYTES_MAX: usize = 1024;

/// Why a password or the text of a verifier cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PasswordError {
    /// Fewer bytes than the least.
    #[error("a password has at least {PASSWORD_BYTES_MIN} characters")]
    TooShort,
    /// More bytes than the most.
    #[error("a password has at most {PASSWORD_BYTES_MAX} bytes")]
    TooLong,
    /// It has a line end or another character that no keyboard gives.
    #[error("a password is one line without control characters")]
    Control,
    /// Not the text of a verifier, or one with rounds or lengths that cannot be.
    #[error("the stored password is damaged")]
    Verifier,
}

/// Whether `password` is acceptable as a new password.
pub fn check(password: &[u8]) -> Result<(), PasswordError> {
    let text = core::str::from_utf8(password).map_err(|_| PasswordError::Control)?;
    match password.len() {
        length if length > PASSWORD_BYTES_MAX => Err(PasswordError::TooLong),
        _ if text.chars().any(char::is_control) => Err(PasswordError::Control),
        length if length < PASSWORD_BYTES_MIN => Err(PasswordError::TooShort),
        _ => Ok(()),
    }
}

/// The form in which `password` counts.
pub(crate) fn prepared(password: &[u8]) -> Zeroizing<Vec<u8>> {
    let text = core::str::from_utf8(password).ok();
    let form = text.and_then(|text| stringprep::saslprep(text).ok()).filter(|form| !form.is_empty());
    Zeroizing::new(match form {
        Some(Cow::Owned(form)) => form.into_bytes(),
        _ => password.to_vec(),
    })
}

/// The salted password, from which both halves of a login by password are made.
pub(crate) fn salted(password: &[u8], salt: &[u8], rounds: NonZeroU32) -> Secret<32> {
    let mut salted = Secret::zeroed();
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, salt, password, salted.bytes_mut());
    salted
}

/// HMAC-SHA256 of `message` with the salted password: `Client Key` or `Server Key`.
pub(crate) fn half(salted: &Secret<32>, message: &[u8]) -> Result<Secret<32>, crate::Error> {
    let mut half = Secret::zeroed();
    let key = hmac::Key::new(hmac::HMAC_SHA256, salted.bytes());
    hmac::sign_to_buffer(&key, message, half.bytes_mut()).map_err(|_| crate::Error::Library)?;
    Ok(half)
}

/// What a server keeps of `password`; `salt` belongs to this user of this server alone.
pub fn verifier(
    password: &[u8],
    salt: &[u8; SALT_BYTES],
    rounds: NonZeroU32,
) -> Result<PasswordVerifier, crate::Error> {
    let salted = salted(&prepared(password), salt, rounds);
    let client_key = half(&salted, b"Client Key")?;
    let mut stored_key = [0; 32];
    stored_key.copy_from_slice(digest::digest(&digest::SHA256, client_key.bytes()).as_ref());
    let server_key = *half(&salted, b"Server Key")?.bytes();
    Ok(PasswordVerifier { salt: salt.to_vec(), iterations: rounds.get(), stored_key, server_key })
}

/// A verifier as text, in the form that PostgreSQL gave it: `SCRAM-SHA-256$rounds:salt$stored
/// key:server key`.
pub fn write_verifier(verifier: &PasswordVerifier) -> String {
    format!(
        "SCRAM-SHA-256${}:{}${}:{}",
        verifier.iterations,
        Base64::encode_string(&verifier.salt),
        Base64::encode_string(&verifier.stored_key),
        Base64::encode_string(&verifier.server_key)
    )
}

/// Salts as text.
pub fn write_salts(salts: &Salts) -> String {
    Base64::encode_string(&salts.0)
}

/// Reads salts.
pub fn read_salts(text: &str) -> Option<Salts> {
    Base64::decode_vec(text).ok()?.try_into().ok().map(Salts)
}

/// Reads a verifier.
pub fn read_verifier(text: &str) -> Result<PasswordVerifier, PasswordError> {
    parse(text).ok_or(PasswordError::Verifier)
}

fn parse(text: &str) -> Option<PasswordVerifier> {
    let rest = text.strip_prefix("SCRAM-SHA-256$")?;
    let (rounds_and_salt, keys) = rest.split_once('$')?;
    let (rounds, salt) = rounds_and_salt.split_once(':')?;
    let (stored_key, server_key) = keys.split_once(':')?;
    let iterations = rounds.parse().ok().filter(|rounds| (ROUNDS_MIN..=ROUNDS_MAX).contains(rounds))?;
    let salt = Base64::decode_vec(salt).ok().filter(|salt| (1..=SALT_BYTES_MAX).contains(&salt.len()))?;
    let key = |text: &str| Base64::decode_vec(text).ok()?.try_into().ok();
    Some(PasswordVerifier { salt, iterations, stored_key: key(stored_key)?, server_key: key(server_key)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: NonZeroU32 = NonZeroU32::new(4096).expect("not zero");

    /// The exchange of RFC 7677, section 3: user `user`, password `pencil`.
    #[test]
    fn the_proof_of_rfc_7677_comes_out() {
        let salt = Base64::decode_vec("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let salted = salted(b"pencil", &salt, FEW);
        let message = b"n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let client_key = half(&salted, b"Client Key").unwrap();
        let stored_key = digest::digest(&digest::SHA256, client_key.bytes());
        let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, stored_key.as_ref()), message);
        let proof: Vec<u8> = client_key.bytes().iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        assert_eq!(Base64::encode_string(&proof), "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        let server_key = half(&salted, b"Server Key").unwrap();
        let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, server_key.bytes()), message);
        assert_eq!(Base64::encode_string(signature.as_ref()), "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn a_verifier_reads_back_and_nothing_else_does() {
        let rounds = NonZeroU32::new(ROUNDS_MIN).unwrap();
        let kept = verifier(b"correct horse", &[7; SALT_BYTES], rounds).unwrap();
        let text = write_verifier(&kept);
        assert!(text.starts_with("SCRAM-SHA-256$100000:"), "{text}");
        assert_eq!(read_verifier(&text), Ok(kept));
        for wrong in [
            "",
            &text[1..],
            &text[..text.len() - 4],
            &text.replace("100000", "99999"),
            &text.replace("100000", "5000001"),
            &text.replace("100000", "-1"),
            &text.replace("SCRAM-SHA-256", "MD5"),
            &text.replacen(':', "", 1),
        ] {
            assert_eq!(read_verifier(wrong), Err(PasswordError::Verifier), "{wrong}");
        }
    }

    #[test]
    fn another_password_or_salt_has_another_verifier() {
        let of = |password: &[u8], salt| verifier(password, &[salt; SALT_BYTES], FEW).unwrap().stored_key;
        assert_eq!(of(b"password", 1), of(b"password", 1));
        assert_ne!(of(b"password", 1), of(b"Password", 1));
        assert_ne!(of(b"password", 1), of(b"password", 2));
    }

    /// The examples of RFC 4013, section 3, and what it refuses.
    #[test]
    fn a_password_counts_in_the_form_of_saslprep() {
        let form = |typed: &str| String::from_utf8(prepared(typed.as_bytes()).to_vec()).unwrap();
        for (typed, counts) in [
            ("I\u{ad}X", "IX"),
            ("user", "user"),
            ("USER", "USER"),
            ("\u{aa}", "a"),
            ("\u{2168}", "IX"),
            ("cafe\u{301} cre\u{300}me", "caf\u{e9} cr\u{e8}me"),
            ("a\u{a0}b", "a b"),
            // Refused: mixed directions, a later version's character. Nothing would be left of the
            // last.
            ("\u{627}1", "\u{627}1"),
            ("\u{1f40e} battery", "\u{1f40e} battery"),
            ("\u{ad}\u{ad}\u{ad}\u{ad}", "\u{ad}\u{ad}\u{ad}\u{ad}"),
        ] {
            assert_eq!(form(typed), counts, "{typed:?}");
        }
        assert_eq!(prepared(&[0xff, 0xfe])[..], [0xff, 0xfe]);
    }

    #[test]
    fn a_password_is_one_line_of_some_length() {
        assert_eq!(check("correct horse \u{e9}".as_bytes()), Ok(()));
        assert_eq!(check(b"1234567"), Err(PasswordError::TooShort));
        assert_eq!(check(b""), Err(PasswordError::TooShort));
        assert_eq!(check(b"two\nlines of text"), Err(PasswordError::Control));
        assert_eq!(check(&[0xff; 10]), Err(PasswordError::Control));
        assert_eq!(check(&[b'a'; PASSWORD_BYTES_MAX]), Ok(()));
        assert_eq!(check(&[b'a'; PASSWORD_BYTES_MAX + 1]), Err(PasswordError::TooLong));
    }
}
