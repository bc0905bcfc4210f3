//! A client with one program, as `xdfs_client::file` does it: what it keeps under its lease, and what it asks.

use super::{Answer, Call, Event, World};
use xdfs_proto::base::Duration;
use xdfs_proto::lease::{Holding, HoldingState, LeaseAnswer, LeaseKind};

/// Time between two turns of a client, and until it tries again, in milliseconds.
const TURN: u64 = 25;

/// What the program does now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doing {
    Read,
    Write(u64),
}

pub(super) struct Client {
    number: usize,
    /// Longest pause of its program, in milliseconds.
    pause: u64,
    /// It uses leases.
    leases: bool,
    /// It does not answer recalls, and renews all the same.
    silent: bool,
    holding: Holding,
    handle: u64,
    /// The session that it knows; none while it is opened again.
    session: u64,
    opening: bool,
    doing: Option<(Doing, u64)>,
    /// A call on the file is on its way, sent in this epoch, with a lease or not.
    sent: Option<(Call, u64, bool)>,
    /// A call about the lease is on its way.
    asked: bool,
    /// What was read under the lease, or written.
    cached: Option<u64>,
    /// Values that are kept under a write lease, the last of which is to be sent.
    kept: Vec<u64>,
    /// A part of them was sent, and its answer was lost.
    doubtful: bool,
    /// Ends of leases, and own changes.
    epoch: u64,
}

