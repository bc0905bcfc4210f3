//! Bounds of a server, each with its reason. What the protocol bounds is in `proto::limits`.

use std::time::Duration;
use xdfs_proto::admit::Limits;
use xdfs_xio::store::KeptLimits;

/// What a server holds at most, and for how long. The defaults are what is shipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerLimits {
    /// Connections that have not said what they are, and channels that are about to join. Each costs a descriptor and
    /// some hundred bytes; as many as a session may have channels.
    pub silent: usize,
    /// Time for the first eight bytes, from the acceptance: three round trips on the longest path, with a segment lost.
    pub first_bytes: Duration,
    /// Logins at a time from which on newcomers displace those of the most numerous source.
    pub guests_soft: usize,
    /// Logins at a time: with some 25 KiB each for TLS, and at most 64 KiB for what they have said of OPEN, they stay below
    /// 24 MiB.
    pub guests: usize,
    /// Logins at a time from one source (an IPv4 address, a /56 of IPv6).
    pub guests_per_source: usize,
    /// Time that a connection has to become a channel, from its acceptance, whatever it sends.
    pub opening: Duration,
    /// Sources whose failed logins are remembered.
    pub penalty_sources: usize,
    /// Sessions at a time.
    pub sessions: usize,
    /// Sessions at a time of one user; of one source, for visitors.
    pub sessions_per_user: usize,
    /// Channels of all sessions. Each costs a descriptor, and there have to be some left for files and newcomers.
    pub channels: usize,
    /// Channels of all sessions of one user; of one source, for visitors. As many as one session may ever have.
    pub channels_per_user: usize,
    /// Pipelines of all sessions of one user beyond which each of them has one. Those of a session with several keep
    /// their threads while nothing moves.
    pub pipelines_per_user: usize,
    /// How much of the sessions and of the channels all visitors together may have, in percent: users find room.
    pub visitors_percent: usize,
    /// A session without any operation is ended after this long.
    pub idle: Duration,
    /// Time that running sessions get when the server goes down.
    pub drain: Duration,
    /// Bytes a second of the audit log that one user (for visitors: one source) may have written; whoever has more written
    /// waits. Some 80,000 changed names, more than any copy makes in a second, and a disk of 1 TB for a day.
    pub audit_rate: u64,
    /// What each export keeps of the interrupted transfers of one user; of one source, for visitors.
    pub kept: KeptLimits,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            silent: 4096,
            first_bytes: Duration::from_secs(3),
            guests_soft: 64,
            guests: 256,
            guests_per_source: 16,
            opening: Duration::from_secs(10),
            penalty_sources: 65_536,
            sessions: 4096,
            sessions_per_user: 32,
            channels: 65_536,
            channels_per_user: 4096,
            pipelines_per_user: 64,
            visitors_percent: 75,
            idle: Duration::from_secs(600),
            drain: Duration::from_secs(30),
            audit_rate: 8 << 20,
            kept: KeptLimits::default(),
        }
    }
}

impl ServerLimits {
    /// Those of connections that have not proved anything.
    pub(crate) fn admission(&self) -> Limits {
        Limits {
            silent: self.silent,
            first_bytes: self.first_bytes,
            guests_soft: self.guests_soft,
            guests: self.guests,
            guests_per_source: self.guests_per_source,
            opening: self.opening,
            penalty_sources: self.penalty_sources,
        }
    }

    /// The shipped limits with room for tests that open many connections from one address.
    pub fn roomy() -> Self {
        Self { guests_soft: 4096, guests: 4096, guests_per_source: 4096, sessions_per_user: 4096, ..Self::default() }
    }
}
