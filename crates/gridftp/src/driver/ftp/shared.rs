//! What an element and its thread share, and which of them may do what: the state is a machine without
//! input or output; each side locks it for a moment.

use super::cache::Returning;
use super::queue::Queue;
use super::signals::Signals;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A writer waits while so many bytes wait for their connection.
pub(super) const OUTGOING_BYTES: usize = 1 << 20;

/// How far a transfer is.
#[derive(Debug)]
pub(super) enum Phase {
    /// The session is being opened.
    Opening,
    /// There is no transfer; the next read or write asks for one.
    Idle,
    /// The thread is to begin one, at this offset.
    Asked(u64),
    /// It moves bytes.
    Running,
    /// The end was reached: everything was read, or the server has what was written.
    Ended,
    /// It failed. Why, until that was told.
    Failed(Option<io::Error>),
}

/// The state of an element.
#[derive(Debug)]
pub(super) struct State {
    pub(super) phase: Phase,
    /// The file's length when it was opened for reading, if the server says it.
    pub(super) size: Option<u64>,
    /// What was downloaded and not read.
    pub(super) incoming: Queue,
    /// What was written and not uploaded.
    pub(super) outgoing: VecDeque<u8>,
    /// Where the next byte that is written belongs.
    pub(super) position: u64,
    /// Something was uploaded: from the beginning again would mean that the server empties the file.
    pub(super) touched: bool,
    /// A seek ends the transfer; what was written before goes where it was to go. Then there is none.
    pub(super) turning: bool,
    /// No more is written.
    pub(super) finishing: bool,
    /// There is no element any more.
    pub(super) dropped: bool,
    /// Its session is about to come back.
    pub(super) returning: Option<Returning>,
    reader_waits: bool,
    writer_waits: bool,
}

/// An element, as its thread sees it too.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    pub(super) signals: Signals,
    /// Ends the opening of a session.
    pub(super) stop: Arc<AtomicBool>,
}

impl Shared {
    pub(super) fn new() -> io::Result<Self> {
        let state = State {
            phase: Phase::Opening,
            size: None,
            incoming: Queue::default(),
            outgoing: VecDeque::new(),
            position: 0,
            touched: false,
            turning: false,
            finishing: false,
            dropped: false,
            returning: None,
            // Who opens it waits for both.
            reader_waits: true,
            writer_waits: true,
        };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Ok(Self { state, changed, signals: Signals::new()?, stop: Arc::default() })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread waits until the element has changed something.
    pub(super) fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// The element has changed something.
    pub(super) fn notify(&self) {
        self.changed.notify_one();
    }

    /// The element can go on in both directions.
    pub(super) fn wake(&self, state: &mut State) {
        self.wake_reader(state);
        self.wake_writer(state);
    }

    pub(super) fn wake_reader(&self, state: &mut State) {
        if std::mem::take(&mut state.reader_waits) {
            self.signals.wake_reader();
        }
    }

    pub(super) fn wake_writer(&self, state: &mut State) {
        if std::mem::take(&mut state.writer_waits) {
            self.signals.wake_writer();
        }
    }

    /// Whoever reads is to wait.
    pub(super) fn hold_reader(&self, state: &mut State) -> io::Error {
        self.signals.hold_reader();
        state.reader_waits = true;
        io::ErrorKind::WouldBlock.into()
    }

    /// Whoever writes is to wait.
    pub(super) fn hold_writer(&self, state: &mut State) -> io::Error {
        self.signals.hold_writer();
        state.writer_waits = true;
        io::ErrorKind::WouldBlock.into()
    }
}

impl State {
    /// Why it failed, which is told once.
    pub(super) fn failure(&mut self) -> io::Error {
        let untold = if let Phase::Failed(untold) = &mut self.phase { untold.take() } else { None };
        untold.unwrap_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// The transfer has ended without a failure.
    pub(super) fn on_ended(&mut self) {
        let is_turning = std::mem::take(&mut self.turning);
        self.phase = if is_turning && !self.finishing { Phase::Idle } else { Phase::Ended };
    }

    /// Something has failed. How a download ended that a seek has given up nobody asks; what was written
    /// counts all the same.
    pub(super) fn on_failed(&mut self, error: io::Error, is_reading: bool) {
        if std::mem::take(&mut self.turning) && is_reading {
            self.phase = Phase::Idle;
        } else {
            self.phase = Phase::Failed(Some(error));
        }
    }
}
