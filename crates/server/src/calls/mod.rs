//! Batches of calls (PATHM-01 to PATHM-07): parsed, authorised call by call, executed in order on a
//! thread of the pool.
//!
//! It must reach files only through an [`Authorized`]: every name goes through [`Base::authorise`].

mod change;
mod hidden;
mod leases;
mod look;
mod small;

use crate::authorise::{Authorized, Base, Rights, Want};
use crate::files::OpenFiles;
use crate::files::leases::AccessGuard;
use crate::log::CallLine;
use crate::replies::{failure, reply_writer};
use crate::watches::SessionWatches;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use xdfs_engine::blocking::Slice;
use xdfs_engine::transfer::sum::RangeHash;
use xdfs_io::store::SmallReader;
use xdfs_proto::base::{Error, ErrorKind, RelPath, Safety, Timestamp};
use xdfs_proto::wire::path::{Answer, Attributes, Batch, Call, Failure, FileType, ListEntry, ReplyWriter, Wanted};

/// The outcome of a batch.
#[derive(Debug)]
pub(crate) struct Done {
    /// The payload of the reply.
    pub reply: Vec<u8>,
    /// For the log: the calls that changed something, read a file, or were refused.
    pub lines: Vec<CallLine>,
    /// How durable the changes are; none if the batch was to change nothing.
    pub safety: Option<Safety>,
}

/// The state that the calls of a batch share.
struct CallContext {
    base: Base,
    /// Set when the rest is no longer wanted.
    stop: Arc<AtomicBool>,
    durable: bool,
    /// Start of the session: no one in it may have seen later changes.
    since: Timestamp,
    /// Directories whose names changed, and the total length of their paths.
    touched: BTreeSet<RelPath>,
    touched_bytes: usize,
    /// A deeply nested directory: this one and all its parents must be synced, too.
    climb: Option<RelPath>,
    /// Files whose attributes or length changed.
    changed: ChangedFiles,
    /// A change is not on stable storage.
    loose: bool,
    /// Buffer for reading small files.
    reading: SmallReader,
    /// The open files, whose leases the calls wait for.
    files: Arc<OpenFiles>,
    /// The names that the session watches.
    watches: Arc<SessionWatches>,
}

/// A hash that takes more than one slice.
struct RunningHash {
    hash: RangeHash,
    /// Until it is complete.
    _access: AccessGuard,
}

/// Why a call failed.
enum CallError {
    /// A lease excludes it, and nothing was done.
    Excluded(Error),
    /// Anything else.
    Failed(Error),
}

impl CallError {
    fn error(&self) -> &Error {
        match self {
            Self::Excluded(error) | Self::Failed(error) => error,
        }
    }
}

impl From<Error> for CallError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// A batch that is being executed, slice by slice.
pub(crate) struct Execution {
    work: CallContext,
    writer: ReplyWriter,
    lines: Vec<CallLine>,
    at: Position,
}

/// Which call of a batch is next.
#[allow(clippy::large_enum_variant, reason = "a batch in execution has one, and a box would be one more allocation")]
enum Position {
    /// The one of this number is not begun: those in front of it are complete, or will not be executed.
    Before(usize),
    /// An earlier slice began the hash that is the call of this number.
    Hashing(usize, RunningHash),
}

impl Position {
    /// Number of calls that are complete, or will not be executed.
    const fn done(&self) -> usize {
        match self {
            Self::Before(done) | Self::Hashing(done, _) => *done,
        }
    }
}

/// Files that are still to be synced, and the total length of their paths.
#[derive(Debug, Default)]
struct ChangedFiles {
    paths: BTreeSet<RelPath>,
    bytes: usize,
}

impl ChangedFiles {
    fn add(&mut self, path: &RelPath) {
        if self.paths.insert(path.clone()) {
            self.bytes += path.as_bytes().len();
        }
    }
}

/// Total length of the paths of directories, and of files, that are still to be synced: more than a batch of ordinary paths has.
const TOUCHED_BYTES_MAX: usize = 64 << 10;

