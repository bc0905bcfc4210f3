//! Callbacks that report an outcome: exactly once, whatever happens.

use std::sync::mpsc::{Receiver, sync_channel};
use xdfs_proto::base::{Error, ErrorKind};

type CompleteFn<T> = Box<dyn FnOnce(Result<T, Error>) + Send>;

/// Reports an outcome. If dropped, it reports that the session has ended.
pub(crate) struct Callback<T>(Option<CompleteFn<T>>);

impl<T: Send + 'static> Callback<T> {
    /// Calls `tell` from a thread of the session: it must not block.
    pub(crate) fn new(tell: impl FnOnce(Result<T, Error>) + Send + 'static) -> Self {
        Self(Some(Box::new(tell)))
    }

    /// A callback with a receiver to wait on.
    pub(crate) fn waiting() -> (Self, Receiver<Result<T, Error>>) {
        let (sender, receiver) = sync_channel(1);
        (Self::new(move |outcome| drop(sender.try_send(outcome))), receiver)
    }
}

impl<T> Callback<T> {
    pub(crate) fn complete(mut self, outcome: Result<T, Error>) {
        if let Some(tell) = self.0.take() {
            tell(outcome);
        }
    }
}

impl<T> Drop for Callback<T> {
    fn drop(&mut self) {
        if let Some(tell) = self.0.take() {
            tell(Err(Error::new(ErrorKind::ConnectionLost, "the session ended before the outcome was known")));
        }
    }
}
