//! What can happen next. Some of it has to happen if nothing else does; the rest is Eve, misfortune and administrators,
//! each within its budget, and only while something is under way.

use super::setting::Setting;
use super::symbol::{ChannelKey, End, Join, Proof, Who};
use super::world::{Job, Phase, Step, World};
use crate::action::ACK_IS_DUE;
use crate::world::NOW;
use xdfs_proto::base::{ChannelId, Level};

/// One step of the world.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// The server finds a login right.
    Login(Who),
    /// The answer to it is out.
    Begin(Who),
    /// The server judges a JOIN.
    Judge(usize),
    /// The answer to a JOIN is out.
    Answer(usize),
    /// Ann hears that her channel is up.
    Welcome(usize),
    /// A pipeline reads its next letter.
    Letter(Who),
    /// The next record of one of Ann's channels arrives at this end.
    Deliver(ChannelId, End),
    /// This end of one of Ann's channels breaks, or stalls to its deadline.
    Lose(ChannelId, End),
    /// A storage call returns.
    Storage(Job),
    /// An acknowledgement has waited long enough.
    Tick(End),
    /// The listener hears that a session is over.
    Ended(Who),
    /// Ann closes her session.
    Close,
    /// The time of the grants ends.
    Expire,
    /// What somebody logged in with is taken away.
    Revoke(Who),
    /// Eve says a JOIN.
    Forge(Join),
    /// Eve meddles with a record of Ann's.
    Meddle(Trick, ChannelId, End),
    /// Eve says a record in her own session.
    Say(Word),
    /// It arrives.
    Hear,
}

/// What is done to a record on its way to an end of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Trick {
    /// The last one that arrived comes again.
    Replay,
    /// The last one that arrived at the other end is sent back.
    Reflect,
    /// The next one of another channel comes here.
    Move,
    /// A bit of the next one is changed.
    Alter,
    /// The next one is cut out.
    Drop,
}

impl Trick {
    const ALL: [Self; 5] = [Self::Replay, Self::Reflect, Self::Move, Self::Alter, Self::Drop];
}

/// What Eve says in her own session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Word {
    /// Asks to write a file of one block.
    Request,
    /// The block, at this level.
    Block(Level),
    /// The end of the file.
    Finish,
    /// That the server's bytes are safe, which it never sent.
    Ack,
    /// What only a server says.
    Grant,
    /// That it may end here.
    EndOfRange,
    /// The next key.
    Rekey,
    /// The loss of a channel that is not hers to lose.
    Fence,
}

impl Word {
    const ALL: [Self; 10] = [
        Self::Request,
        Self::Block(Level::Clear),
        Self::Block(Level::Integrity),
        Self::Block(Level::Private),
        Self::Finish,
        Self::Ack,
        Self::Grant,
        Self::EndOfRange,
        Self::Rekey,
        Self::Fence,
    ];
}

impl World {
    /// Everything that can happen next; nothing where the world has come to rest.
    pub fn actions(&self, setting: &Setting, actions: &mut Vec<Action>) {
        if self.oracle.violation.is_some() {
            return;
        }
        self.must_happen(setting, actions);
        if actions.is_empty() {
            self.time_passes(actions);
        }
        if !actions.is_empty() {
            self.may_happen(setting, actions);
        }
    }

    /// Nothing can happen any more, and nothing went wrong on the way.
    pub fn rests(&self, setting: &Setting) -> bool {
        let mut actions = Vec::new();
        self.actions(setting, &mut actions);
        actions.is_empty() && self.oracle.violation.is_none()
    }

    fn must_happen(&self, setting: &Setting, actions: &mut Vec<Action>) {
        for who in Who::ALL {
            match self.phase(who) {
                Phase::Asked => actions.push(Action::Login(who)),
                Phase::Expected => actions.push(Action::Begin(who)),
                Phase::Begun if self.served[&who].is_over() => actions.push(Action::Ended(who)),
                Phase::Begun | Phase::Over => {}
            }
            if !self.letters[&who].is_empty() {
                actions.push(Action::Letter(who));
            }
        }
        for (index, connection) in self.connections.iter().enumerate() {
            match connection.step {
                Step::Said => actions.push(Action::Judge(index)),
                Step::Proved => actions.push(Action::Answer(index)),
                Step::Attached if connection.by == Who::Ann => actions.push(Action::Welcome(index)),
                Step::Attached | Step::Done => {}
            }
        }
        for (index, ends) in self.lines.iter().enumerate() {
            let channel = ChannelId(index as u16 + 1);
            for end in End::ALL {
                let (line, other) = (&ends[end as usize], &ends[end.other() as usize]);
                if line.key.is_none() || line.closed {
                    continue;
                }
                if !line.queue.is_empty() && !line.parked {
                    actions.push(Action::Deliver(channel, end));
                }
                // Ended by the other end, or held by Eve, who says nothing that opens.
                if other.broken || other.closed && line.queue.is_empty() || self.is_eves(channel) {
                    actions.push(Action::Lose(channel, end));
                }
            }
        }
        if !self.eves.queue.is_empty() && !self.eves.parked {
            actions.push(Action::Hear);
        }
        actions.extend(self.jobs.iter().map(|job| Action::Storage(*job)));
        if setting.close && !self.closing && self.told.is_some() && self.phase(Who::Ann) == Phase::Begun {
            actions.push(Action::Close);
        }
    }

