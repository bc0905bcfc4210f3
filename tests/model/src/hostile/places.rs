//! S12: what has not proved anything is bounded, whatever strangers do and in whichever order. The real
//! [`xdfs_proto::admit::Admission`] in a small house: a few places, two sources, three moments.
//!
//! Connections arrive, say what they are or nothing, prove themselves, fail, and go; the clock moves from deadline to
//! deadline. What is kept beside the machine is the truth about each connection, told by what was done with it.

use crate::search::Searched;
use stateright::{Model, Property};
use std::collections::BTreeMap;
use xdfs_proto::admit::{Admission, AdmissionVerdict, Limits};
use xdfs_proto::base::{Duration, Instant};
use xdfs_proto::wire::preface::Status;

/// The house.
const HOUSE: Limits = Limits {
    silent: 2,
    first_bytes: Duration::from_secs(1),
    guests_soft: 1,
    guests: 2,
    guests_per_source: 2,
    opening: Duration::from_secs(2),
    penalty_sources: 1,
};

/// Sources: Ann's and Eve's.
const SOURCES: [u8; 2] = [0, 1];

/// How many strangers come.
#[derive(Clone, Debug)]
pub struct Places {
    /// Connections in all.
    pub arrivals: u8,
}

impl Places {
    /// Searched in every run of the tests.
    pub const USUAL: Self = Self { arrivals: 4 };
}

/// What a connection is in truth.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// It has said nothing.
    Silent,
    /// It is about to join.
    Joining,
    /// It logs in.
    Login,
    /// It was told that it may not go on, or has proved itself: its answer leaves.
    Answered,
}

/// A connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stranger {
    source: u8,
    accepted: Instant,
    kind: Kind,
}

/// What is searched.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct House {
    admission: Admission<u8, u8>,
    strangers: BTreeMap<u8, Stranger>,
    arrived: u8,
    now: Instant,
    /// Some machine said what is not so.
    wrong: bool,
    seen: u8,
}

/// One step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// A connection from this source.
    Arrive(u8),
    /// It says that it joins.
    Join(u8),
    /// It says that it logs in.
    Login(u8),
    /// It has proved that it may join.
    Prove(u8),
    /// Its login failed, and it goes.
    Fail(u8),
    /// It goes.
    Leave(u8),
    /// A second passes, and whoever is late is cut.
    Second,
}

const MADE_ROOM: u8 = 1;
const PER_SOURCE: u8 = 2;
const DISPLACED: u8 = 4;
const PENALISED: u8 = 8;
const LATE: u8 = 16;
const JOINED_IN_A_FULL_HOUSE: u8 = 32;

impl House {
    fn count(&self, is: impl Fn(&Stranger) -> bool) -> usize {
        self.strangers.values().filter(|one| is(one)).count()
    }

    fn cut(&mut self, victim: Option<u8>) {
        if let Some(victim) = victim {
            self.wrong |= self.strangers.remove(&victim).is_none();
        }
    }

    fn is(&mut self, connection: u8, kind: Kind) {
        if let Some(stranger) = self.strangers.get_mut(&connection) {
            stranger.kind = kind;
        }
    }

    fn apply(&mut self, action: Action) {
        match action {
            Action::Arrive(source) => {
                let victim = self.admission.arrive(self.arrived, source, self.now);
                self.seen |= if victim.is_some() { MADE_ROOM } else { 0 };
                self.cut(victim);
                let stranger = Stranger { source, accepted: self.now, kind: Kind::Silent };
                self.strangers.insert(self.arrived, stranger);
                self.arrived += 1;
            }
            Action::Join(connection) => {
                self.admission.is_join(connection);
                self.is(connection, Kind::Joining);
            }
            Action::Login(connection) => match self.admission.is_login(connection, self.now) {
                AdmissionVerdict::Welcome(victim) => {
                    self.seen |= if victim.is_some() { DISPLACED } else { 0 };
                    self.cut(victim);
                    self.is(connection, Kind::Login);
                }
                AdmissionVerdict::Refused(why) => {
                    self.seen |= match why {
                        Status::Penalised => PENALISED,
                        Status::TooManyOfYou => PER_SOURCE,
                        _ => 0,
                    };
                    self.is(connection, Kind::Answered);
                }
            },
            Action::Prove(connection) => {
                if self.count(|one| one.kind == Kind::Login) >= HOUSE.guests {
                    self.seen |= JOINED_IN_A_FULL_HOUSE;
                }
                self.admission.is_proved(connection);
                self.is(connection, Kind::Answered);
            }
            Action::Fail(connection) => {
                self.admission.login_failed(connection, self.now);
                self.leave(connection);
            }
            Action::Leave(connection) => self.leave(connection),
            Action::Second => {
                self.now = self.now.after(Duration::from_secs(1));
                while let Some((late, _)) = self.admission.overdue(self.now) {
                    self.seen |= LATE;
                    self.wrong |= !self.strangers.contains_key(&late);
                    self.leave(late);
                }
            }
        }
    }

