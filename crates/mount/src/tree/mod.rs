//! What is mounted: the kernel's calls, made at the server.

mod ahead;
mod attributes;
mod behind;
mod data;
mod directories;
mod generations;
mod hidden;
mod known_facts;
mod link_targets;
mod lock;
mod lost_answers;
mod names;
mod new_modes;
mod notices;
mod recent_changes;
mod root;
mod syncs;
mod xattr;
mod xattr_names;

use crate::errno;
use crate::handles::Handles;
use crate::inodes::{Inodes, ROOT};
use crate::kernel::{Answer, Call, FileSystem, Kernel, Newer, Operation, Outcome};
use ahead::{Ahead, Early};
use behind::{Behind, Content};
use data::OpenFile;
use directories::OpenDirectory;
use hidden::Hiding;
use known_facts::KnownFacts;
use link_targets::KnownTargets;
use lock::RangeLocker;
use lost_answers::Fate;
use new_modes::DefaultLists;
use notices::Notices;
use recent_changes::RecentChanges;
use root::Root;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use syncs::LeftUnsynced;
use xattr_names::KnownNames;
use xdfs_client::file::Remote;
use xdfs_client::wire::{self, Answer as Told, Kept, Wanted};
use xdfs_client::{Batch, Error, ErrorKind, Facts, Reply, failed};

/// Files, and directories, that may be open at a time. The server's own limit for a user is 16,384.
const OPEN_MAX: usize = 16_000;

/// Attributes that every name is asked for.
const WANTED: Wanted = Wanted::MODE
    .and(Wanted::SIZE)
    .and(Wanted::MODIFIED)
    .and(Wanted::ACCESSED)
    .and(Wanted::LINKS)
    .and(Wanted::INODE)
    .and(Wanted::OWNER)
    .and(Wanted::DEVICE)
    .and(Wanted::ALLOCATED)
    .and(Wanted::CHANGE);

/// Names that begin so are of files that were removed while they were open. Nobody sees them through
/// a mount.
const HIDDEN: &[u8] = b".xdfs-removed-";

/// The longest name: that of the protocol and of every file system of Linux.
const NAME_BYTES_MAX: usize = 255;

/// How a directory is mounted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Nothing is written.
    pub read_only: bool,
    /// Who owns the files as programs see them: user and group; none shows the server's numbers.
    pub owner: Option<(u32, u32)>,
    /// How long names and attributes may be used without another look.
    pub valid: Duration,
}

/// A directory of a server.
pub struct Tree {
    remote: Arc<Remote>,
    base: Vec<u8>,
    settings: Settings,
    inodes: Mutex<Inodes>,
    files: Handles<OpenFile>,
    directories: Handles<OpenDirectory>,
    /// Of inodes with locks of ranges.
    lockers: Mutex<BTreeMap<u64, RangeLocker>>,
    /// Of inodes that were opened, until the kernel forgets them.
    contents: Mutex<BTreeMap<u64, Content>>,
    behind: Behind,
    changes: Arc<RecentChanges>,
    ahead: Ahead,
    early: Early,
    known: Known,
    /// Held alone while a directory is moved.
    moving: RwLock<()>,
    hiding: Hiding,
}

/// What the server has told, for as long as it may be used without another look, and what it tells has changed.
#[derive(Debug)]
struct Known {
    root: Root,
    facts: KnownFacts,
    link_targets: KnownTargets,
    xattr_names: KnownNames,
    default_lists: DefaultLists,
    notices: Notices,
    /// Which machine it told of has what nobody does again.
    left_unsynced: LeftUnsynced,
}

impl Known {
    fn new(root: Facts) -> Self {
        let are_kept = root.kept.is_none_or(|kept| kept.has(Kept::ACL) || kept.has(Kept::XATTR));
        Self {
            root: Root::new(root),
            facts: KnownFacts::default(),
            link_targets: KnownTargets::default(),
            xattr_names: KnownNames::new(are_kept),
            default_lists: DefaultLists::default(),
            notices: Notices::default(),
            left_unsynced: LeftUnsynced::default(),
        }
    }
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tree({})", self.base.escape_ascii())
    }
}

