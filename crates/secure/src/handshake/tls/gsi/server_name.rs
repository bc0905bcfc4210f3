//! The name of a server that clients of GSI ask for, which is often none: they send the name of the user whose proxy the
//! server shows, with its spaces, and the TLS library ends the handshake there.
//!
//! Nobody here wants that name. So it is hidden: the library gets the greeting with another number on that extension, one
//! that nobody knows, and takes it for an extension to ignore. What both ends sign is the hash of the greeting as the
//! client sent it; the hash functions that the library uses here put the number back first. A client that sends the
//! hidden number itself signs something else than this end checks, and its handshake fails.

use std::sync::LazyLock;

use rustls::crypto::aws_lc_rs::cipher_suite;
use rustls::crypto::hash::{Context, Hash, HashAlgorithm, Output};
use rustls::{SupportedCipherSuite, Tls13CipherSuite};

/// The extension with the server's name.
const SERVER_NAME: [u8; 2] = [0, 0];

/// What it is hidden as: a number that is reserved for private use (RFC 8446, section 11).
const HIDDEN: [u8; 2] = [0xff, 0x19];

/// A record with a part of a handshake.
const HANDSHAKE: u8 = 22;

/// The first message of a client.
const CLIENT_HELLO: u8 = 1;

/// The head of a record.
const RECORD_HEAD_BYTES: usize = 5;

/// The head of a message of the handshake.
const MESSAGE_HEAD_BYTES: usize = 4;

/// Hides the name in a token with a client's greeting.
pub(super) fn hide(token: &mut [u8]) {
    if token.first() == Some(&HANDSHAKE) && token.len() > RECORD_HEAD_BYTES {
        replace(&mut token[RECORD_HEAD_BYTES..], SERVER_NAME, HIDDEN);
    }
}

/// Replaces the number of an extension in a greeting at the start of `message`.
fn replace(message: &mut [u8], from: [u8; 2], to: [u8; 2]) {
    if let Some(at) = extension_at(message, from) {
        message[at..at + 2].copy_from_slice(&to);
    }
}

/// Where the number of an extension stands in a greeting.
fn extension_at(message: &[u8], wanted: [u8; 2]) -> Option<usize> {
    if message.first() != Some(&CLIENT_HELLO) {
        return None;
    }
    let byte = |at: usize| message.get(at).map(|&byte| usize::from(byte));
    let pair = |at: usize| Some(byte(at)? << 8 | byte(at + 1)?);
    // Version and random number; then the session, the ciphers and the ways to compress.
    let mut at = MESSAGE_HEAD_BYTES + 2 + 32;
    at += 1 + byte(at)?;
    at += 2 + pair(at)?;
    at += 1 + byte(at)?;
    let end = at + 2 + pair(at)?;
    at += 2;
    while at + 4 <= end {
        if message.get(at..at + 2)? == wanted {
            return Some(at);
        }
        at += 4 + pair(at + 2)?;
    }
    None
}

/// A hash function that puts the name's number back.
struct Restoring(&'static dyn Hash);

impl Hash for Restoring {
    fn start(&self) -> Box<dyn Context> {
        Box::new(RestoringContext(self.0.start()))
    }

    fn hash(&self, data: &[u8]) -> Output {
        self.0.hash(&restored(data))
    }

    fn output_len(&self) -> usize {
        self.0.output_len()
    }

    fn algorithm(&self) -> HashAlgorithm {
        self.0.algorithm()
    }
}

struct RestoringContext(Box<dyn Context>);

impl Context for RestoringContext {
    fn fork_finish(&self) -> Output {
        self.0.fork_finish()
    }

    fn fork(&self) -> Box<dyn Context> {
        Box::new(Self(self.0.fork()))
    }

    fn finish(self: Box<Self>) -> Output {
        self.0.finish()
    }

    fn update(&mut self, data: &[u8]) {
        self.0.update(&restored(data));
    }
}

/// Messages of a handshake as the client sent them: the library hashes whole ones.
fn restored(data: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(head) = data.get(at..at + MESSAGE_HEAD_BYTES) {
        let length = head[1..].iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
        if let Some(place) = data.get(at..).and_then(|message| extension_at(message, HIDDEN)) {
            found.push(at + place);
        }
        at += MESSAGE_HEAD_BYTES + length;
    }
    if found.is_empty() {
        return data.into();
    }
    let mut original = data.to_vec();
    for at in found {
        original[at..at + 2].copy_from_slice(&SERVER_NAME);
    }
    original.into()
}

/// The ciphers of an end that hides names.
pub(super) fn suites() -> Vec<SupportedCipherSuite> {
    static SUITES: LazyLock<Vec<&'static Tls13CipherSuite>> = LazyLock::new(|| {
        let known = [
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ];
        known.iter().filter_map(restoring).collect()
    });
    SUITES.iter().map(|suite| SupportedCipherSuite::Tls13(suite)).collect()
}

