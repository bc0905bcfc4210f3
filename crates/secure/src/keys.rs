//! From one secret per session to the keys of every channel, direction and epoch.
//!
//! ```text
//! prk    = HKDF-Extract(salt = grant, IKM = join secret)                                   SHA-256, RFC 5869
//! output = HKDF-Expand(prk, label || session id (16) || channel (u16, big-endian) || direction (1) || rest)
//!
//! label "xdfs join", direction 0,      no rest: the key of JOIN's proofs, 32 bytes
//! label "xdfs key",  direction 0 or 1, suite:   the cipher's key, 32 bytes   0 client to server, 1 server to client
//! label "xdfs iv",   direction 0 or 1, suite:   12 bytes
//!
//! next key = HKDF-Expand(key, "xdfs rekey key"), 32 bytes; next iv = HKDF-Expand(key, "xdfs rekey iv"), 12 bytes
//! ```
//!
//! No label names a protection level: GMAC is GCM with an empty plain text, one key serves all
//! levels, and one sequence counter prevents the reuse of a nonce. The suite is an input to its
//! keys, so a key made for one cipher is never used with another. A channel number is used once in
//! a session and a grant only once, so no two channels ever share a key.
//!
//! It must not know where the join secret came from, nor keep a grant after its channel joined.

mod join;

use core::fmt;

use xdfs_proto::base::{ChannelId, SessionId, Suite};

pub use join::{JoinKey, PROOF_BYTES};

use crate::Error;
use crate::secret::{Secret, expand, extract};

/// Bytes of a join secret and of a grant.
pub const SECRET_BYTES: usize = 32;
/// Bytes of an AES-256 key.
pub(crate) const KEY_BYTES: usize = 32;
/// Bytes of an initialisation vector, which is the nonce of record 0.
pub(crate) const IV_BYTES: usize = 12;

/// The role of this end in the session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Opened the connection.
    Client,
    /// Accepted it.
    Server,
}

impl Role {
    /// The other end.
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// The direction byte of what this role sends.
    const fn direction(self) -> u8 {
        match self {
            Self::Client => 0,
            Self::Server => 1,
        }
    }
}

/// The result of a handshake: the secret from which the keys of every channel of one session are
/// derived.
pub struct JoinSecret {
    secret: Secret<SECRET_BYTES>,
    /// The suite that seals every record of the session; it is negotiated with the secret and never
    /// changes.
    suite: Suite,
}

impl JoinSecret {
    /// The secret with these bytes, for AES-256-GCM; the caller wipes its own copy.
    pub fn new(bytes: &[u8; SECRET_BYTES]) -> Self {
        Self::from_secret(Secret::copied(bytes), Suite::Aes256Gcm)
    }

    pub(crate) fn from_secret(secret: Secret<SECRET_BYTES>, suite: Suite) -> Self {
        Self { secret, suite }
    }

    /// Whether two ends have the same secret.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> &[u8; SECRET_BYTES] {
        self.secret.bytes()
    }
}

/// The right to bind one connection to one channel, once: 32 random bytes that the server drew and
/// sent to the client over a trusted channel. The server enforces that it is used once: it removes
/// the grant from its table with the first valid JOIN, before any data.
pub struct GrantSecret(Secret<SECRET_BYTES>);

#[cfg(debug_assertions)]
impl Drop for GrantSecret {
    fn drop(&mut self) {
        crate::reveal::keep_grant_secret(self.0.bytes());
    }
}

impl GrantSecret {
    /// A fresh secret.
    pub fn random() -> Result<Self, Error> {
        let mut secret = Secret::zeroed();
        crate::random::fill(secret.bytes_mut())?;
        Ok(Self(secret))
    }

    /// The secret with these bytes, as the client received them; the caller wipes its own copy.
    pub fn new(bytes: &[u8; SECRET_BYTES]) -> Self {
        Self(Secret::copied(bytes))
    }

    /// The bytes, to be sent to the client only.
    pub fn bytes(&self) -> &[u8; SECRET_BYTES] {
        self.0.bytes()
    }
}

/// All keys of one channel in its first epoch.
pub struct ChannelKeys {
    /// Authenticates a JOIN and its reply.
    pub join: JoinKey,
    /// Seals what the client sends.
    pub client_to_server: DirectionKeys,
    /// Seals what the server sends.
    pub server_to_client: DirectionKeys,
}

impl ChannelKeys {
    /// The keys of `channel` of `session`.
    pub fn derive(
        secret: &JoinSecret,
        grant: &GrantSecret,
        session: SessionId,
        channel: ChannelId,
    ) -> Result<Self, Error> {
        let prk = extract(grant.bytes(), secret.secret.bytes())?;
        let context = |direction: u8| {
            let mut context = [0u8; 19];
            context[..16].copy_from_slice(&session.0);
            context[16..18].copy_from_slice(&channel.0.to_be_bytes());
            context[18] = direction;
            context
        };
        let direction = |role: Role| -> Result<DirectionKeys, Error> {
            let (context, suite) = (context(role.direction()), [secret.suite as u8]);
            Ok(DirectionKeys {
                key: expand(&prk, &[b"xdfs key", &context, &suite])?,
                iv: expand(&prk, &[b"xdfs iv", &context, &suite])?,
                suite: secret.suite,
            })
        };
        Ok(Self {
            join: JoinKey::new(expand(&prk, &[b"xdfs join", &context(0)])?),
            client_to_server: direction(Role::Client)?,
            server_to_client: direction(Role::Server)?,
        })
    }

    /// The same keys, named by what `role` does with them.
    pub fn for_role(self, role: Role) -> RoleKeys {
        let Self { join, client_to_server, server_to_client } = self;
        match role {
            Role::Client => RoleKeys { join, seal: client_to_server, open: server_to_client },
            Role::Server => RoleKeys { join, seal: server_to_client, open: client_to_server },
        }
    }
}

