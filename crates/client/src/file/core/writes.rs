//! Changes of an open file: sent without waiting, answered in order, kept until they are synced.

use super::super::unsynced::{Change, Unsynced};
use super::{Answered, Core, Sent, change_number, is_lost, lock};
use bytes::BytesMut;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, TryLockError};
use xdfs_proto::base::Error;
use xdfs_proto::wire::file::{FileCall, LeaseCall};

/// What is kept to be written again; from there on a write waits for a sync. All files of a server have a bound
/// together, too: a mount may have thousands of them open.
const UNSYNCED_BYTES_MAX: usize = 64 << 20;

/// Writes that are on their way before the next one waits.
const BEHIND_MAX: usize = 24;

/// A write that was sent, unless that failed.
struct SentWrite {
    number: u64,
    change: Change,
    /// It was kept under a write lease, and is made under one or not at all.
    under: bool,
    sent: Option<Sent>,
}

/// Writes whose answers nobody has waited for yet.
type WriteQueue = VecDeque<SentWrite>;

/// Small writes that follow each other, sent as one.
struct Gathered {
    offset: u64,
    data: BytesMut,
    /// It is kept under a write lease.
    under: bool,
}

/// The calls that make a change, under the lease that it was kept under if it was.
fn calls_of(change: &Change, under: bool) -> Vec<FileCall<'_>> {
    let under = under.then_some(FileCall::Lease(LeaseCall::Under));
    under.into_iter().chain([change.call()]).collect()
}

impl Gathered {
    fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }
}

/// Writes behind whoever made them.
#[derive(Default)]
pub(super) struct Behind {
    sent: WriteQueue,
    /// Behind all of those.
    gathered: Option<Gathered>,
    /// Of a write that nobody was told of yet.
    failed: Option<Error>,
}

impl Core {
    pub(super) fn note(&self, change: &Change) -> u64 {
        self.changes().add();
        self.unsynced(|unsynced| unsynced.add(change.clone()))
    }

    /// Changes what is kept to be written again, and the sum of all files of the server.
    pub(super) fn unsynced<T>(&self, change: impl FnOnce(&mut Unsynced) -> T) -> T {
        let unsynced = &mut lock(&self.connection).unsynced;
        let before = unsynced.bytes();
        let outcome = change(unsynced);
        self.remote.unsynced.fetch_add(unsynced.bytes().wrapping_sub(before), Ordering::Relaxed);
        outcome
    }

    pub(super) fn noted(&self, number: u64, change: &Change, outcome: Result<u64, Error>) -> Result<(), Error> {
        // What was requested while it was on its way may be older.
        self.changes().add();
        match outcome {
            Ok(_) => {
                let mut connection = lock(&self.connection);
                connection.unsynced.made(number);
                connection.end = match change {
                    Change::Write { offset, data } => connection.end.max(offset + data.len() as u64),
                    Change::SetLength { length } => *length,
                    Change::Allocate { offset, length, keep_size: false } => connection.end.max(offset + length),
                    _ => connection.end,
                };
                Ok(())
            }
            Err(error) => {
                self.unsynced(|unsynced| unsynced.remove(number));
                Err(error)
            }
        }
    }

    /// Makes a change, and waits for its answer.
    pub(in crate::file) fn change(&self, change: &Change) -> Result<(), Error> {
        self.settle()?;
        let number = self.note(change);
        let answered = self.exchange([0; 16], vec![change.call()]);
        self.changed(number, change, answered)?;
        self.hold_to_bounds()
    }

    fn changed(&self, number: u64, change: &Change, answered: Result<Answered, Error>) -> Result<(), Error> {
        let told = answered.and_then(|answered| self.answer(&answered, "write", change_number));
        self.noted(number, change, told)
    }

    /// Sends a write without waiting for its answer; the error may be one of an earlier write.
    pub(in crate::file) fn write_behind(&self, change: Change) -> Result<(), Error> {
        {
            let mut behind = lock(&self.behind);
            self.report(&mut behind)?;
            self.send_gathered(&mut behind)?;
            self.send_behind(&mut behind.sent, change, false)?;
        }
        self.hold_to_bounds()
    }

    /// The same for writes that may be small: as long as there is no answer to those before it, a write is
    /// gathered with others that follow it. [`Self::push`] sends what was gathered.
    pub(in crate::file) fn gather(&self, mut offset: u64, mut data: &[u8]) -> Result<(), Error> {
        {
            let mut behind = lock(&self.behind);
            self.take_answers(&mut behind);
            self.report(&mut behind)?;
            let (most, keep) = (self.chunk(), self.may_keep_changes());
            while !data.is_empty() {
                if behind.gathered.as_ref().is_some_and(|gathered| gathered.end() != offset) {
                    self.send_gathered(&mut behind)?;
                }
                let gathered =
                    behind.gathered.get_or_insert_with(|| Gathered { offset, data: BytesMut::new(), under: false });
                gathered.under |= keep;
                let (part, rest) = data.split_at(data.len().min(most.saturating_sub(gathered.data.len())));
                gathered.data.extend_from_slice(part);
                (offset, data) = (offset + part.len() as u64, rest);
                if gathered.data.len() >= most {
                    self.send_gathered(&mut behind)?;
                }
            }
            if behind.sent.is_empty() && !keep {
                self.send_gathered(&mut behind)?;
            }
        }
        self.hold_to_bounds()
    }

    /// Sends what was gathered, and takes answers that have come; waits for nothing. Whether there is
    /// nothing more to wait for.
    pub(in crate::file) fn push(&self) -> bool {
        let mut behind = match self.behind.try_lock() {
            Ok(behind) => behind,
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            // Whoever has it writes, or waits.
            Err(TryLockError::WouldBlock) => return false,
        };
        self.take_answers(&mut behind);
        if behind.sent.len() < BEHIND_MAX
            && !self.may_keep_changes()
            && let Err(error) = self.send_gathered(&mut behind)
        {
            behind.failed.get_or_insert(error);
        }
        behind.sent.is_empty() && behind.gathered.is_none()
    }

