//! Keys in OpenSSH's formats: private key files, public key lines, and `authorized_keys`.
//!
//! Ed25519 alone: what else a file holds is named in the error, with the remedy. It must not read
//! files, and must not believe a file's public half: it is compared with the one that the private
//! half gives.

use ssh_key::private::{Ed25519Keypair, Ed25519PrivateKey, KeypairData};
use ssh_key::public::{Ed25519PublicKey, KeyData};
use ssh_key::{Algorithm, Kdf, LineEnding, PrivateKey};
use zeroize::Zeroizing;

use super::{KeyFileError, KeyPair, SEED_BYTES};
use crate::policy::PublicKey;

/// Longest comment of a key, in bytes: it is a name like `anna@laptop`.
pub const COMMENT_BYTES_MAX: usize = 200;

/// Rounds of the key derivation of an encrypted file; `ssh-keygen` writes 16 or 24, and each costs
/// milliseconds.
const ROUNDS_MAX: u32 = 4096;

/// First line of a private key file.
const BEGIN: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";

/// Name of the one kind of key.
const KIND: &str = "ssh-ed25519";

/// A public key with its comment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedKey {
    /// The key.
    pub key: PublicKey,
    /// What its owner calls it; may be empty.
    pub comment: String,
}

/// A private key file that was read.
#[derive(Debug)]
pub enum KeyFile {
    /// The key.
    Open(KeyPair),
    /// The key behind a passphrase.
    Locked(Box<LockedKey>),
}

/// A private key behind a passphrase. Its public half stands in the open.
pub struct LockedKey {
    file: PrivateKey,
    public: PublicKey,
}

/// The keys of an `authorized_keys` file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AuthorizedKeys {
    /// The Ed25519 keys, in order.
    pub keys: Vec<NamedKey>,
    /// Lines with keys of other kinds, which are not accepted for logins here.
    pub skipped: usize,
}

impl LockedKey {
    /// The public half. It is the file's word until the key is unlocked, good for asking whether to
    /// ask for the passphrase at all.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// The key, if the passphrase is right.
    pub fn unlock(&self, passphrase: &[u8]) -> Result<KeyPair, KeyFileError> {
        let opened = self.file.decrypt(passphrase).map_err(|_| KeyFileError::Passphrase)?;
        key_of(&opened)
    }
}

impl core::fmt::Debug for LockedKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "LockedKey({:?})", self.public)
    }
}

/// Reads a private key file.
pub fn read_private(text: &[u8]) -> Result<KeyFile, KeyFileError> {
    let shown = core::str::from_utf8(text).map_err(|_| KeyFileError::NoKey)?;
    if !shown.trim_start().starts_with(BEGIN) {
        return Err(not_openssh(shown));
    }
    let file = PrivateKey::from_openssh(shown.trim()).map_err(|error| of_library(&error))?;
    if !file.is_encrypted() {
        return key_of(&file).map(KeyFile::Open);
    }
    let public = public_of(file.public_key().key_data())?;
    match file.kdf() {
        Kdf::Bcrypt { rounds, .. } if *rounds <= ROUNDS_MAX => {
            Ok(KeyFile::Locked(Box::new(LockedKey { file, public })))
        }
        _ => Err(KeyFileError::Damaged),
    }
}

/// A private key file without a passphrase.
pub fn write_private(key: &KeyPair, comment: &str) -> Result<Zeroizing<String>, KeyFileError> {
    let pair =
        Ed25519Keypair { public: Ed25519PublicKey(key.public().0), private: Ed25519PrivateKey::from_bytes(key.seed()) };
    let file = PrivateKey::new(KeypairData::Ed25519(pair), tidy(comment)).map_err(|_| KeyFileError::Damaged)?;
    file.to_openssh(LineEnding::LF).map_err(|_| KeyFileError::Damaged)
}

/// Reads a public key: one line, `ssh-ed25519 AAAA... comment`.
pub fn read_public(text: &str) -> Result<NamedKey, KeyFileError> {
    let line = text.trim();
    // A comment may say anything.
    if line.contains("PRIVATE KEY") && !line.split_whitespace().next().is_some_and(is_key_kind) {
        return Err(KeyFileError::Private);
    }
    if line.lines().count() != 1 {
        return Err(KeyFileError::NotOnePublic);
    }
    let key = ssh_key::PublicKey::from_openssh(line).map_err(|error| match line.split_whitespace().next() {
        Some(kind) if kind != KIND && is_key_kind(kind) => KeyFileError::Kind(kind.to_owned()),
        _ => of_library(&error),
    })?;
    Ok(NamedKey { key: public_of(key.key_data())?, comment: tidy(key.comment()) })
}

