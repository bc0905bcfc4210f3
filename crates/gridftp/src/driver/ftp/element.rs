//! A file of a server as an element of a stack: it moves bytes into and out of the buffers that it
//! shares with its thread.

use super::cache::{Key, Returning};
use super::shared::{Intent, OUTGOING_BYTES, Phase, Shared, State};
use super::target::Target;
use super::{Access, Transport, worker};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use xdfs_xio::{Answer, Command, Flow, ReadInfo, Result, WriteInfo};

use super::queue::Queue;

/// An open file.
pub(super) struct Element {
    shared: Arc<Shared>,
    access: Access,
    key: Arc<Key>,
}

impl Element {
    /// Begins to open it.
    pub(super) fn open(target: Target, transport: Transport) -> Result<Self> {
        let shared = Arc::new(Shared::new()?);
        let access = transport.access;
        let key = worker::start(target, transport, Arc::clone(&shared))?;
        Ok(Self { shared, access, key })
    }

    fn reads(&self) -> bool {
        matches!(self.access, Access::Read { .. })
    }

    /// Whether nothing can be read behind this place.
    fn is_end(&self, state: &State, position: u64) -> bool {
        let Access::Read { end, .. } = self.access else { return true };
        [end, state.size].into_iter().flatten().any(|end| position >= end)
    }

    fn seek(&self, state: &mut State, to: u64) -> io::Result<()> {
        if matches!(state.phase, Phase::Opening) || matches!(state.intent, Intent::Finish) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if self.reads() {
            let is_lost = matches!(state.phase, Phase::Failed(_)) || matches!(state.intent, Intent::Seek);
            if state.incoming.position() == to && !is_lost {
                return Ok(());
            }
            state.incoming = Queue::starting_at(to);
            if matches!(state.phase, Phase::Running) {
                state.intent = Intent::Seek;
            } else {
                state.phase = Phase::Idle;
            }
        } else {
            match state.phase {
                Phase::Failed(_) => return Err(state.failure()),
                _ if state.position == to => return Ok(()),
                _ if to > 0 || matches!(state.phase, Phase::Fresh) => {}
                _ => {
                    let what =
                        "the server empties a file that is written from its beginning: write the beginning first";
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
                }
            }
            state.position = to;
            if !matches!(state.phase, Phase::Fresh | Phase::Idle) {
                state.intent = Intent::Seek;
            }
        }
        self.shared.notify();
        Ok(())
    }
}

fn number(command: &Command) -> io::Result<u64> {
    let text = command.value.as_deref().unwrap_or_default();
    text.parse().ok().filter(|number| i64::try_from(*number).is_ok()).ok_or_else(|| {
        let what = format!("'{}' needs a number of bytes, not '{}'", command.name, text.escape_debug());
        io::Error::new(io::ErrorKind::InvalidInput, what)
    })
}

fn wrong_way(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, what)
}