/// The result of a call that the kernel waits for.
type Outcomes = Result<Answer, Errno>;

fn refused(error: &Error) -> Errno {
    errno::of(error)
}

fn unexpected() -> Errno {
    Errno::IO
}

impl Tree {
    /// The directory `base` (`EXPORT/path`, nothing encoded) of a server. It must be there.
    pub fn new(remote: Arc<Remote>, base: Vec<u8>, settings: Settings, token: u64) -> Result<Self, Error> {
        let ask = |wanted| {
            let mut batch = Batch::new(base.as_slice());
            let stat = wire::Call::Stat { path: b"", wanted };
            batch.push_with_room(&stat, stat.room());
            remote.call(&batch)
        };
        // An older server does not know that it can be asked for this.
        let reply = ask(WANTED.and(Wanted::KEPT)).or_else(|error| match error.kind {
            ErrorKind::Protocol => ask(WANTED),
            _ => Err(error),
        })?;
        let facts = match reply.read()?.outcomes.first() {
            Some(Ok(Told::Attributes(told))) => Facts::from(told),
            Some(Err(failure)) => return Err(failed(*failure, &format!("'{}'", base.escape_ascii()))),
            _ => return Err(Error::new(ErrorKind::Protocol, "the server answered something else")),
        };
        if facts.kind != wire::FileType::Directory {
            let text = format!("'{}' is no directory: only directories are mounted", base.escape_ascii());
            return Err(Error::new(ErrorKind::NotDirectory, text));
        }
        let identity = facts.inode.unwrap_or_default();
        Ok(Self {
            remote,
            base,
            settings,
            inodes: Mutex::new(Inodes::new(identity)),
            files: Handles::new(OPEN_MAX),
            directories: Handles::new(OPEN_MAX),
            lockers: Mutex::default(),
            contents: Mutex::default(),
            behind: Behind::default(),
            changes: Arc::default(),
            ahead: Ahead::default(),
            early: Early::default(),
            known: Known::new(facts),
            moving: RwLock::new(()),
            hiding: Hiding::new(token),
        })
    }

    fn inodes(&self) -> MutexGuard<'_, Inodes> {
        self.inodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path of an inode below the base. One that was removed at the server is stale.
    fn path(&self, inode: u64) -> Result<Vec<u8>, Errno> {
        self.inodes().path(inode).ok_or(Errno::STALE)
    }

    /// The path of a name, which must not be one of ours.
    fn path_in(&self, parent: u64, name: &[u8]) -> Result<Vec<u8>, Errno> {
        if name.starts_with(HIDDEN) {
            return Err(Errno::NOENT);
        }
        // The kernel passes on up to 1,024 bytes.
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        self.inodes().path_in(parent, name).ok_or(Errno::NOENT)
    }

    /// The same path as files are opened by.
    fn full(&self, path: &[u8]) -> Vec<u8> {
        let mut full = self.base.clone();
        if !path.is_empty() {
            full.push(b'/');
            full.extend_from_slice(path);
        }
        full
    }

