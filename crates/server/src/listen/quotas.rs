//! Quotas of one user, of all anonymous users, and of the server: sessions, channels, pipelines.
//!
//! Sessions are refused if there is no room; channels and pipelines are granted in part, which
//! every client expects.

use super::Server;
use crate::admit::{Drop, ServerLimits};
use crate::sessions::{EndingSession, SessionTable};
use std::borrow::Cow;
use std::sync::atomic::Ordering;
use xdfs_proto::base::{Error, ErrorKind, SessionId};
use xdfs_proto::negotiate::Policy;
use xdfs_secure::policy::{Method, Principal};

/// Number of sessions and of their channels.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Usage {
    sessions: usize,
    channels: usize,
}

impl Usage {
    fn add(&mut self, channels: u16) {
        self.sessions += 1;
        self.channels += usize::from(channels);
    }

    /// What is left of these quotas after the usage `self`.
    fn left(self, sessions: usize, channels: usize) -> Self {
        Self { sessions: sessions.saturating_sub(self.sessions), channels: channels.saturating_sub(self.channels) }
    }
}

/// The usage by class.
#[derive(Clone, Copy, Default, Debug)]
struct UsageTable {
    all: Usage,
    anonymous: Usage,
    user: Usage,
}

impl UsageTable {
    /// Counts a session of `owner`, as seen by `user`; whether they are the same.
    fn add(&mut self, owner: &Principal, channels: u16, user: &Principal) -> bool {
        self.all.add(channels);
        if owner.method == Method::Anonymous {
            self.anonymous.add(channels);
        }
        let same = owner.budget() == user.budget();
        if same {
            self.user.add(channels);
        }
        same
    }

    /// The channels left for `principal`, or why there are none.
    fn room(&self, principal: &Principal, limits: &ServerLimits) -> Result<usize, (Drop, String)> {
        let share = |whole: usize| whole.saturating_mul(limits.visitors_percent) / 100;
        let visitor = principal.method == Method::Anonymous;
        let all = self.all.left(limits.sessions, limits.channels);
        let visitors = match visitor {
            true => self.anonymous.left(share(limits.sessions), share(limits.channels)),
            false => all,
        };
        let user = self.user.left(limits.sessions_per_user, limits.channels_per_user);
        let name = principal.user.escape_debug();
        let full = |who: &str, what: &str, drop| Err((drop, format!("{who} as many {what}")));
        match (user, visitors, all) {
            (_, _, Usage { sessions: 0, .. }) => full("the server has", "sessions as it takes", Drop::Sessions),
            (_, _, Usage { channels: 0, .. }) => full("the server has", "channels as it takes", Drop::Sessions),
            (Usage { sessions: 0, .. }, ..) => {
                let what = format!("sessions as one user may have ({})", self.user.sessions);
                full(&format!("'{name}' has"), &what, Drop::UserSessions)
            }
            (Usage { channels: 0, .. }, ..) => {
                let what = format!("channels as one user may have ({})", self.user.channels);
                full(&format!("'{name}' has"), &what, Drop::UserSessions)
            }
            (_, Usage { sessions: 0, .. } | Usage { channels: 0, .. }, _) => {
                full("visitors have", "sessions and channels as are for them; log in", Drop::Sessions)
            }
            _ => Ok(user.channels.min(visitors.channels).min(all.channels)),
        }
    }
}

impl SessionTable {
    /// What the sessions use, as seen by `user`, and the pipelines of this user, which are counted only if `several` is
    /// set.
    fn usage(&mut self, user: &Principal, several: bool) -> (UsageTable, usize) {
        let mut usage = UsageTable::default();
        let mut pipelines = 0;
        for (id, other, channels) in self.registry.sessions() {
            if usage.add(other, channels, user) && several {
                pipelines += self.running.get(&id).map_or(1, |entry| entry.pipelines.len());
            }
        }
        self.ending.retain(EndingSession::has_threads);
        for over in &self.ending {
            if usage.add(&over.principal, over.channels, user) && several {
                pipelines += over.pipelines;
            }
        }
        (usage, pipelines)
    }

