//! The server of remote files: connected when it is needed, and again after a loss.

use super::leases::Keeper;
use crate::options::ConnectOptions;
use crate::retry::{Backoff, is_lost};
use crate::session::Session;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;
use xdfs_engine::payload::PayloadPool;
use xdfs_proto::base::{Error, ErrorKind, Retry};
use xdfs_proto::wire::file::{Verifier, machine_start};

/// How long a lost server is tried again, unless the program says otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// A silent server is taken for lost after this time at the least, and at the most.
const STALL_MIN: Duration = Duration::from_secs(2);
const STALL_MAX: Duration = Duration::from_secs(30);

/// What its open files hold of what was requested before somebody read it, and again of what was written and
/// not synced, unless the program says otherwise.
const MEMORY: usize = 256 << 20;

/// Writes whose memory is kept for reuse, as long as anything is not synced: as many as one file keeps to write them
/// again.
const SPARE_WRITES_MAX: usize = 256;

/// A server whose files are opened. Several files share its session.
pub struct Remote {
    way: Way,
    patience: Duration,
    session: Mutex<Option<Arc<Session>>>,
    /// Sessions that there were.
    connections: AtomicU64,
    /// Bytes that its open files keep to write them again.
    pub(super) unsynced: AtomicUsize,
    /// Memory of writes that are synced.
    pub(super) writes: PayloadPool,
    /// Bytes that were requested for them before somebody read them.
    pub(super) ahead: AtomicUsize,
    /// How many there are at most, of each of the two.
    memory: AtomicUsize,
    keeper: Arc<Keeper>,
    /// The start of the server's machine, as an open told it in this session.
    machine: Mutex<Option<(Weak<Session>, [u8; 8])>>,
}

/// How a session is made.
enum Way {
    Connect(Box<ConnectOptions>),
    /// It was made by somebody else, and cannot be made again.
    Given,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("way", &self.way).field("patience", &self.patience).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Connect(_) => "Connect",
            Self::Given => "Given",
        })
    }
}

impl Remote {
    /// The server that `options` lead to. Nothing is connected before the first file is opened.
    pub fn new(options: ConnectOptions) -> Arc<Self> {
        Self::with_patience(options, PATIENCE)
    }

    /// The same; a lost server is tried again for this long.
    pub fn with_patience(options: ConnectOptions, patience: Duration) -> Arc<Self> {
        Self::by(Way::Connect(Box::new(options)), patience, None)
    }

    /// Connects to the server that `options` lead to. A lost one is connected again, for this long; not if the connection was
    /// made elsewhere.
    pub fn connect(options: &ConnectOptions, patience: Duration) -> Result<Arc<Self>, Error> {
        // A server that does not answer is lost, and so is the next try, before the calls are given up.
        let soon = (patience / 2).clamp(STALL_MIN, STALL_MAX);
        let options = ConnectOptions { stall: Some(soon), ..options.clone() };
        let session = Session::connect(&options)?;
        if options.connection.is_some() {
            return Ok(Self::over(session));
        }
        let options = ConnectOptions { deadline: options.deadline.min(soon), ..options };
        Ok(Self::by(Way::Connect(Box::new(options)), patience, Some(Arc::new(session))))
    }

    /// The server of this session; files are lost with it.
    pub fn over(session: Session) -> Arc<Self> {
        Self::by(Way::Given, PATIENCE, Some(Arc::new(session)))
    }

    fn by(way: Way, patience: Duration, session: Option<Arc<Session>>) -> Arc<Self> {
        let (unsynced, ahead, keeper) = (AtomicUsize::new(0), AtomicUsize::new(0), Arc::new(Keeper::default()));
        let connections = AtomicU64::new(u64::from(session.is_some()));
        let memory = AtomicUsize::new(MEMORY);
        let (session, writes) = (Mutex::new(session), PayloadPool::new(SPARE_WRITES_MAX));
        let machine = Mutex::default();
        let remote = Self { way, patience, session, connections, unsynced, writes, ahead, memory, keeper, machine };
        remote.lock().iter().for_each(|session| remote.hear_recalls(session));
        Arc::new(remote)
    }

