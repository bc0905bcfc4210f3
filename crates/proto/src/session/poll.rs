//! Chooses what is sent next: control before blocks, operations in turn, on whichever channel is
//! free.

use super::announcements::Pending;
use super::operation::{Operation, Settled, State};
use super::operation_table::OperationFlags;
use super::output::{Output, Payload};
use super::receiving_half::ReceivingHalf;
use super::sending_half::SendingHalf;
use super::{Channel, ContentDigest, Role, Session};
use crate::base::{ChannelId, Error, ErrorKind, Instant, Level, OperationId};
use crate::channel::Life;
use crate::limits;
use crate::wire::control::{Ack, Control, Finish, Safety};
use crate::wire::request::Request;
use crate::wire::{Event, Flags, Head};
use alloc::vec::Vec;

impl Session {
    /// The next output, or `None` when there is nothing left to do.
    pub fn poll(&mut self, now: Instant) -> Option<Output> {
        if let Some(output) = self.outputs.pop_front() {
            return Some(output);
        }
        for _ in 0..self.channels.idle.len() {
            self.operations.mark();
            let channel = self.channels.idle.pop_front()?;
            if self.feed(channel, now) {
                if let Some(state) = self.channels.get_mut(&channel) {
                    state.sent_at = now;
                }
                return self.outputs.pop_front();
            }
            self.channels.idle.push_back(channel);
            if !self.more_for_others(now) {
                break;
            }
        }
        self.operations.mark();
        self.outputs.pop_front()
    }

    /// The next output about the session itself, and nothing about operations: for a driver that
    /// holds an idle session, and could not send their bytes.
    pub fn poll_idle(&mut self, now: Instant) -> Option<Output> {
        if let Some(output) = self.outputs.pop_front() {
            return Some(output);
        }
        for _ in 0..self.channels.idle.len() {
            let channel = self.channels.idle.pop_front()?;
            if self.feed_rekey(channel, now) || self.feed_session(channel) {
                if let Some(state) = self.channels.get_mut(&channel) {
                    state.sent_at = now;
                }
                return self.outputs.pop_front();
            }
            self.channels.idle.push_back(channel);
        }
        None
    }

    /// A record of this channel was handed to the transport: the next one may be sent.
    pub fn on_sent(&mut self, channel: ChannelId, now: Instant) {
        // Closed or lost while the record was on its way.
        let Some(state) = self.channels.get_mut(&channel) else { return };
        state.busy = false;
        state.sent_at = now;
        match state.life {
            Life::Ending if state.receive.has_ended() => self.closed(channel),
            Life::Leaving if state.send.has_ended() => self.closed(channel),
            Life::Up | Life::Leaving => self.channels.idle.push_back(channel),
            // It sends nothing more: what it waits for is the peer's.
            _ => {}
        }
    }

    /// Whether another idle channel could have something to send although this one had nothing:
    /// messages bound to one channel, messages that only channels that have not ended may carry,
    /// and blocks that must use another channel than before.
    fn more_for_others(&self, now: Instant) -> bool {
        if self.channels.own_waiting() > 0 || self.fences.has_untold() {
            return true;
        }
        let idle = self.idle_up();
        for (id, mark) in self.operations.marks() {
            let works = mark.works && mark.only.is_none_or(|only| self.channels.idle.contains(&only));
            let repeats = || mark.may_repeat(now) && self.repeat_at(id, &idle).is_some_and(|at| at <= now);
            if mark.owes || works || repeats() {
                return true;
            }
        }
        false
    }

    /// When a block of the operation may be retransmitted on one of these channels.
    pub(super) fn repeat_at(&self, id: OperationId, idle: &IdleUp) -> Option<Instant> {
        self.operations.get(&id)?.repeat_at(|own| idle.others_than(own))
    }

    /// The idle channels that may carry blocks.
    pub(super) fn idle_up(&self) -> IdleUp {
        let up = |idle: &ChannelId| self.channels.get(idle).is_some_and(|state| state.life == Life::Up);
        let mut all = self.channels.idle.iter().copied().filter(up);
        IdleUp([all.next(), all.next()])
    }

