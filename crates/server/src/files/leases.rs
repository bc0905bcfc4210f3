//! Leases on open files: the table of `proto/lease` with a clock, and what every access asks it.
//!
//! Nothing waits here: an access that a lease excludes is an error, and whoever has the lease is told.
//! As long as nobody has one, an access costs a count, but for a download and a hash. It must not open files.

use super::{Handle, OpenFiles, lock};
use crate::authorise::Authorized;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use xdfs_io::store::tree::{Node, NodeKind};
use xdfs_proto::base::{Error, ErrorKind, Instant as Moment, SessionId};
use xdfs_proto::lease::{Access, Holder, LeaseAnswer, LeaseKind, LeaseTable, LeaseTerms};
use xdfs_proto::wire::file::LeaseCall;

/// Leases in all, and of one user: with 400 bytes each they stay below 8 MiB.
const LEASES_MAX: usize = 16_384;
const LEASES_EACH_MAX: usize = 4096;

/// How often leases whose time is over are forgotten.
const SWEEP: Duration = Duration::from_secs(1);

/// A process that hands its files over may grant leases for this long while the next one starts.
const HANDED_OVER: Duration = Duration::from_secs(5);

/// Which file it is: device and inode. The time of birth that handles know, too, is not told by every
/// look at a name; an inode that is used again inherits the leases of its predecessor, which end.
pub(crate) type FileKey = [u8; 16];

/// Tells the client of a session that the leases of these handles are recalled. Never waits.
pub(crate) type TellRecalled = Box<dyn Fn(SessionId, Vec<u64>) + Send + Sync>;

type Who = Holder<Arc<str>>;

struct Table {
    leases: LeaseTable<FileKey, Arc<str>>,
    sweep_at: Instant,
    /// Until then every access asks the table, even if there is no lease.
    asked_until: Instant,
}

/// The leases of a server.
pub(crate) struct Leases {
    /// None if no leases are granted.
    table: Option<Mutex<Table>>,
    /// There may be leases: every access asks the table.
    active: AtomicBool,
    /// Accesses that began when there were none, and have not ended.
    unasked: AtomicUsize,
    since: Instant,
    tell: TellRecalled,
}

/// What an access that has begun must end.
#[derive(Debug)]
enum Begun {
    Nothing,
    Unasked,
    Asked(FileKey, Access),
}

/// An access to a file that no lease excludes, until this is dropped: no lease that would exclude it is
/// granted meanwhile.
pub(crate) struct AccessGuard {
    server: Arc<OpenFiles>,
    begun: Begun,
}

/// Changes are made under a write lease, which does not end before this is dropped.
pub(super) struct Pinned {
    server: Arc<OpenFiles>,
    who: Who,
}

/// The file with this device and inode.
pub(crate) fn key_of((device, inode): (u64, u64)) -> FileKey {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&device.to_be_bytes());
    key[8..].copy_from_slice(&inode.to_be_bytes());
    key
}

/// The file of a name, if it is one that can have leases.
pub(crate) fn file_at(at: &Authorized) -> Option<FileKey> {
    let node = at.store().tree().and_then(|tree| tree.node(at.path())).ok()?;
    file_of(&node)
}

/// The file of a node, if it is one that can have leases.
pub(crate) fn file_of(node: &Node) -> Option<FileKey> {
    (node.kind == NodeKind::Regular).then(|| key_of(node.identity))
}

fn must_wait() -> Error {
    Error::new(ErrorKind::Busy, "somebody else has a lease on the file, which is recalled; try again")
}

impl Leases {
    /// None are granted.
    pub(super) fn none() -> Self {
        Self {
            table: None,
            active: AtomicBool::new(false),
            unasked: AtomicUsize::new(0),
            since: Instant::now(),
            tell: Box::new(|_, _| {}),
        }
    }

