//! How two ends establish a shared secret and the client authenticates the server. One folder per
//! mechanism.
//!
//! Contract of an implementation:
//! - It does no I/O: bytes of the peer come in, bytes for the peer go out.
//! - Nothing of the application leaves before the peer's part is verified, and there is no join
//!   secret, so no key, no record and no operation, before the handshake is finished.
//! - Both ends get the same join secret and the same binding exactly when they saw the same
//!   handshake. A third party that altered it, or one that only listened, gets neither.
//!
//! Callers must not assume that a finished handshake identifies the client (the
//! [login](crate::login) does), or that the server's key is the right one (the caller's
//! [`HostCheck`] decides).

pub mod tls;

use xdfs_proto::base::{Error, ErrorKind};

use crate::policy::Fingerprint;

/// What a server presented. Possession of the private half is proved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// Of its key.
    pub fingerprint: Fingerprint,
    /// What the client's roots say of the server's name.
    pub chain: Chain,
}

/// The result of checking a server's certificate chain against the client's roots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Chain {
    /// No roots were configured.
    Unasked,
    /// It is valid for the server's name now.
    Good,
    /// It is not valid, for this reason.
    Bad(String),
}

/// Decides whether a server is the intended one. Called after the server has proved that it holds
/// the key, and before the client sends anything of its own. It may ask a person.
pub trait HostCheck: Send + Sync {
    /// Whether what `host:port` showed is what is expected of it; else why the client goes no
    /// further.
    fn check(&self, host: &str, port: u16, shown: &Shown) -> Result<(), Error>;
}

/// Accepts exactly one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pinned(pub Fingerprint);

impl HostCheck for Pinned {
    fn check(&self, host: &str, port: u16, shown: &Shown) -> Result<(), Error> {
        if shown.fingerprint == self.0 {
            return Ok(());
        }
        let (shown, expected) = (shown.fingerprint, self.0);
        let text = format!("{host}:{port} shows the key {shown}, expected is {expected}: somebody may be in between");
        Err(Error::new(ErrorKind::Refused, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_takes_its_key_alone_whoever_certifies_another() {
        let shown = |byte, chain| Shown { fingerprint: Fingerprint([byte; 32]), chain };
        let pinned = Pinned(Fingerprint([1; 32]));
        assert!(pinned.check("host", 1, &shown(1, Chain::Unasked)).is_ok());
        let refused = pinned.check("host", 1, &shown(2, Chain::Good));
        assert_eq!(refused.map_err(|error| error.kind), Err(ErrorKind::Refused));
    }
}
