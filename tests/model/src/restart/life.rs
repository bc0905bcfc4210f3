//! The life of one transfer: an attempt, perhaps a restart of the receiver, another attempt.

use super::disk::{Disk, Target};
use super::setting::Restarts;
use crate::action::Action as SessionAction;
use crate::oracle::Told;
use crate::world::{CLIENT, Job, Step as Asked, World};
use std::collections::BTreeSet;
use xdfs_proto::base::commit::{Commit, CommitStep};
use xdfs_proto::base::{Error, ErrorKind, Extent, Marker, MarkerStep};

/// One step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Of the session.
    Session(SessionAction),
    /// The next call of the commit returns, well or not.
    Commit(bool),
    /// A marker begins.
    Mark,
    /// The next call of the marker returns, well or not.
    Marker(bool),
    /// The receiver is killed.
    Kill,
    /// The receiver loses its power, and the disk is left in this of the states that it may be in.
    Cut(u8),
    /// Somebody else replaces the target.
    Other,
    /// The user says the command again.
    Again,
}

/// What went wrong. Each belongs to the property of its name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Wrong {
    /// A name for a file that is not whole or not synced, or COMMITTED without the directory synced (S7).
    Committed,
    /// A second commit (S8).
    Twice,
    /// A commit over what somebody else put there (S8).
    OverOther,
    /// A journal that lies after a crash (S9).
    Marker,
    /// The old file is gone although nothing was committed, or half a file has its name (S10).
    Old,
    /// What was told durable is gone.
    Lost,
    /// A machine panicked.
    Panic,
}

/// What was seen on the way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Seen {
    /// A power cut took back a name.
    NameLost,
    /// A power cut took back blocks.
    BlocksLost,
    /// An attempt went on with something that an earlier one left.
    Resumed,
    /// A sync failed and its part file was given up.
    Poisoned,
    /// A name was not given, since somebody else had put something there.
    LeftAlone,
    /// An attempt found that the one before had committed.
    Remembered,
}

/// One transfer across attempts and restarts of the receiver.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Life {
    /// The present attempt.
    pub world: World,
    /// Storage of the receiver.
    pub disk: Disk,
    /// How far the commit is.
    commit: Option<Commit>,
    /// A marker under way, and what it covers.
    marker: Option<(Marker, u16)>,
    /// Blocks that the present attempt has written.
    wrote: u16,
    /// A call on the part file failed: the store refuses every later one, as long as its process lives.
    spoilt: bool,
    /// Attempts, restarts, markers, faults and strangers that are left.
    attempts: u8,
    restarts: u8,
    markers: u8,
    sync_faults: u8,
    others: u8,
    /// The receiver restarted and nobody has tried again yet.
    down: bool,
    /// Somebody was told COMMITTED.
    told: bool,
    /// Files of the transfer that got the name.
    pub named: u8,
    /// The receiver has restarted.
    pub restarted: bool,
    /// See [`Seen`].
    pub seen: BTreeSet<Seen>,
    /// The first thing that went wrong; nothing is searched behind it.
    pub wrong: Option<Wrong>,
}

impl Life {
    /// The first attempt begins.
    pub fn new(setting: &Restarts) -> Self {
        let mut world = World::new(&setting.session);
        world.start(&setting.session);
        let whole = (1 << setting.session.plans[0].blocks) - 1;
        Self {
            world,
            disk: Disk::new(whole),
            commit: None,
            marker: None,
            wrote: 0,
            spoilt: false,
            attempts: setting.attempts - 1,
            restarts: setting.restarts,
            markers: setting.markers,
            sync_faults: setting.sync_faults,
            others: setting.others,
            down: false,
            told: false,
            named: 0,
            restarted: false,
            seen: BTreeSet::new(),
            wrong: None,
        }
    }

    /// What the present attempt told its user.
    fn outcome(&self) -> Option<Told> {
        self.world.oracle.ledgers[0].told[CLIENT]
    }

    /// The user heard of success.
    fn is_told(&self) -> bool {
        self.outcome() == Some(Told::Committed)
    }

    /// The commit that waits for its calls.
    fn committing(&self) -> Option<Job> {
        self.world.jobs.iter().find(|job| job.step == Asked::Commit).copied()
    }

    /// Everything that can happen next; nothing where the life has come to its end.
    pub fn actions(&self, setting: &Restarts, actions: &mut Vec<Action>) {
        if self.wrong.is_some() || self.world.oracle.violation.is_some() {
            return;
        }
        if self.down {
            // Whoever has heard of success does not come again.
            if !self.is_told() {
                actions.push(Action::Again);
            }
            return;
        }
        let mut of_session = Vec::new();
        self.world.actions(&setting.session, &mut of_session);
        let commit =
            |action: &SessionAction| matches!(action, SessionAction::Storage(job, _) if job.step == Asked::Commit);
        actions.extend(of_session.into_iter().filter(|action| !commit(action)).map(Action::Session));
        match (&self.marker, self.committing()) {
            (Some((marker, _)), _) => {
                actions.push(Action::Marker(true));
                if self.sync_faults > 0 && marker.next() == Some(MarkerStep::SyncData) {
                    actions.push(Action::Marker(false));
                }
            }
            // A commit waits for the marker under way.
            (None, Some(_)) => {
                actions.push(Action::Commit(true));
                let next = self.commit.as_ref().map_or(Some(CommitStep::Finish(0)), Commit::next);
                if self.sync_faults > 0 && next == Some(CommitStep::SyncFile(0)) {
                    actions.push(Action::Commit(false));
                }
            }
            (None, None) => {}
        }
        if actions.is_empty() {
            // An error that is told leaves it to the user.
            let failed = matches!(self.outcome(), Some(Told::Failed(_)));
            if failed && self.attempts > 0 {
                actions.push(Action::Again);
            }
            return;
        }
        self.may_happen(actions);
    }

