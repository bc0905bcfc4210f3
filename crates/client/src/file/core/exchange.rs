//! Batches of calls and their answers, which survive the loss of the session.

use super::super::batches::{Answered, BatchFacts};
use super::super::pending::Sent;
use super::{Core, lock};
use crate::calls::failed;
use crate::retry::is_lost;
use crate::session::Session;
use bytes::Bytes;
use std::time::Instant;
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::wire::file::{FileAnswer, FileBatch, FileCall};
use xdfs_secure::random;

/// The answers to a batch, and the generation that they were given in.
pub(super) struct Reply {
    pub(super) answered: Answered,
    pub(super) generation: u64,
}

/// Whether a change that failed in this way was not made, not even a part of it.
fn changes_nothing(kind: ErrorKind) -> bool {
    use ErrorKind::{Busy, LimitExceeded, Locked, PermissionDenied, ReadOnly, Refused, Stale, TooLarge};
    matches!(kind, Busy | LimitExceeded | Locked | PermissionDenied | ReadOnly | Refused | Stale | TooLarge)
}

impl Core {
    pub(super) fn send(&self, session: &Session, generation: u64, batch: FileBatch<'_>) -> Result<Sent, Error> {
        let (payload, facts) = session.encode_file(batch, Vec::new())?;
        self.send_encoded(session, generation, payload.into(), facts)
    }

    pub(super) fn send_encoded(
        &self,
        session: &Session,
        generation: u64,
        payload: Bytes,
        facts: BatchFacts,
    ) -> Result<Sent, Error> {
        let changes = facts.changes;
        let count = |by: isize| {
            let mut connection = lock(&self.connection);
            if changes && connection.generation == generation {
                connection.in_flight = connection.in_flight.saturating_add_signed(by);
            }
        };
        count(1);
        match session.send_file(payload, facts) {
            Ok(pending) => Ok(Sent { pending, generation, changes }),
            Err(error) => {
                count(-1);
                Err(error)
            }
        }
    }

    pub(super) fn wait(&self, sent: Sent) -> Result<Reply, Error> {
        let Sent { pending, generation, changes } = sent;
        let is_over = |change: Option<u64>| {
            let mut connection = lock(&self.connection);
            if changes && connection.generation == generation {
                connection.in_flight = connection.in_flight.saturating_sub(1);
                connection.change = connection.change.max(change.unwrap_or_default());
            }
        };
        let answered = pending.wait().inspect_err(|error| {
            if changes_nothing(error.kind) {
                is_over(None);
            }
        })?;
        match answered.read()?.first() {
            Some(Ok(FileAnswer::Changed { change } | FileAnswer::Appended { change, .. })) => is_over(Some(*change)),
            Some(Err(failure)) => {
                if changes_nothing(failure.kind) {
                    is_over(None);
                }
                if failure.kind == ErrorKind::Stale && self.has_moved(generation) {
                    return Err(failed(*failure, "the file was renamed"));
                }
            }
            _ => {}
        }
        Ok(Reply { answered, generation })
    }

    /// Whether the handle was opened by a name that the file has no more. A server that has closed the
    /// file behind it does not find it by that.
    fn has_moved(&self, generation: u64) -> bool {
        let path = self.path();
        let connection = lock(&self.connection);
        connection.generation != generation || connection.path != path
    }

    /// A batch on a handle, in order.
    pub(super) fn batch_of(handle: u64, calls: Vec<FileCall<'_>>) -> FileBatch<'_> {
        FileBatch { handle, calls, ..FileBatch::default() }
    }

    /// Sends calls that need no order; none if that fails, which [`Self::finish`] makes up for.
    pub(in crate::file) fn start(&self, calls: Vec<FileCall<'_>>) -> Option<Sent> {
        let (session, handle, generation) = self.current().ok()?;
        let batch = FileBatch { unordered: true, handle, calls, ..FileBatch::default() };
        self.send(&session, generation, batch).ok()
    }

    /// Waits for the reply to calls that may be made twice, and makes them again if there is none.
    pub(in crate::file) fn finish(&self, sent: Option<Sent>, calls: Vec<FileCall<'_>>) -> Result<Answered, Error> {
        match sent.map(|sent| self.wait(sent)) {
            Some(Ok(reply)) => Ok(reply.answered),
            _ => Ok(self.exchange([0; 16], calls)?.answered),
        }
    }

    /// Makes calls, in another session if this one is lost. With a request id they are made once.
    pub(super) fn exchange(&self, mut request: [u8; 16], calls: Vec<FileCall<'_>>) -> Result<Reply, Error> {
        let (mut began, mut backoff, mut age_ms) = (Instant::now(), self.remote.backoff(), None);
        // It was on its way in a session that was lost.
        let mut flew = false;
        loop {
            let (session, handle, generation) = self.current()?;
            let batch = FileBatch { request, age_ms, handle, calls: calls.clone(), ..FileBatch::default() };
            let sent = self.send(&session, generation, batch);
            let left = sent.is_ok();
            let error = match sent.and_then(|sent| self.wait(sent)) {
                Ok(reply) => return Ok(reply),
                Err(error) if error.kind == ErrorKind::Stale && self.has_moved(generation) => {
                    self.recover(generation, &mut backoff)?;
                    if request != [0; 16] {
                        // The server remembers this answer: what is tried now is another request.
                        (request, began, age_ms, flew) = (random::array()?, Instant::now(), None, false);
                    }
                    continue;
                }
                Err(error) if !self.remote.may_retry(&error) => return Err(error),
                Err(error) => error,
            };
            if is_lost(&error) {
                flew |= left;
                self.remote.lost(&session);
                self.recover(generation, &mut backoff)?;
            } else {
                backoff.wait(error)?;
            }
            age_ms = (flew && request != [0; 16]).then(|| began.elapsed().as_millis() as u64 + 1);
        }
    }
}
