//! The server of the one file, as `xdfs_server::files` does it.

use super::{Answer, Call, Event, WORK_MAX, World};
use xdfs_proto::base::Instant;
use xdfs_proto::lease::{Access, Holder, LeaseAnswer, LeaseTable, LeaseTerms};

const FILE: u8 = 0;

pub(super) struct Server {
    table: LeaseTable<u8, usize>,
    terms: LeaseTerms,
    value: u64,
    /// The present handle of each client, and the session that has it.
    handles: Vec<(u64, u64)>,
    next: u64,
    /// What is being done: for whom, in which session, with which handle.
    doing: Vec<(usize, u64, Call, u64)>,
    /// Whose lease was recalled and has not been followed by a new one.
    recalled: Vec<bool>,
}

fn access_of(call: Call) -> Option<Access> {
    match call {
        Call::Read => Some(Access::Look),
        Call::Write(_) | Call::WriteUnder(_) => Some(Access::Change),
        _ => None,
    }
}

impl Server {
    pub(super) fn new(terms: LeaseTerms, clients: usize) -> Self {
        let handles = (0..clients).map(|who| (who as u64 + 1, 1)).collect();
        let (table, recalled) = (LeaseTable::new(terms), vec![false; clients]);
        Self { table, terms, value: 0, handles, next: 100, doing: Vec::new(), recalled }
    }

    pub(super) fn value(&self) -> u64 {
        self.value
    }

    pub(super) fn is_idle(&self) -> bool {
        self.doing.is_empty()
    }

    pub(super) fn restart(&mut self, now: Instant) {
        self.table = LeaseTable::restarted(self.terms, now);
        self.doing.clear();
        self.recalled.fill(false);
        // No handle is known any more.
        self.handles.iter_mut().for_each(|handle| *handle = (0, 0));
    }

    fn holder(&self, who: usize) -> Holder<usize> {
        Holder { owner: who, handle: self.handles[who].0 }
    }

    pub(super) fn on_lost(&mut self, world: &mut World, who: usize, session: u64) {
        if self.handles[who].1 == session {
            self.table.lost(&self.holder(who));
            self.tell(world);
        }
    }

    pub(super) fn on_call(&mut self, world: &mut World, who: usize, session: u64, call: Call) {
        let now = world.instant();
        if let Call::Again(_) = call {
            // What the old handle is being used for is waited for, so that nothing of it comes later.
            if self.doing.iter().any(|one| one.0 == who) {
                return world.at(1, Event::Arrives(who, session, call));
            }
            self.table.lost(&self.holder(who));
            self.next += 1;
            self.handles[who] = (self.next, session);
            return self.answer(world, who, session, call, Answer::Opened(self.next));
        }
        if self.handles[who].1 != session {
            return;
        }
        let holder = self.holder(who);
        let leased = match call {
            Call::Ask(kind) => Some(self.table.ask(&FILE, &holder, kind, now)),
            Call::Renew => Some(self.table.renew(&holder, now)),
            Call::Reclaim(kind, before) => Some(self.table.reclaim(&FILE, before, &holder, kind, now)),
            Call::GiveBack => {
                self.table.give_back(&holder, now);
                Some(LeaseAnswer::Refused)
            }
            _ => None,
        };
        if let Some(leased) = leased {
            self.on_leased(world, who, call, leased);
            let answer = if call == Call::GiveBack { Answer::Nothing } else { Answer::Lease(leased) };
            self.tell(world);
            return self.answer(world, who, session, call, answer);
        }
        if matches!(call, Call::WriteUnder(_)) && !self.table.pin(&holder, now) {
            return self.answer(world, who, session, call, Answer::TooLate);
        }
        let Some(access) = access_of(call) else { return };
        if self.table.begin(&FILE, Some(&holder), access, now).is_err() {
            if matches!(call, Call::WriteUnder(_)) {
                self.table.unpin(&holder);
            }
            self.tell(world);
            return self.answer(world, who, session, call, Answer::Busy);
        }
        self.tell(world);
        self.doing.push((who, session, call, holder.handle));
        let time = world.random.magnitude(1, WORK_MAX);
        world.at(time, Event::Done(who, session, call));
    }

    /// What somebody waits for does not become a new lease because its session was lost: only asking gives a new one.
    fn on_leased(&mut self, world: &mut World, who: usize, call: Call, answer: LeaseAnswer) {
        let LeaseAnswer::Granted { .. } = answer else { return };
        if self.recalled[who] && matches!(call, Call::Reclaim(..)) {
            world.seen.recalled_anew += 1;
        }
        self.recalled[who] = false;
    }

    pub(super) fn on_done(&mut self, world: &mut World, who: usize, session: u64, call: Call) {
        let found = self.doing.iter().position(|one| (one.0, one.1, one.2) == (who, session, call));
        // A restarted server does not go on with it.
        let Some(index) = found else { return };
        let (.., handle) = self.doing.swap_remove(index);
        let answer = match call {
            Call::Write(value) | Call::WriteUnder(value) => {
                self.value = value;
                Answer::Written
            }
            _ => Answer::Value(self.value),
        };
        if let Some(access) = access_of(call) {
            self.table.end(&FILE, access, world.instant());
        }
        if matches!(call, Call::WriteUnder(_)) {
            self.table.unpin(&Holder { owner: who, handle });
        }
        self.answer(world, who, session, call, answer);
    }

    fn answer(&self, world: &mut World, who: usize, session: u64, call: Call, answer: Answer) {
        let delay = world.delay();
        world.at(delay, Event::Answered(who, session, call, answer));
    }

    fn tell(&mut self, world: &mut World) {
        while let Some(holder) = self.table.poll_recall() {
            let (handle, session) = self.handles[holder.owner];
            world.seen.recalls += 1;
            self.recalled[holder.owner] = true;
            if handle == holder.handle {
                let delay = world.delay();
                world.at(delay, Event::Recalled(holder.owner, session, handle));
            }
        }
    }
}
