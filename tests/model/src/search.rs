//! The search: what must always hold, what must be possible, and the figures.

use crate::action::Action;
use crate::endless::{Endless, longest_run};
use crate::oracle::{Told, Violation};
use crate::setting::Setting;
use crate::settings::{is_large, only};
use crate::world::{CLIENT, SERVER, World};
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use xdfs_proto::base::ErrorKind;

/// States in which nothing can happen any more.
pub const ENDS: &str = "every operation ends on both sides, nobody waits, nothing is left behind";
/// What [`longest_run`] looks at, beside the states.
pub const RUNS_END: &str = "every run comes to its end";
/// See [`Violation::Fault`].
pub const NO_FAULT: &str = "an honest peer is never found at fault";
/// See [`Violation::Panic`].
pub const NO_PANIC: &str = "no input makes a machine panic";
/// See [`Violation::Place`].
pub const PLACE: &str = "a target is committed once, with every byte in its place";
/// See [`Violation::Outcome`].
pub const OUTCOME: &str = "both ends tell one outcome, and it is what happened";
/// See [`Violation::Again`].
pub const AGAIN: &str = "nothing goes again before the fence of its channel";
/// See [`Violation::Content`].
pub const CONTENT: &str = "what is committed is what was sent";
/// See [`Violation::Fence`].
pub const FENCE: &str = "a fence counts what was taken, and nothing is taken behind it";

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
            Property::always(NO_FAULT, |_, world: &World| !matches!(world.oracle.violation, Some(Violation::Fault(_)))),
            Property::always(NO_PANIC, |_, world: &World| world.oracle.violation != Some(Violation::Panic)),
            Property::always(PLACE, |_, world: &World| world.oracle.violation != Some(Violation::Place)),
            Property::always(OUTCOME, |_, world: &World| world.oracle.violation != Some(Violation::Outcome)),
            Property::always(AGAIN, |_, world: &World| world.oracle.violation != Some(Violation::Again)),
            Property::always(CONTENT, |_, world: &World| world.oracle.violation != Some(Violation::Content)),
            Property::always(FENCE, |_, world: &World| world.oracle.violation != Some(Violation::Fence)),
        ];
        properties.extend(self.sometimes());
        properties
    }
}

impl Setting {
    /// What must be reached at least once, where the setting offers what it takes.
    fn sometimes(&self) -> Vec<Property<Self>> {
        let mut reached = vec![Property::sometimes("a commit", |_, world: &World| {
            world.oracle.ledgers.iter().all(|ledger| ledger.told == [Some(Told::Committed); 2])
        })];
        if self.breaks > 0 {
            reached.push(Property::sometimes("a commit after a channel died", |_, world: &World| {
                let broken = world.lines.iter().flatten().any(|line| line.broken);
                broken && world.told_everywhere(Told::Committed)
            }));
        }
        if self.breaks >= 2 * self.channels as u8 || self.cut_all {
            reached.push(Property::sometimes("a sender that cannot know of the commit", |_, world: &World| {
                let lost = Some(Told::Failed(ErrorKind::ConnectionLost));
                world.oracle.ledgers.iter().any(|ledger| {
                    ledger.told[ledger.target] == Some(Told::Committed) && ledger.told[1 - ledger.target] == lost
                })
            }));
        }
        if self.storage_faults > 0 {
            reached.push(Property::sometimes("a refusal", |_, world: &World| {
                world.told_everywhere(Told::Failed(ErrorKind::NoSpace))
            }));
        }
        if self.cancels > 0 {
            reached.push(Property::sometimes("a cancel that wins", |_, world: &World| {
                world.told_everywhere(Told::Failed(ErrorKind::Cancelled))
            }));
            reached.push(Property::sometimes("a cancel that loses the race", |setting: &Setting, world: &World| {
                world.cancels < setting.cancels && world.told_everywhere(Told::Committed)
            }));
        }
        if self.repeats > 0 {
            reached.push(Property::sometimes("a second copy dropped", |_, world: &World| world.oracle.dropped));
        }
        if self.flips > 0 {
            reached.push(Property::sometimes(
                "a commit of a block that came again",
                |setting: &Setting, world: &World| {
                    world.flips < setting.flips && world.told_everywhere(Told::Committed)
                },
            ));
        }
        if self.close {
            reached.push(Property::sometimes("an orderly end", |_, world: &World| {
                let closed = world.lines.iter().flatten().all(|line| line.closed && !line.broken);
                closed && world.told_everywhere(Told::Committed)
            }));
        }
        if self.drain {
            reached.push(Property::sometimes("a request that meets a server that goes down", |_, world: &World| {
                world.told_everywhere(Told::Failed(ErrorKind::Draining))
            }));
        }
        reached
    }
}

