//! `none`: no secrecy and no identity. Whoever sees both random values can compute every key of the session.
//!
//! It gives records their final form (head, tag, payload, sequence) and catches accidents, nothing more. It must not be
//! offered beyond one host.
//!
//! ```text
//! join secret = HKDF-Extract(salt = client random (32) || server random (32),
//!                            IKM = "xdfs none: these keys are not secret")
//! ```

use xdfs_proto::base::SessionId;

use super::{Established, Handshake};
use crate::Error;
use crate::keys::JoinSecret;
use crate::secret::extract;

/// Bytes that each side contributes.
const RANDOM_BYTES: usize = 32;

/// Both sides' random values.
#[derive(Clone, Copy, Debug)]
pub struct NoneHandshake {
    /// What the client drew.
    pub client_random: [u8; RANDOM_BYTES],
    /// What the server drew.
    pub server_random: [u8; RANDOM_BYTES],
}

impl Handshake for NoneHandshake {
    /// The session's id plays no part in the secret; it is part of every channel's keys.
    fn establish(self, _session: SessionId) -> Result<Established, Error> {
        let mut salt = [0; 2 * RANDOM_BYTES];
        salt[..RANDOM_BYTES].copy_from_slice(&self.client_random);
        salt[RANDOM_BYTES..].copy_from_slice(&self.server_random);
        let secret = extract(&salt, b"xdfs none: these keys are not secret")?;
        Ok(Established { join_secret: JoinSecret::from_secret(secret) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(client: u8, server: u8) -> Result<[u8; 32], Error> {
        let handshake = NoneHandshake { client_random: [client; 32], server_random: [server; 32] };
        Ok(*handshake.establish(SessionId([7; 16]))?.join_secret.bytes())
    }

    #[test]
    fn the_secret_depends_on_both_sides_and_on_who_is_who() -> Result<(), Error> {
        assert_eq!(secret(1, 2)?, secret(1, 2)?);
        assert_ne!(secret(1, 2)?, secret(1, 3)?);
        assert_ne!(secret(1, 2)?, secret(3, 2)?);
        assert_ne!(secret(1, 2)?, secret(2, 1)?);
        Ok(())
    }
}
