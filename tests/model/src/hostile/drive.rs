//! The drivers of all machines, as small as they can be: one input, then every output, then wait.

use super::action::{Action, Trick};
use super::oracle::{Seen, Violation};
use super::setting::Setting;
use super::symbol::{ChannelKey, End, Join, Sealed, Who, derive};
use super::world::{Ask, Connection, Job, Letter, Phase, Step, World, first_grant, served};
use crate::action::ACK_IS_DUE;
use crate::marked::Marked;
use crate::oracle::length_of;
use crate::world::NOW;
use xdfs_proto::base::{ChannelId, Error, ErrorKind, OperationId};
use xdfs_proto::limits::GRANT_LIFE;
use xdfs_proto::session::{HeadVerdict, Output, Payload, Session, SessionEvent, SourceFacts, StageFacts, TargetFacts};
use xdfs_proto::wire::control::{ChannelGrant, Control, Safety};
use xdfs_proto::wire::{Event, Flags, Head};

impl World {
    /// Takes what the machines want at first; lets Ann in where logins are not part of the search, and Eve.
    pub fn start(&mut self, setting: &Setting) {
        if !setting.logins {
            self.let_in(setting, Who::Ann);
        }
        self.let_in(setting, Who::Eve);
        self.mark();
    }

    fn let_in(&mut self, setting: &Setting, who: Who) {
        self.log_in(setting, who);
        self.begin(setting, who);
    }

    /// Lets one thing happen.
    pub fn apply(&mut self, setting: &Setting, action: Action) {
        self.happen(setting, action);
        self.mark();
    }

    fn mark(&mut self) {
        self.roster.mark();
        self.ann.mark();
        self.served.values_mut().for_each(Marked::mark);
    }

    fn happen(&mut self, setting: &Setting, action: Action) {
        match action {
            Action::Login(who) => self.log_in(setting, who),
            Action::Begin(who) => self.begin(setting, who),
            Action::Judge(index) => self.judge(index),
            Action::Answer(index) => self.answer(index),
            Action::Welcome(index) => {
                let channel = self.connections[index].join.channel;
                self.line(channel, End::Client).key = self.connections[index].key;
                self.connections[index].step = Step::Done;
                self.input(setting, Who::Ann, End::Client, |session| session.on_channel(channel, NOW));
            }
            Action::Letter(who) => self.read_letter(setting, who),
            Action::Deliver(channel, end) => self.deliver(setting, channel, end),
            Action::Lose(channel, end) => {
                let other = &self.lines[usize::from(channel.0) - 1][end.other() as usize];
                self.breaks -= u8::from(!other.closed && !self.is_eves(channel));
                self.lose(setting, channel, end);
            }
            Action::Storage(job) => self.storage(setting, job),
            Action::Tick(end) => self.input(setting, Who::Ann, end, |session| session.on_time(ACK_IS_DUE)),
            Action::Ended(who) => {
                self.roster.change().end(who.session());
                self.phases.insert(who, Phase::Over);
                self.oracle.on_ended(who);
            }
            Action::Close => {
                self.closing = true;
                self.input(setting, Who::Ann, End::Client, Session::close);
            }
            Action::Expire => self.now = NOW.after(GRANT_LIFE),
            Action::Revoke(who) => self.revoke(who),
            Action::Forge(join) => {
                self.forgeries -= 1;
                self.connections.push(Connection { by: Who::Eve, join, key: None, step: Step::Said });
            }
            Action::Meddle(trick, channel, end) => self.meddle(trick, channel, end),
            Action::Say(word) => self.say(setting, word),
            Action::Hear => self.hear(setting),
        }
    }

    fn log_in(&mut self, setting: &Setting, who: Who) {
        let (grant, now) = (first_grant(setting, who), self.now);
        self.oracle.on_granted(who, &grant, now);
        let expected = self.roster.change().expect(who.session(), who, grant, now);
        assert!(expected.is_ok(), "each logs in once");
        self.phases.insert(who, Phase::Expected);
    }

