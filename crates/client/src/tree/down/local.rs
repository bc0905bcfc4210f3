//! Local operations: directories, links, attributes, and existing entries.

use super::{Download, DownloadEntry, DownloadSource, DownloadTask, SourceEntry, parse};
use crate::tree::compare::TargetState;
use crate::tree::directories::DirectoryId;
use crate::tree::endpoints::Local;
use crate::tree::events::{EntryAction, Observer};
use crate::tree::plan::{Facts, Pair, compare};
use crate::tree::received_metadata::{XATTR_ROOM, known_here};
use crate::tree::scheduler::{TRIES_MAX, TreeCopy};
use crate::tree::state::full_directory;
use crate::tree::{NotPreserved, SET_ID, TreeOptions, join, noted, same_time};
use xdfs_engine::kinds;
use xdfs_io::store::Existing;
use xdfs_io::store::reserved::is_reserved;
use xdfs_io::store::tree::{AttributeChange, Cursor, ListControl, Node, NodeKind, Special};
use xdfs_proto::base::{Error, ErrorKind, RelPath, Safety, Timestamp};
use xdfs_proto::wire::path::{Attributes, FileType};

impl DownloadSource {
    /// What is told of a copied file.
    pub(super) fn copied(&self, safety: Safety) -> EntryAction {
        EntryAction::copied(self.source.size, safety, !self.alone)
    }
}

