//! What uploads and downloads of trees share: tasks, the batch that is being filled, and the requests
//! in flight.

use super::descriptor_wait::DescriptorWait;
use super::directories::DirectoryId;
use super::endpoints::Remote;
use super::events::{EntryAction, Observer};
use super::in_flight::{BatchBuilder, InFlight};
use super::state::TreeState;
use bytes::Bytes;
use std::collections::VecDeque;
use std::time::Duration;
use xdfs_proto::base::{Error, ErrorKind, Safety};
use xdfs_proto::wire::path::{Answer, Call};

/// Large files that are queued while small ones continue.
const LARGE_WAITING_MAX: usize = 512;

/// Larger files are transfers of their own. Up to this size, copying the content into a call costs
/// less than a transfer does.
const SMALL_BYTES_MAX: usize = 96 << 10;

/// Bytes of a page of a listing, besides those of its names: enough for thousands of entries.
pub(super) const LIST_ROOM: usize = 128 << 10;

/// Bytes of calls for extended attributes and the like that go in the batch of their file; if there
/// are more they follow it.
pub(super) const EXTRAS_BYTES_MAX: usize = 8 << 10;

/// Why a name that is longer than a session's records can carry is not copied.
pub(super) fn too_long() -> Error {
    let text = "its path is too long for the blocks of this session; ask for fewer channels, or larger blocks";
    Error::new(ErrorKind::LimitExceeded, text)
}

/// Whether a task could be taken on.
pub(super) enum Turn<T> {
    Taken,
    /// Something else has to be answered first.
    Later(T),
}

/// Why a run stops early.
pub(super) enum StopReason {
    Stopped,
    Lost(Error),
    /// Nothing else of the tree can succeed either.
    Hopeless(Error),
}

pub(super) type Run<T> = Result<T, StopReason>;

/// What an answer belongs to: tasks, one for each call of a batch; a large file; or small files
/// that are being written locally.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum PendingJob<T, D> {
    Batch { codes: Vec<u64>, tasks: Vec<T> },
    Transfer(Entry<D>),
    Place(Vec<Entry<D>>),
}

/// The tasks of a tree copy, the batch being filled and the requests in flight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Scheduler<T, D> {
    /// `EXPORT/path` of the top.
    pub(super) base: Vec<u8>,
    durable: bool,
    /// A stack: the last task is the next one.
    pub(super) tasks: Vec<T>,
    /// Large files that wait for a free transfer.
    pub(super) large: VecDeque<Entry<D>>,
    pub(super) batch: BatchBuilder<T>,
    pub(super) in_flight: InFlight<PendingJob<T, D>>,
    /// The time of the last input.
    pub(super) now: Duration,
    /// Batches that were sent.
    pub(super) sent: u64,
    /// Why nothing more can be sent over this session. It is kept here so that a caller never loses
    /// its task because of it: the task is returned as [`Turn::Later`].
    lost: Option<Error>,
    /// Waits for descriptors that others hold.
    pub(super) descriptors: DescriptorWait,
}

/// A name that is not a directory, with what a direction knows of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry<D> {
    /// The directory that contains it.
    pub(super) directory: DirectoryId,
    /// Its path below the top of the tree.
    pub(super) path: Vec<u8>,
    /// How often it met another copy of the same name, or changed while it was read. If so, a
    /// transfer does not join another one.
    pub(super) tries: u8,
    pub(super) detail: D,
}

impl<D> Entry<D> {
    pub(super) fn new(directory: DirectoryId, path: Vec<u8>, detail: D) -> Self {
        Self { directory, path, tries: 0, detail }
    }

    /// The same name with one more try counted.
    pub(super) fn tried(self) -> Self {
        Self { tries: self.tries + 1, ..self }
    }
}

/// How often a name is tried that others make and remove at the same time.
pub(super) const TRIES_MAX: u8 = 8;

/// One direction of a tree copy.
pub(super) trait TreeCopy {
    type Task;
    /// What it knows of a name that is not a directory.
    type Detail;

    fn state(&mut self) -> &mut TreeState;

    /// Bytes of a regular file; 0 for anything else.
    fn bytes_of(detail: &Self::Detail) -> u64;

    /// The task that ends a directory.
    fn finish_of(id: DirectoryId) -> Self::Task;

