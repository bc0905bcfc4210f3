//! Stable storage: a sync of one open file is one of its inode, whichever descriptor it was changed through, and one that is closed
//! by now; and a sync of a directory is one of all that was done to its names.

use super::generations::Generations;
use super::{Outcomes, Tree, refused};
use crate::inodes::Identity;
use crate::kernel::{Answer, Call, Operation};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use xdfs_client::file::{File, FileIdentity, OpenOptions};
use xdfs_client::{Error, ErrorKind};

/// Of so many files and directories at least half are remembered.
const REMEMBERED_MAX: usize = 32_768;

/// How long one is remembered: a machine that lived on has written it to its disk long before.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);

/// The server's machine, from one of its starts to the next one.
type MachineStart = [u8; 8];

/// What was left in the memory of a machine, and when last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Left {
    start: MachineStart,
    since: Instant,
}

impl Left {
    fn is_recent(&self) -> bool {
        self.since.elapsed() < REMEMBERED_FOR
    }
}

/// Files that were closed, and directories whose names were changed, with something that is not known to be on stable storage.
/// Nobody does that again if the machine that has it loses it.
#[derive(Debug)]
pub(super) struct LeftUnsynced(Mutex<Generations<FileIdentity, Left>>);

fn of_directory(inode: Identity) -> FileIdentity {
    let mut identity = [0; 24];
    identity[..16].copy_from_slice(&inode);
    identity
}

impl Default for LeftUnsynced {
    fn default() -> Self {
        Self(Mutex::new(Generations::new(REMEMBERED_MAX)))
    }
}

impl LeftUnsynced {
    fn lock(&self) -> MutexGuard<'_, Generations<FileIdentity, Left>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, identity: FileIdentity, start: MachineStart) {
        let mut left = self.lock();
        // What an earlier machine had is lost if this is another one.
        let earlier = left.get(&identity).filter(|earlier| earlier.is_recent()).map(|earlier| earlier.start);
        left.insert(identity, Left { start: earlier.unwrap_or(start), since: Instant::now() });
    }

    fn find(&self, identity: FileIdentity) -> Option<Left> {
        self.lock().get(&identity).copied().filter(Left::is_recent)
    }

    /// What was found has been told of, or is on stable storage.
    fn remove(&self, identity: FileIdentity, found: Left) {
        let mut left = self.lock();
        if left.get(&identity) == Some(&found) {
            left.remove(&identity);
        }
    }

    fn forget(&self, identity: FileIdentity) {
        self.lock().remove(&identity);
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::Storage, "the server's machine was started again, and what was changed before may be lost")
}

/// The directories whose names a call changes.
fn directories_of(call: &Call<'_>) -> [Option<u64>; 2] {
    match call.operation {
        Operation::Symlink { .. }
        | Operation::MakeNode { .. }
        | Operation::MakeDirectory { .. }
        | Operation::Create { .. }
        | Operation::Unlink { .. }
        | Operation::RemoveDirectory { .. }
        | Operation::Link { .. } => [Some(call.inode), None],
        Operation::Rename { parent, .. } => [Some(call.inode), Some(parent)],
        _ => [None, None],
    }
}

impl Tree {
    /// A file is closed now.
    pub(super) fn closes_unsynced(&self, file: &File) {
        if file.keeps_unsynced() {
            self.known.left_unsynced.add(file.identity(), file.machine_start());
        }
    }

    /// Nothing of what was written to a file before is in it.
    pub(super) fn was_emptied(&self, file: &File) {
        self.known.left_unsynced.forget(file.identity());
    }

    /// A directory may have the number of one that was removed.
    pub(super) fn is_new_directory(&self, inode: Identity) {
        self.known.left_unsynced.forget(of_directory(inode));
    }

    /// Makes a call. The names that it changes are not known to be on stable storage until their directory is synced.
    pub(super) fn leaving_names(&self, call: &Call<'_>, make: impl FnOnce() -> Outcomes) -> Outcomes {
        let directories = directories_of(call);
        if directories == [None, None] {
            return make();
        }
        let before = self.remote.machine_start();
        let made = make()?;
        if let Some(start) = before.or_else(|| self.remote.machine_start()) {
            for directory in directories.into_iter().flatten() {
                let identity = self.inodes().identity(directory);
                identity.into_iter().for_each(|inode| self.known.left_unsynced.add(of_directory(inode), start));
            }
        }
        Ok(made)
    }

    /// Has `sync` make the names in a directory durable. If the machine that had changes of them was started again that is an
    /// error: a rename that was lost leaves no trace.
    pub(super) fn sync_names(&self, inode: u64, sync: impl FnOnce() -> Outcomes) -> Outcomes {
        let Some(directory) = self.inodes().identity(inode).map(of_directory) else { return sync() };
        let left = self.known.left_unsynced.find(directory);
        let synced = sync()?;
        if let Some(left) = left
            && let Some(now) = self.machine_now(inode)
        {
            self.known.left_unsynced.remove(directory, left);
            if now != left.start {
                return Err(refused(&lost()));
            }
        }
        Ok(synced)
    }

    /// The machine of the present session. If no file was opened in that yet, one is made, and removed.
    fn machine_now(&self, directory: u64) -> Option<MachineStart> {
        self.remote.machine_start().or_else(|| {
            let path = self.hidden_path_in(directory)?;
            let options = OpenOptions::new().write(true).create_new(true);
            let file = File::open(&self.remote, self.full(&path), &options).ok()?;
            let start = file.machine_start();
            let _ = file.close();
            self.remove_hidden(Some(path));
            Some(start)
        })
    }

    /// What one open file of an inode has lost, every sync of the others tells as well, until each is closed.
    pub(super) fn share_loss(&self, inode: u64) {
        let lost = self.files.all().into_iter().filter(|open| open.inode == inode).find_map(|open| open.own_loss());
        if let Some(error) = lost {
            self.inherit_loss(inode, &error);
        }
    }

    pub(super) fn inherit_loss(&self, inode: u64, error: &Error) {
        let all = self.files.all();
        all.iter().filter(|open| open.inode == inode).for_each(|open| open.inherit_loss(error));
    }

    pub(super) fn sync(&self, handle: u64, data_only: bool) -> Outcomes {
        let open = self.file(handle)?;
        self.settle(open.inode);
        self.share_loss(open.inode);
        // What is closed from now on is of the next sync.
        let left = self.known.left_unsynced.find(open.file.identity());
        self.sync_inode(open.inode, &open.file, data_only).map_err(|error| refused(&error))?;
        if let Some(left) = left {
            let is_lost = open.file.machine_start() != left.start;
            if is_lost {
                self.inherit_loss(open.inode, &lost());
            }
            self.known.left_unsynced.remove(open.file.identity(), left);
            if is_lost {
                return Err(refused(&lost()));
            }
        }
        Ok(Answer::Done)
    }

    fn sync_inode(&self, inode: u64, file: &File, data_only: bool) -> Result<(), Error> {
        if data_only { file.sync_data() } else { file.sync_all() }?;
        // What others wrote to it is on stable storage now, unless the server lost it: they write it again. Files that are closed
        // meanwhile wait for nobody here.
        let mut others = self.files.all();
        others.retain(|other| other.inode == inode && other.file.keeps_unsynced());
        others.iter().try_for_each(|other| other.file.sync_data())
    }
}
