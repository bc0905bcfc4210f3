//! A handle whose calls are polled, for tasks of any runtime. It knows none: the methods are those that the traits
//! of runtimes ask for, and the reactor wakes the task.
//!
//! What a future was given up for is not lost: a read that is under way goes on, and its bytes come with the next
//! one; a write has accepted its bytes when it returns, and has taken none before.

use crate::error::{Error, Result};
use crate::handle::{Completed, Handle};
use crate::operations::OperationId;
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use xdfs_io::stack::WriteInfo;

/// Most bytes of one operation, each of which owns a buffer of its own.
const PIECE_BYTES: usize = 256 * 1024;

/// A handle for one task, or for two of which one reads and the other writes through the two halves of a runtime.
#[derive(Debug)]
pub struct AsyncHandle {
    handle: Handle,
    reading: Reading,
    writing: Option<(OperationId, Told<Completed>)>,
    closing: Closing,
}

#[derive(Debug)]
enum Reading {
    /// Nothing is under way.
    Idle,
    /// An operation is.
    Waiting(OperationId, Told<Completed>),
    /// Bytes that were received and not taken, and what comes after them.
    Received { bytes: Vec<u8>, taken: usize, then: Then },
}

/// What comes after received bytes.
#[derive(Debug)]
enum Then {
    More,
    /// The end, which stays.
    End,
    Failed(Option<Error>),
}

#[derive(Debug)]
enum Closing {
    Open,
    Waiting(Told<Result<()>>),
    Closed,
}

/// Where a callback leaves what it tells, and the task that waits for it.
struct Told<T>(Arc<Mutex<CallbackValue<T>>>);

/// What a callback tells.
enum CallbackValue<T> {
    /// The callback was not called. The task, where one waits.
    Pending(Option<Waker>),
    /// It was, with this.
    Done(T),
}

impl<T> Told<T> {
    fn new() -> (Self, impl FnOnce(T)) {
        let told = Self(Arc::new(Mutex::new(CallbackValue::Pending(None))));
        let callback = Self(told.0.clone());
        let tell = move |value| {
            let before = std::mem::replace(&mut *callback.lock(), CallbackValue::Done(value));
            if let CallbackValue::Pending(Some(waker)) = before {
                waker.wake();
            }
        };
        (told, tell)
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<T> {
        let mut slot = self.lock();
        match std::mem::replace(&mut *slot, CallbackValue::Pending(None)) {
            CallbackValue::Done(value) => Poll::Ready(value),
            CallbackValue::Pending(_) => {
                *slot = CallbackValue::Pending(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, CallbackValue<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> std::fmt::Debug for Told<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Told")
    }
}

impl From<Handle> for AsyncHandle {
    fn from(handle: Handle) -> Self {
        Self { handle, reading: Reading::Idle, writing: None, closing: Closing::Open }
    }
}

impl AsyncHandle {
    /// The handle, to control it or to cancel what is under way.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Reads at least one byte; none is the end.
    pub async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read(cx, into)).await
    }

    /// Writes at least one byte of `from`, if it has one. An error of what was accepted is told by the next call.
    pub async fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_write(cx, from)).await
    }

    /// Waits until the drivers have accepted everything that was written.
    pub async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// Flushes, closes, and waits for it.
    pub async fn close(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_close(cx)).await
    }

    /// [`AsyncHandle::read`] for a trait.
    pub fn poll_read(&mut self, cx: &Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        if into.is_empty() {
            return Poll::Ready(Ok(0));
        }
        loop {
            match &mut self.reading {
                Reading::Idle => {
                    let (told, tell) = Told::new();
                    let buffer = vec![0; into.len().min(PIECE_BYTES)];
                    let id = self.handle.register_read(buffer, 1, move |_, done| tell(done))?;
                    self.reading = Reading::Waiting(id, told);
                }
                Reading::Waiting(_, told) => match told.poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(done) => self.reading = Reading::of(done),
                },
                Reading::Received { bytes, taken, .. } if *taken < bytes.len() => {
                    let count = into.len().min(bytes.len() - *taken);
                    into[..count].copy_from_slice(&bytes[*taken..*taken + count]);
                    *taken += count;
                    return Poll::Ready(Ok(count));
                }
                Reading::Received { then: Then::End, .. } => return Poll::Ready(Ok(0)),
                Reading::Received { then, .. } => {
                    let failed = if let Then::Failed(error) = then { error.take() } else { None };
                    self.reading = Reading::Idle;
                    if let Some(error) = failed {
                        return Poll::Ready(Err(error.into()));
                    }
                }
            }
        }
    }

    /// [`AsyncHandle::write`] for a trait.
    pub fn poll_write(&mut self, cx: &Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        if self.poll_flush(cx)?.is_pending() {
            return Poll::Pending;
        }
        let count = from.len().min(PIECE_BYTES);
        if count > 0 {
            let (told, tell) = Told::new();
            let done = move |_: &Handle, done: Completed| tell(done);
            let id = self.handle.register_write(from[..count].to_vec(), WriteInfo::default(), done)?;
            self.writing = Some((id, told));
        }
        Poll::Ready(Ok(count))
    }

    /// [`AsyncHandle::flush`] for a trait.
    pub fn poll_flush(&mut self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let Some((_, told)) = &self.writing else { return Poll::Ready(Ok(())) };
        let Poll::Ready(done) = told.poll(cx) else { return Poll::Pending };
        self.writing = None;
        Poll::Ready(done.result.map(drop).map_err(Into::into))
    }

    /// [`AsyncHandle::close`] for a trait.
    pub fn poll_close(&mut self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        if self.poll_flush(cx)?.is_pending() {
            return Poll::Pending;
        }
        if let Closing::Open = self.closing {
            let (told, tell) = Told::new();
            self.handle.register_close(tell)?;
            self.closing = Closing::Waiting(told);
        }
        let Closing::Waiting(told) = &self.closing else { return Poll::Ready(Ok(())) };
        let Poll::Ready(closed) = told.poll(cx) else { return Poll::Pending };
        self.closing = Closing::Closed;
        Poll::Ready(closed.map_err(Into::into))
    }
}

impl Reading {
    fn of(done: Completed) -> Self {
        let (count, then) = match done.result {
            Ok(received) => (received.bytes, if received.info.end { Then::End } else { Then::More }),
            Err(error) => (error.transferred(), Then::Failed(Some(error))),
        };
        let mut bytes = done.buffers.into_one();
        bytes.truncate(count);
        Self::Received { bytes, taken: 0, then }
    }
}

/// What is under way holds the handle open.
impl Drop for AsyncHandle {
    fn drop(&mut self) {
        let reading = if let Reading::Waiting(id, _) = &self.reading { Some(*id) } else { None };
        let writing = self.writing.as_ref().map(|(id, _)| *id);
        for id in [reading, writing].into_iter().flatten() {
            self.handle.cancel(id);
        }
    }
}
