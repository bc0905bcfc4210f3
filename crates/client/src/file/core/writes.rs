//! Changes of an open file: sent without waiting, answered in order, kept until they are synced.

use super::super::unsynced::{Change, Unsynced};
use super::{Connection, Core, Reply, Sent, change_number, is_lost, lock, restarts};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError, TryLockError};
use xdfs_proto::base::Error;
use xdfs_proto::wire::file::{FileBatch, FileCall, LeaseCall};

/// A sync that nobody waits for, while more is written.
pub(super) struct PendingSync {
    /// It covers the changes up to this one.
    pub(super) last: u64,
    pub(super) sent: Sent,
}

/// A write that is to be sent.
#[derive(Clone, Copy)]
struct Write<'a> {
    offset: u64,
    data: &'a [u8],
    /// It was kept under a write lease, and is made under one or not at all.
    under: bool,
    /// Nobody waits for its answer: the program takes it for written.
    accepted: bool,
}

/// A write that was sent, or is made when its answer is waited for.
struct SentWrite {
    number: u64,
    change: Change,
    under: bool,
    accepted: bool,
    /// None if it could not be sent.
    sent: Option<Sent>,
}

/// Writes whose answers nobody has waited for yet.
type WriteQueue = VecDeque<SentWrite>;

/// Small writes that follow each other, sent as one.
struct Gathered {
    offset: u64,
    data: Vec<u8>,
    /// It is kept under a write lease.
    under: bool,
}

