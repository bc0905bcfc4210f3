//! Requests and their replies: how an operation is created at both ends.

use super::announcements::Pending;
use super::block_receiver::InvalidBlock;
use super::coordination::{Half, PipelineMessage, PipelineRole};
use super::numbers::NotInOrder;
use super::operation::{Kind, Operation, State, Terms};
use super::output::{Output, SessionEvent};
use super::receiving_half::{ReceivingHalf, Target};
use super::sending_half::SendingHalf;
use super::{Committed, Fault, Role, Session};
use crate::base::{ChannelId, Error, ErrorKind, Level, OperationId, PipelineId};
use crate::plan;
use crate::wire::control::Grant;
use crate::wire::request::Request;
use crate::wire::{Event, WireError};
use alloc::format;

impl Session {
    pub(super) fn on_request(
        &mut self,
        channel: ChannelId,
        event: Event,
        id: OperationId,
        payload: &[u8],
    ) -> Result<(), Fault> {
        self.from(Role::Client, event)?;
        let upload = match event {
            Event::Upload => true,
            Event::Download => false,
            _ => return Err(Fault::UnknownEvent(event as u8)),
        };
        let request = Request::decode(payload)?;
        if !self.is_new(id)? {
            // Sent again after a channel was lost.
            return Ok(());
        }
        let level = request.level.max(self.limits.floor);
        let block = if request.block == 0 {
            self.limits.block
        } else {
            plan::block(request.block, level, self.limits.channels).min(self.limits.block)
        };
        let terms = Terms { level, block, ..Terms::of_request(&request) };
        let state = if upload {
            let (length, resumes, blinds) = (request.length, request.resume.is_some(), request.unverified);
            State::Receiving(ReceivingHalf::staging(Target::Upload { length, resumes, blinds }))
        } else {
            State::Sending(SendingHalf::opening(request.clone()))
        };
        let operation = Operation::new(id, Kind::of_request(upload, &request), state, channel, terms);
        let closing = self.closure.is_closing();
        // The client may open the next operation as soon as it knows an outcome, which this end may
        // not have received yet.
        let most = 2 * self.limits.operations_max + OPERATIONS_UNHEARD;
        let busy = self.live_coordinated() >= most;
        self.operations.insert(id, operation);
        if busy {
            self.settle(id, Err(Error::new(ErrorKind::Busy, "too many operations at a time in this session")));
        } else if closing {
            self.settle(id, Err(Error::new(ErrorKind::Draining, "the server is shutting down; try again later")));
        } else if upload {
            self.outputs.push_back(Output::Stage { operation: id, request: Some(request), grant: None });
        } else {
            self.outputs.push_back(Output::Open { operation: id, request });
        }
        Ok(())
    }

    /// Sets the minimum level of the operation to `floor`, which its object requires (SEC-27).
    /// Called before the operation is granted; a level that the session cannot provide is an error
    /// and is never lowered.
    pub fn raise_level(&mut self, id: OperationId, floor: Level) {
        let most = self.limits.control_level;
        // It ended while the host looked for its object.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        // Granted: a grant is not changed. Or it is high enough.
        if operation.is_granted() || floor <= operation.terms.level {
            return;
        }
        if floor > most {
            let text = format!("protection '{}' is required and not offered in this session", floor.name());
            return self.settle(id, Err(Error::new(ErrorKind::Unsupported, text)));
        }
        operation.terms.level = floor;
        operation.terms.block = plan::block(operation.terms.block, floor, self.limits.channels);
    }

    /// Whether this request is the first with its number. Requests on different channels overtake
    /// each other.
    pub(super) fn is_new(&mut self, id: OperationId) -> Result<bool, Fault> {
        // As many as can be in flight, and as many again for those that were abandoned before they
        // were sent.
        self.numbers.use_requested(id, 2 * self.limits.operations_max).map_err(|NotInOrder| Fault::Operation)
    }

    /// The first operation arrived inside the handshake, as if on channel 1. (Server.)
    pub fn on_first_operation(&mut self, event: Event, payload: &[u8]) -> Result<(), Fault> {
        self.on_request(ChannelId(1), event, OperationId(1), payload)
    }

