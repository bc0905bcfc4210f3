//! What must always hold, and what must be possible.

use super::setting::Leases;
use super::world::{Action, Seen, World, Wrong};
use crate::search::Searched;
use stateright::{Model, Property};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// See [`Wrong::Stale`].
pub const STALE: &str = "L1: what a client may use under its lease is the file as it was changed last";
/// See [`Wrong::Behind`].
pub const BEHIND: &str = "L2: the server has and tells the last change, unless a client keeps it under its lease";
/// See [`Wrong::Waits`].
pub const WAITS: &str = "L3: nobody waits for longer than a lease holds";
/// See [`Wrong::Panic`].
pub const NO_PANIC: &str = "nothing makes a machine panic";

impl Model for Leases {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        world.actions(self, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        let applied = catch_unwind(AssertUnwindSafe(|| next.apply(self, action)));
        if applied.is_err() {
            next = world.clone();
            next.wrong = Some(Wrong::Panic);
        }
        // Whoever waits tries again, and nothing has happened.
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(STALE, |_, world: &World| world.wrong != Some(Wrong::Stale)),
            Property::always(BEHIND, |_, world: &World| world.wrong != Some(Wrong::Behind)),
            Property::always(WAITS, |setting: &Leases, world: &World| !world.waits_too_long(setting)),
            Property::always(NO_PANIC, |_, world: &World| world.wrong != Some(Wrong::Panic)),
            Property::sometimes("the end, with nothing left", |setting: &Leases, world: &World| {
                world.has_ended(setting) && world.is_calm()
            }),
        ];
        properties.extend(self.sometimes());
        properties
    }
}

impl Leases {
    fn sometimes(&self) -> Vec<Property<Self>> {
        let mut reached = Vec::new();
        macro_rules! seen {
            ($when:expr, $($name:literal => $seen:ident),+) => {
                if $when {
                    $(reached.push(Property::sometimes($name, |_, world: &World| world.seen.contains(&Seen::$seen)));)+
                }
            };
        }
        let sum = |counts: [u8; 2]| counts[0] + counts[1];
        seen!(sum(self.changes) + sum(self.looks) > 0 && self.restarts == 0,
            "a lease that is given back lets others go on" => GivenBack,
            "a lease that is not given back ends" => TimeOver,
            "a recall that overtakes its grant" => Overtaken);
        seen!(sum(self.kept) > 0, "a kept change arrives" => Sent, "a kept change comes too late" => TooLate);
        seen!(sum(self.renewals) > 0, "a lease that lasts by its renewal" => Renewed);
        seen!(sum(self.losses) > 0, "a lease that is had again" => HadAgain);
        seen!(self.restarts > 0, "a lease that is had again after a restart" => HadAfterRestart);
        seen!(self.local > 0 && self.local_waits, "a local program that waits" => LocalWaited);
        reached
    }
}

impl Searched for Leases {
    fn name(&self) -> &'static str {
        self.name
    }

    fn describe(world: &World) -> String {
        format!("{world:?}")
    }
}