impl Execution {
    /// Prepares `batch` for a session that was opened at `since`; the reply is built in `memory`.
    pub(crate) fn new(
        batch: &Batch<'_>,
        base: Base,
        since: Timestamp,
        stop: Arc<AtomicBool>,
        (files, watches): (Arc<OpenFiles>, Arc<SessionWatches>),
        memory: Vec<u8>,
    ) -> Result<Self, Error> {
        let work = CallContext {
            base,
            stop,
            durable: batch.durable,
            since,
            touched: BTreeSet::new(),
            touched_bytes: 0,
            climb: None,
            changed: ChangedFiles::default(),
            loose: false,
            reading: SmallReader::default(),
            files,
            watches,
        };
        let writer = reply_writer(memory, batch.calls.len(), batch.room)?;
        Ok(Self { work, writer, lines: Vec::new(), at: Position::Before(0) })
    }

    /// Executes the calls of `batch` in order, until the slice is over, and none after `stop` is
    /// set. Ready when all of it is complete.
    pub(crate) fn advance(&mut self, batch: &Batch<'_>, slice: &Slice) -> Result<Poll<()>, Error> {
        while let Some(left) = batch.calls.get(self.at.done()..).filter(|left| !left.is_empty()) {
            if self.work.changed.bytes > TOUCHED_BYTES_MAX {
                self.work.sync_changed();
                if slice.is_over() {
                    return Ok(Poll::Pending);
                }
            }
            let many = self.work.touched_bytes > TOUCHED_BYTES_MAX || self.work.climb.is_some();
            if many && self.work.sync_touched(slice).is_pending() {
                return Ok(Poll::Pending);
            }
            if self.work.stop.load(Ordering::Relaxed) {
                if self.at.done() == 0 {
                    return Err(Error::new(ErrorKind::Cancelled, "cancelled before it was begun"));
                }
                self.at = Position::Before(batch.calls.len());
                break;
            }
            let first = self.at.done() == 0;
            match self.some(left, batch.stop, slice) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(Err(CallError::Excluded(error))) if first => return Err(error),
                Poll::Ready(Err(_)) if batch.stop => self.at = Position::Before(batch.calls.len()),
                Poll::Ready(_) => {}
            }
            if slice.is_over() {
                return Ok(Poll::Pending);
            }
        }
        Ok(self.work.settle(slice))
    }

    /// Executes the first call, or the small files at the front; returns whether they all
    /// succeeded.
    fn some(&mut self, left: &[Call<'_>], stop_at_failure: bool, slice: &Slice) -> Poll<Result<(), CallError>> {
        let puts = small::group(left, stop_at_failure);
        let [call, behind @ ..] = left else { return Poll::Ready(Ok(())) };
        if call.changes() {
            self.work.reading.forget();
        }
        if call.result_bytes_max().is_none() {
            self.writer.leave_room(behind.iter());
        }
        if puts.is_empty() {
            let result = match call {
                Call::Hash { path, offset, length } => match self.hash(path, *offset, *length, slice) {
                    Poll::Ready(result) => result,
                    Poll::Pending => return Poll::Pending,
                },
                _ => self.work.call(call, &mut self.writer),
            };
            self.note(call, result.as_ref().map(|()| &false).map_err(CallError::error));
            return Poll::Ready(result);
        }
        let results = self.work.put(&puts);
        let mut failed = Ok(());
        for (call, result) in left.iter().zip(results) {
            match &result {
                Ok(_) => self.writer.answer(&Answer::Done),
                Err(error) => self.writer.fail(failure(error)),
            }
            self.note(call, result.as_ref());
            failed = failed.and(result.map(drop));
        }
        Poll::Ready(failed.map_err(CallError::Failed))
    }

    /// Executes a hash, from where an earlier slice left it, and writes its result.
    fn hash(&mut self, path: &[u8], offset: u64, length: Option<u64>, slice: &Slice) -> Poll<Result<(), CallError>> {
        let done = self.at.done();
        let running = match std::mem::replace(&mut self.at, Position::Before(done)) {
            Position::Hashing(_, running) => Ok(running),
            Position::Before(_) => self.work.begin_hash(path, offset, length),
        };
        let advanced = running.and_then(|mut running| match self.work.advance_hash(&mut running, slice)? {
            Poll::Ready(answer) => Ok(Some(answer)),
            Poll::Pending => {
                self.at = Position::Hashing(done, running);
                Ok(None)
            }
        });
        match advanced {
            Ok(None) => Poll::Pending,
            Ok(Some(answer)) => {
                self.writer.answer(&answer);
                Poll::Ready(Ok(()))
            }
            Err(error) => {
                self.writer.fail(failure(error.error()));
                Poll::Ready(Err(error))
            }
        }
    }

    fn note(&mut self, call: &Call<'_>, result: Result<&bool, &Error>) {
        self.at = Position::Before(self.at.done() + 1);
        let refused = result.is_err_and(|error| error.kind == ErrorKind::Refused);
        if call.changes() || matches!(call, Call::Get { .. }) || refused {
            self.lines.push(CallLine::of(call, result));
        }
    }

    /// The outcome of `batch`, when all of it is complete.
    pub(crate) fn finish(self, batch: &Batch<'_>) -> Done {
        let safety = if self.work.durable && !self.work.loose { Safety::Durable } else { Safety::Written };
        let changed = batch.calls.iter().any(Call::changes);
        Done { reply: self.writer.finish(safety), lines: self.lines, safety: changed.then_some(safety) }
    }
}

