//! Which job of a pool runs next: fair by the time that was spent on each user, bounded for each export. It knows no thread, no
//! clock and no file; whoever runs the jobs tells it the time (docs/decisions/0010-scheduler.md).

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How long a job runs before it gives way to another, if it can be cut.
pub const SLICE: Duration = Duration::from_millis(10);
/// A user who was served more or less than the others is that far from them at most: what was not asked for, or could not be done,
/// cannot be asked for later at once, and a call that took a minute does not keep its user waiting for one.
pub const LAG_MAX: Duration = Duration::from_millis(250);
/// Users who have nothing here and are remembered because they were served more than others. More come only from very many
/// addresses; each of those gets a quarter of a second before its turn.
const REMEMBERED_MAX: usize = 256;

/// Whose job it is, and on which storage: an export of the server, or the local side of a client.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct QuotaClass {
    /// The user as the server names him; nobody in particular on a client.
    pub user: Arc<str>,
    /// The export's number; 0 is everything else.
    pub export: u32,
}

/// What a pool may have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Limits {
    /// Jobs that run at a time, those included that wait for storage.
    pub running: usize,
    /// Those of them that use a core. Where there are several, one is not for a user who has all the others.
    pub active: usize,
    /// A job that has run so long waits for storage, and uses no core.
    pub active_for: Duration,
    /// Whether an export takes no more than half of what is left, so that one which hangs leaves places to the others, and a user
    /// whose jobs wait for storage leaves places to those of others on the same export.
    pub divided: bool,
    /// Jobs of one user that may wait.
    pub waiting: usize,
}

/// What is to be done now.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ScheduleStep<T> {
    /// Run this job.
    Run(Ticket, T),
    /// Nothing before this time, if no job ends and none comes.
    At(Duration),
    /// Nothing, until a job ends or comes.
    Nothing,
}

/// Names a job that runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket(u64);

/// Decides which job of a pool runs next: fair by time per user, bounded per export.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scheduler<T> {
    limits: Limits,
    /// Those who have something to do here, or were served more than the others.
    users: BTreeMap<Arc<str>, UserQueue<T>>,
    running: Vec<Running>,
    /// Time that the user had been served who was chosen last.
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
    /// Nothing runs and nothing waits.
    pub fn new(limits: Limits) -> Self {
        Self { limits, users: BTreeMap::new(), running: Vec::new(), clock: Duration::ZERO, started: 0 }
    }

    /// Takes a job, behind the others of its share. It comes back where too many of its user wait.
    pub fn push(&mut self, share: &QuotaClass, job: T) -> Result<(), T> {
        if self.users.get(&share.user).is_some_and(|user| user.waiting() >= self.limits.waiting) {
            return Err(job);
        }
        self.put_back(share, job);
        Ok(())
    }

    /// The same for a job that was taken once and is not done: it has its place.
    pub fn put_back(&mut self, share: &QuotaClass, job: T) {
        let (clock, last) = (self.clock, self.started);
        let newcomer = || UserQueue { served: clock, last, queues: BTreeMap::new() };
        let user = self.users.entry(Arc::clone(&share.user)).or_insert_with(newcomer);
        let queue = user.queues.entry(share.export).or_insert_with(|| Queue { last, jobs: VecDeque::new() });
        queue.jobs.push_back(job);
    }

    /// What is to be done at the time `now`, which never goes back.
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

    /// A job gave way, or is done; `again` where something of it is left.
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

    /// Jobs that wait.
    pub fn waiting(&self) -> usize {
        self.users.values().map(UserQueue::waiting).sum()
    }

    /// Jobs that run.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Of the users who have a job that may run the one who was served least, and of his exports the one whose turn is longest ago.
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
        // Where there is one place, it is for whoever comes first.
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

    /// Whoever has nothing here and was served no more than others is a newcomer when he comes again.
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