    /// Whether Eve's connection became this channel of Ann's.
    pub fn is_eves(&self, channel: ChannelId) -> bool {
        let hers = |one: &&super::world::Connection| one.by == Who::Eve && one.join.session == Who::Ann.session();
        self.connections.iter().filter(hers).any(|one| one.join.channel == channel && one.step == Step::Attached)
    }

    fn time_passes(&self, actions: &mut Vec<Action>) {
        if self.ann.deadline().is_some_and(|at| at <= ACK_IS_DUE) {
            actions.push(Action::Tick(End::Client));
        }
        let served = self.served.get(&Who::Ann);
        if served.and_then(|session| session.deadline()).is_some_and(|at| at <= ACK_IS_DUE) {
            actions.push(Action::Tick(End::Server));
        }
    }

    fn may_happen(&self, setting: &Setting, actions: &mut Vec<Action>) {
        if setting.expires && self.now == NOW && self.phases.values().any(|phase| *phase == Phase::Begun) {
            actions.push(Action::Expire);
        }
        if self.revocations > 0 {
            let there = |who: &Who| matches!(self.phase(*who), Phase::Expected | Phase::Begun);
            actions.extend(Who::ALL.into_iter().filter(there).map(Action::Revoke));
        }
        for (index, ends) in self.lines.iter().enumerate() {
            let channel = ChannelId(index as u16 + 1);
            for end in End::ALL {
                let (line, other) = (&ends[end as usize], &ends[end.other() as usize]);
                if line.key.is_none() || line.closed {
                    continue;
                }
                if self.breaks > 0 && !other.closed && !self.is_eves(channel) {
                    actions.push(Action::Lose(channel, end));
                }
                if self.meddlings > 0 && !line.parked {
                    let here = Trick::ALL.into_iter().filter(|trick| self.can(*trick, index, end));
                    actions.extend(here.map(|trick| Action::Meddle(trick, channel, end)));
                }
            }
        }
        if self.forgeries > 0 {
            actions.extend(self.forgeries(setting).into_iter().map(Action::Forge));
        }
        if self.words > 0 && self.phase(Who::Eve) == Phase::Begun && !self.eves.closed {
            actions.extend(Word::ALL.into_iter().map(Action::Say));
        }
    }

    fn can(&self, trick: Trick, index: usize, end: End) -> bool {
        let (line, other) = (&self.lines[index][end as usize], &self.lines[index][end.other() as usize]);
        match trick {
            Trick::Replay => line.last.is_some(),
            Trick::Reflect => other.last.is_some(),
            Trick::Move => {
                self.lines.iter().enumerate().any(|(at, ends)| at != index && !ends[end as usize].queue.is_empty())
            }
            Trick::Alter => !line.queue.is_empty(),
            // Behind the last one nothing would tell but a deadline, and that is a break.
            Trick::Drop => line.queue.len() > 1,
        }
    }

    /// Every JOIN that Eve can make or copy and that means something else than those before.
    fn forgeries(&self, setting: &Setting) -> Vec<Join> {
        let (ann, eve) = (Who::Ann.session(), Who::Eve.session());
        let mut joins = Vec::new();
        for said in self.connections.iter().filter(|one| one.by == Who::Ann) {
            let copy = said.join;
            // The same again; the proof with another number, and for another session.
            joins.push(copy);
            let next = ChannelId(copy.channel.0 % setting.numbers + 1);
            joins.push(Join { channel: next, ..copy });
            joins.push(Join { session: eve, ..copy });
            // The answer to it, sent back.
            let reflected = copy.proof.map(|proof| Proof { role: End::Server, ..proof });
            joins.push(Join { proof: reflected, ..copy });
        }
        let own = |session, channel| ChannelKey { holder: Who::Eve, grant: Who::Eve as u8 + 1, session, channel };
        let free = ChannelId(setting.channels);
        // Under her own keys: for Ann's session, for her own (twice is a used grant), and for numbers of nobody's.
        joins.push(Join::of(own(ann, free)));
        joins.push(Join { session: ann, ..Join::of(own(eve, free)) });
        joins.extend([0, 1, 2, 3, u16::MAX].map(|channel| Join::of(own(eve, ChannelId(channel)))));
        joins.push(Join { session: ann, channel: free, proof: None });
        joins.sort_unstable();
        joins.dedup();
        joins
    }
}
