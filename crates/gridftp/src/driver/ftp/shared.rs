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
    /// There was no transfer; the next read or write asks for one.
    Fresh,
    /// There is none after a seek; the next read or write asks for one. To write from the beginning again
    /// would mean that the server empties the file.
    Idle,
    /// The thread is to begin one, at this offset.
    Asked(u64),
    /// It moves bytes.
    Running,
    /// The end was reached: everything was read, or the server has what was written.
    Ended,
    /// It failed. What the next call is told: why, and after that only that it is over.
    Failed(io::Error),
}

/// What the element wants of its transfer.
#[derive(Debug)]
pub(super) enum Intent {
    /// It goes on.
    Continue,
    /// A seek ends it; what was written before goes where it was to go. Then there is none.
    Seek,
    /// No more is written.
    Finish,
    /// There is no element any more; its session is about to come back.
    Close(Returning),
    /// The same, and its session, which was not open yet, is given up.
    Abandon,
}

impl Intent {
    /// Whether the element is there no more.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self, Self::Close(_) | Self::Abandon)
    }
}

/// The state of an element.
#[derive(Debug)]
pub(super) struct State {
    /// What its thread does.
    pub(super) phase: Phase,
    /// What it wants of that.
    pub(super) intent: Intent,
    /// The file's length when it was opened for reading, if the server says it.
    pub(super) size: Option<u64>,
    /// What was downloaded and not read.
    pub(super) incoming: Queue,
    /// What was written and not uploaded.
    pub(super) outgoing: VecDeque<u8>,
    /// Where the next byte that is written belongs.
    pub(super) position: u64,
    /// Whoever reads waits for the signal.
    reader_waits: bool,
    /// Whoever writes waits for the signal.
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
            intent: Intent::Continue,
            size: None,
            incoming: Queue::default(),
            outgoing: VecDeque::new(),
            position: 0,
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
        let over = io::ErrorKind::NotConnected.into();
        if let Phase::Failed(error) = &mut self.phase { std::mem::replace(error, over) } else { over }
    }

    /// The transfer has ended without a failure.
    pub(super) fn on_ended(&mut self) {
        self.phase = if self.end_seek() { Phase::Idle } else { Phase::Ended };
    }

    /// Something has failed. How a download ended that a seek has given up nobody asks; what was written
    /// counts all the same.
    pub(super) fn on_failed(&mut self, error: io::Error, is_reading: bool) {
        self.phase = if self.end_seek() && is_reading { Phase::Idle } else { Phase::Failed(error) };
    }

    /// The transfer that a seek was to end is no more. Returns whether there was a seek.
    fn end_seek(&mut self) -> bool {
        let is_seek = matches!(self.intent, Intent::Seek);
        if is_seek {
            self.intent = Intent::Continue;
        }
        is_seek
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state in which a transfer runs.
    fn running(intent: Intent) -> Shared {
        let shared = Shared::new().unwrap();
        shared.lock().phase = Phase::Running;
        shared.lock().intent = intent;
        shared
    }

    #[test]
    fn a_transfer_that_ends_is_followed_by_another_only_after_a_seek() {
        let shared = running(Intent::Seek);
        let mut state = shared.lock();
        state.on_ended();
        assert!(matches!((&state.phase, &state.intent), (Phase::Idle, Intent::Continue)));
        for intent in [Intent::Continue, Intent::Finish] {
            let shared = running(intent);
            let mut state = shared.lock();
            state.on_ended();
            assert!(matches!((&state.phase, &state.intent), (Phase::Ended, Intent::Continue | Intent::Finish)));
        }
    }

    #[test]
    fn a_failure_is_told_once_and_none_of_a_download_that_a_seek_gave_up() {
        for (intent, is_reading, is_idle) in [
            (Intent::Seek, true, true),
            (Intent::Seek, false, false),
            (Intent::Continue, true, false),
            (Intent::Finish, false, false),
        ] {
            let shared = running(intent);
            let mut state = shared.lock();
            state.on_failed(io::ErrorKind::ConnectionReset.into(), is_reading);
            assert_eq!(matches!(state.phase, Phase::Idle), is_idle);
            assert!(!matches!(state.intent, Intent::Seek));
            if !is_idle {
                assert_eq!(state.failure().kind(), io::ErrorKind::ConnectionReset);
                assert_eq!(state.failure().kind(), io::ErrorKind::NotConnected);
            }
        }
    }
}
