//! Attributes of names and open files.

use super::{Outcomes, Tree, WANTED, facts, is_root, last, refused, unexpected};
use crate::inodes::Found;
use crate::kernel::{Answer, Attributes, Entry, FileSystemFacts, NewAttributes, SetTime};
use rustix::io::Errno;
use std::time::{Duration, Instant};
use xdfs_client::Facts;
use xdfs_client::Timestamp;
use xdfs_client::wire::{Answer as Told, Call, FileType, NewTime, Owner};

/// What is told of a file system that nobody could ask about.
const UNKNOWN_SPACE: FileSystemFacts =
    FileSystemFacts { block: 4096, blocks: 0, free: 0, available: 0, files: 0, files_free: 0 };

const NANOSECONDS: u64 = 1_000_000_000;

/// The type of a file as in `st_mode`.
pub(super) const fn kind_bits(kind: FileType) -> u32 {
    match kind {
        FileType::Directory => 0o040_000,
        FileType::Symlink => 0o120_000,
        FileType::Fifo => 0o010_000,
        FileType::Socket => 0o140_000,
        FileType::CharacterDevice => 0o020_000,
        FileType::BlockDevice => 0o060_000,
        FileType::Regular | FileType::Other => 0o100_000,
    }
}

/// One number of what the server tells which file it is: its device and its inode there.
pub(super) fn inode_number(identity: [u8; 16]) -> u64 {
    let half = |from: usize| u64::from_be_bytes(std::array::from_fn(|at| identity[from + at]));
    half(8) ^ half(0).rotate_left(32)
}

fn new_time(time: SetTime) -> NewTime {
    match time {
        SetTime::Now => NewTime::Now,
        SetTime::At(time) => NewTime::At(time),
    }
}

impl Tree {
    /// What the kernel is told.
    pub(super) fn shown(&self, facts: &Facts) -> Attributes {
        let modified = facts.modified.unwrap_or_default();
        // The server tells the time of the last change as a number that grows with every change.
        let changed =
            facts.change.map(|change| Timestamp::new((change / NANOSECONDS) as i64, (change % NANOSECONDS) as u32));
        let size = match (facts.kind, facts.size) {
            (FileType::Regular | FileType::Symlink | FileType::Directory, Some(size)) => size,
            _ => 0,
        };
        let usual = if facts.kind == FileType::Directory { 0o755 } else { 0o644 };
        let (major, minor) = facts.device.unwrap_or_default();
        Attributes {
            inode: facts.inode.map_or(0, inode_number),
            size,
            allocated: facts.allocated.unwrap_or(size),
            accessed: facts.accessed.unwrap_or(modified),
            modified,
            changed: changed.unwrap_or(modified),
            mode: kind_bits(facts.kind) | facts.mode.unwrap_or(usual),
            // More cannot be told.
            links: facts.links.unwrap_or(1).min(u32::MAX.into()) as u32,
            owner: self.settings.owner.or(facts.owner).unwrap_or_default(),
            device: (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12),
        }
    }

    /// The inode that a name leads to, and what the kernel is told of it.
    pub(super) fn entry(&self, parent: u64, name: &[u8], facts: &Facts) -> Result<Entry, Errno> {
        let identity = facts.inode.ok_or(Errno::OPNOTSUPP)?;
        let directory = facts.kind == FileType::Directory;
        let found = Found { identity, directory, only_name: directory || facts.links == Some(1) };
        let id = {
            let mut inodes = self.inodes();
            let id = inodes.look_up(parent, name, found).ok_or(Errno::STALE)?;
            inodes.told(id, Instant::now() + self.settings.valid);
            id
        };
        self.tell(id, facts);
        self.uses_directory(parent);
        Ok(Entry { id, attributes: self.shown(facts), valid: self.settings.valid })
    }