    pub(super) fn on_grant(&mut self, id: OperationId, grant: Grant) -> Result<(), Fault> {
        let limits = &self.limits;
        // Over, or granted already: a late copy of GRANT.
        let Some(operation) = self.operations.get_mut(&id) else { return Ok(()) };
        if operation.is_granted() || operation.is_settled() {
            return Ok(());
        }
        let levels = operation.terms.level..=limits.control_level;
        if !levels.contains(&grant.level) || grant.ranges.len() > usize::from(limits.pipelines) {
            return Err(Fault::Level(grant.level));
        }
        if grant.block > limits.block {
            return Err(Fault::Block(InvalidBlock::Length));
        }
        let fits = operation.request().is_none_or(|request| match grant.length {
            _ if operation.kind.is_digest() => true,
            granted if operation.kind == Kind::Upload => granted == request.length,
            granted => granted.is_some() && request.length.is_none_or(|wanted| granted == Some(wanted)),
        });
        if !fits {
            return Err(Fault::Wire(WireError::Invalid("length of GRANT")));
        }
        promises(operation, &grant)?;
        operation.terms.level = grant.level;
        operation.terms.block = grant.block;
        operation.announcements.withdraw(Pending::REQUEST);
        let moves_nothing = operation.kind.is_digest();
        self.event(SessionEvent::Granted { operation: id, grant: grant.clone() });
        let send_window = self.limits.flow_window_for(grant.block);
        // Cannot fail: it was found above.
        let Some(operation) = self.operations.get_mut(&id) else { return Ok(()) };
        match &mut operation.state {
            State::Sending(half) => {
                half.on_granted(grant.clone(), send_window)?;
                if half.given_up().is_none() {
                    self.begin_hash(id, &grant);
                    self.start_participants(id, Half::Sending, &grant);
                }
                self.after_sending(id);
            }
            State::Receiving(half) => {
                let request = half.on_granted(grant.clone())?;
                if moves_nothing {
                    let (safety, root) = (crate::wire::control::Safety::Received, grant.sum);
                    self.settle(id, Ok(Committed { length: 0, safety, version: grant.version, root, reread: false }));
                } else {
                    self.outputs.push_back(Output::Stage { operation: id, request, grant: Some(grant) });
                }
            }
            // Looked at above.
            State::Settled(_) => {}
        }
        Ok(())
    }

    /// Asks the other pipelines to take part.
    pub(super) fn start_participants(&mut self, id: OperationId, half: Half, grant: &Grant) {
        let pipelines = self.limits.pipelines.max(1);
        // Cannot fail: the caller has found it.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let mut started = alloc::vec::Vec::new();
        for (index, range) in grant.ranges.iter().enumerate().skip(1) {
            let to = PipelineId((usize::from(self.pipeline.0) + index) as u8 % pipelines);
            let message = PipelineMessage::Start {
                operation: id,
                half,
                upload: operation.kind == Kind::Upload,
                range: *range,
                block: grant.block,
                level: grant.level,
                kept: plan::within(&grant.kept, *range),
                hash: grant.hash,
                unverified: grant.unverified,
            };
            started.push(to);
            self.outputs.push_back(Output::ToPipeline { to, message });
        }
        // Cannot fail: the caller has coordinated it since it was granted.
        let Some(PipelineRole::Coordinator { participants, .. }) = operation.role_mut() else { return };
        *participants = started;
    }
}

/// Whether a GRANT promises what was requested and claims only what it may claim.
fn promises(operation: &Operation, grant: &Grant) -> Result<(), Fault> {
    let request = operation.request();
    let wrong = |field| Err(Fault::Wire(WireError::Invalid(field)));
    if (grant.hash, grant.sum.is_some()) != (operation.terms.hash, operation.kind.is_digest()) {
        // A promise that was not requested, or a missing one: nothing weaker is accepted silently.
        return wrong("hash of GRANT");
    }
    if grant.blinded && !(operation.kind.is_to_server() && request.is_some_and(|one| one.unverified)) {
        return wrong("blinded hashes of GRANT");
    }
    let doubted = !operation.kind.is_to_server() && request.is_some_and(|one| one.unverified && one.hash);
    if doubted && !grant.unverified && !grant.kept.is_empty() {
        // Content that may be damaged would be accepted without a comparison.
        return wrong("doubt of GRANT");
    }
    if operation.may_keep(grant) { Ok(()) } else { wrong("kept ranges") }
}

/// Operations beyond twice the limit whose outcome a server may not have received when the client
/// opens more: their COMMITTED is on a slower channel than the next request. Further requests are
/// refused as busy, without other effects.
pub(super) const OPERATIONS_UNHEARD: usize = 16;
