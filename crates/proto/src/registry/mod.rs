//! The session registry of a server: its sessions, their owners, and which channels may still join
//! them. `P` is the authenticated principal.
//!
//! A session is *expected* from the moment its login was accepted, *begun* when the reply was sent,
//! and removed for good when it ended or its credential was revoked. A channel is authenticated by
//! its proof, which uses its number up in the same step, and is *coming* until its reply was sent;
//! then it is attached if its session still exists.
//!
//! Guarantees: a grant accepts one proof, within its lifetime, for a session that has begun; an
//! invalid proof changes nothing; once a session is removed nothing becomes a channel of it,
//! whatever was proved before.
//!
//! It must not hold keys of channels or sockets, and verifies no proof itself: the holder of the
//! session's secret does.

mod grants;
#[cfg(test)]
mod tests;

use crate::base::{ChannelId, Error, ErrorKind, Instant, SessionId};
use crate::wire::control::ChannelGrant;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use grants::Grants;

/// One session.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct SessionEntry<P> {
    principal: P,
    /// The reply to OPEN was sent.
    begun: bool,
    grants: Grants,
    /// Channels that were authenticated and whose replies are in flight.
    coming: BTreeSet<ChannelId>,
}

/// The sessions of a server, their owners `P`, and the channels that may still join them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Registry<P> {
    sessions: BTreeMap<SessionId, SessionEntry<P>>,
}

impl<P> Default for Registry<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P> Registry<P> {
    /// An empty registry.
    pub const fn new() -> Self {
        Self { sessions: BTreeMap::new() }
    }

    /// Number of sessions, including expected ones.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// The owner of each session, including expected ones, and the number of channels it was
    /// granted.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, &P, u16)> {
        self.sessions.iter().map(|(id, entry)| (*id, &entry.principal, entry.grants.channels()))
    }

    /// A login was accepted, and the reply with the session's id and first grant is being sent.
    pub fn expect(&mut self, id: SessionId, principal: P, grant: ChannelGrant, now: Instant) -> Result<(), Error> {
        if self.sessions.contains_key(&id) {
            // The server draws the id from 2^128: whatever its value, nobody gets another user's
            // session by it.
            return Err(Error::new(ErrorKind::Resources, "the session id is taken; try again"));
        }
        let grants = Grants::new(grant, now);
        self.sessions.insert(id, SessionEntry { principal, begun: false, grants, coming: BTreeSet::new() });
        Ok(())
    }

    /// The reply was sent: channel 1 is up. Returns false if the session was revoked in the
    /// meantime.
    pub fn begin(&mut self, id: SessionId) -> bool {
        let entry = self.sessions.get_mut(&id);
        entry.map(|entry| entry.begun = true).is_some()
    }

    /// A connection claims to be a channel of this session. `derive` returns the keys of the grant
    /// that covers the number, and `verify` checks the proof under them; on success the keys are
    /// returned.
    pub fn join<K>(
        &mut self,
        id: SessionId,
        channel: ChannelId,
        now: Instant,
        derive: impl FnOnce(&ChannelGrant) -> Result<K, Error>,
        verify: impl FnOnce(&K) -> Result<(), Error>,
    ) -> Result<K, Error> {
        let entry = self.sessions.get_mut(&id).filter(|entry| entry.begun);
        let entry =
            entry.ok_or_else(|| Error::new(ErrorKind::SessionUnknown, "JOIN of a session that is not known"))?;
        let keys = entry.grants.join(channel, now, derive, verify)?;
        entry.coming.insert(channel);
        Ok(keys)
    }

    /// The reply to a JOIN was sent. Returns whether the connection is now a channel of its
    /// session.
    pub fn attach(&mut self, id: SessionId, channel: ChannelId) -> bool {
        self.sessions.get_mut(&id).is_some_and(|entry| entry.coming.remove(&channel))
    }

    /// An authenticated connection ended before it was attached. Its number stays used.
    pub fn gave_up(&mut self, id: SessionId, channel: ChannelId) {
        if let Some(entry) = self.sessions.get_mut(&id) {
            entry.coming.remove(&channel);
        }
    }

    /// Grants `count` more channels to a session of which `up` are up; none if that would be too
    /// many.
    pub fn more(
        &mut self,
        id: SessionId,
        count: u16,
        up: u64,
        secret: [u8; 32],
        life_ms: u32,
        now: Instant,
    ) -> Option<ChannelGrant> {
        let entry = self.sessions.get_mut(&id)?;
        let up = up.saturating_add(entry.coming.len() as u64);
        entry.grants.more(count, up, secret, life_ms, now)
    }

    /// The session is over.
    pub fn end(&mut self, id: SessionId) {
        self.sessions.remove(&id);
    }

    /// A credential was revoked: the sessions that logged in with it are over, and are returned so
    /// that their owners can be notified.
    pub fn revoke(&mut self, ends: impl Fn(&P) -> bool) -> Vec<SessionId> {
        let ended = self.sessions.iter().filter(|(_, entry)| ends(&entry.principal));
        let ended: Vec<SessionId> = ended.map(|(id, _)| *id).collect();
        for id in &ended {
            self.sessions.remove(id);
        }
        ended
    }
}
