//! The half of an operation that receives: what it has in each state of its life cycle.
//!
//! The table of [`Receiving`] decides which change is possible; the data of a state is in that
//! state's variant, so that a change moves what is still needed and drops the rest.

use super::block_receiver::BlockReceiver;
use super::content_digest::ContentDigest;
use super::coordination::PipelineRole;
use crate::base::{Digest, Error, Extent, PipelineId};
use crate::channel::life::{Receiving, Refused};
use crate::wire::control::Grant;
use crate::wire::request::Request;
use alloc::vec::Vec;

/// The receiving half of an operation whose outcome is not known.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum ReceivingHalf {
    /// The request is under way (download).
    Asked(Asked),
    /// The stage is being prepared.
    Staging(Staging),
    /// A batch is executed; `Staging` in the table.
    Executing(Executing),
    /// There is a receiver: blocks flow, or have flowed.
    Granted(GrantedReceiver),
}

/// The server has not answered the request of a download.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Asked {
    /// The request, which may have to be sent again.
    pub(super) request: Request,
    /// FINISH that has overtaken GRANT (P-41).
    pub(super) finish: Option<Finished>,
}

/// The stage is being prepared.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Staging {
    /// What it is prepared for.
    pub(super) target: Target,
    /// What becomes of it.
    pub(super) fate: StageFate,
}

/// What becomes of a stage as soon as it exists.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum StageFate {
    /// Blocks are written in it.
    Awaited {
        /// FINISH that has arrived before the stage is ready.
        finish: Option<Finished>,
    },
    /// It is dropped, for this reason.
    Abandoned(Error),
}

/// What a stage is prepared for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Target {
    /// What a client sends; it is granted once the stage is ready.
    Upload {
        /// Its length, if the client knows it.
        length: Option<u64>,
        /// It may resume an earlier attempt.
        resumes: bool,
        /// The client can send blinded hashes.
        blinds: bool,
    },
    /// What a server has granted.
    Download {
        /// What was granted.
        grant: Grant,
        /// The credit of the request, which the first blocks use.
        credit: u64,
    },
}

/// A batch is executed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Executing {
    /// Whoever executes it was told to stop; what he replies is the outcome nevertheless.
    pub(super) stopped: bool,
}

/// What FINISH states.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Finished {
    /// Length of the transfer.
    pub(super) length: u64,
    /// The digest of what was sent.
    pub(super) digest: ContentDigest,
}

/// The receiving half that has a receiver.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct GrantedReceiver {
    /// How far it is.
    pub(super) progress: ReceiveProgress,
    /// What of the whole it moves.
    pub(super) role: PipelineRole,
    /// The blocks.
    pub(super) receiver: BlockReceiver,
    /// The target accepts bytes in order only: none can be sent again.
    pub(super) ordered: bool,
    /// Number of AGAIN messages.
    pub(super) round: u16,
    /// The ranges of the last AGAIN.
    pub(super) again: Vec<Extent>,
}

/// How far a receiver is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum ReceiveProgress {
    /// Blocks flow.
    Moving {
        /// FINISH of the present round, which may arrive before the last blocks.
        finish: Option<Finished>,
    },
    /// Everything has arrived: it is compared with what FINISH states.
    Verifying {
        /// FINISH of the present round.
        finish: Finished,
    },
    /// The target gets its name.
    Committing {
        /// Length of the transfer.
        length: u64,
        /// Hash of the content, if there was one to compare and the receiver knows it.
        root: Option<Digest>,
    },
}

impl ReceivingHalf {
    /// The client asks.
    pub(super) const fn asked(request: Request) -> Self {
        Self::Asked(Asked { request, finish: None })
    }

    /// The server executes a batch.
    pub(super) const fn executing() -> Self {
        Self::Executing(Executing { stopped: false })
    }

    /// The server prepares a stage.
    pub(super) const fn staging(target: Target) -> Self {
        Self::Staging(Staging { target, fate: StageFate::Awaited { finish: None } })
    }

    /// A participant receives its range.
    pub(super) const fn participant(coordinator: PipelineId, receiver: BlockReceiver) -> Self {
        Self::Granted(GrantedReceiver::new(PipelineRole::participant(coordinator), receiver, None, false))
    }

    /// Its state in the table.
    pub(super) const fn life(&self) -> Receiving {
        match self {
            Self::Asked(_) => Receiving::Asked,
            Self::Staging(_) | Self::Executing(_) => Receiving::Staging,
            Self::Granted(granted) => granted.progress.life(),
        }
    }

    /// What was granted.
    pub(super) const fn grant(&self) -> Option<&Grant> {
        match self {
            Self::Granted(granted) => granted.role.grant(),
            Self::Staging(Staging { target: Target::Download { grant, .. }, .. }) => Some(grant),
            Self::Asked(_) | Self::Staging(_) | Self::Executing(_) => None,
        }
    }

