//! How operations end: the outcome is known, told to the peer, and kept until the peer knows it.

use super::Committed;
use super::Session;
use super::announcements::Pending;
use super::coordination::{Half, PipelineMessage};
use super::operation::{Operation, Settled, SettledRole, State};
use super::output::{Output, SessionEvent};
use crate::base::{ChannelId, Error, OperationId};
use alloc::vec::Vec;

impl Session {
    /// The outcome is known at this end.
    pub(super) fn settle(&mut self, id: OperationId, outcome: Result<Committed, Error>) {
        // Over already, and forgotten.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let ok = outcome.is_ok();
        let (half, outcome) = match (&operation.state, outcome) {
            // The first outcome counts.
            (State::Settled(_), _) => return,
            // The reason that this end stated is better than its echo.
            (State::Sending(half), Err(echo)) => (Half::Sending, Err(half.given_up().cloned().unwrap_or(echo))),
            (State::Sending(_), outcome) => (Half::Sending, outcome),
            (State::Receiving(_), outcome) => (Half::Receiving, outcome),
        };
        let role = match (operation.is_participant(), operation.is_granted()) {
            (true, _) => SettledRole::Participant,
            (false, true) => SettledRole::Granted,
            (false, false) => SettledRole::Ungranted,
        };
        let (sending, participant) = (half == Half::Sending, role == SettledRole::Participant);
        let ranges = operation.grant().map_or(0, |grant| grant.ranges.len());
        // The deciding end sends the outcome: the receiver, or a sender that could not open.
        let unopened = role == SettledRole::Ungranted && !operation.kind.is_to_server();
        let decides = !participant && (!sending || unopened);
        operation.announcements.conclude(match ok {
            _ if !decides => Pending::NOTHING,
            true => Pending::COMMITTED,
            false => Pending::EXCEPTION,
        });
        let mut kept = outcome.clone();
        if let Err(error) = &mut kept {
            error.shorten();
        }
        operation.state = State::Settled(Settled { half, role, outcome: kept, resent: 0 });
        if !participant {
            for index in 1..ranges {
                let to = (usize::from(self.pipeline.0) + index) as u8 % self.limits.pipelines.max(1);
                let message = PipelineMessage::Settled(id, ok);
                self.outputs.push_back(Output::ToPipeline { to: crate::base::PipelineId(to), message });
            }
        }
        if !participant {
            self.event(SessionEvent::Settled { operation: id, outcome });
        }
        if sending {
            self.push_ends_of_range(id);
        } else if participant {
            // Its coordinator reports the outcome to the peer; late blocks are dropped anyway.
            self.operations.remove(&id);
        }
        self.bound_lingering();
        self.resume_parked();
        self.end_channels_when_done();
    }

    /// Sends EOFR on every channel that carried blocks, and on at least one, so that the receiver
    /// can drop the operation. A sender that failed before it was granted keeps the operation until
    /// the receiver has replied.
    pub(super) fn push_ends_of_range(&mut self, id: OperationId) {
        // A busy channel may be a stalled one.
        let fallback = self.channels.idle.front().copied().or_else(|| self.first_up());
        // Cannot fail: the caller has found it.
        let Some(operation) = self.operations.get(&id) else { return };
        let up = |channel: &ChannelId| self.channels.get(channel).is_some_and(|state| !state.send.has_ended());
        let mut carriers: Vec<_> = operation.carried.iter().map(|(channel, blocks)| (*channel, *blocks)).collect();
        carriers.retain(|(channel, _)| up(channel));
        if carriers.is_empty() && !operation.is_participant() {
            carriers.extend(fallback.map(|channel| (channel, 0)));
        }
        let keep = operation.announcements.owes_any() || !operation.is_settled();
        for (channel, blocks) in carriers {
            self.push_end_of_range(channel, id, blocks);
        }
        if !keep {
            self.forget(id);
        }
    }

    /// More end marks are waiting than an honest peer causes: no more are accepted for now.
    pub(super) fn owes_many_marks(&self) -> bool {
        self.channels.own_waiting() >= LINGERING * self.limits.operations_max
    }

    /// Queues EOFR of an operation on this channel, unless the channel ends anyway.
    pub(super) fn push_end_of_range(&mut self, channel: ChannelId, id: OperationId, blocks: u64) {
        self.channels.push_end_of_range(&channel, id, blocks);
    }

    /// Settled operations are kept until the peer is known to know their outcome. An honest peer
    /// lacks the outcome of at most as many as can be alive at a time; the end marks of others may
    /// be delayed by a stalled channel for a while.
    fn bound_lingering(&mut self) {
        let most = LINGERING * self.limits.operations_max;
        if self.operations.len() <= most {
            return;
        }
        let settled = |operation: &&Operation| operation.is_settled();
        let lingering = self.operations.values().filter(settled).count();
        let oldest = self.operations.values().find(settled).map(Operation::id);
        if let Some(oldest) = oldest.filter(|_| lingering > most) {
            self.forget(oldest);
        }
    }
}

/// Limit on settled operations that are kept, as a multiple of those that may be alive.
const LINGERING: usize = 8;