/// Executes a batch on the list of exports: it can be read, and nothing else.
pub(crate) fn exports(batch: &Batch<'_>, shown: &[(&str, Rights)]) -> Result<Done, Error> {
    let mut writer = reply_writer(Vec::new(), batch.calls.len(), batch.room)?;
    let mut lines = Vec::new();
    let root = Attributes::of(FileType::Directory);
    for call in &batch.calls {
        match call {
            Call::Stat { path: b"", .. } => writer.answer(&Answer::Attributes(root)),
            Call::List { path: b"", cursor: b"", wanted } => {
                let mut page = writer.listing();
                let all = shown.iter().all(|(name, rights)| {
                    let mode = wanted.has(Wanted::MODE).then(|| rights.as_mode());
                    page.push(&ListEntry { name: name.as_bytes(), attributes: Attributes { mode, ..root } })
                });
                // A page of 256 KiB has room for more exports than a configuration has; a smaller
                // one reports that it is incomplete.
                page.finish(all, b"");
            }
            Call::Unknown { .. } => writer.fail(Failure { kind: ErrorKind::Unsupported, errno: 0 }),
            _ => {
                let error = Error::new(ErrorKind::Refused, "the list of exports can be read, and nothing else");
                writer.fail(failure(&error));
                lines.push(CallLine::of(call, Err(&error)));
            }
        }
    }
    Ok(Done { reply: writer.finish(Safety::Written), lines, safety: None })
}

impl CallContext {
    /// Executes one call, which is not a hash, and writes its result.
    fn call(&mut self, call: &Call<'_>, writer: &mut ReplyWriter) -> Result<(), CallError> {
        if matches!(call, Call::Unlink { .. } | Call::RemoveDirectory { .. } | Call::Rename { .. }) {
            // Behind it nobody would find what was changed before.
            self.sync_changed();
        }
        let _access = match self.begin(call) {
            Ok(access) => access,
            Err(error) => {
                writer.fail(failure(&error));
                return Err(CallError::Excluded(error));
            }
        };
        match call {
            Call::List { path, wanted, cursor } => self.list(path, self.told(*wanted), cursor, writer),
            _ => self.short_call(call, writer).map_err(CallError::Failed),
        }
    }

