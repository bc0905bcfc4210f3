//! Threads that carry out calls for programs that must not wait, and what those wait for instead.

use crate::callback::Callback;
use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use xdfs_proto::base::{Error, ErrorKind};

/// Threads of a server's files: as many calls are carried out at a time.
pub(super) const THREADS_MAX: usize = 16;

/// Calls that wait for a thread. What is more fails.
pub(super) const WAITING_MAX: usize = 16_384;

/// Whoever begins another call has to wait for one first.
pub(super) fn too_many() -> Error {
    let text = format!("{WAITING_MAX} calls on files of this server wait already; wait for their outcomes");
    Error::new(ErrorKind::LimitExceeded, text)
}

/// Of the threads.
const NAME: &str = "xdfs-async";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The outcome of a call that was begun. It is carried out whether or not somebody waits for it; a second wait for
/// an outcome that was taken never ends.
#[must_use = "the call is made, but its error is lost"]
pub struct Outcome<T>(Arc<Mutex<Slot<T>>>);

enum Slot<T> {
    Pending(Option<Waker>),
    Done(Result<T, Error>),
}

impl<T> std::fmt::Debug for Outcome<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Outcome")
    }
}

impl<T: Send + 'static> Outcome<T> {
    /// An outcome, and what tells it.
    pub(super) fn pending() -> (Callback<T>, Self) {
        let slot = Arc::new(Mutex::new(Slot::Pending(None)));
        let told = Arc::clone(&slot);
        let callback = Callback::new(move |outcome| {
            let before = std::mem::replace(&mut *lock(&told), Slot::Done(outcome));
            if let Slot::Pending(Some(waker)) = before {
                waker.wake();
            }
        });
        (callback, Self(slot))
    }
}

impl<T> Future for Outcome<T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let waits = Slot::Pending(Some(context.waker().clone()));
        match std::mem::replace(&mut *lock(&self.0), waits) {
            Slot::Done(outcome) => Poll::Ready(outcome),
            Slot::Pending(_) => Poll::Pending,
        }
    }
}

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// Nobody begins calls any more.
    over: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    news: Condvar,
}

/// A bounded number of threads. When it is dropped they finish what was begun, and end.
#[derive(Default)]
pub(super) struct Workers(Arc<Shared>);

impl Workers {
    /// Has a thread carry out a call, and tells its outcome.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        act: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Outcome<T> {
        let (callback, outcome) = Outcome::pending();
        match self.room(WAITING_MAX) {
            Ok(mut state) => state.jobs.push_back(Box::new(move || callback.complete(act()))),
            Err(error) => callback.complete(Err(error)),
        }
        self.0.news.notify_one();
        outcome
    }

    /// Has a thread do something that tells its outcomes itself. An error if nobody will.
    pub(super) fn post(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        self.post_within(WAITING_MAX, job)
    }

    /// The same for what gives something back: it is not refused because others wait.
    pub(super) fn post_last(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        self.post_within(usize::MAX, job)
    }

    fn post_within(&self, most: usize, job: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        self.room(most)?.jobs.push_back(Box::new(job));
        self.0.news.notify_one();
        Ok(())
    }

    /// Room for one call among so many, and a thread for it.
    fn room(&self, most: usize) -> Result<MutexGuard<'_, State>, Error> {
        let mut state = lock(&self.0.state);
        if state.jobs.len() >= most {
            return Err(too_many());
        }
        if state.idle <= state.jobs.len() && state.threads < THREADS_MAX {
            let shared = Arc::clone(&self.0);
            match std::thread::Builder::new().name(NAME.into()).spawn(move || shared.work()) {
                Ok(_) => state.threads += 1,
                // Another thread carries it out.
                Err(_) if state.threads > 0 => {}
                Err(error) => {
                    let text = format!("cannot start a thread for calls on files: {error}");
                    return Err(Error::new(ErrorKind::LimitExceeded, text));
                }
            }
        }
        Ok(state)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        lock(&self.0.state).over = true;
        self.0.news.notify_all();
    }
}

impl Shared {
    fn work(&self) {
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                // What panics in it is the program's; the next call is not. Who waits is told by the callback's end.
                let _ = catch_unwind(AssertUnwindSafe(job));
                state = lock(&self.state);
            } else if state.over {
                state.threads -= 1;
                return;
            } else {
                state.idle += 1;
                state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    fn poll<T>(outcome: &mut Outcome<T>) -> Poll<Result<T, Error>> {
        Pin::new(outcome).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn calls_that_wait_are_bounded_and_those_that_were_begun_are_made() {
        let (workers, (sender, receiver)) = (Workers::default(), sync_channel::<()>(0));
        let receiver = Arc::new(Mutex::new(receiver));
        let mut busy: Vec<Outcome<()>> = (0..THREADS_MAX)
            .map(|_| {
                let receiver = Arc::clone(&receiver);
                workers.begin(move || lock(&receiver).recv().map_err(|_| Error::new(ErrorKind::Cancelled, "over")))
            })
            .collect();
        // All threads are at work when the last one has taken its call.
        while !lock(&workers.0.state).jobs.is_empty() {
            std::thread::yield_now();
        }
        let mut waiting: Vec<Outcome<usize>> =
            (0..WAITING_MAX).map(|number| workers.begin(move || Ok(number))).collect();
        let Poll::Ready(Err(refused)) = poll(&mut workers.begin(|| Ok(()))) else { panic!("it is not refused") };
        assert_eq!(refused.kind, ErrorKind::LimitExceeded);
        assert!(busy.iter_mut().all(|outcome| poll(outcome).is_pending()));
        drop(workers);
        (0..THREADS_MAX).for_each(|_| sender.send(()).expect("somebody waits"));
        for (number, outcome) in waiting.iter_mut().enumerate() {
            while poll_done(outcome).is_none_or(|done| done != number) {
                std::thread::yield_now();
            }
        }
    }

    /// What it is, without taking it.
    fn poll_done(outcome: &Outcome<usize>) -> Option<usize> {
        match &*lock(&outcome.0) {
            Slot::Done(outcome) => outcome.as_ref().ok().copied(),
            Slot::Pending(_) => None,
        }
    }
}
