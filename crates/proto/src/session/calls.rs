//! Operations of calls (P-69): a batch from the client, a reply from the server. This machine never
//! handles their bytes: the driver holds the batch until its outcome is known, and the reply until
//! the machine reports that it can be released.
//!
//! At the client such an operation is an upload without blocks that waits for its outcome; at the
//! server it is one whose stage is the work itself. So requests and replies are sent, fenced and
//! resent by the same rules as all others, and a number that was seen before is a repetition: its
//! calls are executed once.

use super::announcements::Pending;
use super::call_service::{CallService, Calls};
use super::operation::{Kind, Operation, State, Terms};
use super::output::{Output, Payload};
use super::receiving_half::ReceivingHalf;
use super::request::OPERATIONS_UNHEARD;
use super::sending_half::SendingHalf;
use super::{Committed, Fault, HeadVerdict, Role, Session};
use crate::base::{ChannelId, Error, ErrorKind, Instant, OperationId};
use crate::limits;
use crate::wire::control::Safety;
use crate::wire::{Event, Flags, Head, WireError};
use alloc::vec::Vec;

impl Session {
    /// Longest batch or reply of this session.
    pub fn calls_bytes_max(&self) -> u32 {
        // 256 KiB: fits.
        self.limits.block.min(limits::CALL_BYTES_MAX as u32)
    }

    /// The client has a batch of this length, which the driver keeps under the returned number.
    pub fn open_calls(&mut self, service: CallService, bytes: u32) -> Result<OperationId, Error> {
        if bytes == 0 || bytes > self.calls_bytes_max() {
            return Err(Error::new(ErrorKind::LimitExceeded, "a batch of calls is too long for this session"));
        }
        let id = self.next_operation()?;
        let mut operation = Operation::new(
            id,
            Kind::Calls(Calls { service, bytes }),
            State::Sending(SendingHalf::calling()),
            self.first_up().unwrap_or_default(),
            Terms::at(self.limits.control_level),
        );
        operation.announcements.owe(Pending::REQUEST);
        self.operations.insert(id, operation);
        Ok(id)
    }

    pub(super) fn judge_calls(&self, service: CallService, head: &Head) -> Result<HeadVerdict, Fault> {
        if head.length == 0 {
            return Err(Fault::Wire(WireError::Truncated));
        }
        if head.length > self.calls_bytes_max() {
            return Err(Fault::TooLong);
        }
        let id = head.operation;
        let take = Ok(HeadVerdict::Calls { operation: id, length: head.length });
        if head.flags.has(Flags::REQUEST) {
            self.from(Role::Client, service.event())?;
            if !self.numbers.coordinates(id) {
                return Err(Fault::Operation);
            }
            if self.owes_many_marks() {
                return Ok(HeadVerdict::Park);
            }
            let repeated = !self.numbers.is_unused(id);
            return if repeated { Ok(HeadVerdict::Skip) } else { take };
        }
        self.from(Role::Server, service.event())?;
        self.check_opened(id)?;
        match self.operations.get(&id) {
            Some(operation) if operation.kind.calls().is_none_or(|calls| calls.service != service) => {
                Err(Fault::WrongSide(service.event().name()))
            }
            // The request has not been sent, so there can be no reply to it.
            Some(operation) if operation.announcements.is_unrequested() => Err(Fault::Operation),
            Some(operation) if !operation.is_settled() => take,
            _ => Ok(HeadVerdict::Skip),
        }
    }

    /// The batch or reply that `on_head` announced is complete and verified. Returns false if it is
    /// not wanted: a repetition. Otherwise the driver keeps a batch for [`Output::Execute`], and
    /// passes a reply on before it polls.
    pub fn on_calls(&mut self, channel: ChannelId, now: Instant) -> Result<bool, Fault> {
        let head = self.complete(channel)?;
        let id = head.operation;
        if head.flags.has(Flags::REQUEST) {
            let service = Event::from_code(head.event).and_then(CallService::of);
            return self.on_batch(channel, id, service.ok_or(Fault::UnknownEvent(head.event))?);
        }
        match self.operations.get_mut(&id) {
            Some(operation) if !operation.is_settled() => {
                operation.announcements.on_received(now);
                self.settle(id, Ok(done(head.length)));
                self.answered(channel, id);
                Ok(true)
            }
            _ => {
                self.outcome_again(channel, id);
                Ok(false)
            }
        }
    }

    fn on_batch(&mut self, channel: ChannelId, id: OperationId, service: CallService) -> Result<bool, Fault> {
        if !self.is_new(id)? {
            // Sent again after a loss: it has arrived before.
            return Ok(false);
        }
        let busy = self.live_coordinated() >= 2 * self.limits.operations_max + OPERATIONS_UNHEARD;
        let kind = Kind::Calls(Calls { service, bytes: 0 });
        let state = State::Receiving(ReceivingHalf::executing());
        let terms = Terms::at(self.limits.control_level);
        self.operations.insert(id, Operation::new(id, kind, state, channel, terms));
        if busy {
            self.settle(id, Err(Error::new(ErrorKind::Busy, "too many operations at a time in this session")));
        } else if self.closure.is_closing() {
            self.settle(id, Err(Error::new(ErrorKind::Draining, "the server is shutting down; try again later")));
        } else {
            self.outputs.push_back(Output::Execute { operation: id, channel });
            return Ok(true);
        }
        Ok(false)
    }

    /// The reply is ready and has this length, or the batch cannot be executed at all. (Server.)
    pub fn on_answered(&mut self, id: OperationId, result: Result<u32, Error>) {
        let most = self.calls_bytes_max();
        // It ended while its calls were executed, by the end of the session or for want of room.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let State::Receiving(ReceivingHalf::Executing(_)) = &operation.state else { return };
        // Cannot fail: only a batch is answered.
        let Kind::Calls(calls) = &mut operation.kind else { return };
        let outcome = result.map(|bytes| {
            calls.bytes = bytes;
            // The driver holds it to the room, which is no longer.
            assert!(bytes > 0 && bytes <= most, "a reply of {bytes} bytes");
            done(bytes)
        });
        self.settle(id, outcome);
    }

    /// Sends the batch, or its reply.
    pub(super) fn send_calls(&mut self, channel: ChannelId, id: OperationId, request: bool) -> bool {
        // Cannot fail: only calls owe this.
        let Some(operation) = self.operations.get_mut(&id) else { return false };
        let Kind::Calls(Calls { service, bytes }) = operation.kind else { return false };
        if request {
            operation.opening = channel;
        }
        let flags = if request { Flags::REQUEST } else { Flags::NONE };
        self.send_record(channel, id, service.event(), flags, bytes, Payload::Calls)
    }

    /// A repeated reply has been read: the peer does not know that it arrived before.
    pub(super) fn outcome_again(&mut self, channel: ChannelId, id: OperationId) {
        if self.operations.contains_key(&id) {
            return self.answered(channel, id);
        }
        if !self.owes_many_marks() {
            self.push_end_of_range(channel, id, 0);
        }
    }

    /// Nothing more will be sent about the operation.
    pub(super) fn forget(&mut self, id: OperationId) {
        if self.operations.remove(&id).is_some_and(|operation| operation.kind.calls().is_some()) {
            self.outputs.push_back(Output::Forget { operation: id });
        }
    }
}

fn done(bytes: u32) -> Committed {
    Committed { length: bytes.into(), safety: Safety::Written, version: Vec::new(), root: None, reread: false }
}
