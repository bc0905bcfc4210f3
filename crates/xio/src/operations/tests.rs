//! The machine in every order of a small number of events, with an observer who keeps his own books.

use super::*;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The machine with one error that stands for all.
type Tried = Operations<()>;

/// Operations that are begun in one run, besides the opening.
const BEGUN_MAX: usize = 3;

/// What may happen to a handle.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Happens {
    Begin(Lane, Owner),
    Moved(Lane),
    Failed(Lane),
    Blocked(Lane),
    /// The driver is called without the lock, or returns.
    Called(Lane),
    Returned(Lane, usize),
    Cancel(u64),
    Timeout(u64),
    Close,
    Take,
    Told,
    Closed,
}

/// The machine, and what was seen of it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    machine: Tried,
    begun: usize,
    /// Owners of operations whose end nobody saw yet.
    open: BTreeMap<u64, (Lane, bool)>,
    told: BTreeSet<u64>,
    in_callback: usize,
}

impl World {
    fn new(owner: Owner) -> Self {
        let (machine, id) = Tried::new(owner);
        let open = BTreeMap::from([(id.0, (Lane::Open, owner == Owner::Reactor))]);
        Self { machine, begun: 0, open, told: BTreeSet::new(), in_callback: 0 }
    }

    fn events(&self) -> Vec<Happens> {
        let mut events = vec![Happens::Close, Happens::Take];
        for lane in [Lane::Read, Lane::Write] {
            if self.begun < BEGUN_MAX {
                events.extend([Owner::Caller, Owner::Reactor].map(|owner| Happens::Begin(lane, owner)));
            }
        }
        for lane in Lane::ALL {
            let Some(front) = self.machine.front(lane) else { continue };
            match front.call {
                Call::None => {
                    events.extend([Happens::Moved, Happens::Failed, Happens::Blocked].map(|event| event(lane)))
                }
                Call::Running | Call::Ending(_) => events.extend([0, 1].map(|bytes| Happens::Returned(lane, bytes))),
            }
            if front.call == Call::None && lane == Lane::Read && front.owner == Owner::Reactor {
                events.push(Happens::Called(lane));
            }
        }
        events.extend((0..self.begun as u64 + 2).flat_map(|id| [Happens::Cancel(id), Happens::Timeout(id)]));
        events.extend((self.in_callback > 0).then_some(Happens::Told));
        events.extend(self.machine.is_quiet().then_some(Happens::Closed));
        events
    }

    /// Notes the end of an operation, and that it is the only one.
    fn see(&mut self, finished: Finished<()>, by_reactor: bool) {
        let (lane, reactor) = self.open.remove(&finished.id.0).expect("an end of an operation that is open");
        assert_eq!((lane, reactor), (finished.lane, by_reactor), "told to the wrong one");
        assert!(self.told.insert(finished.id.0), "told twice");
    }

    fn step(&mut self, event: Happens) {
        let phase = self.machine.phase();
        match event {
            Happens::Begin(lane, owner) => {
                // Zero bytes: what is there. Two: it takes two steps.
                let wait_for = if lane == Lane::Read && owner == Owner::Caller { 0 } else { 2 };
                let begun = self.machine.begin(lane, wait_for, owner);
                assert_eq!(begun.is_ok(), phase == Phase::Open, "{phase:?}");
                if let Ok(id) = begun {
                    self.begun += 1;
                    assert!(self.open.insert(id.0, (lane, owner == Owner::Reactor)).is_none(), "a name is used twice");
                }
            }
            Happens::Moved(lane) => self.machine.on_moved(lane, 1, lane == Lane::Open),
            Happens::Failed(lane) => self.machine.on_failed(lane, ()),
            Happens::Blocked(lane) => self.machine.on_blocked(lane),
            Happens::Called(lane) => self.machine.on_called(lane),
            Happens::Returned(lane, bytes) => {
                let front = *self.machine.front(lane).expect("an operation stays while its call runs");
                let early = matches!(front.call, Call::Ending(_));
                assert_eq!(self.machine.on_returned(lane, bytes), early);
                if !early {
                    self.machine.on_moved(lane, bytes, false);
                }
            }
            Happens::Cancel(id) => drop(self.machine.cancel(OperationId(id))),
            Happens::Timeout(id) => drop(self.machine.on_timeout(OperationId(id))),
            Happens::Close => {
                let closed = self.machine.close();
                assert_eq!(closed.is_ok(), !matches!(phase, Phase::Closing | Phase::Closed));
                let left = Lane::ALL.iter().filter_map(|lane| self.machine.front(*lane));
                assert!(left.into_iter().all(|front| front.call != Call::None), "close leaves nothing but calls");
            }
            Happens::Take => {
                if let Some(finished) = self.machine.take_for_reactor() {
                    self.in_callback += 1;
                    self.see(finished, true);
                }
                let callers: Vec<u64> =
                    self.open.iter().filter(|(_, (_, reactor))| !reactor).map(|(id, _)| *id).collect();
                for id in callers {
                    if let Some(finished) = self.machine.take(OperationId(id)) {
                        self.see(finished, false);
                    }
                }
            }
            Happens::Told => {
                self.in_callback -= 1;
                self.machine.on_told();
            }
            Happens::Closed => {
                assert!(self.open.is_empty() && self.in_callback == 0, "closed before everything was told");
                self.machine.on_closed();
            }
        }
    }
}

