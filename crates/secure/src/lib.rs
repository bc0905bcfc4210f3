//! Keys, record sealing and the proofs of joining: the only crate of xdfs with cryptography.
//!
//! Purpose: a handshake yields a [`JoinSecret`](keys::JoinSecret); secret and grant give each
//! channel its [keys](keys::ChannelKeys); these authenticate a JOIN ([`JoinKey`](keys::JoinKey)) and
//! seal and open [`record`]s in place.
//!
//! This crate must not read or write a socket or a file, read a clock, or allocate per record.
//! Heads are opaque here: the protocol defines their fields. Randomness is drawn in one place,
//! [`random`], and passed to everything else as an argument, so that handshakes run the same in the
//! simulator.
//!
//! No secret type can be cloned, compared or printed; each wipes its bytes when it is dropped.
#![forbid(unsafe_code)]

pub mod checksum;
pub mod content;
pub mod error;
pub mod handshake;
pub mod identity;
pub mod journal;
pub mod keys;
pub mod login;
pub mod naming;
pub mod policy;
pub mod random;
pub mod record;
#[cfg(debug_assertions)]
pub mod reveal;
mod secret;
#[cfg(test)]
mod vectors;

pub use error::Error;
/// Wipes its content when it is dropped: for the text of a key or a password on its way into this
/// crate.
pub use zeroize::Zeroizing;
