//! Stable storage: a sync of one open file is one of its inode, whichever descriptor it was changed through, and one that is closed
//! by now; and a sync of a directory is one of all that was done to its names.

use super::generations::Generations;
use super::{Outcomes, Tree, refused};
use crate::inodes::Identity;
use crate::kernel::{Answer, Call, Operation};
use std::sync::{Mutex, MutexGuard, PoisonError};
use xdfs_client::file::{File, OpenOptions};
use xdfs_client::{Error, ErrorKind};

/// Of so many files and directories at least half are remembered.
const REMEMBERED_MAX: usize = 32_768;

/// The server's machine, from one of its starts to the next one.
type MachineStart = [u8; 8];

/// Files that were closed, and directories whose names were changed, with something that is not known to be on stable storage, each
/// with the machine that has it. Nobody does that again if the machine loses it.
#[derive(Debug)]
pub(super) struct LeftUnsynced(Mutex<Generations<Identity, MachineStart>>);

impl Default for LeftUnsynced {
    fn default() -> Self {
        Self(Mutex::new(Generations::new(REMEMBERED_MAX)))
    }
}

impl LeftUnsynced {
    fn lock(&self) -> MutexGuard<'_, Generations<Identity, MachineStart>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, inode: Identity, start: MachineStart) {
        let mut left = self.lock();
        // The machine of the earlier one may have been started again.
        let earlier = left.get(&inode).copied();
        left.insert(inode, earlier.unwrap_or(start));
    }

    fn take(&self, inode: Identity) -> Option<MachineStart> {
        let mut left = self.lock();
        let start = left.get(&inode).copied();
        left.remove(&inode);
        start
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
            self.known.left_unsynced.add(file.inode(), file.machine_start());
        }
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
                identity.into_iter().for_each(|identity| self.known.left_unsynced.add(identity, start));
            }
        }
        Ok(made)
    }

    /// Has `sync` make the names in a directory durable. If the machine that had changes of them was started again that is an
    /// error: a rename that was lost leaves no trace.
    pub(super) fn sync_names(&self, inode: u64, sync: impl FnOnce() -> Outcomes) -> Outcomes {
        let Some(directory) = self.inodes().identity(inode) else { return sync() };
        let left = self.known.left_unsynced.take(directory);
        let synced = sync();
        if let Some(start) = left {
            if synced.is_err() {
                self.known.left_unsynced.add(directory, start);
            } else if self.machine_now(inode).is_some_and(|now| now != start) {
                return Err(refused(&lost()));
            }
        }
        synced
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
        let left = self.known.left_unsynced.take(open.file.inode());
        let synced = self.sync_inode(open.inode, &open.file, data_only);
        if let Some(start) = left {
            if synced.is_err() {
                self.known.left_unsynced.add(open.file.inode(), start);
            } else if open.file.machine_start() != start {
                self.inherit_loss(open.inode, &lost());
                return Err(refused(&lost()));
            }
        }
        synced.map_err(|error| refused(&error))?;
        Ok(Answer::Done)
    }

    fn sync_inode(&self, inode: u64, file: &File, data_only: bool) -> Result<(), Error> {
        if data_only { file.sync_data() } else { file.sync_all() }?;
        // What others wrote to it is on stable storage now, unless the server lost it: they write it again.
        let others = self.files.all().into_iter().filter(|other| other.inode == inode);
        others.filter(|other| other.file.keeps_unsynced()).try_for_each(|other| other.file.sync_data())
    }
}
