//! Chooses the next job of a pool: fair by the time that was spent on each user, bounded for each
//! export. It knows no thread, no clock and no file; its caller passes in the time
//! (docs/decisions/0010-scheduler.md).

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How long a job runs before it yields to another, if it can be sliced.
pub const SLICE: Duration = Duration::from_millis(10);
/// The most by which a user's served time may differ from the others': a user cannot save up time
/// that was not requested or could not be served, and a call that took a minute does not block its
/// user for a minute.
pub const LAG_MAX: Duration = Duration::from_millis(250);
/// Users without jobs here who are remembered because they were served more than others. More occur
/// only with very many addresses; each of those gets a quarter of a second before its turn.
const REMEMBERED_MAX: usize = 256;

/// The user of a job and its storage: an export of the server, or the local side of a client.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct QuotaClass {
    /// The user as the server names it; empty on a client.
    pub user: Arc<str>,
    /// The export's number; 0 for everything else.
    pub export: u32,
}

/// The limits of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Limits {
    /// Jobs that run at a time, including those that wait for storage.
    pub running: usize,
    /// The number of them that use a core. If there are several, one is reserved from a user who
    /// has all the others.
    pub active: usize,
    /// A job that has run this long is waiting for storage and uses no core.
    pub active_for: Duration,
    /// Whether an export takes no more than half of the remaining places, so that an export that
    /// hangs leaves places to the others, and a user whose jobs wait for storage leaves places to
    /// other users of the same export.
    pub divided: bool,
    /// Jobs of one user that may wait.
    pub waiting: usize,
}

/// What the pool must do now.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ScheduleStep<T> {
    /// Run this job.
    Run(Ticket, T),
    /// Nothing before this time, unless a job ends or arrives.
    At(Duration),
    /// Nothing, until a job ends or arrives.
    Nothing,
}

/// Identifies a running job.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket(u64);

