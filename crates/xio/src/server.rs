//! The passive end: listens, and accepts elements that are opened like others (XIO-09).

use crate::driver::Listener;
use crate::error::{Error, ErrorKind, Result};
use crate::handle::core::milliseconds_until;
use crate::handle::reactor::Reactor;
use crate::handle::{Handle, Options, deadline, may_wait};
use crate::stack::{Prepared, Stack};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use xdfs_io::stack::{Flow, PollEntry, poll};

/// A stack that listens. Any thread may accept, and any may close.
pub struct Server {
    stack: Prepared,
    /// None once it is closed.
    listener: Mutex<Option<Box<dyn Listener>>>,
    /// Set for good when it is closed.
    closed: OwnedFd,
}

impl Server {
    /// Listens with a stack at `contact`.
    pub fn listen(stack: &Stack, contact: &str) -> Result<Self> {
        let stack = stack.prepared()?;
        let listener = Mutex::new(Some(stack.listen(contact)?));
        let closed = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(io::Error::from)?;
        Ok(Self { stack, listener, closed })
    }

    /// A contact string with which a process of this host reaches it.
    pub fn contact(&self) -> Result<String> {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        let listener = listener.as_ref().ok_or_else(|| self.is_closed())?;
        listener.contact().map_err(|error| Error::from_io(error).of_stack(&self.stack.name))
    }

    /// Waits for the next connection. It is not open yet, so that a peer that is slow in its
    /// handshakes keeps nobody waiting.
    pub fn accept(&self, timeout: Option<Duration>) -> Result<Accepted> {
        may_wait()?;
        let deadline = deadline(timeout);
        let mut unheard = false;
        loop {
            let number = {
                let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
                let listener = listener.as_mut().ok_or_else(|| self.is_closed())?;
                match listener.accept() {
                    Ok(flow) => return Ok(Accepted { stack: self.stack.clone(), flow }),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                        self.must_be_in_time(deadline)?;
                        continue;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock && unheard => return Err(self.is_unheard()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(Error::from_io(error).of_stack(&self.stack.name)),
                }
                listener.descriptor().map(|descriptor| descriptor.as_raw_fd())
            };
            // Nobody would tell of a connection: the next call says why, if the listener knows.
            let Some(number) = number else {
                unheard = true;
                continue;
            };
            self.must_be_in_time(deadline)?;
            let mut entries = [self.closed.as_raw_fd(), number].map(|number| PollEntry::new(number, true, false));
            // An interrupted call is one that found nothing.
            let _ = poll(&mut entries, deadline.map_or(-1, milliseconds_until));
        }
    }

    fn must_be_in_time(&self, deadline: Option<Instant>) -> Result<()> {
        if deadline.is_none_or(|deadline| Instant::now() < deadline) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::TimedOut, "nobody connected in time").of_stack(&self.stack.name))
    }

    /// Stops listening. Threads that wait in [`Server::accept`] return.
    pub fn close(&self) {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        // It fails only where it is already set.
        let _ = rustix::io::write(&self.closed, &1u64.to_ne_bytes());
        drop(listener);
    }

    fn is_unheard(&self) -> Error {
        let asked = self.stack.name.rsplit(',').next().unwrap_or_default();
        let what = "its listener has no descriptor to wait for connections with";
        Error::new(ErrorKind::Driver, what).of_driver(asked).of_stack(&self.stack.name)
    }

    fn is_closed(&self) -> Error {
        Error::new(ErrorKind::Closed, "the server is closed").of_stack(&self.stack.name)
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({})", self.stack.name)
    }
}

/// A connection that was accepted and is not open: its handshakes are still to be done.
pub struct Accepted {
    stack: Prepared,
    flow: Box<dyn Flow>,
}

impl Accepted {
    /// Opens it.
    pub fn open(self, options: &Options) -> Result<Handle> {
        may_wait()?;
        Handle::finish_open(&self.stack, self.flow, options, deadline(options.timeouts.open))
    }

    /// Starts to open it.
    pub fn register_open(
        self,
        options: &Options,
        callback: impl FnOnce(&Handle, Result<()>) + Send + 'static,
    ) -> Result<Handle> {
        Reactor::check()?;
        Ok(Handle::register_open_of(&self.stack, self.flow, options, callback))
    }
}

impl std::fmt::Debug for Accepted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Accepted({})", self.stack.name)
    }
}