impl World {
    /// Some operation has this outcome at both ends.
    fn told_everywhere(&self, told: Told) -> bool {
        self.oracle.ledgers.iter().any(|ledger| ledger.told[CLIENT] == Some(told) && ledger.told[SERVER] == Some(told))
    }
}

/// What a search found.
#[derive(Debug)]
pub struct Report<A> {
    /// Name of the setting.
    pub name: &'static str,
    /// Different states.
    pub states: usize,
    /// Steps taken between them.
    pub steps: usize,
    /// Longest path.
    pub depth: usize,
    /// Steps of the longest run there is: every run ends. None where that was not looked at.
    pub longest: Option<usize>,
    /// A run that does not end.
    pub endless: Option<Endless<A>>,
    /// Time it took.
    pub time: Duration,
    /// Every state was looked at: nothing was left in the queue.
    pub complete: bool,
    /// Properties that do not hold, each with a way there.
    pub broken: Vec<(&'static str, Vec<A>, String)>,
    /// What should be possible and was never reached.
    pub unreached: Vec<&'static str>,
    /// What should be possible and was reached.
    pub reached: Vec<&'static str>,
}

/// What can be searched and reported on.
pub trait Searched: Model + Clone + Send + Sync + 'static {
    /// Its name.
    fn name(&self) -> &'static str;

    /// What there is to see in a state in which something is wrong.
    fn describe(state: &Self::State) -> String;
}

impl Searched for Setting {
    fn name(&self) -> &'static str {
        self.name
    }

    fn describe(world: &World) -> String {
        let operations: Vec<_> = world.ends.iter().flatten().map(|s| s.operations().collect::<Vec<_>>()).collect();
        format!("{:?}\n    {operations:?}", world.oracle)
    }
}

/// In which order states are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// By their distance: what is wrong is told with the shortest way there, and the states of a whole distance are in memory.
    Breadth,
    /// Along one way to its end: of the states that were left only the marks are in memory. For the large settings.
    Depth,
}

/// Searches every state of a setting, or up to the first property that does not hold. Where all hold it looks at every run, too:
/// each has to come to an end.
pub fn search<S: Searched>(setting: &S, order: Order) -> Report<S::Action>
where
    S::State: std::hash::Hash + Send + Sync + Clone + PartialEq + std::fmt::Debug,
    S::Action: Send + Sync + Clone + PartialEq + std::fmt::Debug,
{
    let until = match wanted(setting) {
        None => HasDiscoveries::AnyFailures,
        // Where runs do not end there may be no end of states either: few of them are enough.
        Some(RUNS_END) => HasDiscoveries::Any,
        Some(name) => HasDiscoveries::AnyOf([name].into()),
    };
    let mut report = search_until(setting, order, until);
    let start = Instant::now();
    if report.broken.is_empty() {
        match longest_run(setting) {
            Ok(longest) => report.longest = Some(longest),
            Err(endless) => report.endless = Some(endless),
        }
    }
    report.time += start.elapsed();
    report
}

/// The property that was asked for in `XDFS_PROPERTY`: only a way to where it does not hold is looked for, whatever else breaks
/// before.
fn wanted<S: Searched>(setting: &S) -> Option<&'static str> {
    let asked = std::env::var("XDFS_PROPERTY").ok()?;
    let mut names = setting.properties().into_iter().map(|property| property.name).chain([RUNS_END]);
    let name = names.find(|name| *name == asked);
    assert!(name.is_some(), "XDFS_PROPERTY is no property of '{}'", setting.name());
    name
}

