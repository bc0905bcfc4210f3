//! Keys, proofs and seals as names: who holds a key can make them, who does not can only copy them.

use xdfs_proto::base::{ChannelId, Error, ErrorKind, SessionId};
use xdfs_proto::session::Payload;
use xdfs_proto::wire::Head;
use xdfs_proto::wire::control::ChannelGrant;

/// Who takes part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Who {
    /// Honest: the product's client.
    Ann,
    /// Has an account, and is on the way.
    Eve,
}

impl Who {
    /// Everybody, by number.
    pub const ALL: [Self; 2] = [Self::Ann, Self::Eve];

    /// The name of this one's session. A name is no right: everybody knows it.
    pub const fn session(self) -> SessionId {
        SessionId([self as u8 + 1; 16])
    }

    /// Whose session this is.
    pub fn of(session: SessionId) -> Option<Self> {
        Self::ALL.into_iter().find(|who| who.session() == session)
    }
}

/// The keys of one channel. They follow from the secret of `holder`'s TLS connection, a grant, and the names: as
/// `secure::keys` derives them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChannelKey {
    /// Who has the secret besides the server.
    pub holder: Who,
    /// The grant's secret.
    pub grant: u8,
    /// The session that was named in the derivation.
    pub session: SessionId,
    /// The channel that was named.
    pub channel: ChannelId,
}

/// Which end speaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum End {
    /// The client's.
    Client,
    /// The server's.
    Server,
}

impl End {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Client, Self::Server];

    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// A MAC over a JOIN, or over the answer to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Proof {
    /// Under which key.
    pub key: ChannelKey,
    /// In whose role.
    pub role: End,
    /// What it covers: the names that stand in the JOIN.
    pub says: (SessionId, ChannelId),
}

/// A JOIN, as it is said.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Join {
    /// The session that it names.
    pub session: SessionId,
    /// The channel that it names.
    pub channel: ChannelId,
    /// Its MAC; none for bytes that are none under any key.
    pub proof: Option<Proof>,
}

impl Join {
    /// The one that a holder of the key makes.
    pub const fn of(key: ChannelKey) -> Self {
        let says = (key.session, key.channel);
        Self { session: key.session, channel: key.channel, proof: Some(Proof { key, role: End::Client, says }) }
    }

    /// Whether the server finds it right under this key, which it derived itself.
    pub fn verify(&self, key: &ChannelKey) -> Result<(), Error> {
        let right = Proof { key: *key, role: End::Client, says: (self.session, self.channel) };
        if self.proof == Some(right) { Ok(()) } else { Err(Error::new(ErrorKind::SessionUnknown, "wrong proof")) }
    }
}

/// What the server derives for a channel of a session of `holder`'s.
pub fn derive(holder: Who, session: SessionId, channel: ChannelId, grant: &ChannelGrant) -> ChannelKey {
    ChannelKey { holder, grant: grant.secret[0], session, channel }
}

/// A record on its way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sealed {
    /// Under which key, by which end.
    pub key: (ChannelKey, End),
    /// The nonce: which key epoch, and which record of it.
    pub nonce: (u16, u64),
    /// Its head, which everybody reads.
    pub head: Head,
    /// What follows.
    pub payload: Payload,
    /// Somebody on the way changed a bit of what the tag covers.
    pub altered: bool,
}

impl Sealed {
    /// Whether it opens where a record of this end under this key with this nonce is due.
    pub fn opens(&self, key: ChannelKey, from: End, nonce: (u16, u64)) -> bool {
        self.key == (key, from) && self.nonce == nonce && !self.altered
    }
}