    /// Makes calls that may be made twice; none behind one that fails.
    fn look(&self, calls: &[wire::Call<'_>]) -> Result<Reply, Errno> {
        self.remote.call(&self.batch(calls)).map_err(|error| refused(&error))
    }

    /// Makes changes of attributes: made twice, they are what they are when they are made once.
    fn change(&self, calls: &[wire::Call<'_>]) -> Result<Reply, Errno> {
        self.change_once(calls, |_| Ok(Fate::NotDone))?.ok_or_else(unexpected)
    }

    fn batch(&self, calls: &[wire::Call<'_>]) -> Batch {
        let mut batch = Batch::new(self.base.as_slice()).stop_at_failure();
        for call in calls {
            batch.push_with_room(call, call.room());
        }
        batch
    }
}

/// The first failure of a reply, or its last result.
fn last(reply: &Reply) -> Result<Told<'_>, Errno> {
    let outcomes = reply.read().map_err(|error| refused(&error))?.outcomes;
    let mut last = None;
    for outcome in outcomes {
        last = Some(outcome.map_err(|failure| refused(&failed(failure, "")))?);
    }
    last.ok_or_else(unexpected)
}

/// The attributes that a reply ends with.
fn facts(reply: &Reply) -> Result<Facts, Errno> {
    match last(reply)? {
        Told::Attributes(told) => Ok(Facts::from(&told)),
        _ => Err(unexpected()),
    }
}

impl FileSystem for Tree {
    fn call(&self, call: &Call<'_>) -> Outcome {
        match call.operation {
            Operation::Lock(request) => self.lock(&request),
            _ => Outcome::Now(self.leaving_names(call, || self.noting(call, || self.on_name(call)))),
        }
    }

    fn at_once(&self, call: &Call<'_>) -> Option<Outcomes> {
        match call.operation {
            Operation::LookUp { name } => self.look_up_at_once(call.inode, name),
            Operation::Attributes { .. } => self.attributes_at_once(call.inode),
            Operation::Xattr { name, .. } => self.xattr_at_once(call.inode, name),
            _ => None,
        }
    }

    fn forget(&self, inode: u64, lookups: u64) {
        let mut inodes = self.inodes();
        inodes.forget(inode, lookups);
        // Its pages are dropped with it, or after the next open.
        if inodes.identity(inode).is_none() {
            self.contents().remove(&inode);
            self.changes.forget(inode, self.settings.valid);
        }
    }

    fn dropped_older(&self, newer: Newer) {
        self.read_newer(newer);
    }

    fn undelivered(&self, answer: Answer) {
        match answer {
            Answer::Entry(entry) => self.forget(entry.id, 1),
            Answer::Created { entry, handle, .. } => {
                let _ = self.release(handle);
                self.forget(entry.id, 1);
            }
            Answer::Opened { handle, .. } => drop(self.release(handle)),
            Answer::OpenedDirectory { handle } => drop(self.directories.remove(handle)),
            Answer::Directory(buffer) => buffer.looked_up.iter().for_each(|id| self.forget(*id, 1)),
            _ => {}
        }
    }

    fn locks(&self) -> bool {
        // A lock needs the right to change the file.
        !self.settings.read_only
    }

    fn work(&self, kernel: &dyn Kernel) {
        std::thread::scope(|scope| {
            scope.spawn(|| self.notice(kernel));
            scope.spawn(|| self.keep_hidden());
            scope.spawn(|| self.look_at_root());
            scope.spawn(|| self.look_at_space());
            for _ in 0..ahead::WORKERS {
                scope.spawn(|| self.list_ahead());
            }
            for _ in 0..ahead::OPENERS {
                scope.spawn(|| self.open_early());
            }
            self.push_writes();
        });
    }

    fn end_work(&self) {
        self.end_writing();
        self.ahead.end();
        self.early.end();
        self.hiding.keeper.end();
        self.known.root.end();
        self.known.notices.end();
    }
}

impl Tree {
    fn on_name(&self, call: &Call<'_>) -> Outcomes {
        let at = call.inode;
        match call.operation {
            Operation::LookUp { name } => self.look_up(at, name),
            Operation::Attributes { handle } => self.attributes(at, handle).map_err(of_known_file),
            Operation::SetAttributes(new) => self.set_attributes(at, &new),
            Operation::ReadLink => self.read_link(at),
            Operation::Symlink { name, target } => self.symlink(at, name, target),
            Operation::MakeNode { name, mode, device } => self.make_node(at, name, mode, device),
            Operation::MakeDirectory { name, mode } => self.make_directory(at, name, mode),
            Operation::Unlink { name } => self.unlink(at, name),
            Operation::RemoveDirectory { name } => self.remove_directory(at, name),
            Operation::Rename { name, parent, to, flags } => self.rename((at, name), (parent, to), flags),
            Operation::Link { inode, name } => self.link(inode, at, name),
            Operation::FileSystem => self.file_system(at),
            Operation::SetXattr { name, value, flags } => self.set_xattr(at, name, value, flags),
            Operation::Xattr { name, size } => self.xattr(at, name, size),
            Operation::XattrNames { size } => self.xattr_names(at, size),
            Operation::RemoveXattr { name } => self.remove_xattr(at, name),
            Operation::OpenDirectory => self.open_directory(at),
            Operation::ReadDirectory { handle, offset, size, plus } => {
                self.read_directory((at, handle), offset, size, plus)
            }
            Operation::ReleaseDirectory { handle } => {
                self.directories.remove(handle);
                Ok(Answer::Done)
            }
            Operation::SyncDirectory => self.sync_names(at, || self.sync_directory(at)),
            _ => self.on_file(call),
        }
    }

    fn on_file(&self, call: &Call<'_>) -> Outcomes {
        match call.operation {
            Operation::Open { flags } => self.open(call.inode, flags),
            Operation::Create { name, mode, flags } => self.create(call.inode, name, mode, flags),
            _ => self.on_open_file(call).map_err(of_known_file),
        }
    }

    fn on_open_file(&self, call: &Call<'_>) -> Outcomes {
        match call.operation {
            Operation::Read { handle, offset, size } => self.read(handle, offset, size),
            Operation::Write { handle, offset, flags, cause, data } => self.write(handle, offset, data, (flags, cause)),
            Operation::FindLock(request) => self.find_lock(&request),
            Operation::Flush { handle, owner } => self.flush(handle, owner),
            Operation::Release { handle } => self.release(handle),
            Operation::Sync { handle, data_only } => self.sync(handle, data_only),
            Operation::Allocate { handle, offset, length, mode } => self.allocate(handle, (offset, length), mode),
            Operation::Seek { handle, offset, whence } => self.seek(handle, offset, whence),
            _ => Err(Errno::NOSYS),
        }
    }
}

/// A file that the kernel knows, and that its name does not lead to any more, is stale: a program that reads an open file has named
/// nothing that could be missing, and for one that has named it the kernel asks for the name again.
fn of_known_file(errno: Errno) -> Errno {
    if errno == Errno::NOENT { Errno::STALE } else { errno }
}

/// Whether an inode is the directory that is mounted.
fn is_root(inode: u64) -> bool {
    inode == ROOT
}

#[cfg(test)]
mod tests {
    use super::*;
    use xdfs_client::ConnectOptions;

    #[test]
    fn an_open_that_was_not_delivered_leaves_the_directory_of_its_number_open() {
        let tree = Tree {
            remote: Remote::new(ConnectOptions::to(std::net::SocketAddr::from(([127, 0, 0, 1], 1)))),
            base: b"data".to_vec(),
            settings: Settings { read_only: false, owner: None, valid: Duration::ZERO },
            inodes: Mutex::new(Inodes::new([0; 16])),
            files: Handles::new(1),
            directories: Handles::new(1),
            lockers: Mutex::default(),
            contents: Mutex::default(),
            behind: Behind::default(),
            changes: Arc::default(),
            ahead: Ahead::default(),
            early: Early::default(),
            known: Known::new(Facts::from(&wire::Attributes::of(wire::FileType::Directory))),
            moving: RwLock::new(()),
            hiding: Hiding::new(0),
        };
        let handle = tree.directories.insert(OpenDirectory::default());
        tree.undelivered(Answer::Opened { handle, flags: 0, changed: None });
        assert!(tree.directories.find(handle).is_some(), "files have numbers of their own");
        tree.undelivered(Answer::OpenedDirectory { handle });
        assert!(tree.directories.find(handle).is_none());
    }
}
