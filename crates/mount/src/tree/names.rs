//! Calls on names.

use super::attributes::kind_bits;
use super::lost_answers::Fate;
use super::recent_changes::Found;
use super::{HIDDEN, Outcomes, Tree, WANTED, facts, last, refused, unexpected};
use crate::inodes::Identity;
use crate::kernel::{Answer, NewMode};
use bytes::Bytes;
use rustix::io::Errno;
use xdfs_client::Facts;
use xdfs_client::file::{Flight, OpenOptions};
use xdfs_client::wire::{Answer as Told, Call, FileType};

/// Flags of renameat2.
const RENAME_NOREPLACE: u32 = 1;

impl Tree {
    /// What a name leads to, if that is known without asking.
    pub(super) fn look_up_at_once(&self, parent: u64, name: &[u8]) -> Option<Outcomes> {
        let path = self.path_in(parent, name).ok()?;
        self.looked_up_ahead(parent, name, &path).map(|entry| Ok(Answer::Entry(entry)))
    }

    pub(super) fn look_up(&self, parent: u64, name: &[u8]) -> Outcomes {
        let path = self.path_in(parent, name)?;
        if let Some(entry) = self.looked_up_ahead(parent, name, &path) {
            return Ok(Answer::Entry(entry));
        }
        self.looks_into(parent, name, &path);
        let found = match self.facts_at(|tree| tree.path_in(parent, name)) {
            Err(Errno::NOENT) => {
                self.inodes().unlinked(parent, name);
                self.is_gone(&path);
                return Err(Errno::NOENT);
            }
            found => found?,
        };
        let Found { facts, then, asked } = found;
        let entry = self.entry_since(then, (parent, name), &facts)?;
        self.known.facts.keep(entry.id, &facts, then, asked + self.settings.valid);
        Ok(Answer::Entry(entry))
    }

    /// Makes something, and looks at it. `look` tells whether it was made if the answer is lost.
    fn make(
        &self,
        (parent, name, path): (u64, &[u8], &[u8]),
        call: Call<'_>,
        mode: Option<u32>,
        look: impl Fn(Flight) -> Result<Fate, Errno>,
    ) -> Outcomes {
        let reply = self.change_once(&[call, Call::Stat { path, wanted: WANTED }], look)?;
        let told = reply.map_or_else(|| self.facts_of(path), |reply| facts(&reply))?;
        if !matches!(call, Call::Link { .. }) {
            self.is_new(&told);
        }
        let told = match mode {
            Some(mode) => self.with_mode(path, told, mode)?,
            None => told,
        };
        Ok(Answer::Entry(self.entry(parent, name, &told)?))
    }

    pub(super) fn make_directory(&self, parent: u64, name: &[u8], mode: NewMode) -> Outcomes {
        let path = self.new_path(parent, name)?;
        let mode = self.mode_in(parent, mode)?;
        let call = Call::MakeDirectory { path: &path, parents: false, mode: mode & 0o7777 };
        let look = |flight| self.fate_of_creation(&path, FileType::Directory, flight);
        let made = self.make((parent, name, &path), call, Some(mode), look)?;
        if let Answer::Entry(entry) = &made {
            self.inodes().identity(entry.id).into_iter().for_each(|inode| self.is_new_directory(inode));
            self.inherits_list(entry.id, parent);
        }
        Ok(made)
    }

    pub(super) fn is_new(&self, told: &Facts) {
        told.inode.into_iter().for_each(|identity| self.inodes().made(identity));
    }

    /// The path of something that is to be made.
    pub(super) fn new_path(&self, parent: u64, name: &[u8]) -> Result<Vec<u8>, Errno> {
        // These names are not there, and cannot be.
        if name.starts_with(HIDDEN) { Err(Errno::PERM) } else { self.path_in(parent, name) }
    }

    pub(super) fn symlink(&self, parent: u64, name: &[u8], target: &[u8]) -> Outcomes {
        let path = self.new_path(parent, name)?;
        let look = |flight| self.fate_of_creation(&path, FileType::Symlink, flight);
        self.make((parent, name, &path), Call::Symlink { path: &path, target }, None, look)
    }