/// The keys of one channel as one end uses them.
pub struct RoleKeys {
    /// Authenticates a JOIN and its reply.
    pub join: JoinKey,
    /// For the [`Sealer`](crate::record::Sealer).
    pub seal: DirectionKeys,
    /// For the [`Opener`](crate::record::Opener).
    pub open: DirectionKeys,
}

/// Key and initialisation vector of one channel, direction and epoch.
pub struct DirectionKeys {
    key: Secret<KEY_BYTES>,
    iv: Secret<IV_BYTES>,
    suite: Suite,
}

impl DirectionKeys {
    /// The keys of the next epoch. One-way: an attacker who learns them later cannot open earlier
    /// records.
    pub(crate) fn next(&self) -> Result<Self, Error> {
        let (key, iv) = (expand(&self.key, &[b"xdfs rekey key"])?, expand(&self.key, &[b"xdfs rekey iv"])?);
        Ok(Self { key, iv, suite: self.suite })
    }

    /// The purpose of the keys.
    pub(crate) fn suite(&self) -> Suite {
        self.suite
    }

    pub(crate) fn key(&self) -> &[u8; KEY_BYTES] {
        self.key.bytes()
    }

    pub(crate) fn iv(&self) -> &[u8; IV_BYTES] {
        self.iv.bytes()
    }
}

/// Debug output of a secret is its type name without its content, so that a struct that contains
/// one can still be printed.
macro_rules! opaque {
    ($($name:ident),*) => {
        $(impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        })*
    };
}

opaque!(JoinSecret, GrantSecret, ChannelKeys, RoleKeys, DirectionKeys);

#[cfg(test)]
mod tests {
    use super::*;

    /// Every output of one derivation, the next epoch's included.
    fn outputs(secret: u8, grant: u8, session: u8, channel: u16) -> Result<Vec<Vec<u8>>, Error> {
        outputs_for(Suite::Aes256Gcm, secret, grant, session, channel)
    }

    fn outputs_for(suite: Suite, secret: u8, grant: u8, session: u8, channel: u16) -> Result<Vec<Vec<u8>>, Error> {
        let secret = JoinSecret::from_secret(Secret::copied(&[secret; SECRET_BYTES]), suite);
        let grant = GrantSecret::new(&[grant; 32]);
        let keys = ChannelKeys::derive(&secret, &grant, SessionId([session; 16]), ChannelId(channel))?;
        let mut outputs = vec![keys.join.bytes().to_vec()];
        for direction in [&keys.client_to_server, &keys.server_to_client] {
            for keys in [direction, &direction.next()?] {
                outputs.push(keys.key().to_vec());
                outputs.push(keys.iv().to_vec());
            }
        }
        Ok(outputs)
    }

    #[test]
    fn no_output_is_shared_between_secrets_grants_sessions_channels_directions_or_epochs() -> Result<(), Error> {
        let mut all = Vec::new();
        // Channels 1 and 256 are each other's bytes swapped.
        for (secret, grant, session, channel) in
            [(1, 2, 3, 1), (9, 2, 3, 1), (1, 9, 3, 1), (1, 2, 9, 1), (1, 2, 3, 2), (1, 2, 3, 256), (2, 1, 3, 1)]
        {
            all.extend(outputs(secret, grant, session, channel)?);
        }
        let count = all.len();
        assert_eq!(count, 7 * 9);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count, "two derivations share an output");
        Ok(())
    }

    #[test]
    fn no_key_of_one_suite_serves_the_other() -> Result<(), Error> {
        let of = |suite| outputs_for(suite, 1, 2, 3, 4);
        let (one, other) = (of(Suite::Aes256Gcm)?, of(Suite::ChaCha20Poly1305)?);
        assert_eq!(one[0], other[0], "a JOIN is proved before a record is sealed");
        for key in &one[1..] {
            assert!(!other.contains(key));
        }
        Ok(())
    }

    #[test]
    fn no_output_is_the_start_of_another() -> Result<(), Error> {
        // An iv that were the first bytes of a key would publish them.
        let outputs = outputs(1, 2, 3, 4)?;
        for (index, one) in outputs.iter().enumerate() {
            for (other_index, other) in outputs.iter().enumerate() {
                assert!(index == other_index || !other.starts_with(&one[..IV_BYTES]), "{index} starts {other_index}");
            }
        }
        Ok(())
    }

    #[test]
    fn both_ends_derive_the_same_keys_and_use_them_crosswise() -> Result<(), Error> {
        let derive = || {
            ChannelKeys::derive(
                &JoinSecret::new(&[1; 32]),
                &GrantSecret::new(&[2; 32]),
                SessionId([3; 16]),
                ChannelId(4),
            )
        };
        let (client, server) = (derive()?.for_role(Role::Client), derive()?.for_role(Role::Server));
        assert_eq!(client.seal.key(), server.open.key());
        assert_eq!(client.open.key(), server.seal.key());
        assert_ne!(client.seal.key(), client.open.key());
        assert_eq!(client.seal.iv(), server.open.iv());
        Ok(())
    }

    #[test]
    fn a_printed_secret_shows_nothing_of_its_bytes() -> Result<(), Error> {
        assert_eq!(format!("{:?}", JoinSecret::new(&[0x41; 32])), "JoinSecret(..)");
        assert_eq!(format!("{:?}", GrantSecret::new(&[0x41; 32])), "GrantSecret(..)");
        Ok(())
    }

    #[test]
    fn two_grants_differ() -> Result<(), Error> {
        assert_ne!(GrantSecret::random()?.bytes(), GrantSecret::random()?.bytes());
        Ok(())
    }
}