    /// The same with facts that were asked for at `then`: asked for again, if a program has written
    /// meanwhile. The kernel would cut its pages to a length that was.
    pub(super) fn entry_since(&self, then: u64, (parent, name): (u64, &[u8]), facts: &Facts) -> Result<Entry, Errno> {
        let entry = self.entry(parent, name, facts)?;
        if !self.is_newer(entry.id, then) {
            return Ok(entry);
        }
        self.settle(entry.id);
        let later = self.facts_at(|tree| tree.path_in(parent, name));
        let later = later.and_then(|found| self.entry(parent, name, &found.facts));
        // The kernel was told of one of the two.
        self.inodes().forget(entry.id, 1);
        later
    }

    pub(super) fn attributes(&self, inode: u64, handle: Option<u64>) -> Outcomes {
        self.settle(inode);
        if let Some((facts, valid)) = self.known_facts(inode) {
            return self.told_for(inode, &facts, valid);
        }
        if is_root(inode) {
            let (facts, valid) = self.root_facts()?;
            return self.told_for(inode, &facts, valid);
        }
        let (then, asked) = (self.now(), Instant::now());
        let file = handle.and_then(|handle| self.files.find(handle));
        let facts = match (self.path(inode), file) {
            (_, Some(file)) => file.file.look(WANTED).map_err(|error| refused(&error))?,
            (Ok(path), None) => match self.listed_facts(inode, &path) {
                Some((facts, valid)) => return self.told_for(inode, &facts, valid),
                None => self.facts_at(|tree| tree.path(inode))?.facts,
            },
            (Err(error), None) => match self.open_file_of(inode) {
                Some(file) => file.file.look(WANTED).map_err(|error| refused(&error))?,
                None => return Err(error),
            },
        };
        self.known.facts.keep(inode, &facts, then, asked + self.settings.valid);
        self.told(inode, &facts)
    }

    /// The same if they are known, and nothing that was written to the file has to be waited for.
    pub(super) fn attributes_at_once(&self, inode: u64) -> Option<Outcomes> {
        let (facts, valid) = self.known_facts(inode)?;
        Some(self.told_for(inode, &facts, valid))
    }

    pub(super) fn facts_of(&self, path: &[u8]) -> Result<Facts, Errno> {
        facts(&self.look(&[Call::Stat { path, wanted: WANTED }])?)
    }

    /// Attributes as an answer, if they are still those of this file.
    pub(super) fn told(&self, inode: u64, facts: &Facts) -> Outcomes {
        self.told_for(inode, facts, self.settings.valid)
    }

    /// The same with the time for which they may be used.
    fn told_for(&self, inode: u64, facts: &Facts, valid: Duration) -> Outcomes {
        let (identity, hidden) = {
            let inodes = self.inodes();
            (inodes.identity(inode), inodes.is_hidden(inode))
        };
        if !is_root(inode) && identity != facts.inode {
            return Err(Errno::STALE);
        }
        self.tell(inode, facts);
        let mut attributes = self.shown(facts);
        if hidden {
            attributes.links = attributes.links.saturating_sub(1);
        }
        Ok(Answer::Attributes(attributes, valid))
    }

    /// The path by which an inode is changed. The kernel has just found it by that, unless a program has it open: then others may
    /// have given its name to another file.
    pub(super) fn path_to_change(&self, inode: u64) -> Result<Vec<u8>, Errno> {
        let path = self.path(inode)?;
        let named = self.files.all().iter().filter(|open| open.inode == inode).map(|open| open.named).max();
        if named.is_some_and(|named| named.elapsed() >= self.settings.valid) {
            let found =
                self.facts_of(&path).map_err(|errno| if errno == Errno::NOENT { Errno::STALE } else { errno })?;
            if found.inode != self.inodes().identity(inode) {
                return Err(Errno::STALE);
            }
        }
        Ok(path)
    }