    fn may_happen(&self, actions: &mut Vec<Action>) {
        let unmarked = self.disk.file.is_some_and(|file| file.cached & !file.noted.unwrap_or(0) != 0);
        let free = self.marker.is_none() && self.committing().is_none() && self.disk.target != Target::Ours;
        if self.markers > 0 && unmarked && free {
            actions.push(Action::Mark);
        }
        if self.restarts > 0 && self.attempts > 0 {
            actions.push(Action::Kill);
            actions.extend((0..self.disk.cuts().len() as u8).map(Action::Cut));
        }
        if self.others > 0 {
            actions.push(Action::Other);
        }
    }

    /// Lets one thing happen.
    pub fn apply(&mut self, setting: &Restarts, action: Action) {
        match action {
            Action::Session(action) => {
                if matches!(action, SessionAction::Storage(job, true) if job.step == Asked::Stage) {
                    self.disk.stage();
                }
                self.world.apply(&setting.session, action);
            }
            Action::Commit(well) => self.commit(setting, well),
            Action::Mark => {
                self.markers -= 1;
                let covers = self.disk.file.map_or(0, |file| file.cached);
                self.marker = Some((Marker::new(true), covers));
            }
            Action::Marker(well) => self.mark(setting, well),
            Action::Kill => self.restart(self.disk),
            Action::Cut(which) => {
                let left = self.disk.cuts()[usize::from(which)];
                if left.target != self.disk.target {
                    self.seen.insert(Seen::NameLost);
                }
                if left.file.map(|file| file.cached) != self.disk.file.map(|file| file.cached) {
                    self.seen.insert(Seen::BlocksLost);
                }
                self.restart(left);
            }
            Action::Other => {
                self.others -= 1;
                (self.disk.target, self.disk.stable) = (Target::Other, Target::Other);
                if self.named > 0 {
                    self.disk.file = None;
                }
            }
            Action::Again => self.again(setting),
        }
        self.follow();
        self.judge();
    }

    /// What the session did to its storage.
    fn follow(&mut self) {
        let ledger = &self.world.oracle.ledgers[0];
        let written = ledger.written() & !ledger.blocks_in(&self.world.kept);
        self.told |= ledger.told.contains(&Some(Told::Committed));
        if !self.down {
            self.disk.write(written & !self.wrote);
            self.wrote = written;
        }
        match self.world.dropped.take() {
            Some(false) => self.disk.remove(),
            // The last marker of a transfer that ends early.
            Some(true) if self.marker.is_none() => {
                self.disk.sync(u16::MAX, true);
                if let Some(file) = self.disk.file.as_mut().filter(|file| file.forgotten == 0) {
                    file.noted = Some(file.cached);
                }
            }
            _ => {}
        }
    }

    fn commit(&mut self, setting: &Restarts, well: bool) {
        let Some(job) = self.committing() else { return };
        let mut plan = self.commit.take().unwrap_or_else(|| Commit::single(true));
        let Some(step) = plan.next() else { return };
        let mut error = Error::new(ErrorKind::Storage, "input/output error");
        let mut done = well;
        self.sync_faults -= u8::from(!well);
        match step {
            CommitStep::Finish(_) => done = !self.spoilt,
            CommitStep::SyncFile(_) | CommitStep::SyncSystem => self.disk.sync(u16::MAX, well),
            CommitStep::Name(_) => {
                done = self.name(setting);
                error = Error::new(ErrorKind::SourceChanged, "the target is another one by now");
            }
            CommitStep::SyncDirectory(_) => self.disk.stable = self.disk.target,
        }
        if done {
            // It was next.
            let _ = plan.on_done(step);
        } else {
            plan.on_failed(step);
        }
        let safety = plan.safety(0);
        if plan.next().is_some() {
            self.commit = Some(plan);
            return;
        }
        if safety.is_none() {
            self.disk.remove();
            self.seen.extend((step == CommitStep::SyncFile(0)).then_some(Seen::Poisoned));
        }
        self.check_told(safety.is_some());
        self.world.commit_returns(&setting.session, job, safety.map(drop).ok_or(error));
    }

