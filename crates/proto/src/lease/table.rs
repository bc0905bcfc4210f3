//! The server's side: who has leases on which files, and who has to wait for their end.

use super::owners::Owners;
use super::state::{Granted, LeaseState, Lost};
use super::{Access, LeaseAnswer, LeaseKind, MustWait};
use crate::base::{Duration, Instant};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

/// The numbers of a server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LeaseTerms {
    /// How long a lease holds without renewal, and others wait for one at most.
    pub time: Duration,
    /// How long a file gets no new lease once one was recalled, and an owner none to write once
    /// they did not answer: whoever never answers does not keep the others waiting all the time.
    pub pause: Duration,
    /// Leases in all, with the files that get none for a while since one was recalled.
    pub most: usize,
    /// The same of one owner.
    pub most_each: usize,
}

/// Who has a lease: an open file of a user. Only the same user may have it again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Holder<U> {
    /// The user.
    pub owner: U,
    /// The number of the handle, which no other one of this server has.
    pub handle: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Lease {
    state: LeaseState,
    /// Batches that are executed under it: it does not end meanwhile.
    pins: u32,
}

/// A file that is leased, or used.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct LeasedFile<U: Ord> {
    leases: BTreeMap<Holder<U>, Lease>,
    /// Accesses that have begun and not ended.
    looks: u32,
    changes: u32,
    /// Until when it gets no new lease.
    pause: Instant,
    /// Whose place that takes, once the lease is over that was recalled.
    payer: Option<U>,
}

/// After a restart nobody knows which leases there are: until this moment they are only had again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Grace {
    until: Instant,
}

/// The leases of a server: files are called `F`, users `U`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LeaseTable<F: Ord, U: Ord> {
    terms: LeaseTerms,
    grace: Option<Grace>,
    files: BTreeMap<F, LeasedFile<U>>,
    /// The file of each holder.
    holders: BTreeMap<Holder<U>, F>,
    owners: Owners<U>,
    /// Holders that are not told yet.
    recalls: VecDeque<Holder<U>>,
    /// No lease is granted any more.
    closed: bool,
}

/// Somebody waits for the end of a lease: its client is told of the first one.
fn recall<U: Ord + Clone>(
    holder: &Holder<U>,
    state: &mut LeaseState,
    now: Instant,
    owners: &mut Owners<U>,
    recalls: &mut VecDeque<Holder<U>>,
) {
    if state.recall(now) {
        owners.recalled(&holder.owner, now);
        if !state.is_lost() {
            recalls.push_back(holder.clone());
        }
    }
}

impl<U: Ord> Default for LeasedFile<U> {
    fn default() -> Self {
        Self { leases: BTreeMap::new(), looks: 0, changes: 0, pause: Instant(0), payer: None }
    }
}

impl<U: Ord + Clone> LeasedFile<U> {
    /// Whether `holder` may have this lease beside the others, and what others do just now.
    fn admits(&self, holder: &Holder<U>, kind: LeaseKind, now: Instant) -> bool {
        let others = || self.leases.iter().filter(|(other, _)| *other != holder);
        let excluded = others().any(|(_, lease)| kind.excludes_lease(lease.state.kind()));
        let busy = self.changes > 0 || (kind.excludes(Access::Look) && self.looks > 0);
        let waits = self.leases.values().any(|lease| !matches!(lease.state, LeaseState::Granted(_)));
        !excluded && !busy && !waits && self.pause <= now
    }

    fn is_unused(&self, now: Instant) -> bool {
        self.leases.is_empty() && self.looks == 0 && self.changes == 0 && self.pause <= now
    }
}

impl<F: Ord + Clone, U: Ord + Clone> LeaseTable<F, U> {
    /// A server that has granted no lease before.
    pub const fn new(terms: LeaseTerms) -> Self {
        Self {
            terms,
            grace: None,
            files: BTreeMap::new(),
            holders: BTreeMap::new(),
            owners: Owners::new(),
            recalls: VecDeque::new(),
            closed: false,
        }
    }

    /// A server that may have granted leases before it was restarted. It is up only now: whatever it
    /// received before, it received earlier.
    pub const fn restarted(terms: LeaseTerms, now: Instant) -> Self {
        let mut table = Self::new(terms);
        table.grace = Some(Grace { until: now.after(terms.time) });
        table
    }

