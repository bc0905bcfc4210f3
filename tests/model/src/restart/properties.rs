//! What must always hold, and what must be possible.

use super::life::{Action, Life, Seen, Wrong};
use super::setting::Restarts;
use crate::search::Searched;
use stateright::{Model, Property};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// See [`Wrong::Committed`].
pub const COMMITTED: &str =
    "S7: COMMITTED means every byte, as it was sent, synced before the name and the name before the word";
/// See [`Wrong::Twice`] and [`Wrong::OverOther`].
pub const ONCE: &str = "S8: a transfer commits at most once, and never over what came meanwhile";
/// See [`Wrong::Marker`].
pub const MARKER: &str = "S9: in every crash state the journal tells of nothing that is not there";
/// See [`Wrong::Old`].
pub const OLD: &str = "S10: the name stands for the old file or a whole one, whatever is given up or cut off";
/// See [`Wrong::Lost`].
pub const LOST: &str = "what was told durable survives every crash";
/// What the session's own oracle says.
pub const SESSION: &str = "the session keeps its promises over both attempts";
/// States in which nothing can happen any more.
pub const ENDS: &str = "every attempt ends, and nothing is left waiting";
/// See [`Wrong::Panic`].
pub const NO_PANIC: &str = "nothing makes a machine panic";

impl Model for Restarts {
    type State = Life;
    type Action = Action;

    fn init_states(&self) -> Vec<Life> {
        vec![Life::new(self)]
    }

    fn actions(&self, life: &Life, actions: &mut Vec<Action>) {
        life.actions(self, actions);
    }

    fn next_state(&self, life: &Life, action: Action) -> Option<Life> {
        let mut next = life.clone();
        let applied = catch_unwind(AssertUnwindSafe(|| next.apply(self, action)));
        if applied.is_err() {
            next = life.clone();
            next.wrong = Some(Wrong::Panic);
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(COMMITTED, |_, life: &Life| life.wrong != Some(Wrong::Committed)),
            Property::always(ONCE, |_, life: &Life| !matches!(life.wrong, Some(Wrong::Twice | Wrong::OverOther))),
            Property::always(MARKER, |_, life: &Life| life.wrong != Some(Wrong::Marker)),
            Property::always(OLD, |_, life: &Life| life.wrong != Some(Wrong::Old)),
            Property::always(LOST, |_, life: &Life| life.wrong != Some(Wrong::Lost)),
            Property::always(SESSION, |_, life: &Life| life.world.oracle.violation.is_none()),
            Property::always(NO_PANIC, |_, life: &Life| life.wrong != Some(Wrong::Panic)),
            Property::always(ENDS, |setting: &Restarts, life: &Life| {
                let mut actions = Vec::new();
                life.actions(setting, &mut actions);
                let stopped = life.wrong.is_some() || life.world.oracle.violation.is_some();
                stopped || !actions.is_empty() || life.has_ended(setting)
            }),
        ];
        properties.extend(self.sometimes());
        properties
    }
}

impl Restarts {
    fn sometimes(&self) -> Vec<Property<Self>> {
        let mut reached = vec![
            Property::sometimes("a commit", |_, life: &Life| life.is_done()),
            Property::sometimes("a commit after a restart", |_, life: &Life| life.restarted && life.is_done()),
        ];
        macro_rules! seen {
            ($when:expr, $($name:literal => $seen:ident),+) => {
                if $when {
                    $(reached.push(Property::sometimes($name, |_, life: &Life| {
                        life.seen.contains(&Seen::$seen) && life.is_done()
                    }));)+
                }
            };
        }
        seen!(self.markers > 0, "a commit of what two attempts brought" => Resumed);
        seen!(self.restarts > 0, "a commit after a power cut took back a name" => NameLost,
            "a commit after a power cut took back blocks" => BlocksLost,
            "a second attempt that finds the first one's commit" => Remembered);
        seen!(self.sync_faults > 0, "a poisoned part file is replaced" => Poisoned);
        if self.others > 0 {
            reached.push(Property::sometimes("what came meanwhile is left alone", |_, life: &Life| {
                life.seen.contains(&Seen::LeftAlone)
            }));
        }
        reached
    }
}

impl Searched for Restarts {
    fn name(&self) -> &'static str {
        self.name
    }

    fn describe(life: &Life) -> String {
        format!("{:?} {:?} {:?}\n    {:?}", life.disk, life.seen, life.wrong, life.world.oracle)
    }
}