    /// Gives the file its name. False where the store refuses.
    fn name(&mut self, setting: &Restarts) -> bool {
        if self.disk.committed && setting.store_remembers {
            let there = self.disk.target == Target::Ours;
            self.seen.insert(if there { Seen::Remembered } else { Seen::LeftAlone });
            return there;
        }
        let Some(file) = self.disk.file else { return false };
        let other = self.disk.target != file.expects;
        if other && setting.store_compares {
            self.seen.insert(Seen::LeftAlone);
            return false;
        }
        let whole = file.cached == self.disk.whole && file.durable == self.disk.whole;
        let wrong = [
            (self.named > 0).then_some(Wrong::Twice),
            other.then_some(Wrong::OverOther),
            (!whole).then_some(Wrong::Committed),
        ];
        self.wrong = self.wrong.or(wrong.into_iter().flatten().next());
        self.named += 1;
        (self.disk.target, self.disk.committed) = (Target::Ours, true);
        true
    }

    fn check_told(&mut self, success: bool) {
        if success && self.disk.stable != self.disk.target {
            self.wrong.get_or_insert(Wrong::Committed);
        }
    }

    fn mark(&mut self, setting: &Restarts, well: bool) {
        let Some((mut marker, covers)) = self.marker.take() else { return };
        let Some(step) = marker.next() else { return };
        self.sync_faults -= u8::from(!well);
        match step {
            MarkerStep::SyncData => self.disk.sync(covers, well),
            MarkerStep::Note => {
                if let Some(file) = &mut self.disk.file {
                    file.noted = Some(covers);
                }
            }
        }
        if !well {
            self.spoilt = true;
            self.seen.insert(Seen::Poisoned);
            let error = Error::new(ErrorKind::Storage, "input/output error");
            return self.world.storage_fails(&setting.session, error);
        }
        marker.on_done();
        if marker.next().is_some() {
            self.marker = Some((marker, covers));
        }
    }

    /// The receiver is gone, and everything with it but its disk.
    fn restart(&mut self, disk: Disk) {
        self.restarts -= 1;
        (self.commit, self.marker, self.spoilt) = (None, None, false);
        // The sender hears nothing more, unless it has heard all.
        (self.down, self.restarted) = (true, true);
        // A name that a cut took back was never given.
        self.named -= u8::from(self.disk.committed && !disk.committed);
        self.disk = disk;
    }

    fn again(&mut self, setting: &Restarts) {
        self.attempts -= 1;
        (self.down, self.spoilt, self.wrote) = (false, false, 0);
        let ledger = &self.world.oracle.ledgers[0];
        let extents = |blocks: u16| -> Vec<Extent> {
            let held = (0..16).filter(|block| blocks & 1 << block != 0);
            merged(held.filter_map(|block| ledger.extent_of(block)))
        };
        let ours = self.disk.target == Target::Ours;
        let known = ours && setting.store_remembers;
        let there = if known {
            extents(self.disk.whole)
        } else {
            if ours {
                // It knows nothing of the file that has the name: that is anybody's.
                (self.disk.target, self.disk.stable, self.disk.file) = (Target::Other, Target::Other, None);
            }
            let noted = self.disk.file.and_then(|file| file.noted);
            noted.map_or_else(Vec::new, extents)
        };
        if there.is_empty() {
            // Without a journal nothing is gone on with.
            self.disk.remove();
        } else {
            self.seen.insert(Seen::Resumed);
        }
        // Once only do channels break and blocks suffer.
        let calm = crate::setting::Setting { breaks: 0, flips: 0, ..setting.session.clone() };
        self.world = World::going_on(&calm, &there);
        self.world.start(&calm);
    }

    /// Looks at what is there, and at what a power cut would leave.
    fn judge(&mut self) {
        let mut wrong = self.wrong;
        for left in self.disk.cuts().into_iter().chain([self.disk]) {
            if !left.is_honest() {
                wrong = wrong.or(Some(Wrong::Marker));
            }
            if !left.is_whole() {
                wrong = wrong.or(Some(Wrong::Old));
            }
            if self.told && left.target == Target::Old {
                wrong = wrong.or(Some(Wrong::Lost));
            }
        }
        if self.named == 0 && self.disk.target == Target::Ours {
            wrong = wrong.or(Some(Wrong::Old));
        }
        self.wrong = wrong;
    }

    /// Everything that was begun came to its end.
    pub fn has_ended(&self, setting: &Restarts) -> bool {
        self.down && self.is_told() || self.world.has_ended(&setting.session)
    }

    /// The user heard that the transfer is done.
    pub fn is_done(&self) -> bool {
        !self.down && self.is_told()
    }
}

/// Neighbours made one: ranges are told apart from each other.
fn merged(blocks: impl Iterator<Item = Extent>) -> Vec<Extent> {
    let mut ranges: Vec<Extent> = Vec::new();
    for block in blocks {
        let joined = ranges.last().filter(|last| last.end() == block.offset());
        match joined.and_then(|last| Extent::new(last.offset(), last.length() + block.length()).ok()) {
            Some(joined) => *ranges.last_mut().expect("it was looked at") = joined,
            None => ranges.push(block),
        }
    }
    ranges
}
