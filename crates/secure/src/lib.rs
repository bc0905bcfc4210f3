//! Keys, record sealing and the proofs of joining: the only crate of xdfs with cryptography.
//!
//! What it is for: a handshake ends in a [`JoinSecret`](keys::JoinSecret); secret and grant give each channel its
//! [keys](keys::ChannelKeys); these prove a JOIN ([`join`]) and seal and open [`record`]s in place.
//!
//! What it must not do: read or write a socket or a file, look at a clock, or allocate per record. Heads are opaque here:
//! what a field of a head means is the protocol's business. Randomness is drawn in one place, [`random`], and handed to
//! everything else as an argument, so that handshakes run the same in the simulator.
//!
//! No secret type can be cloned, compared or printed; each wipes its bytes when it is dropped.
#![forbid(unsafe_code)]

pub mod content;
pub mod error;
pub mod handshake;
pub mod identity;
pub mod join;
pub mod journal;
pub mod keys;
pub mod login;
pub mod naming;
pub mod policy;
pub mod random;
pub mod record;
#[cfg(feature = "reveal")]
pub mod reveal;
mod secret;
#[cfg(test)]
mod vectors;

pub use error::Error;
/// Wipes what it holds when it goes: for the text of a key or a password on its way here.
pub use zeroize::Zeroizing;