    /// A name is settled.
    fn done(&mut self, observer: &mut dyn Observer, entry: &Entry<Self::Detail>, action: EntryAction) {
        self.state().count(action);
        if action == EntryAction::Skipped {
            self.state().summary.skip_bytes(Self::bytes_of(&entry.detail));
        }
        observer.done(&entry.path, action);
        self.settle(entry.directory);
    }

    /// A name that was not begun is left as it is at the target.
    fn skip(&mut self, observer: &mut dyn Observer, entry: &Entry<Self::Detail>) {
        self.state().summary.skipped += 1;
        self.state().summary.skip_bytes(Self::bytes_of(&entry.detail));
        observer.done(&entry.path, EntryAction::Skipped);
    }

    /// A name failed.
    fn failed(&mut self, observer: &mut dyn Observer, entry: &Entry<Self::Detail>, error: &Error) {
        self.state().note_not_copied(&entry.path);
        self.state().failed(observer, &entry.path, error);
        self.settle(entry.directory);
    }

    /// A name could not be made at the target.
    fn refused(&mut self, observer: &mut dyn Observer, entry: &Entry<Self::Detail>, error: &Error) {
        self.state().note_not_copied(&entry.path);
        self.state().refused(observer, entry.directory, &entry.path, error);
        self.settle(entry.directory);
    }

    /// Counts a name whose directory accepts no new names, without trying it. False if it is to be
    /// tried.
    fn passes_over(&mut self, entry: &Entry<Self::Detail>) -> bool {
        let over = self.state().directories.takes_nothing(entry.directory);
        if over {
            self.state().note_not_copied(&entry.path);
            self.state().summary.failed += 1;
            self.state().in_the_way += 1;
            self.settle(entry.directory);
        }
        over
    }

    /// Releases one hold on a directory, which may complete it.
    fn settle(&mut self, id: DirectoryId) {
        if let Some(complete) = self.state().directories.settle(id) {
            self.scheduler().tasks.push(Self::finish_of(complete));
        }
    }

    /// Nothing is left to do for a directory.
    fn left(&mut self, id: DirectoryId) {
        if let Some(parent) = self.state().directories.leave(id) {
            self.scheduler().tasks.push(Self::finish_of(parent));
        }
    }

    fn scheduler(&mut self) -> &mut Scheduler<Self::Task, Self::Detail>;

    /// Takes on a task, or returns it if something has to be answered first.
    fn take(&mut self, remote: &mut dyn Remote, observer: &mut dyn Observer, task: Self::Task)
    -> Run<Turn<Self::Task>>;

    /// Begins the transfer of a large file; returns it if it cannot begin yet.
    fn begin(
        &mut self,
        remote: &mut dyn Remote,
        observer: &mut dyn Observer,
        large: Entry<Self::Detail>,
    ) -> Run<Option<Entry<Self::Detail>>>;

    /// Handles the answer to each call of a batch, with an error text if it failed. All of them are
    /// slices of `reply`.
    fn answered(
        &mut self,
        remote: &mut dyn Remote,
        observer: &mut dyn Observer,
        reply: &Bytes,
        tasks: Vec<Self::Task>,
        answers: Vec<CallResult<'_>>,
    );

    /// Handles the result of a small file that was to be written locally. An upload writes none.
    fn placed(&mut self, _observer: &mut dyn Observer, _file: Entry<Self::Detail>, _outcome: Result<Safety, Error>) {}

    /// The end of a transfer.
    fn moved(
        &mut self,
        observer: &mut dyn Observer,
        large: Entry<Self::Detail>,
        report: Result<crate::transfer::Report, Error>,
    );

    /// Starts the tasks that wait for everything else; false if none are left.
    fn next_phase(&mut self, observer: &mut dyn Observer) -> bool;

    /// Maps a task that was in flight when the session was lost, and may have been done; or one that
    /// was refused for want of descriptors.
    fn again(&mut self, task: Self::Task) -> Self::Task;

    /// The same for a large file.
    fn large_again(&self, large: Entry<Self::Detail>) -> Self::Task;

    /// Whether a failed call can be repeated on its own, by [`Self::again`].
    fn stands_alone(&self, _task: &Self::Task) -> bool {
        true
    }

    /// Whether a batch may end before or behind this call, and leaves nothing that the next copy does
    /// not see to.
    fn may_end_at(task: &Self::Task) -> bool;

    /// Maps a large file that another copy sends or writes, too.
    fn contended(&self, large: Entry<Self::Detail>) -> Self::Task;
}

/// The result of a call.
pub(super) struct CallResult<'a> {
    pub(super) outcome: Result<Answer<'a>, Error>,
    /// How safe the change is.
    pub(super) safety: Safety,
}

