//! An open file without a position: calls that survive the loss of the session.

mod appends;
mod early;
mod exchange;
mod lease;
mod locks;
mod named;
mod recovery;
mod syncs;
mod writes;

use super::ahead::Ahead;
use super::batches::{Answered, PendingFileReply, unexpected};
use super::changes::Changes;
use super::flight::Flown;
use super::options::OpenOptions;
use super::pending::Sent;
use super::remote::Remote;
use super::unsynced::{Change, Unsynced};
use crate::calls::failed;
use crate::retry::{Backoff, is_lost};
use crate::session::Session;
use bytes::Bytes;
use exchange::Reply;
pub use lease::Lease;
use lease::LeasingLock;
use locks::Locks;
use recovery::Recovery;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use writes::Behind;
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::wire::file::{FileAnswer, FileBatch, FileCall, OpenedFile, ReadRange};
use xdfs_secure::random;

/// What a batch takes besides its data.
const FRAME_BYTES: usize = 1024;

/// The handle in the present session.
struct Connection {
    session: Arc<Session>,
    opened: OpenedFile,
    /// By which it was opened.
    path: Vec<u8>,
    /// Counts how often it was opened again.
    generation: u64,
    /// The first generation of the server that is there now: what was changed in an earlier one is made again, and what was
    /// not yet noted as made when that began, too.
    server_since: u64,
    /// The same for locks, which end with the session.
    locks_since: u64,
    recovery: Recovery,
    unsynced: Unsynced,
    /// The file's change number after the last answer.
    change: u64,
    /// The known end of the file: what an append is compared with.
    end: u64,
    /// Others may have moved the end since it was known.
    end_is_old: bool,
    /// Changes that were sent in this session and have no answer: made or not.
    in_flight: usize,
    locks: Locks,
}

/// What an open file has in common with others of the same file, and what is read with its open.
#[derive(Clone, Default)]
pub(super) struct Shared {
    pub(super) changes: Changes,
    /// So many bytes from the start.
    pub(super) first: u32,
}

impl Shared {
    fn first_read(&self, options: &OpenOptions, room: usize) -> Option<ReadRange> {
        let is_asked = self.first > 0 && options.call(b"").read && !options.is_once();
        // At most 256 KiB: fits.
        is_asked.then_some(ReadRange { offset: 0, length: self.first.min(room as u32) })
    }
}

