//! The channels of a pipeline: which are there, which are free, what is bound to one of them, and
//! which have ended. Must not: know what an operation has to send.

use crate::base::{ChannelId, Instant, OperationId};
use crate::channel::{DirectionState, Life};
use crate::wire::Head;
use crate::wire::control::Control;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

/// A message that is bound to its channel: EOFR, NOOP, EOFT; and whether it asks for a reply.
pub(super) type OwnMessage = (OperationId, Control, bool);

/// The record that a channel is receiving.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Arriving {
    /// The next one has not begun.
    Nothing,
    /// Its head is parked until `Resume`.
    Parked,
    /// Its payload, behind this head.
    Payload(Head),
}

/// A channel of this pipeline.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Channel {
    pub(super) life: Life,
    pub(super) send: DirectionState,
    pub(super) receive: DirectionState,
    /// The transport has a record of it. It is not idle then, nor when it has ended and sends nothing
    /// more.
    pub(super) busy: bool,
    /// Messages bound to this channel.
    own: VecDeque<OwnMessage>,
    pub(super) arriving: Arriving,
    pub(super) heard_at: Instant,
    pub(super) sent_at: Instant,
    /// A NOOP that requests a reply has been sent.
    pub(super) pinged: bool,
}

impl Channel {
    /// A channel that is up and has carried nothing.
    fn new(now: Instant) -> Self {
        Self {
            life: Life::Up,
            send: DirectionState::new(now),
            receive: DirectionState::new(now),
            busy: false,
            own: VecDeque::new(),
            arriving: Arriving::Nothing,
            heard_at: now,
            sent_at: now,
            pinged: false,
        }
    }

    /// The messages that are bound to it.
    pub(super) fn own(&self) -> impl Iterator<Item = &Control> {
        self.own.iter().map(|(_, control, _)| control)
    }
}

/// The channels of this pipeline.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Channels {
    all: BTreeMap<ChannelId, Channel>,
    /// Those that have no record with the transport, longest idle first.
    pub(super) idle: VecDeque<ChannelId>,
    /// Channels that ended in an orderly way.
    closed: BTreeSet<ChannelId>,
    /// Messages in all `Channel::own` queues.
    own_waiting: usize,
}

impl Channels {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn contains_key(&self, id: &ChannelId) -> bool {
        self.all.contains_key(id)
    }

    pub(super) fn get(&self, id: &ChannelId) -> Option<&Channel> {
        self.all.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &ChannelId) -> Option<&mut Channel> {
        self.all.get_mut(id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ChannelId, &Channel)> {
        self.all.iter().map(|(id, channel)| (*id, channel))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (ChannelId, &mut Channel)> {
        self.all.iter_mut().map(|(id, channel)| (*id, channel))
    }

    /// Those that are up, ascending.
    pub(super) fn up(&self) -> impl Iterator<Item = ChannelId> {
        self.iter().filter(|(_, channel)| channel.life == Life::Up).map(|(id, _)| id)
    }

    /// A channel is up, and idle.
    pub(super) fn insert(&mut self, id: ChannelId, now: Instant) {
        self.all.insert(id, Channel::new(now));
        self.idle.push_back(id);
    }

    /// A channel is lost, with all that is bound to it.
    pub(super) fn remove(&mut self, id: &ChannelId) -> Option<Channel> {
        let channel = self.all.remove(id)?;
        self.own_waiting -= channel.own.len();
        self.idle.retain(|idle| idle != id);
        Some(channel)
    }

    /// A channel has ended in an orderly way.
    pub(super) fn close(&mut self, id: ChannelId) -> Option<Channel> {
        let channel = self.remove(&id)?;
        self.closed.insert(id);
        Some(channel)
    }

    /// Whether a channel has ended in an orderly way.
    pub(super) fn has_closed(&self, id: ChannelId) -> bool {
        self.closed.contains(&id)
    }

    /// Whether any channel has.
    pub(super) fn has_closed_any(&self) -> bool {
        !self.closed.is_empty()
    }

    /// The session is over: every channel ends at once.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = ChannelId> + use<> {
        self.idle.clear();
        self.own_waiting = 0;
        core::mem::take(&mut self.all).into_keys()
    }

    /// Messages that are bound to their channels, of all channels.
    pub(super) const fn own_waiting(&self) -> usize {
        self.own_waiting
    }

    /// Binds a message to a channel, behind those that are bound to it.
    pub(super) fn push_own(&mut self, id: &ChannelId, message: OwnMessage) {
        if let Some(channel) = self.all.get_mut(id) {
            channel.own.push_back(message);
            self.own_waiting += 1;
        }
    }

    /// The next message that is bound to a channel.
    pub(super) fn pop_own(&mut self, id: &ChannelId) -> Option<OwnMessage> {
        let message = self.all.get_mut(id)?.own.pop_front()?;
        self.own_waiting -= 1;
        Some(message)
    }

    /// Binds EOFR of an operation to a channel, once, unless the channel ends anyway: that says the
    /// same to the peer.
    pub(super) fn push_end_of_range(&mut self, id: &ChannelId, operation: OperationId, blocks: u64) {
        let mark = (operation, Control::EndOfRange { blocks }, false);
        let lasts = |channel: &Channel| !channel.send.has_ended() && !channel.own.contains(&mark);
        if self.all.get(id).is_some_and(lasts) {
            self.push_own(id, mark);
        }
    }

    /// Binds EOFT to every channel that has not ended, once.
    pub(super) fn push_ends(&mut self) {
        for channel in self.all.values_mut() {
            let marked = channel.send.has_ended()
                || channel.own().any(|control| matches!(control, Control::EndOfTransfer { .. }));
            if matches!(channel.life, Life::Up | Life::Leaving) && !marked {
                channel.own.push_back((OperationId(0), Control::EndOfTransfer { records: 0 }, false));
                self.own_waiting += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_bound_to_channels_is_counted_until_it_is_sent_or_gone() {
        let ids = [1, 2, 3].map(ChannelId);
        let mut channels = Channels::default();
        for id in ids {
            channels.insert(id, Instant(0));
            channels.push_end_of_range(&id, OperationId(1), 4);
            channels.push_end_of_range(&id, OperationId(1), 4);
        }
        assert_eq!(channels.own_waiting(), 3, "an end mark is queued once");
        channels.push_ends();
        channels.push_ends();
        assert_eq!(channels.own_waiting(), 6, "and so is the end");
        assert_eq!(channels.pop_own(&ids[0]), Some((OperationId(1), Control::EndOfRange { blocks: 4 }, false)));
        assert!(channels.remove(&ids[1]).is_some() && channels.close(ids[2]).is_some());
        assert_eq!((channels.own_waiting(), channels.idle.iter().copied().collect()), (1, alloc::vec![ids[0]]));
        assert!(channels.has_closed(ids[2]) && !channels.has_closed(ids[1]));
        channels.push_end_of_range(&ids[1], OperationId(1), 4);
        assert_eq!(channels.own_waiting(), 1, "what is lost carries nothing");
        assert_eq!(channels.take_all().collect::<alloc::vec::Vec<_>>(), [ids[0]]);
        assert_eq!((channels.own_waiting(), channels.idle.len()), (0, 0));
    }
}
