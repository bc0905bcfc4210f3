//! Open files (xDFSM): what the sessions have open, and the execution of calls on it.
//!
//! A [`Handle`] is a path, an identity and the access that was granted when it was opened; the
//! descriptor behind it may be closed at any time and opened again. So thousands of handles cost
//! little, and what they cost is bounded for each user. It must open files only through
//! [`authorise`](crate::authorise).

pub(crate) mod call;
mod closing;
mod descriptors;
pub(crate) mod execution;
pub(crate) mod hidden;
mod lease_calls;
pub(crate) mod leases;
mod locks;
pub(crate) mod openers;
mod pipes;
mod shares;
mod syncs;
#[cfg(test)]
mod tests;
mod waiting;

use crate::authorise::{Root, Want};
use crate::descriptor_slots::{DescriptorSlot, DescriptorSlots};
use descriptors::Descriptors;
use hidden::HiddenFiles;
use leases::Leases;
use locks::HandleLocks;
use pipes::Pipe;
use shares::{Shares, Sharing};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard, TryLockError, Weak};
use std::time::{Duration, Instant};
use syncs::{FailedSyncs, SyncState};
use waiting::Waiting;
use xdfs_io::store::{OpenFile, OpenRequest};
use xdfs_proto::base::{Error, ErrorKind, SessionId};
use xdfs_proto::wire::file::{FileIdentity, OpenedBefore, Verifier};
use xdfs_secure::policy::{Method, Principal};
use xdfs_secure::random;

/// Handles that one user may have open in all sessions: a busy mount has thousands.
const HANDLES_MAX: usize = 16_384;

/// Memory of one user's handles, with their paths: 16 KiB paths do not multiply.
const HANDLE_BYTES_MAX: usize = 16 << 20;

/// Memory of a handle besides its path, generously.
const HANDLE_BYTES: usize = 512;

/// Files that their creators alone may write, and whose sessions ended: most that are remembered of a user, of how many
/// users, and for how long. A client whose session is lost comes back within that time.
const CREATED_MAX: usize = 1024;
const CREATORS_MAX: usize = 256;
const CREATED_KEPT: Duration = Duration::from_secs(600);

/// A file that was created by a handle which went away with its session.
struct Created {
    handle: u64,
    identity: FileIdentity,
    since: Instant,
}

/// What one user has open.
#[derive(Clone, Copy, Default, Debug)]
struct Usage {
    handles: usize,
    bytes: usize,
    /// Ranges that are locked.
    ranges: usize,
}

/// The open files of a server.
pub(crate) struct OpenFiles {
    /// Another one after every restart.
    verifier: Verifier,
    usage: Mutex<BTreeMap<Arc<str>, Usage>>,
    shares: Mutex<Shares>,
    descriptors: Mutex<Descriptors>,
    /// Descriptors that stay open, besides those.
    slots: Arc<DescriptorSlots>,
    waiting: Mutex<Waiting>,
    leases: Leases,
    hidden: HiddenFiles,
    failed_syncs: FailedSyncs,
    /// Every handle, by its number.
    handles: Mutex<BTreeMap<u64, KnownHandle>>,
    /// By user; the oldest first.
    created: Mutex<BTreeMap<Arc<str>, VecDeque<Created>>>,
}

/// A handle, and of which file: that is asked without taking part in the handle's life.
struct KnownHandle {
    session: SessionId,
    identity: FileIdentity,
    handle: Weak<Handle>,
}

/// Some of a user's limits, given back when it is dropped.
struct Reservation {
    server: Arc<OpenFiles>,
    user: Arc<str>,
    bytes: usize,
}

/// An open file of one session.
pub(crate) struct Handle {
    /// Its number.
    id: u64,
    /// Whose it is.
    session: SessionId,
    /// Its user.
    principal: Arc<Principal>,
    /// What it was opened as.
    opened: OpenState,
    /// What it is open on.
    object: Object,
    /// Bytes that were written through it; through a pipe, in either direction.
    written: AtomicU64,
    /// Kinds of changes that are in the log, one bit for each code.
    logged: AtomicU64,
    /// Set when no further call may use it; held by each call that does.
    retired: RwLock<bool>,
    /// What it takes of its user's limits.
    reserved: Reservation,
}

