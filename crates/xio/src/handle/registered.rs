//! Registered operations: the reactor drives them and calls their callbacks, never inside
//! `register_*` and one at a time.

use super::core::Slot;
use super::flow_state::FlowState;
use super::reactor::Reactor;
use super::{Buffers, Callback, Completed, Handle, Options, check_wait_for, deadline};
use crate::error::Result;
use crate::operations::{Lane, OperationId, Owner, Phase};
use crate::pool;
use crate::stack::{Prepared, Stack};
use std::time::Instant;
use xdfs_io::stack::{Flow, Interest, ReadInfo, WriteInfo};

impl Handle {
    /// Starts to open a stack (XIO-08). The handle can be cancelled and closed at once; `callback`
    /// is called when it is open or failed.
    pub fn register_open(
        stack: &Stack,
        contact: &str,
        options: &Options,
        callback: impl FnOnce(&Self, Result<()>) + Send + 'static,
    ) -> Result<Self> {
        Reactor::check()?;
        let prepared = stack.prepared()?;
        let contact = contact.to_owned();
        let handle = Self::start_registered(&prepared, None, options, callback);
        let opening = handle.clone();
        // Names are looked up there, which may take long.
        pool::submit(Box::new(move || opening.opened(prepared.open(&contact))));
        Ok(handle)
    }

    /// Starts to open what a server accepted.
    pub(crate) fn register_open_of(
        stack: &Prepared,
        flow: Box<dyn Flow>,
        options: &Options,
        callback: impl FnOnce(&Self, Result<()>) + Send + 'static,
    ) -> Self {
        let handle = Self::start_registered(stack, Some(flow), options, callback);
        Reactor::notify(handle.shared());
        handle
    }

    fn start_registered(
        stack: &Prepared,
        flow: Option<Box<dyn Flow>>,
        options: &Options,
        callback: impl FnOnce(&Self, Result<()>) + Send + 'static,
    ) -> Self {
        let (handle, id) = Self::start(stack.name.clone(), options, Owner::Reactor, flow);
        let callback: Callback =
            Box::new(move |handle: &Self, completed: Completed| callback(handle, completed.result.map(drop)));
        let slot = handle.slot(id, Buffers::One(Vec::new()), deadline(options.timeouts.open), callback);
        handle.shared().lock().slots.push(slot);
        if options.timeouts.open.is_some() {
            Reactor::notify(handle.shared());
        }
        handle
    }

    /// The drivers have started to open, or could not.
    fn opened(&self, result: Result<Box<dyn Flow>>) {
        let mut core = self.shared().lock();
        if core.operations.phase() != Phase::Opening {
            // Cancelled or closed meanwhile.
            drop(core);
            drop(result);
            return;
        }
        match result {
            Ok(flow) => core.flow = FlowState::Opening(flow),
            Err(error) => core.operations.on_failed(Lane::Open, error),
        }
        drop(core);
        Reactor::notify(self.shared());
    }

    /// Reads at least `wait_for` bytes into `buffers`, which the operation owns until the callback.
    pub fn register_read(
        &self,
        buffers: impl Into<Buffers>,
        wait_for: usize,
        callback: impl FnOnce(&Self, Completed) + Send + 'static,
    ) -> Result<OperationId> {
        let buffers = buffers.into();
        check_wait_for(wait_for, buffers.size())?;
        let deadline = deadline(self.shared().timeouts.read);
        self.register(Lane::Read, wait_for, buffers, WriteInfo::default(), deadline, Box::new(callback))
    }

    /// Writes all of `buffers`, which the operation owns until the callback.
    pub fn register_write(
        &self,
        buffers: impl Into<Buffers>,
        info: WriteInfo,
        callback: impl FnOnce(&Self, Completed) + Send + 'static,
    ) -> Result<OperationId> {
        let deadline = deadline(self.shared().timeouts.write);
        self.register(Lane::Write, usize::MAX, buffers.into(), info, deadline, Box::new(callback))
    }

    fn register(
        &self,
        lane: Lane,
        wait_for: usize,
        buffers: Buffers,
        write: WriteInfo,
        deadline: Option<Instant>,
        callback: Callback,
    ) -> Result<OperationId> {
        Reactor::check()?;
        let mut core = self.shared().lock();
        let begun = core.operations.begin(lane, wait_for, Owner::Reactor);
        let id = begun.map_err(|error| self.refused(error))?;
        let slot = Slot { write, ..self.slot(id, buffers, deadline, callback) };
        core.slots.push(slot);
        if core.watched.is_none() {
            // The kernel reports nothing about it: trying is the only way.
            core.ready = Interest::BOTH;
        }
        drop(core);
        Reactor::notify(self.shared());
        Ok(id)
    }

    fn slot(&self, id: OperationId, buffers: Buffers, deadline: Option<Instant>, callback: Callback) -> Slot {
        let (read, write) = (ReadInfo::default(), WriteInfo::default());
        Slot { id, buffers, read, write, deadline, callback, handle: self.clone() }
    }
}
