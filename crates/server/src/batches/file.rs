//! The execution of a batch of calls on a file, from its payload to its reply and its lines in the
//! log, cut into slices.

use super::BatchOwner;
use crate::files::Handle;
use crate::files::call::Caller;
use crate::files::execution::{Done, Execution};
use crate::log::LoggedName;
use crate::replies::malformed;
use crate::reply_cache::{CacheLookup, RunningBatch};
use bytes::Bytes;
use std::sync::Arc;
use std::task::Poll;
use xdfs_engine::blocking::Slice;
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::wire::file::FileBatch;

/// A batch that is executed in slices.
pub(crate) struct FileJob {
    payload: Bytes,
    whom: BatchOwner,
    state: JobState,
}

enum JobState {
    /// Not begun; the reply is built in the memory.
    Waiting(Vec<u8>),
    Doing(Option<RunningBatch>, Box<Execution>),
    Over,
}

impl FileJob {
    pub(crate) fn new(payload: Bytes, memory: Vec<u8>, whom: BatchOwner) -> Self {
        Self { payload, whom, state: JobState::Waiting(memory) }
    }

    /// Continues until the slice is over.
    pub(crate) fn advance(&mut self, slice: &Slice) -> Poll<Result<Vec<u8>, Error>> {
        let payload = self.payload.clone();
        match FileBatch::decode(&payload) {
            Ok(batch) => self.go_on(&batch, slice),
            Err(error) => Poll::Ready(Err(malformed(&error))),
        }
    }

    fn go_on(&mut self, batch: &FileBatch<'_>, slice: &Slice) -> Poll<Result<Vec<u8>, Error>> {
        let (once, mut execution) = match std::mem::replace(&mut self.state, JobState::Over) {
            JobState::Waiting(memory) => {
                let once = match self.whom.once(batch.request, batch.age_ms) {
                    Ok(Some(CacheLookup::Told(reply))) => return Poll::Ready(Ok(reply)),
                    Ok(Some(CacheLookup::Do(doing))) => Some(doing),
                    Ok(None) => None,
                    Err(error) => return Poll::Ready(Err(error)),
                };
                match Execution::new(batch, self.caller(), memory) {
                    Ok(execution) => (once, Box::new(execution)),
                    Err(error) => {
                        if error.kind != ErrorKind::Busy {
                            self.whom.record(LoggedName::from(&b""[..]), Vec::new(), None, Some(&error));
                        }
                        return not_begun(once, error);
                    }
                }
            }
            JobState::Doing(once, execution) => (once, execution),
            JobState::Over => return Poll::Ready(Err(Error::new(ErrorKind::Storage, "the batch is over"))),
        };
        match execution.advance(batch, &self.whom.stop, slice) {
            Ok(Poll::Pending) => {
                self.state = JobState::Doing(once, execution);
                Poll::Pending
            }
            Ok(Poll::Ready(())) => {
                let handle = execution.handle();
                let Done { reply, name, lines, safety } = execution.finish(batch);
                if let Some(doing) = once {
                    doing.end(Some(&reply));
                }
                if let Some(handle) = handle {
                    self.close_if_unfounded(handle);
                }
                if !lines.is_empty() {
                    self.whom.record(LoggedName::from(name.as_slice()), lines, safety, None);
                }
                Poll::Ready(Ok(reply))
            }
            Err(error) => not_begun(once, error),
        }
    }

    /// What the batch opened or locked by rules that are replaced by now was not there yet when the reload looked.
    fn close_if_unfounded(&self, handle: Arc<Handle>) {
        let authority = self.whom.session.services.authority.now();
        if !Arc::ptr_eq(&authority, &self.whom.authority) {
            handle.close_if_unfounded(&authority);
        }
    }

    fn caller(&self) -> Caller {
        let session = &self.whom.session;
        Caller {
            files: Arc::clone(&session.files),
            authority: Arc::clone(&self.whom.authority),
            principal: Arc::clone(&session.principal),
            budget: Arc::clone(&session.budget),
            now: self.whom.now,
        }
    }
}

/// Nothing was done: what is asked again is asked for the first time.
fn not_begun(once: Option<RunningBatch>, error: Error) -> Poll<Result<Vec<u8>, Error>> {
    if let Some(doing) = once {
        doing.end(None);
    }
    Poll::Ready(Err(error))
}
