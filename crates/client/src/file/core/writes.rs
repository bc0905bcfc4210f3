//! Changes of an open file: sent without waiting, answered in order, kept until they are synced.

use super::super::unsynced::{Change, Unsynced};
use super::{Answered, Core, Sent, change_number, is_lost, lock};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use xdfs_proto::base::Error;

/// What is kept to be written again; from there on a write waits for a sync.
const UNSYNCED_BYTES_MAX: usize = 64 << 20;
/// The same for all files of a server: a mount may have thousands of them open.
const UNSYNCED_SUM_MAX: usize = 256 << 20;

/// Writes that are on their way before the next one waits.
const BEHIND_MAX: usize = 24;

/// A write that was sent, unless that failed.
pub(super) struct Behind {
    number: u64,
    change: Change,
    sent: Option<Sent>,
}

/// Writes whose answers nobody has waited for yet.
pub(super) type WriteQueue = VecDeque<Behind>;

impl Core {
    pub(super) fn note(&self, change: &Change) -> u64 {
        self.begin_epoch();
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

    /// Sends a write without waiting for its answer; one of an earlier write may be an error.
    pub(in crate::file) fn write_behind(&self, change: Change) -> Result<(), Error> {
        {
            let mut behind = lock(&self.behind);
            // Writes that are on their way have no order among them.
            if behind.iter().any(|one| one.change.overlaps(&change)) {
                self.settle_all(&mut behind, Ok(()))?;
            }
            self.send_write(&mut behind, change)?;
        }
        self.hold_to_bounds()
    }

    /// Makes writes that do not overlap, and waits for the answers to them: to these and to no others,
    /// since each thread that writes is to learn what became of its own.
    pub(in crate::file) fn write_all(&self, changes: impl Iterator<Item = Change>) -> Result<(), Error> {
        self.settle()?;
        let mut own = WriteQueue::new();
        let mut sent = Ok(());
        for change in changes {
            sent = self.send_write(&mut own, change);
            if sent.is_err() {
                break;
            }
        }
        self.settle_all(&mut own, sent)?;
        self.hold_to_bounds()
    }

    /// Sends a write, and waits for the first of those before it if there are many.
    fn send_write(&self, queue: &mut WriteQueue, change: Change) -> Result<(), Error> {
        let number = self.note(&change);
        let sent = self.start(vec![change.call()]);
        queue.push_back(Behind { number, change, sent });
        let early = if queue.len() > BEHIND_MAX { queue.pop_front() } else { None };
        early.map_or(Ok(()), |early| self.settle_one(early, None))
    }

    /// Waits for the answer to a write. Without one it is made again, unless the server was `lost` for
    /// longer than this end waits.
    fn settle_one(&self, behind: Behind, lost: Option<&Error>) -> Result<(), Error> {
        let Behind { number, change, sent } = behind;
        let answered = match (sent.map(|sent| self.wait(sent)), lost) {
            (Some(Ok(answered)), _) => Ok(answered),
            (_, Some(lost)) => Err(lost.clone()),
            (_, None) => self.exchange([0; 16], vec![change.call()]),
        };
        self.changed(number, &change, answered)
    }

    /// Waits for the answers to all writes that were sent behind; returns the first error.
    pub(in crate::file) fn settle(&self) -> Result<(), Error> {
        self.settle_all(&mut lock(&self.behind), Ok(()))
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
        let many = own > UNSYNCED_BYTES_MAX || (own > 0 && all > UNSYNCED_SUM_MAX);
        if many { self.sync(true) } else { Ok(()) }
    }
}
