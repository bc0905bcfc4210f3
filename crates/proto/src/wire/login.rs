//! Login messages inside OPEN: the claimed identity and its proof. This module defines what a proof
//! covers; the security layer creates and verifies proofs.

use super::codec::{Reader, WireError, Writer};
use super::handshake::Prefaces;
use crate::limits;
use alloc::vec::Vec;

/// Kind of a login, as OPEN names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum LoginKind {
    /// Anonymous: no credentials (WIRE-30).
    Anonymous = 0,
    /// A signature with a user's key: [`KeyLogin`].
    Key = 1,
    /// A signature with a token: [`TokenLogin`].
    Token = 2,
    /// SCRAM-SHA-256-PLUS: the client's first message.
    Password = 3,
}

impl LoginKind {
    /// Every kind, in the order of its code.
    pub const ALL: [Self; 4] = [Self::Anonymous, Self::Key, Self::Token, Self::Password];

    /// The kind of a wire code.
    pub fn from_code(code: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u64 == code)
    }

    /// Its bit in HELLO.
    pub const fn bit(self) -> u64 {
        1 << self as u8
    }
}

/// A login by a key that is registered for the user.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct KeyLogin {
    /// Name of the user.
    pub user: Vec<u8>,
    /// Ed25519 public key.
    pub key: [u8; 32],
    /// Signature over [`signed`].
    pub signature: [u8; 64],
}

impl KeyLogin {
    /// The payload on the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.bytes(&self.user).raw(&self.key).raw(&self.signature);
        writer.finish()
    }

    /// Reads it.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(payload);
        let user = reader.bytes(limits::USER_BYTES_MAX, "user name")?.to_vec();
        let login = Self { user, key: reader.array()?, signature: reader.array()? };
        reader.end()?;
        Ok(login)
    }
}

/// A login by a token: the server knows its owner.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TokenLogin {
    /// Ed25519 public key of the token.
    pub key: [u8; 32],
    /// Signature over [`signed`], with an empty user.
    pub signature: [u8; 64],
}

impl TokenLogin {
    /// The payload on the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.raw(&self.key).raw(&self.signature);
        writer.finish()
    }

    /// Reads it.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(payload);
        let login = Self { key: reader.array()?, signature: reader.array()? };
        reader.end()?;
        Ok(login)
    }
}

/// What a login by key or token signs. Every part has a fixed size but the user, whose length
/// stands in front of it, so no two logins sign the same bytes. `binding` is the exporter's value
/// of this very TLS connection: a signature is worth nothing on any other.
pub fn signed(
    kind: LoginKind,
    binding: &[u8; 32],
    host: &[u8; 32],
    prefaces: &Prefaces,
    user: &[u8],
    key: &[u8; 32],
) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.raw(b"xdfs login\0").byte(kind as u8).raw(binding).raw(host).raw(prefaces).raw(key).bytes(user);
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_come_back_and_no_byte_may_follow() {
        let key = KeyLogin { user: b"ada".to_vec(), key: [1; 32], signature: [2; 64] };
        assert_eq!(KeyLogin::decode(&key.encode()), Ok(key.clone()));
        let token = TokenLogin { key: [1; 32], signature: [2; 64] };
        assert_eq!(TokenLogin::decode(&token.encode()), Ok(token.clone()));
        assert_eq!(TokenLogin::decode(&key.encode()), Err(WireError::Trailing));
        assert_eq!(KeyLogin::decode(&[&key.encode()[..], &[0]].concat()), Err(WireError::Trailing));
        let long = KeyLogin { user: alloc::vec![b'a'; limits::USER_BYTES_MAX + 1], ..key };
        assert_eq!(KeyLogin::decode(&long.encode()), Err(WireError::TooLong("user name")));
    }

    #[test]
    fn what_is_signed_differs_in_every_part() {
        let base = signed(LoginKind::Key, &[1; 32], &[2; 32], &[3; 16], b"ada", &[4; 32]);
        for other in [
            signed(LoginKind::Token, &[1; 32], &[2; 32], &[3; 16], b"ada", &[4; 32]),
            signed(LoginKind::Key, &[9; 32], &[2; 32], &[3; 16], b"ada", &[4; 32]),
            signed(LoginKind::Key, &[1; 32], &[9; 32], &[3; 16], b"ada", &[4; 32]),
            signed(LoginKind::Key, &[1; 32], &[2; 32], &[9; 16], b"ada", &[4; 32]),
            signed(LoginKind::Key, &[1; 32], &[2; 32], &[3; 16], b"adb", &[4; 32]),
            signed(LoginKind::Key, &[1; 32], &[2; 32], &[3; 16], b"ada", &[9; 32]),
        ] {
            assert_ne!(base, other);
        }
    }
}
