//! The operations of one handle: which are outstanding, which one of each direction moves bytes now,
//! and what cancel, timeout and close do to them. A machine without input or output, so that it is
//! checked by itself in every interleaving.
//!
//! Its promises: each operation is finished once; those of one direction finish in their order
//! unless they are cancelled; and the handle is not closed before everybody was told of everything
//! (XIO-41, XIO-42).

use std::collections::VecDeque;

/// Most operations of a direction that are outstanding at a time: what a program can keep track of,
/// and few enough to find one by walking.
pub const OUTSTANDING_MAX: usize = 1024;

/// Names an operation of one handle; none is used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OperationId(u64);

/// Operations of one lane follow each other; those of different lanes are independent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Lane {
    /// Opening: one operation, before all others.
    Open,
    /// Reading.
    Read,
    /// Writing.
    Write,
}

impl Lane {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Open, Self::Read, Self::Write];
}

/// Who moves an operation's bytes and learns of its end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Owner {
    /// A thread that waits for it.
    Caller,
    /// The reactor, which calls its callback.
    Reactor,
}

/// What ends an operation before it is done and without an error of a driver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EarlyEnd {
    /// A cancel, or the close of the handle.
    Cancelled,
    /// Its timeout.
    TimedOut,
}

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome<E> {
    /// As it should.
    Done,
    /// With this error of a driver.
    Failed(E),
    /// Early.
    Ended(EarlyEnd),
}

/// The life of a handle.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// Being opened.
    Opening,
    /// Open.
    Open,
    /// It could not be opened; only close is left.
    Failed,
    /// Close was asked for.
    Closing,
    /// Closed.
    Closed,
}

/// Why an operation cannot begin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refused {
    /// The handle is not open yet.
    NotOpen,
    /// The handle is closed or being closed, or could not be opened.
    Closed,
    /// [`OUTSTANDING_MAX`] are outstanding.
    TooMany,
}

/// Whether a driver works on an operation while nobody else is kept from the handle.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Call {
    /// It does not.
    None,
    /// It does.
    Running,
    /// It does, and the operation ends so when the call returns: what it moves is not lost.
    Ending(EarlyEnd),
}

/// An operation that is not finished.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Outstanding {
    /// Its name.
    pub id: OperationId,
    /// Who moves its bytes.
    pub owner: Owner,
    /// Bytes that finish it.
    pub wait_for: usize,
    /// Bytes that moved.
    pub moved: usize,
    /// The driver has taken something of it, if only an empty message.
    pub begun: bool,
    /// A call of the driver that is under way.
    pub call: Call,
}

/// The end of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Finished<E> {
    /// Its name.
    pub id: OperationId,
    /// Its lane.
    pub lane: Lane,
    /// How it ended.
    pub outcome: Outcome<E>,
    /// Bytes that moved.
    pub moved: usize,
}

/// The operations of one handle. `E` is an error of a driver.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Operations<E> {
    phase: Phase,
    next: u64,
    lanes: [VecDeque<Outstanding>; 3],
    /// Ends that the reactor takes, in their order.
    for_reactor: VecDeque<Finished<E>>,
    /// Ends that callers take, each its own.
    for_callers: Vec<Finished<E>>,
    /// Ends that were taken and not told.
    untold: usize,
}

impl<E> Operations<E> {
    /// A handle that is being opened by `owner`, and the name of that operation.
    pub fn new(owner: Owner) -> (Self, OperationId) {
        let id = OperationId(0);
        let opening = Outstanding { id, owner, wait_for: 0, moved: 0, begun: false, call: Call::None };
        let lanes = [VecDeque::from([opening]), VecDeque::new(), VecDeque::new()];
        let (for_reactor, for_callers) = (VecDeque::new(), Vec::new());
        (Self { phase: Phase::Opening, next: 1, lanes, for_reactor, for_callers, untold: 0 }, id)
    }

    /// Where the handle is in its life.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Begins an operation that `wait_for` bytes finish.
    pub fn begin(&mut self, lane: Lane, wait_for: usize, owner: Owner) -> Result<OperationId, Refused> {
        match self.phase {
            Phase::Opening => return Err(Refused::NotOpen),
            Phase::Open => {}
            Phase::Failed | Phase::Closing | Phase::Closed => return Err(Refused::Closed),
        }
        let queue = &mut self.lanes[lane as usize];
        if queue.len() == OUTSTANDING_MAX {
            return Err(Refused::TooMany);
        }
        let id = OperationId(self.next);
        self.next += 1;
        queue.push_back(Outstanding { id, owner, wait_for, moved: 0, begun: false, call: Call::None });
        Ok(id)
    }

    /// The operation of that lane whose bytes move now.
    pub fn front(&self, lane: Lane) -> Option<&Outstanding> {
        self.lanes[lane as usize].front()
    }

