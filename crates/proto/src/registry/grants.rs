//! The grants of one session: which channel numbers may still join, until when, and with which
//! secret.
//!
//! It must know neither the identity of the peer nor how a proof is verified: it determines which
//! grant a proof must belong to, and uses the number up in the same step.

use crate::base::{ChannelId, Duration, Error, ErrorKind, Instant};
use crate::wire::control::ChannelGrant;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

/// Limit on open grants of one session: each replaces lost channels, and is open for at most its
/// short lifetime.
const GRANTS_MAX: usize = 16;

/// One grant and its remaining numbers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct OpenGrant {
    grant: ChannelGrant,
    until: Instant,
    used: BTreeSet<ChannelId>,
}

impl OpenGrant {
    fn new(grant: ChannelGrant, now: Instant) -> Self {
        let until = now.after(Duration::from_millis(grant.life_ms.into()));
        Self { grant, until, used: BTreeSet::new() }
    }

    fn names(&self, channel: ChannelId) -> bool {
        channel.0 >= self.grant.first && channel.0 - self.grant.first < self.grant.count
    }

    fn covers(&self, channel: ChannelId, now: Instant) -> bool {
        let fresh = !self.used.contains(&channel);
        let in_time = now < self.until;
        self.names(channel) && in_time && fresh
    }

    fn unused(&self) -> usize {
        usize::from(self.grant.count) - self.used.len()
    }
}

/// The grants of one session: channel numbers that may still join, until when, with which secret.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Grants {
    open: Vec<OpenGrant>,
    /// Channels that the session was granted when it was opened.
    channels: u16,
    /// Numbers are never reused.
    next: u16,
}

impl Grants {
    /// The grant of ACCEPT. Channel 1 was authenticated by the handshake.
    pub(super) fn new(grant: ChannelGrant, now: Instant) -> Self {
        let (channels, next) = (grant.count, grant.first.saturating_add(grant.count));
        let mut first = OpenGrant::new(grant, now);
        first.used.insert(ChannelId(1));
        Self { open: Vec::from([first]), channels, next }
    }

    /// Channels that the session was granted when it was opened.
    pub(super) fn channels(&self) -> u16 {
        self.channels
    }

    /// The channel joins if its proof is valid under the keys that `derive` makes from the grant
    /// that covers its number. The number is then used up; it stays free if the proof is invalid.
    pub(super) fn join<K>(
        &mut self,
        channel: ChannelId,
        now: Instant,
        derive: impl FnOnce(&ChannelGrant) -> Result<K, Error>,
        verify: impl FnOnce(&K) -> Result<(), Error>,
    ) -> Result<K, Error> {
        let Some(open) = self.open.iter_mut().find(|open| open.covers(channel, now)) else {
            let text = format!("no unused grant for channel {channel}");
            return Err(Error::new(ErrorKind::SessionUnknown, text));
        };
        let keys = derive(&open.grant)?;
        verify(&keys)?;
        open.used.insert(channel);
        self.forget(now);
        Ok(keys)
    }

    /// Grants `count` more channels when `up` are up.
    pub(super) fn more(
        &mut self,
        count: u16,
        up: u64,
        secret: [u8; 32],
        life_ms: u32,
        now: Instant,
    ) -> Option<ChannelGrant> {
        self.forget(now);
        let unused: usize = self.open.iter().map(OpenGrant::unused).sum();
        // A loss that the client noticed may not be known here yet: twice the granted number is the
        // limit regardless.
        let left = (2 * u64::from(self.channels)).saturating_sub(up.saturating_add(unused as u64));
        let count = count.min(self.channels).min(u16::try_from(left).unwrap_or(u16::MAX));
        let first = self.next;
        let next = first.checked_add(count)?;
        if count == 0 || self.open.len() >= GRANTS_MAX {
            return None;
        }
        self.next = next;
        let grant = ChannelGrant { first, count, secret, life_ms };
        self.open.push(OpenGrant::new(grant.clone(), now));
        Some(grant)
    }

    /// Secrets that are no longer usable are not kept.
    fn forget(&mut self, now: Instant) {
        self.open.retain(|open| now < open.until && open.unused() > 0);
    }
}
