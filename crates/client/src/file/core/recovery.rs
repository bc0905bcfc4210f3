//! An open file whose session was lost, or whose name changed: opened again, if it is still as it was
//! left.

use super::super::batches::PendingFileReply;
use super::super::remote::Remote;
use super::super::unsynced::Change;
use super::syncs::verifier_of;
use super::{Core, FRAME_BYTES, change_number, change_told, lock, open_with};
use crate::retry::{Backoff, is_lost};
use crate::session::Session;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::limits;
use xdfs_proto::wire::file::{FileBatch, FileCall, OpenedFile};
use xdfs_proto::wire::path::Wanted;

/// What became of the last recovery.
pub(super) enum Recovery {
    /// It came to its end, or there was none.
    Done,
    /// It opened this handle and did not come to its end: the next one has the server close it first.
    Begun(u64),
    /// The file cannot be used any more.
    Failed(Error),
}

impl Recovery {
    /// The handle of one that did not come to its end, which whoever calls closes.
    pub(super) fn take_handle(&mut self) -> Option<u64> {
        match *self {
            Self::Begun(handle) => {
                *self = Self::Done;
                Some(handle)
            }
            Self::Done | Self::Failed(_) => None,
        }
    }
}

/// Changes that follow each other and are made by one batch, and the range that they concern.
struct WriteBatch<'a> {
    changes: &'a [Change],
    from: u64,
    to: u64,
}

impl WriteBatch<'_> {
    fn overlaps(&self, other: &Self) -> bool {
        self.from < other.to && other.from < self.to
    }
}

/// The changes in batches whose data fits into `room`, or that are of one change.
fn write_batches(changes: &[Change], room: usize) -> impl Iterator<Item = WriteBatch<'_>> {
    let mut rest = changes;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |change: &&Change| {
            bytes += change.bytes();
            bytes <= room
        };
        let count = rest.iter().take(limits::CALLS_MAX).take_while(fits).count().max(1);
        let (changes, behind) = rest.split_at_checked(count)?;
        rest = behind;
        let ranges = || changes.iter().map(Change::range);
        Some(WriteBatch {
            changes,
            from: ranges().map(|range| range.start).min().unwrap_or_default(),
            to: ranges().map(|range| range.end).max().unwrap_or_default(),
        })
    })
}

impl Core {
    pub(super) fn reconnect(remote: &Remote, backoff: &mut Backoff) -> Result<Arc<Session>, Error> {
        let may_come_back = |error: &Error| remote.may_retry(error) || error.kind == ErrorKind::ConnectionLost;
        backoff.retry_call(may_come_back, || remote.session())
    }

