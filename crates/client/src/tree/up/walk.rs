//! Walks the source page by page and compares it with the target.

use super::Upload;
use super::sending::{Extras, Owned};
use super::task::{UploadEntry, UploadTask};
use crate::tree::compare::TargetState;
use crate::tree::directories::DirectoryId;
use crate::tree::events::{EntryAction, Observer};
use crate::tree::plan::{EntryPlan, Facts, Pair, compare, plan};
use crate::tree::scheduler::TreeCopy;
use crate::tree::{join, must_not_be_reserved, parse, same_time};
use xdfs_engine::kinds;
use xdfs_io::store::tree::{ListControl, Node, NodeKind};
use xdfs_proto::base::{ErrorKind, RelPath};
use xdfs_proto::wire::path::{Attributes, FileType};

/// Entries of a directory that are processed together: this many are held in memory for each level
/// of the tree.
const PAGE_ENTRIES: usize = 256;

impl Upload {
    /// Processes the next page of a directory of the source.
    pub(super) fn walk(&mut self, observer: &mut dyn Observer, id: DirectoryId, cursor: &[u8]) {
        // A directory is known as long as anything waits for it.
        let Some(path) = self.state.directories.get(id).map(|directory| directory.path.clone()) else { return };
        if self.state.directories.is_lost(id) {
            return self.settle(id);
        }
        let mut page = Vec::new();
        let listed = parse(&path).and_then(|at| {
            self.store.list(&at, cursor, &mut |name, node| {
                if page.len() == PAGE_ENTRIES {
                    return ListControl::Stop;
                }
                page.push((name.to_vec(), node.clone()));
                ListControl::More
            })
        });
        let next = match listed {
            Ok(next) => next,
            Err(error) => {
                self.state.incomplete = true;
                self.state.summary.failed += 1;
                observer.failed(&path, &error);
                None
            }
        };
        let more = next.is_some();
        if let Some(cursor) = next {
            self.scheduler.tasks.push(UploadTask::Walk { id, cursor });
        }
        let mut files = Vec::new();
        for (name, node) in page {
            self.sort(observer, id, join(&path, &name), &name, node, &mut files);
        }
        // Files before subdirectories: their directory is complete sooner.
        self.scheduler.tasks.append(&mut files);
        if !more {
            self.there.remove(&id);
            self.settle(id);
        }
    }

    /// Decides what to do with one entry.
    fn sort(
        &mut self,
        observer: &mut dyn Observer,
        id: DirectoryId,
        path: Vec<u8>,
        name: &[u8],
        node: Node,
        files: &mut Vec<UploadTask>,
    ) {
        if !self.options.takes(&path, node.kind == NodeKind::Directory) {
            return;
        }
        if let Err(error) = must_not_be_reserved(name) {
            self.state.summary.failed += 1;
            return observer.failed(&path, &error);
        }
        let there = self.there.get(&id).and_then(|names| names.get(name));
        if node.kind == NodeKind::Directory {
            self.state.directories.hold(id);
            return self.scheduler.tasks.push(UploadTask::Enter {
                parent: Some(id),
                path,
                node: Box::new(node),
                there,
            });
        }
        // Else it waits for the first of its names.
        let Some(there) = self.partner(observer, id, &path, name, &node, there) else { return };
        let (kind, mut entry) = (kinds::told(node.kind), UploadEntry::of(id, path, Box::new(node)));
        entry.detail.exists = there.is_some();
        match plan(kind, there, &self.options) {
            EntryPlan::Keep | EntryPlan::Leave => self.skip(observer, &entry),
            EntryPlan::SetAttributes => {
                self.skip(observer, &entry);
                if !self.options.dry_run {
                    if kind != FileType::Regular {
                        self.scheduler.tasks.push(UploadTask::Time(entry.path.clone(), entry.detail.node.modified));
                    }
                    self.scheduler.tasks.push(UploadTask::Extras(entry));
                }
            }
            EntryPlan::PassOver => self.state.summary.passed_over += 1,
            EntryPlan::Copy(step) => {
                self.state.directories.hold(id);
                if self.options.dry_run && there.is_some_and(TargetState::is_directory) {
                    let cleared = self.options.delete.map_or(Ok(()), |most| self.state.may_clear(most));
                    if let Err(error) = cleared {
                        return self.refused(observer, &entry, &error);
                    }
                    if self.options.delete.is_some() {
                        self.state.summary.deleted += 1;
                        observer.done(&entry.path, EntryAction::Deleted);
                    }
                }
                if let Some(directory) = self.state.directories.get_mut(id) {
                    directory.touched = true;
                }
                files.push(UploadTask::first(entry, step));
            }
        }
    }

    /// Compares the entry of the target under a name with that of the source.
    pub(super) fn judge(&mut self, directory: &[u8], name: &[u8], told: &Attributes<'_>) -> Option<TargetState> {
        let path = join(directory, name);
        let at = RelPath::parse(&path).ok()?;
        let node = match self.store.node(&at) {
            Ok(node) => node,
            Err(error) => {
                let absent = error.kind == ErrorKind::NotFound;
                self.state.incomplete |= !absent;
                if absent
                    && self.options.delete.is_some()
                    && self.options.takes(&path, told.kind == FileType::Directory)
                {
                    let kind: &[u8] = if told.kind == FileType::Directory { b"d" } else { b"" };
                    self.state.incomplete |= self.surplus.push(&path, kind).is_err();
                }
                return None;
            }
        };
        let keep = self.options.keep;
        let links = node.kind == NodeKind::Symlink && told.kind == FileType::Symlink;
        let text = if links { self.store.read_symlink(&at).ok() } else { None };
        // Extended attributes are not reported: if there are any they are sent again.
        let same_time = told.modified.is_none_or(|time| same_time(node.modified, time));
        let pair = Pair {
            source: Facts::of_node(&node, text.as_deref()),
            target: Facts::of_told(told),
            same_owner: !keep.owners || Owned::of(node.owner, keep.numeric).is_told(told),
            unreported: keep.xattrs && same_time && !self.store.xattrs(&at).is_ok_and(|names| names.is_empty()),
        };
        Some(compare(&pair, &self.options))
    }

    /// The other metadata that the target is to get, as far as requested.
    pub(super) fn extras(&self, path: &[u8], node: &Node) -> Extras {
        Extras::of(&*self.store, path, node, self.options.keep)
    }
}

pub(super) fn is_special(kind: NodeKind) -> bool {
    !matches!(kind, NodeKind::Regular | NodeKind::Directory | NodeKind::Symlink)
}
