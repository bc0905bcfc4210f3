//! One operation as one pipeline sees it: its half, the messages still to be sent, and its outcome.

use super::announcements::{Announcements, Pending};
use super::block_receiver::BlockReceiver;
use super::block_sender::BlockSender;
use super::call_service::Calls;
use super::coordination::{Half, PipelineRole};
use super::receiving_half::{GrantedReceiver, ReceiveProgress, ReceivingHalf};
use super::sending_half::{GrantedSender, SendingHalf};
use crate::base::{ChannelId, Digest, Error, Instant, Level, OperationId};
use crate::channel::life::Receiving;
use crate::limits;
use crate::wire::control::{Grant, Safety};
use crate::wire::request::Request;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The result of a committed operation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Committed {
    /// Bytes of the target.
    pub length: u64,
    /// The durability of the target.
    pub safety: Safety,
    /// Version of the target.
    pub version: Vec<u8>,
    /// Hash of its content, if it was requested and the receiver knows it.
    pub root: Option<Digest>,
    /// The receiver compared what its storage reads back.
    pub reread: bool,
}

/// What an operation is about, with the data that only this kind has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Kind {
    /// The client sends a file.
    Upload,
    /// The server sends a file.
    Download,
    /// The server sends the hash of a file instead of its bytes.
    Digest,
    /// The server executes calls and replies; no block moves.
    Calls(Calls),
}

impl Kind {
    /// That of a file that the client or the server sends.
    pub(super) const fn of_file(upload: bool) -> Self {
        if upload { Self::Upload } else { Self::Download }
    }

    /// That of a request.
    pub(super) const fn of_request(upload: bool, request: &Request) -> Self {
        match Self::of_file(upload) {
            Self::Download if request.sum => Self::Digest,
            kind => kind,
        }
    }

    /// Whether what the operation is about goes from the client to the server.
    pub(super) const fn is_to_server(self) -> bool {
        match self {
            Self::Upload | Self::Calls(_) => true,
            Self::Download | Self::Digest => false,
        }
    }

    /// Whether the server replies with a hash.
    pub(super) const fn is_digest(self) -> bool {
        matches!(self, Self::Digest)
    }

    /// The calls of a batch.
    pub(super) const fn calls(self) -> Option<Calls> {
        match self {
            Self::Calls(calls) => Some(calls),
            Self::Upload | Self::Download | Self::Digest => None,
        }
    }
}

/// How the bytes of an operation travel, and what becomes of them: what was requested, and once it
/// is granted what was agreed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Terms {
    /// Lowest protection of its blocks.
    pub(super) level: Level,
    /// Block size; 0 where the other end has not chosen it yet.
    pub(super) block: u32,
    /// The outcome is sent when the target is on stable storage.
    pub(super) durable: bool,
    /// The content is hashed end to end.
    pub(super) hash: bool,
    /// What storage reads back is compared.
    pub(super) reread: bool,
}

impl Terms {
    /// Those of an operation that says nothing but how its records are protected.
    pub(super) fn at(level: Level) -> Self {
        Self { level, ..Self::default() }
    }

    /// What a client requests.
    pub(super) const fn of_request(request: &Request) -> Self {
        let Request { level, durable, hash, reread, .. } = *request;
        Self { level, block: 0, durable, hash, reread }
    }
}

/// Where an operation is, with the data that only this state has.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum State {
    /// This end sends the bytes.
    Sending(SendingHalf),
    /// This end receives them.
    Receiving(ReceivingHalf),
    /// The outcome is known here, and kept until the peer is known to know it.
    Settled(Settled),
}

/// What is kept of an operation that is over.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Settled {
    /// The half that this end had.
    pub(super) half: Half,
    /// What this pipeline had to do with it.
    pub(super) role: SettledRole,
    /// The outcome, with a text that fits into a message.
    pub(super) outcome: Result<Committed, Error>,
    /// Number of times that it was resent because of lost channels.
    pub(super) resent: u8,
}

/// What a pipeline had to do with an operation that is over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum SettledRole {
    /// It coordinated what was never granted: the peer may not know the operation.
    Ungranted,
    /// It coordinated what was granted: both ends know the operation.
    Granted,
    /// It moved a range, and another pipeline coordinated it.
    Participant,
}

