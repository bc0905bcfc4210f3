//! One operation as one pipeline sees it: its half, the messages still to be sent, and its outcome.

use super::announcements::{Announcements, Pending};
use super::calls::Calls;
use super::group::{Half, Part};
use super::receiver::Receiver;
use super::sender::Sender;
use super::verify::ContentDigest;
use crate::base::{ChannelId, Digest, Error, Extent, Instant, Level, OperationId};
use crate::channel::life::{Receiving, Sending};
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
    /// The server sends the hash of a file instead of its bytes. At the server it is here once it
    /// is known.
    Digest(Option<Digest>),
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
            Self::Download if request.sum => Self::Digest(None),
            kind => kind,
        }
    }

    /// Whether what the operation is about goes from the client to the server.
    pub(super) const fn is_to_server(self) -> bool {
        match self {
            Self::Upload | Self::Calls(_) => true,
            Self::Download | Self::Digest(_) => false,
        }
    }

    /// Whether the server replies with a hash.
    pub(super) const fn is_digest(self) -> bool {
        matches!(self, Self::Digest(_))
    }

    /// The hash that the server replies with.
    pub(super) const fn digest(self) -> Option<Digest> {
        match self {
            Self::Digest(digest) => digest,
            Self::Upload | Self::Download | Self::Calls(_) => None,
        }
    }

    /// The calls of a batch.
    pub(super) const fn calls(self) -> Option<Calls> {
        match self {
            Self::Calls(calls) => Some(calls),
            Self::Upload | Self::Download | Self::Digest(_) => None,
        }
    }
}

/// The half of the operation that a pipeline has.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum HalfState {
    Sending {
        life: Sending,
        sender: Option<Sender>,
        /// Blocks may use every channel, not only the one that opened the operation.
        everywhere: bool,
        /// Why the sender gave up; the receiver decides the outcome.
        given_up: Option<Error>,
        /// FINISH of the present round was sent: the receiver may have committed.
        finished: bool,
        /// The CREDIT that arrived before there was a sender (P-30).
        credited: u64,
    },
    Receiving {
        life: Receiving,
        receiver: Option<Receiver>,
        /// Length that FINISH stated.
        finish: Option<u64>,
        /// Why the stage must be dropped as soon as it exists.
        abandoned: Option<Error>,
    },
}

/// One operation as one pipeline sees it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Operation {
    pub(super) id: OperationId,
    pub(super) kind: Kind,
    pub(super) state: HalfState,
    pub(super) part: Part,
    /// The request, as long as it may have to be sent again.
    pub(super) request: Option<Request>,
    pub(super) opening: ChannelId,
    pub(super) level: Level,
    pub(super) block: u32,
    /// The outcome is sent when the target is on stable storage.
    pub(super) durable: bool,
    pub(super) grant: Option<Grant>,
    /// The content is hashed end to end.
    pub(super) hash: bool,
    /// What storage reads back is compared.
    pub(super) reread: bool,
    /// The target accepts bytes in order only: none can be sent again.
    pub(super) ordered: bool,
    /// Number of AGAIN messages sent.
    pub(super) round: u16,
    /// The ranges of the last AGAIN.
    pub(super) again: Vec<Extent>,
    /// The digest of what was sent, according to the sender: this end's own, or that of FINISH.
    pub(super) proof: ContentDigest,
    /// The source may be a copy of the one that the request names.
    pub(super) resembles: bool,
    /// Hash of the committed content.
    pub(super) root: Option<Digest>,
    /// What is to be told to the other end.
    pub(super) announcements: Announcements,
    /// Number of times that its outcome was resent because of lost channels.
    pub(super) again_told: u8,
    pub(super) outcome: Option<Result<Committed, Error>>,
    /// How far a source that is read in order was before anything was granted, and whether it had
    /// ended.
    pub(super) source: Option<(u64, bool)>,
    /// Blocks per channel: sent, or arrived.
    pub(super) carried: BTreeMap<ChannelId, u64>,
    /// Receiving half: channels on which EOFR arrived.
    pub(super) ended: Vec<ChannelId>,
}

