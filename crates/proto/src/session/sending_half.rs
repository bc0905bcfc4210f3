//! The half of an operation that sends: what it has in each state of its life cycle.
//!
//! The table of [`Sending`] decides which change is possible; the data of a state is in that
//! state's variant, so that a change moves what is still needed and drops the rest.

use super::block_sender::BlockSender;
use super::content_digest::ContentDigest;
use super::coordination::PipelineRole;
use crate::base::{Error, PipelineId};
use crate::channel::life::{Refused, Sending};
use crate::plan;
use crate::wire::control::Grant;
use crate::wire::request::Request;

/// The sending half of an operation whose outcome is not known.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(clippy::large_enum_variant, reason = "an operation is in a box of its own")]
pub(super) enum SendingHalf {
    /// The request is under way (upload).
    Asked(Asked),
    /// A batch of calls is under way, or executed; `Asked` in the table.
    Calling(Calling),
    /// The source is being opened (download).
    Opening(Opening),
    /// There is a sender: blocks flow, or have flowed.
    Granted(GrantedSender),
}

/// The server has not answered the request of an upload.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Asked {
    /// The request, which may have to be sent again.
    pub(super) request: Request,
    /// The CREDIT that has arrived; it counts from GRANT on.
    pub(super) credit: u64,
    /// How far a source that is read in order is, and whether it has ended.
    pub(super) source: Option<(u64, bool)>,
    /// Why the sender gave up; the receiver decides the outcome.
    pub(super) given_up: Option<Error>,
}

/// The server has not replied to a batch, which the driver holds.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Calling {
    /// Why the sender gave up; the receiver decides the outcome.
    pub(super) given_up: Option<Error>,
}

/// The source of a download is being opened.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Opening {
    /// What was requested.
    pub(super) request: Request,
    /// The CREDIT that has arrived; it counts from GRANT on, on the channel of GRANT (P-30).
    pub(super) credit: u64,
}

/// The sending half that has a sender.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct GrantedSender {
    /// How far it is.
    pub(super) progress: SendProgress,
    /// What of the whole it moves.
    pub(super) role: PipelineRole,
    /// The blocks.
    pub(super) sender: BlockSender,
    /// Blocks may use every channel, not only the one that opened the operation.
    pub(super) everywhere: bool,
    /// Number of AGAIN messages that have arrived.
    pub(super) round: u16,
    /// The digest of what was sent.
    pub(super) digest: ContentDigest,
}

/// How far a sender is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum SendProgress {
    /// Blocks flow.
    Moving,
    /// Every block was acknowledged; the source is looked at again.
    Checking,
    /// The source is unchanged, and FINISH is to be sent; `Finishing` in the table.
    Finishing,
    /// FINISH of the present round was sent: the receiver may have committed. `Finishing` in the
    /// table.
    Finished,
    /// The sender gave up: nothing follows, and the receiver decides the outcome. `Finishing` in the table if a commit is
    /// possible, and else `Moving`.
    GivenUp {
        /// Why.
        why: Error,
        /// Whether the receiver may have committed.
        commit: ReceiverCommit,
    },
}

/// Whether the receiver may have committed what the sender gave up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum ReceiverCommit {
    /// FINISH of the present round was not sent.
    Impossible,
    /// It was.
    Possible,
}

impl SendingHalf {
    /// The client asks.
    pub(super) const fn asked(request: Request) -> Self {
        Self::Asked(Asked { request, credit: 0, source: None, given_up: None })
    }

    /// The client has a batch executed.
    pub(super) const fn calling() -> Self {
        Self::Calling(Calling { given_up: None })
    }

    /// The server opens what is requested.
    pub(super) const fn opening(request: Request) -> Self {
        Self::Opening(Opening { request, credit: 0 })
    }

    /// A participant sends its range.
    pub(super) fn participant(coordinator: PipelineId, sender: BlockSender) -> Self {
        Self::Granted(GrantedSender::new(PipelineRole::participant(coordinator), sender, true))
    }

    /// Its state in the table.
    pub(super) const fn life(&self) -> Sending {
        match self {
            Self::Asked(_) | Self::Calling(_) => Sending::Asked,
            Self::Opening(_) => Sending::Opening,
            Self::Granted(granted) => granted.progress.life(),
        }
    }

    /// Number of AGAIN messages that have arrived.
    pub(super) const fn round(&self) -> u16 {
        match self {
            Self::Granted(granted) => granted.round,
            Self::Asked(_) | Self::Calling(_) | Self::Opening(_) => 0,
        }
    }

    /// What was granted.
    pub(super) const fn grant(&self) -> Option<&Grant> {
        match self {
            Self::Granted(granted) => granted.role.grant(),
            Self::Asked(_) | Self::Calling(_) | Self::Opening(_) => None,
        }
    }

    /// Why the sender gave up.
    pub(super) const fn given_up(&self) -> Option<&Error> {
        match self {
            Self::Asked(Asked { given_up, .. }) | Self::Calling(Calling { given_up }) => given_up.as_ref(),
            Self::Granted(GrantedSender { progress: SendProgress::GivenUp { why, .. }, .. }) => Some(why),
            Self::Opening(_) | Self::Granted(_) => None,
        }
    }

    /// The sender gives up. Returns false if it has done so before: the first reason counts.
    #[must_use]
    pub(super) fn give_up(&mut self, why: Error) -> bool {
        if self.given_up().is_some() {
            return false;
        }
        match self {
            Self::Asked(Asked { given_up, .. }) | Self::Calling(Calling { given_up }) => *given_up = Some(why),
            Self::Granted(granted) => granted.progress.on_given_up(why),
            // Cannot be: the caller settles it.
            Self::Opening(_) => return false,
        }
        true
    }

