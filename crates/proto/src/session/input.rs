//! Processes control messages: what they change.

use super::coordination::{Half, PipelineMessage, PipelineRole};
use super::operation::State;
use super::output::{Output, SessionEvent};
use super::receiving_half::Finished;
use super::request::OPERATIONS_UNHEARD;
use super::sending_half::{GrantedSender, SendProgress, SendingHalf};
use super::{Committed, ContentDigest, Fault, Role, Session};
use crate::base::{ChannelId, Error, ErrorKind, Instant, OperationId};
use crate::channel::Life;
use crate::channel::life::Receiving;
use crate::wire::control::{Ack, Control, Finish};
use crate::wire::{Event, Flags};

impl Session {
    /// A control payload is complete and verified.
    pub fn on_control(&mut self, channel: ChannelId, payload: &[u8], now: Instant) -> Result<(), Fault> {
        let head = self.complete(channel)?;
        let event = Event::from_code(head.event).ok_or(Fault::UnknownEvent(head.event))?;
        if head.flags.has(Flags::REQUEST) {
            return self.on_request(channel, event, head.operation, payload);
        }
        let control = Control::decode(event, payload)?.ok_or(Fault::UnknownEvent(head.event))?;
        match control {
            Control::Nothing => self.on_nothing(channel, head.flags),
            Control::Fence { channel: lost, processed } => self.on_fence(lost, processed)?,
            Control::EndOfTransfer { records } => self.on_end_of_transfer(channel, records)?,
            Control::Rekey => self.on_rekey(channel, now)?,
            Control::WantChannels(count) => {
                self.from(Role::Client, event)?;
                self.event(SessionEvent::ChannelsWanted { count });
            }
            Control::Channels(grant) => {
                self.from(Role::Server, event)?;
                self.event(SessionEvent::ChannelsGranted(grant));
            }
            Control::Drain { retry_after_ms } => {
                self.from(Role::Server, event)?;
                self.on_drain(retry_after_ms);
            }
            told @ (Control::Recall { .. } | Control::Notice { .. }) => self.on_told(told)?,
            Control::Exception(error) if head.operation.0 == 0 => self.end(Some(error)),
            other => return self.on_operation_control(channel, head.operation, other, now),
        }
        Ok(())
    }

    /// Rejects a message that did not come from that role.
    pub(super) fn from(&self, side: Role, event: Event) -> Result<(), Fault> {
        if self.role == side { Err(Fault::WrongSide(event.name())) } else { Ok(()) }
    }

    fn on_nothing(&mut self, channel: ChannelId, flags: Flags) {
        // Cannot fail: `complete` has found it.
        let Some(state) = self.channels.get_mut(&channel) else { return };
        if !flags.has(Flags::ASK) {
            state.pinged = false;
        } else if !state.own().any(|control| *control == Control::Nothing) {
            self.channels.push_own(&channel, (OperationId(0), Control::Nothing, false));
        }
    }

    /// The driver changes the key when this returns.
    fn on_rekey(&mut self, channel: ChannelId, now: Instant) -> Result<(), Fault> {
        let state = self.channels.get_mut(&channel).ok_or(Fault::Channel)?;
        state.receive.on_rekey(now).map_err(|_| Fault::Epoch)
    }

    fn on_end_of_transfer(&mut self, channel: ChannelId, records: u64) -> Result<(), Fault> {
        let state = self.channels.get_mut(&channel).ok_or(Fault::Channel)?;
        // EOFT itself is counted already.
        if records.checked_add(1) != Some(state.receive.records) {
            return Err(Fault::Count);
        }
        state.receive.on_end_of_transfer()?;
        if state.life == Life::Ending {
            // If this end's EOFT is still in flight, the channel closes once it is sent.
            if !state.busy {
                self.closed(channel);
            }
        } else {
            state.life.on_end_received()?;
            self.closure.on_peer_end();
            self.end_channels_when_done();
        }
        Ok(())
    }

