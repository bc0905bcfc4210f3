//! One call of a driver for an operation, and what it leads to. A call that may take as long as a disk
//! does is made without the handle's lock: nobody who asks the handle for something waits for the disk,
//! least of all the reactor in a callback.

use super::Buffers;
use crate::error::Error;
use crate::operations::{Lane, Operations, Outstanding};
use std::io::{self, IoSlice, IoSliceMut};
use xdfs_io::stack::{Flow, ReadInfo, WriteInfo};

/// Calls of a driver for one operation before others have their turn.
pub(super) const STEPS_PER_TURN: usize = 16;

/// What one call of a driver came to.
pub(super) enum Step {
    /// Something moved, or the operation is finished.
    Progress,
    /// It is worth trying again when the driver says so.
    Blocked,
    /// The driver failed.
    Failed(Error),
}

impl Step {
    /// What an error leads to.
    pub(super) fn of(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock => Self::Blocked,
            io::ErrorKind::Interrupted => Self::Progress,
            _ => Self::Failed(Error::from_io(error)),
        }
    }
}

/// What a call moved.
pub(super) struct Moved {
    /// How many bytes.
    pub(super) bytes: usize,
    /// The driver has taken or given something, if only an empty message.
    begun: bool,
    /// Whether the operation is finished whatever their number.
    complete: io::Result<bool>,
}

impl Moved {
    /// Tells the machine.
    pub(super) fn apply(self, operations: &mut Operations<Error>, lane: Lane) -> Step {
        match self.complete {
            Ok(complete) => {
                operations.on_moved(lane, self.bytes, complete);
                Step::Progress
            }
            Err(error) => {
                if self.begun {
                    operations.on_moved(lane, self.bytes, false);
                }
                Step::of(error)
            }
        }
    }
}

/// One call for a read.
pub(super) fn read_once(flow: &mut dyn Flow, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> Moved {
    match flow.receive(into, info) {
        Ok(bytes) => Moved { bytes, begun: true, complete: Ok(info.end || info.end_of_message) },
        Err(error) => Moved { bytes: 0, begun: false, complete: Err(error) },
    }
}

/// One call for a write, and the flush behind it when everything was taken.
pub(super) fn write_once(
    flow: &mut dyn Flow,
    front: &Outstanding,
    holds_back: bool,
    from: &[IoSlice<'_>],
    info: &WriteInfo,
) -> Moved {
    let left: usize = from.iter().map(|slice| slice.len()).sum();
    let mut bytes = 0;
    if left > 0 || !front.begun {
        let info = WriteInfo { offset: info.offset.map(|offset| offset + front.moved as u64), ..*info };
        match flow.send(from, &info) {
            Ok(sent) => bytes = sent,
            Err(error) => return Moved { bytes: 0, begun: false, complete: Err(error) },
        }
        if bytes < left {
            return Moved { bytes, begun: true, complete: Ok(false) };
        }
    }
    let flushed = if holds_back { flow.flush() } else { Ok(()) };
    Moved { bytes, begun: true, complete: flushed.map(|()| true) }
}

/// What a call without the lock needs, taken out of the handle.
pub(super) struct PooledCall {
    pub(super) lane: Lane,
    /// The operation, as it was when the call began.
    pub(super) front: Outstanding,
    pub(super) flow: Box<dyn Flow>,
    pub(super) buffers: Buffers,
    pub(super) read: ReadInfo,
    pub(super) write: WriteInfo,
    pub(super) holds_back: bool,
}

impl PooledCall {
    /// Makes it.
    pub(super) fn run(&mut self) -> Moved {
        let Self { lane, front, flow, buffers, read, write, holds_back } = self;
        if *lane == Lane::Read {
            buffers.rest_mut(front.moved, |into| read_once(&mut **flow, into, read))
        } else {
            buffers.rest(front.moved, |from| write_once(&mut **flow, front, *holds_back, from, write))
        }
    }
}
