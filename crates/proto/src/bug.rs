//! Seeded bugs: deliberate mistakes that the model checker, the simulation and the crash states must catch. They exist only with the
//! feature `seeded-bugs`, which no release is built with; there a run-time switch chooses one.

/// One mistake each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Bug {
    /// Blocks of a dead channel are not sent again.
    ForgetLostBlocks,
    /// A block that arrives twice counts twice.
    CountDuplicates,
    /// The acknowledgement says "everything up to here" across a gap.
    AckAcrossGap,
    /// EOFR is taken as the end of the operation while a block is still open.
    EndOfRangeIsEnd,
    /// All blocks acknowledged is taken as success although the last channel died before the outcome arrived.
    SuccessWithoutOutcome,
    /// A cancel is taken as its own answer while the receiver commits.
    CancelDecides,
    /// The fence of a lost channel counts the records of the last key epoch only.
    FenceOfOneEpoch,
    /// What arrived is committed without a look at the hash of what was sent.
    RootNotCompared,
    /// A channel that ends without EOFT is taken as one that ended in order, and nobody counts what EOFR and EOFT say.
    EndWithoutMark,
    /// A JOIN is taken whatever its proof says.
    JoinWithoutProof,
    /// A grant serves a second JOIN with the same number.
    GrantServesTwice,
    /// A grant serves after its time.
    GrantOutlivesItsTime,
    /// A number is looked up when a JOIN comes, and used up only when its answer is out.
    GrantUsedLate,
    /// The proof of a JOIN, and the keys, say nothing of the channel's number.
    ProofWithoutChannel,
    /// What is taken away ends the sessions that are up, and not those whose answer is on its way.
    RevocationMissesOpening,
    /// A session that ends closes channel 1, and not those that joined.
    RevocationMissesJoined,
    /// The level of a block is told, and not looked at.
    LevelOnlyTold,
    /// The sequence begins anew without a new key.
    SequenceWithoutKey,
    /// Connections that have said nothing are not counted.
    SilentAreFree,
    /// The time of a connection begins with its first bytes.
    DeadlineFromFirstBytes,
    /// Where a token ends is compared as text, not by components.
    ScopeIsText,
    /// The file gets its name before its bytes are synced.
    NameBeforeSync,
    /// The directory is not synced behind the name.
    NoDirectorySync,
    /// A sync that failed is made again, and its success believed.
    SyncAgain,
    /// A sync that failed is taken as one that was made.
    ErrorIgnored,
    /// The journal tells of bytes that are synced only afterwards.
    MarkerBeforeSync,
    /// What is gone on with is as much as the part file is long, whatever the journal says.
    ResumeBySize,
    /// A batch of calls whose number came before is done again.
    CallTwice,
    /// Each FENCE is answered with another one, also when it is the answer.
    FenceForFence,
}

impl Bug {
    /// Those of the session, which the model checker and the simulation catch.
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

    /// Those of joining, revocation and protection, which the model of a hostile participant catches.
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

    /// Those of calls, which the model checker and the simulation catch.
    pub const OF_CALLS: [Bug; 1] = [Bug::CallTwice];

    /// Those that keep two ends talking for ever, which the model checker catches.
    pub const OF_PROGRESS: [Bug; 1] = [Bug::FenceForFence];

    /// Those of a commit, which the crash states catch.
    pub const OF_COMMIT: [Bug; 4] = [Bug::NameBeforeSync, Bug::NoDirectorySync, Bug::SyncAgain, Bug::ErrorIgnored];

    /// Those of markers and of going on behind a restart, which the crash states and the model of restarts catch.
    pub const OF_MARKERS: [Bug; 2] = [Bug::MarkerBeforeSync, Bug::ResumeBySize];
}

/// The switch. Without the feature it has no state and is never set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Bugs {
    #[cfg(feature = "seeded-bugs")]
    chosen: Option<Bug>,
}

impl Bugs {
    /// Sets the mistake to make.
    #[cfg(feature = "seeded-bugs")]
    pub const fn seeded(bug: Bug) -> Self {
        Self { chosen: Some(bug) }
    }

    /// Whether this mistake is to be made.
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
