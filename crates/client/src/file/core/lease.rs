//! The lease of an open file: what it permits, and the calls about it.

use super::super::batches::PendingFileReply;
use super::super::leases::LeasedFile;
use super::super::pending::PendingLease;
use super::{Core, Reply, is_lost, lock};
use crate::calls::Facts;
use crate::retry::Backoff;
use crate::session::Session;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use xdfs_proto::base::{Error, ErrorKind, Instant as Moment};
use xdfs_proto::lease::{Holding, HoldingState, LeaseAnswer, LeaseKind};
use xdfs_proto::wire::file::{FileAnswer, FileCall, LeaseCall, LeaseTold};
use xdfs_proto::wire::path::Wanted;

/// What an open file's lease permits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    /// [`LeaseKind::Read`]: what was read since it was granted is what is in the file.
    /// [`LeaseKind::Write`]: and changes need not be sent.
    pub kind: LeaseKind,
    /// Until when, if it is not renewed.
    pub until: Instant,
    /// Somebody waits for it, or the server does not renew it: it is given back soon.
    pub recalled: bool,
    /// Programs of the server's machine wait for its end, too; otherwise what they change is noticed when
    /// it is renewed.
    pub local: bool,
}

/// What is done before a recalled lease is given back.
pub(in crate::file) type OnRecall = Arc<dyn Fn() + Send + Sync>;

/// A lease that was granted, and what was told under it.
#[derive(Default)]
struct GrantedLease {
    /// How long it holds from its renewal.
    time: Duration,
    /// See [`Lease::local`].
    local: bool,
    /// Attributes that were told under it: which, after how many changes, and what.
    facts: Option<(Wanted, u64, Facts)>,
}

/// The lease of one open file.
#[derive(Default)]
pub(super) struct Leasing {
    holding: Holding,
    /// There is one from its grant on until its end has been seen, and what was kept under it is forgotten.
    granted: Option<GrantedLease>,
    on_recall: Option<OnRecall>,
    /// Counts the sessions that the lease was asked for in: an answer of an earlier one says nothing of it.
    asked_in: u64,
    /// When to send what is kept, since it could not be sent when it was to be.
    send_again: Option<Instant>,
}

/// How long after that.
const SEND_AGAIN: Duration = Duration::from_millis(200);

/// The time as the machine of leases counts it.
fn moment(at: Instant) -> Moment {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(|| at.checked_sub(Duration::from_secs(1)).unwrap_or(at));
    Moment(0).after(at.saturating_duration_since(*start))
}

/// A server's clock may run faster than this one: a twentieth is given away.
fn cautious(answer: LeaseAnswer) -> LeaseAnswer {
    let less = |time: Duration| time - time / 20;
    match answer {
        LeaseAnswer::Granted { kind, time } => LeaseAnswer::Granted { kind, time: less(time) },
        LeaseAnswer::Recalled { kind, left } => LeaseAnswer::Recalled { kind, left: less(left) },
        LeaseAnswer::Refused => LeaseAnswer::Refused,
    }
}

/// The answer to a renewal of a lease of this `time`. If it was not renewed, which is told by what is left, it ends as one that
/// is recalled: what was kept is sent while it may be, and no more is kept.
fn renewed(answer: LeaseAnswer, time: Duration) -> LeaseAnswer {
    match answer {
        LeaseAnswer::Granted { kind, time: left } if left < time / 4 * 3 => LeaseAnswer::Recalled { kind, left },
        answer => answer,
    }
}

pub(super) fn told(answer: &FileAnswer<'_>) -> Option<LeaseTold> {
    match answer {
        FileAnswer::Lease(told) => Some(*told),
        _ => None,
    }
}

impl Leasing {
    /// A call that asks for a lease is sent next; none if that is out of turn.
    pub(super) fn ask(&mut self) -> Option<()> {
        self.holding.ask(moment(Instant::now())).ok()
    }

    /// There was no answer to it.
    pub(super) fn on_lost(&mut self) {
        self.holding.on_lost();
    }

    /// The same for a call of an earlier session, unless it was asked for in another one since.
    fn on_lost_in(&mut self, asked_in: u64) {
        if self.asked_in == asked_in {
            self.holding.on_lost();
        }
    }

