//! The table of sessions: who may join, and where each pipeline is (with the listener while it is idle, on a thread of
//! its own while it moves data).

use crate::admit::ServerLimits;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use xdfs_engine::host::Ending;
use xdfs_engine::mail::{Mail, Post};
use xdfs_proto::base::{ChannelId, Error, ErrorKind, Instant, SessionId};
use xdfs_proto::negotiate::Policy;
use xdfs_proto::session::Session;
use xdfs_proto::wire::control::ChannelGrant;
use xdfs_proto::wire::handshake::Join;
use xdfs_secure::handshake::tls::Farewell;
use xdfs_secure::keys::{ChannelKeys, Grant, JoinSecret, Role, RoleKeys};
use xdfs_secure::policy::Principal;
use xdfs_secure::record::{Limits, Opener, Sealer};
use xdfs_xio::dispatch::{DescriptorWaker, SocketId};
use xdfs_xio::transport::Link;

pub(crate) type PumpPost = Post<Link, DescriptorWaker>;
pub(crate) type PumpMail = Receiver<Mail<Link>>;

/// From pipelines to the listener.
pub(crate) enum Letter {
    /// A pipeline's thread has ended.
    Ended { session: SessionId, pipeline: u8, ending: Ending<Link>, mailbox: PumpMail },
    /// A client wants more channels.
    WantChannels { session: SessionId, pipeline: u8, count: u16 },
    /// Other bounds hold from now on.
    Reload(Box<(ServerLimits, Policy)>),
    /// Logins were taken away: the sessions of whoever it says so of end.
    Revoke(Box<dyn Fn(&Principal) -> bool + Send>),
    /// The administrator wants to see the state.
    Status,
    /// Take nothing new, end when the present is over.
    Drain,
    /// Take nothing new and let the present go on.
    Retire,
    /// End now.
    Stop,
}

/// What a session moved, for the status.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub bytes: AtomicU64,
    pub operations: AtomicU64,
    /// Operations under way.
    pub live: AtomicU64,
    /// Channels that are up, as far as is known.
    pub channels: AtomicU64,
}

/// Leave for channels to join: numbers, a secret, a time.
struct Leave {
    grant: ChannelGrant,
    until: Instant,
    used: BTreeSet<u16>,
}

/// Where a pipeline is.
pub(crate) enum Pipe {
    /// With the listener, which watches its channels.
    Idle { session: Box<Session>, channels: BTreeMap<ChannelId, IdleChannel> },
    /// On a thread of its own.
    Running(PumpPost),
    /// Over.
    Over,
}

/// A channel that the listener watches.
pub(crate) struct IdleChannel {
    pub socket: SocketId,
    pub sealer: Sealer,
    pub opener: Opener,
    pub known: bool,
    /// Channel 1: the client's leave of the handshake has still to come.
    pub farewell: Option<Farewell>,
}

/// One session.
pub(crate) struct Entry {
    pub peer: String,
    /// Whose session it is.
    pub principal: Arc<Principal>,
    pub opened: Instant,
    pub quiet_since: Instant,
    pub channels: u16,
    /// Socket window that was granted, 0 for none.
    pub window: u32,
    /// Operations done when the session was last looked at.
    pub seen: u64,
    pub pipes: Vec<Pipe>,
    pub metrics: Arc<Metrics>,
    secret: JoinSecret,
    leaves: Vec<Leave>,
    next_channel: u16,
}

impl Entry {
    /// A session whose channels `1..=grant.count` may join; channel 1 has.
    pub fn new(
        peer: String,
        principal: Arc<Principal>,
        now: Instant,
        secret: JoinSecret,
        grant: ChannelGrant,
        pipes: Vec<Pipe>,
    ) -> Self {
        let channels = grant.count;
        let until = now.after(std::time::Duration::from_millis(grant.life_ms.into()));
        let next_channel = grant.first.saturating_add(grant.count);
        let leave = Leave { grant, until, used: BTreeSet::from([1]) };
        let metrics = Arc::default();
        Self {
            peer,
            principal,
            opened: now,
            quiet_since: now,
            channels,
            window: 0,
            seen: 0,
            pipes,
            metrics,
            secret,
            leaves: vec![leave],
            next_channel,
        }
    }

    /// The pipeline of a channel.
    pub fn pipeline_of(&self, channel: ChannelId) -> usize {
        usize::from(channel.0.saturating_sub(1)) % self.pipes.len().max(1)
    }

    /// Keys of channel 1, which proved itself by the handshake.
    pub fn first_keys(&self, session: SessionId) -> Result<RoleKeys, Error> {
        let grant = self.leaves.first().map(|leave| Grant::new(&leave.grant.secret));
        let grant = grant.ok_or_else(|| Error::new(ErrorKind::SessionUnknown, "no grant"))?;
        Ok(ChannelKeys::derive(&self.secret, &grant, session, ChannelId(1))?.for_role(Role::Server))
    }

    /// Keys of a channel that a leave still covers. Nothing is used up by asking.
    pub fn keys(&self, session: SessionId, channel: ChannelId, now: Instant) -> Result<RoleKeys, Error> {
        let unknown = || Error::new(ErrorKind::SessionUnknown, format!("no unused grant for channel {channel}"));
        let leave = self.leaves.iter().find(|leave| leave.covers(channel.0, now)).ok_or_else(unknown)?;
        let grant = Grant::new(&leave.grant.secret);
        Ok(ChannelKeys::derive(&self.secret, &grant, session, channel)?.for_role(Role::Server))
    }

    /// The channel has proved itself: its number is used up.
    pub fn use_up(&mut self, join: &Join, now: Instant) {
        for leave in &mut self.leaves {
            if leave.covers(join.channel.0, now) {
                leave.used.insert(join.channel.0);
            }
        }
        self.leaves.retain(|leave| now < leave.until && leave.used.len() < usize::from(leave.grant.count));
    }

    /// Leave for `count` more channels; numbers are never used again.
    pub fn more(&mut self, count: u16, secret: [u8; 32], life_ms: u32, now: Instant) -> Option<ChannelGrant> {
        self.leaves.retain(|leave| now < leave.until);
        let unused: usize = self.leaves.iter().map(|leave| usize::from(leave.grant.count) - leave.used.len()).sum();
        let up = self.metrics.channels.load(Ordering::Relaxed);
        // A loss that the client noticed may not be known here yet: twice the granted number bounds it all the same.
        let left = (2 * u64::from(self.channels)).saturating_sub(up + unused as u64);
        let count = count.min(self.channels).min(u16::try_from(left).unwrap_or(u16::MAX));
        let first = self.next_channel;
        let next = first.checked_add(count)?;
        if count == 0 || self.leaves.len() >= 16 {
            return None;
        }
        self.next_channel = next;
        let grant = ChannelGrant { first, count, secret, life_ms };
        let until = now.after(std::time::Duration::from_millis(life_ms.into()));
        self.leaves.push(Leave { grant: grant.clone(), until, used: BTreeSet::new() });
        Some(grant)
    }
}

impl Leave {
    fn covers(&self, channel: u16, now: Instant) -> bool {
        let within = channel >= self.grant.first && channel - self.grant.first < self.grant.count;
        within && now < self.until && !self.used.contains(&channel)
    }
}

/// Sealer and opener of a channel.
pub(crate) fn record_keys(keys: RoleKeys, limits: Limits) -> Result<(Sealer, Opener), Error> {
    Ok((Sealer::new(keys.seal, limits)?, Opener::new(keys.open, limits)?))
}
