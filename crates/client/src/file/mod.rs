//! Remote files (xDFSM, DFSM-01 to DFSM-12): a file on a server that is read, written and positioned
//! as one of this machine.
//!
//! A [`File`] reads ahead and writes behind, and survives the loss of its session and a restart of
//! the server: it is opened again, and what was written and not synced is written again
//! ([`File::sync_all`]). Where that would be wrong, because somebody else removed, replaced or changed
//! the file meanwhile, its calls fail.
//!
//! # Modes
//!
//! [`OpenOptions`] are those of the standard library. The three words of the papers' `FileStream`
//! mean:
//!
//! | `FileMode` | the file exists | it is missing |
//! |---|---|---|
//! | `CreateNew` | `AlreadyExists` | created |
//! | `Create` | cut to length 0 | created |
//! | `Open` | opened | `NotFound` |
//! | `OpenOrCreate` | opened | created |
//! | `Truncate` | cut to length 0 | `NotFound` |
//! | `Append` | opened, and everything is written at its end | created |
//!
//! | `FileShare` | others may meanwhile | [`deny`](OpenOptions::deny) (read, write) |
//! |---|---|---|
//! | `None` | nothing | `true, true` |
//! | `Read` | read it | `false, true` |
//! | `Write` | write it | `true, false` |
//! | `ReadWrite` | both | `false, false` |
//!
//! `FileAccess` is what the handle is for. `CreateNew`, `Create`, `OpenOrCreate` and `Truncate` need
//! `Write` or `ReadWrite`; with `Read` the open is malformed. What a handle denies is denied to other
//! clients of the server, not to programs on its machine. An open that the handles of others exclude is
//! `Locked`.
//!
//! # The papers' example
//!
//! A program copies a remote file with a buffer of 256 KiB (the papers' Fig. 2):
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let scratch = tempfile::tempdir()?;
//! # let remote_folder = scratch.path().join("server");
//! # std::fs::create_dir(&remote_folder)?;
//! # std::fs::write(remote_folder.join("100meg.dat"), vec![7; 1_000_000])?;
//! # let local_path = scratch.path().join("100meg.dat");
//! # let (address, handle, host_key) = {
#![doc = include_str!("../example_directory_server.txt")]
//! # };
//! use std::io::{Read, Write};
//! use std::sync::Arc;
//! use xdfs_client::file::{File, FileAccess, FileMode, FileShare, OpenOptions, Remote};
//! use xdfs_client::{ConnectOptions, Pinned};
//!
//! let host_check = Arc::new(Pinned(host_key));
//! let server = Remote::new(ConnectOptions { host_check, ..ConnectOptions::to(address) });
//! let options = OpenOptions::stream(FileMode::Open, FileAccess::Read, FileShare::None);
//! let mut remote = File::open(&server, "export/100meg.dat", &options)?;
//! let mut local = std::fs::File::create(&local_path)?;
//! let mut buffer = vec![0; 256 * 1024];
//! loop {
//!     let read = remote.read(&mut buffer)?;
//!     if read == 0 {
//!         break;
//!     }
//!     local.write_all(&buffer[..read])?;
//! }
//! remote.close()?;
//! # assert_eq!(std::fs::read(&local_path)?, vec![7; 1_000_000]);
//! # handle.stop();
//! # Ok(())
//! # }
//! ```

mod ahead;
mod asynchronous;
mod batches;
mod changes;
mod core;
mod flight;
mod leases;
mod once;
mod options;
mod pending;
mod pipe;
mod positioned;
mod remote;
mod stream;
mod unsynced;

pub use asynchronous::{AsyncFile, AsyncRemote, Outcome};
pub use changes::Changes;
pub use core::Lease;
pub use flight::Flight;
pub use once::{Changed, Opened};
pub use options::{FileAccess, FileMode, FileShare, OpenOptions};
pub use pipe::{Pipe, PipeSide};
pub use remote::Remote;
pub use xdfs_proto::base::Extent;
pub use xdfs_proto::lease::LeaseKind;
pub use xdfs_proto::range_locks::RangeLock;
pub use xdfs_proto::wire::file::{FileIdentity, range_to_the_end};

use crate::calls::Facts;
use core::{Core, Shared};
use flight::Flown;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use unsynced::Change;
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::wire::codec::INTEGER_MAX;
use xdfs_proto::wire::file::{FileAnswer, FileCall};
use xdfs_proto::wire::path::Wanted;

/// A remote file that is open. Dropping it waits for the writes that are on their way, as
/// [`File::close`] does, but only that one reports their errors.
pub struct File {
    core: Arc<Core>,
    /// Where the next read or write of the stream begins.
    position: u64,
    closed: bool,
}

