//! The passive end of a blocking transport. One thread waits in the driver's accept; what it accepted stands
//! in line until the program takes it, and where the line is full the thread waits.

use super::abi::{Blocking, Element, Listening, named};
use super::blocking::{accepted, counter, empty, is_interrupted, judged, pause};
use crate::driver::Listener;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use xdfs_io::stack::Flow;

/// Most connections that stand in line. Further ones wait in the driver.
const LINE_MAX: usize = 16;

/// The listener, as the framework has it.
pub(super) struct BlockingListener {
    shared: Arc<Shared>,
}

/// What it shares with its thread.
struct Shared {
    name: String,
    calls: Blocking,
    listening: Listening,
    listener: Element,
    line: Mutex<Line>,
    room: Condvar,
    /// Readable while somebody stands in line.
    readable: OwnedFd,
}

struct Line {
    /// Connections, and errors in their place.
    accepted: VecDeque<io::Result<Element>>,
    /// The listener is gone: the thread ends.
    dropped: bool,
}

impl BlockingListener {
    /// Waits for connections of a listener of the driver's, which is closed also where this fails.
    pub(super) fn start(name: &str, calls: Blocking, listening: Listening, listener: Element) -> io::Result<Self> {
        let close = |_: &io::Error| listening.close(listener);
        let readable = counter(0).inspect_err(close)?;
        let line = Mutex::new(Line { accepted: VecDeque::new(), dropped: false });
        let (name, room) = (name.to_owned(), Condvar::new());
        let shared = Arc::new(Shared { name, calls, listening, listener, line, room, readable });
        let accepting = shared.clone();
        let started = thread::Builder::new().name("xio-block-accept".into()).spawn(move || accepting.accept());
        started.inspect_err(close)?;
        Ok(Self { shared })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread.
    fn accept(&self) {
        let mut line = self.lock();
        let mut interruptions = 0;
        while !line.dropped {
            if line.accepted.len() == LINE_MAX {
                line = self.room.wait(line).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            drop(line);
            let accepted = self.listening.accept(self.listener);
            line = self.lock();
            if is_interrupted(&accepted) {
                line = pause(&self.room, line, &mut interruptions);
                continue;
            }
            interruptions = 0;
            line.accepted.push_back(accepted);
            let _ = rustix::io::write(&self.readable, &1u64.to_ne_bytes());
        }
        let left = std::mem::take(&mut line.accepted);
        drop(line);
        for element in left.into_iter().flatten() {
            self.calls.close(element);
        }
        self.listening.close(self.listener);
    }
}

impl Drop for BlockingListener {
    fn drop(&mut self) {
        let mut line = self.shared.lock();
        line.dropped = true;
        // With the lock held: the thread closes it only after it had the lock.
        self.shared.listening.interrupt(self.shared.listener);
        drop(line);
        self.shared.room.notify_all();
    }
}

impl Listener for BlockingListener {
    fn accept(&mut self) -> io::Result<Box<dyn Flow>> {
        let mut line = self.shared.lock();
        let next = line.accepted.pop_front();
        if line.accepted.is_empty() {
            empty(&self.shared.readable);
        }
        drop(line);
        self.shared.room.notify_all();
        let element = match next {
            None => return Err(io::ErrorKind::WouldBlock.into()),
            Some(next) => next.map_err(|error| judged(error, &self.shared.name))?,
        };
        Ok(accepted(&self.shared.name, self.shared.calls, element)?)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.shared.readable.as_fd())
    }

    fn contact(&self) -> io::Result<String> {
        let contact = self.shared.listening.contact(self.shared.listener);
        contact.map_err(|error| named(error, &self.shared.name))
    }
}
