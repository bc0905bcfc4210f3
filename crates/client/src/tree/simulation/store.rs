//! The operations of a store on a tree in memory.

use super::files::{Inode, SimulatedFiles, Time, cursor_of, error, node_of};
use crate::tree::endpoints::Local;
use std::collections::BTreeSet;
use xdfs_io::store::tree::{AttributeChange, Cursor, ListControl, Node, NodeKind, Space, Special, Tree};
use xdfs_io::store::{Existing, Kept, MemoryStore, SmallFile, SmallReader, Source, Stage, StageRequest, Store};
use xdfs_proto::base::{Error, ErrorKind, RelPath, Safety, Timestamp, TransferId};

type Result<T> = std::result::Result<T, Error>;

fn no_xattrs() -> Error {
    Error::new(ErrorKind::Unsupported, "no extended attributes here")
}

impl Tree for SimulatedFiles {
    fn node(&self, path: &RelPath) -> Result<Node> {
        let inodes = self.lock();
        let number = inodes.find(path.as_bytes())?;
        Ok(node_of(number, &inodes.all[&number]))
    }

    fn list(
        &self,
        path: &RelPath,
        cursor: &[u8],
        take: &mut dyn FnMut(&[u8], &Node) -> ListControl,
    ) -> Result<Option<Cursor>> {
        // The caller may use the tree meanwhile.
        let mut last = cursor.to_vec();
        for (name, node, _) in self.entries(path.as_bytes(), cursor)? {
            if take(&name, &node) == ListControl::Stop {
                return Ok(Some(last));
            }
            last = cursor_of(&name).to_vec();
        }
        Ok(None)
    }

    fn make_directory(&self, path: &RelPath, mode: u32, parents: bool) -> Result<()> {
        let mut inodes = self.lock();
        let mut ends: Vec<usize> =
            path.as_bytes().iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).collect();
        if !parents {
            ends.clear();
        }
        ends.push(path.as_bytes().len());
        for end in ends {
            let (name, clock) = (&path.as_bytes()[..end], inodes.clock);
            let directory = Inode::new(NodeKind::Directory, mode, Vec::new(), Timestamp::new(clock, 0));
            match inodes.create(name, directory) {
                Err(error) if error.kind == ErrorKind::AlreadyExists && parents => {
                    let there = inodes.find(name)?;
                    if inodes.all[&there].kind != NodeKind::Directory {
                        return Err(error);
                    }
                }
                made => drop(made?),
            }
        }
        Ok(())
    }

    fn remove_directory(&self, path: &RelPath) -> Result<()> {
        let mut inodes = self.lock();
        let directory = &inodes.all[&inodes.find(path.as_bytes())?];
        if directory.kind != NodeKind::Directory {
            return Err(error(ErrorKind::NotDirectory, path.as_bytes()));
        }
        if !directory.entries.is_empty() {
            return Err(error(ErrorKind::AlreadyExists, path.as_bytes()));
        }
        let (parent, name) = inodes.parent(path.as_bytes())?;
        inodes.leave(parent, &name);
        Ok(())
    }

    fn remove(&self, path: &RelPath) -> Result<()> {
        let mut inodes = self.lock();
        let there = inodes.find(path.as_bytes())?;
        if inodes.all[&there].kind == NodeKind::Directory {
            return Err(error(ErrorKind::IsDirectory, path.as_bytes()));
        }
        let (parent, name) = inodes.parent(path.as_bytes())?;
        inodes.leave(parent, &name);
        Ok(())
    }

    fn rename(&self, from: &RelPath, to: &RelPath, existing: Existing) -> Result<()> {
        self.lock().rename(from.as_bytes(), to.as_bytes(), existing)
    }

    fn link(&self, of: &RelPath, name: &RelPath) -> Result<()> {
        let mut inodes = self.lock();
        let (inode, (parent, last)) = (inodes.find(of.as_bytes())?, inodes.parent(name.as_bytes())?);
        if inodes.all[&inode].kind == NodeKind::Directory {
            return Err(error(ErrorKind::PermissionDenied, of.as_bytes()).with_errno(1));
        }
        if inodes.all[&parent].entries.contains_key(&last) {
            return Err(error(ErrorKind::AlreadyExists, name.as_bytes()));
        }
        inodes.enter(parent, last, inode);
        Ok(())
    }

    fn make_symlink(&self, path: &RelPath, text: &[u8]) -> Result<()> {
        let mut inodes = self.lock();
        let clock = inodes.clock;
        inodes
            .create(path.as_bytes(), Inode::new(NodeKind::Symlink, 0o777, text.to_vec(), Timestamp::new(clock, 0)))
            .map(drop)
    }

    fn read_symlink(&self, path: &RelPath) -> Result<Vec<u8>> {
        let found = self.find(path.as_bytes())?;
        match found.kind {
            NodeKind::Symlink => Ok(found.content),
            _ => Err(error(ErrorKind::NotRegular, path.as_bytes())),
        }
    }

    fn make_special(&self, path: &RelPath, special: &Special) -> Result<()> {
        let mut inodes = self.lock();
        let clock = inodes.clock;
        let inode = Inode::new(special.kind, special.mode, Vec::new(), Timestamp::new(clock, 0));
        inodes.create(path.as_bytes(), Inode { device: special.device, ..inode }).map(drop)
    }

    fn change(&self, path: &RelPath, change: &AttributeChange) -> Result<()> {
        let mut inodes = self.lock();
        let number = inodes.find(path.as_bytes())?;
        let inode = inodes.get(number);
        if let Some(mode) = change.mode {
            if inode.kind == NodeKind::Symlink {
                return Err(error(ErrorKind::Unsupported, path.as_bytes()));
            }
            inode.mode = mode;
        }
        if let Some(length) = change.length {
            inode.content.resize(usize::try_from(length).unwrap_or(0), 0);
        }
        inode.modified = change.modified.unwrap_or(inode.modified);
        Ok(())
    }

    fn xattrs(&self, _: &RelPath) -> Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    fn xattr(&self, _: &RelPath, _: &[u8]) -> Result<Vec<u8>> {
        Err(no_xattrs())
    }

    fn set_xattr(&self, _: &RelPath, _: &[u8], _: &[u8]) -> Result<()> {
        Err(no_xattrs())
    }

    fn remove_xattr(&self, _: &RelPath, _: &[u8]) -> Result<()> {
        Err(no_xattrs())
    }

    fn space(&self, _: &RelPath) -> Result<Space> {
        Ok(Space::default())
    }

    fn sync(&self, path: &RelPath) -> Result<()> {
        self.find(path.as_bytes()).map(drop)
    }

    fn sync_files(&self, _: &BTreeSet<RelPath>) -> Result<Safety> {
        Ok(Safety::Durable)
    }
}