    /// Gives a free channel something to send. Returns false when there is nothing for it.
    fn feed(&mut self, channel: ChannelId, now: Instant) -> bool {
        self.feed_rekey(channel, now)
            || self.feed_session(channel)
            || self.feed_operation(channel, now)
            || self.feed_own(channel)
            || self.feed_block(channel, now)
    }

    /// The last record of an epoch, sent before a record for which the epoch might have no room
    /// left. Every record of a live session is chosen after this check, so no limit is exceeded.
    fn feed_rekey(&mut self, channel: ChannelId, now: Instant) -> bool {
        let payload_max = u64::from(self.limits.block).max(limits::CONTROL_BYTES_MAX as u64);
        let due = |state: &Channel| state.send.rekey_due(&self.limits.keys, payload_max, now);
        if !self.channels.get(&channel).is_some_and(due)
            || !self.send_control(channel, OperationId(0), &Control::Rekey, false)
        {
            return false;
        }
        // Cannot fail: it was found above.
        let Some(state) = self.channels.get_mut(&channel) else { return false };
        // Cannot fail: none is due in the last epoch.
        state.send.on_rekey(now).is_ok()
    }

    /// Messages about the session. Fences come first, since other messages wait for them.
    fn feed_session(&mut self, channel: ChannelId) -> bool {
        if self.channels.get(&channel).is_none_or(|state| state.send.has_ended()) {
            return false;
        }
        if let Some((lost, processed)) = self.fences.tell_next(channel) {
            return self.send_control(channel, OperationId(0), &Control::Fence { channel: lost, processed }, false);
        }
        let Some(control) = self.messages.next() else { return false };
        self.send_control(channel, OperationId(0), &control, false)
    }

    /// States that operations have to send.
    fn feed_operation(&mut self, channel: ChannelId, now: Instant) -> bool {
        // In this order because checking whether the channel is quiet visits every idle channel,
        // and few blocks go out together with a message.
        let may = |operation: &Operation| {
            self.may_tell(operation, channel) && !(self.may_tell_anywhere(operation) && self.is_quiet(channel, now))
        };
        let owing = |(id, mark): &(OperationId, OperationFlags)| mark.owes && self.operations.get(id).is_some_and(may);
        let Some(id) = self.operations.marks().find(owing).map(|(id, _)| id) else { return false };
        // Cannot fail: it was found in the line above, and owes something.
        let Some(operation) = self.operations.get_mut(&id) else { return false };
        let Some(owed) = operation.announcements.next() else { return false };
        operation.on_told(owed, now);
        let sent = match operation.message(owed) {
            Some(control) => self.send_control(channel, id, &control, false),
            None if operation.kind.calls().is_some() => self.send_calls(channel, id, owed == Pending::REQUEST),
            None => self.send_request(channel, id),
        };
        self.forget_if_over(id);
        sent
    }

    /// Whether a message should rather use another channel: one is free that was heard from when
    /// this one was not.
    fn is_quiet(&self, channel: ChannelId, now: Instant) -> bool {
        let Some(heard_at) = self.channels.get(&channel).map(|state| state.heard_at) else { return false };
        let spoke = |other: &ChannelId| {
            let other = self.channels.get(other).filter(|state| state.life == Life::Up);
            other.is_some_and(|other| other.heard_at.since(heard_at) >= limits::QUIET)
        };
        now.since(heard_at) >= limits::QUIET && self.channels.idle.iter().any(spoke)
    }

    /// Both ends know the operation, so its messages may use any channel.
    fn may_tell_anywhere(&self, operation: &Operation) -> bool {
        operation.is_granted() && !operation.announcements.owes(Pending::GRANT)
    }

