//! A tree of files in memory with the rules of a Unix file system, for either end of a copy.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xdfs_io::store::tree::{Node, NodeKind};
use xdfs_io::store::{Existing, Version};
use xdfs_proto::base::{Error, ErrorKind, Timestamp};

type Result<T> = std::result::Result<T, Error>;
pub(super) type Time = Timestamp;

/// The inode of the top.
const TOP: u64 = 1;

/// A file of any kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Inode {
    pub(super) kind: NodeKind,
    pub(super) mode: u32,
    pub(super) modified: Time,
    /// Bytes of a regular file, text of a link.
    pub(super) content: Vec<u8>,
    pub(super) device: (u32, u32),
    /// Names in a directory.
    pub(super) entries: BTreeMap<Vec<u8>, u64>,
    pub(super) links: u64,
}

impl Inode {
    pub(super) fn new(kind: NodeKind, mode: u32, content: Vec<u8>, modified: Time) -> Self {
        Self { kind, mode, modified, content, device: (0, 0), entries: BTreeMap::new(), links: 0 }
    }

    pub(super) fn at(self, modified: Time) -> Self {
        Self { modified, ..self }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Inodes {
    pub(super) all: BTreeMap<u64, Inode>,
    next: u64,
    /// Seconds; every change of a directory has a time of its own.
    pub(super) clock: i64,
}

/// A tree of files. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct SimulatedFiles(Arc<Mutex<Inodes>>);

/// What a name refers to, for comparisons: everything that a copy may be asked to keep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Found {
    pub(super) inode: u64,
    pub(super) kind: NodeKind,
    pub(super) mode: u32,
    pub(super) modified: Time,
    pub(super) content: Vec<u8>,
    pub(super) device: (u32, u32),
}

/// Where a listing goes on after this name.
pub(super) fn cursor_of(name: &[u8]) -> [u8; 8] {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    name.iter().fold(0xcbf2_9ce4_8422_2325, mix).to_be_bytes()
}

pub(super) fn error(kind: ErrorKind, path: &[u8]) -> Error {
    Error::new(kind, format!("'{}': {}", path.escape_ascii(), kind.text()))
}

impl Inodes {
    pub(super) fn find(&self, path: &[u8]) -> Result<u64> {
        let mut at = TOP;
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            let inode = &self.all[&at];
            if inode.kind != NodeKind::Directory {
                return Err(error(ErrorKind::NotDirectory, path));
            }
            at = *inode.entries.get(name).ok_or_else(|| error(ErrorKind::NotFound, path))?;
        }
        Ok(at)
    }

    /// The directory that contains `path`, and its name there.
    pub(super) fn parent(&self, path: &[u8]) -> Result<(u64, Vec<u8>)> {
        let (above, name) = match path.iter().rposition(|&byte| byte == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&b""[..], path),
        };
        let parent = self.find(above)?;
        if self.all[&parent].kind != NodeKind::Directory {
            return Err(error(ErrorKind::NotDirectory, path));
        }
        Ok((parent, name.to_vec()))
    }

    pub(super) fn get(&mut self, inode: u64) -> &mut Inode {
        self.all.get_mut(&inode).expect("names refer to inodes that are there")
    }

    pub(super) fn enter(&mut self, parent: u64, name: Vec<u8>, inode: u64) {
        self.clock += 1;
        let clock = self.clock;
        let directory = self.get(parent);
        directory.modified = Timestamp::new(clock, 0);
        let before = directory.entries.insert(name, inode);
        self.get(inode).links += 1;
        before.into_iter().for_each(|old| self.unlink(old));
    }

    pub(super) fn unlink(&mut self, inode: u64) {
        let old = self.get(inode);
        old.links -= 1;
        if old.links == 0 {
            self.all.remove(&inode);
        }
    }

    pub(super) fn leave(&mut self, parent: u64, name: &[u8]) {
        self.clock += 1;
        let clock = self.clock;
        let directory = self.get(parent);
        directory.modified = Timestamp::new(clock, 0);
        if let Some(inode) = directory.entries.remove(name) {
            self.unlink(inode);
        }
    }

    /// Makes a name that must not exist.
    pub(super) fn create(&mut self, path: &[u8], inode: Inode) -> Result<u64> {
        let (parent, name) = self.parent(path)?;
        if self.all[&parent].entries.contains_key(&name) || path.is_empty() {
            return Err(error(ErrorKind::AlreadyExists, path));
        }
        let number = self.next;
        self.next += 1;
        self.all.insert(number, inode);
        self.enter(parent, name, number);
        Ok(number)
    }

    pub(super) fn rename(&mut self, from: &[u8], to: &[u8], existing: Existing) -> Result<()> {
        let (old, (above, name)) = (self.find(from)?, self.parent(to)?);
        let there = self.all[&above].entries.get(&name).copied();
        if let Some(there) = there {
            let (moved, target) = (&self.all[&old], &self.all[&there]);
            match existing {
                Existing::Keep => return Err(error(ErrorKind::AlreadyExists, to)),
                // Two names of one file: POSIX leaves both.
                _ if there == old => return Ok(()),
                _ => {}
            }
            match (moved.kind == NodeKind::Directory, target.kind == NodeKind::Directory) {
                (true, false) => return Err(error(ErrorKind::NotDirectory, to)),
                (false, true) => return Err(error(ErrorKind::IsDirectory, to)),
                (true, true) if !target.entries.is_empty() => return Err(error(ErrorKind::AlreadyExists, to)),
                _ => {}
            }
        }
        let (from_above, from_name) = self.parent(from)?;
        self.enter(above, name, old);
        self.leave(from_above, &from_name);
        Ok(())
    }

    /// Puts a whole file in the place of what is there.
    pub(super) fn put(&mut self, path: &[u8], file: Inode, existing: Existing) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        match self.all[&parent].entries.get(&name).map(|there| self.all[there].kind) {
            Some(_) if existing == Existing::Keep => return Err(error(ErrorKind::AlreadyExists, path)),
            Some(NodeKind::Directory) => return Err(error(ErrorKind::IsDirectory, path)),
            _ => {}
        }
        let number = self.next;
        self.next += 1;
        self.all.insert(number, file);
        self.enter(parent, name, number);
        Ok(())
    }
}