/// What a file was opened as: its name, the directory of the export, which file it is, and what is shared.
struct OpenState {
    /// `EXPORT/path`, as it was opened.
    name: Vec<u8>,
    /// The directory that the export had.
    root: Root,
    /// The file.
    identity: FileIdentity,
    /// What the handle does, and what it denies to others.
    sharing: Sharing,
    /// It was created by this handle, which its user may therefore write until he closes it.
    own: AtomicBool,
}

/// What a handle is open on.
enum Object {
    /// A regular file.
    File(FileState),
    /// One end of a FIFO.
    Pipe(Pipe),
}

/// Whether a directory has the name of a file on stable storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NameSync {
    /// It has, or it is not for this handle to see to.
    Synced,
    /// Not yet: the handle has created the file.
    Created,
    /// Nobody knows: the file was opened before in another session.
    Unknown,
}

/// What the server keeps of an open regular file, besides its descriptor.
struct FileState {
    /// What of it is on stable storage.
    sync: SyncState,
    /// Its locks.
    locks: HandleLocks,
    /// The change number of the file when its lease was granted, and after every change since then that
    /// was made under it: another one is a program of this machine.
    leased_change: AtomicU64,
    /// Held while something is written: the kernel has one write of a file after the other, too, and threads that wait for
    /// their turn there take a processor each.
    writing: Mutex<()>,
}

/// The open files of one session.
pub(crate) struct SessionFiles {
    session: SessionId,
    principal: Arc<Principal>,
    server: Arc<OpenFiles>,
    handles: Mutex<BTreeMap<u64, Arc<Handle>>>,
    next: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn stale(why: &str) -> Error {
    Error::new(ErrorKind::Stale, format!("stale file handle: {why}; open the file again"))
}

impl OpenFiles {
    /// Nothing is open; at most `descriptors` files are open at a time behind the handles.
    pub(crate) fn new(descriptors: usize) -> Result<Self, Error> {
        let descriptors = descriptors.max(4);
        Ok(Self {
            verifier: syncs::verifier()?,
            usage: Mutex::default(),
            shares: Mutex::default(),
            descriptors: Mutex::new(Descriptors::new(descriptors)),
            slots: Arc::new(DescriptorSlots::new(descriptors)),
            waiting: Mutex::default(),
            leases: Leases::none(),
            hidden: HiddenFiles::default(),
            failed_syncs: FailedSyncs::default(),
            handles: Mutex::default(),
            created: Mutex::default(),
        })
    }

    /// The descriptors that stay open, which unfinished trees keep, too.
    pub(crate) fn slots(&self) -> &Arc<DescriptorSlots> {
        &self.slots
    }

    fn find(&self, id: u64) -> Option<Arc<Handle>> {
        lock(&self.handles).get(&id).and_then(|known| known.handle.upgrade())
    }

    /// The handles of a file. No other one is held, since the last one who lets go of a handle closes it.
    fn handles_of(&self, identity: &FileIdentity) -> Vec<Arc<Handle>> {
        let handles = lock(&self.handles);
        handles
            .values()
            .filter(|known| known.identity == *identity)
            .filter_map(|known| known.handle.upgrade())
            .collect()
    }

    /// Whether a lost session of this user created the file with that handle.
    fn is_own(&self, before: OpenedBefore, user: &str) -> bool {
        let old = self.find(before.handle);
        if let Some(old) = old {
            return old.opened.is_own() && *old.reserved.user == *user && old.opened.identity == before.identity;
        }
        lock(&self.created).get(user).into_iter().flatten().any(|one| {
            one.handle == before.handle && one.identity == before.identity && one.since.elapsed() < CREATED_KEPT
        })
    }

    fn remember_created(&self, user: &Arc<str>, one: Created) {
        let is_over = |one: &Created| one.since.elapsed() >= CREATED_KEPT;
        let mut all = lock(&self.created);
        if !all.contains_key(user) && all.len() >= CREATORS_MAX {
            all.retain(|_, created| !created.back().is_none_or(is_over));
            // The one who needed it longest ago.
            let since = |created: &VecDeque<Created>| created.back().map(|one| one.since);
            if all.len() >= CREATORS_MAX
                && let Some(oldest) =
                    all.iter().min_by_key(|(_, created)| since(created)).map(|(user, _)| Arc::clone(user))
            {
                all.remove(&oldest);
            }
        }
        let created = all.entry(Arc::clone(user)).or_default();
        while created.front().is_some_and(|one| created.len() >= CREATED_MAX || is_over(one)) {
            created.pop_front();
        }
        created.push_back(one);
    }