    fn on_operation_control(
        &mut self,
        channel: ChannelId,
        id: OperationId,
        control: Control,
        now: Instant,
    ) -> Result<(), Fault> {
        match (self.check_opened(id), &control) {
            // Cancelled by the client, and the request was lost with its channel.
            (Err(_), Control::Exception(_)) if id.0 > 0 && self.role == Role::Server => {}
            (checked, _) => checked?,
        }
        if let Control::EndOfRange { blocks } = control {
            return self.on_end_of_range(channel, id, blocks);
        }
        let Some(operation) = self.operations.get_mut(&id) else {
            self.on_control_of_unknown(channel, id, control);
            return Ok(());
        };
        if operation.announcements.is_unrequested() {
            // The request has not been sent, so there can be no reply to it.
            return Err(Fault::Operation);
        }
        operation.announcements.on_received(now);
        let event = control.event();
        if operation.kind.calls().is_some() && !matches!(control, Control::Exception(_) | Control::Cancel) {
            return Err(Fault::WrongSide(event.name()));
        }
        match (operation.half(), control) {
            (Half::Sending, Control::Ack(ack)) => self.on_ack(id, &ack, now),
            (Half::Sending, Control::Credit(edge)) => {
                self.on_credit(id, edge);
                Ok(())
            }
            (Half::Sending, Control::Again { round, ranges }) => self.on_again(id, round, ranges),
            (Half::Sending, Control::Committed { length, safety, version, root }) => {
                let reread = operation.grant().is_some_and(|grant| grant.reread);
                let outcome = operation.judge_committed(Committed { length, safety, version, root, reread })?;
                self.settle(id, outcome);
                self.answered(channel, id);
                Ok(())
            }
            (_, Control::Grant(grant)) => {
                self.from(Role::Server, event)?;
                self.on_grant(id, grant)
            }
            (Half::Sending, Control::Exception(error)) => {
                self.settle(id, Err(error));
                self.answered(channel, id);
                Ok(())
            }
            (Half::Receiving, Control::Exception(error)) => {
                self.abandon(id, error);
                Ok(())
            }
            (Half::Receiving, Control::Cancel) => {
                self.abandon(id, Error::new(ErrorKind::Cancelled, "cancelled by the sender"));
                Ok(())
            }
            (Half::Receiving, Control::Finish(finish)) => self.on_finish(id, finish),
            _ => Err(Fault::WrongSide(event.name())),
        }
    }

    /// The operation is over here, or another pipeline has not yet reported that it begins.
    fn on_control_of_unknown(&mut self, channel: ChannelId, id: OperationId, control: Control) {
        match control {
            Control::Credit(edge) if !self.numbers.coordinates(id) => self.remember_credit(id, edge),
            // The peer has not learnt that this end knows: our EOFR was lost with its channel.
            Control::Committed { .. } | Control::Exception(_) if !self.owes_many_marks() => {
                self.push_end_of_range(channel, id, 0);
            }
            // It ended here, and a late copy asks for nothing.
            _ => {}
        }
    }

    /// A CREDIT that arrives before its operation begins here, or after it has ended: both look the
    /// same, so the oldest is dropped when there are more than can be early.
    fn remember_credit(&mut self, id: OperationId, edge: u64) {
        match self.early.iter_mut().find(|(early, _)| *early == id) {
            Some((_, known)) => *known = edge.max(*known),
            None => self.early.push_back((id, edge)),
        }
        if self.early.len() > usize::from(self.limits.pipelines) * self.limits.operations_max + OPERATIONS_UNHEARD {
            self.early.pop_front();
        }
    }

    /// The credit that arrived before the operation began here.
    pub(super) fn take_credit(&mut self, id: OperationId) -> Option<u64> {
        let place = self.early.iter().position(|(early, _)| *early == id)?;
        self.early.remove(place).map(|(_, edge)| edge)
    }

    /// The receiver has replied: a sender that failed before bytes were requested from it has
    /// nothing left to send but an acknowledgement, and its first EOFR may be lost.
    pub(super) fn answered(&mut self, channel: ChannelId, id: OperationId) {
        // The reply has made this end forget it.
        let Some(operation) = self.operations.get(&id) else { return };
        if operation.is_sending() && operation.is_settled() {
            let blocks = operation.carried.get(&channel).copied().unwrap_or(0);
            self.push_end_of_range(channel, id, blocks);
            self.forget(id);
            self.end_channels_when_done();
        }
    }

    fn on_ack(&mut self, id: OperationId, ack: &Ack, now: Instant) -> Result<(), Fault> {
        // Cannot fail: the caller has found it.
        let Some(operation) = self.operations.get_mut(&id) else { return Ok(()) };
        // GRANT is on a slower channel: the next ACK says the same and more. Or it is over.
        let State::Sending(SendingHalf::Granted(GrantedSender { sender, round, .. })) = &mut operation.state else {
            return Ok(());
        };
        if ack.round != *round {
            // About the content before part of it was requested again.
            return Ok(());
        }
        let before = sender.acknowledged();
        sender.on_ack(ack.contiguous, &ack.ranges, now).map_err(|_| Fault::AckBeyondSent)?;
        sender.on_edge(ack.credit_limit);
        let below = sender.acknowledged();
        if below > before {
            operation.announcements.on_progress(now);
            self.event(SessionEvent::Acknowledged { operation: id, below });
        }
        self.after_sending(id);
        Ok(())
    }

