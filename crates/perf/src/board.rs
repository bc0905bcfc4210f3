//! What the threads of a run tell each other: that it is to stop and why, which of them are done,
//! and what failed first.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use xdfs_xio::{Error, Server};

/// The notes, shared by all.
#[derive(Debug, Default)]
pub(crate) struct Board {
    notes: Mutex<Notes>,
    changed: Condvar,
    /// Nothing more is to be sent: looked at before each block.
    stopping: AtomicBool,
}

#[derive(Debug, Default)]
struct Notes {
    interrupted: bool,
    /// Closed by an interrupt, so that nobody waits for a connection any more.
    server: Option<Arc<Server>>,
    /// The main thread waits for a peer to answer, which a signal does not end.
    connecting: bool,
    /// The first byte may move, or has arrived where only that tells of a peer.
    started: Option<Instant>,
    /// When the last of the threads that are done moved its last byte.
    ended: Option<Instant>,
    done: usize,
    failure: Option<Error>,
}

/// Why a wait on the board ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Woken {
    /// What was waited for is there.
    Done,
    /// The time is up.
    Late,
    /// A signal asked the program to stop.
    Interrupted,
}

impl Board {
    /// A signal: the run is to stop. False where nothing would notice: the process can end at once.
    pub(crate) fn interrupt(&self) -> bool {
        let mut notes = self.lock();
        notes.interrupted = true;
        if let Some(server) = notes.server.take() {
            server.close();
        }
        self.stopping.store(true, Ordering::Relaxed);
        self.changed.notify_all();
        !notes.connecting
    }

    /// Calls `connect`, which waits for peers.
    pub(crate) fn connecting<T>(&self, connect: impl FnOnce() -> T) -> T {
        self.lock().connecting = true;
        let result = connect();
        self.lock().connecting = false;
        result
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.lock().interrupted
    }

    /// The server that an interrupt closes.
    pub(crate) fn listens(&self, server: Arc<Server>) {
        let mut notes = self.lock();
        if notes.interrupted {
            server.close();
        }
        notes.server = Some(server);
    }

    /// A run begins.
    pub(crate) fn begin(&self) {
        let mut notes = self.lock();
        (notes.started, notes.ended, notes.done, notes.failure) = (None, None, 0, None);
        self.stopping.store(notes.interrupted, Ordering::Relaxed);
    }

    /// No more is to be sent.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        drop(self.lock());
        self.changed.notify_all();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// The clock starts, unless it has.
    pub(crate) fn start(&self) -> Instant {
        let started = *self.lock().started.get_or_insert_with(Instant::now);
        self.changed.notify_all();
        started
    }

    pub(crate) fn started(&self) -> Option<Instant> {
        self.lock().started
    }

    pub(crate) fn ended(&self) -> Option<Instant> {
        self.lock().ended
    }

    /// A thread has moved its last byte, at `at`.
    pub(crate) fn on_done(&self, result: xdfs_xio::Result<()>, at: Instant) {
        let mut notes = self.lock();
        notes.done += 1;
        notes.ended = notes.ended.max(Some(at));
        if let Err(error) = result {
            // The others would go on with a run that has failed.
            self.stopping.store(true, Ordering::Relaxed);
            notes.failure.get_or_insert(error);
        }
        self.changed.notify_all();
    }

    /// The first failure of the run.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.lock().failure.take()
    }

    /// Waits until the clock has started, or the run is over before.
    pub(crate) fn wait_started(&self) {
        self.wait(None, |notes| notes.started.is_some() || notes.done > 0, true);
    }

    /// Waits until so many threads are done, something failed, or `until`.
    pub(crate) fn wait_done(&self, threads: usize, until: Option<Instant>) -> Woken {
        self.wait(until, |notes| notes.done >= threads || notes.failure.is_some(), true)
    }

    /// The same, when the run was told to stop already.
    pub(crate) fn wait_all_done(&self, threads: usize, until: Instant) -> Woken {
        self.wait(Some(until), |notes| notes.done >= threads, false)
    }

    /// Waits until `until`, or until the run is to stop.
    pub(crate) fn pause(&self, until: Instant) {
        let mut notes = self.lock();
        while !self.is_stopping() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            notes = self.changed.wait_timeout(notes, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn wait(&self, until: Option<Instant>, there: impl Fn(&Notes) -> bool, interruptible: bool) -> Woken {
        let mut notes = self.lock();
        loop {
            if there(&notes) {
                return Woken::Done;
            }
            if interruptible && notes.interrupted {
                return Woken::Interrupted;
            }
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Woken::Late;
            }
            // A wait of more than a day is looked at again.
            let left = left.min(Duration::from_secs(86_400));
            notes = self.changed.wait_timeout(notes, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