    pub(super) fn on_answer(&mut self, told: LeaseTold) {
        let answer = match self.holding.state() {
            HoldingState::Asked(_) => cautious(told.answer),
            _ => renewed(cautious(told.answer), self.time()),
        };
        // Out of turn only if the session was lost meanwhile, and the call with it.
        let _ = self.holding.on_answer(answer, moment(Instant::now()));
        if self.holding.until().is_some() {
            let granted = self.granted.get_or_insert_default();
            granted.local = told.local;
            if let LeaseAnswer::Granted { time, .. } = answer {
                granted.time = time;
            }
        }
    }

    /// Whether there was a lease to give back.
    fn give_back(&mut self) -> bool {
        let was_held = self.holding.give_back().is_ok();
        if was_held {
            self.granted = None;
        }
        was_held
    }

    fn time(&self) -> Duration {
        self.granted.as_ref().map_or(Duration::ZERO, |granted| granted.time)
    }

    fn lease(&self, now: Instant) -> Option<Lease> {
        let (at, until) = (moment(now), self.holding.until()?);
        let local = self.granted.as_ref()?.local;
        let kind = match self.holding.state() {
            HoldingState::Held(_) | HoldingState::Recalled(_) if self.holding.may_send_changes(at) => LeaseKind::Write,
            _ => LeaseKind::Read,
        };
        let lease = Lease { kind, until: now + until.since(at), recalled: self.holding.is_recalled(), local };
        self.holding.may_use(at).then_some(lease)
    }
}