    /// Whether the server does not have all of what was written, or nobody knows. Waits for nothing.
    pub(in crate::file) fn has_unwritten(&self) -> bool {
        let behind = match self.behind.try_lock() {
            Ok(behind) => behind,
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            Err(TryLockError::WouldBlock) => return true,
        };
        !behind.sent.is_empty() || behind.gathered.is_some() || behind.failed.is_some()
    }

    /// Sends what was kept under the write lease, and waits for nothing that is not sent: nothing is kept
    /// for longer than a part of the lease's time.
    pub(in crate::file) fn send_kept(&self) {
        let mut behind = lock(&self.behind);
        if let Err(error) = self.send_gathered(&mut behind) {
            behind.failed.get_or_insert(error);
        }
    }

    /// The error that nobody was told of yet.
    fn report(&self, behind: &mut Behind) -> Result<(), Error> {
        behind.failed.take().map_or(Ok(()), Err)
    }

    fn send_gathered(&self, behind: &mut Behind) -> Result<(), Error> {
        match behind.gathered.take() {
            Some(Gathered { offset, data, under }) => {
                self.send_behind(&mut behind.sent, Change::Write { offset, data: data.freeze() }, under)
            }
            None => Ok(()),
        }
    }

    fn send_behind(&self, queue: &mut WriteQueue, change: Change, under: bool) -> Result<(), Error> {
        // Writes that are on their way have no order among them.
        if queue.iter().any(|one| one.change.overlaps(&change)) {
            self.settle_all(queue, Ok(()))?;
        }
        self.send_write(queue, change, under)
    }

    /// Takes the answers that have come, up to the first that has not.
    fn take_answers(&self, behind: &mut Behind) {
        let has_come = |one: &mut SentWrite| one.sent.as_mut().is_some_and(|sent| sent.pending.has_come());
        while behind.sent.front_mut().is_some_and(has_come) {
            let Some(one) = behind.sent.pop_front() else { return };
            if let Err(error) = self.settle_one(one, None) {
                behind.failed.get_or_insert(error);
            }
        }
    }

    /// Makes writes that do not overlap, and waits for the answers to them: to these and to no others,
    /// since each thread that writes is to learn what became of its own.
    pub(in crate::file) fn write_all(&self, changes: impl Iterator<Item = Change>) -> Result<(), Error> {
        self.settle()?;
        let mut own = WriteQueue::new();
        let mut sent = Ok(());
        for change in changes {
            sent = self.send_write(&mut own, change, false);
            if sent.is_err() {
                break;
            }
        }
        self.settle_all(&mut own, sent)?;
        self.hold_to_bounds()
    }

    /// Sends a write, and waits for the first of those before it if there are many.
    fn send_write(&self, queue: &mut WriteQueue, change: Change, under: bool) -> Result<(), Error> {
        let number = self.note(&change);
        let sent = self.start(calls_of(&change, under));
        queue.push_back(SentWrite { number, change, under, sent });
        let early = if queue.len() > BEHIND_MAX { queue.pop_front() } else { None };
        early.map_or(Ok(()), |early| self.settle_one(early, None))
    }

    /// Waits for the answer to a write. Without one it is made again, unless the server was `lost` for
    /// longer than this end waits.
    fn settle_one(&self, write: SentWrite, lost: Option<&Error>) -> Result<(), Error> {
        let SentWrite { number, change, under, sent } = write;
        let answered = match (sent.map(|sent| self.wait(sent)), lost) {
            (Some(Ok(answered)), _) => Ok(answered),
            (_, Some(lost)) => Err(lost.clone()),
            (_, None) => self.exchange([0; 16], calls_of(&change, under)),
        };
        self.changed(number, &change, answered)
    }

    /// Waits for the answers to all writes behind; returns the first error.
    pub(in crate::file) fn settle(&self) -> Result<(), Error> {
        self.settle_behind(&mut lock(&self.behind))
    }

    /// The same; an error is kept for the next call that writes, locks, syncs or closes.
    pub(in crate::file) fn settle_quietly(&self) {
        let mut behind = lock(&self.behind);
        behind.failed = self.settle_behind(&mut behind).err();
    }

    /// The error that the next such call reports.
    pub(in crate::file) fn write_error(&self) -> Option<Error> {
        lock(&self.behind).failed.clone()
    }

    fn settle_behind(&self, behind: &mut Behind) -> Result<(), Error> {
        let told = self.report(behind).and_then(|()| self.send_gathered(behind));
        behind.gathered = None;
        self.settle_all(&mut behind.sent, told)
    }

    /// The same for the writes of a queue, of which one may have failed.
    fn settle_all(&self, queue: &mut WriteQueue, mut first: Result<(), Error>) -> Result<(), Error> {
        let mut lost = first.as_ref().err().filter(|error| is_lost(error)).cloned();
        loop {
            let Some(one) = queue.pop_front() else { return first };
            let settled = self.settle_one(one, lost.as_ref());
            if let Err(error) = &settled {
                lost = lost.or_else(|| is_lost(error).then(|| error.clone()));
            }
            first = first.and(settled);
        }
    }

    pub(super) fn hold_to_bounds(&self) -> Result<(), Error> {
        let own = lock(&self.connection).unsynced.bytes();
        let all = self.remote.unsynced.load(Ordering::Relaxed);
        let many = own > UNSYNCED_BYTES_MAX || (own > 0 && all > self.remote.memory());
        if many { self.sync(true) } else { Ok(()) }
    }
}
