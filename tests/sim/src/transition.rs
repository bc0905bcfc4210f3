//! What can happen in a run: every kind of fault with its probability, the moments at which one can
//! strike, and what an operation and a connection can be like. `plan.rs` draws from it.

use crate::network::Side;
use crate::random::Random;
use xdfs_proto::base::{ChannelId, Duration, Instant, Level};

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident, $text:literal, $per_mille:literal;)*) => {
        /// Every kind of fault. One counts where it struck, not where it was planned.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Fault { $($(#[$doc])* $name,)* }

        impl Fault {
            /// All kinds.
            pub const ALL: &'static [Fault] = &[$(Self::$name,)*];

            /// The words of the table.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// In how many of a thousand sessions it is planned where nothing else is said.
            pub const fn per_mille(self) -> u32 {
                match self { $(Self::$name => $per_mille,)* }
            }
        }
    };
}

faults! {
    /// Reads return less than there is.
    ShortReads, "short reads", 200;
    /// Writes take less than there is room for.
    ShortWrites, "short writes", 200;
    /// One channel is far slower or farther than the others.
    SlowChannel, "one slow or far channel", 150;
    /// The stream ends in the middle, the other direction soon after.
    CutFinish, "cut by FIN", 130;
    /// The connection is reset.
    CutReset, "cut by RST", 130;
    /// One direction ends, the other goes on.
    CutHalf, "cut of one direction", 130;
    /// A direction stops delivering without an end.
    Stall, "stall for ever", 140;
    /// A direction pauses, shorter than the deadline.
    Pause, "pause", 300;
    /// A bit changes under way.
    BitFlip, "bit flip", 260;
    /// All channels break at once.
    AllCut, "all channels cut", 100;
    /// Most channels break one after the other.
    ManyCut, "many channels cut", 90;
    /// A channel joins while the transfer runs.
    LateJoin, "late joining channel", 350;
    /// A lost channel is replaced.
    Replaced, "replaced channel", 750;
    /// A channel breaks before its JOIN is answered.
    JoinCut, "cut in JOIN", 200;
    /// Storage answers late.
    SlowDisk, "slow disk", 250;
    /// A write fails.
    WriteError, "write error", 90;
    /// The disk is full after some bytes.
    NoSpace, "disk full", 90;
    /// The target cannot be staged.
    StageRefused, "stage refused", 120;
    /// The target cannot get its name.
    CommitRefused, "commit refused", 110;
    /// The source is not there.
    SourceMissing, "source missing", 140;
    /// The source changes while it is read.
    SourceChanged, "source changed", 150;
    /// The source shrinks while it is read.
    SourceShrank, "source shrank", 150;
    /// A read of the source fails.
    SourceUnreadable, "source unreadable", 110;
    /// The client gives an operation up.
    CancelClient, "cancelled by the client", 130;
    /// The server gives an operation up.
    CancelServer, "cancelled by the server", 130;
    /// The client closes the session while operations run.
    CloseEarly, "closed with operations running", 150;
    /// The server goes down in order.
    Drain, "drained", 100;
    /// The server is killed, and comes back.
    ServerRestart, "server restarted", 120;
    /// The client is killed, and comes back.
    ClientRestart, "client restarted", 120;
    /// One of these was a loss of power: what was not synced is gone. Not planned by itself.
    PowerLost, "power lost", 0;
}

impl Fault {
    /// Whether it is a way in which something is all the time: then it counts once in a session, however often it shows.
    pub const fn lasts(self) -> bool {
        matches!(self, Self::ShortReads | Self::ShortWrites | Self::SlowChannel | Self::SlowDisk)
    }

    /// Whether it is a fault at all, and not how others are dealt with.
    pub const fn hurts(self) -> bool {
        !matches!(self, Self::LateJoin | Self::Replaced)
    }

    /// Whether it may end a channel.
    pub const fn cuts(self) -> bool {
        matches!(self, Self::CutFinish | Self::CutReset | Self::CutHalf | Self::Stall)
    }
}

/// How likely each kind is.
#[derive(Clone, Debug)]
pub struct Options {
    per_mille: Vec<u32>,
    /// What a command line says for these.
    pub name: &'static str,
}

impl Default for Options {
    fn default() -> Self {
        Self { per_mille: Fault::ALL.iter().map(|fault| fault.per_mille()).collect(), name: "" }
    }
}