    fn begin(&mut self, setting: &Setting, who: Who) {
        if !self.roster.change().begin(who.session()) {
            self.phases.insert(who, Phase::Over);
            return;
        }
        self.phases.insert(who, Phase::Begun);
        self.oracle.on_begun(who);
        let grant = first_grant(setting, who);
        let key = derive(who, who.session(), ChannelId(1), &grant);
        self.oracle.on_attached(who, key, None);
        self.served.insert(who, Marked::new(served(setting, who)));
        if who == Who::Eve {
            self.eves.key = Some(key);
        } else {
            End::ALL.into_iter().for_each(|end| self.line(ChannelId(1), end).key = Some(key));
            self.input(setting, who, End::Client, |session| session.on_channel(ChannelId(1), NOW));
            self.connect(&grant);
        }
        self.input(setting, who, End::Server, |session| session.on_channel(ChannelId(1), NOW));
    }

    /// Ann says a JOIN for every channel of a grant but the first.
    fn connect(&mut self, grant: &ChannelGrant) {
        for number in (grant.first..grant.first + grant.count).filter(|number| *number > 1) {
            let key = derive(Who::Ann, Who::Ann.session(), ChannelId(number), grant);
            self.connections.push(Connection { by: Who::Ann, join: Join::of(key), key: None, step: Step::Said });
        }
    }

    fn judge(&mut self, index: usize) {
        let Connection { by, join, .. } = self.connections[index];
        let Some(holder) = Who::of(join.session) else { return };
        let now = self.now;
        let keys = |grant: &ChannelGrant| Ok(derive(holder, join.session, join.channel, grant));
        let judged = self.roster.change().join(join.session, join.channel, now, keys, |key| join.verify(key));
        match judged {
            Ok(key) => {
                self.oracle.on_proved(holder, key, now);
                self.connections[index].key = Some(key);
                self.connections[index].step = Step::Proved;
            }
            Err(_) => {
                self.connections[index].step = Step::Done;
                let why = self.why_refused(by, &join, holder);
                match why {
                    Some(why) => drop(self.oracle.seen.insert(why)),
                    None => self.oracle.wrong(Violation::Refused),
                }
            }
        }
    }

    /// What speaks against a JOIN; nothing where it should have been taken.
    fn why_refused(&self, by: Who, join: &Join, holder: Who) -> Option<Seen> {
        if join.proof.is_none_or(|proof| join.verify(&proof.key).is_err() || proof.key.holder != holder) {
            return Some(Seen::ForgedJoin);
        }
        if self.phase(holder) != Phase::Begun || self.oracle.is_revoked(holder) {
            return Some(Seen::JoinOfNone);
        }
        let same = |one: &&Connection| one.join == *join && one.key.is_some();
        match self.connections.iter().find(same).map(|one| one.by) {
            Some(Who::Eve) if by == Who::Ann => Some(Seen::StolenJoin),
            Some(Who::Ann) if by == Who::Eve => Some(Seen::CopyRefused),
            Some(_) => Some(Seen::UsedGrant),
            None if self.now > NOW => Some(Seen::LateJoin),
            // Numbers of nobody's are Eve's own affair.
            None => (by == Who::Eve).then_some(Seen::ForgedJoin),
        }
    }

    fn answer(&mut self, index: usize) {
        let Connection { by, join, key, .. } = self.connections[index];
        let (Some(holder), Some(key)) = (Who::of(join.session), key) else { return };
        if !self.roster.change().attach(join.session, join.channel) {
            self.connections[index].step = Step::Done;
            return;
        }
        self.connections[index].step = Step::Attached;
        self.oracle.on_attached(holder, key, Some(&join));
        self.letters.entry(holder).or_default().push_back(Letter::Attach(key));
        if by == Who::Ann && key.grant > Who::Eve as u8 + 1 {
            self.oracle.seen.insert(Seen::Replaced);
        }
    }