impl Client {
    pub(super) fn new(number: usize, leases: bool, world: &mut World) -> Self {
        let silent = world.faults.silent && world.random.chance(300);
        let first = world.random.below(200);
        world.at(first, Event::Program(number));
        world.at(first, Event::Turn(number));
        Self {
            number,
            pause: world.random.pick(&[30, 300, 2500]),
            leases,
            silent,
            holding: Holding::new(),
            handle: number as u64 + 1,
            session: 1,
            opening: false,
            doing: None,
            sent: None,
            asked: false,
            cached: None,
            kept: Vec::new(),
            doubtful: false,
            epoch: 0,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.doing.is_none() && self.kept.is_empty() && self.sent.is_none() && !self.opening
    }

    fn call(&mut self, world: &mut World, call: Call) {
        let delay = world.delay();
        world.at(delay, Event::Arrives(self.number, self.session, call));
    }

    pub(super) fn on_program(&mut self, world: &mut World) {
        if world.quiet() {
            return;
        }
        let next = world.random.between(10, self.pause);
        world.at(next, Event::Program(self.number));
        if self.doing.is_some() {
            return;
        }
        let doing = if world.random.chance(400) { Doing::Write(world.value()) } else { Doing::Read };
        self.doing = Some((doing, world.now));
        world.seen.operations += 1;
        self.try_kept(world);
        self.advance(world);
    }

    /// The program's operation is over.
    fn over(&mut self, world: &mut World, began: u64) {
        self.doing = None;
        world.seen.longest = world.seen.longest.max(Duration::from_millis(world.now - began));
    }

    /// Does it without asking the server, if the lease permits.
    fn try_kept(&mut self, world: &mut World) {
        let (now, span) = (world.instant(), |began| (began, world.now));
        let usable = self.holding.may_use(now) && !self.opening;
        match self.doing {
            Some((Doing::Read, began)) if usable && let Some(value) = self.cached => {
                let span = span(began);
                world.history.read(self.number, value, span);
                world.seen.kept_reads += 1;
                self.over(world, began);
            }
            Some((Doing::Write(value), began)) if self.holding.may_keep_changes(now) && self.sent.is_none() => {
                let span = span(began);
                world.history.wrote(self.number, value, span);
                world.seen.kept_writes += 1;
                self.kept.push(value);
                self.cached = Some(value);
                self.epoch += 1;
                self.over(world, began);
            }
            _ => {}
        }
    }

    /// What was read is not the file any more, if its lease is over.
    fn expire(&mut self, world: &World) {
        let had = self.holding.until().is_some();
        self.holding.expire(world.instant());
        if had && self.holding.until().is_none() {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.cached = None;
        self.epoch += 1;
    }

    /// Sends what is to be sent next: kept changes before everything else.
    fn advance(&mut self, world: &mut World) {
        self.expire(world);
        if self.opening || self.sent.is_some() {
            return;
        }
        let flush = self.keeps(world);
        let call = match (self.kept.last(), self.doing) {
            (Some(last), doing) if !flush || doing.is_some() => Call::WriteUnder(*last),
            (Some(_), _) => return,
            (None, Some((Doing::Read, _))) => Call::Read,
            (None, Some((Doing::Write(value), _))) => Call::Write(value),
            (None, None) => return,
        };
        if matches!(call, Call::Write(_)) {
            self.forget();
        }
        self.sent = Some((call, self.epoch, self.holding.may_use(world.instant())));
        self.call(world, call);
    }

    /// Whether kept changes stay here for now.
    fn keeps(&self, world: &World) -> bool {
        self.silent && !world.quiet() && self.holding.until().is_some()
            || (self.holding.may_keep_changes(world.instant()) && !world.quiet())
    }

    pub(super) fn on_turn(&mut self, world: &mut World) {
        world.at(TURN, Event::Turn(self.number));
        self.expire(world);
        self.try_kept(world);
        self.advance(world);
        let (now, time) = (world.instant(), super::LEASE);
        if self.opening || self.asked {
            return;
        }
        if self.holding.is_recalled() && (world.quiet() || !self.silent) {
            return self.give_back(world);
        }
        if world.quiet() {
            return;
        }
        if self.silent && self.holding.is_recalled() {
            // It does not take a recall for an answer either.
            return self.call(world, Call::Renew);
        }
        if self.holding.renew_at(time).is_some_and(|at| at <= now) && self.holding.renew(now).is_ok() {
            self.asked = true;
            self.call(world, Call::Renew);
        } else if self.leases && matches!(self.holding.state(), HoldingState::Idle(_)) && world.random.chance(400) {
            let kind = world.random.pick(&[LeaseKind::Read, LeaseKind::Write]);
            if self.kept.is_empty() && self.holding.ask(now).is_ok() {
                self.asked = true;
                self.call(world, Call::Ask(kind));
            }
        }
    }

    fn give_back(&mut self, world: &mut World) {
        if !self.kept.is_empty() || self.sent.is_some_and(|(call, ..)| matches!(call, Call::WriteUnder(_))) {
            return;
        }
        if self.holding.give_back().is_ok() {
            self.forget();
            self.call(world, Call::GiveBack);
        }
    }

    pub(super) fn on_recalled(&mut self, world: &mut World, handle: u64) {
        if handle == self.handle {
            self.holding.on_recall();
            self.advance(world);
        }
    }

    pub(super) fn on_answer(&mut self, world: &mut World, call: Call, answer: Answer) {
        self.expire(world);
        match answer {
            Answer::Opened(handle) => return self.opened(world, handle),
            Answer::Lease(told) => {
                self.asked = false;
                let had = self.holding.until().is_some();
                if matches!(call, Call::Reclaim(..)) && told != LeaseAnswer::Refused {
                    world.seen.again += 1;
                }
                let _ = self.holding.on_answer(told, world.instant());
                if had && self.holding.until().is_none() {
                    self.forget();
                }
                if matches!(call, Call::Reclaim(..)) {
                    self.opening = false;
                }
                return self.advance(world);
            }
            Answer::Nothing => return,
            _ => {}
        }
        let Some((sent, epoch, leased)) = self.sent.filter(|(sent, ..)| *sent == call) else { return };
        self.sent = None;
        match (sent, answer) {
            // It is tried again at the next turn.
            (_, Answer::Busy) => return,
            (Call::WriteUnder(_), Answer::Written) => {
                self.kept.clear();
                self.doubtful = false;
            }
            (Call::WriteUnder(_), _) => self.give_up(world),
            (Call::Read, Answer::Value(value)) => {
                let Some((Doing::Read, began)) = self.doing else { return };
                world.history.read(self.number, value, (began, world.now));
                if leased && epoch == self.epoch && self.holding.may_use(world.instant()) {
                    self.cached = Some(value);
                }
                self.over(world, began);
            }
            (Call::Write(value), Answer::Written) => {
                let Some((Doing::Write(_), began)) = self.doing else { return };
                world.history.wrote(self.number, value, (began, world.now));
                self.forget();
                self.over(world, began);
            }
            _ => {}
        }
        self.advance(world);
    }

    /// Kept changes came too late: the program is told.
    fn give_up(&mut self, world: &mut World) {
        for value in std::mem::take(&mut self.kept) {
            world.seen.told += 1;
            if self.doubtful {
                world.history.unknown(self.number, value, world.now);
            } else {
                world.history.failed(value);
            }
        }
        self.doubtful = false;
        self.forget();
    }

    pub(super) fn on_lost(&mut self, world: &mut World, session: u64) {
        if self.session > session {
            return;
        }
        self.session = world.sessions[self.number];
        self.holding.on_lost();
        self.asked = false;
        self.opening = true;
        match self.sent.take() {
            Some((Call::WriteUnder(_), ..)) => self.doubtful = true,
            Some((Call::Write(value), ..)) => {
                // It may have been made: what is sent again is another write.
                if let Some((Doing::Write(_), began)) = self.doing {
                    world.history.unknown(self.number, value, began);
                    self.doing = Some((Doing::Write(world.value()), began));
                }
            }
            _ => {}
        }
        let before = self.handle;
        self.call(world, Call::Again(before));
    }

    fn opened(&mut self, world: &mut World, handle: u64) {
        let before = std::mem::replace(&mut self.handle, handle);
        match self.holding.reclaim(world.instant()) {
            Ok(kind) => {
                self.asked = true;
                self.call(world, Call::Reclaim(kind, before));
            }
            Err(_) => {
                self.forget();
                self.opening = false;
                self.advance(world);
            }
        }
    }
}