/// An open file.
pub(super) struct Core {
    remote: Arc<Remote>,
    path: Mutex<Vec<u8>>,
    options: OpenOptions,
    connection: Mutex<Connection>,
    recovering: Mutex<()>,
    appending: Mutex<()>,
    /// Held until they are answered: what comes behind them waits, whichever thread it comes from.
    behind: Mutex<Behind>,
    changes: Mutex<Changes>,
    ahead: Mutex<Ahead>,
    /// The change number that came with the bytes that were read last; when it was opened, the one of then.
    pub(super) read_change: AtomicU64,
    leasing: LeasingLock,
    /// Nobody uses it any more: in another session it is not opened again.
    closed: AtomicBool,
    /// Why something that a program takes for written is not.
    lost: OnceLock<Error>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is done is lost each time, for as long as this end waits.
fn restarts() -> Error {
    Error::new(ErrorKind::ConnectionLost, "the server restarts again and again")
}

/// The number that another one follows after every change.
fn change_number(answer: &FileAnswer<'_>) -> Option<u64> {
    match answer {
        FileAnswer::Changed { change } => Some(*change),
        _ => None,
    }
}

/// The same number, where it was asked for.
pub(super) fn change_told(answer: &FileAnswer<'_>) -> Option<u64> {
    match answer {
        FileAnswer::Attributes(told) => told.change,
        _ => None,
    }
}

/// What an open answers, and the bytes that were read with it.
fn opened_of(answered: &Answered, path: &[u8]) -> Result<(OpenedFile, Option<Bytes>), Error> {
    let mut answers = answered.read()?.into_iter();
    let opened = match answers.next() {
        Some(Ok(FileAnswer::Opened(opened))) => opened,
        Some(Err(failure)) => return Err(failed(failure, &format!("cannot open '{}'", path.escape_ascii()))),
        _ => return Err(unexpected()),
    };
    // They are read again by whoever needs them.
    let first = answers.next().and_then(|answer| match answer {
        Ok(FileAnswer::Read(parts)) => parts.first().map(|part| answered.slice(part)),
        _ => None,
    });
    Ok((opened, first))
}

fn open_with(session: &Session, batch: FileBatch<'_>, path: &[u8]) -> Result<OpenedFile, Error> {
    Ok(opened_of(&session.call_file(batch)?.wait()?, path)?.0)
}

impl Core {
    /// Opens the file; `flown` tells when an open that is not to be done twice was on its way.
    pub(super) fn open(
        remote: &Arc<Remote>,
        path: &[u8],
        options: &OpenOptions,
        shared: &Shared,
        flown: &mut Flown,
    ) -> Result<Self, Error> {
        let draw = || if options.is_once() { random::array() } else { Ok([0; 16]) };
        let (mut request, mut backoff) = (draw()?, remote.backoff());
        // A server that was never there is not waited for.
        let mut session = match remote.was_connected() {
            true => Self::reconnect(remote, &mut backoff)?,
            false => remote.session()?,
        };
        let (opened, first) = loop {
            let mut calls = vec![FileCall::Open(options.call(path))];
            let count = shared.changes.count();
            let room = session.batch_bytes_max() - FRAME_BYTES;
            let range = shared.first_read(options, room);
            let asked = range.map_or(0, |range| range.length);
            calls.extend(range.map(|range| FileCall::Read { ranges: vec![range] }));
            let age_ms = flown.age().map(|age| age.as_millis() as u64 + 1);
            let batch = FileBatch { request, age_ms, calls, ..FileBatch::default() };
            // A session that ended already has not sent anything.
            let pending = session.call_file(batch);
            if options.is_once() && pending.is_ok() {
                flown.sent();
            }
            let outcome = pending.and_then(PendingFileReply::wait);
            match outcome.and_then(|answered| opened_of(&answered, path)) {
                // The answer may be that of an earlier session, whose handle is none in this one.
                Ok((opened, _)) if age_ms.is_some() => {
                    let calls = vec![FileCall::Open(options.again(path, &opened))];
                    break (open_with(&session, FileBatch { calls, ..FileBatch::default() }, path)?, None);
                }
                Ok((opened, first)) => break (opened, first.map(|bytes| (bytes, asked, count))),
                Err(error) if is_lost(&error) && remote.may_retry(&error) => {
                    flown.lost();
                    remote.lost(&session);
                    backoff.wait(error)?;
                    session = Self::reconnect(remote, &mut backoff)?;
                }
                // The server remembers this answer: what is tried now is another request.
                Err(error) if remote.may_retry(&error) => {
                    backoff.wait(error)?;
                    (request, *flown) = (draw()?, Flown::default());
                }
                Err(error) => return Err(error),
            }
        };
        let ahead = match first {
            Some((bytes, length, count)) => Ahead::of_first(remote, bytes, length, count),
            None => Ahead::default(),
        };
        Ok(Self::opened(remote, path, options, shared, (session, opened), ahead))
    }

    /// A file that is open now.
    fn opened(
        remote: &Arc<Remote>,
        path: &[u8],
        options: &OpenOptions,
        shared: &Shared,
        (session, opened): (Arc<Session>, OpenedFile),
        ahead: Ahead,
    ) -> Self {
        remote.opened_in(&session, opened.verifier);
        let (generation, server_since, in_flight) = (0, 0, 0);
        let (change, end, unsynced) = (opened.change, opened.size, Unsynced::default());
        let (locks, path) = (Locks::default(), path.to_vec());
        let own_path = Mutex::new(path.clone());
        let connection = Connection {
            session,
            opened,
            path,
            generation,
            server_since,
            locks_since: 0,
            recovery: Recovery::Done,
            unsynced,
            change,
            end,
            end_is_old: false,
            in_flight,
            locks,
        };
        let core = Self {
            remote: Arc::clone(remote),
            path: own_path,
            options: *options,
            connection: Mutex::new(connection),
            recovering: Mutex::new(()),
            appending: Mutex::new(()),
            behind: Mutex::default(),
            changes: Mutex::new(shared.changes.clone()),
            ahead: Mutex::new(ahead),
            read_change: AtomicU64::new(change),
            leasing: LeasingLock::default(),
            closed: AtomicBool::new(false),
            lost: OnceLock::new(),
        };
        if options.call(b"").truncate {
            // A server that loses its power may lose that, too.
            core.unsynced(|unsynced| {
                let cut = unsynced.add(Change::SetLength { length: 0 });
                unsynced.made(cut);
            });
        }
        core
    }

