//! Every bound of the protocol in one place, and the reason for each. A length from the wire is
//! checked against these before it is used.

use crate::base::Duration;

/// First protocol version that this code speaks.
pub const VERSION_MIN: u8 = 1;
/// Last protocol version that this code speaks.
pub const VERSION_MAX: u8 = 1;

/// Largest control payload: a listing page or the open message fits, and a peer cannot make this
/// end buffer more.
pub const CONTROL_BYTES_MAX: usize = 64 * 1024;
/// Smallest block: below it system calls and heads cost more than the bytes (64 KiB blocks already
/// lose 12-25 %).
pub const BLOCK_BYTES_MIN: u32 = 64 * 1024;
/// Largest block: nothing was gained above 1 MiB, and a record of this size is still sent within
/// seconds on a slow link.
pub const BLOCK_BYTES_MAX: u32 = 4 * 1024 * 1024;
/// Default block size: received bytes are still in the core's cache when they are written (1.08 of
/// the rate of 1 MiB on ext4; 0.98 where nothing is written).
pub const BLOCK_BYTES_DEFAULT: u32 = 512 * 1024;
/// Default block size when several channels take turns and blocks are verified: the bytes that one
/// channel received must still be in the core's cache when its turn to be verified comes (1.08 to
/// 1.15 of the rate of 1 MiB at 8 channels).
pub const BLOCK_BYTES_SHARED: u32 = 256 * 1024;
/// Number of channels from which that applies.
pub const BLOCK_SHARED_CHANNELS: u16 = 4;
/// Memory reserved for the blocks of one session at levels where a record is verified before it is
/// written.
pub const SESSION_BUFFER_BYTES: u64 = 32 * 1024 * 1024;

/// Default limit on the channels of a session: the papers' experiments go to 1,000.
pub const CHANNELS_DEFAULT_MAX: u16 = 1024;
/// Largest limit on channels that a configuration can set.
pub const CHANNELS_HARD_MAX: u16 = 4096;
/// Channels of a pipeline that the peer may lose before they are up at this end: as many as a
/// session can be allowed. Each is remembered, and its FENCE is answered.
pub const FENCES_UNKNOWN_MAX: u16 = CHANNELS_HARD_MAX;
/// How often an outcome is sent again because a channel was lost that may have carried it, or the
/// EOFR that answered it. After more losses, the retransmission timer sends it again.
pub const OUTCOME_AGAIN_MAX: u8 = 8;
/// Pipelines of a session: more threads than this never pay off for one session.
pub const PIPELINES_MAX: u8 = 16;
/// Operations alive at a time in one session.
pub const OPERATIONS_MAX: usize = 128;
/// Largest socket window that may be requested, in bytes (the kernel's own limit is usually lower).
pub const WINDOW_BYTES_MAX: u64 = 1 << 30;

/// Ranges of an earlier attempt that are sent, kept in a journal, and resumed: with the usual flow window
/// of 256 MiB a file has far fewer gaps, and what does not fit is sent again.
pub const LEDGER_ENTRIES_MAX: usize = 1024;
/// Subtrees that FINISH lists: they fit into one message, and each covers a small share of a
/// transfer.
pub const SUBTREES_MAX: usize = 1200;
/// How often ranges of a transfer that arrived damaged are sent again before the transfer fails.
pub const AGAIN_MAX: u16 = 3;
/// Ranges of an earlier attempt that a transfer with a hash resumes: each leaves subtrees at its
/// ends that FINISH lists.
pub const KEPT_HASHED_MAX: usize = 16;
/// Ranges in one acknowledgement; what does not fit is sent with the next one.
pub const ACK_RANGES_MAX: usize = 256;
/// Smallest flow window that a receiver grants per operation, in bytes (see `plan::flow_window`).
pub const CREDIT_BYTES_MIN: u64 = 16 * 1024 * 1024;
/// Bytes that may be sent on the opening channel before the reply; the receiver states its own
/// limit.
pub const INITIAL_CREDIT_MAX: u64 = 64 * 1024 * 1024;

