//! Who is let in to the handshake, and for how long: a table of the connections that have not proved anything yet, with
//! their places, deadlines and penalties. `C` names a connection and `S` where it comes from, as far as limits care; both,
//! and the time, are the driver's.
//!
//! A connection is *silent* until its first eight bytes say what it is. Then it is a *login* or a *join*.
//! - Silent ones and joins share many places; the oldest makes room. A channel of an open session proves itself with its
//!   first bytes, so a burst of a thousand of them never waits for a place and never counts as logins.
//! - Logins have few places and a cap per source. From `guests_soft` on a newcomer takes the place of the oldest login of
//!   the most numerous source, where that has clearly more than its own; from `guests` on it always takes one, or is
//!   refused at once when nobody has more than its own source.
//! - A source whose logins failed waits. Joins never do.
//! - Every deadline counts from the acceptance and is never moved by bytes that drip.

mod drops;
mod penalty;
#[cfg(test)]
mod tests;

pub use drops::{Drop, Drops};

use crate::base::{Duration, Instant};
use crate::bug::{Bug, Bugs};
use crate::wire::preface::Status;
use alloc::collections::{BTreeMap, BTreeSet};
use penalty::Penalties;

/// Bounds of an [`Admission`]; the server's configuration has them, and the reasons.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Limits {
    /// Connections that have not said what they are, and channels that are about to join.
    pub silent: usize,
    /// Time for the first eight bytes, from the acceptance.
    pub first_bytes: Duration,
    /// Logins at a time from which on newcomers displace those of the most numerous source.
    pub guests_soft: usize,
    /// Logins at a time.
    pub guests: usize,
    /// Logins at a time from one source.
    pub guests_per_source: usize,
    /// Time that a connection has to become a channel, from its acceptance, whatever it sends.
    pub opening: Duration,
    /// Sources whose failed logins are remembered.
    pub penalty_sources: usize,
}

/// What a connection is, as far as it has said.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Class {
    Silent,
    Join,
    Login,
    /// Proved; only its answer is still to leave. It counts nowhere.
    Proved,
}

/// One connection in its opening.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct OpeningSlot<S> {
    source: S,
    class: Class,
    accepted: Instant,
    until: Instant,
}

/// What to do with a connection that has said what it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AdmissionVerdict<C> {
    /// It goes on; another one may have to leave for it.
    Welcome(Option<C>),
    /// It is told why not, and closed.
    Refused(Status),
}

/// The table of connections that have not authenticated yet. `C` names a connection, `S` a source.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Admission<C, S> {
    limits: Limits,
    bugs: Bugs,
    places: BTreeMap<C, OpeningSlot<S>>,
    /// Everybody by deadline.
    deadlines: BTreeSet<(Instant, C)>,
    /// Silent ones and joins by age.
    silent: BTreeSet<(Instant, C)>,
    /// Logins by source and age.
    logins: BTreeMap<S, BTreeSet<(Instant, C)>>,
    login_count: usize,
    penalties: Penalties<S>,
    drops: Drops,
}

impl<C: Copy + Ord, S: Copy + Ord> Admission<C, S> {
    /// Nobody is there yet.
    pub fn new(limits: Limits, bugs: Bugs) -> Self {
        let penalties = Penalties::new(limits.penalty_sources);
        Self {
            limits,
            bugs,
            places: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            silent: BTreeSet::new(),
            logins: BTreeMap::new(),
            login_count: 0,
            penalties,
            drops: Drops::default(),
        }
    }

    /// Other limits hold from now on; who is in stays in.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// How often which limit bit.
    pub fn drops(&mut self) -> &mut Drops {
        &mut self.drops
    }

    /// A connection was accepted. Returns one that has to make room for it.
    pub fn arrive(&mut self, connection: C, source: S, now: Instant) -> Option<C> {
        let full = self.silent.len() >= self.limits.silent && !self.bugs.has(Bug::SilentAreFree);
        let oldest = if full { self.silent.first().map(|(_, connection)| *connection) } else { None };
        if let Some(oldest) = oldest {
            self.drops.count(Drop::Silent);
            self.leave(oldest);
        }
        let until = now.after(self.limits.first_bytes.min(self.limits.opening));
        self.places.insert(connection, OpeningSlot { source, class: Class::Silent, accepted: now, until });
        self.silent.insert((now, connection));
        if !self.bugs.has(Bug::DeadlineFromFirstBytes) {
            self.deadlines.insert((until, connection));
        }
        oldest
    }

    /// Whether the connection has not said yet what it is.
    pub fn is_silent(&self, connection: C) -> bool {
        self.places.get(&connection).is_some_and(|place| place.class == Class::Silent)
    }

    /// Whose connection it is.
    pub fn source(&self, connection: C) -> Option<S> {
        self.places.get(&connection).map(|place| place.source)
    }

    /// The connection wants to join a session. It stays among the many until it has proved that it may.
    pub fn is_join(&mut self, connection: C) {
        self.change(connection, Class::Join);
    }

    /// The connection wants to log in (or to say something else that no join is).
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
        // The most numerous source; the one with the oldest login among equals.
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

    /// The connection has proved that it belongs to a session, or was refused: only its answer has to leave.
    pub fn is_proved(&mut self, connection: C) {
        self.change(connection, Class::Proved);
    }

    /// Its login failed: its source waits before the next one.
    pub fn login_failed(&mut self, connection: C, now: Instant) {
        self.drops.count(Drop::LoginFailed);
        if let Some(source) = self.source(connection) {
            self.penalties.add(source, now);
        }
    }

    /// The connection is gone, or has become a channel.
    pub fn leave(&mut self, connection: C) {
        if let Some(place) = self.places.remove(&connection) {
            self.take_out(connection, place);
        }
    }

    /// When the next deadline is.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(until, _)| *until)
    }

    /// A connection whose time is over, and the time that it had; it is still to leave.
    pub fn overdue(&mut self, now: Instant) -> Option<(C, Duration)> {
        let (until, connection) = self.deadlines.first().copied().filter(|(until, _)| *until <= now)?;
        let place = self.places.get(&connection)?;
        let why = if place.class == Class::Silent { Drop::FirstBytes } else { Drop::Deadline };
        self.drops.count(why);
        Some((connection, until.since(place.accepted)))
    }

    /// Connections that have not proved anything: those that are silent or about to join, and logins.
    pub fn unproved(&self) -> (usize, usize) {
        (self.silent.len(), self.login_count)
    }

    /// Logins of this source at present.
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