impl Core {
    pub(super) fn leasing(&self) -> std::sync::MutexGuard<'_, Leasing> {
        lock(&self.leasing)
    }

    /// What the lease permits now; none if there is none.
    pub(in crate::file) fn lease(&self) -> Option<Lease> {
        let mut leasing = self.leasing();
        let now = Instant::now();
        leasing.holding.expire(moment(now));
        let lease = leasing.lease(now);
        if lease.is_none() && leasing.granted.take().is_some() {
            // What was read under it is not the file any more.
            self.changes().add();
        }
        lease
    }

    /// Attributes that were told under the lease, if they are still those of the file.
    pub(in crate::file) fn kept_facts(&self, wanted: Wanted) -> Option<Facts> {
        self.lease()?;
        let count = self.changes().count();
        let leasing = self.leasing();
        let (known, when, facts) = leasing.granted.as_ref()?.facts.as_ref()?;
        (known.has(wanted) && *when == count).then(|| facts.clone())
    }

    /// They were told when there had been `count` changes.
    pub(in crate::file) fn keep_facts(&self, wanted: Wanted, count: u64, facts: &Facts) {
        // A lease that ended meanwhile says nothing of them.
        if let Some(granted) = &mut self.leasing().granted {
            granted.facts = Some((wanted, count, facts.clone()));
        }
    }

    /// Whether changes may be kept here instead of being sent.
    pub(super) fn may_keep_changes(&self) -> bool {
        self.leasing().holding.may_keep_changes(moment(Instant::now()))
    }

    pub(in crate::file) fn set_on_recall(&self, act: OnRecall) {
        self.leasing().on_recall = Some(act);
    }

    /// Asks for a lease, or for another kind of the one that it has; returns what it has then.
    pub(in crate::file) fn ask_lease(self: &Arc<Self>, kind: LeaseKind) -> Result<Option<Lease>, Error> {
        let present = self.lease();
        if present.is_some_and(|lease| lease.recalled || lease.kind >= kind) {
            return Ok(present);
        }
        // Another kind is asked for as one that it does not have; meanwhile nothing is kept.
        if present.is_some() {
            self.give_back()?;
        }
        let (session, handle, generation) = self.current()?;
        let asked = {
            let mut leasing = self.leasing();
            leasing.ask().map(|()| leasing.asked_in)
        };
        // Else somebody else asks.
        let Some(asked_in) = asked else { return Ok(self.lease()) };
        self.remote.keeper().keep(handle, Arc::<Self>::downgrade(self));
        let calls = vec![FileCall::Lease(LeaseCall::Ask(kind))];
        let sent = self.send(&session, generation, Self::batch_of(handle, calls));
        match sent.and_then(|sent| self.leased(PendingLease { sent, generation, asked_in, time: Duration::ZERO })) {
            Ok(()) => Ok(self.lease()),
            Err(error) => {
                self.leasing().on_lost_in(asked_in);
                match error.kind {
                    ErrorKind::Unsupported => Ok(None),
                    _ if is_lost(&error) => Ok(None),
                    _ => Err(error),
                }
            }
        }
    }

    /// Takes the answer to a call about the lease.
    fn leased(&self, pending: PendingLease) -> Result<(), Error> {
        let Reply { answered, .. } = self.wait(pending.sent)?;
        let told = self.answer(&answered, "lease", told)?;
        let mut leasing = self.leasing();
        if leasing.asked_in != pending.asked_in {
            return Ok(());
        }
        if lock(&self.connection).generation == pending.generation {
            leasing.on_answer(told);
        } else {
            leasing.holding.on_lost();
        }
        Ok(())
    }

    /// Sends what was kept, uses what was read no longer, and gives the lease back.
    pub(in crate::file) fn give_back(&self) -> Result<(), Error> {
        self.settle_quietly();
        let pending = self.answer_recall();
        pending.map_or(Ok(()), |pending| self.wait(pending.sent).map(drop))
    }

    /// The lease is given back; what was read under it is used on. False if there is none.
    pub(super) fn end_lease(&self) -> bool {
        self.leasing().give_back()
    }

    fn is_to_be_renewed(&self, now: Instant) -> bool {
        let leasing = self.leasing();
        leasing.holding.renew_at(leasing.time()).is_some_and(|at| at <= moment(now))
    }

    pub(super) fn send_lease(&self, call: LeaseCall) -> Option<PendingLease> {
        let (session, handle, generation) = self.current().ok()?;
        let (asked_in, time) = {
            let leasing = self.leasing();
            (leasing.asked_in, leasing.time())
        };
        let sent = self.send(&session, generation, Self::batch_of(handle, vec![FileCall::Lease(call)])).ok()?;
        Some(PendingLease { sent, generation, asked_in, time })
    }

    /// The session is lost, and the file was opened again there: asks for the lease that it had, by each of the handles that may
    /// have it. Without it, what was kept is not the file any more.
    pub(super) fn lease_again(&self, session: &Arc<Session>, before: [Option<u64>; 2], handle: u64) {
        let asked = {
            let mut leasing = self.leasing();
            leasing.asked_in += 1;
            leasing.holding.on_lost();
            leasing.holding.reclaim(moment(Instant::now()))
        };
        let Ok(kind) = asked else { return };
        let reclaim = |before| {
            let calls = vec![FileCall::Lease(LeaseCall::Reclaim { kind, before })];
            let answered = session.call_file(Self::batch_of(handle, calls)).and_then(PendingFileReply::wait)?;
            self.answer(&answered, "lease", told)
        };
        let is_refused = |told: &Result<LeaseTold, Error>| {
            told.as_ref().is_ok_and(|told| matches!(told.answer, LeaseAnswer::Refused))
        };
        let mut told = None;
        for before in before.into_iter().flatten() {
            if told.as_ref().is_none_or(is_refused) {
                told = Some(reclaim(before));
            }
        }
        match told {
            Some(Ok(told)) => self.leasing().on_answer(told),
            Some(Err(_)) | None => self.leasing().holding.on_lost(),
        }
    }
}

impl LeasedFile for Core {
    fn recalled(&self) {
        self.leasing().holding.on_recall();
    }

    fn is_recalled(&self) -> bool {
        self.leasing().holding.is_recalled()
    }

    fn answer_recall(&self) -> Option<PendingLease> {
        let act = self.leasing().on_recall.clone();
        if let Some(act) = act.filter(|_| self.is_recalled()) {
            act();
        }
        // Nothing is kept under a read lease, and what is on its way may wait for the lease of somebody who waits for this one.
        let mut leasing = self.leasing();
        if leasing.holding.kind() != Some(LeaseKind::Read) {
            drop(leasing);
            self.settle_quietly();
            leasing = self.leasing();
        }
        let was_held = leasing.give_back();
        drop(leasing);
        if !was_held {
            return None;
        }
        self.changes().add();
        self.send_lease(LeaseCall::GiveBack)
    }

    fn kept_as(&self) -> Option<u64> {
        let kept = self.lease().is_some() || self.leasing().holding.waits();
        kept.then(|| lock(&self.connection).opened.handle)
    }

