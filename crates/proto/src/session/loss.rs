//! Channels that break or stall, fences, the end of the session, timers, and the other pipelines.

use super::announcements::Pending;
use super::block_receiver::BlockReceiver;
use super::block_sender::BlockSender;
use super::channels::Arriving;
use super::coordination::{Half, PipelineMessage, PipelineRole};
use super::operation::{Kind, Operation, State, Terms};
use super::output::{Output, SessionEvent};
use super::receiving_half::ReceivingHalf;
use super::sending_half::SendingHalf;
use super::{Fault, Fence, Role, Session};
use crate::base::{ChannelId, Error, ErrorKind, Instant, OperationId, PipelineId};
use crate::channel::Life;
use crate::channel::life::Sending;
use crate::limits;
use crate::wire::control::Control;
use alloc::format;
use alloc::vec::Vec;

impl Session {
    /// A channel broke: end of stream without EOFT, an invalid tag, a deadline. Its records are
    /// fenced before anything is sent again.
    pub fn on_lost(&mut self, channel: ChannelId, error: Error) {
        // Lost or closed already.
        let Some(state) = self.channels.get_mut(&channel) else { return };
        // It has ended in order.
        if state.life.on_lost().is_err() {
            return;
        }
        let fence = Fence { processed: state.receive.records, sent: state.send.records, heard: false };
        self.channels.remove(&channel);
        self.resume_parked();
        self.credit_elsewhere();
        self.fences.insert(channel, fence);
        // What was sent about other channels on this one is sent again at once: waiting for this
        // channel's fence could be a deadlock.
        self.fences.tell_again_what_was_told_on(channel);
        self.outputs.push_back(Output::Close { channel, error: Some(error.clone()) });
        self.event(SessionEvent::ChannelLost { channel, error: error.clone() });
        if self.channels.is_empty() {
            // If everything was already sent and received, a peer that disconnects is no loss.
            let done = self.closure.is_closing() && !self.needs_channels();
            return self.end((!done).then(|| lost_all(&error)));
        }
        if self.first_up().is_none() && self.needs_channels() {
            // Only channels that are ending are left: none can carry the operations.
            return self.end(Some(lost_all(&error)));
        }
        let ids: Vec<_> = self.operations.keys().copied().collect();
        ids.into_iter().for_each(|id| self.forget_if_over(id));
        self.end_channels_when_done();
    }

    /// Blocks that had to use the request's credit and channel may now use any other channel.
    fn credit_elsewhere(&mut self) {
        for operation in
            self.operations.values_mut().filter(|operation| !operation.kind.is_to_server() && !operation.is_settled())
        {
            if operation.receiver().is_some() {
                operation.announcements.owe(Pending::CREDIT);
            }
        }
    }

    /// The peer reports how many of our records it processed on a lost channel, and that it reads
    /// no more of them.
    pub(super) fn on_fence(&mut self, channel: ChannelId, processed: u64) -> Result<(), Fault> {
        if channel.0 == 0 || self.pipeline_of(channel) != self.pipeline {
            return Err(Fault::Channel);
        }
        self.on_lost(channel, Error::new(ErrorKind::ConnectionLost, "the peer lost the channel"));
        let Some(fence) = self.fences.get_mut(channel) else {
            // Unless it ended in an orderly way here before the peer noticed the loss.
            return if self.channels.has_closed(channel) { Ok(()) } else { self.on_fence_of_unknown(channel) };
        };
        if fence.heard {
            // Sent again, since the answer was lost.
            return Ok(());
        }
        if processed > fence.sent {
            return Err(Fault::Count);
        }
        fence.heard = true;
        let lost_some = processed < fence.sent;
        for operation in self.operations.values_mut() {
            if let Some(sender) = operation.sender() {
                sender.on_fenced(channel, processed);
            }
            operation.on_fenced(lost_some);
        }
        Ok(())
    }

    /// The channel broke before it was up here: the peer waits for the report that nothing it sent
    /// after its JOIN was processed, and anything it sends about it later is void. An EOFR that was
    /// lost with it is resent by the retransmission timer (P-48): no outcome is sent again.
    fn on_fence_of_unknown(&mut self, channel: ChannelId) -> Result<(), Fault> {
        if !self.fences.insert_unknown(channel) {
            return Err(Fault::Channel);
        }
        let error = Error::new(ErrorKind::ConnectionLost, "the peer lost the channel");
        self.outputs.push_back(Output::Close { channel, error: Some(error) });
        self.credit_elsewhere();
        Ok(())
    }