impl Local for SimulatedFiles {
    fn open(&self, path: &RelPath) -> Result<Source> {
        let found = self.find(path.as_bytes())?;
        if found.kind != NodeKind::Regular {
            return Err(error(ErrorKind::NotRegular, path.as_bytes()));
        }
        let name = RelPath::parse(b"file").expect("a name");
        let store = MemoryStore::new(u64::MAX);
        store.put(&name, &found.content)?;
        store.open(&name)
    }

    fn read_small(&self, path: &RelPath, seen: &Node, into: &mut SmallReader) -> Result<Time> {
        let found = self.find(path.as_bytes())?;
        if found.kind != NodeKind::Regular {
            return Err(error(ErrorKind::NotRegular, path.as_bytes()));
        }
        if found.content.len() as u64 > seen.size {
            return Err(error(ErrorKind::TooLarge, path.as_bytes()));
        }
        into.fill(&found.content);
        Ok(found.modified)
    }

    fn write_small(&self, files: &[SmallFile<'_>], _: bool) -> Vec<Result<Safety>> {
        let put = |file: &SmallFile<'_>| {
            let modified = file.modified.unwrap_or_default();
            let inode = Inode::new(NodeKind::Regular, file.mode, file.content.to_vec(), modified);
            self.put(file.target.as_bytes(), inode, file.existing).map(|()| Safety::Written)
        };
        files.iter().map(put).collect()
    }

    fn stage(&self, _: &StageRequest) -> Result<Stage> {
        unreachable!("the simulated session writes transfers itself")
    }

    fn kept(&self, _: &RelPath, _: TransferId) -> Option<Kept> {
        None
    }

    fn unlock(&self, _: &RelPath) -> bool {
        false
    }

    fn has_name(&self, path: &RelPath) -> bool {
        self.find(path.as_bytes()).is_ok()
    }

    fn may_hold_new(&self, _: &RelPath) -> bool {
        true
    }

    fn remove_useless(&self, _: &RelPath) {}
}