    fn on_credit(&mut self, id: OperationId, edge: u64) {
        // Cannot fail: the caller has found it, and that it sends.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        // Over: nothing is left to send.
        let State::Sending(half) = &mut operation.state else { return };
        half.on_credit(edge);
    }

    fn on_finish(&mut self, id: OperationId, Finish { length, round, root, subtrees }: Finish) -> Result<(), Fault> {
        // Cannot fail: the caller has found it, and that it receives.
        let Some(operation) = self.operations.get_mut(&id) else { return Ok(()) };
        let half = match &mut operation.state {
            State::Receiving(half) => half,
            // The sender does not know the outcome yet.
            State::Settled(_) => {
                operation.announcements.send_again();
                return Ok(());
            }
            // Cannot be: the caller has checked the half.
            State::Sending(_) => return Ok(()),
        };
        let late = matches!(half.life(), Receiving::Verifying | Receiving::Committing);
        if late || round < half.round() || half.finish().is_some_and(|finish| finish.length == length) {
            // A copy, which may be late.
            return Ok(());
        }
        if round > half.round() || (!operation.terms.hash && (root.is_some() || !subtrees.is_empty())) {
            return Err(Fault::Finish);
        }
        if !half.on_finish(Finished { length, digest: ContentDigest { root, subtrees } }) {
            return Err(Fault::Finish);
        }
        self.after_writing(id);
        Ok(())
    }

    fn on_end_of_range(&mut self, channel: ChannelId, id: OperationId, blocks: u64) -> Result<(), Fault> {
        if let Some(state) = self.channels.get_mut(&channel) {
            state.receive.on_end_of_range(id);
        }
        // Over, and forgotten: both ends know the outcome.
        let Some(operation) = self.operations.get_mut(&id) else { return Ok(()) };
        if operation.is_sending() {
            // This is the receiver's reply to an EXCEPTION for an operation that is over there.
            if !operation.is_settled() {
                return Err(Fault::WrongSide("EOFR"));
            }
            self.forget(id);
            self.end_channels_when_done();
            return Ok(());
        }
        if operation.ended.contains(&channel) {
            // Sent again after a loss.
            return Ok(());
        }
        if operation.carried.get(&channel).copied().unwrap_or(0) != blocks {
            return Err(Fault::Count);
        }
        operation.ended.push(channel);
        self.forget_if_over(id);
        self.end_channels_when_done();
        Ok(())
    }

    /// A settled receiving operation is dropped once every channel that carried it has ended it.
    pub(super) fn forget_if_over(&mut self, id: OperationId) {
        // Forgotten already.
        let Some(operation) = self.operations.get(&id) else { return };
        let gone = |channel: &ChannelId| operation.ended.contains(channel) || self.fences.contains(*channel);
        if operation.is_settled()
            && !operation.is_sending()
            && !operation.announcements.owes_any()
            && !operation.ended.is_empty()
            && operation.carried.keys().all(gone)
        {
            self.forget(id);
            self.end_channels_when_done();
        }
    }

    /// Something was sent or granted: the sending half may be complete.
    pub(super) fn after_sending(&mut self, id: OperationId) {
        // The same step has ended and forgotten it.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        // It receives, or was not granted yet: nothing follows.
        let State::Sending(SendingHalf::Granted(GrantedSender { progress, role, sender, .. })) = &mut operation.state
        else {
            return;
        };
        // Acknowledged, not only sent: until then bytes may still be read from the source, and a
        // source that changes in the meantime must be detected before FINISH lets the receiver
        // commit.
        if *progress != SendProgress::Moving || !sender.all_acknowledged() {
            return;
        }
        match role {
            PipelineRole::Coordinator { participants, .. } if participants.is_empty() => {
                // Cannot fail: the state was checked above.
                let _ = progress.on_all_sent();
                self.outputs.push_back(Output::Check { operation: id });
            }
            PipelineRole::Participant { coordinator, reported } if !*reported => {
                *reported = true;
                self.outputs.push_back(Output::ToPipeline { to: *coordinator, message: PipelineMessage::Sent(id) });
            }
            // Participants still send, or the coordinator knows already.
            _ => {}
        }
    }
}
