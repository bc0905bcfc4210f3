//! How two ends come to share a secret. One file per mechanism.
//!
//! Contract of a member:
//! - It does no I/O and draws no random bytes: what the peer sent and what was drawn come in as arguments.
//! - It ends in [`Handshake::establish`], once, when everything the mechanism demands of the peer has been verified.
//!   Before that there is no join secret, so there can be no key, no record and no operation.
//! - Both ends get the same join secret exactly when they saw the same handshake. A third party that altered it, or one
//!   that only listened, does not get it; a member that cannot promise this says so in its first line.
//!
//! What callers may not assume: that a join secret says who the peer is (logging in does), or that two sessions with the
//! same peer are related.

mod none;

pub use none::NoneHandshake;

use xdfs_proto::base::SessionId;

use crate::Error;
use crate::keys::JoinSecret;

/// What every mechanism ends in; nothing after the handshake can tell which it was.
#[derive(Debug)]
pub struct Established {
    /// The secret from which every channel of the session takes its keys.
    pub join_secret: JoinSecret,
}

/// The last step of every mechanism.
pub trait Handshake {
    /// Turns a finished handshake into the secret of `session`.
    fn establish(self, session: SessionId) -> Result<Established, Error>;
}