impl Options {
    /// Nothing goes wrong.
    pub fn calm() -> Self {
        Self { per_mille: Fault::ALL.iter().map(|_| 0).collect(), name: "--calm " }
    }

    /// The wire is at its worst: several faults in almost every session, so that they meet each other.
    pub fn stormy() -> Self {
        let wire = [
            Fault::CutFinish,
            Fault::CutReset,
            Fault::CutHalf,
            Fault::Stall,
            Fault::BitFlip,
            Fault::ManyCut,
            Fault::JoinCut,
            Fault::SlowChannel,
        ];
        let usual = Self { name: "--stormy ", ..Self::default() };
        wire.into_iter().fold(usual, |options, fault| options.with(fault, 500)).with(Fault::Replaced, 900)
    }

    /// The same, with another probability of one kind.
    pub fn with(mut self, fault: Fault, per_mille: u32) -> Self {
        self.per_mille[fault as usize] = per_mille;
        self
    }

    pub(crate) fn draw(&self, fault: Fault, random: &mut Random) -> bool {
        random.chance(self.per_mille[fault as usize])
    }
}

/// How a pipe breaks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "named like the kinds of fault")]
pub enum PipeFault {
    Finish,
    Reset,
    Half,
    Stall,
    StallFor(Duration),
    Flip,
}

/// One connection.
#[derive(Clone, Debug)]
pub struct LinkPlan {
    /// When the client has connected.
    pub at: Instant,
    /// Bytes that are under way or unread at most, per direction.
    pub capacity: usize,
    /// One way.
    pub delay: Duration,
    /// Reciprocal of the bandwidth.
    pub nanos_per_kib: u64,
    /// Reads return less than there is.
    pub short_reads: bool,
    /// Writes take less than there is room for.
    pub short_writes: bool,
    /// Writing side, bytes until it strikes, what.
    pub fault: Option<(Side, u64, PipeFault)>,
}

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Task {
    /// Client to server, length known.
    Upload,
    /// Client to server from a source that is read in order and whose end is not known.
    UploadStream,
    /// Server to client.
    Download,
    /// The hash of what the server has, and no byte of it.
    Sum,
}

/// One operation.
#[derive(Clone, Debug)]
pub struct OperationPlan {
    /// When the client opens it.
    pub at: Instant,
    /// Pipeline that opens it.
    pub pipeline: u8,
    /// What it does.
    pub task: Task,
    /// Bytes of the source.
    pub size: u64,
    /// Download: start of the range.
    pub offset: u64,
    /// Download: length of the range, none for the rest.
    pub length: Option<u64>,
    /// Protection of the blocks.
    pub level: Level,
    /// Download: blocks before the first CREDIT.
    pub credit_blocks: u64,
    /// The target takes bytes in order only and holds this many blocks.
    pub in_order: Option<u64>,
    /// Storage faults: kind and byte, where it has one.
    pub disk: Option<(Fault, u64)>,
    /// It came to its end before a restart.
    pub done: bool,
}

/// A moment of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Milestone {
    /// The receiving end prepares its target.
    Stage,
    /// The sender looks at its source once more.
    Check,
    /// FINISH is sent.
    Finish,
    /// The receiver commits.
    Commit,
}

/// When something strikes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum When {
    /// After so many blocks of the session arrived.
    Blocks(u64),
    /// At a moment of an operation.
    Milestone(usize, Milestone),
}

/// What strikes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "named like the kinds of fault")]
pub enum Action {
    Cancel(Side, usize),
    ChangeSource(usize),
    ShrinkSource(usize),
    CutAll,
    Cut(ChannelId),
    Close,
    Drain,
    Restart(Side),
}

/// A fault that waits for its moment.
#[derive(Clone, Debug)]
pub struct ActionPlan {
    /// The moment.
    pub when: When,
    /// Time from the moment to the strike.
    pub delay: Duration,
    /// What happens.
    pub action: Action,
}

impl OperationPlan {
    /// Whether another attempt may go on with what one left.
    pub fn resumes(&self) -> bool {
        matches!(self.task, Task::Upload | Task::Download) && self.in_order.is_none()
    }

    /// Whether its content is hashed: three in four of those whose blocks could come again.
    pub fn is_hashed(&self, index: usize) -> bool {
        let again = matches!(self.task, Task::Upload | Task::Download) && self.in_order.is_none();
        again && !(index as u64 + self.size).is_multiple_of(4)
    }
}