impl<T, D> Scheduler<T, D> {
    pub(super) fn new(base: Vec<u8>, durable: bool, first: T) -> Self {
        Self {
            base,
            durable,
            tasks: vec![first],
            large: VecDeque::new(),
            batch: BatchBuilder::default(),
            in_flight: InFlight::default(),
            now: Duration::ZERO,
            sent: 0,
            lost: None,
            descriptors: DescriptorWait::default(),
        }
    }

    /// Whether calls are pending or in flight.
    pub(super) fn has_calls(&self) -> bool {
        self.in_flight.has_calls() || !self.batch.is_empty()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.tasks.is_empty() && self.large.is_empty() && self.batch.is_empty()
    }

    /// Whether one more large file may be queued.
    pub(super) fn takes_large(&self) -> bool {
        self.large.len() < LARGE_WAITING_MAX
    }

    /// Whether calls about a name of this length fit into an empty batch, several times and with
    /// some attributes.
    pub(super) fn takes_path(&self, remote: &mut dyn Remote, length: usize) -> bool {
        self.rest(length) <= remote.batch_bytes_max()
    }

    /// Bytes of a file that fit into a call in an empty batch with a path of `length` bytes,
    /// attributes, and preceding calls of `others` bytes.
    pub(super) fn content_max(&self, remote: &mut dyn Remote, length: usize, others: usize) -> u64 {
        SMALL_BYTES_MAX.min(remote.batch_bytes_max().saturating_sub(self.rest(length) + others)) as u64
    }

    /// Bytes that a batch about a name of this length may need besides content.
    fn rest(&self, length: usize) -> usize {
        4 * length + self.base.len() + EXTRAS_BYTES_MAX + 8192
    }

    /// Puts one call into the batch.
    pub(super) fn ask(&mut self, remote: &mut dyn Remote, call: &Call<'_>, task: T) -> Turn<T> {
        if !self.make_room(remote, 1, call.path().len(), call.room()) {
            return Turn::Later(task);
        }
        self.batch.push(call, task);
        Turn::Taken
    }

    /// The same for a call whose result is bounded only by `room` and that is waited for: it is
    /// sent at once.
    pub(super) fn ask_last(&mut self, remote: &mut dyn Remote, call: &Call<'_>, room: usize, task: T) -> Turn<T> {
        let room = room.min(remote.batch_bytes_max() / 2);
        if !self.make_room(remote, 1, call.path().len(), room) {
            return Turn::Later(task);
        }
        self.batch.push_last(call, room, task);
        self.flush(remote);
        Turn::Taken
    }

    /// Whether calls of this size fit into the batch, which is sent first if they would not.
    pub(super) fn make_room(&mut self, remote: &mut dyn Remote, calls: usize, bytes: usize, room: usize) -> bool {
        let most = remote.batch_bytes_max().saturating_sub(self.base.len() + 64);
        if self.batch.fits(calls, bytes, room, most) {
            return true;
        }
        self.flush(remote);
        self.batch.is_empty() && self.lost.is_none()
    }

    /// Sends the batch, if there is one and it may be sent.
    pub(super) fn flush(&mut self, remote: &mut dyn Remote) {
        if self.batch.is_empty() || self.lost.is_some() || !self.in_flight.has_room(self.batch.room()) {
            return;
        }
        self.sent += 1;
        let filled = self.batch.take(&self.base, self.durable, remote.memory());
        let job = PendingJob::Batch { codes: filled.codes, tasks: filled.items };
        self.lost = self.in_flight.call(remote, self.now, filled.payload, filled.room, job).err();
    }

    /// Takes what an answer is needed for.
    pub(super) fn take(&mut self, number: u64) -> Option<PendingJob<T, D>> {
        self.in_flight.take(self.now, number)
    }

    /// A transfer was begun under the next number.
    pub(super) fn moves(&mut self, entry: Entry<D>) {
        self.in_flight.moves(self.now, PendingJob::Transfer(entry));
    }

    /// Whether nothing new is begun now: others hold the descriptors.
    pub(super) fn is_paused(&mut self) -> bool {
        self.descriptors.pause(self.now).is_some()
    }

    /// Reports once that the session is lost, if something could not be sent over it.
    pub(super) fn must_be_connected(&mut self) -> Run<()> {
        self.lost.take().map_or(Ok(()), |error| Err(StopReason::Lost(error)))
    }
}
