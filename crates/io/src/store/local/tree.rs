//! The operations of a tree on this machine: error messages around the calls of `resolve`.

use super::leftovers::is_staged;
use super::listings::Place;
use super::{LocalStore, syncfs_policy};
use crate::store::descriptors::members_max;
use crate::store::errors::{self, Verb};
use crate::store::medium::in_memory;
use crate::store::resolve::names::{self, Held};
use crate::store::resolve::{Blocked, Cause, Parent};
use crate::store::stat::node_of;
use crate::store::tree::{AttributeChange, Cursor, ListControl, Node, NodeKind, Space, Special, Tree, XATTR_BYTES_MAX};
use crate::store::{Existing, Result};
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use xdfs_proto::base::{Error, ErrorKind, RelPath, Safety};

impl LocalStore {
    fn failed(&self, verb: Verb, path: &RelPath, errno: Errno) -> Error {
        errors::failed(verb, &self.shown(path), errno)
    }

    fn refused(&self, kind: ErrorKind, verb: Verb, path: &RelPath, because: &str) -> Error {
        errors::refused(kind, verb, &self.shown(path), because)
    }

    pub(super) fn must_be_writable(&self, verb: Verb, path: &RelPath) -> Result<()> {
        if self.writable {
            return Ok(());
        }
        Err(self.refused(ErrorKind::ReadOnly, verb, path, "the export is read-only"))
    }

    /// Runs an operation on the last component of `path` in its open directory.
    fn in_parent<R>(
        &self,
        verb: Verb,
        path: &RelPath,
        act: impl FnOnce(&Parent, &[u8]) -> std::result::Result<R, Errno>,
    ) -> Result<R> {
        let (parent, name) = self.changed_parent(verb, path)?;
        act(&parent, name).map_err(|errno| self.failed(verb, path, errno))
    }

    /// Opens the directory in which something is to be changed.
    pub(super) fn changed_parent<'a>(&self, verb: Verb, path: &'a RelPath) -> Result<(Parent, &'a [u8])> {
        self.must_be_writable(verb, path)?;
        self.root.parent_of(path).map_err(|stop| match path.is_root() {
            true => self.refused(ErrorKind::Refused, verb, path, "it is the top of the export"),
            false => self.blocked(verb, path, &stop),
        })
    }

    fn held(&self, verb: Verb, path: &RelPath) -> Result<Held> {
        self.root.hold(path).map_err(|stop| self.blocked(verb, path, &stop))
    }

    fn changed<R>(&self, path: &RelPath, act: impl FnOnce(&Held) -> std::result::Result<R, Errno>) -> Result<R> {
        self.must_be_writable(Verb::Change, path)?;
        act(&self.held(Verb::Change, path)?).map_err(|errno| self.failed(Verb::Change, path, errno))
    }

    /// Creates the missing directories of `path`, and opens it.
    pub(super) fn make_directories(&self, path: &RelPath, mode: u32) -> std::result::Result<Parent, Blocked> {
        let last = self.fresh.changing(path);
        self.root.make_directories(path, self.made(mode), |made, make| {
            let changing = last.above(made);
            make().inspect(|()| changing.created())
        })
    }

    fn made(&self, mode: u32) -> Mode {
        Mode::from_raw_mode(mode & 0o7777 & !self.umask)
    }
}

impl Tree for LocalStore {
    fn node(&self, path: &RelPath) -> Result<Node> {
        self.root.look(path).map(|stat| node_of(&stat)).map_err(|stop| self.blocked(Verb::Look, path, &stop))
    }

    fn list(
        &self,
        path: &RelPath,
        cursor: &[u8],
        take: &mut dyn FnMut(&[u8], &Node) -> ListControl,
    ) -> Result<Option<Cursor>> {
        let place = Place::parse(cursor).ok_or_else(|| {
            self.refused(ErrorKind::OutOfRange, Verb::List, path, "the cursor is none of this store's")
        })?;
        let directory = self.root.open_directory(path).map_err(|stop| self.blocked(Verb::List, path, &stop))?;
        let next =
            self.listings.read(place, Parent::new(directory), |directory| {
                names::list(directory, place.position, &mut |name, stat| match directory
                    .is_staging(name, stat, is_staged)
                {
                    true => ListControl::More,
                    false => take(name, &node_of(stat)),
                })
            });
        next.map_err(|errno| self.failed(Verb::List, path, errno))
    }

    fn make_directory(&self, path: &RelPath, mode: u32, parents: bool) -> Result<()> {
        if parents {
            self.must_be_writable(Verb::Create, path)?;
            // Usually only the last one is missing: then its parents need not be visited one by
            // one.
            if !path.is_root() && self.make_directory(path, mode, false).is_ok() {
                return Ok(());
            }
            let made = self.make_directories(path, mode);
            return made.map(drop).map_err(|stop| self.in_the_way(path, &stop));
        }
        let changing = self.fresh.changing(path);
        self.in_parent(Verb::Create, path, |parent, name| parent.make_directory(name, self.made(mode)))?;
        changing.created();
        Ok(())
    }

