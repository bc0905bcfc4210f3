//! What must always hold, and what must be possible.

use super::action::Action;
use super::oracle::{Seen, Violation};
use super::setting::Setting;
use super::world::World;
use crate::search::Searched;
use stateright::{Model, Property};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// See [`Violation::Stranger`].
pub const HOLDER: &str = "S1, S2: a channel belongs to who holds the secret of its session, and is its user";
/// See [`Violation::Grant`].
pub const GRANT: &str = "S3: a number attaches once, and only where it was granted";
/// See [`Violation::Effect`].
pub const EFFECT: &str = "S4: nothing happens before a session, after it, or once it was taken away";
/// See [`Violation::Level`].
pub const LEVEL: &str = "S5: no block is below a floor, and both ends know one level";
/// See [`Violation::Nonce`].
pub const NONCE: &str = "S6: no nonce serves twice under one key";
/// See [`Violation::Fault`] and [`Violation::Refused`].
pub const HONEST: &str = "Ann is not found at fault, and not turned away, for what Eve does";
/// See [`Violation::Outcome`].
pub const OUTCOME: &str = "what Ann is told is true";
/// States in which nothing can happen any more.
pub const ENDS: &str = "everything comes to its end, whatever Eve does";
/// See [`Violation::Panic`].
pub const NO_PANIC: &str = "nothing makes a machine panic";

impl Model for Setting {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let mut world = World::new(self);
        world.start(self);
        vec![world]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        world.actions(self, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        let applied = catch_unwind(AssertUnwindSafe(|| next.apply(self, action)));
        if applied.is_err() {
            next = world.clone();
            next.oracle.wrong(Violation::Panic);
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(ENDS, |setting: &Setting, world: &World| {
                !world.rests(setting) || world.has_ended(setting)
            }),
            Property::always(HOLDER, |_, world: &World| world.oracle.violation != Some(Violation::Stranger)),
            Property::always(GRANT, |_, world: &World| world.oracle.violation != Some(Violation::Grant)),
            Property::always(EFFECT, |_, world: &World| world.oracle.violation != Some(Violation::Effect)),
            Property::always(LEVEL, |_, world: &World| world.oracle.violation != Some(Violation::Level)),
            Property::always(NONCE, |_, world: &World| world.oracle.violation != Some(Violation::Nonce)),
            Property::always(HONEST, |_, world: &World| {
                !matches!(world.oracle.violation, Some(Violation::Fault(_) | Violation::Refused))
            }),
            Property::always(OUTCOME, |_, world: &World| world.oracle.violation != Some(Violation::Outcome)),
            Property::always(NO_PANIC, |_, world: &World| world.oracle.violation != Some(Violation::Panic)),
        ];
        properties.extend(self.sometimes());
        properties
    }
}

/// Something that is to be reached, where the setting offers what it takes.
macro_rules! seen {
    ($list:ident, $when:expr, $($name:literal => $seen:ident),+) => {
        if $when {
            $($list.push(Property::sometimes($name, |_, world: &World| world.oracle.seen.contains(&Seen::$seen)));)+
        }
    };
}

impl Setting {
    fn sometimes(&self) -> Vec<Property<Self>> {
        let mut reached =
            vec![Property::sometimes("Ann's transfer ends well", |_, world: &World| world.told == Some(true))];
        let joins = self.channels > 1;
        if joins {
            reached.push(Property::sometimes("Ann's channels join", |setting: &Setting, world: &World| {
                world.lines.iter().flatten().filter(|line| line.key.is_some()).count()
                    >= 2 * usize::from(setting.channels)
            }));
        }
        seen!(reached, self.forgeries > 0, "a forged JOIN is refused" => ForgedJoin);
        seen!(reached, self.forgeries > 0 && joins, "a stolen JOIN comes first" => StolenJoin,
            "a stolen JOIN comes too late" => CopyRefused);
        seen!(reached, self.forgeries > 1, "a grant is used twice, and refused" => UsedGrant);
        seen!(reached, self.expires && joins, "a JOIN comes after its time" => LateJoin);
        seen!(reached, self.revocations > 0 && joins, "a JOIN meets a session that was taken away" => JoinOfNone,
            "a login is taken away between proof and answer" => RevokedJoining);
        seen!(reached, self.revocations > 0 && self.breaks > 0, "a channel meets a session that is over" => LateChannel);
        seen!(reached, self.revocations > 0, "a login is taken away during a transfer" => RevokedMoving);
        seen!(reached, self.revocations > 0 && self.logins, "a login is taken away before its answer" => RevokedOpening);
        seen!(reached, self.meddlings > 0, "a record that was meddled with ends its channel" => BadRecord);
        if self.meddlings > 0 && joins {
            reached.push(Property::sometimes("a transfer ends well although records were", |_, world: &World| {
                world.told == Some(true) && world.oracle.seen.contains(&Seen::BadRecord)
            }));
        }
        seen!(reached, self.words > 0, "Eve is found at fault" => EveAtFault);
        seen!(reached, self.words > 2, "Eve writes what she may" => EveCommitted);
        seen!(reached, self.replaces, "a lost channel is replaced" => Replaced);
        reached
    }
}

impl Searched for Setting {
    fn name(&self) -> &'static str {
        self.name
    }

    fn describe(world: &World) -> String {
        let operations: Vec<_> = world.ann.operations().collect();
        format!("{:?}\n    {:?}\n    {operations:?}", world.oracle, world.connections)
    }
}