/// Searches every setting, or the one that was asked for, and tells what was found: all have to hold, and to have so many states
/// together.
pub fn all_hold<'a, S: Searched + 'a>(settings: impl IntoIterator<Item = &'a S>, states_min: usize)
where
    S::State: std::hash::Hash + Send + Sync + Clone + PartialEq + std::fmt::Debug,
    S::Action: Send + Sync + Clone + PartialEq + std::fmt::Debug,
{
    let (mut count, mut states, mut wrong) = (0, 0, Vec::new());
    let (only, order) = (only(), if is_large() { Order::Depth } else { Order::Breadth });
    for setting in settings.into_iter().filter(|setting| only.as_ref().is_none_or(|name| name == setting.name())) {
        let report = search(setting, order);
        count += 1;
        println!("{report}");
        states += report.states;
        wrong.extend((!report.holds()).then_some(report.name));
    }
    println!("{states} states in all");
    assert!(wrong.is_empty(), "see the ways there above: {wrong:?}");
    assert!(count > 0, "XDFS_MODEL is 'usual', 'large' or the name of a usual setting");
    assert!(only.is_some() || states >= states_min, "the settings became too small to say much: {states} states");
}

/// Searches up to the first state in which this property does not hold.
pub fn search_for<S: Searched>(setting: &S, property: &'static str) -> Report<S::Action>
where
    S::State: std::hash::Hash + Send + Sync + Clone + PartialEq + std::fmt::Debug,
    S::Action: Send + Sync + Clone + PartialEq + std::fmt::Debug,
{
    search_until(setting, Order::Breadth, HasDiscoveries::AnyOf([property].into()))
}

fn search_until<S: Searched>(setting: &S, order: Order, until: HasDiscoveries) -> Report<S::Action>
where
    S::State: std::hash::Hash + Send + Sync + Clone + PartialEq + std::fmt::Debug,
    S::Action: Send + Sync + Clone + PartialEq + std::fmt::Debug,
{
    let start = Instant::now();
    let builder = setting.clone().checker().threads(2).finish_when(until);
    match order {
        Order::Breadth => report(setting, start, &builder.spawn_bfs().join()),
        Order::Depth => report(setting, start, &builder.spawn_dfs().join()),
    }
}

fn report<S: Searched>(setting: &S, start: Instant, checker: &impl Checker<S>) -> Report<S::Action>
where
    S::State: std::hash::Hash + Clone + PartialEq + std::fmt::Debug,
    S::Action: Clone + PartialEq + std::fmt::Debug,
{
    let found = checker.discoveries();
    let mut report = Report {
        name: setting.name(),
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        depth: checker.max_depth(),
        longest: None,
        endless: None,
        time: start.elapsed(),
        complete: checker.is_done(),
        broken: Vec::new(),
        unreached: Vec::new(),
        reached: Vec::new(),
    };
    for property in setting.properties() {
        match (property.expectation, found.get(property.name)) {
            (stateright::Expectation::Sometimes, None) => report.unreached.push(property.name),
            (stateright::Expectation::Sometimes, Some(_)) => report.reached.push(property.name),
            (_, Some(path)) => {
                let last = S::describe(path.last_state());
                report.broken.push((property.name, path.clone().into_actions(), last));
            }
            (_, None) => {}
        }
    }
    report
}

impl<A> Report<A> {
    /// Every state was looked at, every property holds, everything that should be possible was reached, and every run ends.
    pub fn holds(&self) -> bool {
        self.complete && self.broken.is_empty() && self.unreached.is_empty() && self.longest.is_some()
    }
}

impl<A: std::fmt::Debug> std::fmt::Display for Report<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.time.as_secs_f64();
        write!(
            f,
            "{:<28}{:>10} states {:>11} steps {:>4} deep {:>4} at most {seconds:>7.1} s",
            self.name,
            self.states,
            self.steps,
            self.depth,
            self.longest.unwrap_or(0)
        )?;
        if let Some(Endless { way, why }) = &self.endless {
            write!(f, "\n  BROKEN: {RUNS_END}: {why}\n")?;
            for action in way {
                writeln!(f, "    {action:?}")?;
            }
        }
        for (name, actions, last) in &self.broken {
            write!(f, "\n  BROKEN: {name}\n")?;
            for action in actions {
                writeln!(f, "    {action:?}")?;
            }
            write!(f, "    {last}")?;
        }
        for name in &self.unreached {
            write!(f, "\n  NEVER REACHED: {name}")?;
        }
        Ok(())
    }
}