    fn remove_directory(&self, path: &RelPath) -> Result<()> {
        let (parent, name) = self.changed_parent(Verb::Remove, path)?;
        let mut removed = parent.remove_directory(name);
        if removed == Err(Errno::NOTEMPTY)
            && let Ok(directory) = self.root.hold_directory(path)
        {
            // Files that are hidden from the user must not prevent its removal.
            directory.clear_staging();
            removed = parent.remove_directory(name);
        }
        removed.map_err(|errno| match errno {
            Errno::NOTEMPTY | Errno::EXIST => {
                let because = "the directory is not empty";
                self.refused(ErrorKind::AlreadyExists, Verb::Remove, path, because).with_errno(errors::number(errno))
            }
            _ => self.failed(Verb::Remove, path, errno),
        })
    }

    fn remove(&self, path: &RelPath) -> Result<()> {
        self.in_parent(Verb::Remove, path, Parent::remove)
    }

    fn rename(&self, from: &RelPath, to: &RelPath, existing: Existing) -> Result<()> {
        // Before it is known whether a directory is renamed: at its new place it can be found at once.
        let changing = self.fresh.changing(to);
        let (source, name) = self.changed_parent(Verb::Rename, from)?;
        let (target, new) = self.changed_parent(Verb::Rename, to)?;
        let directory = source.kind_of(name) == Ok(Some(FileType::Directory));
        let outcome = match existing {
            Existing::Replace | Existing::ReplaceOther { .. } => source.rename(name, &target, new).map(Some),
            Existing::Keep => source.rename_to_free(name, &target, new).map(|()| None),
        };
        match outcome.is_ok() && directory {
            true => changing.moved(),
            // What was replaced may take minutes to free: it is no longer being changed.
            false => drop(changing),
        }
        outcome.map(drop).map_err(|errno| self.between(Verb::Rename, from, to, errno))
    }

    fn link(&self, of: &RelPath, name: &RelPath) -> Result<()> {
        let (source, old) = self.changed_parent(Verb::Link, of)?;
        let (target, new) = self.changed_parent(Verb::Link, name)?;
        source.link(old, &target, new).map_err(|errno| self.between(Verb::Link, of, name, errno))
    }

    fn make_symlink(&self, path: &RelPath, text: &[u8]) -> Result<()> {
        if text.is_empty() || text.contains(&0) {
            let because = "a symbolic link needs a text without NUL bytes";
            return Err(self.refused(ErrorKind::InvalidPath, Verb::Create, path, because));
        }
        self.in_parent(Verb::Create, path, |parent, name| parent.make_symlink(name, text))
    }

    fn read_symlink(&self, path: &RelPath) -> Result<Vec<u8>> {
        let wrong = |because: &str| self.refused(ErrorKind::NotRegular, Verb::Read, path, because);
        if path.is_root() {
            return Err(wrong("is a directory, not a symbolic link"));
        }
        let (parent, name) = self.root.parent_of(path).map_err(|stop| self.blocked(Verb::Read, path, &stop))?;
        parent.read_symlink(name).map_err(|errno| match errno {
            Errno::INVAL => wrong("is not a symbolic link"),
            _ => self.failed(Verb::Read, path, errno),
        })
    }

    fn make_special(&self, path: &RelPath, special: &Special) -> Result<()> {
        let kind = match special.kind {
            NodeKind::Fifo => FileType::Fifo,
            NodeKind::Socket => FileType::Socket,
            NodeKind::CharacterDevice => FileType::CharacterDevice,
            NodeKind::BlockDevice => FileType::BlockDevice,
            NodeKind::Regular | NodeKind::Directory | NodeKind::Symlink => {
                return Err(self.refused(ErrorKind::Unsupported, Verb::Create, path, "it is no special file"));
            }
        };
        let mode = self.made(special.mode);
        self.in_parent(Verb::Create, path, |parent, name| parent.make_special(name, special, kind, mode))
    }

    fn change(&self, path: &RelPath, change: &AttributeChange) -> Result<()> {
        self.changed(path, |held| held.change(change))
    }

    fn xattrs(&self, path: &RelPath) -> Result<Vec<Vec<u8>>> {
        let held = self.held(Verb::Look, path)?;
        held.xattrs(XATTR_BYTES_MAX).map_err(|errno| self.failed(Verb::Look, path, errno))
    }

    fn xattr(&self, path: &RelPath, name: &[u8]) -> Result<Vec<u8>> {
        let held = self.held(Verb::Look, path)?;
        held.xattr(name, XATTR_BYTES_MAX).map_err(|errno| self.failed(Verb::Look, path, errno))
    }

    fn set_xattr(&self, path: &RelPath, name: &[u8], value: &[u8]) -> Result<()> {
        self.changed(path, |held| held.set_xattr(name, value))
    }

    fn remove_xattr(&self, path: &RelPath, name: &[u8]) -> Result<()> {
        self.changed(path, |held| held.remove_xattr(name))
    }

