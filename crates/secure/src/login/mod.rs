//! Authentication of the client: proved inside TLS and bound to that one connection, so that a
//! proof is worthless elsewhere.
//!
//! [`ClientLogin`] creates the content of OPEN and answers a challenge; [`ServerLogin`] verifies it
//! and yields a [`Principal`](crate::policy::Principal). This module must not look up keys or
//! users: the driver signs (a key may live in an agent), and a
//! [`Directory`](crate::policy::Directory) knows the users.
//!
//! A refusal never states what was wrong: an unknown user, an unknown key and a wrong signature get
//! the same reply, and for the password of an unknown user the server continues with a made-up
//! verifier ([`Decoy`]) for the same reason.

mod client;
pub mod messages;
mod password;
mod scram;
mod server;
mod stretch;

pub use client::{ClientLogin, LoginStep, Offered};
pub use password::Password;
pub use server::{Decoy, FailedLogin, IssuedChallenge, LoginDecision, ServerLogin};
pub use stretch::{Stretched, Stretching};

use xdfs_proto::wire::handshake::Prefaces;
use xdfs_proto::wire::login::{LoginKind, signed};

use crate::policy::{Fingerprint, PublicKey};

/// Logins that one connection may try: a client may hold a few keys of which the server knows one.
pub const TRIES_MAX: u8 = 6;

/// Bytes of randomness in each side's nonce of a password login.
pub const NONCE_BYTES: usize = 18;

/// The values that bind a login to its connection.
#[derive(Clone, Debug)]
pub struct Binding {
    /// The exporter's value for signatures.
    pub login: [u8; 32],
    /// The exporter's value for SCRAM (RFC 9266).
    pub channel: [u8; 32],
    /// The server's key.
    pub host: Fingerprint,
    /// What both sides sent in clear.
    pub prefaces: Prefaces,
}

impl Binding {
    fn signed(&self, kind: LoginKind, user: &str, key: &PublicKey) -> Vec<u8> {
        signed(kind, &self.login, &self.host.0, &self.prefaces, user.as_bytes(), &key.0)
    }
}

#[cfg(test)]
mod tests;
