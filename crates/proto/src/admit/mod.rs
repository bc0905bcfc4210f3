//! Admission to the handshake: a table of the connections that have not authenticated yet, with
//! their slots, deadlines and penalties. `C` identifies a connection and `S` its source, as far as
//! limits are concerned; both, and the time, are supplied by the driver.
//!
//! A connection is *silent* until its first eight bytes identify it. Then it is a *login* or a
//! *join*.
//! - Silent connections and joins share a large number of slots; the oldest is evicted. A channel
//!   of an open session is authenticated by its first bytes, so a burst of a thousand of them never
//!   waits for a slot and never counts as logins.
//! - Logins have few slots and a limit per source. From `guests_soft` on, a new login takes the
//!   slot of the oldest login of the source with the most logins, if that source has clearly more
//!   than its own; from `guests` on it always takes one, or is refused at once if no source has
//!   more than its own.
//! - A source with failed logins must wait. Joins never do.
//! - Every deadline counts from the accept and is never extended by slowly arriving bytes.

mod drops;
mod penalty;
#[cfg(test)]
mod tests;

pub use drops::{Drop, Drops};

use crate::base::{Duration, Instant};
use crate::wire::preface::Status;
use alloc::collections::{BTreeMap, BTreeSet};
use penalty::Penalties;

/// Limits of an [`Admission`]; the server's configuration sets them and documents the reasons.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Limits {
    /// Connections that have not identified themselves, and channels that are about to join.
    pub silent: usize,
    /// Time for the first eight bytes, from the accept.
    pub first_bytes: Duration,
    /// Concurrent logins from which on new ones displace those of the source with the most.
    pub guests_soft: usize,
    /// Concurrent logins.
    pub guests: usize,
    /// Concurrent logins from one source.
    pub guests_per_source: usize,
    /// Time in which a connection must become a channel, from its accept, whatever it sends.
    pub opening: Duration,
    /// Sources whose failed logins are remembered.
    pub penalty_sources: usize,
}

/// The kind of a connection, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Class {
    Silent,
    Join,
    Login,
    /// Authenticated; only its reply is still to be sent. It counts towards no limit.
    Proved,
}

/// One connection that is being opened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct OpeningSlot<S> {
    source: S,
    class: Class,
    accepted: Instant,
    until: Instant,
}

/// What to do with a connection that has identified itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AdmissionVerdict<C> {
    /// It continues; another connection may have to be closed for it.
    Welcome(Option<C>),
    /// It gets the reason for refusal, and is closed.
    Refused(Status),
}

/// The table of connections that have not authenticated yet. `C` identifies a connection, `S` a
/// source.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Admission<C, S> {
    limits: Limits,
    places: BTreeMap<C, OpeningSlot<S>>,
    /// All connections by deadline.
    deadlines: BTreeSet<(Instant, C)>,
    /// Silent connections and joins by age.
    silent: BTreeSet<(Instant, C)>,
    /// Logins by source and age.
    logins: BTreeMap<S, BTreeSet<(Instant, C)>>,
    login_count: usize,
    penalties: Penalties<S>,
    drops: Drops,
}

impl<C: Copy + Ord, S: Copy + Ord> Admission<C, S> {
    /// An empty table.
    pub fn new(limits: Limits) -> Self {
        let penalties = Penalties::new(limits.penalty_sources);
        Self {
            limits,
            places: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            silent: BTreeSet::new(),
            logins: BTreeMap::new(),
            login_count: 0,
            penalties,
            drops: Drops::default(),
        }
    }

    /// Replaces the limits; admitted connections stay.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// How often each limit was exceeded.
    pub fn drops(&mut self) -> &mut Drops {
        &mut self.drops
    }

    /// A connection was accepted. Returns one that must be closed to make room for it.
    pub fn arrive(&mut self, connection: C, source: S, now: Instant) -> Option<C> {
        let full = self.silent.len() >= self.limits.silent;
        let oldest = if full { self.silent.first().map(|(_, connection)| *connection) } else { None };
        if let Some(oldest) = oldest {
            self.drops.count(Drop::Silent);
            self.leave(oldest);
        }
        let until = now.after(self.limits.first_bytes.min(self.limits.opening));
        self.places.insert(connection, OpeningSlot { source, class: Class::Silent, accepted: now, until });
        self.silent.insert((now, connection));
        self.deadlines.insert((until, connection));
        oldest
    }

    /// Whether the connection has not identified itself yet.
    pub fn is_silent(&self, connection: C) -> bool {
        self.places.get(&connection).is_some_and(|place| place.class == Class::Silent)
    }

    /// The source of the connection.
    pub fn source(&self, connection: C) -> Option<S> {
        self.places.get(&connection).map(|place| place.source)
    }