    fn read_letter(&mut self, setting: &Setting, who: Who) {
        match self.letters.get_mut(&who).and_then(std::collections::VecDeque::pop_front) {
            None => {}
            Some(Letter::Attach(key)) => {
                if self.served[&who].is_over() {
                    self.oracle.seen.insert(Seen::LateChannel);
                }
                if who == Who::Ann {
                    self.line(key.channel, End::Server).key = Some(key);
                }
                self.input(setting, who, End::Server, |session| session.on_channel(key.channel, NOW));
            }
            Some(Letter::Abandon) => {
                let error = Error::new(ErrorKind::Refused, "revoked");
                // From here on nothing may happen for it any more.
                self.oracle.on_ended(who);
                self.input(setting, who, End::Server, |session| session.end_telling(error));
            }
        }
    }

    fn revoke(&mut self, who: Who) {
        self.revocations -= 1;
        let ended = self.roster.change().revoke(|user| *user == who);
        self.oracle.on_revoked(who);
        let coming = self.connections.iter().any(|one| one.join.session == who.session() && one.step == Step::Proved);
        if coming {
            self.oracle.seen.insert(Seen::RevokedJoining);
        }
        match self.phase(who) {
            Phase::Begun if ended.contains(&who.session()) => {
                let live = self.served[&who].live_operations() > 0;
                self.oracle.seen.extend(live.then_some(Seen::RevokedMoving));
                self.letters.entry(who).or_default().push_back(Letter::Abandon);
            }
            Phase::Expected => drop(self.oracle.seen.insert(Seen::RevokedOpening)),
            _ => {}
        }
    }

    fn meddle(&mut self, trick: Trick, channel: ChannelId, end: End) {
        self.meddlings -= 1;
        let index = usize::from(channel.0) - 1;
        let copy = match trick {
            Trick::Replay => self.lines[index][end as usize].last.clone(),
            Trick::Reflect => self.lines[index][end.other() as usize].last.clone(),
            Trick::Move => {
                let others = self.lines.iter().enumerate().filter(|(at, _)| *at != index);
                others.map(|(_, ends)| &ends[end as usize]).find_map(|line| line.queue.front().cloned())
            }
            Trick::Alter | Trick::Drop => self.line(channel, end).queue.pop_front(),
        };
        let Some(mut copy) = copy.filter(|_| trick != Trick::Drop) else { return };
        if trick == Trick::Alter {
            copy.change().altered = true;
            copy.mark();
        }
        self.line(channel, end).queue.push_front(copy);
    }

    pub(super) fn machine(&mut self, who: Who, end: End) -> Option<&mut Session> {
        match end {
            End::Client => Some(self.ann.change()),
            End::Server => self.served.get_mut(&who).map(Marked::change),
        }
    }

    pub(super) fn input(&mut self, setting: &Setting, who: Who, end: End, input: impl FnOnce(&mut Session)) {
        let Some(session) = self.machine(who, end) else { return };
        input(session);
        while self.oracle.violation.is_none() {
            let Some(output) = self.machine(who, end).and_then(|session| session.poll(NOW)) else { return };
            self.output(setting, who, end, output);
        }
    }

    fn lose(&mut self, setting: &Setting, channel: ChannelId, end: End) {
        let error = Error::new(ErrorKind::ConnectionLost, "broken");
        self.input(setting, Who::Ann, end, |session| session.on_lost(channel, error));
    }

    fn deliver(&mut self, setting: &Setting, channel: ChannelId, end: End) {
        let line = self.line(channel, end);
        let (Some(record), Some(key)) = (line.queue.front().cloned(), line.key) else { return };
        if !record.opens(key, end.other(), line.due) {
            // The tag is wrong: nothing in it was looked at.
            self.oracle.seen.insert(Seen::BadRecord);
            return self.lose(setting, channel, end);
        }
        let judged = self.machine(Who::Ann, end).map(|session| session.on_head(channel, &record.head, NOW));
        match judged {
            None => {}
            Some(Err(fault)) => self.oracle.wrong(Violation::Fault(fault)),
            Some(Ok(HeadVerdict::Park)) => self.line(channel, end).parked = true,
            Some(Ok(verdict)) => {
                let line = self.line(channel, end);
                line.queue.pop_front();
                line.due = after(line.due, &record);
                line.last = Some(record.clone());
                if let Err(fault) = self.complete(setting, Who::Ann, end, &record, channel, verdict) {
                    self.oracle.wrong(Violation::Fault(fault));
                }
            }
        }
    }