    /// Both EOFT were exchanged on the channel.
    pub(super) fn closed(&mut self, channel: ChannelId) {
        // Cannot fail: the caller has found it.
        let Some(mut state) = self.channels.close(channel) else { return };
        let _ = state.life.on_end_complete();
        self.credit_elsewhere();
        self.resume_parked();
        self.outputs.push_back(Output::Close { channel, error: None });
        if self.channels.is_empty() {
            let lost = self
                .needs_channels()
                .then(|| Error::new(ErrorKind::ConnectionLost, "the peer ended the session during a transfer"));
            self.end(lost);
        }
    }

    /// The session is over: operations that are not settled fail, and every channel closes.
    pub fn end(&mut self, error: Option<Error>) {
        if !self.closure.finish() {
            // Over already: the first reason counts.
            return;
        }
        let why = error.clone().unwrap_or_else(|| Error::new(ErrorKind::ConnectionLost, "the session was closed"));
        let live: Vec<OperationId> =
            self.operations.values().filter(|operation| !operation.is_settled()).map(Operation::id).collect();
        for id in live {
            self.end_operation(id, &why);
        }
        for channel in self.channels.take_all() {
            self.outputs.push_back(Output::Close { channel, error: error.clone() });
        }
        self.event(SessionEvent::Over { error });
    }