/// A public key as one line, without a line end.
pub fn write_public(key: &PublicKey, comment: &str) -> Result<String, KeyFileError> {
    let data = KeyData::Ed25519(Ed25519PublicKey(key.0));
    ssh_key::PublicKey::new(data, tidy(comment)).to_openssh().map_err(|_| KeyFileError::Damaged)
}

/// Reads an `authorized_keys` file. A line that limits a key is refused: taken without its limits,
/// the key would open more than its line says.
pub fn read_authorized(text: &str) -> Result<AuthorizedKeys, KeyFileError> {
    let mut found = AuthorizedKeys::default();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        let first = line.split_whitespace().next().unwrap_or_default();
        if first.is_empty() || first.starts_with('#') {
            continue;
        }
        if first == KIND {
            found.keys.push(read_public(line).map_err(|_| KeyFileError::Line(number))?);
        } else if is_key_kind(first) {
            found.skipped += 1;
        } else if line.split_whitespace().any(is_key_kind) {
            return Err(KeyFileError::Options(number));
        } else {
            return Err(KeyFileError::Line(number));
        }
    }
    Ok(found)
}

fn key_of(file: &PrivateKey) -> Result<KeyPair, KeyFileError> {
    let Some(pair) = file.key_data().ed25519() else { return Err(other_kind(file.algorithm())) };
    let seed: &[u8; SEED_BYTES] = pair.private.as_ref();
    let key = KeyPair::from_seed(seed).map_err(|_| KeyFileError::Damaged)?;
    if key.public().0 != pair.public.0 || key.public() != public_of(file.public_key().key_data())? {
        return Err(KeyFileError::Damaged);
    }
    Ok(key)
}

fn public_of(data: &KeyData) -> Result<PublicKey, KeyFileError> {
    match data.ed25519() {
        Some(key) => Ok(PublicKey(key.0)),
        None => Err(other_kind(data.algorithm())),
    }
}

fn other_kind(algorithm: Algorithm) -> KeyFileError {
    KeyFileError::Kind(algorithm.as_str().to_owned())
}

fn of_library(error: &ssh_key::Error) -> KeyFileError {
    match error {
        ssh_key::Error::AlgorithmUnsupported { algorithm } => other_kind(algorithm.clone()),
        ssh_key::Error::AlgorithmUnknown => KeyFileError::Kind("of another kind".to_owned()),
        _ => KeyFileError::Damaged,
    }
}

/// What a file is that is no OpenSSH private key.
fn not_openssh(text: &str) -> KeyFileError {
    let has = |words: &str| text.contains(words);
    if text.split_whitespace().next().is_some_and(is_key_kind) {
        return KeyFileError::Public;
    }
    if has("-----BEGIN PRIVATE KEY-----") || has("-----BEGIN ENCRYPTED PRIVATE KEY-----") {
        return KeyFileError::Pkcs8;
    }
    for (words, kind) in [("BEGIN RSA PRIVATE", "ssh-rsa"), ("BEGIN EC PRIVATE", "ecdsa"), ("BEGIN DSA", "ssh-dss")] {
        if has(words) {
            return KeyFileError::Kind(kind.to_owned());
        }
    }
    KeyFileError::NoKey
}

/// Whether a word names a key type of any kind.
fn is_key_kind(word: &str) -> bool {
    ["ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-sha2-"].iter().any(|start| word.starts_with(start))
}

/// A comment without control characters, not too long.
fn tidy(comment: &str) -> String {
    let seen: String = comment.chars().filter(|character| !character.is_control()).collect();
    let mut tidy = String::new();
    for character in seen.trim().chars() {
        if tidy.len() + character.len_utf8() > COMMENT_BYTES_MAX {
            break;
        }
        tidy.push(character);
    }
    // Where it was cut may be a space, which a reader would not see.
    tidy.truncate(tidy.trim_end().len());
    tidy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_is_read_as_it_is_written() {
        for (comment, expected) in [
            (" anna@home\t", "anna@home"),
            // Behind a character that is left out may be a space, too.
            ("\u{3} anna\u{b}@home \u{b} ", "anna@home"),
            ("\u{3}", ""),
        ] {
            assert_eq!(tidy(comment), expected, "{comment:?}");
        }
        let long = "a".repeat(COMMENT_BYTES_MAX - 1) + " \u{e4}";
        assert_eq!(tidy(&long), "a".repeat(COMMENT_BYTES_MAX - 1));
        let key = KeyPair::generate().expect("there is randomness").public();
        let line = write_public(&key, "not the PRIVATE KEY").expect("it has a line");
        let comment = "not the PRIVATE KEY".to_owned();
        assert_eq!(read_public(&line), Ok(NamedKey { key, comment }));
        assert_eq!(read_public(&format!("{BEGIN}\n{line}")), Err(KeyFileError::Private));
    }
}