    /// How many of `wanted` more channels this session may have of `most` in all: those that it was granted and does
    /// not have, and those not granted to any session.
    pub(super) fn room_for_channels(&self, id: SessionId, wanted: u16, most: usize) -> u16 {
        let held = |(id, _, granted): (SessionId, _, u16)| {
            let up = self.running.get(&id).map_or(0, |entry| entry.context.metrics.channels.load(Ordering::Relaxed));
            (id, usize::from(granted), usize::try_from(up).unwrap_or(usize::MAX))
        };
        let (mut all, mut own) = (0_usize, 0);
        for (other, granted, up) in self.registry.sessions().map(held) {
            all = all.saturating_add(granted.max(up));
            if other == id {
                own = granted.saturating_sub(up);
            }
        }
        let ending = self.ending.iter().filter(|over| over.has_threads()).map(|over| usize::from(over.channels));
        let all = ending.fold(all, usize::saturating_add);
        let room = most.saturating_sub(all).saturating_add(own);
        wanted.min(u16::try_from(room).unwrap_or(u16::MAX))
    }
}

impl Server {
    /// The grant for one more session of `principal`: the policy, reduced to what is left. Refused
    /// if nothing is. Counts the pipelines of the other sessions only if `several` is set.
    pub(super) fn policy_for(&mut self, principal: &Principal, several: bool) -> Result<Cow<'_, Policy>, Error> {
        let (usage, pipelines) = self.sessions.usage(principal, several);
        let limits = &self.config.limits;
        let room = usage.room(principal, limits).map_err(|(drop, text)| {
            self.logins.admission.drops().count(drop);
            Error::new(ErrorKind::Busy, format!("{text}; try again later"))
        })?;
        let policy = &self.config.policy;
        let channels = u16::try_from(room).unwrap_or(u16::MAX).min(policy.channels_max);
        let left = limits.pipelines_per_user.saturating_sub(pipelines).max(1);
        let pipelines = u8::try_from(left).unwrap_or(u8::MAX).min(policy.pipelines_max);
        if (channels, pipelines) == (policy.channels_max, policy.pipelines_max) {
            return Ok(Cow::Borrowed(policy));
        }
        Ok(Cow::Owned(Policy { channels_max: channels, pipelines_max: pipelines, ..policy.clone() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: fn() -> ServerLimits = || ServerLimits {
        sessions: 8,
        channels: 80,
        sessions_per_user: 4,
        channels_per_user: 30,
        visitors_percent: 50,
        ..ServerLimits::default()
    };

    fn who(method: Method) -> Principal {
        Principal { user: "ada".into(), method, key: None, scope: None }
    }

    fn held(sessions: usize, channels: usize) -> Usage {
        Usage { sessions, channels }
    }

    #[test]
    fn a_session_gets_what_everybody_and_its_user_leave() {
        let room = |tally: UsageTable, method| tally.room(&who(method), &LIMITS()).map_err(|(_, text)| text);
        let none = UsageTable::default();
        assert_eq!(room(none, Method::Key), Ok(30), "a user's share");
        assert_eq!(room(UsageTable { all: held(3, 70), ..none }, Method::Key), Ok(10), "what there is");
        assert_eq!(room(UsageTable { user: held(3, 29), ..none }, Method::Key), Ok(1));
        // Half of it is for anonymous users, however many addresses they have.
        let visited = UsageTable { all: held(3, 35), anonymous: held(3, 35), user: held(0, 0) };
        assert_eq!(room(visited, Method::Anonymous), Ok(5));
        assert_eq!(room(visited, Method::Key), Ok(30));
        for (tally, method, text) in [
            (UsageTable { all: held(8, 8), ..none }, Method::Key, "the server has as many sessions"),
            (UsageTable { all: held(7, 80), ..none }, Method::Key, "the server has as many channels"),
            (
                UsageTable { user: held(4, 4), ..none },
                Method::Key,
                "'ada' has as many sessions as one user may have (4)",
            ),
            (
                UsageTable { user: held(1, 30), ..none },
                Method::Key,
                "'ada' has as many channels as one user may have (30)",
            ),
            (UsageTable { anonymous: held(4, 4), ..none }, Method::Anonymous, "visitors have as many"),
            (UsageTable { anonymous: held(1, 40), ..none }, Method::Anonymous, "visitors have as many"),
        ] {
            let told = room(tally, method).unwrap_err();
            assert!(told.starts_with(text), "{told}");
        }
        assert_eq!(room(UsageTable { anonymous: held(4, 40), ..none }, Method::Key), Ok(30));
    }
}