/// A suite with another hash function. The library wants it to live for ever, and so it does: there are three.
fn restoring(suite: &SupportedCipherSuite) -> Option<&'static Tls13CipherSuite> {
    let SupportedCipherSuite::Tls13(suite) = suite else { return None };
    let hash: &'static Restoring = Box::leak(Box::new(Restoring(suite.common.hash_provider)));
    let common = rustls::crypto::CipherSuiteCommon { hash_provider: hash, ..copied(&suite.common) };
    let Tls13CipherSuite { hkdf_provider, aead_alg, quic, .. } = **suite;
    Some(Box::leak(Box::new(Tls13CipherSuite { common, hkdf_provider, aead_alg, quic })))
}

fn copied(common: &rustls::crypto::CipherSuiteCommon) -> rustls::crypto::CipherSuiteCommon {
    rustls::crypto::CipherSuiteCommon {
        suite: common.suite,
        hash_provider: common.hash_provider,
        confidentiality_limit: common.confidentiality_limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A greeting with these extensions.
    fn greeting(extensions: &[(u16, &[u8])]) -> Vec<u8> {
        let mut list = Vec::new();
        for (number, content) in extensions {
            list.extend_from_slice(&number.to_be_bytes());
            list.extend_from_slice(&(content.len() as u16).to_be_bytes());
            list.extend_from_slice(content);
        }
        let mut body = [&[3, 3][..], &[7; 32], &[2, 1, 1], &[0, 2, 0x13, 1], &[1, 0]].concat();
        body.extend_from_slice(&(list.len() as u16).to_be_bytes());
        body.extend_from_slice(&list);
        [&[CLIENT_HELLO, 0, 0, body.len() as u8][..], &body].concat()
    }

    #[test]
    fn a_name_is_hidden_and_hashed_as_it_was_sent() {
        let message = greeting(&[(10, b"ab"), (0, b"Anna Example"), (43, b"")]);
        let mut token = [&[HANDSHAKE, 3, 1, 0, message.len() as u8][..], &message].concat();
        hide(&mut token);
        let hidden = &token[RECORD_HEAD_BYTES..];
        assert_ne!(hidden, message);
        assert_eq!(extension_at(hidden, SERVER_NAME), None);
        assert_eq!(*restored(hidden), message[..]);
        // Behind another message, as it stands after a second greeting.
        let behind = [&[254, 0, 0, 1, 9][..], hidden].concat();
        assert_eq!(restored(&behind)[5..], message[..]);
    }

    #[test]
    fn a_greeting_without_a_name_and_anything_else_stay_as_they_are() {
        let message = greeting(&[(10, b"ab")]);
        let mut token = [&[HANDSHAKE, 3, 1, 0, 0][..], &message].concat();
        let before = token.clone();
        hide(&mut token);
        assert_eq!(token, before);
        let whole = greeting(&[(0, b"x"), (10, b"ab")]);
        for length in 0..whole.len() {
            // Cut anywhere: it is not found or lies within.
            if let Some(at) = extension_at(&whole[..length], SERVER_NAME) {
                assert!(at + 2 <= length);
            }
            assert_eq!(restored(&whole[..length]).len(), length);
        }
    }
}