    pub(super) fn set_attributes(&self, inode: u64, new: &NewAttributes) -> Outcomes {
        self.settle(inode);
        let file = new.handle.and_then(|handle| self.files.find(handle)).or_else(|| self.open_file_of(inode));
        // An open file is cut by its handle, which may be for writing though the mode is not.
        match (new.size, file.filter(|file| file.writes)) {
            (Some(length), Some(file)) => {
                file.file.set_len(length).map_err(|error| refused(&error))?;
                if length == 0 {
                    self.was_emptied(&file.file);
                }
                self.tell_locker(inode, &file.file);
                self.content_changed(inode);
            }
            (Some(length), None) => self.truncate(inode, length)?,
            (None, _) => {}
        }
        let path = self.path_to_change(inode)?;
        let path = path.as_slice();
        let mut calls = Vec::new();
        // Owners before modes: a change of the owner takes bits of the mode.
        if let Some((user, group)) = self.new_owner(new)? {
            calls.push(Call::SetOwner { path, user, group });
        }
        if let Some(mode) = new.mode {
            calls.push(Call::SetMode { path, mode: mode & 0o7777 });
        }
        if new.modified.is_some() || new.accessed.is_some() {
            let (modified, accessed) = (new.modified.map(new_time), new.accessed.map(new_time));
            calls.push(Call::SetTimes { path, modified, accessed });
        }
        let changes = !calls.is_empty();
        calls.push(Call::Stat { path, wanted: WANTED });
        // Before, since whoever waits may be let go meanwhile, and after, also if nobody knows whether it was.
        let told_mode = || {
            if new.mode.is_some() {
                self.mode_was_set(inode);
            }
        };
        told_mode();
        let reply = if changes { self.change(&calls) } else { self.look(&calls) };
        told_mode();
        let reply = reply?;
        if changes {
            self.changed_by_name(inode);
        }
        self.told(inode, &facts(&reply)?)
    }

    /// Owner and group to set; none if they are as they are shown.
    #[expect(clippy::type_complexity, reason = "the arguments of the call")]
    fn new_owner(&self, new: &NewAttributes) -> Result<Option<(Option<Owner<'_>>, Option<Owner<'_>>)>, Errno> {
        match self.settings.owner {
            None if new.user.is_some() || new.group.is_some() => {
                Ok(Some((new.user.map(Owner::Number), new.group.map(Owner::Number))))
            }
            Some((user, group)) if new.user.is_some_and(|id| id != user) || new.group.is_some_and(|id| id != group) => {
                Err(Errno::PERM)
            }
            _ => Ok(None),
        }
    }

    pub(super) fn file_system(&self, inode: u64) -> Outcomes {
        let space = match is_root(inode) {
            true => self.root_space()?.unwrap_or(UNKNOWN_SPACE),
            false => self.space_at(&self.path(inode).unwrap_or_default())?,
        };
        Ok(Answer::FileSystem(space))
    }

    pub(super) fn space_at(&self, path: &[u8]) -> Result<FileSystemFacts, Errno> {
        let reply = self.look(&[Call::FileSystem { path }])?;
        let Told::FileSystem(told) = last(&reply)? else { return Err(unexpected()) };
        let block = told.block.clamp(512, 1 << 20);
        Ok(FileSystemFacts {
            // At most 2^20: fits.
            block: block as u32,
            blocks: told.bytes / block,
            free: told.free / block,
            available: told.available / block,
            files: told.files,
            files_free: told.files_free,
        })
    }

    /// For what was created: its mode is exactly this one, whatever the server's mask is.
    pub(super) fn with_mode(&self, path: &[u8], told: Facts, mode: u32) -> Result<Facts, Errno> {
        let mode = mode & 0o7777;
        // A directory may have got its parent's set-group-id bit, which is right.
        if told.mode.is_none_or(|now| now & 0o1777 == mode & 0o1777) {
            return Ok(told);
        }
        let calls = [Call::SetMode { path, mode }, Call::Stat { path, wanted: WANTED }];
        match self.change(&calls).and_then(|reply| facts(&reply)) {
            // The export's rights do not allow it: the server's mask is what there is.
            Err(_) => Ok(told),
            exact => exact,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_two_devices_have_two_numbers() {
        let identity = |device: u64, inode: u64| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&device.to_be_bytes());
            bytes[8..].copy_from_slice(&inode.to_be_bytes());
            bytes
        };
        assert_ne!(inode_number(identity(1, 7)), inode_number(identity(2, 7)));
        assert_ne!(inode_number(identity(1, 7)), inode_number(identity(1, 8)));
    }
}