    fn end_operation(&mut self, id: OperationId, why: &Error) {
        // Cannot fail: the caller has listed it.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        if operation.is_participant() {
            // Where the peer has ended in order, the coordinator's pipeline has heard it, too.
            if !self.closure.has_peer_ended() {
                self.fail_participant(id, why.clone());
            }
            return;
        }
        match &mut operation.state {
            // FINISH, or a batch, may have arrived, and this end's later request may not: the
            // outcome is unknown here.
            State::Sending(half) => {
                if operation.kind.calls().is_some() || half.life() == Sending::Finishing {
                    half.replace_why(why);
                }
                self.settle(id, Err(why.clone()));
            }
            // A target that gets its name runs to completion: it appears completely or not at all.
            // The application is notified then.
            State::Receiving(_) => self.abandon(id, why.clone()),
            // Cannot be: the caller ends those that are not over.
            State::Settled(_) => {}
        }
    }

    /// The peer violated the protocol: the reason is sent if a channel is free, and the session
    /// ends.
    pub fn on_fault(&mut self, fault: Fault) {
        self.end_telling(Error::from(fault));
    }

    /// Whether a channel is free to report why the session ends.
    pub fn can_tell(&self) -> bool {
        !self.channels.idle.is_empty()
    }

    /// This end ends the session: the reason is sent to the peer if a channel is free.
    pub fn end_telling(&mut self, error: Error) {
        if self.closure.is_over() {
            // The first reason counts.
            return;
        }
        if let Some(channel) = self.channels.idle.front().copied() {
            self.send_control(channel, OperationId(0), &Control::Exception(error.clone()), false);
        }
        self.end(Some(error));
    }

    /// Bytes moved on a channel: when the peer was last heard from, and when the transport last
    /// accepted some.
    pub fn on_progress(&mut self, channel: ChannelId, heard_at: Instant, sent_at: Instant) {
        // One that is lost or closed has no deadline.
        if let Some(state) = self.channels.get_mut(&channel) {
            state.heard_at = state.heard_at.max(heard_at);
            state.sent_at = state.sent_at.max(sent_at);
        }
    }

    /// Time passed. Stalled channels are declared lost, quiet ones are probed, delayed
    /// acknowledgements are sent.
    pub fn on_time(&mut self, now: Instant) {
        for operation in self.operations.values_mut() {
            let due = operation.receiver().is_some_and(|receiver| receiver.ack_due(now));
            if due && !operation.is_settled() {
                operation.announcements.owe(Pending::ACK);
            }
            if operation.retry_at().is_some_and(|at| at <= now) {
                operation.retry(now);
            }
        }
        let busy = self.is_at_work() || self.closure.is_closing();
        let stall = self.limits.stall;
        // After the peer's last message on one channel everything is known: the others need not be
        // waited for.
        let said = self.closure.is_ending() && self.channels.has_closed_any() && !self.needs_channels();
        let last = if said { limits::LAST_WORDS.min(stall) } else { stall };
        let (mut stalled, mut quiet) = (Vec::new(), Vec::new());
        for (id, channel) in self.channels.iter_mut() {
            let parked = channel.arriving == Arriving::Parked;
            let within = matches!(channel.arriving, Arriving::Payload(_));
            let waiting = within || channel.pinged || (channel.life != Life::Up && !channel.busy);
            if channel.busy && now.since(channel.sent_at) >= last {
                stalled.push((id, "the peer takes no bytes"));
            } else if waiting && !parked && now.since(channel.heard_at.max(channel.sent_at)) >= last {
                // While the peer accepts bytes it is alive: the reply to a probe may be queued
                // behind a block on a slow path.
                stalled.push((id, "nothing arrives"));
            } else if busy && channel.life == Life::Up && !channel.pinged && now.since(channel.heard_at) >= stall / 2 {
                channel.pinged = true;
                quiet.push(id);
            }
        }
        for channel in quiet {
            self.channels.push_own(&channel, (OperationId(0), Control::Nothing, true));
        }
        for (channel, why) in stalled {
            let text = format!("channel {channel} stalled: {why} for {} ms", last.as_millis());
            self.on_lost(channel, Error::new(ErrorKind::TimedOut, text));
        }
    }

    /// When `on_time` should be called at the latest; none when only input can change something.
    pub fn deadline(&self) -> Option<Instant> {
        let idle = self.idle_up();
        let mut first: Option<Instant> = None;
        for (id, mark) in self.operations.marks() {
            let sooner = mark.repeat_from.is_some_and(|from| first.is_none_or(|first| from < first));
            let repeat = if sooner { self.repeat_at(id, &idle) } else { None };
            for at in [mark.due, repeat].into_iter().flatten() {
                first = Some(first.map_or(at, |first| first.min(at)));
            }
        }
        first
    }

    /// A message from another pipeline of this side.
    pub fn on_pipeline_message(&mut self, from: PipelineId, message: PipelineMessage) {
        match message {
            PipelineMessage::Start { operation, half, upload, range, block, level, kept, hash, unverified } => {
                let flow_window = self.limits.flow_window_for(block);
                if hash {
                    let (range, kept) = (Some(range), kept.clone());
                    self.outputs.push_back(Output::Hash {
                        operation,
                        length: None,
                        range,
                        kept,
                        unverified,
                        blinded: false,
                        level,
                    });
                }
                let state = match half {
                    Half::Sending => {
                        // The receiving participant reports how far by CREDIT, perhaps already.
                        let edge = self.take_credit(operation).unwrap_or(range.offset());
                        let sender = BlockSender::new(range.offset(), Some(range.end()), block, edge);
                        let sender = sender.with_send_window(flow_window).keeping(kept);
                        State::Sending(SendingHalf::participant(from, sender))
                    }
                    Half::Receiving => {
                        let receiver = BlockReceiver::new(range.offset(), Some(range.end()), block, flow_window);
                        State::Receiving(ReceivingHalf::participant(from, receiver.keeping(kept)))
                    }
                };
                let terms = Terms { block, ..Terms::at(level) };
                let mut participant = Operation::new(operation, Kind::of_file(upload), state, ChannelId(0), terms);
                if half == Half::Receiving {
                    participant.announcements.owe(Pending::CREDIT);
                }
                self.operations.insert(operation, participant);
                // A range that is already present needs no block to end.
                self.after_sending(operation);
                self.after_writing(operation);
                if self.closure.is_over() {
                    let why = Error::new(ErrorKind::ConnectionLost, "all channels of a pipeline were lost");
                    self.end_operation(operation, &why);
                }
            }
            PipelineMessage::Sent(id) => {
                self.participant_done(id, from);
                self.after_sending(id);
            }
            PipelineMessage::Covered(id) => {
                self.participant_done(id, from);
                self.after_writing(id);
            }
            PipelineMessage::Failed(id, error) => self.fail(id, error),
            PipelineMessage::Settled(id, ok) => {
                self.take_credit(id);
                let outcome = if ok {
                    Ok(super::Committed {
                        length: 0,
                        safety: crate::wire::control::Safety::Written,
                        version: Vec::new(),
                        root: None,
                        reread: false,
                    })
                } else {
                    Err(Error::new(ErrorKind::Cancelled, "the operation failed in another pipeline"))
                };
                self.settle(id, outcome);
            }
        }
    }

    fn participant_done(&mut self, id: OperationId, participant: PipelineId) {
        // Settled already: nobody waits for a participant.
        if let Some(PipelineRole::Coordinator { participants, .. }) =
            self.operations.get_mut(&id).and_then(Operation::role_mut)
        {
            participants.retain(|waiting| *waiting != participant);
        }
    }

    /// Whether operations may be requested from this end.
    pub fn is_client(&self) -> bool {
        self.role == Role::Client
    }
}

fn lost_all(last: &Error) -> Error {
    Error::new(ErrorKind::ConnectionLost, format!("all channels were lost, the last one because: {last}"))
}
