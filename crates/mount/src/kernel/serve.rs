//! Threads that read the kernel's requests and answer them.
//!
//! One thread at a time reads. Before it works on what it read another one takes its place, so that
//! somebody always reads: interrupts, and what the kernel forgets, are taken at once, even if all
//! others wait for a server that is lost. A lock that is waited for keeps no thread: one thread tries
//! all of them again and again.

use super::abi;
use super::agree::agree;
use super::answer::Answer;
use super::device::{Kept, Notifier, invalidate, read, send};
use super::dying::is_dying;
use super::file_system::{FileSystem, Outcome, Waiting};
use super::in_flight::{InFlight, Waiter};
use super::request::{self, Call, Operation};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// Threads that work on requests: as many calls are on their way to the server.
const THREADS_MAX: usize = 64;

/// Requests that wait for a thread, and their bytes. What is more is answered with ENOMEM.
const QUEUE_MAX: usize = 4096;
const QUEUE_BYTES_MAX: usize = 64 << 20;

/// Locks that are waited for. What is more is answered with ENOLCK.
const WAITING_MAX: usize = 1024;

/// How often a lock is tried: at first, and when it takes long.
const ATTEMPT_MIN: Duration = Duration::from_millis(5);
const ATTEMPT_MAX: Duration = Duration::from_millis(250);

#[derive(Default)]
struct Pool {
    threads: usize,
    /// Threads that wait for their turn to read.
    waiting: usize,
    queue: VecDeque<Vec<u8>>,
    queued_bytes: usize,
}

struct WaitingLock {
    unique: u64,
    waiting: Box<dyn Waiting>,
    pause: Duration,
    next: Instant,
}

struct Server<'a> {
    device: &'a File,
    files: &'a dyn FileSystem,
    ended: &'a (dyn Fn() + Sync),
    /// Whoever has it reads.
    turn: Mutex<()>,
    pool: Mutex<Pool>,
    in_flight: Mutex<InFlight>,
    interrupted: Condvar,
    locks: Mutex<Vec<WaitingLock>>,
    lock_waits: Condvar,
    /// Why nothing is read any more.
    end: Mutex<Option<Result<(), Errno>>>,
    began: Instant,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Agrees on the protocol, and answers requests until the file system is unmounted; `ended` is called then.
pub(crate) fn serve(device: &File, files: &dyn FileSystem, ended: &(dyn Fn() + Sync)) -> Result<(), Errno> {
    let mut buffer = buffer();
    let notifier = Notifier { device, agreed: agree(device, files, &mut buffer)? };
    drop(buffer);
    let server = Server {
        device,
        files,
        ended,
        turn: Mutex::new(()),
        pool: Mutex::new(Pool { threads: 1, ..Pool::default() }),
        in_flight: Mutex::default(),
        interrupted: Condvar::new(),
        locks: Mutex::default(),
        lock_waits: Condvar::new(),
        end: Mutex::new(None),
        began: Instant::now(),
    };
    std::thread::scope(|scope| {
        scope.spawn(|| server.interrupt());
        scope.spawn(|| server.wait_for_locks());
        scope.spawn(|| files.work(&notifier));
        server.work(scope);
    });
    lock(&server.end).unwrap_or(Ok(()))
}

/// Who waits for a call, and for what. Not of one that [`ends`] something.
fn waiter(call: &Call<'_>) -> Waiter {
    match call.operation {
        Operation::Lock(_) => Waiter::Locking,
        Operation::Open { flags } if OFlags::from_bits_retain(flags).contains(OFlags::TRUNC) => {
            Waiter::Changing(call.caller.thread)
        }
        Operation::Write { .. }
        | Operation::Create { .. }
        | Operation::SetAttributes(_)
        | Operation::SetXattr { .. }
        | Operation::RemoveXattr { .. }
        | Operation::Allocate { .. }
        | Operation::Sync { .. }
        | Operation::SyncDirectory
        | Operation::MakeDirectory { .. }
        | Operation::MakeNode { .. }
        | Operation::Symlink { .. }
        | Operation::Link { .. }
        | Operation::Rename { .. }
        | Operation::Unlink { .. }
        | Operation::RemoveDirectory { .. } => Waiter::Changing(call.caller.thread),
        _ => Waiter::Looking(call.caller.thread),
    }
}

/// What a call comes to; EIO if it panics: whoever waits for it would wait for ever, and nobody would read any more.
fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, Errno> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|_| Errno::IO)
}

/// Whether it is what a process asks for at its end, too. Then it is not interrupted, and has to be done although nobody waits for it.
fn ends(call: &Call<'_>) -> bool {
    match call.operation {
        Operation::Flush { .. } => true,
        Operation::Lock(request) => request.is_unlock(),
        _ => false,
    }
}

