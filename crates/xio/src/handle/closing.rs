//! The close barrier: everything that is outstanding is finished or cancelled, and told, before the
//! drivers are closed, and that is told last (XIO-41, XIO-42).

use super::close_step::{CloseStep, too_slow};
use super::core::Closing;
use super::reactor::Reactor;
use super::{Handle, deadline, may_wait};
use crate::error::Result;
use crate::operations::{Lane, Owner};
use std::time::Instant;

impl Handle {
    /// Says that nothing more will be written, and waits until the drivers have passed on what they held: the peer reads it and
    /// then the end, and what it sends still comes. It takes its turn among the writes, and is cancelled and late as one of
    /// them; the drivers take no others afterwards. A transport that cannot end one direction alone does nothing.
    pub fn finish_sending(&self) -> Result<()> {
        may_wait()?;
        let shared = self.shared();
        let mut core = shared.lock();
        let begun = core.operations.begin(Lane::Write, usize::MAX, Owner::Caller);
        let id = begun.map_err(|error| self.refused(error))?;
        let deadline = deadline(shared.timeouts.write);
        let finished = self.finish(core, Lane::Write, id, deadline, |core| (0, core.finish_step()));
        // A driver may have received on the way what others wait for, whatever came of it.
        let core = shared.lock();
        shared.wake(&core);
        if !core.slots.is_empty() {
            Reactor::notify(shared);
        }
        finished.map(drop)
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
            let blocked = match core.close_step() {
                CloseStep::Done(result) => break result,
                CloseStep::Again => None,
                CloseStep::Blocked(lane) => Some(lane),
            };
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                break Err(too_slow());
            }
            match blocked {
                Some(lane) => core = shared.wait_for_driver(core, lane, deadline),
                None => {
                    // A peer that never lets it wait does not keep the reactor from other handles.
                    drop(core);
                    std::thread::yield_now();
                    core = shared.lock();
                    core.expire_flow(Instant::now());
                }
            }
        };
        let flow = std::mem::take(&mut core.flow);
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
