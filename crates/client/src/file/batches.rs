//! Batches of calls on an open file, and the replies to them.

use crate::callback::Callback;
use crate::session::Session;
use bytes::Bytes;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::session::CallService;
use xdfs_proto::wire::file::{FileBatch, FileCall, FileOutcome, FileReply, LeaseCall};
use xdfs_proto::wire::path::REPLY_BYTES;

/// The payload of a reply.
type Outcome = Result<Bytes, Error>;

/// Where the reply to a batch is.
#[derive(Debug)]
enum Arrival {
    /// On its way. A receiver alone cannot be shared among threads, and with it no file that reads ahead.
    Awaited(Mutex<Receiver<Outcome>>),
    /// Here, and nobody has waited for it yet.
    Come(Outcome),
}

/// A batch in flight.
#[derive(Debug)]
pub(super) struct PendingFileReply {
    /// Its reply.
    arrival: Arrival,
    codes: Vec<u64>,
    /// It is executed under a write lease, or not at all: the first call is about that.
    under: bool,
}

/// The reply to a batch.
#[derive(Debug)]
pub(super) struct Answered {
    payload: Bytes,
    codes: Vec<u64>,
    under: bool,
}

/// What an answer is that no call has.
pub(super) fn unexpected() -> Error {
    Error::new(ErrorKind::Protocol, "the server answered something else")
}

fn gone() -> Error {
    Error::new(ErrorKind::ConnectionLost, "the session ended before the calls were answered")
}

impl PendingFileReply {
    /// The reply, if it comes within this time.
    pub(super) fn wait_within(&self, patience: Duration) -> Option<Result<Answered, Error>> {
        let outcome = match &self.arrival {
            Arrival::Awaited(receiver) => {
                let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
                match receiver.recv_timeout(patience) {
                    Ok(outcome) => outcome,
                    Err(RecvTimeoutError::Timeout) => return None,
                    Err(RecvTimeoutError::Disconnected) => Err(gone()),
                }
            }
            Arrival::Come(outcome) => outcome.clone(),
        };
        Some(outcome.map(|payload| Answered { payload, codes: self.codes.clone(), under: self.under }))
    }

    pub(super) fn wait(self) -> Result<Answered, Error> {
        let outcome = match self.arrival {
            Arrival::Awaited(receiver) => {
                let receiver = receiver.into_inner().unwrap_or_else(PoisonError::into_inner);
                receiver.recv().unwrap_or_else(|_| Err(gone()))
            }
            Arrival::Come(outcome) => outcome,
        };
        Ok(Answered { payload: outcome?, codes: self.codes, under: self.under })
    }

    /// Whether the reply has come. One that never will has not.
    pub(super) fn has_come(&mut self) -> bool {
        if let Arrival::Awaited(receiver) = &mut self.arrival
            && let Ok(outcome) = receiver.get_mut().unwrap_or_else(PoisonError::into_inner).try_recv()
        {
            self.arrival = Arrival::Come(outcome);
        }
        matches!(self.arrival, Arrival::Come(Ok(_)))
    }
}

impl Answered {
    /// Bytes of it, without a copy.
    pub(super) fn slice(&self, part: &[u8]) -> Bytes {
        self.payload.slice_ref(part)
    }

    /// The results, one for each call; of a batch under a lease those of the calls behind it, or why it
    /// was not executed.
    pub(super) fn read(&self) -> Result<Vec<FileOutcome<'_>>, Error> {
        let mut outcomes = FileReply::decode(&self.payload, &self.codes)
            .map(|reply| reply.outcomes)
            .map_err(|error| Error::new(ErrorKind::Protocol, format!("malformed reply: {error}")))?;
        if self.under
            && !outcomes.is_empty()
            && let Err(failure) = outcomes.remove(0)
        {
            outcomes = vec![Err(failure)];
        }
        Ok(outcomes)
    }
}

/// What is known of a batch besides its payload.
pub(super) struct BatchFacts {
    room: usize,
    codes: Vec<u64>,
    under: bool,
    /// A call of it changes the file.
    pub(super) changes: bool,
}

impl Session {
    /// The payload of a batch about a file, in this memory; its room is what its results take at most.
    pub(super) fn encode_file(
        &self,
        mut batch: FileBatch<'_>,
        memory: Vec<u8>,
    ) -> Result<(Vec<u8>, BatchFacts), Error> {
        if !batch.calls.iter().all(FileCall::fits_the_wire) {
            return Err(Error::new(ErrorKind::TooLarge, "a range is empty, or reaches behind 2^62 - 1"));
        }
        let most = self.batch_bytes_max();
        let room = batch.calls.iter().map(FileCall::result_bytes_max).fold(REPLY_BYTES, usize::saturating_add);
        // At most 256 KiB: fits.
        batch.room = room.min(most) as u32;
        let payload = batch.encode_within(memory);
        if payload.len() > most || room > most {
            let text = format!("calls and results of {} and {room} bytes are longer than {most}", payload.len());
            return Err(Error::new(ErrorKind::LimitExceeded, text));
        }
        let under = matches!(batch.calls.first(), Some(FileCall::Lease(LeaseCall::Under)));
        let changes = batch.calls.iter().any(FileCall::changes);
        Ok((payload, BatchFacts { room, codes: batch.codes(), under, changes }))
    }

    /// Sends the payload of a batch about a file.
    pub(super) fn send_file(&self, payload: Bytes, facts: BatchFacts) -> Result<PendingFileReply, Error> {
        let BatchFacts { room, codes, under, changes: _ } = facts;
        let (callback, outcome) = Callback::waiting();
        self.send_calls(CallService::File, payload, room, callback)?;
        Ok(PendingFileReply { arrival: Arrival::Awaited(Mutex::new(outcome)), codes, under })
    }

    /// Encodes and sends a batch about a file.
    pub(super) fn call_file(&self, batch: FileBatch<'_>) -> Result<PendingFileReply, Error> {
        let (payload, facts) = self.encode_file(batch, Vec::new())?;
        self.send_file(payload.into(), facts)
    }
}