fn buffer() -> Vec<u8> {
    vec![0; abi::REQUEST_REST + abi::DATA_MAX]
}

impl Pool {
    /// The next request of the queue. If there is none, the thread waits for its turn from now on: in one
    /// step, since whoever reads puts into the queue what nobody waits for.
    fn next(&mut self) -> Option<Vec<u8>> {
        let next = self.queue.pop_front();
        match &next {
            Some(request) => self.queued_bytes -= request.len(),
            None => self.waiting += 1,
        }
        next
    }

    /// False if there is no room.
    fn push(&mut self, request: &[u8]) -> bool {
        let fits = self.queue.len() < QUEUE_MAX && self.queued_bytes + request.len() <= QUEUE_BYTES_MAX;
        if fits {
            self.queue.push_back(request.to_vec());
            self.queued_bytes += request.len();
        }
        fits
    }
}

impl<'a> Server<'a> {
    fn now_ms(&self) -> u64 {
        // Hundreds of millions of years: fits.
        self.began.elapsed().as_millis() as u64
    }

    fn ended(&self) -> bool {
        lock(&self.end).is_some()
    }

    /// Nothing is read any more: wakes who waits for something to do.
    fn end(&self, why: Result<(), Errno>) {
        lock(&self.end).get_or_insert(why);
        // Under their locks, so that nobody is between a look at the end and the wait.
        let _in_flight = lock(&self.in_flight);
        let _locks = lock(&self.locks);
        self.interrupted.notify_all();
        self.lock_waits.notify_all();
        self.files.end_work();
        (self.ended)();
    }