    pub(super) fn make_node(&self, parent: u64, name: &[u8], mode: NewMode, device: u32) -> Outcomes {
        let path = self.new_path(parent, name)?;
        let mode = self.mode_in(parent, mode)?;
        let special = [FileType::Fifo, FileType::Socket, FileType::CharacterDevice, FileType::BlockDevice];
        let Some(kind) = special.into_iter().find(|kind| kind_bits(*kind) == mode & 0o170_000) else {
            let options = OpenOptions::new().write(true).mode(mode & 0o7777);
            let file = self.make_file(&path, options, true)?;
            file.close().map_err(|error| refused(&error))?;
            let told = self.with_mode(&path, self.facts_of(&path)?, mode)?;
            self.is_new(&told);
            return Ok(Answer::Entry(self.entry(parent, name, &told)?));
        };
        let device = ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & !0xff));
        let call = Call::MakeNode { path: &path, kind, mode: mode & 0o7777, device };
        let look = |flight| self.fate_of_creation(&path, kind, flight);
        self.make((parent, name, &path), call, Some(mode), look)
    }

    pub(super) fn link(&self, inode: u64, parent: u64, name: &[u8]) -> Outcomes {
        let (path, to) = (self.path(inode)?, self.new_path(parent, name)?);
        self.settle(inode);
        let identity = self.inodes().identity(inode);
        let look = |_| self.fate_of_link(&to, identity);
        let made = self.make((parent, name, &to), Call::Link { path: &path, to: &to }, None, look);
        self.changed_by_name(inode);
        made
    }

    pub(super) fn read_link(&self, inode: u64) -> Outcomes {
        let path = self.path(inode)?;
        if let Some(target) = self.known.link_targets.find(inode) {
            return Ok(Answer::Data(Bytes::copy_from_slice(&target)));
        }
        match last(&self.look(&[Call::ReadLink { path: &path }])?)? {
            Told::Bytes(target) => Ok(Answer::Data(Bytes::copy_from_slice(target))),
            _ => Err(unexpected()),
        }
    }

    pub(super) fn remove_directory(&self, parent: u64, name: &[u8]) -> Outcomes {
        let path = self.path_in(parent, name)?;
        match self.remove_at((parent, name), Call::RemoveDirectory { path: &path }) {
            Err(Errno::NOTEMPTY) if self.hiding.has_hidden() => {
                self.remove_directory_with_hidden(parent, name, &path)?;
            }
            removed => removed?,
        }
        self.inodes().unlinked(parent, name);
        Ok(Answer::Done)
    }

    /// Removes what a name leads to, as far as this mount knows.
    fn remove_at(&self, (parent, name): (u64, &[u8]), call: Call<'_>) -> Result<(), Errno> {
        let identity = self.identity_of(parent, name);
        self.change_name_once(call, |_| self.fate_of_removal(call.path(), identity))
    }

    /// What a name leads to, as far as this mount knows.
    fn identity_of(&self, parent: u64, name: &[u8]) -> Option<Identity> {
        let inodes = self.inodes();
        inodes.named(parent, name).and_then(|inode| inodes.identity(inode))
    }

    /// Moves a file to a name that nobody else has.
    fn hide(&self, inode: u64, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        let identity = self.inodes().identity(inode);
        let rename = Call::Rename { path: from, to, keep_existing: true };
        self.change_name_once(rename, |_| self.fate_of_rename(from, to, identity))
    }

    /// Files that nobody sees do not keep a directory: they are in the one above until their last close.
    fn remove_directory_with_hidden(&self, parent: u64, name: &[u8], path: &[u8]) -> Result<(), Errno> {
        // Whoever removes such a file is done before.
        let _alone = self.hiding.hold_alone();
        let directory = self.inodes().named(parent, name);
        let hidden = directory.map(|directory| self.inodes().hidden_in(directory)).unwrap_or_default();
        for (inode, from) in hidden {
            let to = self.hiding.next_name();
            let target = self.inodes().path_in(parent, &to).ok_or(Errno::NOENT)?;
            let from_path = [path, b"/", &from].concat();
            self.hide(inode, &from_path, &target)?;
            self.inodes().renamed((directory.unwrap_or_default(), &from), (parent, &to));
            self.tell_open_files(inode);
        }
        self.remove_at((parent, name), Call::RemoveDirectory { path })
    }

    /// Removes a hidden file that nobody has open.
    pub(super) fn remove_hidden(&self, path: Option<Vec<u8>>) {
        if let Some(path) = path {
            let _ = self.change(&[Call::Unlink { path: &path }]);
        }
    }

    pub(super) fn unlink(&self, parent: u64, name: &[u8]) -> Outcomes {
        let path = self.path_in(parent, name)?;
        let opened = self.inodes().is_last_name_of_open(parent, name);
        let Some(inode) = opened else {
            self.remove_at((parent, name), Call::Unlink { path: &path })?;
            self.inodes().unlinked(parent, name);
            return Ok(Answer::Done);
        };
        // The file must be found again after a loss of the session: it is removed with its last close.
        let _hiding = self.hiding.hold();
        let hidden = self.hiding.next_name();
        let to = self.inodes().path_in(parent, &hidden).ok_or(Errno::NOENT)?;
        self.hide(inode, &path, &to)?;
        let closed = self.inodes().hid(parent, name, &hidden);
        self.hiding.keeper.wake();
        self.tell_open_files(inode);
        self.remove_hidden(closed);
        Ok(Answer::Done)
    }

    pub(super) fn rename(&self, from: (u64, &[u8]), to: (u64, &[u8]), flags: u32) -> Outcomes {
        if flags & !RENAME_NOREPLACE != 0 {
            return Err(Errno::INVAL);
        }
        let (path, target) = (self.path_in(from.0, from.1)?, self.new_path(to.0, to.1)?);
        let keep_existing = flags & RENAME_NOREPLACE != 0;
        let rename = Call::Rename { path: &path, to: &target, keep_existing };
        let identity = self.identity_of(from.0, from.1);
        let fate = || self.fate_of_rename(&path, &target, identity);
        let (moved, replaced) = {
            let inodes = self.inodes();
            let moved = inodes.named(from.0, from.1);
            let replaced = inodes.is_last_name_of_open(to.0, to.1);
            (moved, replaced.filter(|id| !keep_existing && moved != Some(*id)))
        };
        match replaced {
            Some(inode) => {
                // What is open and replaced gets another name first: the target's is there all the time.
                let _hiding = self.hiding.hold();
                let hidden = self.hiding.next_name();
                let kept = self.inodes().path_in(to.0, &hidden).ok_or(Errno::NOENT)?;
                if let Err(errno) = self.rename_over((&target, &kept), rename, fate) {
                    // Whichever failed: the link is of no use.
                    let _ = self.change(&[Call::Unlink { path: &kept }]);
                    return Err(errno);
                }
                let closed = self.inodes().hid(to.0, to.1, &hidden);
                self.hiding.keeper.wake();
                self.tell_open_files(inode);
                self.remove_hidden(closed);
            }
            None => self.change_name_once(rename, |_| fate())?,
        }
        self.inodes().renamed(from, to);
        if let Some(moved) = moved {
            self.tell_open_files(moved);
        }
        Ok(Answer::Done)
    }

    /// Gives what is replaced another name, and renames.
    fn rename_over(
        &self,
        (target, kept): (&[u8], &[u8]),
        rename: Call<'_>,
        fate: impl Fn() -> Result<Fate, Errno>,
    ) -> Result<(), Errno> {
        let both = [Call::Link { path: target, to: kept }, rename];
        // Nothing is renamed before there is the other name.
        let is_kept = |_| Ok(if self.seen(kept)?.is_some() { Fate::Done } else { Fate::NotDone });
        if let Some(reply) = self.change_once(&both, is_kept)? {
            return last(&reply).map(drop);
        }
        match fate()? {
            Fate::Done => Ok(()),
            Fate::NotDone => self.change_name_once(rename, |_| fate()),
            Fate::Unknown => Err(Errno::IO),
        }
    }

    /// A hidden name in a directory that nobody has; none if the directory is gone.
    pub(super) fn hidden_path_in(&self, directory: u64) -> Option<Vec<u8>> {
        let (path, name) = (self.path(directory).ok()?, self.hiding.next_name());
        Some(if path.is_empty() { name } else { [path.as_slice(), b"/", &name].concat() })
    }

    /// Makes the names in a directory durable: a change of it that is durable makes all of them so.
    pub(super) fn sync_directory(&self, inode: u64) -> Outcomes {
        if self.settings.read_only {
            return Ok(Answer::Done);
        }
        let Some(path) = self.hidden_path_in(inode) else { return Ok(Answer::Done) };
        // What may not be removed is not made: nothing is there, and rights are judged before that is seen.
        let removed = last(&self.change(&[Call::RemoveDirectory { path: &path }])?).map(drop);
        if let Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) = removed {
            return Err(Errno::INVAL);
        }
        let (make, remove) =
            (Call::MakeDirectory { path: &path, parents: false, mode: 0o700 }, Call::RemoveDirectory { path: &path });
        let durable = |calls: &[Call<'_>]| {
            let reply = self.remote.call(&self.batch(calls).durable()).map_err(|error| refused(&error))?;
            last(&reply).map(|_| Answer::Done)
        };
        match durable(&[make, remove]) {
            // A server that was lost in the middle left it.
            Err(Errno::EXIST) => durable(&[remove]),
            made => made,
        }
    }
}