    /// The session ends for the reason `why`, and whether the receiver has learnt that the sender gave up is unknown: its
    /// own reason is not that of the outcome.
    pub(super) fn replace_why(&mut self, why: &Error) {
        let own = match self {
            Self::Asked(Asked { given_up, .. }) | Self::Calling(Calling { given_up }) => given_up.as_mut(),
            Self::Granted(GrantedSender { progress: SendProgress::GivenUp { why, .. }, .. }) => Some(why),
            // It has not given up.
            Self::Opening(_) | Self::Granted(_) => None,
        };
        if let Some(own) = own {
            own.clone_from(why);
        }
    }

    /// It was granted: blocks may flow, with at most `send_window` unacknowledged bytes.
    pub(super) fn on_granted(&mut self, grant: Grant, send_window: u64) -> Result<(), Refused> {
        self.life().on_granted()?;
        let (credit, source, everywhere, given_up) = match self {
            Self::Asked(asked) => (grant.credit_limit.max(asked.credit), asked.source, true, asked.given_up.take()),
            Self::Opening(opening) => (opening.request.credit.max(opening.credit), None, false, None),
            // Cannot be: the table has refused it, and calls are not granted.
            Self::Granted(_) | Self::Calling(_) => return Ok(()),
        };
        let first = grant.ranges.first().copied().unwrap_or_default();
        // An unknown length means one range with an open end.
        let end = grant.length.map(|_| first.end());
        let sender = BlockSender::new(first.offset(), end, grant.block, credit).with_send_window(send_window);
        let mut sender = sender.keeping(plan::within(&grant.kept, first));
        if let Some((available, ended)) = source {
            sender.on_source(available, ended);
        }
        let mut granted = GrantedSender::new(PipelineRole::coordinator(grant), sender, everywhere);
        if let Some(why) = given_up {
            granted.progress.on_given_up(why);
        }
        *self = Self::Granted(granted);
        Ok(())
    }

    /// The receiver grants up to `edge`, and its CREDIT makes every channel usable.
    pub(super) fn on_credit(&mut self, edge: u64) {
        match self {
            Self::Asked(Asked { credit, .. }) | Self::Opening(Opening { credit, .. }) => *credit = edge.max(*credit),
            Self::Granted(granted) => {
                granted.sender.on_edge(edge);
                granted.everywhere = true;
            }
            // Cannot be: a batch moves no block.
            Self::Calling(_) => {}
        }
    }

    /// A source that is read in order has bytes up to `available`.
    pub(super) fn on_source(&mut self, available: u64, ended: bool) {
        match self {
            Self::Asked(asked) => asked.source = Some((available, ended)),
            Self::Granted(granted) => granted.sender.on_source(available, ended),
            // A server reads no source before it has granted it, and a batch has none.
            Self::Opening(_) | Self::Calling(_) => {}
        }
    }
}

impl GrantedSender {
    fn new(role: PipelineRole, sender: BlockSender, everywhere: bool) -> Self {
        let (progress, digest) = (SendProgress::Moving, ContentDigest::default());
        Self { progress, role, sender, everywhere, round: 0, digest }
    }

    /// Length of the transfer, if it was granted.
    pub(super) fn granted_length(&self) -> Option<u64> {
        self.role.grant().and_then(|grant| grant.length)
    }

    /// Length of what is sent, once it is known: the value that FINISH states.
    pub(super) fn length(&self) -> Option<u64> {
        self.granted_length().or_else(|| self.sender.end())
    }

    /// Whether its blocks may use a channel, where `is_first` tells whether it is the one that
    /// carried GRANT.
    pub(super) const fn may_carry(&self, is_first: bool) -> bool {
        !matches!(self.progress, SendProgress::GivenUp { .. }) && (self.everywhere || is_first)
    }
}

impl SendProgress {
    /// Its state in the table.
    const fn life(&self) -> Sending {
        match self {
            Self::Moving | Self::GivenUp { commit: ReceiverCommit::Impossible, .. } => Sending::Moving,
            Self::Checking => Sending::Checking,
            Self::Finishing | Self::Finished | Self::GivenUp { commit: ReceiverCommit::Possible, .. } => {
                Sending::Finishing
            }
        }
    }

    /// Whether the receiver may have committed.
    pub(super) const fn may_be_committed(&self) -> bool {
        matches!(self, Self::Finished | Self::GivenUp { commit: ReceiverCommit::Possible, .. })
    }

    /// The sender gives up, however far it is.
    fn on_given_up(&mut self, why: Error) {
        let commit = if self.may_be_committed() { ReceiverCommit::Possible } else { ReceiverCommit::Impossible };
        *self = Self::GivenUp { why, commit };
    }

    /// Who gave up stays there.
    const fn must_go_on(&self, event: &'static str) -> Result<(), Refused> {
        match self {
            Self::GivenUp { .. } => Err(Refused { machine: "Sending", state: "GivenUp", event }),
            _ => Ok(()),
        }
    }

    /// Every block was acknowledged.
    pub(super) fn on_all_sent(&mut self) -> Result<(), Refused> {
        self.must_go_on("on_all_sent")?;
        self.life().on_all_sent()?;
        *self = Self::Checking;
        Ok(())
    }

    /// The source is unchanged.
    pub(super) fn on_checked(&mut self) -> Result<(), Refused> {
        self.life().on_checked()?;
        *self = Self::Finishing;
        Ok(())
    }

    /// FINISH is sent, perhaps once more.
    pub(super) fn on_finish_sent(&mut self) {
        if let Self::Finishing = self {
            *self = Self::Finished;
        }
    }

    /// Some of it is requested once more.
    pub(super) fn on_again(&mut self) -> Result<(), Refused> {
        self.must_go_on("on_again")?;
        self.life().on_again()?;
        *self = Self::Moving;
        Ok(())
    }
}