    fn leave(&mut self, connection: u8) {
        self.admission.leave(connection);
        self.strangers.remove(&connection);
    }

    /// Nobody is there for longer than what he is may be.
    fn in_time(&self) -> bool {
        let late = |one: &Stranger| {
            let most = if one.kind == Kind::Silent { HOUSE.first_bytes } else { HOUSE.opening };
            self.now.since(one.accepted) >= most
        };
        self.count(late) == 0
    }

    /// No more than there are places, for each kind and each source.
    fn bounded(&self) -> bool {
        let silent = self.count(|one| matches!(one.kind, Kind::Silent | Kind::Joining));
        let logins = self.count(|one| one.kind == Kind::Login);
        let of = |source: u8| self.count(|one| one.kind == Kind::Login && one.source == source);
        let books = self.admission.unproved() == (silent, logins);
        let each = SOURCES.iter().all(|source| of(*source) <= HOUSE.guests_per_source);
        books && each && silent <= HOUSE.silent && logins <= HOUSE.guests
    }
}

/// The property that unauthenticated connections stay within their bounds.
pub const BOUNDED: &str = "S12: what has not proved anything is bounded in all, and for each source";
/// The property that unauthenticated connections end in time.
pub const IN_TIME: &str = "S12: who has not proved anything goes at his deadline, whatever he says";
/// The property that the table of connections agrees with what happened.
pub const BOOKS: &str = "who has to make room, and who is late, is there";

impl Model for Places {
    type State = House;
    type Action = Action;

    fn init_states(&self) -> Vec<House> {
        let admission = Admission::new(HOUSE);
        vec![House { admission, strangers: BTreeMap::new(), arrived: 0, now: Instant(0), wrong: false, seen: 0 }]
    }

    fn actions(&self, house: &House, actions: &mut Vec<Action>) {
        if house.arrived < self.arrivals {
            actions.extend(SOURCES.map(Action::Arrive));
        }
        for (connection, stranger) in &house.strangers {
            match stranger.kind {
                Kind::Silent => actions.extend([Action::Join(*connection), Action::Login(*connection)]),
                Kind::Joining => actions.push(Action::Prove(*connection)),
                Kind::Login => actions.push(Action::Fail(*connection)),
                Kind::Answered => {}
            }
            actions.push(Action::Leave(*connection));
        }
        // Time goes on as long as it matters to somebody, and far enough for a penalty.
        if !house.strangers.is_empty() && house.now < Instant(0).after(Duration::from_secs(4)) {
            actions.push(Action::Second);
        }
    }

    fn next_state(&self, house: &House, action: Action) -> Option<House> {
        let mut next = house.clone();
        next.apply(action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(BOUNDED, |_, house: &House| house.bounded()),
            Property::always(IN_TIME, |_, house: &House| house.in_time()),
            Property::always(BOOKS, |_, house: &House| !house.wrong),
        ];
        macro_rules! seen {
            ($($name:literal => $bit:expr),+) => {
                $(properties.push(Property::sometimes($name, |_, house: &House| house.seen & $bit != 0));)+
            };
        }
        seen!("a silent one makes room" => MADE_ROOM, "a source has too many logins" => PER_SOURCE,
            "a login is displaced" => DISPLACED, "somebody is late" => LATE,
            "a source whose logins failed waits" => PENALISED,
            "a channel joins in a house that is full of logins" => JOINED_IN_A_FULL_HOUSE);
        properties
    }
}

impl Searched for Places {
    fn name(&self) -> &'static str {
        "places"
    }

    fn describe(house: &House) -> String {
        format!("{house:?}")
    }
}