/// No file reaches further, and no offset can be said.
fn must_be_below_limit(offset: u64, length: usize) -> Result<(), Error> {
    let last = offset.checked_add((length as u64).saturating_sub(1)).filter(|last| *last <= INTEGER_MAX);
    last.map(drop).ok_or_else(|| Error::new(ErrorKind::TooLarge, "the range reaches behind 2^62 - 1"))
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "File({:?})", self.core.options())
    }
}

impl File {
    /// Opens `path` (`EXPORT/path`, nothing encoded).
    pub fn open(remote: &Arc<Remote>, path: impl AsRef<[u8]>, options: &OpenOptions) -> Result<Self, Error> {
        Ok(Self::of(Core::open(remote, path.as_ref(), options, &Shared::default(), &mut Flown::default())?))
    }

    /// The same for one of several open files of the same file ([`File::sharing`]); the first bytes, at most `first`, are
    /// read in the same round trip, for [`File::read_ahead_at`].
    pub fn open_sharing(
        remote: &Arc<Remote>,
        path: impl AsRef<[u8]>,
        options: &OpenOptions,
        changes: &Changes,
        first: u32,
    ) -> Result<Self, Error> {
        let shared = Shared { changes: changes.clone(), first };
        Ok(Self::of(Core::open(remote, path.as_ref(), options, &shared, &mut Flown::default())?))
    }

    fn of(core: Core) -> Self {
        Self { core: Arc::new(core), position: 0, closed: false }
    }

    /// Opens files to read before a program asks for them: all in one round trip, each with a read lease and its first bytes, at
    /// most `first`. None of each that cannot be opened so. [`File::take_early`] tells whether it may be used.
    pub fn open_early(remote: &Arc<Remote>, paths: &[Vec<u8>], first: u32) -> Vec<Option<Self>> {
        let opened = Core::open_early(remote, paths, first).into_iter();
        opened.map(|core| Some(Self { core: core?, position: 0, closed: false })).collect()
    }

    /// A program opens a file that was opened early: true if it is now what was read then. Its changes are counted with those of
    /// other open files of the same file from now on ([`File::sharing`]).
    #[must_use]
    pub fn take_early(&self, changes: &Changes) -> bool {
        self.core.take_early(changes)
    }

    /// Closes files that nobody wrote to, all in one round trip.
    pub fn close_together(mut files: Vec<Self>) {
        let closing: Vec<_> = files.iter().map(|file| file.core.start_close()).collect();
        for (file, closing) in files.iter_mut().zip(closing) {
            file.closed = true;
            // With its session it is closed anyway.
            let _ = closing.map(|closing| closing.wait());
        }
    }

