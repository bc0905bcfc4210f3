//! The execution of a batch of calls on names, from its payload to its reply and its line in the log,
//! cut into slices.
//!
//! The payload is parsed again for each slice: that takes a small part of one, and avoids borrowing
//! across slices.

use super::BatchOwner;
use crate::authorise::Base;
use crate::calls::{Done, Execution, exports};
use crate::replies::malformed;
use crate::reply_cache::{CacheLookup, RunningBatch};
use bytes::Bytes;
use std::sync::Arc;
use std::task::Poll;
use xdfs_engine::blocking::Slice;
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::wire::path::Batch;

/// The execution of a batch, from its payload to its reply, in slices.
pub(crate) struct BatchJob {
    payload: Bytes,
    whom: BatchOwner,
    state: BatchState,
}

enum BatchState {
    /// The base was authorised; the reply is built in the memory.
    Judged(Box<Result<Option<Base>, Error>>, Vec<u8>),
    Doing(Option<RunningBatch>, Box<Execution>),
    Over,
}

impl BatchJob {
    /// A batch that has not started; `base` is its authorised base, none for the list of exports.
    pub(crate) fn new(payload: Bytes, base: Result<Option<Base>, Error>, memory: Vec<u8>, whom: BatchOwner) -> Self {
        Self { payload, whom, state: BatchState::Judged(Box::new(base), memory) }
    }

    /// Continues until the slice is over.
    pub(crate) fn advance(&mut self, slice: &Slice) -> Poll<Result<Vec<u8>, Error>> {
        let payload = self.payload.clone();
        match Batch::decode(&payload) {
            Ok(batch) => self.go_on(&batch, slice),
            Err(error) => Poll::Ready(Err(malformed(&error))),
        }
    }

    fn go_on(&mut self, batch: &Batch<'_>, slice: &Slice) -> Poll<Result<Vec<u8>, Error>> {
        if let BatchState::Judged(..) = self.state
            && let BatchState::Judged(base, memory) = std::mem::replace(&mut self.state, BatchState::Over)
        {
            let once = match self.whom.once(batch.request, batch.age_ms) {
                Ok(Some(CacheLookup::Told(reply))) => return Poll::Ready(Ok(reply)),
                Ok(Some(CacheLookup::Do(doing))) => Some(doing),
                Ok(None) => None,
                Err(error) => return Poll::Ready(Err(error)),
            };
            let (whom, session) = (&self.whom, &self.whom.session);
            let begun = match *base {
                Ok(Some(base)) => {
                    let shared = (Arc::clone(&session.services.files), Arc::clone(&session.watches));
                    Execution::new(batch, base, session.since, Arc::clone(&whom.stop), shared, memory)
                }
                Ok(None) => {
                    let shown = whom.authority.shown(&session.principal, whom.now);
                    return Poll::Ready(self.end(batch, once, shown.and_then(|shown| exports(batch, &shown))));
                }
                Err(error) => Err(error),
            };
            match begun {
                Ok(execution) => self.state = BatchState::Doing(once, Box::new(execution)),
                Err(error) => return Poll::Ready(self.end(batch, once, Err(error))),
            }
        }
        let BatchState::Doing(_, execution) = &mut self.state else { return Poll::Ready(Err(over())) };
        let error = match execution.advance(batch, slice) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => None,
            Err(error) => Some(error),
        };
        let BatchState::Doing(once, execution) = std::mem::replace(&mut self.state, BatchState::Over) else {
            return Poll::Ready(Err(over()));
        };
        let done = error.map_or_else(|| Ok(execution.finish(batch)), Err);
        Poll::Ready(self.end(batch, once, done))
    }

    /// Caches and logs the outcome.
    fn end(&self, batch: &Batch<'_>, once: Option<RunningBatch>, done: Result<Done, Error>) -> Result<Vec<u8>, Error> {
        if let Some(doing) = once {
            doing.end(done.as_ref().ok().map(|done| done.reply.as_slice()));
        }
        let (reply, lines, safety, error) = match done {
            Ok(Done { reply, lines, safety }) => (Ok(reply), lines, safety, None),
            Err(error) => (Err(error.clone()), Vec::new(), None, Some(error)),
        };
        // A lease that excludes it is no failure: nothing was done, and it is sent again soon.
        let waits = error.as_ref().is_some_and(|error| error.kind == ErrorKind::Busy);
        if (error.is_some() && !waits) || !lines.is_empty() {
            self.whom.record(batch.base.into(), lines, safety, error.as_ref());
        }
        reply
    }
}

fn over() -> Error {
    Error::new(ErrorKind::Storage, "the batch is over")
}