    /// The connection wants to join a session. It keeps its slot among the silent ones until it is
    /// authenticated.
    pub fn is_join(&mut self, connection: C) {
        self.change(connection, Class::Join);
    }

    /// The connection wants to log in (or sends something else that is not a join).
    pub fn is_login(&mut self, connection: C, now: Instant) -> AdmissionVerdict<C> {
        let Some(source) = self.source(connection) else { return AdmissionVerdict::Welcome(None) };
        let refused = |admission: &mut Self, why, status| {
            admission.drops.count(why);
            admission.change(connection, Class::Proved);
            AdmissionVerdict::Refused(status)
        };
        if self.penalties.holds(source, now) {
            return refused(self, Drop::Penalty, Status::Penalised);
        }
        let own = self.logins_of(source);
        if own >= self.limits.guests_per_source {
            return refused(self, Drop::PerSource, Status::TooManyOfYou);
        }
        // The source with the most logins; on a tie, the one with the oldest login.
        let most = self
            .logins
            .iter()
            .max_by_key(|(_, connections)| (connections.len(), core::cmp::Reverse(connections.first())));
        let most =
            most.map(|(_, connections)| (connections.len(), connections.first().map(|(_, connection)| *connection)));
        let (count, oldest) = most.unwrap_or((0, None));
        let full = self.login_count >= self.limits.guests;
        let crowded = self.login_count >= self.limits.guests_soft && count > own + 1;
        if full && count <= own {
            return refused(self, Drop::Logins, Status::Busy);
        }
        let victim = oldest.filter(|_| full || crowded);
        if let Some(victim) = victim {
            self.drops.count(Drop::Logins);
            self.leave(victim);
        }
        self.change(connection, Class::Login);
        AdmissionVerdict::Welcome(victim)
    }

    /// How long the source of a connection must wait before its next login.
    pub fn wait(&self, connection: C, now: Instant) -> Duration {
        self.source(connection).map_or(Duration::ZERO, |source| self.penalties.left(source, now))
    }

    /// The connection was authenticated, or refused: only its reply must be sent.
    pub fn is_proved(&mut self, connection: C) {
        self.change(connection, Class::Proved);
    }

    /// It has guessed a password: its source must wait after some of them.
    pub fn login_failed(&mut self, connection: C, now: Instant) {
        self.drops.count(Drop::LoginFailed);
        if let Some(source) = self.source(connection) {
            self.penalties.add(source, now);
        }
    }

    /// The connection is closed, or has become a channel.
    pub fn leave(&mut self, connection: C) {
        if let Some(place) = self.places.remove(&connection) {
            self.take_out(connection, place);
        }
    }

    /// The next deadline.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(until, _)| *until)
    }

    /// A connection whose deadline passed, and the time that it had; it is still to be closed.
    pub fn overdue(&mut self, now: Instant) -> Option<(C, Duration)> {
        let (until, connection) = self.deadlines.first().copied().filter(|(until, _)| *until <= now)?;
        let place = self.places.get(&connection)?;
        let why = if place.class == Class::Silent { Drop::FirstBytes } else { Drop::Deadline };
        self.drops.count(why);
        Some((connection, until.since(place.accepted)))
    }

    /// Unauthenticated connections: those that are silent or about to join, and logins.
    pub fn unproved(&self) -> (usize, usize) {
        (self.silent.len(), self.login_count)
    }

    /// Current logins of this source.
    pub fn logins_of(&self, source: S) -> usize {
        self.logins.get(&source).map_or(0, BTreeSet::len)
    }

    fn change(&mut self, connection: C, class: Class) {
        let Some(place) = self.places.remove(&connection) else { return };
        self.take_out(connection, place);
        let until = place.accepted.after(self.limits.opening);
        let place = OpeningSlot { class, until, ..place };
        match class {
            Class::Silent | Class::Join => drop(self.silent.insert((place.accepted, connection))),
            Class::Login => {
                self.login_count += 1;
                self.logins.entry(place.source).or_default().insert((place.accepted, connection));
            }
            Class::Proved => {}
        }
        self.deadlines.insert((until, connection));
        self.places.insert(connection, place);
    }

    fn take_out(&mut self, connection: C, place: OpeningSlot<S>) {
        self.deadlines.remove(&(place.until, connection));
        self.silent.remove(&(place.accepted, connection));
        if place.class == Class::Login
            && let Some(connections) = self.logins.get_mut(&place.source)
        {
            self.login_count -= usize::from(connections.remove(&(place.accepted, connection)));
            if connections.is_empty() {
                self.logins.remove(&place.source);
            }
        }
    }
}
