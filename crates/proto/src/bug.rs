//! Seeded bugs: deliberate mistakes that the model checker, the simulation and the crash states
//! must catch. They exist only with the feature `seeded-bugs`, which no release enables; there a
//! run-time switch selects one.

/// A single mistake.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Bug {
    /// Blocks of a dead channel are not sent again.
    ForgetLostBlocks,
    /// A block that arrives twice counts twice.
    CountDuplicates,
    /// The acknowledgement says "everything up to here" across a gap.
    AckAcrossGap,
    /// EOFR is treated as the end of the operation while a block is still open.
    EndOfRangeIsEnd,
    /// All blocks acknowledged is treated as success although the last channel died before the
    /// outcome arrived.
    SuccessWithoutOutcome,
    /// A cancel is treated as its own reply while the receiver commits.
    CancelDecides,
    /// The fence of a lost channel counts the records of the last key epoch only.
    FenceOfOneEpoch,
    /// What arrived is committed without comparing it with the hash of what was sent.
    RootNotCompared,
    /// A channel that ends without EOFT is treated as an orderly end, and the counts of EOFR and
    /// EOFT are ignored.
    EndWithoutMark,
    /// A JOIN is accepted whatever its proof is.
    JoinWithoutProof,
    /// A grant accepts a second JOIN with the same number.
    GrantServesTwice,
    /// A grant is accepted after it expired.
    GrantOutlivesItsTime,
    /// A number is looked up when a JOIN arrives, but used up only once its reply is sent.
    GrantUsedLate,
    /// The proof of a JOIN, and the keys, do not cover the channel's number.
    ProofWithoutChannel,
    /// A revocation ends the sessions that are up, but not those whose reply is in flight.
    RevocationMissesOpening,
    /// A session that ends closes channel 1, but not the channels that joined.
    RevocationMissesJoined,
    /// The level of a block is sent but not checked.
    LevelOnlyTold,
    /// The sequence restarts without a new key.
    SequenceWithoutKey,
    /// Connections that have sent nothing are not counted.
    SilentAreFree,
    /// The deadline of a connection starts with its first bytes.
    DeadlineFromFirstBytes,
    /// The subtree limit of a token is compared as text, not by components.
    ScopeIsText,
    /// The file is renamed before its bytes are synced.
    NameBeforeSync,
    /// The directory is not synced after the rename.
    NoDirectorySync,
    /// A failed sync is repeated, and its success believed.
    SyncAgain,
    /// A failed sync is treated as successful.
    ErrorIgnored,
    /// The journal lists bytes that are synced only afterwards.
    MarkerBeforeSync,
    /// A resume uses the whole length of the part file, whatever the journal says.
    ResumeBySize,
    /// A batch of calls whose number was seen before is executed again.
    CallTwice,
    /// Each FENCE is answered with another one, even when it is itself the answer.
    FenceForFence,
    /// A client's lease runs from the arrival of the answer, not from the sending of the call.
    LeaseFromTheAnswer,
    /// A client uses what it kept although the lease is over.
    LeaseWithoutEnd,
    /// A lease is granted although somebody else has one that excludes it.
    LeaseBesideAnother,
    /// A lease is granted although an access that it excludes is being executed.
    LeaseBesideAnAccess,
    /// A lease that somebody waits for is renewed.
    RecalledIsRenewed,
    /// A lease that is recalled lasts until the client answers.
    RecalledIsForEver,
    /// What a recalled lease excludes does not wait until it was given back.
    RecallIsReturn,
    /// The leases of a session end with it, although its client may not know that it has ended.
    LeaseEndsWithSession,
    /// A lease ends while a batch is executed under it.
    LeaseEndsInABatch,
    /// A restarted server lets everybody do everything at once.
    RestartWithoutGrace,
    /// A restarted server grants leases to those who had none.
    GraceForAnybody,
    /// Whoever has given a recalled lease back gets the next one, before those who waited for it.
    LeaseWithoutPause,
    /// A recalled lease is a new one for whoever lost its session and has it again.
    RecallEndsWithSession,
    /// Changes that a client kept are taken although it has no lease any more.
    KeptWithoutLease,
}

impl Bug {
    /// Bugs of the session, which the model checker and the simulation catch.
    pub const ALL: [Bug; 9] = [
        Bug::ForgetLostBlocks,
        Bug::CountDuplicates,
        Bug::AckAcrossGap,
        Bug::EndOfRangeIsEnd,
        Bug::SuccessWithoutOutcome,
        Bug::CancelDecides,
        Bug::FenceOfOneEpoch,
        Bug::RootNotCompared,
        Bug::EndWithoutMark,
    ];

    /// Bugs of joining, revocation and protection, which the model of a hostile participant
    /// catches.
    pub const OF_PROTECTION: [Bug; 11] = [
        Bug::JoinWithoutProof,
        Bug::GrantServesTwice,
        Bug::GrantOutlivesItsTime,
        Bug::GrantUsedLate,
        Bug::ProofWithoutChannel,
        Bug::RevocationMissesOpening,
        Bug::RevocationMissesJoined,
        Bug::LevelOnlyTold,
        Bug::SequenceWithoutKey,
        Bug::SilentAreFree,
        Bug::DeadlineFromFirstBytes,
    ];

    /// Bugs of calls, which the model checker and the simulation catch.
    pub const OF_CALLS: [Bug; 1] = [Bug::CallTwice];

    /// Bugs of leases, which their model catches.
    pub const OF_LEASES: [Bug; 14] = [
        Bug::LeaseFromTheAnswer,
        Bug::LeaseWithoutEnd,
        Bug::LeaseBesideAnother,
        Bug::LeaseBesideAnAccess,
        Bug::RecalledIsRenewed,
        Bug::RecalledIsForEver,
        Bug::RecallIsReturn,
        Bug::LeaseEndsWithSession,
        Bug::LeaseEndsInABatch,
        Bug::RestartWithoutGrace,
        Bug::GraceForAnybody,
        Bug::LeaseWithoutPause,
        Bug::RecallEndsWithSession,
        Bug::KeptWithoutLease,
    ];

    /// Bugs that keep two ends exchanging messages for ever, which the model checker catches.
    pub const OF_PROGRESS: [Bug; 1] = [Bug::FenceForFence];

    /// Bugs of a commit, which the crash states catch.
    pub const OF_COMMIT: [Bug; 4] = [Bug::NameBeforeSync, Bug::NoDirectorySync, Bug::SyncAgain, Bug::ErrorIgnored];

    /// Bugs of checkpoints and of resuming after a restart, which the crash states and the model of
    /// restarts catch.
    pub const OF_MARKERS: [Bug; 2] = [Bug::MarkerBeforeSync, Bug::ResumeBySize];
}

/// The switch. Without the feature it has no state and is never set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Bugs {
    #[cfg(feature = "seeded-bugs")]
    chosen: Option<Bug>,
}

impl Bugs {
    /// Selects the mistake to make.
    #[cfg(feature = "seeded-bugs")]
    pub const fn seeded(bug: Bug) -> Self {
        Self { chosen: Some(bug) }
    }

    /// Whether this mistake is selected.
    #[inline]
    pub fn has(self, bug: Bug) -> bool {
        #[cfg(feature = "seeded-bugs")]
        return self.chosen == Some(bug);
        #[cfg(not(feature = "seeded-bugs"))]
        {
            let _ = bug;
            false
        }
    }
}
