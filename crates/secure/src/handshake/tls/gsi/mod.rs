//! GSI: TLS as grids use it, where a user shows a short-lived proxy (RFC 3820) that his own certificate signed, and may
//! give the other end one more.
//!
//! What it is for: [`Credential`] is what this end shows, [`TrustStore`] whom it believes, [`Gsi`] starts handshakes
//! with both. Proxies, names and signing policies are judged here; the certificates below them are left to the TLS
//! library.
//!
//! What it must not do: read files or the clock (TLS itself asks for the time of a handshake), or move bytes: whoever
//! has the connection gives tokens to [`Handshake::step`] and sends what comes out.

mod certificate;
mod chain;
mod credential;
mod delegation;
mod fault;
#[cfg(debug_assertions)]
pub mod fuzzing;
mod handshake;
mod names;
mod policy;
mod server_name;
mod stream;
mod trust;
mod verifier;

#[cfg(test)]
mod tests;

pub use certificate::ProxyKind;
pub use chain::Holder;
pub use credential::Credential;
pub use fault::GsiFault;
pub use handshake::{Extent, Handshake};
pub use stream::{GsiStream, whole_record};
pub use trust::TrustStore;
pub use verifier::{Expected, Gsi};