    /// The first one moved bytes. `complete`: it is finished whatever their number.
    pub fn on_moved(&mut self, lane: Lane, bytes: usize, complete: bool) {
        let Some(front) = self.lanes[lane as usize].front_mut() else { return };
        front.moved += bytes;
        front.begun = true;
        if complete || front.moved >= front.wait_for {
            self.finish(lane, 0, Outcome::Done);
        }
    }

    /// The first one failed with this error.
    pub fn on_failed(&mut self, lane: Lane, error: E) {
        if !self.lanes[lane as usize].is_empty() {
            self.finish(lane, 0, Outcome::Failed(error));
        }
    }

    /// The first one would have to wait. A read that waits for no byte is finished by that.
    pub fn on_blocked(&mut self, lane: Lane) {
        if lane == Lane::Read && self.front(lane).is_some_and(|front| front.wait_for == 0) {
            self.finish(lane, 0, Outcome::Done);
        }
    }

    /// The driver is called for the first one, and others may change the operations meanwhile.
    pub fn on_called(&mut self, lane: Lane) {
        if let Some(front) = self.lanes[lane as usize].front_mut() {
            front.call = Call::Running;
        }
    }

    /// That call has returned, and moved so many bytes. True where the operation is finished by that: it
    /// was to end early.
    pub fn on_returned(&mut self, lane: Lane, bytes: usize) -> bool {
        let Some(front) = self.lanes[lane as usize].front_mut() else { return false };
        let Call::Ending(early) = std::mem::replace(&mut front.call, Call::None) else { return false };
        front.moved += bytes;
        self.finish(lane, 0, Outcome::Ended(early));
        true
    }

    /// Ends an operation early; false where it is finished or never was.
    pub fn cancel(&mut self, id: OperationId) -> bool {
        self.end_early(id, EarlyEnd::Cancelled)
    }

    /// Ends all operations of a lane early; how many there were.
    pub fn cancel_lane(&mut self, lane: Lane) -> usize {
        let queue = &self.lanes[lane as usize];
        let ids: Vec<_> = queue.iter().map(|operation| operation.id).collect();
        ids.into_iter().filter(|id| self.cancel(*id)).count()
    }

    /// The time of an operation is up; false where it is finished.
    pub fn on_timeout(&mut self, id: OperationId) -> bool {
        self.end_early(id, EarlyEnd::TimedOut)
    }

    /// Close is asked for: what is outstanding is cancelled, and nothing more begins.
    pub fn close(&mut self) -> Result<(), Refused> {
        if matches!(self.phase, Phase::Closing | Phase::Closed) {
            return Err(Refused::Closed);
        }
        for lane in Lane::ALL {
            self.cancel_lane(lane);
        }
        self.phase = Phase::Closing;
        Ok(())
    }

    /// Whether close may proceed: nothing is outstanding, and everything was told.
    pub fn is_quiet(&self) -> bool {
        let empty = self.lanes.iter().all(VecDeque::is_empty);
        self.phase == Phase::Closing
            && empty
            && self.for_reactor.is_empty()
            && self.for_callers.is_empty()
            && self.untold == 0
    }

    /// The drivers are closed.
    pub fn on_closed(&mut self) {
        debug_assert!(self.is_quiet(), "closed before everything was told");
        self.phase = Phase::Closed;
    }

    /// The next end whose callback is to be called; [`Operations::on_told`] follows.
    pub fn take_for_reactor(&mut self) -> Option<Finished<E>> {
        let finished = self.for_reactor.pop_front()?;
        self.untold += 1;
        Some(finished)
    }

    /// A callback has returned.
    pub fn on_told(&mut self) {
        debug_assert!(self.untold > 0, "told more than was taken");
        self.untold = self.untold.saturating_sub(1);
    }

    /// The end of a caller's own operation, which is told by that.
    pub fn take(&mut self, id: OperationId) -> Option<Finished<E>> {
        let at = self.for_callers.iter().position(|finished| finished.id == id)?;
        Some(self.for_callers.swap_remove(at))
    }

    fn end_early(&mut self, id: OperationId, early: EarlyEnd) -> bool {
        for lane in Lane::ALL {
            let found = self.lanes[lane as usize].iter().position(|operation| operation.id == id);
            if let Some(at) = found {
                match &mut self.lanes[lane as usize][at].call {
                    Call::None => self.finish(lane, at, Outcome::Ended(early)),
                    call @ Call::Running => *call = Call::Ending(early),
                    Call::Ending(_) => return false,
                }
                return true;
            }
        }
        false
    }

    fn finish(&mut self, lane: Lane, at: usize, outcome: Outcome<E>) {
        let Some(operation) = self.lanes[lane as usize].remove(at) else { return };
        if lane == Lane::Open && self.phase == Phase::Opening {
            self.phase = if matches!(outcome, Outcome::Done) { Phase::Open } else { Phase::Failed };
        }
        let finished = Finished { id: operation.id, lane, outcome, moved: operation.moved };
        match operation.owner {
            Owner::Reactor => self.for_reactor.push_back(finished),
            Owner::Caller => self.for_callers.push(finished),
        }
    }
}

#[cfg(test)]
mod tests;