impl SimulatedFiles {
    pub(super) fn new() -> Self {
        let top = Inode { links: 1, ..Inode::new(NodeKind::Directory, 0o755, Vec::new(), Timestamp::new(1, 0)) };
        Self(Arc::new(Mutex::new(Inodes { all: BTreeMap::from([(TOP, top)]), next: TOP + 1, clock: 1_000_000 })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inodes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A tree of its own with the same files.
    pub(super) fn copy(&self) -> Self {
        Self(Arc::new(Mutex::new(self.lock().clone())))
    }

    pub(super) fn create(&self, path: &[u8], inode: Inode) -> Result<()> {
        self.lock().create(path, inode).map(drop)
    }

    pub(super) fn put(&self, path: &[u8], file: Inode, existing: Existing) -> Result<()> {
        self.lock().put(path, file, existing)
    }

    pub(super) fn find(&self, path: &[u8]) -> Result<Found> {
        let inodes = self.lock();
        let inode = inodes.find(path)?;
        let Inode { kind, mode, modified, content, device, .. } = inodes.all[&inode].clone();
        Ok(Found { inode, kind, mode, modified, content, device })
    }

    /// The names of a directory after `cursor`, with the bytes or text of each.
    pub(super) fn entries(&self, path: &[u8], cursor: &[u8]) -> Result<Vec<Listed>> {
        let inodes = self.lock();
        let directory = &inodes.all[&inodes.find(path)?];
        if directory.kind != NodeKind::Directory {
            return Err(error(ErrorKind::NotDirectory, path));
        }
        // In the order of a hash, as many file systems list them, and not in the order of names.
        let mut behind: Vec<_> =
            directory.entries.iter().filter(|(name, _)| cursor_of(name).as_slice() > cursor).collect();
        behind.sort_by_key(|(name, _)| cursor_of(name));
        let entry = |(name, number): (&Vec<u8>, &u64)| {
            let inode = &inodes.all[number];
            let text = if inode.kind == NodeKind::Symlink { inode.content.clone() } else { Vec::new() };
            (name.clone(), node_of(*number, inode), text)
        };
        Ok(behind.into_iter().map(entry).collect())
    }

    pub(super) fn edit(&self, path: &[u8], edit: impl FnOnce(&mut Inode)) {
        let mut inodes = self.lock();
        if let Ok(inode) = inodes.find(path) {
            edit(inodes.get(inode));
        }
    }

    /// All names below the top, parents first.
    pub(super) fn walk(&self) -> BTreeMap<Vec<u8>, Found> {
        let mut found = BTreeMap::new();
        let mut left = vec![Vec::new()];
        while let Some(path) = left.pop() {
            let names: Vec<Vec<u8>> = {
                let inodes = self.lock();
                let Ok(inode) = inodes.find(&path) else { continue };
                inodes.all[&inode].entries.keys().cloned().collect()
            };
            for name in names {
                let below = crate::tree::join(&path, &name);
                let Ok(one) = self.find(&below) else { continue };
                if one.kind == NodeKind::Directory {
                    left.push(below.clone());
                }
                found.insert(below, one);
            }
        }
        found
    }

    /// Removes a name with all below it.
    pub(super) fn remove_all(&self, path: &[u8]) {
        let below: Vec<Vec<u8>> =
            self.walk().into_keys().filter(|name| name.starts_with(&[path, b"/"].concat())).collect();
        for name in below.iter().rev().map(Vec::as_slice).chain([path]) {
            let mut inodes = self.lock();
            if let Ok((parent, last)) = inodes.parent(name) {
                inodes.leave(parent, &last);
            }
        }
    }
}

/// A name of a directory, what it refers to, and the text of a link.
pub(super) type Listed = (Vec<u8>, Node, Vec<u8>);

pub(super) fn node_of(number: u64, inode: &Inode) -> Node {
    let size = inode.content.len() as u64;
    Node {
        kind: inode.kind,
        mode: inode.mode,
        size,
        allocated: size,
        links: inode.links,
        identity: (7, number),
        owner: (0, 0),
        device: inode.device,
        accessed: Timestamp::new(0, 0),
        modified: inode.modified,
        changed: inode.modified,
        version: Version(Vec::new()),
    }
}