impl Operation {
    pub(super) fn new(id: OperationId, kind: Kind, half: Half, opening: ChannelId) -> Self {
        let upload = kind.is_to_server();
        let state = match half {
            Half::Sending => HalfState::Sending {
                life: if upload { Sending::Asked } else { Sending::Opening },
                sender: None,
                everywhere: upload,
                given_up: None,
                finished: false,
                credited: 0,
            },
            Half::Receiving => HalfState::Receiving {
                life: if upload { Receiving::Staging } else { Receiving::Asked },
                receiver: None,
                finish: None,
                abandoned: None,
            },
        };
        Self {
            id,
            kind,
            state,
            part: Part::Coordinator(Vec::new()),
            request: None,
            opening,
            level: Level::Clear,
            block: 0,
            durable: false,
            grant: None,
            hash: false,
            reread: false,
            ordered: false,
            round: 0,
            again: Vec::new(),
            proof: ContentDigest::default(),
            resembles: false,
            root: None,
            announcements: Announcements::default(),
            again_told: 0,
            outcome: None,
            source: None,
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
        match &self.state {
            HalfState::Sending { life, .. } => *life == Sending::Settled,
            HalfState::Receiving { life, .. } => *life == Receiving::Settled,
        }
    }

    /// Whether a GRANT may state that these ranges are already present: if no earlier attempt was
    /// mentioned, there are none, and for a download this end has what it stated.
    pub(super) fn may_keep(&self, grant: &Grant) -> bool {
        let said = self.request.as_ref().and_then(|request| request.resume.as_ref());
        grant.kept.iter().all(|range| {
            said.is_some_and(|said| self.kind.is_to_server() || said.kept.iter().any(|kept| kept.contains(*range)))
        })
    }

    /// Whether another pipeline coordinates it.
    pub(super) fn is_member(&self) -> bool {
        matches!(self.part, Part::Member(..))
    }

    /// Whether this end sends the bytes.
    pub fn is_sending(&self) -> bool {
        matches!(self.state, HalfState::Sending { .. })
    }

    pub(super) fn sender(&mut self) -> Option<&mut Sender> {
        match &mut self.state {
            HalfState::Sending { sender, .. } => sender.as_mut(),
            HalfState::Receiving { .. } => None,
        }
    }

    /// Length of what is sent, once it is known: the value that FINISH states.
    pub(super) fn length(&self) -> Option<u64> {
        let HalfState::Sending { sender, .. } = &self.state else { return None };
        let granted = self.grant.as_ref().and_then(|grant| grant.length);
        granted.or_else(|| sender.as_ref().and_then(Sender::end))
    }

    pub(super) fn receiver(&mut self) -> Option<&mut Receiver> {
        match &mut self.state {
            HalfState::Receiving { receiver, .. } => receiver.as_mut(),
            HalfState::Sending { .. } => None,
        }
    }

    /// Whether its blocks may use `channel`: until the first CREDIT after the GRANT, only the
    /// channel of the GRANT.
    pub(super) fn may_carry(&self, channel: ChannelId) -> bool {
        let first = channel == self.opening && !self.announcements.owes(Pending::GRANT);
        let HalfState::Sending { life, sender: Some(_), everywhere, given_up: None, .. } = &self.state else {
            return false;
        };
        let moving = matches!(life, Sending::Moving | Sending::Checking | Sending::Finishing);
        moving && (*everywhere || first)
    }

    /// The sending half if it may send blocks on `channel`.
    pub(super) fn bulk(&mut self, channel: ChannelId) -> Option<&mut Sender> {
        if self.may_carry(channel) { self.sender() } else { None }
    }

    /// When a block may be retransmitted, where `others` tells whether a channel other than its own
    /// is free.
    pub(super) fn repeat_at(&self, others: impl Fn(ChannelId) -> bool) -> Option<Instant> {
        match &self.state {
            HalfState::Sending {
                life: Sending::Moving | Sending::Checking | Sending::Finishing,
                sender: Some(sender),
                everywhere: true,
                given_up: None,
                ..
            } => sender.repeat_at(others),
            _ => None,
        }
    }

    /// Whether [`Self::repeat_at`] may return a time.
    pub(super) fn may_repeat(&self) -> bool {
        self.repeat_at(|_| true).is_some()
    }

    pub(super) fn owes_ack(&self) -> bool {
        self.announcements.owes(Pending::ACK)
    }

    /// Whether a block has waited too long for its acknowledgement and may also be sent on
    /// `channel`.
    pub(super) fn repeats_on(&self, channel: ChannelId, now: Instant) -> bool {
        match &self.state {
            HalfState::Sending { sender: Some(sender), .. } => {
                self.may_carry(channel) && sender.repeats_on(channel, now)
            }
            _ => false,
        }
    }

    /// The channel that its blocks must use, if there is one.
    pub(super) fn only_on(&self) -> Option<ChannelId> {
        matches!(self.state, HalfState::Sending { everywhere: false, .. }).then_some(self.opening)
    }

    /// Whether some channel could carry a block now.
    pub(super) fn has_work(&self) -> bool {
        match &self.state {
            HalfState::Sending { life, sender: Some(sender), given_up: None, everywhere, .. } => {
                let moving = matches!(life, Sending::Moving | Sending::Checking | Sending::Finishing);
                moving && (*everywhere || !self.announcements.owes(Pending::GRANT)) && sender.has_work()
            }
            _ => false,
        }
    }

    /// When unanswered states are sent again (P-48); none while the other end has nothing to
    /// answer.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        let waits = match &self.state {
            HalfState::Sending { .. } => true,
            HalfState::Receiving { life, .. } => !matches!(life, Receiving::Verifying | Receiving::Committing),
        };
        if waits { self.announcements.retry_at(self.answered()) } else { None }
    }

    /// States that the other end has answered: its CREDIT acknowledges GRANT.
    fn answered(&self) -> Pending {
        if matches!(self.state, HalfState::Sending { everywhere: true, .. }) {
            Pending::GRANT
        } else {
            Pending::NOTHING
        }
    }

    /// Resends the states that may not have been received.
    pub(super) fn retry(&mut self, now: Instant) {
        self.announcements.retry(self.answered(), now);
    }

    /// A pending message is sent.
    pub(super) fn on_told(&mut self, owed: Pending, now: Instant) {
        self.announcements.on_sent(owed, now);
        if let HalfState::Sending { finished, .. } = &mut self.state {
            *finished |= owed == Pending::FINISH;
        }
    }

    /// A channel is lost that may have carried the outcome, or the EOFR that reports that the peer
    /// knows it: the peer answers with another EOFR. If an EOFR has arrived, the peer knows.
    pub(super) fn outcome_again(&mut self) {
        if self.ended.is_empty() && self.again_told < limits::OUTCOME_AGAIN_MAX {
            self.again_told += 1;
            self.announcements.send_again();
        }
    }

    /// Drops everything of a settled operation that its outcome does not need.
    pub(super) fn release(&mut self) {
        self.request = None;
        (self.again, self.proof, self.source) = (Vec::new(), ContentDigest::default(), None);
        if let Some(grant) = &mut self.grant {
            // That there was one, and its length, still counts.
            (grant.ranges, grant.kept, grant.version) = (Vec::new(), Vec::new(), Vec::new());
        }
        match &mut self.state {
            HalfState::Sending { sender, .. } => *sender = None,
            HalfState::Receiving { receiver, .. } => *receiver = None,
        }
        if let Some(Err(error)) = &mut self.outcome {
            error.shorten();
        }
    }
}