    /// Reads when it is this thread's turn, and works on what it read.
    fn work<'s>(&'s self, scope: &'s Scope<'s, '_>) {
        let mut buffer = buffer();
        loop {
            while let Some(request) = self.queued() {
                self.answer(&request);
            }
            let turn = lock(&self.turn);
            lock(&self.pool).waiting -= 1;
            let Some(length) = self.lead(&mut buffer, scope) else { return };
            drop(turn);
            self.answer(&buffer[..length]);
        }
    }

    fn queued(&self) -> Option<Vec<u8>> {
        lock(&self.pool).next()
    }

    /// Reads until there is a request that somebody has to work on; then another thread reads. None
    /// at the end.
    fn lead<'s>(&'s self, buffer: &mut [u8], scope: &'s Scope<'s, '_>) -> Option<usize> {
        while !self.ended() {
            let length = match read(self.device, buffer) {
                Ok(Some(length)) => length,
                Ok(None) => {
                    self.end(Ok(()));
                    return None;
                }
                Err(error) => {
                    self.end(Err(error));
                    return None;
                }
            };
            let Some(call) = request::decode(&buffer[..length]) else { continue };
            if !self.needs_work(&call) {
                continue;
            }
            self.begin(&call);
            let unique = call.unique;
            let mut pool = lock(&self.pool);
            if pool.waiting > 0 {
                return Some(length);
            }
            if pool.threads < THREADS_MAX {
                let worker = std::thread::Builder::new().name("xdfs-mount".to_owned());
                if worker.spawn_scoped(scope, move || self.work(scope)).is_ok() {
                    pool.threads += 1;
                    return Some(length);
                }
            }
            let queued = pool.push(&buffer[..length]);
            drop(pool);
            if !queued {
                self.deliver(unique, Err(Errno::NOMEM));
            }
        }
        None
    }

    fn begin(&self, call: &Call<'_>) {
        let now = self.now_ms();
        let mut calls = lock(&self.in_flight);
        if !ends(call) {
            calls.begin(call.unique, waiter(call));
        } else if calls.begin_ending(call.unique, call.caller.thread, now) {
            self.interrupted.notify_all();
        }
    }

    /// Does what takes no time. True if that is not all.
    fn needs_work(&self, call: &Call<'_>) -> bool {
        match call.operation {
            Operation::Interrupt { unique } => {
                let now = self.now_ms();
                lock(&self.in_flight).interrupt(unique, now);
                self.interrupted.notify_all();
            }
            Operation::Forget { lookups } => self.files.forget(call.inode, lookups),
            Operation::ForgetMany { pairs } => {
                request::forgotten(pairs).for_each(|(inode, lookups)| self.files.forget(inode, lookups));
            }
            // The kernel answers nothing more by itself.
            Operation::Destroy => drop(send(self.device, call.unique, Ok(&Answer::Done))),
            // Another thread would have to be woken for it.
            _ => match guarded(|| self.files.at_once(call)).unwrap_or_else(|errno| Some(Err(errno))) {
                Some(outcome) if send(self.device, call.unique, outcome.as_ref().map_err(|errno| *errno)).is_err() => {
                    let _ = outcome.map(|answer| self.files.undelivered(answer));
                }
                Some(_) => {}
                None => return true,
            },
        }
        false
    }

    fn answer(&self, request: &[u8]) {
        let Some(call) = request::decode(request) else { return };
        if !ends(&call) && lock(&self.in_flight).is_abandoned(call.unique) {
            lock(&self.in_flight).finish(call.unique);
            return;
        }
        match guarded(|| self.files.call(&call)).unwrap_or_else(|errno| Outcome::Now(Err(errno))) {
            Outcome::Now(outcome) => drop(self.deliver(call.unique, outcome)),
            Outcome::Later(waiting) => self.wait_later(call.unique, waiting),
        }
    }

    /// Sends an answer; false if nobody waits for it, which the file system then knows.
    fn deliver(&self, unique: u64, outcome: Result<Answer, Errno>) -> bool {
        let wanted = lock(&self.in_flight).finish(unique);
        let dropped = match &outcome {
            Ok(Answer::Locked { inode }) => Some((*inode, Kept::Everything)),
            Ok(Answer::Opened { changed, .. }) => changed.map(|inode| (inode, Kept::Attributes)),
            Ok(Answer::Read { newer, .. }) => newer.map(|newer| (newer.inode, Kept::Attributes)),
            _ => None,
        };
        if let Some((inode, kept)) = dropped {
            // No inode is found if the kernel has forgotten it.
            let _ = invalidate(self.device, inode, kept);
        }
        if let Ok(Answer::Read { newer: Some(newer), .. }) = &outcome {
            self.files.dropped_older(*newer);
        }
        let sent = wanted && send(self.device, unique, outcome.as_ref().map_err(|errno| *errno)).is_ok();
        match outcome {
            Ok(answer) if !sent => self.files.undelivered(answer),
            _ => {}
        }
        sent
    }

    /// Answers requests whose processes wait no longer.
    fn interrupt(&self) {
        let mut calls = lock(&self.in_flight);
        while !self.ended() {
            let now = self.now_ms();
            for unique in calls.due(now, is_dying) {
                let _ = send(self.device, unique, Err(Errno::INTR));
            }
            let next = calls.next_ms();
            calls.sleep(next);
            calls = match next {
                Some(next) => {
                    let pause = Duration::from_millis(next.saturating_sub(now).max(1));
                    self.interrupted.wait_timeout(calls, pause).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.interrupted.wait(calls).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn wait_later(&self, unique: u64, waiting: Box<dyn Waiting>) {
        let mut locks = lock(&self.locks);
        if locks.len() >= WAITING_MAX {
            drop(locks);
            self.deliver(unique, Err(Errno::NOLCK));
            return;
        }
        locks.push(WaitingLock { unique, waiting, pause: ATTEMPT_MIN, next: Instant::now() + ATTEMPT_MIN });
        self.lock_waits.notify_all();
    }

    /// Tries the locks that are waited for.
    fn wait_for_locks(&self) {
        let mut locks = lock(&self.locks);
        while !self.ended() {
            let now = Instant::now();
            let Some(index) = locks.iter().position(|one| one.next <= now) else {
                let next = locks.iter().map(|one| one.next.saturating_duration_since(now)).min();
                locks = match next {
                    Some(pause) => self.lock_waits.wait_timeout(locks, pause).unwrap_or_else(PoisonError::into_inner).0,
                    None => self.lock_waits.wait(locks).unwrap_or_else(PoisonError::into_inner),
                };
                continue;
            };
            let mut one = locks.swap_remove(index);
            drop(locks);
            if let Some(one) = self.try_once(&mut one).then_some(one) {
                lock(&self.locks).push(one);
            }
            locks = lock(&self.locks);
        }
    }

    /// Tries a lock; true if it has to wait longer.
    fn try_once(&self, one: &mut WaitingLock) -> bool {
        if lock(&self.in_flight).is_abandoned(one.unique) {
            lock(&self.in_flight).finish(one.unique);
            return false;
        }
        let attempt = guarded(|| one.waiting.attempt()).unwrap_or_else(|errno| Some(Err(errno)));
        let Some(outcome) = attempt else {
            one.pause = (one.pause * 2).min(ATTEMPT_MAX);
            one.next = Instant::now() + one.pause;
            return true;
        };
        let succeeded = outcome.is_ok();
        if !self.deliver(one.unique, outcome) && succeeded {
            one.waiting.undo();
        }
        false
    }
}

#[cfg(test)]
mod tests;