    /// The payload of a record is there. Blocks are written at once.
    pub(super) fn complete(
        &mut self,
        setting: &Setting,
        who: Who,
        end: End,
        record: &Sealed,
        channel: ChannelId,
        verdict: HeadVerdict,
    ) -> Result<(), xdfs_proto::session::Fault> {
        let mut result = Ok(());
        if let HeadVerdict::Block { .. } = verdict {
            self.oracle.on_block_taken(who, record.head.level, self.required(setting, who));
            if end == End::Server {
                self.oracle.on_effect(who);
            }
        }
        self.input(setting, who, end, |session| {
            result = match (verdict, &record.payload) {
                (HeadVerdict::Control, Payload::Control(bytes)) => session.on_control(channel, bytes, NOW),
                (HeadVerdict::Block { operation, .. }, Payload::Block(extent)) => {
                    let taken = session.on_block(channel);
                    if taken == Ok(true) {
                        session.on_written(operation, *extent, Ok(()), NOW);
                    }
                    taken.map(|_| ())
                }
                (HeadVerdict::Calls { .. }, _) => session.on_calls(channel, NOW).map(|_| ()),
                (_, _) => session.on_skipped(channel),
            };
        });
        result
    }

    /// What no block of this one's session may be below.
    fn required(&self, setting: &Setting, who: Who) -> xdfs_proto::base::Level {
        let [client, server, export] = setting.floors;
        if who == Who::Ann { client.max(server).max(export) } else { server.max(export) }
    }

    fn output(&mut self, setting: &Setting, who: Who, end: End, output: Output) {
        match output {
            Output::Send { channel, head, payload } => self.send(setting, who, end, channel, head, payload),
            Output::Open { operation, .. } => self.ask(setting, who, end, Ask::Open, operation),
            Output::Stage { operation, .. } => self.ask(setting, who, end, Ask::Stage, operation),
            Output::Check { operation } => self.ask(setting, who, end, Ask::Check, operation),
            Output::Commit { operation, .. } => self.ask(setting, who, end, Ask::Commit, operation),
            Output::Close { channel, error } if who == Who::Ann => {
                let line = self.line(channel, end);
                line.queue.clear();
                (line.closed, line.broken, line.parked) = (true, error.is_some(), false);
            }
            Output::Close { channel: ChannelId(1), .. } => {
                self.eves.queue.clear();
                self.eves.closed = true;
            }
            Output::Resume { channel } if who == Who::Ann => self.line(channel, end).parked = false,
            Output::Resume { .. } => self.eves.parked = false,
            Output::Event(event) => self.event(setting, who, end, event),
            Output::Execute { .. } => self.oracle.on_effect(who),
            Output::Forget { .. } => {}
            // Nothing is hashed here.
            Output::Hash { .. } | Output::Verify { .. } | Output::Again { .. } => {}
            Output::Close { .. } | Output::Abort { .. } | Output::ToPipeline { .. } => {}
        }
    }

    fn ask(&mut self, setting: &Setting, who: Who, end: End, ask: Ask, operation: OperationId) {
        if end == End::Server {
            self.oracle.on_effect(who);
            if matches!(ask, Ask::Open | Ask::Stage) {
                // As the server does when it knows which export is meant.
                let export = setting.floors[2];
                self.machine(who, end).into_iter().for_each(|session| session.raise_level(operation, export));
            }
        }
        self.jobs.push(Job { who, end, ask, operation });
        self.jobs.sort_unstable();
    }