#[test]
fn whatever_happens_every_operation_is_told_once_and_close_comes_last() {
    for owner in [Owner::Caller, Owner::Reactor] {
        let mut seen = HashSet::new();
        let mut closed = 0;
        let mut waiting = vec![World::new(owner)];
        while let Some(world) = waiting.pop() {
            for event in world.events() {
                let mut next = world.clone();
                next.step(event);
                closed += usize::from(next.machine.phase() == Phase::Closed);
                if seen.insert(next.clone()) {
                    waiting.push(next);
                }
            }
        }
        assert!(seen.len() > 10_000 && closed > 50, "{} states, {closed} closed", seen.len());
    }
}

#[test]
fn operations_of_one_direction_follow_each_other_and_are_bounded() {
    let (mut machine, _) = Tried::new(Owner::Caller);
    assert_eq!(machine.begin(Lane::Read, 1, Owner::Caller), Err(Refused::NotOpen));
    machine.on_moved(Lane::Open, 0, true);
    let ids: Vec<_> = (0..OUTSTANDING_MAX).map(|_| machine.begin(Lane::Read, 1, Owner::Reactor).unwrap()).collect();
    assert_eq!(machine.begin(Lane::Read, 1, Owner::Reactor), Err(Refused::TooMany));
    assert!(machine.begin(Lane::Write, 1, Owner::Reactor).is_ok(), "the other direction has its own bound");
    assert!(machine.cancel(ids[1]));
    machine.on_moved(Lane::Read, 1, false);
    machine.on_moved(Lane::Read, 1, false);
    let ended: Vec<_> = std::iter::from_fn(|| machine.take_for_reactor()).map(|one| (one.id, one.outcome)).collect();
    assert_eq!(
        ended,
        [(ids[1], Outcome::Ended(EarlyEnd::Cancelled)), (ids[0], Outcome::Done), (ids[2], Outcome::Done)]
    );
}

#[test]
fn what_is_cancelled_during_a_call_ends_with_it_and_keeps_what_it_moved() {
    let (mut machine, opening) = Tried::new(Owner::Caller);
    machine.on_moved(Lane::Open, 0, true);
    assert!(machine.take(opening).is_some());
    let first = machine.begin(Lane::Read, 10, Owner::Reactor).unwrap();
    let second = machine.begin(Lane::Read, 10, Owner::Reactor).unwrap();
    machine.on_moved(Lane::Read, 2, false);
    machine.on_called(Lane::Read);
    assert!(machine.cancel(first));
    assert!(!machine.cancel(first), "once");
    assert!(machine.take_for_reactor().is_none(), "its buffers are with the driver");
    machine.close().unwrap();
    assert_eq!(machine.take_for_reactor().map(|one| one.id), Some(second));
    machine.on_told();
    assert!(!machine.is_quiet());
    assert!(machine.on_returned(Lane::Read, 3));
    let ended = machine.take_for_reactor().unwrap();
    assert_eq!((ended.id, ended.outcome, ended.moved), (first, Outcome::Ended(EarlyEnd::Cancelled), 5));
    machine.on_told();
    assert!(machine.is_quiet());
}