    /// Fills `buf` from `offset`; fewer bytes are read only at the end of the file.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        must_be_below_limit(offset, 0)?;
        self.core.read_at(buf, offset)
    }

    /// The same; of a file that is read in order more is requested than that, and later calls find it
    /// here. What others change meanwhile is not noticed before this client changes or locks the file, or
    /// opens it again.
    pub fn read_ahead_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        must_be_below_limit(offset, 0)?;
        self.core.read_ahead_at(buf, offset, false)
    }

    /// Counts its changes with those of other open files of the same file, so that none of them uses what
    /// was read before another one changed it.
    #[must_use]
    pub fn sharing(self, changes: &Changes) -> Self {
        self.core.share(changes);
        self
    }

    /// Reads ranges, each an offset and a length, with few round trips; a range that reaches behind
    /// the end of the file is shorter.
    pub fn read_ranges(&self, ranges: &[(u64, usize)]) -> Result<Vec<Vec<u8>>, Error> {
        ranges.iter().try_for_each(|(offset, _)| must_be_below_limit(*offset, 0))?;
        self.core.read_ranges(ranges)
    }

    /// Writes all of `data` at `offset`, and waits until everybody sees it.
    pub fn write_at(&self, data: &[u8], offset: u64) -> Result<(), Error> {
        must_be_below_limit(offset, data.len())?;
        self.write_ranges(&[(offset, data)])
    }

    /// Writes ranges, each an offset and its bytes, in their order, and waits until everybody sees them: many are on their
    /// way at a time, as for one long range.
    pub fn write_ranges(&self, ranges: &[(u64, &[u8])]) -> Result<(), Error> {
        ranges.iter().try_for_each(|(offset, data)| must_be_below_limit(*offset, data.len()))?;
        // Read once: another session may have another one.
        let chunk = self.core.chunk();
        self.core.write_all(ranges.iter().flat_map(|&(offset, data)| {
            (0..).zip(data.chunks(chunk)).map(move |(at, part)| (offset + at * chunk as u64, part))
        }))
    }

    /// Writes all of `data` at `offset` without waiting for anything but earlier writes, if there are many.
    /// Small writes that follow each other are gathered and sent as one: at the latest when
    /// [`File::push`] is called, or anything that is not a write. An error is reported by a later write,
    /// lock, sync, [`File::settle`] or [`File::close`].
    pub fn write_behind_at(&self, data: &[u8], offset: u64) -> Result<(), Error> {
        must_be_below_limit(offset, data.len())?;
        self.core.gather(offset, data)
    }

    /// Sends what was gathered, if it can be sent without waiting. Whether every write was answered.
    #[must_use]
    pub fn push(&self) -> bool {
        self.core.push()
    }

    /// Why something is not written that a program takes for written, if anything is: its error was told by the first call
    /// that could, and each sync and close fails by it.
    pub fn lost(&self) -> Option<Error> {
        self.core.lost().cloned()
    }

    /// Another open file of the same file lost something: each sync and close of this one fails, too.
    pub fn inherit_loss(&self, error: &Error) {
        self.core.lose(error);
    }

    /// Whether every write is answered, well or not. Sends and waits for nothing: while another thread writes it is not.
    pub fn is_settled(&self) -> bool {
        self.core.is_settled()
    }

    /// Waits for the answers to all writes; an error may be that of an earlier one.
    pub fn settle(&self) -> Result<(), Error> {
        self.core.settle()
    }

    /// Whether the server does not have all of what was written: it is on its way, or failed.
    pub fn has_unwritten(&self) -> bool {
        self.core.has_unwritten()
    }

    /// The error of a write that is reported later, as [`File::write_behind_at`] says.
    pub fn write_error(&self) -> Option<Error> {
        self.core.write_error()
    }

    /// Waits for the answers to all writes; an error is reported later, as [`File::write_behind_at`] says.
    pub fn settle_quietly(&self) {
        self.core.settle_quietly();
    }

    /// Writes all of `data` in one piece behind everything else in the file, and returns where it
    /// begins. At most [`File::append_max`] bytes.
    pub fn append(&self, data: &[u8]) -> Result<u64, Error> {
        self.core.append(data)
    }

    /// Most bytes of one [`File::append`].
    pub fn append_max(&self) -> usize {
        self.core.chunk()
    }

    /// Cuts or extends it.
    pub fn set_len(&self, length: u64) -> Result<(), Error> {
        self.core.change(&Change::SetLength { length })
    }

    /// Its length.
    pub fn length(&self) -> Result<u64, Error> {
        self.core.length()
    }

    /// Its length and change number when it was opened, here or again after a loss: equal ones are
    /// those of a file that did not change in between.
    pub fn version(&self) -> (u64, u64) {
        self.core.version()
    }

    /// The change number of the bytes that were read last, or a later one; as long as none were, the one of its open. Whoever was
    /// told attributes with another number was told of another state of the file.
    pub fn read_change(&self) -> u64 {
        self.core.read_change.load(Ordering::Relaxed)
    }

    /// Device and inode, as [`Wanted::INODE`] tells them.
    pub fn inode(&self) -> [u8; 16] {
        self.core.inode()
    }

    /// Device, inode and time of birth: no other file has them.
    pub fn identity(&self) -> FileIdentity {
        self.core.identity()
    }

    /// It was renamed, and is found under `path` from now on if its session is lost.
    pub fn moved(&self, path: impl Into<Vec<u8>>) {
        self.core.moved(path.into());
    }

    /// The caller changed the file through `other`, an open file of the same one: what this handle has
    /// locked was not changed by somebody else.
    pub fn changed_through(&self, other: &Self) {
        self.core.accept_change(other.core.change_number());
    }

    /// The caller changed the file by its name, as its mode or with a link: that it differs from what
    /// this handle left is not the work of somebody else.
    pub fn changed_by_name(&self) -> Result<(), Error> {
        self.core.accept_changes()
    }

    /// Its attributes.
    pub fn look(&self, wanted: Wanted) -> Result<Facts, Error> {
        self.core.look(wanted)
    }

    /// Reserves space for a range; with `keep_size` the length stays.
    pub fn allocate(&self, offset: u64, length: u64, keep_size: bool) -> Result<(), Error> {
        self.core.change(&Change::Allocate { offset, length, keep_size })
    }

    /// Makes a hole: the range reads as zeros and takes no space.
    pub fn punch(&self, offset: u64, length: u64) -> Result<(), Error> {
        self.core.change(&Change::Punch { offset, length })
    }

    /// The next data at or behind `offset`, or with `hole` the next hole; none up to the end.
    pub fn seek_data(&self, offset: u64, hole: bool) -> Result<Option<u64>, Error> {
        self.core.call(FileCall::Seek { offset, hole }, "search", |answer| match answer {
            FileAnswer::Found { offset } => Some(*offset),
            _ => None,
        })
    }

    /// Locks the whole file for this handle, exclusively or shared with others, if that is possible
    /// now; otherwise the error is [`Locked`](crate::ErrorKind::Locked). Programs on the server's
    /// machine take part (flock). A lock that it has is replaced.
    ///
    /// If the session is lost the file is locked again; if somebody else was faster, the file fails.
    pub fn try_lock(&self, exclusive: bool) -> Result<(), Error> {
        self.core.lock_now(exclusive)
    }

    /// The same; waits for it at most this long, in line with other clients who wait.
    pub fn lock(&self, exclusive: bool, patience: Duration) -> Result<(), Error> {
        self.core.lock_within(exclusive, patience)
    }

    /// Waits for the answers to all writes, and ends the lock.
    pub fn unlock(&self) -> Result<(), Error> {
        self.core.unlock()
    }

    /// Locks a range for an owner (a process, say: owners are told apart by their number, and those of
    /// other handles are others), as fcntl(2) does: a lock that the owner has there is replaced, with
    /// others it is shared or not, and programs on the server's machine take part. If it cannot be had
    /// now the error is [`Locked`](crate::ErrorKind::Locked), and nothing changes. Exclusive locks need
    /// a handle that writes, shared ones one that reads. If there are too many the error is
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded).
    ///
    /// If the session is lost the ranges are locked again, as with [`File::try_lock`]. The file fails
    /// if one was locked exclusively and anything in the file was changed meanwhile.
    pub fn try_lock_range(&self, owner: u64, lock: RangeLock) -> Result<(), Error> {
        self.core.lock_range_now(owner.to_be_bytes(), lock)
    }

    /// The same; waits for it at most this long, in line with other clients who wait.
    pub fn lock_range(&self, owner: u64, lock: RangeLock, patience: Duration) -> Result<(), Error> {
        self.core.lock_range_within(owner.to_be_bytes(), lock, patience)
    }

    /// Waits for the answers to all writes, and ends what the owner has locked in a range.
    pub fn unlock_range(&self, owner: u64, range: Extent) -> Result<(), Error> {
        self.core.unlock_range(owner.to_be_bytes(), range)
    }

    /// A lock of somebody else that keeps the owner from having this one.
    pub fn find_lock(&self, owner: u64, lock: RangeLock) -> Result<Option<RangeLock>, Error> {
        self.core.find_lock(owner.to_be_bytes(), lock)
    }

    /// Asks for a lease ([`LeaseKind`]) on the file, which is renewed until it is given back, recalled, or
    /// the file is closed; returns what it has then, which may be none: the server grants none, or
    /// somebody else uses the file. It needs the right to change the file, and a write lease a file that is
    /// open to write. Ask before you read what you keep.
    ///
    /// With a read lease [`File::length`] and [`File::look`] answer from here what they answered before.
    /// With a write lease [`File::write_behind_at`] keeps small writes until they are many, or
    /// [`File::settle`], a sync or any other call needs them, or the lease is about to end.
    pub fn lease(&self, kind: LeaseKind) -> Result<Option<Lease>, Error> {
        self.core.ask_lease(kind)
    }

    /// The lease that it has now. As long as it is the same, or was renewed, what was read under it is what
    /// is in the file; [`File::changes`] says when it is not.
    pub fn leased(&self) -> Option<Lease> {
        self.core.lease()
    }

    /// Calls `act` before a recalled lease is given back: whatever else was kept of the file must not be
    /// used when it returns. It is called by a thread that looks after all leases of the server, and must
    /// return soon; waiting for calls on files is allowed. Another one replaces it.
    pub fn on_recall(&self, act: impl Fn() + Send + Sync + 'static) {
        self.core.set_on_recall(Arc::new(act));
    }

    /// Sends what is kept, and gives the lease back.
    pub fn give_back_lease(&self) -> Result<(), Error> {
        self.core.give_back()
    }

    /// Counts what makes stale what was read before: changes through this file, locks, and the end of a
    /// lease.
    pub fn changes(&self) -> Changes {
        self.core.changes()
    }

    /// Waits until everything written so far is on stable storage, attributes included.
    pub fn sync_all(&self) -> Result<(), Error> {
        self.core.sync(false)
    }

    /// The same for the data and the length.
    pub fn sync_data(&self) -> Result<(), Error> {
        self.core.sync(true)
    }

    /// Whether something that was changed through this file is not known to be on stable storage. Once it is closed nobody makes
    /// that again if the server loses it.
    pub fn keeps_unsynced(&self) -> bool {
        self.core.keeps_unsynced()
    }

    /// Tells the starts of the server's machine from each other, as far as the server knows them: that of the last open, or of a
    /// sync behind it that succeeded.
    pub fn machine_start(&self) -> [u8; 8] {
        self.core.machine_start()
    }

    /// Waits for the answers to all writes, and closes the file. Nothing is synced.
    pub fn close(mut self) -> Result<(), Error> {
        self.closed = true;
        self.core.close()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if !self.closed {
            // Nobody is there to tell.
            let _ = self.core.close();
        }
    }
}