    /// Opens the file again in the present session, unless another thread did it meanwhile, and makes
    /// again what may be lost.
    pub(super) fn recover(&self, generation: u64, backoff: &mut Backoff) -> Result<(), Error> {
        let _turn = lock(&self.recovering);
        {
            let connection = lock(&self.connection);
            if connection.generation != generation {
                return Ok(());
            }
            // Another thread found out meanwhile.
            if let Recovery::Failed(error) = &connection.recovery {
                return Err(error.clone());
            }
        }
        let is_closed = || self.closed.load(Ordering::SeqCst);
        loop {
            if is_closed() {
                self.close_tried();
                return Err(Error::new(ErrorKind::Stale, "the file is closed"));
            }
            let session = Self::reconnect(&self.remote, backoff)?;
            let error = match self.open_again(&session, backoff) {
                // It was closed meanwhile, in the session before.
                Ok(()) if is_closed() => {
                    drop(self.start_close());
                    return Ok(());
                }
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if is_lost(&error) {
                self.remote.lost(&session);
            }
            if is_closed() {
                self.close_tried();
                return Err(error);
            }
            // Another client may have it open in a way that excludes this one.
            if !self.remote.may_retry(&error) && error.kind != ErrorKind::Locked {
                let tried = {
                    let mut connection = lock(&self.connection);
                    let tried = connection.recovery.take_handle();
                    connection.recovery = Recovery::Failed(error.clone());
                    tried
                };
                self.close_handle(tried);
                return Err(error);
            }
            backoff.wait(error)?;
        }
    }

    fn open_again(&self, session: &Arc<Session>, backoff: &mut Backoff) -> Result<(), Error> {
        let (last, tried) = {
            let connection = lock(&self.connection);
            let tried = match connection.recovery {
                Recovery::Begun(handle) => Some(handle),
                Recovery::Done | Recovery::Failed(_) => None,
            };
            (connection.opened, tried)
        };
        // What an earlier attempt had on its way must not be executed behind what follows.
        let before = OpenedFile { handle: tried.unwrap_or(last.handle), ..last };
        let path = self.path();
        let calls = vec![FileCall::Open(self.options.again(&path, &before))];
        let mut opened = open_with(session, FileBatch { calls, ..FileBatch::default() }, &path)?;
        self.remote.opened_in(session, opened.verifier);
        lock(&self.connection).recovery = Recovery::Begun(opened.handle);
        self.lease_again(session, [tried, Some(last.handle)], opened.handle);
        if self.lock_again(session, opened.handle)? {
            // Whoever had the lock meanwhile may have changed the file.
            opened.change = self.persistently(backoff, || self.change_now(session, opened.handle))?;
        }
        let lost = self.to_be_made_again(&opened)?;
        self.sync_before_others(session, &mut opened, backoff)?;
        let last = self.persistently(backoff, || self.make_again(session, &opened, &lost))?;
        let mut connection = lock(&self.connection);
        (connection.session, connection.opened, connection.path) = (Arc::clone(session), opened, path);
        (connection.change, connection.in_flight, connection.recovery) = (last, 0, Recovery::Done);
        connection.generation += 1;
        drop(connection);
        self.changes().add();
        Ok(())
    }

    /// Of a server that is still there, and where somebody else may have changed the file meanwhile: what was made is on stable
    /// storage before that is accepted. Made again later, it would go over it.
    fn sync_before_others(
        &self,
        session: &Session,
        opened: &mut OpenedFile,
        backoff: &mut Backoff,
    ) -> Result<(), Error> {
        let (last, before) = {
            let connection = lock(&self.connection);
            let is_same = connection.opened.verifier == opened.verifier;
            if !is_same || connection.change == opened.change || connection.unsynced.is_empty() {
                return Ok(());
            }
            (connection.unsynced.last_made(), connection.change)
        };
        let calls = vec![FileCall::Sync { data_only: true }];
        let synced = self.persistently(backoff, || {
            let answered = session.call_file(Self::batch_of(opened.handle, calls.clone()))?.wait()?;
            self.answer(&answered, "sync", verifier_of)
        });
        match synced {
            Ok(_) => self.unsynced(|unsynced| unsynced.synced(last)),
            Err(error) if is_lost(&error) => return Err(error),
            // The next sync tells it. What is there is not accepted.
            Err(_) => opened.change = before,
        }
        Ok(())
    }

    /// The file's change number, in a session that is not the present one yet.
    fn change_now(&self, session: &Session, handle: u64) -> Result<u64, Error> {
        let calls = vec![FileCall::Attributes { wanted: Wanted::CHANGE }];
        let answered = session.call_file(Self::batch_of(handle, calls))?.wait()?;
        self.answer(&answered, "look at", change_told)
    }

    /// Nobody uses the file any more, and it is not opened again. A recovery that was begun and not ended may have cut the file,
    /// and not have written again what was in it: that is done before.
    pub(super) fn end_recoveries(&self, backoff: &mut Backoff) -> Result<(), Error> {
        loop {
            let generation = {
                let connection = lock(&self.connection);
                let is_failed = matches!(connection.recovery, Recovery::Failed(_));
                if is_failed || connection.server_since <= connection.generation {
                    self.closed.store(true, Ordering::SeqCst);
                    return Ok(());
                }
                connection.generation
            };
            let recovered = self.recover(generation, backoff);
            if recovered.is_err() {
                self.closed.store(true, Ordering::SeqCst);
                return recovered;
            }
        }
    }

    /// The handle of a recovery that did not come to its end may have a lock. With its session it is closed anyway.
    pub(super) fn close_tried(&self) {
        let tried = lock(&self.connection).recovery.take_handle();
        self.close_handle(tried);
    }

    fn close_handle(&self, handle: Option<u64>) {
        if let (Some(handle), Some(session)) = (handle, self.remote.present()) {
            let _ = session.call_file(Self::batch_of(handle, vec![FileCall::Close]));
        }
    }

    /// Does what can be done again until the server has room for it.
    fn persistently<T>(&self, backoff: &mut Backoff, act: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        backoff.retry_call(|error| !is_lost(error) && self.remote.may_retry(error), act)
    }

    /// Makes changes again, in their order; returns the file's change number after them. Batches have no order among them, so
    /// only those are on their way together that concern different places.
    fn make_again(&self, session: &Session, opened: &OpenedFile, changes: &[Change]) -> Result<u64, Error> {
        let mut sent = VecDeque::new();
        let made = self.make_again_by(session, opened, changes, &mut sent);
        // What is still on its way is executed before anything that follows, also before another attempt.
        sent.into_iter().for_each(|(_, pending)| drop(pending.wait()));
        made
    }

    fn make_again_by<'a>(
        &self,
        session: &Session,
        opened: &OpenedFile,
        changes: &'a [Change],
        sent: &mut VecDeque<(WriteBatch<'a>, PendingFileReply)>,
    ) -> Result<u64, Error> {
        let room = session.batch_bytes_max() - FRAME_BYTES;
        let mut last = opened.change;
        let mut settle = |(write_batch, pending): (WriteBatch<'_>, PendingFileReply)| {
            let answered = pending.wait()?;
            for index in 0..write_batch.changes.len() {
                last = last.max(self.answer_at(&answered, index, "write again", change_number)?);
            }
            Ok::<_, Error>(())
        };
        for write_batch in write_batches(changes, room) {
            while sent.len() >= session.long_calls_max() || sent.iter().any(|(other, _)| write_batch.overlaps(other)) {
                sent.pop_front().map_or(Ok(()), &mut settle)?;
            }
            // If this session is lost too, the change number may be that of one of these.
            lock(&self.connection).in_flight += 1;
            let calls = write_batch.changes.iter().map(Change::call).collect();
            let batch = FileBatch { stop: true, handle: opened.handle, calls, ..FileBatch::default() };
            sent.push_back((write_batch, session.call_file(batch)?));
        }
        while let Some(one) = sent.pop_front() {
            settle(one)?;
        }
        Ok(last)
    }

    /// The changes that the server may have lost; an error if the file is not as it was left.
    fn to_be_made_again(&self, opened: &OpenedFile) -> Result<Vec<Change>, Error> {
        let mut connection = lock(&self.connection);
        let restarted = connection.opened.verifier != opened.verifier;
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Stale, "the file is closed"));
        }
        let unsynced = if restarted { connection.unsynced.all_made() } else { Vec::new() };
        if restarted {
            // From here on an answer of the server before comes too late: its change is not among these.
            connection.server_since = connection.generation + 1;
        }
        // A server that lost its power lost times of the file, too: an earlier one is nobody's change.
        let undone = restarted && opened.change < connection.change;
        let differs = connection.change != opened.change && !undone;
        // With an own change on its way the number may be that change's; but a lock must be known to
        // have excluded the others.
        let foreign = differs && connection.in_flight == 0;
        connection.end_is_old |= foreign;
        let by_others = foreign && !unsynced.is_empty();
        if by_others || (differs && connection.locks.any_is_exclusive()) {
            let text = "somebody else changed the file while its server was lost, or may have done so though it was \
                        locked: what was written and not synced is not written again, and a lock is lost";
            return Err(Error::new(ErrorKind::TargetChanged, text));
        }
        Ok(unsynced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn changes_are_made_again_in_few_batches_that_keep_the_order_of_what_overlaps() {
        let write = |offset, length| Change::Write { offset, data: Bytes::from(vec![1; length]) };
        let small: Vec<Change> = (0..600).map(|at| write(at, 1)).collect();
        let lengths: Vec<usize> = write_batches(&small, 1 << 20).map(|write_batch| write_batch.changes.len()).collect();
        assert_eq!(lengths, [256, 256, 88], "so many calls are in a batch at most");
        let changes =
            [write(0, 4000), write(4000, 4000), Change::SetLength { length: 9 }, write(100, 9000), write(0, 1)];
        let write_batches: Vec<WriteBatch<'_>> = write_batches(&changes, 5000).collect();
        let lengths: Vec<usize> = write_batches.iter().map(|write_batch| write_batch.changes.len()).collect();
        assert_eq!(lengths, [1, 2, 1, 1]);
        let overlaps = |one: usize, other: usize| write_batches[one].overlaps(&write_batches[other]);
        assert!(overlaps(0, 1) && overlaps(1, 2) && overlaps(1, 3), "a length concerns every place");
        assert!(overlaps(2, 0) && !overlaps(2, 3), "the last one is before the bytes of the one before it");
        assert_eq!(super::write_batches(&[], 5000).count(), 0);
    }
}
