//! The close barrier: everything that is outstanding is finished or cancelled, and told, before the
//! drivers are closed, and that is told last (XIO-41, XIO-42).

use super::core::Closing;
use super::{Handle, deadline, may_wait};
use crate::error::{Error, ErrorKind, Result};
use crate::operations::{Lane, Refused};
use crate::reactor::Reactor;
use std::time::Instant;

impl Handle {
    /// Says that nothing more will be written, and waits until the drivers have passed on what they held: the peer reads it and
    /// then the end, and what it sends still comes. Writes that are outstanding are waited for, and no others are taken by the
    /// drivers afterwards. It lasts as long as a close may. A transport that cannot end one direction alone does nothing.
    pub fn finish_sending(&self) -> Result<()> {
        may_wait()?;
        let shared = self.shared();
        let mut core = shared.lock();
        let deadline = deadline(shared.timeouts.close);
        loop {
            if core.flow.is_none() && !core.away {
                return Err(self.refused(Refused::Closed));
            }
            let is_free = !core.away && core.operations.front(Lane::Write).is_none();
            if let Some(result) = is_free.then(|| core.close_step()).flatten() {
                return result.map_err(|error| error.of_stack(&shared.stack));
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Err(too_slow().of_stack(&shared.stack));
            }
            core = if is_free {
                shared.wait_for_driver(core, Lane::Write, deadline)
            } else {
                shared.wait_for_change(core, deadline)
            };
        }
    }

    /// Closes the handle and waits for it. Outstanding operations are cancelled; when this returns
    /// they were told. The handle is closed whatever the result says.
    pub fn close(&self) -> Result<()> {
        may_wait()?;
        let shared = self.shared();
        let mut core = shared.lock();
        core.operations.close().map_err(|error| self.refused(error))?;
        shared.wake(&core);
        if !core.slots.is_empty() {
            Reactor::notify(shared);
        }
        while !core.operations.is_quiet() {
            core = shared.wait_for_change(core, None);
        }
        let deadline = deadline(shared.timeouts.close);
        let result = loop {
            if let Some(result) = core.close_step() {
                break result;
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                break Err(too_slow());
            }
            core = shared.wait_for_driver(core, Lane::Write, deadline);
        };
        let flow = core.flow.take();
        core.operations.on_closed();
        drop(core);
        drop(flow);
        result.map_err(|error| error.of_stack(&shared.stack))
    }

    /// Closes the handle; `callback` is called last of all its callbacks.
    pub fn register_close(&self, callback: impl FnOnce(Result<()>) + Send + 'static) -> Result<()> {
        Reactor::check()?;
        let shared = self.shared();
        let mut core = shared.lock();
        core.operations.close().map_err(|error| self.refused(error))?;
        core.closing = Some(Closing {
            callback: Box::new(callback),
            deadline: deadline(shared.timeouts.close),
            _handle: self.clone(),
        });
        shared.wake(&core);
        drop(core);
        Reactor::notify(shared);
        Ok(())
    }
}

pub(crate) fn too_slow() -> Error {
    Error::new(ErrorKind::TimedOut, "the drivers could not send what they held in time; closed without it")
}