    /// Leases hold for `time`. If a process before this one may have granted some, those are waited for.
    pub(crate) fn new(time: Duration, before: bool, handed_over: bool, tell: TellRecalled) -> Self {
        if time.is_zero() {
            return Self::none();
        }
        let terms = LeaseTerms { time, pause: time * 2, most: LEASES_MAX, most_each: LEASES_EACH_MAX };
        let since = Instant::now();
        let still = if handed_over { HANDED_OVER } else { Duration::ZERO };
        let leases = match before {
            true => LeaseTable::restarted(terms, Moment(0).after(still)),
            false => LeaseTable::new(terms),
        };
        let asked_until = since + if before { still + time } else { Duration::ZERO };
        Self {
            table: Some(Mutex::new(Table { leases, sweep_at: since, asked_until })),
            active: AtomicBool::new(before),
            unasked: AtomicUsize::new(0),
            since,
            tell,
        }
    }

    /// Does something with the table; returns its result and the handles to tell about a recall.
    fn with<R>(&self, act: impl FnOnce(&mut Table, Moment) -> R) -> Option<(R, Vec<u64>)> {
        let mut table = lock(self.table.as_ref()?);
        let now = Instant::now();
        let moment = Moment(0).after(now.saturating_duration_since(self.since));
        if now >= table.sweep_at {
            table.sweep_at = now + SWEEP;
            table.leases.expire_all(moment);
            if table.leases.is_empty() && now >= table.asked_until {
                self.active.store(false, Ordering::SeqCst);
            }
        }
        let result = act(&mut table, moment);
        let recalled = std::iter::from_fn(|| table.leases.poll_recall()).map(|who| who.handle).collect();
        Some((result, recalled))
    }

    fn begin(
        &self,
        file: impl FnOnce() -> Option<FileKey>,
        by: Option<&Who>,
        access: Access,
    ) -> (Result<Begun, Error>, Vec<u64>) {
        if self.table.is_none() {
            return (Ok(Begun::Nothing), Vec::new());
        }
        // Whoever grants the first lease sees this count, or this sees that there are leases.
        self.unasked.fetch_add(1, Ordering::SeqCst);
        if !self.active.load(Ordering::SeqCst) {
            return (Ok(Begun::Unasked), Vec::new());
        }
        self.unasked.fetch_sub(1, Ordering::SeqCst);
        self.ask(file(), by, access)
    }

    /// Asks the table, whether there are leases or not.
    fn ask(&self, file: Option<FileKey>, by: Option<&Who>, access: Access) -> (Result<Begun, Error>, Vec<u64>) {
        // Without a file the table is gone to all the same: it finds out that there are no leases any more.
        let begun = self.with(|table, now| {
            let begun = file.map(|file| table.leases.begin(&file, by, access, now).map(|()| file));
            begun.transpose().map_err(|_| must_wait())
        });
        let (begun, recalled) = begun.unwrap_or((Ok(None), Vec::new()));
        (begun.map(|file| file.map_or(Begun::Nothing, |file| Begun::Asked(file, access))), recalled)
    }
}

impl OpenFiles {
    /// Grants leases from now on, as these say.
    pub(crate) fn with_leases(self, leases: Leases) -> Self {
        Self { leases, ..self }
    }

    /// Somebody, through this handle or by a name, looks at the file or changes it: Busy if somebody
    /// else's lease excludes that. `file` is asked for only if there are leases; if it finds none there
    /// is nothing to wait for.
    pub(crate) fn access(
        self: &Arc<Self>,
        file: impl FnOnce() -> Option<FileKey>,
        by: Option<&Handle>,
        access: Access,
    ) -> Result<AccessGuard, Error> {
        let (begun, recalled) = self.leases.begin(file, by.map(Handle::holder).as_ref(), access);
        self.tell_recalled(recalled);
        Ok(AccessGuard { server: Arc::clone(self), begun: begun? })
    }

    /// Somebody reads the file for as long as he likes. The table knows of that even if there are no
    /// leases: nobody else has to wait for its end to have one on another file.
    pub(crate) fn look_for_long(
        self: &Arc<Self>,
        file: impl FnOnce() -> Option<FileKey>,
    ) -> Result<AccessGuard, Error> {
        let key = if self.has_leases() { file() } else { None };
        let (begun, recalled) = self.leases.ask(key, None, Access::Look);
        self.tell_recalled(recalled);
        Ok(AccessGuard { server: Arc::clone(self), begun: begun? })
    }

    /// The file loses a name, or gets another one: its leases are recalled, and nobody waits.
    pub(crate) fn renamed(self: &Arc<Self>, file: impl FnOnce() -> Option<FileKey>) {
        drop(self.access(file, None, Access::Change));
    }