    /// Until the server has replied, a client's messages about an operation follow the request on
    /// its channel, so that they cannot arrive before the request; if that channel is lost, they
    /// follow the fence. The server's reply to a download also uses the request's channel as long
    /// as it exists, because the first blocks follow it there. A copy may use another channel.
    fn may_tell(&self, operation: &Operation, channel: ChannelId) -> bool {
        if operation.announcements.owes(Pending::GRANT)
            && !operation.kind.is_to_server()
            && !operation.announcements.has_sent(Pending::GRANT)
        {
            return channel == operation.opening || !self.channels.contains_key(&operation.opening);
        }
        let first =
            operation.announcements.owes(Pending::REQUEST) || operation.is_granted() || self.role == Role::Server;
        let alone = operation.is_participant();
        let fenced = || self.fences.get(operation.opening).is_some_and(|fence| fence.heard);
        first || alone || channel == operation.opening || fenced()
    }

    fn send_request(&mut self, channel: ChannelId, id: OperationId) -> bool {
        // Cannot fail: REQUEST is owed only while there is a request.
        let Some(operation) = self.operations.get_mut(&id) else { return false };
        let Some(payload) = operation.request().map(Request::encode) else { return false };
        let event = Session::block_event(operation);
        operation.opening = channel;
        self.send(channel, id, event, Flags::REQUEST, payload)
    }

    /// Messages bound to this channel.
    fn feed_own(&mut self, channel: ChannelId) -> bool {
        let many = self.owes_many_marks();
        let Some((operation, control, ask)) = self.channels.pop_own(&channel) else { return false };
        if many {
            self.resume_parked();
        }
        // Cannot fail: its message was found above.
        let Some(state) = self.channels.get_mut(&channel) else { return false };
        match control {
            Control::EndOfRange { .. } => state.send.on_end_of_range(operation),
            Control::EndOfTransfer { .. } => {
                let records = state.send.records;
                // The tables allow both: EOFT is queued once, while the channel is up or leaving. A
                // leaving channel closes once this record is sent.
                let _ = state.send.on_end_of_transfer();
                if state.life == Life::Up {
                    let _ = state.life.on_end_sent();
                }
                return self.send_control(channel, operation, &Control::EndOfTransfer { records }, false);
            }
            _ => {}
        }
        self.send_control(channel, operation, &control, ask)
    }

    /// A block of the operation whose turn it is.
    fn feed_block(&mut self, channel: ChannelId, now: Instant) -> bool {
        let Some(state) = self.channels.get(&channel).filter(|state| state.life == Life::Up) else { return false };
        let record = state.send.records;
        self.operations.mark();
        let may = |id: OperationId, mark: &OperationFlags| {
            let due = || self.operations.get(&id).is_some_and(|operation| operation.repeats_on(channel, now));
            mark.may_carry(channel) && (mark.works || (mark.may_repeat(now) && due()))
        };
        let Some(id) = self.operations.next_marked(self.last_scheduled, may) else { return false };
        let sender = self.operations.get_mut(&id).and_then(|operation| operation.bulk(channel));
        // Cannot fail: `may` has asked for it.
        let Some(extent) = sender.and_then(|sender| sender.pick(channel, record, now)) else { return false };
        self.last_scheduled = id;
        // Cannot fail, like those below: `bulk` has found the half, and the caller the channel.
        let Some(operation) = self.operations.get_mut(&id) else { return false };
        *operation.carried.entry(channel).or_default() += 1;
        let State::Sending(SendingHalf::Granted(granted)) = &operation.state else { return false };
        let (level, event, round) = (operation.terms.level, Session::block_event(operation), granted.round);
        let Some(state) = self.channels.get_mut(&channel) else { return false };
        let head = Head {
            event: state.send.block_event(id, event) as u8,
            level,
            epoch: state.send.epoch,
            operation: id,
            sequence: state.send.sequence,
            offset: extent.offset(),
            // A block is at most 4 MiB.
            length: extent.length() as u32,
            flags: Flags::of_round(round),
        };
        state.send.count_sent(&head, &self.limits.keys);
        state.busy = true;
        self.outputs.push_back(Output::Send { channel, head, payload: Payload::Block(extent) });
        self.after_sending(id);
        true
    }

