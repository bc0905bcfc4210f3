//! Walks the source page by page and compares it with the target.

use super::Upload;
use super::sending::{Extras, Owned};
use super::task::{UploadEntry, UploadTask};
use crate::tree::compare::TargetState;
use crate::tree::directories::DirectoryId;
use crate::tree::events::{EntryAction, Observer};
use crate::tree::scheduler::TreeCopy;
use crate::tree::{has_mode, has_time, join, must_not_be_reserved, parse, same_time};
use xdfs_engine::kinds;
use xdfs_io::store::Tree;
use xdfs_io::store::tree::{ListControl, Node, NodeKind};
use xdfs_proto::base::{ErrorKind, RelPath};
use xdfs_proto::wire::path::{Attributes, FileType};

/// Entries of a directory that are processed together: this many are held in memory for each level
/// of the tree.
const PAGE_ENTRIES: usize = 256;

impl Upload {
    /// Processes the next page of a directory of the source.
    pub(super) fn walk(&mut self, observer: &mut dyn Observer, id: DirectoryId, cursor: &[u8]) {
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
        let Some(there) = self.partner(observer, id, &path, name, &node, there) else { return };
        let (kind, entry) = (node.kind, UploadEntry::new(id, path, Box::new(node)));
        match there {
            Some(TargetState::Same) => self.skip(observer, &entry.path),
            Some(TargetState::OtherAttributes) => {
                self.skip(observer, &entry.path);
                if !self.options.dry_run {
                    if kind != NodeKind::Regular {
                        self.scheduler.tasks.push(UploadTask::Time(entry.path.clone(), entry.node.modified));
                    }
                    self.scheduler.tasks.push(UploadTask::Extras(entry));
                }
            }
            Some(_) if self.options.keep_existing => self.skip(observer, &entry.path),
            _ if !self.options.keep.specials && is_special(kind) => self.state.summary.passed_over += 1,
            there => {
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
                files.push(self.sending(entry, there));
            }
        }
    }

    /// The first step of sending an entry.
    pub(super) fn sending(&self, entry: UploadEntry, there: Option<TargetState>) -> UploadTask {
        let regular = entry.node.kind == NodeKind::Regular;
        match there {
            Some(TargetState::Unhashed) => UploadTask::Check { entry, same: true },
            Some(TargetState::Older) if regular && self.options.checksum => UploadTask::Check { entry, same: false },
            _ if self.options.dry_run => UploadTask::Entry(entry),
            Some(there) if there.is_directory() => UploadTask::ClearDirectory(entry),
            Some(TargetState::OtherKind) => UploadTask::Clear(entry),
            // A symbolic link or special file is not overwritten but made anew.
            Some(TargetState::Older) if !regular => UploadTask::Clear(entry),
            _ => UploadTask::Entry(entry),
        }
    }

    fn skip(&mut self, observer: &mut dyn Observer, path: &[u8]) {
        self.state.summary.skipped += 1;
        observer.done(path, EntryAction::Skipped);
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
        if told.kind == FileType::Directory {
            let equal = told.modified.is_some() && self.has_attributes(&at, &node, told);
            return Some(TargetState::directory(equal, told.mode));
        }
        if self.options.keep_existing {
            return Some(TargetState::Same);
        }
        if told.kind != kinds::told(node.kind) {
            return Some(TargetState::OtherKind);
        }
        // Which of several names are one file is compared later.
        let joined = self.options.keep.links && node.links == 1 && told.links.is_some_and(|links| links > 1);
        let same = !joined
            && match node.kind {
                NodeKind::Regular => {
                    let equal = told.size == Some(node.size);
                    let time = told.modified.is_some_and(|time| same_time(time, node.modified));
                    if self.options.checksum {
                        let same = equal && time && self.has_attributes(&at, &node, told);
                        return Some(if same { TargetState::Unhashed } else { TargetState::Older });
                    }
                    equal && time && self.options.skip_same
                }
                NodeKind::Symlink => self.store.read_symlink(&at).is_ok_and(|text| told.target == Some(&text)),
                _ => told.device.unwrap_or(node.device) == node.device,
            };
        Some(match same {
            true if self.has_attributes(&at, &node, told) => TargetState::Same,
            true => TargetState::OtherAttributes,
            false => TargetState::Older,
        })
    }

    /// Whether the target has time, mode and owner of the source, as far as they are kept. Extended
    /// attributes are not reported: if there are any they are sent again. A regular file with
    /// another time is another file.
    fn has_attributes(&self, at: &RelPath, node: &Node, told: &Attributes<'_>) -> bool {
        let keep = self.options.keep;
        let owner = || Owned::of(node.owner, keep.numeric).is_told(told);
        let none = || self.store.xattrs(at).is_ok_and(|names| names.is_empty());
        has_time(node, told)
            && (!keep.modes || has_mode(node, told))
            && (!keep.owners || owner())
            && (!keep.xattrs || none())
    }

    /// The other metadata that the target is to get, as far as requested.
    pub(super) fn extras(&self, path: &[u8], node: &Node) -> Extras {
        let keep = self.options.keep;
        let mut extras =
            Extras { owner: keep.owners.then(|| Owned::of(node.owner, keep.numeric)), ..Extras::default() };
        if keep.modes && node.kind != NodeKind::Symlink {
            extras.mode(node.mode);
        }
        if keep.xattrs
            && let Ok(at) = RelPath::parse(path)
        {
            for name in self.store.xattrs(&at).unwrap_or_default() {
                // Removed meanwhile, or not readable.
                if let Ok(value) = self.store.xattr(&at, &name) {
                    extras.xattrs.push((name, value));
                }
            }
        }
        extras
    }
}

pub(super) fn is_special(kind: NodeKind) -> bool {
    !matches!(kind, NodeKind::Regular | NodeKind::Directory | NodeKind::Symlink)
}