    fn storage(&mut self, setting: &Setting, job: Job) {
        self.jobs.retain(|other| *other != job);
        let Job { who, end, ask, operation } = job;
        if ask == Ask::Commit {
            match who {
                Who::Ann => self.oracle.on_committed(),
                Who::Eve => drop(self.oracle.seen.insert(Seen::EveCommitted)),
            }
        }
        let size = Some(length_of(setting.plan.blocks));
        self.input(setting, who, end, |session| match ask {
            Ask::Open => {
                let facts = SourceFacts { size, ..SourceFacts::default() };
                session.on_opened(operation, Ok(facts));
            }
            Ask::Stage => session.on_staged(operation, Ok(StageFacts::default())),
            Ask::Check => session.on_checked(operation, Ok(())),
            Ask::Commit => {
                let facts = TargetFacts { safety: Safety::Written, version: Vec::new() };
                session.on_committed(operation, Ok(facts));
            }
        });
    }

    fn event(&mut self, setting: &Setting, who: Who, end: End, event: SessionEvent) {
        match (event, end) {
            (SessionEvent::Settled { outcome, .. }, End::Client) => {
                self.told = Some(outcome.is_ok());
                self.oracle.on_told(outcome.is_ok());
            }
            (SessionEvent::Granted { grant, .. }, End::Client) => self.oracle.on_level_heard(grant.level),
            (SessionEvent::ChannelLost { .. }, End::Client) if setting.replaces && !self.closing => {
                self.ann.change().want_channels(1);
            }
            (SessionEvent::ChannelsGranted(grant), End::Client) => self.connect(&grant),
            (SessionEvent::ChannelsWanted { count }, End::Server) => {
                let up = self.served[&who].channels_up() as u64;
                let (now, secret) = (self.now, [self.drawn + 1; 32]);
                let life_ms = GRANT_LIFE.as_millis() as u32;
                let Some(grant) = self.roster.change().more(who.session(), count, up, secret, life_ms, now) else {
                    return;
                };
                self.drawn += 1;
                self.oracle.on_granted(who, &grant, now);
                self.machine(who, end).into_iter().for_each(|session| session.give_channels(grant.clone()));
            }
            (_, _) => {}
        }
    }

    fn send(&mut self, setting: &Setting, who: Who, end: End, channel: ChannelId, head: Head, payload: Payload) {
        let key = match who {
            Who::Ann => self.line(channel, end).key,
            Who::Eve => Some(derive(who, who.session(), channel, &first_grant(setting, who))),
        };
        let Some(key) = key else { return };
        let record = Sealed { key: (key, end), nonce: (head.epoch, head.sequence), head, payload, altered: false };
        self.oracle.on_sealed(&record);
        if (who, end) == (Who::Ann, End::Server)
            && let Some(Control::Grant(grant)) = decoded(&record)
        {
            self.oracle.on_level_told(grant.level, setting.required());
        }
        if who == Who::Ann && !self.is_eves(channel) {
            let there = self.line(channel, end.other());
            if !there.closed {
                there.queue.push_back(Marked::new(record));
            }
        }
        self.machine(who, end).into_iter().for_each(|session| session.on_sent(channel, NOW));
    }
}

/// The nonce that is due behind this record.
pub(super) fn after((epoch, number): (u16, u64), record: &Sealed) -> (u16, u64) {
    if record.head.event == Event::Rekey as u8 { (epoch + 1, 0) } else { (epoch, number + 1) }
}

/// A control message, or none for anything else.
fn decoded(record: &Sealed) -> Option<Control> {
    let Payload::Control(bytes) = &record.payload else { return None };
    if record.head.flags.has(Flags::REQUEST) {
        return None;
    }
    Control::decode(Event::from_code(record.head.event)?, bytes).ok().flatten()
}

/// The key is what the server derives for the session that Eve has.
pub(super) fn eves_key(setting: &Setting) -> ChannelKey {
    derive(Who::Eve, Who::Eve.session(), ChannelId(1), &first_grant(setting, Who::Eve))
}