/// The calls that make a change, under the lease that it was kept under if it was.
fn calls_of(change: FileCall<'_>, under: bool) -> Vec<FileCall<'_>> {
    let under = under.then_some(FileCall::Lease(LeaseCall::Under));
    under.into_iter().chain([change]).collect()
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
    /// Memory of what was gathered before.
    memory: Vec<u8>,
    pub(super) syncing: Option<PendingSync>,
    /// Of a write that nobody was told of yet.
    failed: Option<Error>,
}

impl Behind {
    /// The next call that writes, locks, syncs or closes reports it, unless there is an earlier one.
    pub(super) fn fail(&mut self, error: Error) {
        self.failed.get_or_insert(error);
    }

    /// Nothing is on its way, and nothing waits to be.
    fn is_settled(&self) -> bool {
        self.sent.is_empty() && self.gathered.is_none()
    }
}

impl Core {
    pub(super) fn note(&self, change: &Change) -> u64 {
        self.changes().add();
        self.unsynced(|unsynced| unsynced.add(change.clone()))
    }

    /// Changes what is kept to be written again, and the sum of all files of the server.
    pub(super) fn unsynced<T>(&self, change: impl FnOnce(&mut Unsynced) -> T) -> T {
        self.counted(|connection| change(&mut connection.unsynced))
    }

    /// The same for what depends on the connection.
    pub(super) fn counted<T>(&self, change: impl FnOnce(&mut Connection) -> T) -> T {
        let mut connection = lock(&self.connection);
        let before = connection.unsynced.bytes();
        let outcome = change(&mut connection);
        self.remote.unsynced.fetch_add(connection.unsynced.bytes().wrapping_sub(before), Ordering::Relaxed);
        outcome
    }

    /// A change was made in this generation; false if the server of that is gone, and what it had was made again without this
    /// one.
    pub(super) fn note_made(&self, number: u64, change: &Change, generation: u64) -> bool {
        self.counted(|connection| {
            if generation < connection.server_since {
                return false;
            }
            connection.unsynced.made(number);
            connection.end = match change {
                Change::Write { offset, data } => connection.end.max(offset + data.len() as u64),
                Change::SetLength { length } => *length,
                Change::Allocate { offset, length, keep_size: false } => connection.end.max(offset + length),
                _ => connection.end,
            };
            if matches!(change, Change::Punch { .. }) && self.knows_end(connection) {
                connection.unsynced.end_hole(number, connection.end);
            }
            true
        })
    }

    /// Makes a change, and waits for its answer.
    pub(in crate::file) fn change(&self, change: &Change) -> Result<(), Error> {
        self.settle()?;
        let began = lock(&self.connection).generation;
        let mut number = self.note(change);
        let reply = self.exchange([0; 16], vec![change.call()]);
        if reply.as_ref().is_ok_and(|reply| reply.generation != began) {
            number = self.made_late(number);
        }
        self.make(number, change, false, Some(reply))?;
        self.hold_to_bounds()
    }

    /// A change was sent again: it may have been made behind what another thread changed meanwhile.
    fn made_late(&self, number: u64) -> u64 {
        self.unsynced(|unsynced| unsynced.again(number))
    }

    /// Makes a change that has a number, unless it was made already, with this outcome. Until one that counts is noted it is
    /// made again and again: those that its server had and lost are made again without it.
    fn make(
        &self,
        mut number: u64,
        change: &Change,
        under: bool,
        sent: Option<Result<Reply, Error>>,
    ) -> Result<(), Error> {
        let (mut outcome, backoff) = (sent, self.remote.backoff());
        loop {
            let reply = outcome.take().unwrap_or_else(|| {
                let reply = self.exchange([0; 16], calls_of(change.call(), under));
                number = self.made_late(number);
                reply
            });
            let told = reply.and_then(|Reply { answered, generation }| {
                self.answer(&answered, "write", change_number).map(|_| generation)
            });
            // What was requested while it was on its way may be older.
            self.changes().add();
            match told {
                Ok(generation) if self.note_made(number, change, generation) => return Ok(()),
                Ok(_) => backoff.try_at_once(&restarts()),
                Err(error) => Err(error),
            }
            .inspect_err(|_| self.unsynced(|unsynced| unsynced.remove(number)))?;
        }
    }

    /// Sends a write without waiting for its answer; the error may be one of an earlier write.
    pub(in crate::file) fn write_behind(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        {
            let mut behind = lock(&self.behind);
            self.report(&mut behind)?;
            self.send_gathered(&mut behind)?;
            self.send_behind(&mut behind.sent, Write { offset, data, under: false, accepted: true })?;
            self.sync_beside(&mut behind);
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
                let Behind { gathered, memory, .. } = &mut *behind;
                let gathered =
                    gathered.get_or_insert_with(|| Gathered { offset, data: std::mem::take(memory), under: false });
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
            self.sync_beside(&mut behind);
        }
        self.hold_to_bounds()
    }

    /// Sends what was gathered, and takes answers that have come; waits for nothing. Whether there is
    /// nothing more to wait for.
    pub(in crate::file) fn push(&self) -> bool {
        let Some(mut behind) = self.behind_now() else { return false };
        self.take_answers(&mut behind);
        if behind.sent.len() < self.long_calls_max()
            && !self.may_keep_changes()
            && let Err(error) = self.send_gathered(&mut behind)
        {
            behind.failed.get_or_insert(error);
        }
        behind.is_settled()
    }

    /// Whether the server does not have all of what was written, or nobody knows. Waits for nothing.
    pub(in crate::file) fn has_unwritten(&self) -> bool {
        self.behind_now().is_none_or(|behind| !behind.is_settled() || behind.failed.is_some())
    }

    /// Whether every write is known to be answered, well or not. Sends and waits for nothing.
    pub(in crate::file) fn is_settled(&self) -> bool {
        self.behind_now().is_some_and(|behind| behind.is_settled())
    }

    /// None while another thread writes, or waits for what it wrote.
    fn behind_now(&self) -> Option<MutexGuard<'_, Behind>> {
        match self.behind.try_lock() {
            Ok(behind) => Some(behind),
            Err(TryLockError::Poisoned(poisoned)) => Some(PoisonError::into_inner(poisoned)),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Sends what was kept under the write lease, and waits for nothing that is not sent: nothing is kept
    /// for longer than a part of the lease's time. Nor for another thread, which may wait for answers: false then.
    pub(super) fn send_kept(&self) -> bool {
        let Some(mut behind) = self.behind_now() else { return false };
        if let Err(error) = self.send_gathered(&mut behind) {
            behind.failed.get_or_insert(error);
        }
        true
    }

    /// The error that nobody was told of yet.
    fn report(&self, behind: &mut Behind) -> Result<(), Error> {
        behind.failed.take().map_or(Ok(()), Err)
    }

    fn send_gathered(&self, behind: &mut Behind) -> Result<(), Error> {
        match behind.gathered.take() {
            Some(Gathered { offset, mut data, under }) => {
                let outcome = self.send_behind(&mut behind.sent, Write { offset, data: &data, under, accepted: true });
                data.clear();
                behind.memory = data;
                outcome
            }
            None => Ok(()),
        }
    }

    fn send_behind(&self, queue: &mut WriteQueue, write: Write<'_>) -> Result<(), Error> {
        // Writes that are on their way have no order among them.
        if queue.iter().any(|one| one.change.overlaps(write.offset, write.data.len())) {
            self.settle_all(queue, Ok(())).inspect_err(|error| self.not_sent(write, error))?;
        }
        self.send_write(queue, write)
    }

    /// A write that follows one that failed is not sent: what was accepted of it is lost as well.
    fn not_sent(&self, write: Write<'_>, error: &Error) {
        if write.accepted {
            self.lose(error);
        }
    }

    /// Something that was taken for written is not: every sync says so from now on, and close.
    pub(in crate::file) fn lose(&self, error: &Error) {
        // The first one stays.
        let _ = self.lost.set(error.clone());
    }

    pub(super) fn must_have_lost_nothing(&self) -> Result<(), Error> {
        self.lost.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Why something that was taken for written is not.
    pub(in crate::file) fn lost(&self) -> Option<&Error> {
        self.lost.get()
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

    /// Makes writes in their order, and waits for the answers to them: to these and to no others,
    /// since each thread that writes is to learn what became of its own.
    pub(in crate::file) fn write_all<'a>(&self, writes: impl Iterator<Item = (u64, &'a [u8])>) -> Result<(), Error> {
        self.settle()?;
        let mut own = WriteQueue::new();
        let mut sent = Ok(());
        for (offset, data) in writes {
            sent = self.send_behind(&mut own, Write { offset, data, under: false, accepted: false });
            if sent.is_err() {
                break;
            }
        }
        self.settle_all(&mut own, sent)?;
        self.hold_to_bounds()
    }

    /// Sends a write, and waits for the first of those before it if there are many.
    fn send_write(&self, queue: &mut WriteQueue, write: Write<'_>) -> Result<(), Error> {
        let (number, change, sent) = self.start_write(write);
        let Write { under, accepted, .. } = write;
        queue.push_back(SentWrite { number, change, under, accepted, sent });
        let early = if queue.len() > self.long_calls_max() { queue.pop_front() } else { None };
        early.map_or(Ok(()), |early| self.settle_one(early, None))
    }

    /// Sends a write if there is a session; what is kept of it is the payload that is sent, not a copy.
    fn start_write(&self, Write { offset, data, under, .. }: Write<'_>) -> (u64, Change, Option<Sent>) {
        let encoded = self.current().and_then(|(session, handle, generation)| {
            let calls = calls_of(FileCall::Write { offset, data }, under);
            let batch = FileBatch { unordered: true, handle, calls, ..FileBatch::default() };
            let (payload, facts) = session.encode_file(batch, self.remote.writes.memory(data.len()))?;
            Ok((session, generation, self.remote.writes.payload(payload), facts))
        });
        match encoded {
            Ok((session, generation, payload, facts)) => {
                let data = payload.slice(payload.len() - data.len()..);
                let change = Change::Write { offset, data };
                let number = self.note(&change);
                (number, change, self.send_encoded(&session, generation, payload, facts).ok())
            }
            Err(_) => {
                let change = Change::Write { offset, data: Bytes::copy_from_slice(data) };
                (self.note(&change), change, None)
            }
        }
    }

    /// Waits for the answer to a write. Without one it is made again, unless the server was `lost` for
    /// longer than this end waits.
    fn settle_one(&self, write: SentWrite, lost: Option<&Error>) -> Result<(), Error> {
        let SentWrite { number, change, under, accepted, sent } = write;
        let outcome = match (sent.map(|sent| self.wait(sent)), lost) {
            (Some(Ok(reply)), _) => Some(Ok(reply)),
            (_, Some(lost)) => Some(Err(lost.clone())),
            (_, None) => None,
        };
        self.make(number, &change, under, outcome).inspect_err(|error| {
            if accepted {
                self.lose(error);
            }
        })
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

    /// The error that the next such call reports, or that every sync does.
    pub(in crate::file) fn write_error(&self) -> Option<Error> {
        lock(&self.behind).failed.clone().or_else(|| self.lost.get().cloned())
    }

    fn settle_behind(&self, behind: &mut Behind) -> Result<(), Error> {
        let told = self.report(behind).and_then(|()| self.send_gathered(behind));
        (behind.gathered, behind.memory) = (None, Vec::new());
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
}
