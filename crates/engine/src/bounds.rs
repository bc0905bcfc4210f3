//! Bounds of the engine and the reason for each. The protocol's bounds are in `proto::limits`.

use crate::schedule::Limits;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

/// Blocks of usual size that one pipeline holds in memory at a time on their way to storage, and as
/// many on their way out where their bytes are needed (`integrity`, `private`, pipes). More do not
/// help: the receiving core or the disk is the limit.
pub const BUFFERS_MAX: usize = 16;
/// Fewer would let a channel wait for the one before it.
pub const BUFFERS_MIN: usize = 4;
/// Memory of these blocks in each direction, where they are larger than usual: a peer that asks for
/// the largest block gets fewer of them.
pub const BUFFER_BYTES: usize = 16 << 20;
/// Share of the buffers that may wait for their turn where the target takes bytes only in order.
const ORDERED_QUARTERS: usize = 3;
/// Messages that may wait in a pump's mailbox. Writers and blocking calls are bounded far below;
/// only an application that floods a pump with commands ever waits.
pub const MAILBOX: usize = 1024;
/// Threads for storage calls that may block (open, stage, check, commit), for all pipelines of a
/// process together: one user gets three of them on one export. Three exports can hang (four under
/// a single user) and leave one to the others; the next one takes it. Together with
/// [`SLICED_THREADS`] and the few that every server has, they stay below 32.
pub const STORAGE_THREADS: usize = 10;
/// Threads for work that is cut into slices (hashes, batches of calls). A few are running, the
/// others wait for storage.
pub const SLICED_THREADS: usize = 16;
/// A slice that takes this long is waiting for storage: ten times the nominal length, so that a
/// busy machine is not mistaken for a slow disk.
pub const SLICE_ACTIVE: Duration = Duration::from_millis(100);
/// Jobs of one user that may wait for a thread: some for every transfer and batch of many sessions,
/// in one or two MiB.
pub const WAITING_PER_USER: usize = 4096;
/// A file of at most this size is committed on the pipeline's own thread where its file system
/// lives only in memory: the calls take less time than waking a thread for them.
pub const COMMIT_AT_ONCE_BYTES: u64 = 1 << 20;
/// A pipeline without an operation keeps its thread for this long, so that the next file of a tree
/// finds it.
pub const IDLE_BEFORE_RETIRING: Duration = Duration::from_millis(200);
/// Time for the reason of a session's end to reach the peer: a moment in which a channel becomes
/// free for it, and the round trip in which the peer reads it and closes. It is as long as the peer
/// itself waits for the close reason.
pub const LAST_WORDS: Duration = Duration::from_secs(2);
/// Bytes that are read from a channel and discarded meanwhile: what a peer has in flight on a long
/// path.
pub const LAST_WORDS_BYTES: usize = 64 << 20;
/// A control payload up to this length is read at once: most are far shorter, and those of a
/// thousand channels take 4 MiB.
pub const SHORT_CONTROL_BYTES: usize = 4096;
/// Memory of the longer ones that are arriving on the channels of a pipeline: further ones wait in
/// the kernel. Sixty-four of the longest, far more than ever arrive at a time.
pub const LONG_CONTROLS_BYTES: usize = 4 << 20;
/// Shortest interval between two checks for stalled channels.
pub const TICK_MIN: Duration = Duration::from_millis(25);
/// Longest interval between two checks of the clock while a session ends: its close reason has a
/// short deadline.
pub const TICK_CLOSING: Duration = Duration::from_millis(500);
/// Bytes that are taken at once from a channel that has no buffer of its own: a piece of a block.
pub const PIECE_BYTES: usize = 256 * 1024;
/// A checkpoint is due when this many bytes were written since the last one, ...
pub const MARKER_BYTES: u64 = 256 << 20;
/// ... or this much time has passed: the most that a crash costs. A shorter period would make the
/// disk wait for its own queue.
pub const MARKER_PERIOD: Duration = Duration::from_secs(5);
/// Size of the pages that files are written in.
pub const PAGE_BYTES: usize = 4096;
/// From this size on a thread hashes what the kernel sends; smaller files are sent from buffers.
pub const HASH_BESIDE_BYTES: u64 = 8 << 20;
/// Transfers of one pipeline that are hashed in parallel; further ones are sent from buffers, which
/// are hashed as they leave.
pub const HASHERS_MAX: usize = 2;

/// Buffers of a pipeline in each direction for blocks of this size.
pub const fn buffers(block: u32) -> usize {
    let fitting = BUFFER_BYTES / (if block == 0 { 1 } else { block as usize });
    if fitting < BUFFERS_MIN {
        BUFFERS_MIN
    } else if fitting > BUFFERS_MAX {
        BUFFERS_MAX
    } else {
        fitting
    }
}

/// Bytes that may wait for their turn where the target takes them only in order.
pub const fn ordered_window(block: u32) -> u64 {
    (buffers(block) / 4 * ORDERED_QUARTERS) as u64 * block as u64
}

/// Calls that cannot be sliced use a core only for moments: they count as waiting from their start.
pub fn storage_limits() -> Limits {
    let (running, active_for, waiting) = (STORAGE_THREADS, Duration::ZERO, WAITING_PER_USER);
    Limits { running, active: running, active_for, divided: true, waiting }
}

/// One user has as many running as there are cores, but two even on a single core, since a read of
/// a cold file uses none; one more is for the others. That is never more than one export may have.
pub fn sliced_limits() -> Limits {
    let (running, active_for, waiting) = (SLICED_THREADS, SLICE_ACTIVE, WAITING_PER_USER);
    let active = (cores().max(2) + 1).min(running / 2);
    Limits { running, active, active_for, divided: true, waiting }
}

/// Number of cores available to this process.
pub fn cores() -> usize {
    // Read once: the kernel reports it in several files.
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

#[cfg(test)]
mod tests {
    use super::*;
    use xdfs_proto::limits;

    #[test]
    fn buffers_of_every_block_size_fit_and_leave_some_beside_those_that_wait_for_their_turn() {
        let mut block = limits::BLOCK_BYTES_MIN;
        while block <= limits::BLOCK_BYTES_MAX {
            let count = buffers(block);
            assert!((BUFFERS_MIN..=BUFFERS_MAX).contains(&count), "{count} of {block} bytes");
            assert!(count * block as usize <= BUFFER_BYTES, "{count} of {block} bytes");
            let waiting = ordered_window(block) / u64::from(block);
            assert!(waiting > 0 && (waiting as usize) < count, "{waiting} of {count} may wait");
            block += 4096;
        }
        assert_eq!(buffers(limits::BLOCK_BYTES_DEFAULT), BUFFERS_MAX);
    }

    /// What docs/security.md says that a pipeline takes if its peer fills every bound at once.
    #[test]
    fn all_that_a_pipeline_may_hold_at_once_is_the_documented_sum() {
        const CHANNELS: usize = 1000;
        const OPERATION_BYTES: usize = 4 << 10;
        let parts = [
            2 * BUFFER_BYTES,
            LONG_CONTROLS_BYTES,
            CHANNELS * SHORT_CONTROL_BYTES,
            // Batches, their replies on the way, and replies that are not acknowledged.
            3 * limits::CALL_ROOM_WIDE,
            (limits::OPERATIONS_MAX + limits::LEDGER_ENTRIES_MAX) * OPERATION_BYTES,
        ];
        let sum: usize = parts.iter().sum();
        assert!((88 << 20..=96 << 20).contains(&sum), "{sum}");
    }
}