    pub(super) fn send_control(&mut self, channel: ChannelId, id: OperationId, control: &Control, ask: bool) -> bool {
        let flags = if ask { Flags::ASK } else { Flags::NONE };
        self.send(channel, id, control.event(), flags, control.encode())
    }

    fn send(&mut self, channel: ChannelId, id: OperationId, event: Event, flags: Flags, payload: Vec<u8>) -> bool {
        // Every encoder stays far below 64 KiB.
        let length = payload.len() as u32;
        self.send_record(channel, id, event, flags, length, Payload::Control(payload))
    }

    /// Sends a record other than a block.
    pub(super) fn send_record(
        &mut self,
        channel: ChannelId,
        id: OperationId,
        event: Event,
        flags: Flags,
        length: u32,
        payload: Payload,
    ) -> bool {
        let level: Level = self.limits.control_level;
        // Closed by what was decided before: its end is told by FENCE.
        let Some(state) = self.channels.get_mut(&channel) else { return false };
        let (epoch, sequence) = (state.send.epoch, state.send.sequence);
        let head = Head { event: event as u8, level, epoch, operation: id, sequence, offset: 0, length, flags };
        state.send.count_sent(&head, &self.limits.keys);
        state.busy = true;
        self.outputs.push_back(Output::Send { channel, head, payload });
        true
    }
}

/// See [`Session::idle_up`]: two idle channels suffice to tell whether there is one other than a
/// given one, however many operations ask.
pub(super) struct IdleUp([Option<ChannelId>; 2]);

impl IdleUp {
    pub(super) fn others_than(&self, channel: ChannelId) -> bool {
        self.0.iter().flatten().any(|idle| *idle != channel)
    }
}

impl Operation {
    /// The present state as a message; none for the request and for calls, which have their own
    /// forms.
    fn message(&mut self, owed: Pending) -> Option<Control> {
        let keeps_root = self.keeps_root();
        let cancelled = || Control::Exception(Error::new(ErrorKind::Cancelled, "cancelled"));
        Some(match (owed, &mut self.state) {
            (Pending::EXCEPTION, State::Settled(Settled { outcome: Err(error), .. })) => {
                Control::Exception(error.clone())
            }
            (Pending::EXCEPTION, State::Sending(half)) => {
                half.given_up().cloned().map_or_else(cancelled, Control::Exception)
            }
            (Pending::EXCEPTION, _) => cancelled(),
            // The reply itself.
            (Pending::COMMITTED, _) if self.kind.calls().is_some() => return None,
            (Pending::COMMITTED, State::Settled(Settled { outcome: Ok(committed), .. })) => Control::Committed {
                length: committed.length,
                safety: committed.safety,
                version: committed.version.clone(),
                root: committed.root,
            },
            (Pending::COMMITTED, _) => cancelled(),
            (Pending::GRANT, State::Sending(half)) => Control::Grant(half.grant()?.clone()),
            (Pending::GRANT, State::Receiving(half)) => Control::Grant(half.grant()?.clone()),
            (Pending::CANCEL, _) => Control::Cancel,
            (Pending::CREDIT, State::Receiving(ReceivingHalf::Granted(granted))) => {
                Control::Credit(granted.receiver.credit_limit())
            }
            (Pending::AGAIN, State::Receiving(ReceivingHalf::Granted(granted))) => {
                Control::Again { round: granted.round, ranges: granted.again.clone() }
            }
            (Pending::ACK, State::Receiving(ReceivingHalf::Granted(granted))) => {
                let (low, ranges) = granted.receiver.acknowledge();
                Control::Ack(Ack {
                    safety: Safety::Written,
                    contiguous: low,
                    credit_limit: granted.receiver.credit_limit(),
                    ranges,
                    round: granted.round,
                })
            }
            (Pending::FINISH, State::Sending(SendingHalf::Granted(granted))) => {
                let ContentDigest { root, subtrees } = granted.digest.clone();
                let root = root.filter(|_| !keeps_root);
                Control::Finish(Finish { length: granted.length()?, round: granted.round, root, subtrees })
            }
            _ => return None,
        })
    }
}