    pub(super) fn options(&self) -> &OpenOptions {
        &self.options
    }

    /// Its path: the one it was opened by, unless it was renamed.
    pub(super) fn path(&self) -> Vec<u8> {
        lock(&self.path).clone()
    }

    /// Most bytes of data in one call.
    pub(super) fn chunk(&self) -> usize {
        lock(&self.connection).session.batch_bytes_max() - FRAME_BYTES
    }

    /// How many of those may be on their way.
    pub(super) fn long_calls_max(&self) -> usize {
        lock(&self.connection).session.long_calls_max()
    }

    fn current(&self) -> Result<(Arc<Session>, u64, u64), Error> {
        let connection = lock(&self.connection);
        match &connection.recovery {
            Recovery::Failed(error) => Err(error.clone()),
            Recovery::Done | Recovery::Begun(_) => {
                Ok((Arc::clone(&connection.session), connection.opened.handle, connection.generation))
            }
        }
    }

    pub(super) fn remote(&self) -> &Arc<Remote> {
        &self.remote
    }

    pub(super) fn ahead(&self) -> &Mutex<Ahead> {
        &self.ahead
    }

    pub(super) fn changes(&self) -> Changes {
        lock(&self.changes).clone()
    }

    /// Counts its changes with those of other open files.
    pub(super) fn share(&self, changes: &Changes) {
        *lock(&self.changes) = changes.clone();
    }

    /// As far as the file is known to reach.
    pub(super) fn known_end(&self) -> u64 {
        lock(&self.connection).end
    }

    /// One call, and what it answers.
    pub(super) fn call<T>(
        &self,
        call: FileCall<'_>,
        what: &str,
        read: impl FnOnce(&FileAnswer<'_>) -> Option<T>,
    ) -> Result<T, Error> {
        self.settle_quietly();
        let answered = self.exchange([0; 16], vec![call])?.answered;
        self.answer(&answered, what, read)
    }

    /// The first result of a reply.
    pub(super) fn answer<T>(
        &self,
        answered: &Answered,
        what: &str,
        read: impl FnOnce(&FileAnswer<'_>) -> Option<T>,
    ) -> Result<T, Error> {
        self.answer_at(answered, 0, what, read)
    }

    /// One of its results.
    pub(super) fn answer_at<T>(
        &self,
        answered: &Answered,
        index: usize,
        what: &str,
        read: impl FnOnce(&FileAnswer<'_>) -> Option<T>,
    ) -> Result<T, Error> {
        match answered.read()?.get(index) {
            Some(Ok(answer)) => read(answer).ok_or_else(unexpected),
            Some(Err(failure)) => Err(failed(*failure, &format!("cannot {what} '{}'", self.path().escape_ascii()))),
            None => Err(unexpected()),
        }
    }

    /// Sends that nobody uses the handle any more; none if the session is lost.
    pub(super) fn start_close(&self) -> Option<PendingFileReply> {
        self.closed.store(true, Ordering::SeqCst);
        self.close_tried();
        let (session, handle, _) = self.current().ok()?;
        session.call_file(FileBatch { handle, calls: vec![FileCall::Close], ..FileBatch::default() }).ok()
    }

    /// Waits for what was written, and gives the handle back: both, whatever becomes of the other.
    pub(super) fn close(&self) -> Result<(), Error> {
        let settled = self.settle().and_then(|()| self.must_have_lost_nothing());
        // A server that is known to be lost is not waited for again.
        let patience = if settled.as_ref().is_err_and(is_lost) { Duration::ZERO } else { self.remote.patience() };
        let recovered = self.end_recoveries(&mut Backoff::within(patience));
        self.close_tried();
        let (session, handle, _) = self.current()?;
        let batch = FileBatch { handle, calls: vec![FileCall::Close], ..FileBatch::default() };
        let closed = match session.call_file(batch).and_then(PendingFileReply::wait) {
            // It is closed with its session.
            Err(error) if is_lost(&error) => Ok(()),
            outcome => outcome.map(drop),
        };
        settled.and(recovered).and(closed)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let unsynced = std::mem::take(&mut lock(&self.connection).unsynced);
        let kept = unsynced.bytes();
        drop(unsynced);
        if self.remote.unsynced.fetch_sub(kept, Ordering::Relaxed) == kept {
            self.remote.writes.clear();
        }
    }
}
