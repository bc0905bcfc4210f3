//! An FTP server as the remote end of a tree copy: the copy asks for what it asks an xdfs server for,
//! and here that becomes commands of FTP.
//!
//! FTP answers one command after the other, so a copy has several sessions, each with a thread that
//! takes the next request. Everything that was asked for is answered, unless a session is lost.

mod calls;
mod files;
mod many;
mod thread;
mod worker;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use xdfs_client::tree::{Event, NotBegun, Receive, Remote, WriteFiles};
use xdfs_client::{Error, ErrorKind, Level, PutOptions};
use xdfs_gridftp::client::Session;
use xdfs_io::store::{LocalStore, Source, Store};
use xdfs_proto::base::RelPath;
use xdfs_proto::limits::{CALL_BYTES_MAX, OPERATIONS_MAX};

use self::calls::Listings;
use self::many::Listed;
use self::thread::work;
use super::{NoSession, Opener, PartRecords};
use crate::exit::{Exit, Failure};
use crate::plan::{Check, Options};

/// Where its clock begins: a copy compares times of one run with those of the next.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// How often it is checked whether to continue.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A request of the copy.
enum Request {
    /// Calls in a batch.
    Calls { payload: Vec<u8>, room: usize },
    /// A local file goes to this path.
    Send { source: Source, to: Vec<u8>, options: PutOptions },
    /// A file of the server comes here.
    Receive { from: Vec<u8>, receive: Receive },
}

/// Requests under their numbers, for whichever thread is free.
type Queue = Mutex<Receiver<(u64, Box<Request>)>>;

/// What the threads share.
struct Shared {
    store: LocalStore,
    opener: Opener,
    /// Where temporary names are recorded.
    records: PartRecords,
    /// Listings of which some pages were not asked for yet.
    listings: Mutex<Listings>,
    cancelled: AtomicBool,
    /// Bytes of the transfers in progress.
    moving: AtomicU64,
    /// The server renames nothing.
    in_place: AtomicBool,
    /// Small files of directories that were listed.
    listed: Mutex<Listed>,
    /// How often many small files at once ended in trouble.
    troubles: AtomicU32,
    /// Names of the local end that the server does not list are removed.
    deletes: bool,
    /// Contents are compared where the server can say its own.
    verify: bool,
}

/// An FTP server as a copy of a tree sees it.
pub(in crate::cmd) struct FtpRemote {
    requests: Option<SyncSender<(u64, Box<Request>)>>,
    answers: Receiver<Event>,
    answer: SyncSender<Event>,
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl FtpRemote {
    /// Opens as many sessions as channels are asked for; a server that admits fewer is used with those.
    /// `store` is the local end of the tree.
    pub(super) fn open(
        opener: Opener,
        store: LocalStore,
        (options, deletes): (&Options, bool),
        records: PartRecords,
    ) -> Result<Self, NoSession> {
        let first = opener.open()?;
        // There are at most as many requests in flight: there is always room.
        let (requests, queue) = sync_channel(OPERATIONS_MAX);
        let (answer, answers) = sync_channel(OPERATIONS_MAX);
        let shared = Arc::new(Shared {
            store,
            opener,
            records,
            listings: Mutex::default(),
            cancelled: AtomicBool::new(false),
            moving: AtomicU64::new(0),
            in_place: AtomicBool::new(false),
            listed: Mutex::default(),
            troubles: AtomicU32::new(0),
            deletes,
            verify: matches!(options.check, Check::Hash | Check::Reread),
        });
        let queue = Arc::new(Mutex::new(queue));
        let mut remote = Self { requests: Some(requests), answers, answer, shared, workers: Vec::new() };
        remote.add_worker(&queue, Some(first))?;
        for _ in 1..options.channels {
            remote.add_worker(&queue, None)?;
        }
        Ok(remote)
    }

    /// Sessions that the copy asked for.
    pub(in crate::cmd) fn sessions(&self) -> u16 {
        u16::try_from(self.workers.len()).unwrap_or(u16::MAX)
    }

    /// Whether files were written under their final names, since the server takes no other.
    pub(in crate::cmd) fn has_written_in_place(&self) -> bool {
        self.shared.in_place.load(Ordering::Relaxed)
    }

    /// How the data are protected.
    pub(in crate::cmd) fn level(&self) -> Level {
        self.shared.opener.level()
    }

    /// Adds a thread; without a session it opens one of its own, and ends if the server refuses.
    fn add_worker(&mut self, queue: &Arc<Queue>, session: Option<Session>) -> Result<(), NoSession> {
        let (shared, queue, answer) = (Arc::clone(&self.shared), Arc::clone(queue), self.answer.clone());
        let run = move || {
            if let Some(session) = session.or_else(|| shared.opener.open().ok()) {
                work(session, &shared, &queue, &answer);
            }
        };
        let thread = std::thread::Builder::new().name("xdfs-ftp".to_owned()).spawn(run).map_err(|error| {
            let text = format!("no thread for a session: {error}");
            (Failure::new(Exit::Local, text), ErrorKind::Resources)
        })?;
        self.workers.push(thread);
        Ok(())
    }

    fn ask(&mut self, number: u64, request: Request) -> Result<(), Error> {
        let lost = || Error::new(ErrorKind::ConnectionLost, "the sessions have ended");
        match self.requests.as_ref().map(|requests| requests.try_send((number, Box::new(request)))) {
            Some(Ok(())) => Ok(()),
            Some(Err(TrySendError::Full(_))) => Err(Error::new(ErrorKind::Resources, "too many requests at once")),
            Some(Err(TrySendError::Disconnected(_))) | None => Err(lost()),
        }
    }
}

impl Drop for FtpRemote {
    /// Ends the sessions. What still moves is no longer waited for.
    fn drop(&mut self) {
        self.requests = None;
        self.shared.cancelled.store(true, Ordering::Release);
        self.workers.drain(..).filter(JoinHandle::is_finished).for_each(|worker| drop(worker.join()));
    }
}

impl Remote for FtpRemote {
    fn batch_bytes_max(&self) -> usize {
        CALL_BYTES_MAX
    }

    fn now(&self) -> Duration {
        START.elapsed()
    }

    fn call(&mut self, number: u64, payload: Vec<u8>, room: usize) -> Result<(), Error> {
        self.ask(number, Request::Calls { payload, room })
    }

    fn send(&mut self, number: u64, path: &RelPath, to: &[u8], options: &PutOptions) -> Result<(), NotBegun> {
        let source = self.shared.store.open(path).map_err(NotBegun::Unreadable)?;
        let request = Request::Send { source, to: to.to_vec(), options: options.clone() };
        self.ask(number, request).map_err(NotBegun::Lost)
    }

    fn receive(&mut self, number: u64, from: &[u8], receive: Receive) -> Result<(), Error> {
        self.ask(number, Request::Receive { from: from.to_vec(), receive })
    }

    fn write(&mut self, number: u64, write: WriteFiles) {
        let _ = self.answer.try_send(Event::Placed(number, Ok(write())));
    }

    fn cancel(&mut self, _: &[u64]) {
        self.shared.cancelled.store(true, Ordering::Release);
    }

    fn moving(&self) -> u64 {
        self.shared.moving.load(Ordering::Relaxed)
    }

    fn ready(&mut self) -> Option<Event> {
        self.answers.try_recv().ok()
    }

    fn next_within(&mut self, most: Duration) -> Option<Event> {
        self.answers.recv_timeout(most.min(LOOK_EVERY)).ok()
    }
}
