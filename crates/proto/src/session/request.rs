//! Requests and their replies: how an operation is created at both ends.

use super::announcements::Pending;
use super::group::{Half, Part, PipelineMessage};
use super::operation::{HalfState, Kind, Operation};
use super::output::{Output, SessionEvent};
use super::receiver::InvalidBlock;
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
        let half = if upload { Half::Receiving } else { Half::Sending };
        let mut operation = Operation::new(id, Kind::of_request(upload, &request), half, channel);
        operation.level = request.level.max(self.limits.floor);
        operation.block = if request.block == 0 {
            self.limits.block
        } else {
            plan::block(request.block, operation.level, self.limits.channels).min(self.limits.block)
        };
        (operation.durable, operation.hash, operation.reread) = (request.durable, request.hash, request.reread);
        operation.request = Some(request.clone());
        let closing = self.closing;
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
        if operation.grant.is_some() || floor <= operation.level {
            return;
        }
        if floor > most {
            let text = format!("protection '{}' is required and not offered in this session", floor.name());
            return self.settle(id, Err(Error::new(ErrorKind::Unsupported, text)));
        }
        operation.level = floor;
        operation.block = plan::block(operation.block, floor, self.limits.channels);
    }

    /// Whether this request is the first with its number. Requests on different channels overtake
    /// each other.
    pub(super) fn is_new(&mut self, id: OperationId) -> Result<bool, Fault> {
        if !self.coordinates(id) {
            return Err(Fault::Operation);
        }
        if id.0 <= self.highest {
            return Ok(self.skipped.remove(&id));
        }
        // As many as can be in flight, and as many again for those that were abandoned before they
        // were sent.
        let most = 2 * self.limits.operations_max;
        for _ in 0..=most {
            let number = self.number_after(self.highest).ok_or(Fault::Operation)?;
            self.highest = number;
            if number == id.0 {
                while self.skipped.len() > most {
                    self.skipped.pop_first();
                }
                return Ok(true);
            }
            self.skipped.insert(OperationId(number));
        }
        Err(Fault::Operation)
    }

    /// The first operation arrived inside the handshake, as if on channel 1. (Server.)
    pub fn on_first_operation(&mut self, event: Event, payload: &[u8]) -> Result<(), Fault> {
        self.on_request(ChannelId(1), event, OperationId(1), payload)
    }

    pub(super) fn on_grant(&mut self, id: OperationId, grant: Grant) -> Result<(), Fault> {
        let limits = &self.limits;
        // Over: a late copy of GRANT.
        let Some(operation) = self.operations.get_mut(&id) else { return Ok(()) };
        if operation.grant.is_some() || operation.is_settled() {
            return Ok(());
        }
        let levels = operation.level..=limits.control_level;
        if !levels.contains(&grant.level) || grant.ranges.len() > usize::from(limits.pipelines) {
            return Err(Fault::Level(grant.level));
        }
        if grant.block > limits.block {
            return Err(Fault::Block(InvalidBlock::Length));
        }
        let fits = operation.request.as_ref().is_none_or(|request| match grant.length {
            _ if operation.kind.is_digest() => true,
            granted if operation.kind == Kind::Upload => granted == request.length,
            granted => granted.is_some() && request.length.is_none_or(|wanted| granted == Some(wanted)),
        });
        if !fits {
            return Err(Fault::Wire(WireError::Invalid("length of GRANT")));
        }
        promises(operation, &grant)?;
        operation.level = grant.level;
        operation.block = grant.block;
        operation.announcements.withdraw(Pending::REQUEST);
        operation.grant = Some(grant.clone());
        let moves_nothing = operation.kind.is_digest();
        self.event(SessionEvent::Granted { operation: id, grant: grant.clone() });
        let span = self.limits.span(grant.block);
        // Cannot fail: it was found above.
        let Some(operation) = self.operations.get_mut(&id) else { return Ok(()) };
        match &mut operation.state {
            HalfState::Sending { life, sender, given_up, credited, .. } => {
                life.on_granted()?;
                let first = grant.ranges.first().copied().unwrap_or_default();
                // An unknown length means one range with an open end.
                let end = grant.length.map(|_| first.end());
                let mut fresh = super::Sender::new(first.offset(), end, grant.block, grant.credit_limit.max(*credited))
                    .within(span);
                fresh = fresh.keeping(plan::within(&grant.kept, first));
                if let Some((available, ended)) = operation.source {
                    fresh.on_source(available, ended);
                }
                *sender = Some(fresh);
                if given_up.is_none() {
                    self.begin_hash(id, &grant);
                    self.start_members(id, Half::Sending, &grant);
                }
                self.after_sending(id);
            }
            HalfState::Receiving { life, .. } => {
                life.on_granted()?;
                if moves_nothing {
                    let (safety, root) = (crate::wire::control::Safety::Received, grant.sum);
                    self.settle(id, Ok(Committed { length: 0, safety, version: grant.version, root, reread: false }));
                } else {
                    let request = operation.request.clone();
                    self.outputs.push_back(Output::Stage { operation: id, request, grant: Some(grant) });
                }
            }
        }
        Ok(())
    }

    /// Asks the other pipelines to take part.
    pub(super) fn start_members(&mut self, id: OperationId, half: Half, grant: &Grant) {
        let pipelines = self.limits.pipelines.max(1);
        // Cannot fail: the caller has found it.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let mut members = alloc::vec::Vec::new();
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
            members.push(to);
            self.outputs.push_back(Output::Group { to, message });
        }
        operation.part = Part::Coordinator(members);
    }
}

/// Whether a GRANT promises what was requested and claims only what it may claim.
fn promises(operation: &Operation, grant: &Grant) -> Result<(), Fault> {
    let request = operation.request.as_ref();
    let wrong = |field| Err(Fault::Wire(WireError::Invalid(field)));
    if (grant.hash, grant.sum.is_some()) != (operation.hash, operation.kind.is_digest()) {
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
