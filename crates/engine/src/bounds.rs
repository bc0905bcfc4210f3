//! Bounds of the engine, each with its reason. Those of the protocol are in `proto::limits`.

use crate::blocking;
use crate::schedule::Limits;
use std::time::Duration;

/// Blocks that one pipeline holds in memory at a time on their way to storage. More gain nothing: the receiving core or
/// the disk is the limit, and 16 MiB stay near the cache.
pub const RECEIVE_BUFFERS: usize = 16;
/// Blocks that one pipeline holds on their way out where somebody needs their bytes (`integrity`, `private`, pipes).
pub const SEND_BUFFERS: usize = 16;
/// Blocks that may wait for their turn where the target takes bytes in order only.
pub const ORDERED_WINDOW_BLOCKS: u64 = 12;
/// Letters that may wait in a pump's mailbox. Writers and blocking calls are bounded far below; only an application that
/// floods a pump with commands ever waits.
pub const MAILBOX: usize = 1024;
/// Threads for storage calls that may block (open, stage, check, commit), for all pipelines of a process together: one user has three
/// of them on one export, and five exports can hang before none is left. With [`SLICED_THREADS`] and the handful that every server
/// has they stay below 32.
pub const STORAGE_THREADS: usize = 10;
/// Threads for work that is cut in slices (hashes, batches of calls). A few are at work, the others wait for storage.
pub const SLICED_THREADS: usize = 16;
/// A slice that takes so long waits for storage: ten times what it should take, so that a busy machine is not taken for a slow disk.
pub const SLICE_ACTIVE: Duration = Duration::from_millis(100);
/// Jobs of one user that may wait for a thread: some for every transfer and batch of many sessions, in one or two MiB.
pub const WAITING_PER_USER: usize = 4096;
/// A file of so many bytes gets its name on the pipeline's own thread where its file system lives in memory alone: the calls take less
/// than waking a thread for them.
pub const COMMIT_AT_ONCE_BYTES: u64 = 1 << 20;
/// A pipeline without an operation gives its thread back after this long, so that the next file of a tree finds it.
pub const IDLE_BEFORE_RETIRING: Duration = Duration::from_millis(200);
/// Time that the reason of a session's end gets to reach the peer: a moment in which a channel becomes free for it, and the
/// round trip in which the peer reads it and closes. As long as the peer itself waits for last words.
pub const LAST_WORDS: Duration = Duration::from_secs(2);
/// Bytes that are read and forgotten from a channel meanwhile: what a peer has under way on a long path.
pub const LAST_WORDS_BYTES: usize = 64 << 20;
/// Shortest time between two looks at stalled channels.
pub const TICK_MIN: Duration = Duration::from_millis(25);
/// Longest time between two looks at the clock while a session ends: its last words have a short deadline.
pub const TICK_CLOSING: Duration = Duration::from_millis(500);
/// Bytes that are taken at once from a channel that has no buffer of its own: a piece of a block.
pub const PIECE_BYTES: usize = 256 * 1024;
/// A marker is due when so many bytes were written since the last one, ...
pub const MARKER_BYTES: u64 = 256 << 20;
/// ... or so much time has passed: what a crash costs at most. More often would have the disk wait for its own queue.
pub const MARKER_PERIOD: Duration = Duration::from_secs(5);
/// Size of the pages that files are written in.
pub const PAGE_BYTES: usize = 4096;
/// From so many bytes on a thread hashes what the kernel sends; less is sent from buffers.
pub const HASH_BESIDE_BYTES: u64 = 8 << 20;
/// Transfers of one pipeline that are hashed beside it; those beyond are sent from buffers, which are hashed as they leave.
pub const HASHERS_MAX: usize = 2;

/// Calls that cannot be cut use a core for moments only: they count as waiting from their start.
pub fn storage_limits() -> Limits {
    let (running, active_for, waiting) = (STORAGE_THREADS, Duration::ZERO, WAITING_PER_USER);
    Limits { running, active: running, active_for, divided: true, waiting }
}

/// One user has as many at work as there are cores, two even where there is one, since a read of a cold file uses none; one more is for
/// the others. That is never more than one export may have.
pub fn sliced_limits() -> Limits {
    let (running, active_for, waiting) = (SLICED_THREADS, SLICE_ACTIVE, WAITING_PER_USER);
    let active = (blocking::cores().max(2) + 1).min(running / 2);
    Limits { running, active, active_for, divided: true, waiting }
}