    /// Number of AGAIN messages.
    pub(super) const fn round(&self) -> u16 {
        match self {
            Self::Granted(granted) => granted.round,
            Self::Asked(_) | Self::Staging(_) | Self::Executing(_) => 0,
        }
    }

    /// FINISH of the present round, while more than that is awaited.
    pub(super) const fn finish(&self) -> Option<&Finished> {
        match self {
            Self::Asked(Asked { finish, .. })
            | Self::Staging(Staging { fate: StageFate::Awaited { finish }, .. })
            | Self::Granted(GrantedReceiver { progress: ReceiveProgress::Moving { finish }, .. }) => finish.as_ref(),
            Self::Granted(_) | Self::Staging(_) | Self::Executing(_) => None,
        }
    }

    /// FINISH of the present round has arrived. Returns false if it contradicts what is known.
    #[must_use]
    pub(super) fn on_finish(&mut self, finished: Finished) -> bool {
        let fits = match (self.grant().and_then(|grant| grant.length), &mut *self) {
            (Some(known), _) => known == finished.length,
            (None, Self::Granted(granted)) => granted.receiver.on_end(finished.length),
            // The GRANT was overtaken while in flight; `on_staged` checks for it.
            (None, Self::Asked(_) | Self::Staging(_) | Self::Executing(_)) => true,
        };
        let finish = match self {
            Self::Asked(Asked { finish, .. })
            | Self::Staging(Staging { fate: StageFate::Awaited { finish }, .. })
            | Self::Granted(GrantedReceiver { progress: ReceiveProgress::Moving { finish }, .. }) => finish,
            // Nobody needs it any more.
            Self::Staging(Staging { fate: StageFate::Abandoned(_), .. }) => return fits,
            // A batch has none, and the caller has dropped late copies.
            Self::Executing(_) | Self::Granted(_) => return false,
        };
        let valid = fits && finish.is_none();
        if valid {
            *finish = Some(finished);
        }
        valid
    }

    /// The server has granted a download: a stage is prepared for it, by the request that is
    /// returned.
    pub(super) fn on_granted(&mut self, grant: Grant) -> Result<Option<Request>, Refused> {
        self.life().on_granted()?;
        // Cannot fail: the table allows it in this state alone.
        let Self::Asked(Asked { request, finish }) = self else { return Ok(None) };
        let (request, finish) = (core::mem::take(request), finish.take());
        let target = Target::Download { grant, credit: request.credit };
        *self = Self::Staging(Staging { target, fate: StageFate::Awaited { finish } });
        Ok(Some(request))
    }

    /// The stage is ready, and blocks may arrive.
    pub(super) fn on_staged(&mut self, grant: Grant, receiver: BlockReceiver, ordered: bool) -> Result<(), Refused> {
        self.life().on_staged()?;
        // Cannot fail: the table allows it in this state alone, a batch has no stage, and the caller drops one that was
        // abandoned.
        let Self::Staging(Staging { fate: StageFate::Awaited { finish }, .. }) = self else { return Ok(()) };
        let finish = finish.take();
        *self = Self::Granted(GrantedReceiver::new(PipelineRole::coordinator(grant), receiver, finish, ordered));
        Ok(())
    }
}

impl GrantedReceiver {
    const fn new(role: PipelineRole, receiver: BlockReceiver, finish: Option<Finished>, ordered: bool) -> Self {
        Self { progress: ReceiveProgress::Moving { finish }, role, receiver, ordered, round: 0, again: Vec::new() }
    }

    /// Length of the transfer, if it was granted.
    pub(super) fn granted_length(&self) -> Option<u64> {
        self.role.grant().and_then(|grant| grant.length)
    }
}

impl ReceiveProgress {
    /// Its state in the table.
    pub(super) const fn life(&self) -> Receiving {
        match self {
            Self::Moving { .. } => Receiving::Moving,
            Self::Verifying { .. } => Receiving::Verifying,
            Self::Committing { .. } => Receiving::Committing,
        }
    }

    /// Everything that `finish` covers has arrived.
    pub(super) fn on_complete(&mut self, finish: Finished) -> Result<(), Refused> {
        self.life().on_complete()?;
        *self = Self::Verifying { finish };
        Ok(())
    }

    /// Some of it is to come again.
    pub(super) fn on_again(&mut self) -> Result<(), Refused> {
        self.life().on_again()?;
        *self = Self::Moving { finish: None };
        Ok(())
    }

    /// It is committed, with this length and hash.
    pub(super) fn on_covered(&mut self, length: u64, root: Option<Digest>) -> Result<(), Refused> {
        self.life().on_covered()?;
        *self = Self::Committing { length, root };
        Ok(())
    }
}