    /// What lease an open file has.
    pub fn kind_of(&self, holder: &Holder<U>) -> Option<LeaseKind> {
        let file = self.files.get(self.holders.get(holder)?)?;
        file.leases.get(holder).map(|lease| lease.state.kind())
    }

    /// The numbers.
    pub const fn terms(&self) -> LeaseTerms {
        self.terms
    }

    /// How many leases there are.
    pub fn len(&self) -> usize {
        self.holders.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    fn is_in_grace(&mut self, now: Instant) -> Option<Instant> {
        self.grace = self.grace.filter(|grace| now < grace.until);
        self.grace.map(|grace| grace.until)
    }

    /// A client asks for a lease, or for another kind of the one that it has.
    pub fn ask(&mut self, file: &F, holder: &Holder<U>, kind: LeaseKind, now: Instant) -> LeaseAnswer {
        self.expire(file, now);
        if self.holders.get(holder).is_some_and(|known| known == file) {
            return self.change_kind(file, holder, kind, now);
        }
        if self.is_in_grace(now).is_some() {
            return LeaseAnswer::Refused;
        }
        self.grant(file, holder, kind, now)
    }

    fn grant(&mut self, file: &F, holder: &Holder<U>, kind: LeaseKind, now: Instant) -> LeaseAnswer {
        let admitted = self.files.get(file).is_none_or(|known| known.admits(holder, kind, now));
        let barred = self.owners.is_barred(&holder.owner, kind, now);
        if !admitted || barred || self.closed || !self.has_room(&holder.owner) {
            return LeaseAnswer::Refused;
        }
        self.insert(file, holder, Granted { kind, until: now.after(self.terms.time) });
        LeaseAnswer::Granted { kind, time: self.terms.time }
    }

    fn insert(&mut self, file: &F, holder: &Holder<U>, granted: Granted) {
        // After a restart one may be had again twice.
        self.remove(holder);
        let lease = Lease { state: LeaseState::Granted(granted), pins: 0 };
        self.files.entry(file.clone()).or_default().leases.insert(holder.clone(), lease);
        self.holders.insert(holder.clone(), file.clone());
        self.owners.granted(&holder.owner);
    }

    /// What is over is forgotten from time to time, and not here: whoever is refused would have all of it gone through each time.
    fn has_room(&self, owner: &U) -> bool {
        self.owners.has_room(owner, self.terms.most, self.terms.most_each)
    }

    fn change_kind(&mut self, file: &F, holder: &Holder<U>, kind: LeaseKind, now: Instant) -> LeaseAnswer {
        let barred = self.owners.is_barred(&holder.owner, LeaseKind::Write, now);
        let renewed = self.renewed(&holder.owner, now);
        let Some(known) = self.files.get_mut(file) else { return LeaseAnswer::Refused };
        let may = kind == LeaseKind::Read || (known.admits(holder, kind, now) && !barred);
        let Some(lease) = known.leases.get_mut(holder) else { return LeaseAnswer::Refused };
        match &mut lease.state {
            LeaseState::Granted(granted) => {
                let until = granted.until.max(renewed);
                *granted = Granted { kind: if may { kind } else { granted.kind }, until };
                lease.state.answer(now)
            }
            LeaseState::Recalled(_) => lease.state.answer(now),
            LeaseState::Lost(_) => LeaseAnswer::Refused,
        }
    }

    /// Until when a lease lasts that is renewed now, unless it does so for longer already.
    fn renewed(&self, owner: &U, now: Instant) -> Instant {
        if self.owners.is_silenced(owner, now) { Instant::default() } else { now.after(self.terms.time) }
    }

    /// A client wants to have its lease for longer. One that is gone is not granted anew.
    pub fn renew(&mut self, holder: &Holder<U>, now: Instant) -> LeaseAnswer {
        let Some(file) = self.holders.get(holder).cloned() else { return LeaseAnswer::Refused };
        self.expire(&file, now);
        let renewed = self.renewed(&holder.owner, now);
        let Some(lease) = self.lease(holder) else { return LeaseAnswer::Refused };
        match &mut lease.state {
            LeaseState::Granted(granted) => granted.until = granted.until.max(renewed),
            LeaseState::Recalled(_) => {}
            LeaseState::Lost(_) => return LeaseAnswer::Refused,
        }
        lease.state.answer(now)
    }

    /// A client whose session was lost asks for the lease that its handle `before` had.
    pub fn reclaim(&mut self, file: &F, before: u64, holder: &Holder<U>, kind: LeaseKind, now: Instant) -> LeaseAnswer {
        self.expire(file, now);
        let old = Holder { owner: holder.owner.clone(), handle: before };
        if self.holders.get(&old).is_some_and(|known| known == file) && old != *holder {
            self.lost(&old);
            return self.take_over(file, &old, holder, now);
        }
        match self.is_in_grace(now) {
            Some(until) => self.grant_again(file, holder, kind, until, now),
            None => LeaseAnswer::Refused,
        }
    }

    /// After a restart: whoever says that he had a lease has it, for the time of grace and until it is
    /// renewed, unless somebody else said so before who cannot have had one beside it.
    fn grant_again(
        &mut self,
        file: &F,
        holder: &Holder<U>,
        kind: LeaseKind,
        until: Instant,
        now: Instant,
    ) -> LeaseAnswer {
        let known = self.files.get(file);
        let excluded = |known: &LeasedFile<U>| {
            let mut others = known.leases.iter().filter(|(other, _)| *other != holder);
            others.any(|(_, lease)| kind.excludes_lease(lease.state.kind()))
        };
        let wanted = known.is_some_and(|known| known.pause > now);
        if known.is_some_and(excluded) || self.closed || !self.has_room(&holder.owner) {
            return LeaseAnswer::Refused;
        }
        self.insert(file, holder, Granted { kind, until });
        self.answer_again(holder, wanted.then_some(now), now)
    }

    fn take_over(&mut self, file: &F, old: &Holder<U>, holder: &Holder<U>, now: Instant) -> LeaseAnswer {
        let lease = self.lease(old).map(|lease| lease.state);
        let Some(LeaseState::Lost(Lost { kind, until, recalled })) = lease else { return LeaseAnswer::Refused };
        self.remove(old);
        let until = if recalled.is_some() { until } else { until.max(self.renewed(&holder.owner, now)) };
        self.insert(file, holder, Granted { kind, until });
        self.answer_again(holder, recalled, now)
    }

    /// What a client has again; if somebody has waited for its end since some moment, the answer tells it.
    fn answer_again(&mut self, holder: &Holder<U>, recalled: Option<Instant>, now: Instant) -> LeaseAnswer {
        let Some(lease) = self.lease(holder) else { return LeaseAnswer::Refused };
        let recalled = recalled.filter(|since| lease.state.recall(*since));
        let answer = lease.state.answer(now);
        if let Some(since) = recalled {
            self.owners.recalled(&holder.owner, since);
        }
        answer
    }

    /// A client gives its lease back. If it was recalled, its owner gets none to write for twice the time that others have waited
    /// for any of theirs; none at all, if that is longer than a lease.
    pub fn give_back(&mut self, holder: &Holder<U>, now: Instant) {
        if self.lease(holder).is_some_and(|lease| lease.state.recalled().is_some()) {
            self.owners.waited(&holder.owner, now, self.terms.time);
        }
        self.remove(holder);
    }

    /// The session of a holder is lost: its lease stays until its time is over.
    pub fn lost(&mut self, holder: &Holder<U>) {
        if let Some(lease) = self.lease(holder) {
            lease.state.lose();
        }
    }

    /// Somebody, perhaps the holder of a lease itself, is about to look at the file or to change it.
    /// Everybody else's lease that excludes this is recalled, and the access waits for it. If it may
    /// go on, [`Self::end`] follows.
    pub fn begin(&mut self, file: &F, by: Option<&Holder<U>>, access: Access, now: Instant) -> Result<(), MustWait> {
        self.expire(file, now);
        let until = self.is_in_grace(now);
        let pause = now.after(self.terms.pause);
        if until.is_some() && self.files.len() < 2 * self.terms.most {
            // Whoever says later that he had a lease learns that somebody waits.
            let known = self.files.entry(file.clone()).or_default();
            known.pause = known.pause.max(pause);
        }
        let known = self.files.get_mut(file);
        let own = known.as_ref().and_then(|known| by.and_then(|by| known.leases.get(by)));
        // Who has a lease again may do what it is for: nobody else has one that excludes it.
        let covered = own.is_some_and(|lease| lease.state.kind() == LeaseKind::Write || access == Access::Look);
        let mut until = until.filter(|_| !covered);
        if let Some(known) = known {
            for (holder, lease) in &mut known.leases {
                if Some(holder) == by || !lease.state.kind().excludes(access) {
                    continue;
                }
                known.pause = known.pause.max(pause);
                until = until.max(Some(lease.state.until()));
                recall(holder, &mut lease.state, now, &mut self.owners, &mut self.recalls);
            }
        }
        if let Some(until) = until {
            return Err(MustWait { until });
        }
        let known = self.files.entry(file.clone()).or_default();
        match access {
            Access::Look => known.looks += 1,
            Access::Change => known.changes += 1,
        }
        Ok(())
    }

    /// An access that could begin has ended.
    pub fn end(&mut self, file: &F, access: Access, now: Instant) {
        let Some(known) = self.files.get_mut(file) else { return };
        match access {
            Access::Look => known.looks -= 1,
            Access::Change => known.changes -= 1,
        }
        self.tidy(file, now);
    }

    /// Changes that a client kept under its lease arrive: false if it has no such lease any more, and
    /// they must not be made. Otherwise the lease does not end before [`Self::unpin`].
    pub fn pin(&mut self, holder: &Holder<U>, now: Instant) -> bool {
        let Some(file) = self.holders.get(holder).cloned() else { return false };
        self.expire(&file, now);
        let lease = self.lease(holder);
        let lease =
            lease.filter(|lease| !matches!(lease.state, LeaseState::Lost(_)) && lease.state.kind() == LeaseKind::Write);
        // One that is over lasts as long as the changes do that had begun, and no longer.
        let lease = lease.filter(|lease| lease.state.until() > now);
        lease.map(|lease| lease.pins += 1).is_some()
    }

    /// They were made.
    pub fn unpin(&mut self, holder: &Holder<U>) {
        if let Some(lease) = self.lease(holder) {
            lease.pins = lease.pins.saturating_sub(1);
        }
    }

    /// Recalls every lease and grants none any more: another server takes the files over.
    pub fn close(&mut self, now: Instant) {
        self.closed = true;
        for known in self.files.values_mut() {
            for (holder, lease) in &mut known.leases {
                recall(holder, &mut lease.state, now, &mut self.owners, &mut self.recalls);
            }
        }
    }

    /// The next holder that must be told that its lease is recalled.
    pub fn poll_recall(&mut self) -> Option<Holder<U>> {
        self.recalls.pop_front()
    }

    fn lease(&mut self, holder: &Holder<U>) -> Option<&mut Lease> {
        self.files.get_mut(self.holders.get(holder)?)?.leases.get_mut(holder)
    }

    /// Takes a lease away; what it was.
    fn remove(&mut self, holder: &Holder<U>) -> Option<LeaseState> {
        let file = self.holders.remove(holder)?;
        let known = self.files.get_mut(&file)?;
        let state = known.leases.remove(holder)?.state;
        let recalled = state.recalled().is_some();
        let keeps = recalled && known.payer.is_none();
        if keeps {
            known.payer = Some(holder.owner.clone());
        }
        self.owners.ended(&holder.owner, recalled, keeps);
        Some(state)
    }

    /// Forgets the leases of a file whose time is over.
    fn expire(&mut self, file: &F, now: Instant) {
        let Some(known) = self.files.get(file) else { return };
        let over = known.leases.iter().filter(|(_, lease)| lease.state.until() <= now && lease.pins == 0);
        let over: BTreeSet<Holder<U>> = over.map(|(holder, _)| holder.clone()).collect();
        for holder in &over {
            if let Some(state) = self.remove(holder).filter(|state| state.recalled().is_some()) {
                self.owners.silence(&holder.owner, state.until(), state.until().after(self.terms.pause));
            }
        }
        self.tidy(file, now);
    }

    /// Gives the place of a pause free that is over, and forgets a file of which nothing is left.
    fn tidy(&mut self, file: &F, now: Instant) {
        let Some(known) = self.files.get_mut(file) else { return };
        if known.pause <= now
            && let Some(payer) = known.payer.take()
        {
            self.owners.pause_over(&payer);
        }
        if known.is_unused(now) {
            self.files.remove(file);
        }
    }

    /// Forgets whatever is over.
    pub fn expire_all(&mut self, now: Instant) {
        let files: alloc::vec::Vec<F> = self.files.keys().cloned().collect();
        files.iter().for_each(|file| self.expire(file, now));
        self.owners.expire(now);
    }
}