/// Decides which job of a pool runs next: fair by time per user, bounded per export.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scheduler<T> {
    limits: Limits,
    /// Users who have jobs here, or were served more than the others.
    users: BTreeMap<Arc<str>, UserQueue<T>>,
    running: Vec<Running>,
    /// Served time of the user who was chosen last.
    clock: Duration,
    /// Jobs that were started.
    started: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct UserQueue<T> {
    served: Duration,
    /// Number of the last job that was started.
    last: u64,
    /// By export; none is empty.
    queues: BTreeMap<u32, Queue<T>>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Queue<T> {
    last: u64,
    jobs: VecDeque<T>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Running {
    ticket: Ticket,
    share: QuotaClass,
    since: Duration,
}

impl<T> UserQueue<T> {
    fn waiting(&self) -> usize {
        self.queues.values().map(|queue| queue.jobs.len()).sum()
    }
}

impl<T> Scheduler<T> {
    /// A scheduler without jobs.
    pub fn new(limits: Limits) -> Self {
        Self { limits, users: BTreeMap::new(), running: Vec::new(), clock: Duration::ZERO, started: 0 }
    }

    /// Queues a job behind the others of its share. Returns the job if too many of its user are
    /// waiting.
    pub fn push(&mut self, share: &QuotaClass, job: T) -> Result<(), T> {
        if self.users.get(&share.user).is_some_and(|user| user.waiting() >= self.limits.waiting) {
            return Err(job);
        }
        self.put_back(share, job);
        Ok(())
    }

    /// The same for a job that was accepted before and is not complete: it always has a place.
    pub fn put_back(&mut self, share: &QuotaClass, job: T) {
        let (clock, last) = (self.clock, self.started);
        let newcomer = || UserQueue { served: clock, last, queues: BTreeMap::new() };
        let user = self.users.entry(Arc::clone(&share.user)).or_insert_with(newcomer);
        let queue = user.queues.entry(share.export).or_insert_with(|| Queue { last, jobs: VecDeque::new() });
        queue.jobs.push_back(job);
    }

    /// The next step at the time `now`, which never goes back.
    pub fn next(&mut self, now: Duration) -> ScheduleStep<T> {
        if self.running.len() >= self.limits.running {
            return ScheduleStep::Nothing;
        }
        let until = |running: &Running| running.since.saturating_add(self.limits.active_for);
        let active = || self.running.iter().map(until).filter(|until| *until > now);
        let room = active().count() < self.limits.active;
        let first = active().min().filter(|_| self.waiting() > 0);
        let started = self.choose(now).filter(|_| room).and_then(|share| self.start(share, now));
        match (started, first) {
            (Some((ticket, job)), _) => ScheduleStep::Run(ticket, job),
            (None, Some(until)) => ScheduleStep::At(until),
            (None, None) => ScheduleStep::Nothing,
        }
    }

    /// A job yielded, or is complete; `again` holds what is left of it.
    pub fn on_end(&mut self, ticket: Ticket, now: Duration, again: Option<T>) {
        let Some(index) = self.running.iter().position(|one| one.ticket == ticket) else { return };
        let Running { share, since, .. } = self.running.swap_remove(index);
        if let Some(user) = self.users.get_mut(&share.user) {
            // A slice was counted when it began.
            let served = (user.served + now.saturating_sub(since)).saturating_sub(SLICE);
            user.served = served.min(self.clock + LAG_MAX);
        }
        if let Some(job) = again {
            self.put_back(&share, job);
        }
        self.forget_idle();
    }

    /// Number of waiting jobs.
    pub fn waiting(&self) -> usize {
        self.users.values().map(UserQueue::waiting).sum()
    }

    /// Number of running jobs.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Of the users with a job that may run, the one who was served least; of that user's exports,
    /// the one served least recently.
    fn choose(&self, now: Duration) -> Option<QuotaClass> {
        let floor = self.clock.saturating_sub(LAG_MAX);
        let least = |(name, user): (&Arc<str>, &UserQueue<T>)| {
            let share = |export: &u32| QuotaClass { user: Arc::clone(name), export: *export };
            let admitted = user.queues.iter().filter(|(export, _)| self.admits(&share(export), now));
            let (export, _) = admitted.min_by_key(|(_, queue)| queue.last)?;
            Some(((user.served.max(floor), user.last), share(export)))
        };
        self.users.iter().filter_map(least).min_by_key(|(key, _)| *key).map(|(_, share)| share)
    }

    /// Whether one more job of the share may run.
    fn admits(&self, share: &QuotaClass, now: Duration) -> bool {
        if !self.limits.divided {
            return true;
        }
        let waits = |one: &Running| now.saturating_sub(one.since) >= self.limits.active_for;
        let his = || self.running.iter().filter(|one| one.share.user == share.user);
        if his().filter(|one| !waits(one)).count() >= (self.limits.active - 1).max(1) {
            return false;
        }
        let here = self.running.iter().filter(|one| one.share.export == share.export).count();
        let waiting = his().filter(|one| one.share.export == share.export && waits(one)).count();
        let free = self.limits.running - self.running.len();
        // A single free place goes to the first job.
        here < free && here + waiting < self.limits.running.div_ceil(2)
    }

    fn start(&mut self, share: QuotaClass, now: Duration) -> Option<(Ticket, T)> {
        let user = self.users.get_mut(&share.user)?;
        let queue = user.queues.get_mut(&share.export)?;
        let job = queue.jobs.pop_front()?;
        self.started += 1;
        (user.last, queue.last) = (self.started, self.started);
        if queue.jobs.is_empty() {
            user.queues.remove(&share.export);
        }
        let served = user.served.max(self.clock.saturating_sub(LAG_MAX));
        self.clock = self.clock.max(served);
        user.served = served + SLICE;
        let ticket = Ticket(self.started);
        self.running.push(Running { ticket, share, since: now });
        Some((ticket, job))
    }

    /// A user without jobs here who was served no more than others is forgotten, and is a newcomer
    /// on return.
    fn forget_idle(&mut self) {
        let (clock, running) = (self.clock, &self.running);
        if running.is_empty() && self.users.values().all(|user| user.queues.is_empty()) {
            return self.users.clear();
        }
        let many = self.users.len() > REMEMBERED_MAX;
        self.users.retain(|name, user| {
            let at_work = !user.queues.is_empty() || running.iter().any(|one| one.share.user == *name);
            at_work || (user.served > clock && !many)
        });
    }
}