/// Longest batch of calls, and longest reply: some sixty files of 4 KiB, or a page of some thousand
/// entries. A record of it occupies a slow link as long as a small block does, and a session cannot
/// make this end hold more than [`CALL_ROOM_MAX`].
pub const CALL_BYTES_MAX: usize = 256 * 1024;
/// Calls in a batch: with more, a failure late in it would waste too much.
pub const CALLS_MAX: usize = 256;
/// Limit on all outstanding replies of a session, in bytes.
pub const CALL_ROOM_MAX: usize = 8 * 1024 * 1024;
/// The same where the client asked for [`features::WIDE_CALLS`](crate::features::WIDE_CALLS): as much as files that are read
/// and written in their order need over a long way.
pub const CALL_ROOM_WIDE: usize = 16 * 1024 * 1024;
/// Handles in one RECALL: more follow in the next one.
pub const RECALLS_MAX: usize = 256;
/// Changes in one NOTICE: with names of 255 bytes half of the longest message.
pub const NOTICES_MAX: usize = 128;

/// Ranges of one read of an open file: more fit better into several calls, whose results arrive
/// sooner.
pub const READ_RANGES_MAX: usize = 64;
/// Longest path of a call, base and separators included: 1,000 directories of usual names. The
/// kernel's limit applies to a single system call only.
pub const CALL_PATH_BYTES_MAX: usize = 32 * 1024;
/// Longest cursor of a directory page, in the server's encoding.
pub const CURSOR_BYTES_MAX: usize = 64;
/// Longest target of a symbolic link: Linux's PATH_MAX without its NUL.
pub const LINK_BYTES_MAX: usize = 4095;
/// Longest path of a staged tree; its result fits in every reply.
pub const STAGE_PATH_BYTES_MAX: usize = 64;
/// Longest name of an extended attribute (Linux's XATTR_NAME_MAX).
pub const XATTR_NAME_BYTES_MAX: usize = 255;
/// Longest value of an extended attribute (Linux's XATTR_SIZE_MAX).
pub const XATTR_BYTES_MAX: usize = 64 * 1024;

/// Longest opaque login message.
pub const LOGIN_BYTES_MAX: usize = 16 * 1024;
/// Longest name of a user.
pub const USER_BYTES_MAX: usize = 128;
/// Open files of which `opens` tells.
pub const OPENERS_MAX: usize = 64;
/// Most cipher suites in an open message.
pub const SUITES_MAX: usize = 16;
/// Most extended options in an open message.
pub const OPTIONS_MAX: usize = 32;
/// Longest value of an extended option.
pub const OPTION_BYTES_MAX: usize = 1024;
/// Longest version of a file, compared for equality only.
pub const VERSION_BYTES_MAX: usize = 64;
/// Longest label that a client gives a session or a transfer (its own file name, for the other
/// side's log).
pub const LABEL_BYTES_MAX: usize = 4096;

/// A channel with something outstanding is lost when nothing moves for this long, unless the
/// session negotiated less.
pub const STALL_DEFAULT: Duration = Duration::from_secs(30);
/// Shortest stall deadline that may be requested: below it a scheduling delay looks like a loss.
pub const STALL_MIN: Duration = Duration::from_millis(200);
/// A channel that was silent for this long while another one received carries no message about an
/// operation: it may be stalled, and its messages would wait for its deadline.
pub const QUIET: Duration = Duration::from_millis(500);
/// After the peer sent its last message on one channel, it has this long for the others.
pub const LAST_WORDS: Duration = Duration::from_secs(2);
/// Longest stall deadline.
pub const STALL_MAX: Duration = Duration::from_secs(300);
/// An unacknowledged block is retransmitted on an idle channel after this long, or after three
/// smoothed acknowledgement times.
pub const REPEAT_AFTER_MIN: Duration = Duration::from_millis(100);
/// The same while no acknowledgement has provided an estimate for the path.
pub const REPEAT_AFTER_UNKNOWN: Duration = Duration::from_secs(1);
/// Longest delay of an acknowledgement that waits to be combined with others.
pub const ACK_DELAY: Duration = Duration::from_millis(20);
/// A grant that was not used within this time is void: half-open sessions end.
pub const GRANT_LIFE: Duration = Duration::from_secs(15);