    /// Closes the handle that a lost session of this user had. A call that still uses it, perhaps of another export whose disk
    /// hangs, is not waited for: the thread belongs to this export.
    fn take_over(&self, id: u64, user: &str) -> Result<(), Error> {
        let old = self.find(id);
        if old.is_some_and(|old| *old.reserved.user == *user && !old.retire_unless_used()) {
            let text = "a call of the lost session still uses the file; try again later";
            return Err(Error::new(ErrorKind::Busy, text));
        }
        Ok(())
    }

    fn reserve(self: &Arc<Self>, user: &Arc<str>, path_bytes: usize) -> Result<Reservation, Error> {
        let bytes = HANDLE_BYTES + path_bytes;
        let mut usage = lock(&self.usage);
        let one = usage.entry(Arc::clone(user)).or_default();
        if one.handles >= HANDLES_MAX || one.bytes + bytes > HANDLE_BYTES_MAX {
            let text = format!("you have {} files open; close some first", one.handles);
            return Err(Error::new(ErrorKind::LimitExceeded, text));
        }
        one.handles += 1;
        one.bytes += bytes;
        drop(usage);
        Ok(Reservation { server: Arc::clone(self), user: Arc::clone(user), bytes })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut usage = lock(&self.server.usage);
        if let Some(one) = usage.get_mut(&self.user) {
            one.handles -= 1;
            one.bytes -= self.bytes;
            if one.handles == 0 {
                usage.remove(&self.user);
            }
        }
    }
}

/// What a user must be allowed to do to change a file, and to keep others from it: one that is his `own` needs no more than
/// the right to create.
fn changing(own: bool) -> Want {
    if own { Want::Write { keep: true } } else { Want::Change }
}

impl OpenState {
    fn new(name: &[u8], root: Root, identity: FileIdentity, sharing: Sharing, own: bool) -> Self {
        Self { name: name.to_vec(), root, identity, sharing, own: AtomicBool::new(own) }
    }

    /// Whether the file was created by this handle.
    fn is_own(&self) -> bool {
        self.own.load(Ordering::Relaxed)
    }

    /// What its user must be allowed to do to change the file, and to keep others from it.
    fn changing(&self) -> Want {
        changing(self.is_own())
    }

    /// The request that opens the file again as it was opened.
    fn request(&self) -> OpenRequest {
        OpenRequest { read: self.sharing.read, write: self.sharing.write, ..OpenRequest::default() }
    }
}

impl Object {
    /// A regular file, whose name is so far on stable storage.
    fn file(name: NameSync) -> Self {
        Self::File(FileState {
            sync: SyncState::new(name),
            locks: HandleLocks::default(),
            leased_change: AtomicU64::new(0),
            writing: Mutex::default(),
        })
    }
}

impl Handle {
    fn new(files: &SessionFiles, id: u64, opened: OpenState, object: Object, reserved: Reservation) -> Self {
        Self {
            id,
            session: files.session,
            principal: Arc::clone(&files.principal),
            opened,
            object,
            written: AtomicU64::new(0),
            logged: AtomicU64::new(0),
            retired: RwLock::new(false),
            reserved,
        }
    }

    /// What is kept of its file, if that is a regular one.
    fn file(&self) -> Result<&FileState, Error> {
        match &self.object {
            Object::File(file) => Ok(file),
            Object::Pipe(_) => Err(Error::new(ErrorKind::NotRegular, "it is a pipe")),
        }
    }

    /// Whether its user did not log in.
    fn is_of_visitor(&self) -> bool {
        self.principal.method == Method::Anonymous
    }

    /// Its user, as others see it: empty for visitors.
    fn shown(&self) -> &str {
        if self.is_of_visitor() { "" } else { &self.principal.user }
    }

    /// One more descriptor of its user that stays open.
    fn descriptor_slot(&self) -> Result<DescriptorSlot, Error> {
        self.reserved.server.slots.take(&self.reserved.user, self.is_of_visitor())
    }

