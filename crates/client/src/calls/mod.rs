//! Calls on remote names (xPathM, PATHM-01 to PATHM-08): many per batch, many batches in flight,
//! over all channels of a session.
//!
//! [`Session::call`] sends a [`Batch`] and returns a handle to wait on; it blocks only while the
//! session has as many operations in flight as allowed. The methods of `verbs` and `pages` are
//! ready-made single calls.

mod pages;
mod verbs;

pub use pages::{Page, Pages};
pub use verbs::{Facts, Opener, Openers};

use crate::call_queue::BatchNeeds;
use crate::callback::Callback;
use crate::retry::{Backoff, is_busy};
use crate::session::Session;
use crate::transfer::PumpSender;
use bytes::Bytes;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use xdfs_engine::mailbox::{Command, Message};
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::limits;
use xdfs_proto::session::CallService;
use xdfs_proto::wire::path::{self, BatchWriter, Call, Failure, REPLY_BYTES, REPLY_CALL_BYTES};
use xdfs_secure::random;

/// Calls that are sent together. They are executed in order; their paths are relative to `base`.
#[derive(Clone, Debug)]
pub struct Batch {
    base: Vec<u8>,
    calls: BatchWriter,
    stop: bool,
    durable: bool,
    room: usize,
    request: [u8; 16],
    age: Option<Duration>,
}

impl Batch {
    /// An empty batch below `base` (`EXPORT/path`, nothing encoded).
    pub fn new(base: impl Into<Vec<u8>>) -> Self {
        Self {
            base: base.into(),
            calls: BatchWriter::default(),
            stop: false,
            durable: false,
            room: REPLY_BYTES,
            request: [0; 16],
            age: None,
        }
    }

    /// Appends a call whose answer has no bytes of its own.
    pub fn push(&mut self, call: &Call<'_>) {
        self.push_with_room(call, 0);
    }

    /// Appends a call whose answer may have this many bytes (attributes, a page, a file's content).
    pub fn push_with_room(&mut self, call: &Call<'_>, bytes: usize) {
        self.calls.push(call);
        self.room += REPLY_CALL_BYTES + bytes;
    }

    /// Skips all calls after the first one that fails.
    pub fn stop_at_failure(mut self) -> Self {
        self.stop = true;
        self
    }

    /// The reply is sent when the changes are on stable storage, if the server can promise that.
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self
    }

    /// The server executes it once, even if it is sent again in another session: [`Batch::again`].
    pub fn once(mut self) -> Result<Self, Error> {
        self.request = random::array()?;
        Ok(self)
    }

    /// The same batch for another session, if its first attempt was at most this long ago. The
    /// server repeats its answer, executes the batch if it cannot have arrived before, and
    /// otherwise reports that it does not know ([`ErrorKind::UnknownOutcome`]).
    pub fn again(&self, since: Duration) -> Self {
        // Without a request id there is nothing that the server could remember.
        let age = (self.request != [0; 16]).then_some(since);
        Self { age, ..self.clone() }
    }

    /// Number of calls.
    pub fn len(&self) -> usize {
        self.calls.codes().len()
    }

    /// Whether it has no calls.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of its calls so far, and room that their answers may take: neither may exceed
    /// [`Session::batch_bytes_max`].
    pub fn bytes(&self) -> (usize, usize) {
        (self.calls.bytes() + self.base.len() + 64, self.room)
    }

    fn encode(&self, most: usize) -> Result<Vec<u8>, Error> {
        let refused = |text: String| Err(Error::new(ErrorKind::LimitExceeded, text));
        if self.is_empty() || self.len() > limits::CALLS_MAX {
            return refused(format!("a batch has 1 to {} calls, not {}", limits::CALLS_MAX, self.len()));
        }
        // Fits: at most 256 KiB.
        let room = self.room.min(most) as u32;
        if self.len() * REPLY_CALL_BYTES + REPLY_BYTES > most {
            return refused(format!("the answers to {} calls do not fit into one reply", self.len()));
        }
        let age_ms = self.age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX >> 2).saturating_add(1));
        let (stop, durable, request) = (self.stop, self.durable, self.request);
        let payload = self.calls.finish(&path::Batch {
            stop,
            durable,
            room,
            request,
            age_ms,
            base: &self.base,
            calls: Vec::new(),
        });
        if payload.len() > most {
            return refused(format!("a batch of {} bytes is longer than {most}", payload.len()));
        }
        Ok(payload)
    }
}

/// The reply to a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    payload: Bytes,
    codes: Vec<u64>,
}

impl Reply {
    /// The results, one per call, borrowed from the reply.
    pub fn read(&self) -> Result<path::Reply<'_>, Error> {
        path::Reply::decode(&self.payload, &self.codes)
            .map_err(|error| Error::new(ErrorKind::Protocol, format!("malformed reply: {error}")))
    }
}

