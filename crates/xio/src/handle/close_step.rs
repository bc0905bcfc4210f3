//! One step of the end of sending, and of closing.

use super::core::Core;
use super::flow_state::FlowState;
use super::step::Step;
use crate::error::{Error, ErrorKind, Result};
use crate::operations::Lane;
use std::io;

/// How far a close is.
pub(super) enum CloseStep {
    /// The drivers can be dropped.
    Done(Result<()>),
    /// It is worth trying again at once.
    Again,
    /// It is worth trying again when the driver says so of this lane.
    Blocked(Lane),
}

impl Core {
    /// One step of the first write, if it is the end of sending.
    pub(super) fn finish_step(&mut self) -> Step {
        let finished = self.flow.get_mut().map_or(Ok(()), |flow| flow.finish_sending());
        match finished {
            Err(error) if error.kind() != io::ErrorKind::NotConnected => Step::of(error),
            // Or the peer has left already.
            _ => {
                self.operations.on_moved(Lane::Write, 0, true);
                Step::Progress
            }
        }
    }

    /// One step of closing: passes on what is held back, tells the peer, and waits for what the drivers wait for.
    pub(super) fn close_step(&mut self) -> CloseStep {
        // One that never opened has nothing of the program's, and perhaps nobody to tell.
        let FlowState::Open { flow, .. } = &mut self.flow else { return CloseStep::Done(Ok(())) };
        let (lane, error) = match flow.finish_sending() {
            Err(error) => (Lane::Write, error),
            Ok(()) => match flow.ready_to_close() {
                Err(error) => (Lane::Read, error),
                Ok(()) => return CloseStep::Done(Ok(())),
            },
        };
        match error.kind() {
            io::ErrorKind::WouldBlock => CloseStep::Blocked(lane),
            io::ErrorKind::Interrupted => CloseStep::Again,
            // The peer has left already.
            io::ErrorKind::NotConnected => CloseStep::Done(Ok(())),
            _ => CloseStep::Done(Err(Error::from_io(error))),
        }
    }
}

/// The error of a close that took longer than its timeout.
pub(super) fn too_slow() -> Error {
    Error::new(ErrorKind::TimedOut, "the drivers could not send what they held in time; closed without it")
}
