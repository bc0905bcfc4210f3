//! Bounds of a server and the reason for each. The protocol's bounds are in `proto::limits`.

use std::time::Duration;
use xdfs_io::store::KeptLimits;
use xdfs_proto::admit::Limits;

/// The most that a server holds, and for how long. The defaults are the shipped values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerLimits {
    /// Connections that have not identified themselves, and channels that are about to join. Each
    /// costs a descriptor and some hundred bytes; as many as a session may have channels.
    pub silent: usize,
    /// Time for the first eight bytes, from acceptance: three round trips on the longest path, with
    /// a segment lost.
    pub first_bytes: Duration,
    /// Number of concurrent logins from which on new ones displace those of the source with the
    /// most.
    pub guests_soft: usize,
    /// Concurrent logins: with some 25 KiB each for TLS, and at most 64 KiB for the received part
    /// of OPEN, they stay below 24 MiB.
    pub guests: usize,
    /// Concurrent logins from one source (an IPv4 address, a /56 of IPv6).
    pub guests_per_source: usize,
    /// Time for a connection to become a channel, from acceptance, whatever it sends.
    pub opening: Duration,
    /// Sources whose failed logins are remembered.
    pub penalty_sources: usize,
    /// Concurrent sessions.
    pub sessions: usize,
    /// Concurrent sessions of one user; of one source, for anonymous users.
    pub sessions_per_user: usize,
    /// Channels of all sessions. Each costs a descriptor, and some must be left for files and new
    /// connections.
    pub channels: usize,
    /// Channels of all sessions of one user; of one source, for anonymous users. As many as one
    /// session may ever have.
    pub channels_per_user: usize,
    /// Transfers of all sessions, of which one user may have half of what the others leave. Each takes up to three
    /// descriptors.
    pub transfers: usize,
    /// Pipelines of all sessions of one user, beyond which each session has one. The pipelines of a
    /// session with several keep their threads while nothing moves.
    pub pipelines_per_user: usize,
    /// Share of the sessions and of the channels that all anonymous users together may have, in
    /// percent: this leaves room for users.
    pub visitors_percent: usize,
    /// A session without any operation is ended after this long.
    pub idle: Duration,
    /// Time that running sessions get when the server shuts down.
    pub drain: Duration,
    /// Bytes per second that one user (for anonymous users: one source) may add to the audit log; a
    /// user who adds more waits. Some 80,000 changed names, more than any copy makes in a second,
    /// and a disk of 1 TB for a day.
    pub audit_rate: u64,
    /// What each export keeps of the interrupted transfers of one user; of one source, for
    /// anonymous users.
    pub kept: KeptLimits,
    /// Bytes per second that all sessions of one user (of one source, for anonymous users) move
    /// together; 0 is no limit.
    pub bandwidth_per_user: u64,
    /// How long a lease on an open file holds unless it is renewed: a client that never answers makes
    /// others wait for so long. Zero grants none.
    pub lease: Duration,
    /// Whether a server that is started waits for the leases that one before it may have granted.
    pub leased_before: bool,
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
            transfers: 16_384,
            pipelines_per_user: 64,
            visitors_percent: 75,
            idle: Duration::from_secs(600),
            drain: Duration::from_secs(30),
            audit_rate: 8 << 20,
            kept: KeptLimits::default(),
            bandwidth_per_user: 0,
            lease: Duration::ZERO,
            leased_before: true,
        }
    }
}

impl ServerLimits {
    /// The limits of connections that have not authenticated.
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