/// A batch in flight. Dropping it leaves it running.
#[derive(Debug)]
pub struct PendingReply {
    outcome: Receiver<Result<Bytes, Error>>,
    codes: Vec<u64>,
    ticket: u64,
    post: PumpSender,
}

fn gone() -> Error {
    Error::new(ErrorKind::ConnectionLost, "the session ended before the calls were answered")
}

impl PendingReply {
    /// Waits for the reply. An error concerns the whole batch; those of single calls are in the
    /// reply.
    pub fn wait(self) -> Result<Reply, Error> {
        let payload = self.outcome.recv().unwrap_or_else(|_| Err(gone()))?;
        Ok(Reply { payload, codes: self.codes })
    }

    /// The same for at most this long; `None` if the reply has not arrived.
    pub fn wait_for(&self, time: Duration) -> Option<Result<Reply, Error>> {
        let outcome = match self.outcome.recv_timeout(time) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => Err(gone()),
        };
        Some(outcome.map(|payload| Reply { payload, codes: self.codes.clone() }))
    }

    /// Requests that the server begin no further call of it; the reply still arrives and reports
    /// which were not tried.
    pub fn cancel(&self) {
        let _ = self.post.send(Message::Command(Command::Cancel { ticket: self.ticket }));
    }
}

/// How long a call is made again that somebody else's lease excludes: longer than leases usually hold.
const LEASE_PATIENCE: Duration = Duration::from_secs(60);

/// Pauses between two tries of a call that may have to wait for somebody else's lease (P-96).
pub(crate) fn lease_backoff() -> Backoff {
    Backoff::within(LEASE_PATIENCE)
}

/// Does something, and again while a lease of somebody else excludes it or too much is done at a time.
pub fn when_permitted<T>(act: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    lease_backoff().retry_call(is_busy, act)
}

/// Converts a failed call to an error.
pub fn failed(failure: Failure, what: &str) -> Error {
    Error::new(failure.kind, format!("{what}: {}", in_full(failure.kind))).with_errno(failure.errno).reported()
}

/// A helpful text for the error of a call: the wire carries none.
pub fn in_full(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Refused => "your rights on this export do not allow it (the server's log names the missing one)",
        ErrorKind::LimitExceeded => {
            "it is more than the server allows at a time (an xdfs server: see 'limits' of its configuration)"
        }
        other => other.text(),
    }
}

impl Session {
    /// Longest batch, and longest reply, of this session.
    pub fn batch_bytes_max(&self) -> usize {
        (self.facts().block as usize).min(limits::CALL_BYTES_MAX)
    }

    /// How many calls with as much data as fits into one may be on their way: the rate of a file that is read or written in its
    /// order over a long way.
    pub(crate) fn long_calls_max(&self) -> usize {
        self.served().map_or(1, |served| served.calls.long_batches_max())
    }

    /// Whether a batch with a reply of `room` bytes leaves others enough of what the session may
    /// have in flight.
    pub(crate) fn leaves_room_for_calls(&self, room: usize) -> bool {
        self.served().is_ok_and(|served| served.calls.is_half_free(room))
    }

    /// Sends a batch. Blocks only while the session has as much in flight as allowed (P-71).
    pub fn call(&self, batch: &Batch) -> Result<PendingReply, Error> {
        let payload = batch.encode(self.batch_bytes_max())?;
        let (teller, outcome) = Callback::waiting();
        let (ticket, post) = self.send_calls(CallService::Path, payload.into(), batch.room, teller)?;
        Ok(PendingReply { outcome, codes: batch.calls.codes().to_vec(), ticket, post })
    }

    /// The same for the payload of a batch that declares this room; `outcome` is called from a
    /// thread of the session.
    pub(crate) fn send_calls(
        &self,
        service: CallService,
        payload: Bytes,
        room: usize,
        outcome: Callback<Bytes>,
    ) -> Result<(u64, PumpSender), Error> {
        let room = room.min(self.batch_bytes_max());
        let needs = BatchNeeds { service, bytes: payload.len() + room, room };
        let ticket = self.next_ticket();
        let served = self.served()?;
        let queue = &served.calls;
        let pipeline = queue.enter(ticket, needs, outcome).map_err(|_| self.why_ended())?;
        let post = served.posts[pipeline].clone();
        let command = Command::Calls { ticket, service, batch: payload };
        if post.send(Message::Command(command)).is_err() {
            queue.leave(ticket, Err(self.why_ended()));
        }
        Ok((ticket, post))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_batch_that_is_executed_once_has_an_age_when_it_is_sent_again() {
        let mut batch = Batch::new(b"data".as_slice());
        batch.push(&Call::Unlink { path: b"file" });
        let since = Duration::from_secs(1);
        assert_eq!(batch.again(since).age, None, "no server takes an age without a request id");
        assert_eq!(batch.once().unwrap().again(since).age, Some(since));
    }
}