    fn space(&self, path: &RelPath) -> Result<Space> {
        let held = self.held(Verb::Look, path)?;
        let all = held.space().map_err(|errno| self.failed(Verb::Look, path, errno))?;
        let bytes = |blocks: u64| blocks.saturating_mul(all.f_frsize);
        Ok(Space {
            bytes: (bytes(all.f_blocks), bytes(all.f_bfree), bytes(all.f_bavail)),
            files: (all.f_files, all.f_ffree),
            name_max: all.f_namemax,
        })
    }

    fn sync(&self, path: &RelPath) -> Result<()> {
        let directory = self.root.open_directory(path).map_err(|stop| self.blocked(Verb::Sync, path, &stop))?;
        let synced = rustix::io::retry_on_intr(|| rustix::fs::fsync(&directory));
        synced.map_err(|errno| self.failed(Verb::Sync, path, errno))
    }

    fn sync_files(&self, paths: &BTreeSet<RelPath>) -> Result<Safety> {
        let mut paths = paths.iter().peekable();
        let mut safety = Safety::Durable;
        while paths.peek().is_some() {
            // A part at a time: each file takes a descriptor until it is synced.
            safety = safety.min(self.sync_some(paths.by_ref().take(members_max()))?);
        }
        Ok(safety)
    }
}

impl LocalStore {
    fn sync_some<'a>(&self, paths: impl Iterator<Item = &'a RelPath>) -> Result<Safety> {
        let (mut files, mut safety) = (Vec::new(), Safety::Durable);
        for path in paths {
            match self.root.open_regular(path) {
                Ok((file, _)) => files.push((path, file)),
                // Another type: its attributes are not waited for.
                Err(Blocked { cause: Cause::Kind(_) | Cause::KernelFile, .. }) => {}
                // Somebody else has renamed or removed it: what is not found cannot be synced.
                Err(Blocked { cause: Cause::Errno(Errno::NOENT), .. }) => safety = Safety::Written,
                Err(stop) => return Err(self.blocked(Verb::Sync, path, &stop)),
            }
        }
        if files.iter().any(|(_, file)| in_memory(file)) {
            return Ok(Safety::Written);
        }
        let at_once = syncfs_policy::serves(files.iter().map(|(_, file)| file));
        let sync = |file: &OwnedFd| if at_once { rustix::fs::syncfs(file) } else { rustix::fs::fsync(file) };
        for (path, file) in files.iter().take(if at_once { 1 } else { files.len() }) {
            rustix::io::retry_on_intr(|| sync(file)).map_err(|errno| self.failed(Verb::Sync, path, errno))?;
        }
        Ok(safety)
    }
}

impl LocalStore {
    /// Lets this process change the content of a directory of its own whose mode forbids that.
    /// False if it already may, or if the directory is not its own; the later operation then
    /// reports the error.
    pub fn unlock(&self, path: &RelPath) -> bool {
        let user = rustix::process::geteuid();
        let Ok(node) = self.node(path) else { return false };
        let locked = node.kind == NodeKind::Directory && node.mode & 0o700 != 0o700;
        let change = AttributeChange { mode: Some(node.mode | 0o700), ..AttributeChange::default() };
        locked && !user.is_root() && node.owner.0 == user.as_raw() && self.change(path, &change).is_ok()
    }

    /// Whether a directory lists exactly this name: a file system may treat another name as equal.
    pub fn has_name(&self, path: &RelPath) -> bool {
        let (Some(above), Some(name)) = (path.parent(), path.name()) else { return false };
        self.root.open_directory(&above).is_ok_and(|directory| names::lists(&directory, name))
    }

    /// The error for an existing file where a directory is to be created.
    fn in_the_way(&self, path: &RelPath, stop: &Blocked) -> Error {
        match stop.cause {
            Cause::Kind(kind) if stop.depth >= path.depth() => {
                let (_, what) = errors::kind_words(kind);
                self.refused(ErrorKind::AlreadyExists, Verb::Create, path, &format!("{what} is in the way"))
            }
            _ => self.blocked(Verb::Create, path, stop),
        }
    }

    /// The error of an operation on two names.
    fn between(&self, verb: Verb, from: &RelPath, to: &RelPath, errno: Errno) -> Error {
        let target = self.shown(to);
        let (kind, because) = match errno {
            Errno::EXIST | Errno::NOTEMPTY => (ErrorKind::AlreadyExists, format!("'{target}' exists")),
            Errno::XDEV => (ErrorKind::Unsupported, format!("'{target}' is on another file system")),
            Errno::INVAL => (ErrorKind::InvalidPath, format!("'{target}' lies inside it")),
            Errno::ISDIR => (ErrorKind::IsDirectory, format!("'{target}' is a directory")),
            Errno::NOTDIR => (ErrorKind::NotDirectory, format!("'{target}' is not a directory")),
            _ => return self.failed(verb, from, errno),
        };
        self.refused(kind, verb, from, &because).with_errno(errors::number(errno))
    }
}
