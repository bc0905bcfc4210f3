//! Who is let in to the handshake, and for how long (T17, T29): a table of the connections that have not proved anything
//! yet, with their places, deadlines and penalties. Time, sockets and addresses are arguments: it does no I/O.
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
mod limits;
mod penalty;
mod source;

#[cfg(test)]
mod tests;

pub(crate) use drops::{Drop, Drops};
pub use limits::ServerLimits;
pub(crate) use source::Source;

use penalty::Penalties;
use std::collections::{BTreeMap, BTreeSet};
use xdfs_proto::base::{Duration, Instant};
use xdfs_proto::wire::preface::Status;
use xdfs_xio::dispatch::SocketId;

/// What a connection is, as far as it has said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Silent,
    Join,
    Login,
    /// Proved; only its answer is still to leave. It counts nowhere.
    Proved,
}

/// One connection in its opening.
#[derive(Clone, Copy, Debug)]
struct Place {
    source: Source,
    class: Class,
    accepted: Instant,
    until: Instant,
}

/// What to do with a connection that has said what it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It goes on; another one may have to leave for it.
    Welcome(Option<SocketId>),
    /// It is told why not, and closed.
    Refused(Status),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Admission {
    limits: ServerLimits,
    places: BTreeMap<SocketId, Place>,
    /// Everybody by deadline.
    deadlines: BTreeSet<(Instant, SocketId)>,
    /// Silent ones and joins by age.
    silent: BTreeSet<(Instant, SocketId)>,
    /// Logins by source and age.
    logins: BTreeMap<Source, BTreeSet<(Instant, SocketId)>>,
    login_count: usize,
    penalties: Penalties,
    drops: Drops,
}

impl Admission {
    /// Nobody is there yet.
    pub fn new(limits: ServerLimits) -> Self {
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

    /// Other limits hold from now on; who is in stays in.
    pub fn set_limits(&mut self, limits: ServerLimits) {
        self.limits = limits;
    }

    /// How often which limit bit.
    pub fn drops(&mut self) -> &mut Drops {
        &mut self.drops
    }

    /// A connection was accepted. Returns one that has to make room for it.
    pub fn arrive(&mut self, socket: SocketId, source: Source, now: Instant) -> Option<SocketId> {
        let full = self.silent.len() >= self.limits.silent;
        let oldest = if full { self.silent.first().map(|(_, socket)| *socket) } else { None };
        if let Some(oldest) = oldest {
            self.drops.count(Drop::Silent);
            self.leave(oldest);
        }
        let until = now.after(self.limits.first_bytes.min(self.limits.opening));
        self.places.insert(socket, Place { source, class: Class::Silent, accepted: now, until });
        self.silent.insert((now, socket));
        self.deadlines.insert((until, socket));
        oldest
    }

    /// Whether the connection has not said yet what it is.
    pub fn is_silent(&self, socket: SocketId) -> bool {
        self.places.get(&socket).is_some_and(|place| place.class == Class::Silent)
    }

    /// Whose connection it is.
    pub fn source(&self, socket: SocketId) -> Option<Source> {
        self.places.get(&socket).map(|place| place.source)
    }

    /// The connection wants to join a session. It stays among the many until it has proved that it may.
    pub fn is_join(&mut self, socket: SocketId) {
        self.change(socket, Class::Join);
    }

    /// The connection wants to log in (or to say something else that no join is).
    pub fn is_login(&mut self, socket: SocketId, now: Instant) -> Verdict {
        let Some(source) = self.source(socket) else { return Verdict::Welcome(None) };
        let refused = |admission: &mut Self, why, status| {
            admission.drops.count(why);
            admission.change(socket, Class::Proved);
            Verdict::Refused(status)
        };
        if self.penalties.holds(source, now) {
            return refused(self, Drop::Penalty, Status::Penalised);
        }
        let own = self.logins_of(source);
        if own >= self.limits.guests_per_source {
            return refused(self, Drop::PerSource, Status::TooManyOfYou);
        }
        // The most numerous source; the one with the oldest login among equals.
        let most = self.logins.iter().max_by_key(|(_, sockets)| (sockets.len(), std::cmp::Reverse(sockets.first())));
        let most = most.map(|(_, sockets)| (sockets.len(), sockets.first().map(|(_, socket)| *socket)));
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
        self.change(socket, Class::Login);
        Verdict::Welcome(victim)
    }

    /// The connection has proved that it belongs to a session, or was refused: only its answer has to leave.
    pub fn is_proved(&mut self, socket: SocketId) {
        self.change(socket, Class::Proved);
    }

    /// Its login failed: its source waits before the next one.
    pub fn login_failed(&mut self, socket: SocketId, now: Instant) {
        self.drops.count(Drop::LoginFailed);
        if let Some(source) = self.source(socket) {
            self.penalties.add(source, now);
        }
    }

    /// The connection is gone, or has become a channel.
    pub fn leave(&mut self, socket: SocketId) {
        if let Some(place) = self.places.remove(&socket) {
            self.take_out(socket, place);
        }
    }

    /// When the next deadline is.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(until, _)| *until)
    }

    /// A connection whose time is over, and the time that it had; it is still to leave.
    pub fn overdue(&mut self, now: Instant) -> Option<(SocketId, Duration)> {
        let (until, socket) = self.deadlines.first().copied().filter(|(until, _)| *until <= now)?;
        let place = self.places.get(&socket)?;
        let why = if place.class == Class::Silent { Drop::FirstBytes } else { Drop::Deadline };
        self.drops.count(why);
        Some((socket, until.since(place.accepted)))
    }

    fn logins_of(&self, source: Source) -> usize {
        self.logins.get(&source).map_or(0, BTreeSet::len)
    }

    fn change(&mut self, socket: SocketId, class: Class) {
        let Some(place) = self.places.remove(&socket) else { return };
        self.take_out(socket, place);
        let until = place.accepted.after(self.limits.opening);
        let place = Place { class, until, ..place };
        match class {
            Class::Silent | Class::Join => drop(self.silent.insert((place.accepted, socket))),
            Class::Login => {
                self.login_count += 1;
                self.logins.entry(place.source).or_default().insert((place.accepted, socket));
            }
            Class::Proved => {}
        }
        self.deadlines.insert((until, socket));
        self.places.insert(socket, place);
    }

    fn take_out(&mut self, socket: SocketId, place: Place) {
        self.deadlines.remove(&(place.until, socket));
        self.silent.remove(&(place.accepted, socket));
        if place.class == Class::Login
            && let Some(sockets) = self.logins.get_mut(&place.source)
        {
            self.login_count -= usize::from(sockets.remove(&(place.accepted, socket)));
            if sockets.is_empty() {
                self.logins.remove(&place.source);
            }
        }
    }
}