    fn is_due(&self, now: Instant) -> bool {
        let send_again = self.leasing().send_again;
        send_again.is_some_and(|at| at <= now) || self.is_to_be_renewed(now)
    }

    fn send_renewal(&self) -> Option<PendingLease> {
        if !self.is_to_be_renewed(Instant::now()) {
            return None;
        }
        self.leasing().holding.renew(moment(Instant::now())).ok()?;
        let sent = self.send_lease(LeaseCall::Renew);
        if sent.is_none() {
            self.leasing().holding.on_lost();
        }
        sent
    }

    fn renewed(&self, pending: PendingLease) {
        // The lease may be over by now, and its time with it; it was wanted when this was sent.
        let PendingLease { generation, asked_in, time, .. } = pending;
        let Err(error) = self.leased(pending) else { return };
        self.leasing().on_lost_in(asked_in);
        if is_lost(&error) {
            if let Ok((session, _, present)) = self.current()
                && present == generation
            {
                self.remote.lost(&session);
            }
            // Whoever comes back in time has it again.
            let _ = self.recover(generation, &mut Backoff::within(time));
        }
    }

    fn send_changes(&self) {
        let sent = self.send_kept();
        self.leasing().send_again = (!sent).then(|| Instant::now() + SEND_AGAIN);
    }
}

/// The lock around a file's lease.
pub(super) type LeasingLock = Mutex<Leasing>;

#[cfg(test)]
mod tests {
    use super::*;
    use xdfs_proto::wire::path::{Attributes, FileType};

    #[test]
    fn what_was_told_under_a_lease_ends_with_it() {
        let granted = |time| LeaseTold { answer: LeaseAnswer::Granted { kind: LeaseKind::Read, time }, local: true };
        let (mut leasing, now) = (Leasing::default(), Instant::now());
        assert!(leasing.ask().is_some() && leasing.ask().is_none());
        leasing.on_answer(LeaseTold { answer: LeaseAnswer::Refused, local: true });
        assert!(leasing.granted.is_none() && leasing.lease(now).is_none() && !leasing.give_back());
        assert!(leasing.ask().is_some());
        leasing.on_answer(granted(Duration::from_secs(100)));
        assert!(leasing.lease(now).is_some_and(|lease| lease.local && lease.kind == LeaseKind::Read));
        assert_eq!(leasing.time(), Duration::from_secs(95));
        leasing.granted.as_mut().unwrap().facts =
            Some((Wanted::SIZE, 0, Facts::from(&Attributes::of(FileType::Regular))));
        // A renewal is of the same lease.
        assert!(leasing.holding.renew(moment(Instant::now())).is_ok());
        leasing.on_answer(granted(Duration::from_secs(200)));
        assert!(leasing.time() == Duration::from_secs(190) && leasing.granted.as_ref().unwrap().facts.is_some());
        assert!(leasing.give_back() && leasing.lease(now).is_none());
        assert!(leasing.ask().is_some());
        leasing.on_answer(granted(Duration::from_secs(100)));
        assert!(leasing.granted.unwrap().facts.is_none(), "others may have changed the file in between");
    }

    #[test]
    fn a_lease_that_is_not_renewed_ends_as_one_that_is_recalled() {
        let told = |seconds| {
            let answer = LeaseAnswer::Granted { kind: LeaseKind::Write, time: Duration::from_secs(seconds) };
            LeaseTold { answer, local: true }
        };
        let mut leasing = Leasing::default();
        // Of a server that was started again with a shorter time, too.
        for (time, left) in [(300, 190), (150, 95)] {
            assert!(leasing.ask().is_some());
            leasing.on_answer(told(time));
            for renewed in [time, time - time / 8, time] {
                let now = moment(Instant::now());
                assert!(leasing.holding.may_keep_changes(now));
                assert!(leasing.holding.renew_at(leasing.time()).is_some_and(|at| at > now), "at most so often");
                assert!(leasing.holding.renew(now).is_ok());
                leasing.on_answer(told(renewed));
            }
            assert!(leasing.holding.renew(moment(Instant::now())).is_ok());
            leasing.on_answer(told(left));
            let now = moment(Instant::now());
            assert!(leasing.holding.is_recalled() && !leasing.holding.may_keep_changes(now), "it is not kept");
            assert!(leasing.holding.may_send_changes(now), "what was kept is sent");
            assert!(leasing.give_back());
        }
    }
}