/// One operation as one pipeline sees it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Operation {
    pub(super) id: OperationId,
    pub(super) kind: Kind,
    pub(super) state: State,
    /// The channel that carried the request.
    pub(super) opening: ChannelId,
    pub(super) terms: Terms,
    /// What is to be told to the other end.
    pub(super) announcements: Announcements,
    /// Blocks per channel: sent, or arrived.
    pub(super) carried: BTreeMap<ChannelId, u64>,
    /// Receiving half: channels on which EOFR arrived.
    pub(super) ended: Vec<ChannelId>,
}

impl Operation {
    pub(super) fn new(id: OperationId, kind: Kind, state: State, opening: ChannelId, terms: Terms) -> Self {
        Self {
            id,
            kind,
            state,
            opening,
            terms,
            announcements: Announcements::default(),
            carried: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    /// Number of the operation.
    pub fn id(&self) -> OperationId {
        self.id
    }

    /// Whether the outcome is known at this end.
    pub fn is_settled(&self) -> bool {
        matches!(self.state, State::Settled(_))
    }

    /// Whether another pipeline coordinates it.
    pub(super) fn is_participant(&self) -> bool {
        match &self.state {
            State::Settled(settled) => settled.role == SettledRole::Participant,
            _ => matches!(self.role(), Some(PipelineRole::Participant { .. })),
        }
    }

    /// What this pipeline moves of it, if it was granted and is not over.
    const fn role(&self) -> Option<&PipelineRole> {
        match &self.state {
            State::Sending(SendingHalf::Granted(GrantedSender { role, .. }))
            | State::Receiving(ReceivingHalf::Granted(GrantedReceiver { role, .. })) => Some(role),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub(super) const fn role_mut(&mut self) -> Option<&mut PipelineRole> {
        match &mut self.state {
            State::Sending(SendingHalf::Granted(GrantedSender { role, .. }))
            | State::Receiving(ReceivingHalf::Granted(GrantedReceiver { role, .. })) => Some(role),
            _ => None,
        }
    }

    /// The half that this end has.
    pub(super) const fn half(&self) -> Half {
        match &self.state {
            State::Sending(_) => Half::Sending,
            State::Receiving(_) => Half::Receiving,
            State::Settled(settled) => settled.half,
        }
    }

    /// Whether this end sends the bytes.
    pub fn is_sending(&self) -> bool {
        self.half() == Half::Sending
    }

    /// The request, as long as it may have to be sent again.
    pub(super) fn request(&self) -> Option<&Request> {
        match &self.state {
            State::Sending(SendingHalf::Asked(asked)) => Some(&asked.request),
            State::Receiving(ReceivingHalf::Asked(asked)) => Some(&asked.request),
            _ => None,
        }
    }

    /// What was granted, while the operation is not over.
    pub(super) fn grant(&self) -> Option<&Grant> {
        match &self.state {
            State::Sending(half) => half.grant(),
            State::Receiving(half) => half.grant(),
            State::Settled(_) => None,
        }
    }

    /// Whether there was a GRANT.
    pub(super) fn is_granted(&self) -> bool {
        match &self.state {
            State::Settled(settled) => settled.role == SettledRole::Granted,
            _ => self.grant().is_some(),
        }
    }

    /// Whether a GRANT may state that these ranges are already present: if no earlier attempt was
    /// mentioned, there are none, and for a download this end has what it stated.
    pub(super) fn may_keep(&self, grant: &Grant) -> bool {
        let said = self.request().and_then(|request| request.resume.as_ref());
        grant.kept.iter().all(|range| {
            said.is_some_and(|said| self.kind.is_to_server() || said.kept.iter().any(|kept| kept.contains(*range)))
        })
    }

    const fn granted_sender(&self) -> Option<&GrantedSender> {
        match &self.state {
            State::Sending(SendingHalf::Granted(granted)) => Some(granted),
            _ => None,
        }
    }

    pub(super) const fn sender(&mut self) -> Option<&mut BlockSender> {
        match &mut self.state {
            State::Sending(SendingHalf::Granted(granted)) => Some(&mut granted.sender),
            _ => None,
        }
    }

    pub(super) const fn receiver(&mut self) -> Option<&mut BlockReceiver> {
        match &mut self.state {
            State::Receiving(ReceivingHalf::Granted(granted)) => Some(&mut granted.receiver),
            _ => None,
        }
    }

    /// Whether its blocks may use `channel`: until the first CREDIT after the GRANT, only the
    /// channel of the GRANT.
    pub(super) fn may_carry(&self, channel: ChannelId) -> bool {
        let first = channel == self.opening && !self.announcements.owes(Pending::GRANT);
        self.granted_sender().is_some_and(|granted| granted.may_carry(first))
    }

    /// The sending half if it may send blocks on `channel`.
    pub(super) fn bulk(&mut self, channel: ChannelId) -> Option<&mut BlockSender> {
        if self.may_carry(channel) { self.sender() } else { None }
    }

    /// When a block may be retransmitted, where `others` tells whether a channel other than its own
    /// is free.
    pub(super) fn repeat_at(&self, others: impl Fn(ChannelId) -> bool) -> Option<Instant> {
        self.granted_sender().filter(|granted| granted.may_carry(false))?.sender.repeat_at(others)
    }

    /// The earliest time that [`Self::repeat_at`] may return.
    pub(super) fn repeat_from(&self) -> Option<Instant> {
        self.granted_sender().filter(|granted| granted.may_carry(false))?.sender.repeat_from()
    }

    /// Whether a block has waited too long for its acknowledgement and may also be sent on
    /// `channel`.
    pub(super) fn repeats_on(&self, channel: ChannelId, now: Instant) -> bool {
        self.may_carry(channel) && self.granted_sender().is_some_and(|granted| granted.sender.repeats_on(channel, now))
    }

    /// The channel that its blocks must use, if there is one.
    pub(super) fn only_on(&self) -> Option<ChannelId> {
        self.granted_sender().filter(|granted| !granted.everywhere).map(|_| self.opening)
    }

    /// Whether some channel could carry a block now.
    pub(super) fn has_work(&self) -> bool {
        let first = !self.announcements.owes(Pending::GRANT);
        self.granted_sender().is_some_and(|granted| granted.may_carry(first) && granted.sender.has_work())
    }

    /// When an acknowledgement of what was written is due; none while one is to be sent anyway, or
    /// while no more blocks are awaited.
    pub(super) fn ack_at(&self) -> Option<Instant> {
        match &self.state {
            State::Receiving(ReceivingHalf::Granted(GrantedReceiver {
                progress: ReceiveProgress::Moving { .. },
                receiver,
                ..
            })) if !self.announcements.owes(Pending::ACK) => receiver.ack_at(),
            _ => None,
        }
    }

    /// When unanswered states are sent again (P-48); none while the other end has nothing to
    /// answer.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        let waits = match &self.state {
            State::Receiving(half) => !matches!(half.life(), Receiving::Verifying | Receiving::Committing),
            State::Sending(_) | State::Settled(_) => true,
        };
        if waits { self.announcements.retry_at(self.answered()) } else { None }
    }

    /// States that the other end has answered: its CREDIT acknowledges GRANT.
    fn answered(&self) -> Pending {
        if self.granted_sender().is_some_and(|granted| granted.everywhere) { Pending::GRANT } else { Pending::NOTHING }
    }

    /// Resends the states that may not have been received.
    pub(super) fn retry(&mut self, now: Instant) {
        self.announcements.retry(self.answered(), now);
    }

    /// A pending message is sent.
    pub(super) fn on_told(&mut self, owed: Pending, now: Instant) {
        self.announcements.on_sent(owed, now);
        if owed == Pending::FINISH
            && let State::Sending(SendingHalf::Granted(granted)) = &mut self.state
        {
            granted.progress.on_finish_sent();
        }
    }

    /// A channel is lost whose messages the peer has not all processed.
    pub(super) fn on_fenced(&mut self, lost_some: bool) {
        match &mut self.state {
            // It may have carried the outcome, or the EOFR that reports that the peer knows it: the
            // peer answers with another EOFR. If an EOFR has arrived, the peer knows.
            State::Settled(settled) => {
                if self.ended.is_empty() && settled.resent < limits::OUTCOME_AGAIN_MAX {
                    settled.resent += 1;
                    self.announcements.send_again();
                }
            }
            State::Sending(_) | State::Receiving(_) => {
                if lost_some {
                    self.announcements.send_again();
                }
            }
        }
    }
}