    fn short_call(&mut self, call: &Call<'_>, writer: &mut ReplyWriter) -> Result<(), Error> {
        let result = match call {
            Call::Stat { path, wanted } => return self.stat(path, self.told(*wanted), writer),
            Call::Get { path, wanted, most } => return self.get(path, self.told(*wanted), *most, writer),
            Call::ReadLink { path } => {
                return self.tell(writer, |work| {
                    let at = work.at(path, Want::Read)?;
                    at.store().tree()?.read_symlink(at.path())
                });
            }
            Call::XattrValue { path, name } => {
                return self.tell(writer, |work| {
                    let at = work.at(path, Want::Read)?;
                    at.store().tree()?.xattr(at.path(), name)
                });
            }
            Call::XattrNames { path } => return self.xattr_names(path, writer),
            Call::Opens { path } => return self.openers(path, writer),
            Call::FileSystem { path } => self.space(path),
            Call::StageTree { path, client } => {
                return self.tell(writer, |work| work.base.stage_tree(path, client, work.files.slots()));
            }
            Call::Watch { path, watched, watch } => self.watch(path, *watched, *watch),
            Call::Unknown { .. } => Err(Error::new(ErrorKind::Unsupported, "no such call")),
            other => self.change(other).map(|()| Answer::Done),
        };
        answer(result, writer)
    }

    /// A call that returns bytes.
    fn tell(
        &mut self,
        writer: &mut ReplyWriter,
        bytes: impl FnOnce(&mut Self) -> Result<Vec<u8>, Error>,
    ) -> Result<(), Error> {
        match bytes(self) {
            Ok(bytes) => {
                writer.answer(&Answer::Bytes(&bytes));
                Ok(())
            }
            Err(error) => {
                writer.fail(failure(&error));
                Err(error)
            }
        }
    }

    /// The requested attributes that may be reported: account names are hidden from anonymous
    /// users.
    fn told(&self, wanted: Wanted) -> Wanted {
        if self.base.is_visitor() { wanted.without(Wanted::NAMES) } else { wanted }
    }

    fn at(&self, path: &[u8], want: Want) -> Result<Authorized, Error> {
        self.base.authorise(path, want)
    }

    /// A name was added to or removed from the directory that holds `path`.
    fn touched(&mut self, path: &RelPath) {
        let Some(parent) = path.parent().filter(|_| self.durable) else { return };
        let bytes = parent.as_bytes().len();
        if self.touched.insert(parent) {
            self.touched_bytes += bytes;
        }
    }

    /// Waits until the names in the directories are on stable storage.
    fn sync_touched(&mut self, slice: &Slice) -> Poll<()> {
        while let Some(path) = self.touched.pop_first() {
            self.touched_bytes -= path.as_bytes().len();
            self.loose |= self.base.sync(&path).is_err();
            if slice.is_over() {
                return Poll::Pending;
            }
        }
        while let Some(path) = self.climb.take() {
            self.loose |= self.base.sync(&path).is_err();
            self.climb = path.parent();
            if slice.is_over() {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }

    /// Waits until the files whose attributes were changed are on stable storage.
    fn sync_changed(&mut self) {
        if self.changed.paths.is_empty() {
            return;
        }
        let files = std::mem::take(&mut self.changed).paths;
        self.loose |= self.base.sync_files(&files) != Ok(Safety::Durable);
    }

    /// Waits for the changes to be durable if that was requested, and records whether they are.
    fn settle(&mut self, slice: &Slice) -> Poll<()> {
        self.sync_changed();
        if slice.is_over() {
            return Poll::Pending;
        }
        self.sync_touched(slice)
    }
}

/// Writes a call's result.
fn answer(result: Result<Answer<'_>, Error>, writer: &mut ReplyWriter) -> Result<(), Error> {
    match result {
        Ok(answer) => {
            writer.answer(&answer);
            Ok(())
        }
        Err(error) => {
            writer.fail(failure(&error));
            Err(error)
        }
    }
}