impl Flow for Element {
    fn connected(&mut self) -> io::Result<()> {
        let mut state = self.shared.lock();
        match state.phase {
            Phase::Opening => {
                let _ = self.shared.hold_reader(&mut state);
                Err(self.shared.hold_writer(&mut state))
            }
            Phase::Failed(_) => Err(state.failure()),
            _ => Ok(()),
        }
    }

    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        if !self.reads() {
            return Err(wrong_way("it was opened for writing"));
        }
        if into.iter().all(|slice| slice.is_empty()) {
            return Ok(0);
        }
        let mut state = self.shared.lock();
        let position = state.incoming.position();
        if !state.incoming.is_empty() {
            let was_full = state.incoming.is_full();
            let moved = state.incoming.take(into);
            if was_full {
                self.shared.notify();
            }
            info.offset = Some(position);
            return Ok(moved);
        }
        match state.phase {
            Phase::Ended => {}
            Phase::Fresh | Phase::Idle if self.is_end(&state, position) => state.phase = Phase::Ended,
            Phase::Failed(_) => return Err(state.failure()),
            Phase::Fresh | Phase::Idle => {
                state.phase = Phase::Asked(position);
                self.shared.notify();
                return Err(self.shared.hold_reader(&mut state));
            }
            Phase::Opening | Phase::Asked(_) | Phase::Running => return Err(self.shared.hold_reader(&mut state)),
        }
        info.end = true;
        Ok(0)
    }

    fn send(&mut self, from: &[IoSlice<'_>], info: &WriteInfo) -> io::Result<usize> {
        if self.reads() {
            return Err(wrong_way("it was opened for reading; 'access=write' opens it for writing"));
        }
        let mut state = self.shared.lock();
        if info.offset.is_some_and(|offset| offset != state.position) {
            return Err(wrong_way("it is written in order; 'seek' says where"));
        }
        match state.phase {
            _ if matches!(state.intent, Intent::Finish) => return Err(io::ErrorKind::BrokenPipe.into()),
            Phase::Fresh | Phase::Idle => {}
            Phase::Asked(_) | Phase::Running if !matches!(state.intent, Intent::Seek) => {}
            Phase::Opening | Phase::Asked(_) | Phase::Running => return Err(self.shared.hold_writer(&mut state)),
            Phase::Ended => return Err(io::ErrorKind::BrokenPipe.into()),
            Phase::Failed(_) => return Err(state.failure()),
        }
        let had = state.outgoing.len();
        if had >= OUTGOING_BYTES {
            return Err(self.shared.hold_writer(&mut state));
        }
        for slice in from {
            let count = slice.len().min(OUTGOING_BYTES - state.outgoing.len());
            state.outgoing.extend(&slice[..count]);
        }
        let moved = state.outgoing.len() - had;
        if moved > 0 {
            if matches!(state.phase, Phase::Fresh | Phase::Idle) {
                state.phase = Phase::Asked(state.position);
            }
            state.position += moved as u64;
            if had == 0 {
                self.shared.notify();
            }
        }
        Ok(moved)
    }

    fn holds(&self) -> bool {
        let state = self.shared.lock();
        !state.incoming.is_empty() || matches!(state.phase, Phase::Ended | Phase::Failed(_))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.shared.signals.readable())
    }

    fn sending_descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.shared.signals.writable())
    }

    /// What was written is there when the server has said so.
    fn finish_sending(&mut self) -> io::Result<()> {
        if self.reads() {
            return Ok(());
        }
        let mut state = self.shared.lock();
        state.intent = Intent::Finish;
        match state.phase {
            Phase::Ended => return Ok(()),
            Phase::Failed(_) => return Err(state.failure()),
            Phase::Idle => {
                state.phase = Phase::Ended;
                return Ok(());
            }
            // An empty file.
            Phase::Fresh => state.phase = Phase::Asked(state.position),
            Phase::Opening | Phase::Asked(_) | Phase::Running => {}
        }
        self.shared.notify();
        Err(self.shared.hold_writer(&mut state))
    }

    /// `seek=OFFSET` counts from the beginning; `position` and `size` are asked for; `finish_sending`
    /// ends what is written.
    fn control(&mut self, command: &Command) -> io::Result<Answer> {
        match &*command.name {
            "seek" => {
                let to = number(command)?;
                self.seek(&mut self.shared.lock(), to).map(|()| Answer::Number(to))
            }
            "position" => {
                let state = self.shared.lock();
                Ok(Answer::Number(if self.reads() { state.incoming.position() } else { state.position }))
            }
            "size" => {
                let size = self.shared.lock().size;
                size.map(Answer::Number).ok_or_else(|| wrong_way("the server has not said how long the file is"))
            }
            "finish_sending" => match self.finish_sending() {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
                _ => Ok(Answer::Done),
            },
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl Drop for Element {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.intent = if matches!(state.phase, Phase::Opening) {
            self.shared.stop.store(true, Ordering::Release);
            Intent::Abandon
        } else {
            Intent::Close(Returning::new(&self.key))
        };
        drop(state);
        self.shared.notify();
    }
}