    /// Recalls of leases go to whoever looks after them.
    fn hear_recalls(&self, session: &Session) {
        let keeper = Arc::clone(&self.keeper);
        session.tell_recalled(move |handles| keeper.recalled(handles));
    }

    pub(super) fn keeper(&self) -> &Arc<Keeper> {
        &self.keeper
    }

    /// Bytes that its open files keep in memory, to write them again if the server loses them: what
    /// was written since their last sync.
    pub fn unsynced_bytes(&self) -> usize {
        self.unsynced.load(Ordering::Relaxed)
    }

    /// Bytes that were requested for its open files before somebody read them, and are kept.
    pub fn ahead_bytes(&self) -> usize {
        self.ahead.load(Ordering::Relaxed)
    }

    /// Its open files together hold at most this much of what was requested before somebody read it, and at
    /// most this much, and the last write, of what was written and not synced. 256 MiB each unless it is said.
    pub fn bound_memory(&self, bytes: usize) {
        self.memory.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    pub(super) fn backoff(&self) -> Backoff {
        Backoff::within(self.patience)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Session>>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session, connected if there is none.
    pub(super) fn session(&self) -> Result<Arc<Session>, Error> {
        let mut session = self.lock();
        if let Some(session) = &*session {
            return Ok(Arc::clone(session));
        }
        let Way::Connect(options) = &self.way else {
            return Err(Error::new(ErrorKind::ConnectionLost, "the session ended, and with it its open files"));
        };
        let fresh = Arc::new(Session::connect(options)?);
        self.hear_recalls(&fresh);
        self.connections.fetch_add(1, Ordering::Relaxed);
        *session = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    /// The session, if there is one; waits for nobody who connects.
    pub(crate) fn present(&self) -> Option<Arc<Session>> {
        match self.session.try_lock() {
            Ok(session) => session.clone(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().clone(),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Whether there was a session at any time.
    pub(super) fn was_connected(&self) -> bool {
        self.connections() > 0
    }

    /// How many sessions there were: with another one, what the server knew of the last is over.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// A file was opened in a session.
    pub(super) fn opened_in(&self, session: &Arc<Session>, verifier: Verifier) {
        let told = (Arc::downgrade(session), machine_start(verifier));
        *self.machine.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
    }

    /// Tells the starts of the server's machine from each other, as far as the server knows them; none before a file was opened
    /// in the present session.
    pub fn machine_start(&self) -> Option<[u8; 8]> {
        let told = self.machine.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (session, start) = told?;
        let session = session.upgrade()?;
        self.present().is_some_and(|present| Arc::ptr_eq(&present, &session)).then_some(start)
    }

    /// The session is lost: the next call connects again.
    pub(super) fn lost(&self, session: &Arc<Session>) {
        let mut current = self.lock();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
            *current = None;
        }
    }

    /// Does `work` with the session, and in another one if that is lost: what must not be done twice goes
    /// into a [`Batch::once`](crate::Batch::once).
    pub fn run<T>(&self, mut work: impl FnMut(&Session) -> Result<T, Error>) -> Result<T, Error> {
        self.run_in(|session| work(session))
    }

    /// The same for work that keeps the session.
    pub(crate) fn run_in<T>(&self, mut work: impl FnMut(&Arc<Session>) -> Result<T, Error>) -> Result<T, Error> {
        let in_present = || {
            let session = self.session()?;
            let outcome = work(&session);
            if outcome.as_ref().is_err_and(is_lost) {
                self.lost(&session);
            }
            outcome
        };
        self.backoff().retry_call(|error| self.may_retry(error), in_present)
    }

    /// Whether another try may help.
    pub(super) fn may_retry(&self, error: &Error) -> bool {
        match self.way {
            // What another client has open may stay so for hours.
            _ if error.kind == ErrorKind::Locked => false,
            Way::Connect(_) => is_lost(error) || error.retry == Retry::Temporary,
            Way::Given => error.kind == ErrorKind::Busy,
        }
    }

    /// Ends the session in order, if no file uses it any more.
    pub fn close(self: Arc<Self>) -> Result<(), Error> {
        let session = self.lock().take();
        match session.map(Arc::try_unwrap) {
            Some(Ok(session)) => session.close(),
            // A file that is still open ends it when it is dropped.
            Some(Err(_)) | None => Ok(()),
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.keeper.end();
    }
}