    /// Whether leases are granted at all.
    pub(super) fn has_leases(&self) -> bool {
        self.leases.table.is_some()
    }

    /// A client asks for a lease, or to have one for longer, or again.
    pub(super) fn lease(&self, handle: &Handle, call: LeaseCall) -> LeaseAnswer {
        let (who, file, leases) = (handle.holder(), handle.key(), &self.leases);
        let answered = leases.with(|table, now| {
            table.asked_until = table.asked_until.max(Instant::now() + table.leases.terms().time);
            leases.active.store(true, Ordering::SeqCst);
            match call {
                // Accesses of which the table does not know.
                LeaseCall::Ask(_) if leases.unasked.load(Ordering::SeqCst) > 0 => table.leases.renew(&who, now),
                LeaseCall::Ask(kind) => table.leases.ask(&file, &who, kind, now),
                LeaseCall::Renew => table.leases.renew(&who, now),
                LeaseCall::Reclaim { kind, before } => table.leases.reclaim(&file, before, &who, kind, now),
                LeaseCall::GiveBack | LeaseCall::Under => LeaseAnswer::Refused,
            }
        });
        let (answer, recalled) = answered.unwrap_or((LeaseAnswer::Refused, Vec::new()));
        self.tell_recalled(recalled);
        answer
    }

    /// What lease it has.
    pub(super) fn lease_kind(&self, handle: &Handle) -> Option<LeaseKind> {
        let who = handle.holder();
        self.leases.with(|table, _| table.leases.kind_of(&who))?.0
    }

    /// The handle's lease is over: given back, or its handle is closed.
    pub(super) fn give_back(&self, handle: &Handle) {
        let who = handle.holder();
        self.leases.with(|table, now| table.leases.give_back(&who, now));
    }

    /// The handle's session is lost; its lease stays until its time is over.
    pub(super) fn lease_lost(&self, handle: &Handle) {
        let who = handle.holder();
        self.leases.with(|table, _| table.leases.lost(&who));
    }

    /// Keeps the handle's write lease from ending; none if it has none.
    pub(super) fn pin_lease(self: &Arc<Self>, handle: &Handle) -> Option<Pinned> {
        let who = handle.holder();
        let (pinned, _) = self.leases.with(|table, now| table.leases.pin(&who, now))?;
        pinned.then(|| Pinned { server: Arc::clone(self), who })
    }

    /// Recalls every lease and grants no other: another process takes over.
    pub(crate) fn recall_all(&self) {
        if let Some(((), recalled)) = self.leases.with(|table, now| table.leases.close(now)) {
            self.tell_recalled(recalled);
        }
    }

    fn tell_recalled(&self, recalled: Vec<u64>) {
        if recalled.is_empty() {
            return;
        }
        let mut told: std::collections::BTreeMap<SessionId, Vec<u64>> = std::collections::BTreeMap::new();
        {
            let known = lock(&self.handles);
            for id in recalled {
                if let Some(handle) = known.get(&id) {
                    told.entry(handle.session).or_default().push(id);
                }
            }
        }
        told.into_iter().for_each(|(session, handles)| (self.leases.tell)(session, handles));
    }
}

impl Handle {
    fn holder(&self) -> Who {
        Holder { owner: Arc::clone(&self.reserved.user), handle: self.id }
    }

    pub(super) fn key(&self) -> FileKey {
        let mut key = [0; 16];
        key.copy_from_slice(&self.opened.identity[..16]);
        key
    }
}

impl std::fmt::Debug for AccessGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.begun.fmt(f)
    }
}

impl Drop for AccessGuard {
    fn drop(&mut self) {
        match self.begun {
            Begun::Nothing => {}
            Begun::Unasked => drop(self.server.leases.unasked.fetch_sub(1, Ordering::SeqCst)),
            Begun::Asked(file, access) => {
                self.server.leases.with(|table, now| table.leases.end(&file, access, now));
            }
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.server.leases.with(|table, _| table.leases.unpin(&self.who));
    }
}

/// The first call that is not executed under the lease.
pub(super) fn too_late() -> Error {
    let text = "the lease is over under which this was to be changed; somebody else may have changed it";
    Error::new(ErrorKind::TargetChanged, text)
}