    fn passed(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn descriptors(&self) -> MutexGuard<'_, Descriptors> {
        lock(&self.reserved.server.descriptors)
    }

    /// The descriptor, if it is still open; it is then the one used last.
    fn descriptor(&self) -> Option<Arc<OpenFile>> {
        self.descriptors().of(self.id)
    }

    /// Keeps a descriptor open, and closes the ones that are too many.
    fn keep(&self, file: Arc<OpenFile>) {
        let closed = self.descriptors().keep(self.id, &self.reserved.user, file);
        drop(closed);
    }

    /// Lets no call begin any more, unless one uses it now. Returns whether it did.
    fn retire_unless_used(&self) -> bool {
        match self.retired.try_write() {
            Ok(retired) => self.end(retired),
            Err(TryLockError::Poisoned(retired)) => self.end(retired.into_inner()),
            Err(TryLockError::WouldBlock) => return false,
        }
        true
    }

    /// Waits for the calls that use it, and lets no other one begin.
    fn retire(&self) {
        self.end(self.retired.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn end(&self, mut retired: RwLockWriteGuard<'_, bool>) {
        if std::mem::replace(&mut *retired, true) {
            return;
        }
        if self.opened.is_own() {
            let one = Created { handle: self.id, identity: self.opened.identity, since: Instant::now() };
            self.reserved.server.remember_created(&self.reserved.user, one);
        }
        self.end_locks();
        self.reserved.server.lease_lost(self);
        let pipe = self.end_pipe();
        let closed = self.descriptors().gone(self.id);
        lock(&self.reserved.server.shares).close(&self.opened.identity, self.opened.sharing);
        drop((pipe, closed));
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.retire();
        lock(&self.reserved.server.handles).remove(&self.id);
    }
}

impl SessionFiles {
    /// A session of this user that has nothing open.
    pub(crate) fn new(server: &Arc<OpenFiles>, session: SessionId, principal: &Arc<Principal>) -> Self {
        Self {
            session,
            principal: Arc::clone(principal),
            server: Arc::clone(server),
            handles: Mutex::default(),
            next: AtomicU64::new(0),
        }
    }

    /// The open files of all sessions.
    pub(crate) fn server(&self) -> &Arc<OpenFiles> {
        &self.server
    }

    /// Whether it has any open.
    pub(crate) fn any(&self) -> bool {
        !lock(&self.handles).is_empty()
    }

    /// Whether others rely on what it has open: it holds locks, or opened files for itself alone.
    pub(crate) fn exclude_others(&self) -> bool {
        lock(&self.handles).values().any(|handle| handle.excludes_others())
    }

    fn handle(&self, id: u64) -> Result<Arc<Handle>, Error> {
        lock(&self.handles).get(&id).cloned().ok_or_else(|| stale("this session has no such handle"))
    }

    fn close(&self, id: u64) -> Result<Arc<Handle>, Error> {
        let closed = lock(&self.handles).remove(&id).ok_or_else(|| stale("this session has no such handle"))?;
        closed.opened.own.store(false, Ordering::Relaxed);
        self.server.give_back(&closed);
        if let Object::Pipe(pipe) = &closed.object {
            pipe.close();
        }
        Ok(closed)
    }

    fn adopt(&self, handle: &Arc<Handle>) {
        let (session, identity, known) = (handle.session, handle.opened.identity, Arc::downgrade(handle));
        lock(&self.server.handles).insert(handle.id, KnownHandle { session, identity, handle: known });
        lock(&self.handles).insert(handle.id, Arc::clone(handle));
    }

    /// A number that no other handle of this server has: one that a client took over from another
    /// session opens nothing in this one.
    fn next_id(&self) -> Result<u64, Error> {
        let drawn: [u8; 8] = random::array()?;
        // The counter keeps them apart within the session, whatever was drawn; both fit into 62 bits.
        let count = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        Ok((u64::from_be_bytes(drawn) & 0x3fff_ffff) << 32 | (count & 0xffff_ffff))
    }
}

impl Drop for SessionFiles {
    fn drop(&mut self) {
        // Before the handles are gone: at any moment a creator finds his file there, or remembered.
        lock(&self.handles).values().for_each(|handle| handle.retire());
    }
}
