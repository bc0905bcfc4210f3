//! TLS: the only module that depends on the TLS library.
//!
//! What it is for: [`Stream`] is a connection that is fed with one TLS record at a time, so that it
//! never holds a byte of what follows it on the connection; [`ServerIdentity`] and [`ClientTls`]
//! are what the two ends start one with.
//!
//! [`byte_stream`] is apart: TLS for other protocols than this one, which stays TLS to its end; and
//! [`related`], which resumes sessions, and has TLS 1.2 too; and [`gsi`], with the proxies of grids.
//!
//! What it must not do: resume a session, take early data, issue tickets, or change keys on the
//! way. A message behind the handshake that carries no application data and does not close is
//! fatal, so is more than [`DATA_BYTES_MAX`] in one direction. Each direction leaves TLS by itself:
//! the byte behind its close_notify belongs to the records ([`Farewell`]).

pub mod byte_stream;
mod client;
mod der;
mod farewell;
pub mod gsi;
mod identity;
pub mod related;
mod server;
mod stream;
#[cfg(test)]
mod tests;
mod validity;

pub use client::{Certificates, ClientTls, read_roots};
pub use farewell::{FAREWELL_BYTES, Farewell};
pub use identity::{HostIdentity, SiteCertificate, SiteError};
pub use server::{ServerIdentity, ServerStart};
pub use stream::{RECORD_HEAD_BYTES, Stream};
pub use validity::Validity;

/// Feeds what reads a certificate: whatever it is, it is good from and until some second, or is
/// none.
#[cfg(debug_assertions)]
pub fn feed_certificate(input: &[u8]) {
    if let Some(Validity { from, until }) = Validity::of(input) {
        // The last second that a certificate can name is that of the year 9999.
        assert!(from.max(until) <= 253_402_300_799, "{from}, {until}");
    }
}

use rustls::crypto::aws_lc_rs;
use rustls::crypto::{CryptoProvider, aws_lc_rs::cipher_suite, aws_lc_rs::kx_group};
use std::sync::Arc;
use xdfs_proto::base::{Error, ErrorKind};

/// The protocol's name in TLS. A server of another protocol that shares the key cannot be mistaken
/// for this one (ALPACA).
pub(super) const PROTOCOL: &[u8] = b"xdfs/1";

/// Most application data that is taken, and sent, in one direction: an OPEN or ACCEPT and a few
/// short messages.
pub const DATA_BYTES_MAX: usize = 64 * 1024;

/// The hybrid post-quantum group first, and of the suites with keys of 256 bits the one whose hash
/// is SHA-256: a login is a few hundred bytes to seal and some forty hashes, and for SHA-384
/// processors have no instructions (docs/decisions/0005-login.md).
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_AES_128_GCM_SHA256,
        ],
        kx_groups: vec![kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP256R1],
        ..aws_lc_rs::default_provider()
    })
}

/// A violation by the peer, or a failure of the library, in this crate's terms.
pub(super) fn failed(error: &rustls::Error) -> Error {
    let kind = match error {
        rustls::Error::General(_) | rustls::Error::FailedToGetRandomBytes => ErrorKind::Resources,
        _ => ErrorKind::Protocol,
    };
    Error::new(kind, format!("the TLS handshake failed: {error}"))
}
