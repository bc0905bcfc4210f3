//! The two ends of a tree copy, as its scheduler sees them: what it asks of the store here and of
//! the session with the server.
//!
//! Nothing else in `tree` performs I/O. [`Local`] answers at once. [`Remote`] takes requests under
//! numbers and delivers their answers later: each once, in any order, or never if the session is
//! lost.

use super::events::Event;
use crate::options::{GetOptions, PutOptions};
use std::time::Duration;
use xdfs_io::store::tree::{Node, Tree};
use xdfs_io::store::{Existing, Kept, LocalStore, SmallFile, SmallReader, Source, Stage, StageRequest, Store};
use xdfs_proto::base::{Error, RelPath, Safety, Timestamp, TransferId};

/// The store of this machine.
pub(super) trait Local: Tree + std::fmt::Debug {
    /// Opens a regular file for reading.
    fn open(&self, path: &RelPath) -> Result<Source, Error>;

    /// Reads a whole regular file that was `seen`, of at most its size then, and returns the
    /// modification time of what was read. A file that has grown is refused with
    /// [`TooLarge`](xdfs_proto::base::ErrorKind::TooLarge), one that changes meanwhile with
    /// [`SourceChanged`](xdfs_proto::base::ErrorKind::SourceChanged).
    fn read_small(&self, path: &RelPath, seen: &Node, into: &mut SmallReader) -> Result<Timestamp, Error>;

    /// Writes whole files, and returns the result of each in order.
    fn write_small(&self, files: &[SmallFile<'_>], durable: bool) -> Vec<Result<Safety, Error>>;

    /// Prepares a new file without touching its target.
    fn stage(&self, request: &StageRequest) -> Result<Stage, Error>;

    /// What an earlier attempt of this transfer left.
    fn kept(&self, target: &RelPath, transfer: TransferId) -> Option<Kept>;

    /// Lets this process change the content of a directory of its own whose mode forbids that.
    /// Whether it had to.
    fn unlock(&self, path: &RelPath) -> bool;

    /// Whether a directory lists exactly this name.
    fn has_name(&self, path: &RelPath) -> bool;

    /// Whether new names may be made in a directory.
    fn may_hold_new(&self, path: &RelPath) -> bool;

    /// Removes what earlier attempts left in a directory and nothing will resume.
    fn remove_useless(&self, path: &RelPath);
}

/// Why a transfer was not begun.
#[derive(Clone, PartialEq, Debug)]
pub enum NotBegun {
    /// The local file cannot be read.
    Unreadable(Error),
    /// The session is lost.
    Lost(Error),
}

/// What is done here for a file that is received as a transfer.
pub struct Receive {
    /// Its name below the top of the local tree.
    pub target: RelPath,
    /// What becomes of a file of that name.
    pub existing: Existing,
    /// Runs of zeros take no room.
    pub holes: bool,
    /// Removes what else has the target's name, once the server has opened the file.
    pub clear: Box<dyn FnOnce() -> Result<(), Error> + Send>,
    /// How it is received.
    pub options: GetOptions,
}

impl std::fmt::Debug for Receive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receive").field("target", &self.target).finish_non_exhaustive()
    }
}

/// The session with the server, the threads that write files here, and the queue of all answers.
pub trait Remote {
    /// Longest payload of a batch, and of its reply.
    fn batch_bytes_max(&self) -> usize;

    /// Time since some point in the past.
    fn now(&self) -> Duration;

    /// Empty memory for a batch, which may have been that of one before.
    fn memory(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Sends a batch with a reply of at most `room` bytes.
    fn call(&mut self, number: u64, payload: Vec<u8>, room: usize) -> Result<(), Error>;

    /// Begins to send the local file at `path` to the server's path `to`.
    fn send(&mut self, number: u64, path: &RelPath, to: &[u8], options: &PutOptions) -> Result<(), NotBegun>;

    /// Begins to receive the server's file `from`.
    fn receive(&mut self, number: u64, from: &[u8], receive: Receive) -> Result<(), Error>;

    /// Runs `write`, which writes small files, beside everything else.
    fn write(&mut self, number: u64, write: WriteFiles);

    /// Cancels all transfers, and the calls of these batches that have not begun; each still answers.
    fn cancel(&mut self, batches: &[u64]);

    /// Bytes that the transfers in progress have moved.
    fn moving(&self) -> u64;

    /// An answer that has already arrived.
    fn ready(&mut self) -> Option<Event>;

    /// The next answer; none after this time, or when it is time to check whether to continue.
    fn next_within(&mut self, most: Duration) -> Option<Event>;
}

/// Writes small files; one result for each.
pub type WriteFiles = Box<dyn FnOnce() -> Vec<Result<Safety, Error>> + Send>;

impl Local for LocalStore {
    fn open(&self, path: &RelPath) -> Result<Source, Error> {
        Store::open(self, path)
    }

    fn read_small(&self, path: &RelPath, seen: &Node, into: &mut SmallReader) -> Result<Timestamp, Error> {
        self.get_small(path, Some(seen), seen.size, into).map(|read| read.modified)
    }

    fn write_small(&self, files: &[SmallFile<'_>], durable: bool) -> Vec<Result<Safety, Error>> {
        self.put_small(files, durable).into_iter().map(|placed| placed.map(|placed| placed.safety)).collect()
    }

    fn stage(&self, request: &StageRequest) -> Result<Stage, Error> {
        Store::stage(self, request)
    }

    fn kept(&self, target: &RelPath, transfer: TransferId) -> Option<Kept> {
        Self::kept(self, target, transfer, b"")
    }

    fn unlock(&self, path: &RelPath) -> bool {
        Self::unlock(self, path)
    }

    fn has_name(&self, path: &RelPath) -> bool {
        Self::has_name(self, path)
    }

    fn may_hold_new(&self, path: &RelPath) -> bool {
        Self::may_hold_new(self, path)
    }

    fn remove_useless(&self, path: &RelPath) {
        Self::remove_useless(self, path);
    }
}
