//! Who is in: the sessions of a server, whose they are, and which channels may still join them. `P` is whoever logged in.
//!
//! A session is *expected* from the moment its login was accepted, *begun* when the answer is out, and gone for good when
//! it ended or what it logged in with was taken away. A channel proves itself, which uses its number up in the same step,
//! and is *coming* until its answer is out; then it is attached if its session is still there.
//!
//! What can be relied on: a grant serves one proof, within its time, of a session that has begun; a proof that is wrong
//! changes nothing; once a session is gone nothing becomes a channel of it, whatever was proved before.
//!
//! It must not hold keys of channels or sockets, and checks no proof itself: whoever holds the secret of the session does.

mod grants;
#[cfg(test)]
mod tests;

use crate::base::{ChannelId, Error, ErrorKind, Instant, SessionId};
use crate::bug::{Bug, Bugs};
use crate::wire::control::ChannelGrant;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use grants::Grants;

/// One session.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct SessionEntry<P> {
    principal: P,
    /// The answer to OPEN is out.
    begun: bool,
    grants: Grants,
    /// Channels that have proved themselves and whose answers are on their way.
    coming: BTreeSet<ChannelId>,
}

/// The sessions of a server, their owners `P`, and the channels that may still join them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Registry<P> {
    members: BTreeMap<SessionId, SessionEntry<P>>,
    bugs: Bugs,
}

impl<P> Registry<P> {
    /// Nobody is in.
    pub fn new(bugs: Bugs) -> Self {
        Self { members: BTreeMap::new(), bugs }
    }

    /// Sessions, expected ones among them.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whose sessions there are, expected ones among them, and how many channels each was granted.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, &P, u16)> {
        self.members.iter().map(|(id, member)| (*id, &member.principal, member.grants.channels()))
    }

    /// A login was accepted, and the answer that names the session and its first grant leaves.
    pub fn expect(&mut self, id: SessionId, principal: P, grant: ChannelGrant, now: Instant) -> Result<(), Error> {
        if self.members.contains_key(&id) {
            // Drawn by the server from 2^128: whatever this is, nobody gets somebody else's session by it.
            return Err(Error::new(ErrorKind::Resources, "the session id is taken; try again"));
        }
        let grants = Grants::new(grant, now);
        self.members.insert(id, SessionEntry { principal, begun: false, grants, coming: BTreeSet::new() });
        Ok(())
    }

    /// The answer is out: channel 1 is up. False where the session was taken away meanwhile.
    pub fn begin(&mut self, id: SessionId) -> bool {
        let member = self.members.get_mut(&id);
        member.map(|member| member.begun = true).is_some()
    }

    /// A connection says that it is a channel of this session. `derive` is asked for the keys of the grant that covers the
    /// number, `verify` whether the proof is right under them; then the keys are returned.
    pub fn join<K>(
        &mut self,
        id: SessionId,
        channel: ChannelId,
        now: Instant,
        derive: impl FnOnce(&ChannelGrant) -> Result<K, Error>,
        verify: impl FnOnce(&K) -> Result<(), Error>,
    ) -> Result<K, Error> {
        let member = self.members.get_mut(&id).filter(|member| member.begun);
        let member =
            member.ok_or_else(|| Error::new(ErrorKind::SessionUnknown, "JOIN of a session that is not known"))?;
        let keys = member.grants.join(channel, now, self.bugs, derive, verify)?;
        member.coming.insert(channel);
        Ok(keys)
    }

    /// The answer to a JOIN is out. Whether the connection is a channel of its session now.
    pub fn attach(&mut self, id: SessionId, channel: ChannelId) -> bool {
        let Some(member) = self.members.get_mut(&id) else { return false };
        member.grants.answered(channel, self.bugs);
        member.coming.remove(&channel) || self.bugs.has(Bug::GrantUsedLate)
    }

    /// A connection ended that had proved itself and was not attached. Its number stays used.
    pub fn gave_up(&mut self, id: SessionId, channel: ChannelId) {
        if let Some(member) = self.members.get_mut(&id) {
            member.coming.remove(&channel);
        }
    }

    /// Leave for `count` more channels of a session of which `up` are up; none where that would be too many.
    pub fn more(
        &mut self,
        id: SessionId,
        count: u16,
        up: u64,
        secret: [u8; 32],
        life_ms: u32,
        now: Instant,
    ) -> Option<ChannelGrant> {
        let member = self.members.get_mut(&id)?;
        let up = up.saturating_add(member.coming.len() as u64);
        member.grants.more(count, up, secret, life_ms, now, self.bugs)
    }

    /// The session is over.
    pub fn end(&mut self, id: SessionId) {
        self.members.remove(&id);
    }

    /// What some logged in with was taken away: their sessions are over, and named, so that whoever serves them is told.
    pub fn revoke(&mut self, ends: impl Fn(&P) -> bool) -> Vec<SessionId> {
        let missed = |member: &SessionEntry<P>| !member.begun && self.bugs.has(Bug::RevocationMissesOpening);
        let ended = self.members.iter().filter(|(_, member)| ends(&member.principal) && !missed(member));
        let ended: Vec<SessionId> = ended.map(|(id, _)| *id).collect();
        for id in &ended {
            self.members.remove(id);
        }
        ended
    }
}