impl Download {
    /// Makes a directory. Returns whether it had to be made.
    pub(super) fn make_directory(&mut self, path: &[u8], source: &SourceEntry, alone: bool) -> Result<bool, Error> {
        let at = parse(path)?;
        if !alone {
            match self.store.node(&at) {
                Ok(node) if node.kind == NodeKind::Directory => return Ok(false),
                Ok(_) if self.options.dry_run => {}
                Ok(_) if self.options.keep_existing => {
                    return Err(Error::new(ErrorKind::NotDirectory, "something else is there, and is to be kept"));
                }
                Ok(_) => self.store.remove(&at).or_else(unless_gone)?,
                Err(error) if error.kind == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if self.options.dry_run {
            return Ok(true);
        }
        match self.store.make_directory(&at, self.options.keep.made_with(source.mode) | 0o700, false) {
            // Another copy of the tree was faster.
            Err(error) if error.kind == ErrorKind::AlreadyExists && self.is_directory(&at) => Ok(false),
            made => made.map(|()| true),
        }
    }

    fn is_directory(&self, at: &RelPath) -> bool {
        self.store.node(at).is_ok_and(|node| node.kind == NodeKind::Directory) && self.store.has_name(at)
    }

    /// Whether a name refers to what the source has, and is spelled so: a file system may treat two
    /// names as one.
    pub(super) fn is_there(&self, entry: &DownloadEntry) -> bool {
        // Its parts were checked when it was made of them.
        let (Ok(at), source) = (parse(&entry.path), &entry.detail.source) else { return false };
        let equal = |node: Node| {
            kinds::told(node.kind) == source.kind
                && match node.kind {
                    NodeKind::Regular => {
                        let time = source.modified.is_some_and(|time| same_time(time, node.modified));
                        node.size == source.size && time
                    }
                    NodeKind::Symlink => self.store.read_symlink(&at).is_ok_and(|text| text == source.text),
                    _ => node.device == source.device,
                }
        };
        self.store.node(&at).is_ok_and(equal) && self.store.has_name(&at)
    }

    /// Whether the entry that has the name of a non-directory may be removed, as far as that is
    /// known before the new one has arrived.
    pub(super) fn may_make_way(
        &mut self,
        observer: &mut dyn Observer,
        at: &RelPath,
        there: Option<TargetState>,
    ) -> Result<(), Error> {
        if !there.is_some_and(TargetState::is_directory) {
            return Ok(());
        }
        match self.options.delete {
            Some(most) => self.state.may_clear(most)?,
            None if self.options.dry_run || self.is_empty(at) => {}
            None => return Err(full_directory(false)),
        }
        if self.options.dry_run && self.options.delete.is_some() {
            self.state.summary.deleted += 1;
            observer.done(at.as_bytes(), EntryAction::Deleted);
        }
        Ok(())
    }

    fn is_empty(&self, at: &RelPath) -> bool {
        let mut empty = true;
        let listed = self.store.list(at, b"", &mut |name, _| {
            empty &= is_reserved(name);
            if empty { ListControl::More } else { ListControl::Stop }
        });
        // If it cannot be read its removal reports why.
        empty || listed.is_err()
    }

    /// Removes the entry that has the name of one that has arrived.
    pub(super) fn make_way(&mut self, observer: &mut dyn Observer, entry: &DownloadEntry) -> Result<(), Error> {
        if clear_for(
            &*self.store,
            &parse(&entry.path)?,
            (entry.detail.clears, entry.detail.source.kind),
            &self.options,
        )? {
            self.tell_cleared(observer, entry);
        }
        Ok(())
    }

    /// A directory was removed for an entry.
    pub(super) fn tell_cleared(&mut self, observer: &mut dyn Observer, entry: &DownloadEntry) {
        if entry.detail.clears.is_some_and(TargetState::is_directory) {
            self.state.summary.deleted += 1;
            observer.done(&entry.path, EntryAction::Deleted);
        }
    }

    /// Makes a symbolic link or special file.
    pub(super) fn make(&self, entry: &DownloadEntry) -> Result<(), Error> {
        let (at, source) = (parse(&entry.path)?, &entry.detail.source);
        let kind = match source.kind {
            FileType::Symlink => NodeKind::Symlink,
            kind => kinds::special(kind)
                .ok_or_else(|| Error::new(ErrorKind::Unsupported, "the server does not say what it is"))?,
        };
        let make = || match kind {
            NodeKind::Symlink => self.store.make_symlink(&at, &source.text),
            _ => self.store.make_special(
                &at,
                &Special { kind, mode: self.options.keep.made_with(source.mode), device: source.device },
            ),
        };
        let time = AttributeChange { modified: source.modified, ..AttributeChange::default() };
        for _ in 1..TRIES_MAX {
            let made = match make() {
                Ok(()) => Ok(()),
                Err(error) if error.kind != ErrorKind::AlreadyExists => Err(error),
                // Another copy of the tree was faster.
                Err(_) if self.is_there(entry) => Ok(()),
                Err(error) if self.existing(entry) == Existing::Keep => Err(error),
                Err(_) => {
                    self.store.remove(&at).or_else(unless_gone)?;
                    continue;
                }
            };
            match made.and_then(|()| self.store.change(&at, &time)) {
                // Somebody removed it: once more.
                Err(error) if error.kind == ErrorKind::NotFound => {}
                done => return done,
            }
        }
        make().and_then(|()| self.store.change(&at, &time))
    }

    /// Sets the other metadata of a name, as far as requested: owner and mode at once, extended
    /// attributes when they have arrived.
    pub(super) fn add_extras(&mut self, observer: &mut dyn Observer, entry: &DownloadEntry) {
        let keep = self.options.keep;
        let mode = (keep.modes && entry.detail.source.kind != FileType::Symlink).then_some(entry.detail.source.mode);
        let owner = entry.detail.source.owner.filter(|_| keep.owners);
        self.change(observer, &entry.path, owner, mode);
        self.ask_xattrs(entry.path.clone());
    }

    /// A listing does not report extended attributes: if they are wanted, those of every name are
    /// requested.
    pub(super) fn ask_xattrs(&mut self, path: Vec<u8>) {
        if self.options.keep.xattrs && !self.options.dry_run {
            self.scheduler.tasks.push(DownloadTask::Xattrs { path, room: XATTR_ROOM });
        }
    }

    /// Sets all metadata of the source on an existing entry, but not the content.
    pub(super) fn give_attributes(&mut self, observer: &mut dyn Observer, entry: &DownloadEntry) {
        if self.options.dry_run {
            return;
        }
        if entry.detail.source.kind != FileType::Regular {
            self.set_time(observer, &entry.path, entry.detail.source.modified);
        }
        self.add_extras(observer, entry);
    }

    pub(super) fn change(
        &mut self,
        observer: &mut dyn Observer,
        path: &[u8],
        owner: Option<(u32, u32)>,
        mode: Option<u32>,
    ) {
        // Its parts were checked when it was made of them.
        let Ok(at) = parse(path) else { return };
        let owner = owner.map(|(user, group)| (Some(user), Some(group))).unwrap_or_default();
        let mut mode = mode;
        if owner != (None, None)
            && let Err(error) = self.store.change(&at, &AttributeChange { owner, ..AttributeChange::default() })
        {
            mode = mode.map(|mode| mode & !SET_ID);
            self.reduced(observer, (path, NotPreserved::OWNER), &error);
        }
        if mode.is_some()
            && let Err(error) = self.store.change(&at, &AttributeChange { mode, ..AttributeChange::default() })
        {
            self.reduced(observer, (path, NotPreserved::MODE), &error);
        }
    }

    /// The last step of a directory.
    pub(super) fn finish(&mut self, observer: &mut dyn Observer, id: DirectoryId) {
        // A directory is known as long as anything waits for it.
        let Some(directory) = self.state.directories.get(id).cloned() else { return };
        if !self.options.dry_run && directory.touched {
            let keep = self.options.keep;
            let mode = (keep.modes || directory.presence.has_other_mode() || directory.mode & 0o700 != 0o700)
                .then_some(directory.mode);
            self.change(observer, &directory.path, directory.owner, mode);
            self.set_time(observer, &directory.path, directory.modified);
            let synced = parse(&directory.path).and_then(|at| match self.options.durable {
                true => self.store.sync(&at),
                false => Ok(()),
            });
            // One that could not be listed has failed already.
            if let Err(error) = synced.or_else(|error| if directory.unknown { Ok(()) } else { Err(error) }) {
                self.state.summary.failed += 1;
                observer.failed(&directory.path, &error);
            }
        }
        self.left(id);
    }

    pub(super) fn set_time(&mut self, observer: &mut dyn Observer, path: &[u8], modified: Option<Timestamp>) {
        let change = AttributeChange { modified, ..AttributeChange::default() };
        if modified.is_some()
            && let Err(error) = parse(path).and_then(|at| self.store.change(&at, &change))
        {
            self.reduced(observer, (path, NotPreserved::TIME), &error);
        }
    }

    pub(super) fn reduced(&mut self, observer: &mut dyn Observer, (path, kind): (&[u8], NotPreserved), error: &Error) {
        // A read-only file system accepts nothing else of the tree; this is reported once.
        if error.kind == ErrorKind::ReadOnly && self.state.summary.has_made_nothing() {
            self.state.hopeless.get_or_insert_with(|| error.clone());
            return;
        }
        self.state.summary.reduce(kind);
        if self.state.summary.reduced == 1 {
            observer.note(&format!("{}: {error}; more of the kind is counted", noted(path)));
        }
    }

    /// Compares the local entry under a name with that of the server; `None` if there is none.
    pub(super) fn judge(&mut self, path: &RelPath, told: &Attributes<'_>) -> Result<Option<TargetState>, Error> {
        let node = match self.store.node(path) {
            Ok(node) => node,
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let links = node.kind == NodeKind::Symlink && told.kind == FileType::Symlink;
        let text = if links { self.store.read_symlink(path).ok() } else { None };
        let same_owner = told.owner.is_none_or(|numbers| known_here(numbers, told.names) == node.owner);
        let pair = Pair {
            source: Facts::of_told(told),
            target: Facts::of_node(&node, text.as_deref()),
            same_owner,
            // Those of every name are requested.
            unreported: false,
        };
        Ok(Some(compare(&pair, &self.options)))
    }
}

/// Ignores that another process removed it.
pub(super) fn unless_gone(error: Error) -> Result<(), Error> {
    if error.kind == ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Removes the entry that has the name of something of this kind, if it is still the one that was
/// found. Returns whether it was a directory.
pub(super) fn clear_for(
    store: &dyn Local,
    at: &RelPath,
    (there, kind): (Option<TargetState>, FileType),
    options: &TreeOptions,
) -> Result<bool, Error> {
    let Some(there) = there else { return Ok(false) };
    let node = match store.node(at) {
        Err(error) if error.kind == ErrorKind::NotFound => return Ok(false),
        node => node?,
    };
    if node.kind != NodeKind::Directory {
        // The new one may have arrived before a session was lost.
        return if kinds::told(node.kind) == kind {
            Ok(false)
        } else {
            store.remove(at).or_else(unless_gone).map(|()| false)
        };
    }
    if !there.is_directory() {
        return Ok(false);
    }
    let gone = match options.delete {
        Some(_) => remove_all(store, at, options).or_else(|error| unless_gone(error).map(|()| true))?,
        None => match store.remove_directory(at) {
            Err(error) if error.kind == ErrorKind::AlreadyExists => false,
            other => other.map(|()| true)?,
        },
    };
    if gone { Ok(true) } else { Err(full_directory(options.delete.is_some())) }
}

/// Names of a directory that are removed at a time.
const TAKEN: usize = 1024;

/// A directory that is being emptied: where its listing continues (`None` at its end), and whether
/// an entry stays.
struct Emptied {
    path: RelPath,
    cursor: Option<Cursor>,
    kept: bool,
}

/// Removes a name; for a directory, all its entries first, except those that are filtered out.
/// False if something stays. It recurses as deep as a path may be.
pub(super) fn remove_all(tree: &dyn Local, path: &RelPath, options: &TreeOptions) -> Result<bool, Error> {
    if tree.node(path)?.kind != NodeKind::Directory {
        return tree.remove(path).map(|()| true);
    }
    let emptied = |path: RelPath| Emptied { path, cursor: Some(Cursor::new()), kept: false };
    let mut below = vec![emptied(path.clone())];
    let mut gone = true;
    while let Some(directory) = below.last_mut() {
        let Some(cursor) = directory.cursor.take() else {
            gone = !directory.kept;
            if gone {
                tree.remove_directory(&directory.path).or_else(unless_gone)?;
            }
            below.pop();
            if let Some(above) = below.last_mut() {
                above.kept |= !gone;
            }
            continue;
        };
        tree.unlock(&directory.path);
        let (mut files, mut inner) = (Vec::new(), None);
        let at = directory.path.as_bytes();
        let listed = tree.list(&directory.path, &cursor, &mut |name, node| {
            if inner.is_some() || files.len() == TAKEN {
                return ListControl::Stop;
            }
            // A staging directory is never removed by name; its parent is removed only if no other
            // process uses it.
            if is_reserved(name) {
                return ListControl::More;
            }
            let (name, is_directory) = (join(at, name), node.kind == NodeKind::Directory);
            match (options.takes(&name, is_directory), is_directory) {
                (false, _) => directory.kept = true,
                (true, true) => inner = Some(name),
                (true, false) => files.push(name),
            }
            ListControl::More
        });
        directory.cursor = match listed {
            Err(error) if error.kind == ErrorKind::NotFound => None,
            listed => listed?,
        };
        for name in &files {
            tree.remove(&parse(name)?).or_else(unless_gone)?;
        }
        if let Some(name) = inner {
            below.push(emptied(parse(&name)?));
        }
    }
    Ok(gone)
}
