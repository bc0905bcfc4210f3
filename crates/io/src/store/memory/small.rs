//! Small files in memory: once they are named they are as safe as they can be.

use super::{MemoryNode, MemoryStore, MemoryTree};
use crate::store::Result;
use crate::store::errors;
use crate::store::small::{SmallFile, SmallGroup};
use std::sync::Arc;
use xdfs_proto::base::commit::Member;
use xdfs_proto::base::{Error, ErrorKind, RelPath};

/// A group of a [`MemoryStore`]: it holds nothing until a file is named.
#[derive(Debug)]
pub(super) struct MemoryGroup<'s> {
    store: &'s MemoryStore,
    staged: Vec<Result<()>>,
}

impl<'s> MemoryGroup<'s> {
    pub(super) fn new(store: &'s MemoryStore, files: &[SmallFile<'_>]) -> Self {
        let mut tree = store.tree();
        Self { store, staged: files.iter().map(|file| tree.admit_small(file)).collect() }
    }
}

impl MemoryTree {
    fn admit_small(&mut self, file: &SmallFile<'_>) -> Result<()> {
        if file.parents {
            self.make_parents(&file.target)?;
        }
        self.must_have_parent(&file.target)?;
        if !self.has_copy_of(file)? {
            self.must_admit(&file.target, file.existing)?;
        }
        self.must_have_room(&file.target, file.content.len() as u64)
    }

    fn make_parents(&mut self, path: &RelPath) -> Result<()> {
        let mut above = RelPath::default();
        for component in path.components().take(path.depth().saturating_sub(1)) {
            // Came from a path, so it is a valid component.
            let _ = above.push(component);
            if self.node(&above).is_none() {
                self.must_have_parent(&above)?;
                self.nodes.insert(above.clone(), MemoryNode::Directory);
            }
        }
        Ok(())
    }

    /// Whether the existing file is identical to what is put. An error if it is neither that nor
    /// what may be replaced.
    fn has_copy_of(&self, file: &SmallFile<'_>) -> Result<bool> {
        let Some(base) = &file.base else { return Ok(false) };
        let content = match self.node(&file.target) {
            Some(MemoryNode::File(content)) => Some(content),
            _ => None,
        };
        if content.as_ref().map_or(&[][..], |content| &content.attributes.version.0) == base.version.as_slice() {
            return Ok(false);
        }
        let of_file = |content: &Arc<super::Content>| {
            content.bytes == file.content && Some(content.attributes.modified) == base.modified
        };
        if content.is_some_and(|content| of_file(&content)) {
            return Ok(true);
        }
        Err(errors::target_changed(&errors::shown("", &file.target)))
    }
}

impl SmallGroup for MemoryGroup<'_> {
    fn members(&self) -> Vec<Member> {
        self.staged.iter().map(|_| Member::default()).collect()
    }

    fn finish(&mut self, member: usize, _: &SmallFile<'_>) -> Result<()> {
        let nobody = || Err(Error::new(ErrorKind::Storage, "a group has no such member"));
        self.staged.get(member).cloned().unwrap_or_else(nobody)
    }

    fn sync(&mut self, _: usize) -> Result<()> {
        Ok(())
    }

    fn name(&mut self, _: usize, file: &SmallFile<'_>) -> Result<()> {
        let mut tree = self.store.tree();
        tree.must_have_parent(&file.target)?;
        if tree.has_copy_of(file)? {
            return Ok(());
        }
        tree.must_admit(&file.target, file.existing)?;
        tree.must_have_room(&file.target, file.content.len() as u64)?;
        tree.used += file.content.len() as u64;
        tree.place(&file.target, file.content.to_vec(), file.mode, file.modified);
        Ok(())
    }

    fn sync_directory(&mut self, _: usize) -> Result<()> {
        Ok(())
    }
}
