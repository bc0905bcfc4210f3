//! Small files of this machine in groups: each is unnamed until it gets its final name, so that a
//! killed program leaves nothing behind. On a file system without unnamed files it is an ordinary
//! part file.
//!
//! Directories are resolved once and held open as long as the group lives. Must not: decide about
//! an order, retry a sync.

use super::existing_target::{copy_of, must_be_base};
use super::journal::Sealer;
use super::part::{give_mode, give_time};
use super::preallocate::lacking;
use super::source::LocalSource;
use super::staging::{PartFile, PartLocation, PartNames, StagingDirectory, lock_new, no_staging};
use super::target_place::TargetPlace;
use super::unchanged::stays;
use super::unsynced_dirs::{Above, Made};
use super::{LocalStore, holes, must_admit, syncfs_policy};
use crate::store::errors::{self, Verb};
use crate::store::fresh_id::fresh_id;
use crate::store::io_loops::{Stuck, stuck_words, write_full};
use crate::store::locked_file::unlock;
use crate::store::resolve::Parent;
use crate::store::small::{SmallFile, SmallGroup, SmallReader, whole};
use crate::store::stat::version_of;
use crate::store::{Existing, Result, Source};
use crate::sys;
use rustix::fs::Mode;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use xdfs_proto::base::commit::Member;
use xdfs_proto::base::{Error, ErrorKind, RelPath, TransferId};

/// A directory in which files are named.
#[derive(Debug)]
struct Directory {
    path: RelPath,
    parent: Arc<Parent>,
    /// What its sync makes durable in addition to names of files.
    made: Vec<Made>,
    /// Too many are above it to sync each of them: see [`Above::Many`].
    many: Option<u64>,
    /// It is only in memory.
    in_memory: bool,
    /// A mode that new files here were observed to get as requested: a default access control list
    /// may change it.
    kept_mode: Option<u32>,
}

/// The location of a file until it is named.
#[derive(Debug)]
enum SmallFileState {
    /// No name.
    Unnamed,
    /// In a staging directory.
    Part(PartLocation),
    /// An earlier attempt whose result was lost has put it: the existing target has this version,
    /// and the same bytes.
    There(Vec<u8>),
    /// It has its final name.
    Named,
    /// The existing target is identical, and was kept.
    Unchanged,
}

#[derive(Debug)]
struct LocalMember {
    target: RelPath,
    parent: Arc<Parent>,
    file: OwnedFd,
    kind: SmallFileState,
    /// Directories whose names must be durable, its own first.
    directories: Vec<usize>,
    /// It can be made durable, and that was requested.
    durable: bool,
}

/// A group of small local files, unnamed until each gets its final name.
#[derive(Debug)]
pub(in crate::store) struct LocalGroup<'s> {
    store: &'s LocalStore,
    durable: bool,
    directories: Vec<Directory>,
    /// Each file, or the error after which no call for it can succeed.
    members: Vec<Result<LocalMember>>,
    /// Writeback of what the syncs of single files will wait for has begun.
    begun: bool,
    /// Held until all files are done, so that it is not created for each of them.
    staging: Option<Arc<StagingDirectory>>,
}

impl<'s> LocalGroup<'s> {
    /// Opens every file of the group; all are still empty.
    pub(in crate::store) fn open(store: &'s LocalStore, files: &[SmallFile<'_>], durable: bool) -> Self {
        let (directories, members) = (Vec::new(), Vec::with_capacity(files.len()));
        let mut group = Self { store, durable, directories, members, begun: false, staging: None };
        for file in files {
            let member = group.stage(file);
            group.members.push(member);
        }
        group
    }

    fn stage(&mut self, file: &SmallFile<'_>) -> Result<LocalMember> {
        self.store.must_be_writable(Verb::Create, &file.target)?;
        let Some(above) = file.target.parent() else {
            let shown = self.store.shown(&file.target);
            return Err(errors::refused(ErrorKind::IsDirectory, Verb::Create, &shown, "is a directory"));
        };
        let allowed = self.store.root.must_not_be_reserved(&file.target);
        allowed.map_err(|stop| self.store.blocked(Verb::Create, &file.target, &stop))?;
        let own = self.directory(&above, file)?;
        let mut directories = vec![own];
        let others = self.directories.len();
        let unsynced = match self.durable.then(|| self.store.fresh.above(&above, others)) {
            Some(Above::Each(unsynced)) => unsynced,
            Some(Above::Many(serial)) => {
                // The first member's sync counts for what was made before it.
                self.directories.get_mut(own).ok_or_else(nobody)?.many.get_or_insert(serial);
                Vec::new()
            }
            None => Vec::new(),
        };
        for made in unsynced {
            let number = self.directory(&made.place(), file)?;
            directories.push(number);
            if let Some(directory) = self.directories.get_mut(number).filter(|there| !there.made.contains(&made)) {
                directory.made.push(made);
            }
        }
        let directory = self.directories.get(own).ok_or_else(nobody)?;
        let parent = Arc::clone(&directory.parent);
        let target = file.target.clone();
        let durable = self.durable && !directory.in_memory;
        let (file, kind) = opened(self.store, &parent, file, durable)?;
        Ok(LocalMember { target, parent, file, kind, directories, durable })
    }

    /// The number of the directory `path`, which is held open from now on.
    fn directory(&mut self, path: &RelPath, file: &SmallFile<'_>) -> Result<usize> {
        // Files of one directory are adjacent.
        if let Some(number) = self.directories.iter().rposition(|directory| directory.path == *path) {
            return Ok(number);
        }
        let root = &self.store.root;
        let mut held = root.hold_directory(path);
        if held.is_err() && file.parents {
            held = self.store.make_directories(path, 0o777);
        }
        let parent = Arc::new(held.map_err(|stop| self.store.blocked(Verb::Create, &file.target, &stop))?);
        let number = self.directories.len();
        let in_memory = self.durable && parent.in_memory();
        let (path, made) = (path.clone(), Vec::new());
        self.directories.push(Directory { path, parent, made, many: None, in_memory, kept_mode: None });
        Ok(number)
    }

    fn live(&self) -> impl Iterator<Item = &LocalMember> + Clone {
        self.members.iter().flatten()
    }

    fn member(&mut self, member: usize) -> Result<&mut LocalMember> {
        match self.members.get_mut(member) {
            Some(Ok(member)) => Ok(member),
            Some(Err(error)) => Err(error.clone()),
            None => Err(nobody()),
        }
    }

    /// Gives up a file: no later call for it can succeed. Returns the error.
    fn give_up(&mut self, member: usize, error: Error) -> Error {
        if let Some(member) = self.members.get_mut(member) {
            *member = Err(error.clone());
        }
        error
    }

    /// Starts writeback of all files before waiting for any of them.
    fn begin_writing(&mut self) {
        if std::mem::replace(&mut self.begun, true) || self.members.len() < 2 {
            return;
        }
        for slot in &mut self.members {
            if let Ok(member) = slot
                && member.durable
                && let Err(errno) = sys::begin_writing(&member.file)
            {
                *slot = Err(errors::failed(Verb::Sync, &self.store.shown(&member.target), errno));
            }
        }
    }
}

fn nobody() -> Error {
    Error::new(ErrorKind::Storage, "a group has no such member")
}

/// The location of the file, with its name for messages.
fn place(store: &LocalStore, parent: &Arc<Parent>, file: &SmallFile<'_>) -> TargetPlace {
    TargetPlace {
        parent: Arc::clone(parent),
        name: file.target.name().unwrap_or_default().to_vec(),
        shown: store.shown(&file.target),
        existing: file.existing,
        base: file.base.clone(),
        umask: store.umask,
        way: None,
    }
}

/// The file that gets the bytes, and its location until it is named.
fn opened(
    store: &LocalStore,
    parent: &Arc<Parent>,
    file: &SmallFile<'_>,
    durable: bool,
) -> Result<(OwnedFd, SmallFileState)> {
    if file.base.is_some()
        && let Some(there) = there(&place(store, parent, file), file.content)?
    {
        return Ok(there);
    }
    let (name, shown) = (file.target.name().unwrap_or_default(), || store.shown(&file.target));
    let failed = |errno| errors::failed(Verb::Create, &shown(), errno);
    // Without a sync, the existing target is checked when the file is named.
    if durable {
        must_admit(parent, name, file.existing, &shown())?;
    }
    if store.parts.staging.unnamed
        && let Some(file) = parent.create_unnamed(Mode::from_raw_mode(mode(store, file))).map_err(failed)?
    {
        return Ok((file, SmallFileState::Unnamed));
    }
    if !durable {
        must_admit(parent, name, file.existing, &shown())?;
    }
    let names = PartNames::new(&file.target, TransferId(fresh_id()));
    match store.parts.staging.create(parent, &names.part).map_err(|why| no_staging(&shown(), why))? {
        PartFile::Made(directory, made) => {
            Ok((made, SmallFileState::Part(PartLocation { directory, names, sealer: Sealer::default() })))
        }
        PartFile::Exists(_) => Err(failed(Errno::EXIST)),
    }
}

fn mode(store: &LocalStore, file: &SmallFile<'_>) -> u32 {
    file.mode & 0o777 & !store.umask
}

/// The existing target, if it is identical to the file that is put.
fn there(place: &TargetPlace, content: &[u8]) -> Result<Option<(OwnedFd, SmallFileState)>> {
    let Some(stat) = copy_of(place, content.len() as u64)? else { return Ok(None) };
    let (file, found) = place.parent.open_regular(&place.name).map_err(|errno| {
        // It vanished, or was replaced, between two calls.
        errors::failed(Verb::Create, &place.shown, errno)
    })?;
    let source = Source::new(LocalSource::new(file, place.shown.clone(), &found));
    let mut read = SmallReader::default();
    let same = version_of(&found) == version_of(&stat)
        && whole(&source, content.len() as u64, &mut read).is_ok()
        && read.content() == content;
    match source.descriptor() {
        Some(file) if same => Ok(Some((file, SmallFileState::There(version_of(&stat).0)))),
        _ => Err(errors::target_changed(&place.shown)),
    }
}

impl SmallGroup for LocalGroup<'_> {
    fn members(&self) -> Vec<Member> {
        let member = |member: &Result<LocalMember>| match member {
            Ok(member) => Member { durable: member.durable, directories: member.directories.clone() },
            Err(_) => Member::default(),
        };
        self.members.iter().map(member).collect()
    }

    fn at_once(&self) -> bool {
        syncfs_policy::serves(self.live().map(|member| &member.file))
    }

    fn finish(&mut self, index: usize, file: &SmallFile<'_>) -> Result<()> {
        let store = self.store;
        let number = self.member(index)?.directories.first().copied().unwrap_or_default();
        let kept_mode = self.directories.get(number).and_then(|directory| directory.kept_mode);
        let member = self.member(index)?;
        if matches!(member.kind, SmallFileState::There(_)) {
            return Ok(());
        }
        let kept = member.fill(store, file, kept_mode).map_err(|error| self.give_up(index, error))?;
        if let Some(directory) = self.directories.get_mut(number) {
            directory.kept_mode = kept;
        }
        Ok(())
    }

    fn sync(&mut self, index: usize) -> Result<()> {
        self.begin_writing();
        let store = self.store;
        let member = self.member(index)?;
        // EINTR is the only error that says nothing about the pages.
        let synced = rustix::io::retry_on_intr(|| rustix::fs::fsync(&member.file));
        let synced = synced.map_err(|errno| errors::failed(Verb::Sync, &store.shown(&member.target), errno));
        synced.map_err(|error| self.give_up(index, error))
    }

    fn sync_system(&mut self) -> Result<()> {
        // Any of them reports every failed write since it was opened, before the first byte of the
        // group.
        let Some(any) = self.live().next() else { return Ok(()) };
        rustix::io::retry_on_intr(|| rustix::fs::syncfs(&any.file))
            .map_err(|errno| errors::failed(Verb::Sync, &self.store.shown(&any.target), errno))
    }

    fn name(&mut self, member: usize, file: &SmallFile<'_>) -> Result<()> {
        let store = self.store;
        if let Some(staging) = self.member(member)?.name(store, file)? {
            self.staging.get_or_insert(staging);
        }
        Ok(())
    }

    fn unchanged(&self, member: usize) -> bool {
        matches!(
            self.members.get(member),
            Some(Ok(LocalMember { kind: SmallFileState::There(_) | SmallFileState::Unchanged, .. }))
        )
    }

    fn sync_directory(&mut self, directory: usize) -> Result<()> {
        // Of a group that spans file systems each directory is synced by a file of its own one.
        let within = self.live().find(|member| member.directories.contains(&directory));
        let (Some(directory), Some(any)) = (self.directories.get(directory), within.or_else(|| self.live().next()))
        else {
            return Err(nobody());
        };
        let synced = match directory.many {
            Some(_) => rustix::io::retry_on_intr(|| rustix::fs::syncfs(&any.file)),
            None => directory.parent.sync(&any.file),
        };
        synced.map_err(|errno| {
            let error = errors::failed(Verb::Sync, &self.store.shown(&directory.path), errno);
            Error {
                message: format!("{} (what was put has its name, which a power cut may take back)", error.message),
                ..error
            }
        })?;
        directory.made.iter().for_each(|made| self.store.fresh.synced(made));
        directory.many.into_iter().for_each(|serial| self.store.fresh.all_synced(&directory.path, serial));
        Ok(())
    }
}

impl LocalMember {
    /// Sets bytes, mode and time; returns which mode new files of its directory get as requested,
    /// starting from `kept_mode`.
    fn fill(&self, store: &LocalStore, file: &SmallFile<'_>, kept_mode: Option<u32>) -> Result<Option<u32>> {
        let shown = || store.shown(&file.target);
        let written = match file.holes {
            true => holes::write_new(&self.file, file.content),
            false => write_full(file.content, 0, |part, at| rustix::io::pwrite(&self.file, part, at)),
        };
        written.map_err(|stuck| match stuck {
            Stuck::Errno(errno @ (Errno::NOSPC | Errno::DQUOT)) => {
                lacking(&self.file, &shown(), file.content.len() as u64, errno)
            }
            stuck => stuck_words(&shown(), stuck),
        })?;
        let failed = |errno| errors::failed(Verb::Create, &shown(), errno);
        let wanted = mode(store, file);
        let unnamed = matches!(self.kind, SmallFileState::Unnamed);
        let kept = match kept_mode == Some(wanted) {
            true => unnamed,
            false => unnamed && rustix::fs::fstat(&self.file).map_err(failed)?.st_mode & 0o7777 == wanted,
        };
        if !kept {
            give_mode(&self.file, wanted).map_err(failed)?;
        }
        give_time(&self.file, file.modified).map_err(failed)?;
        Ok(if kept { Some(wanted) } else { kept_mode })
    }

    /// Names the file, and returns the staging directory that it used, if any.
    fn name(&mut self, store: &LocalStore, file: &SmallFile<'_>) -> Result<Option<Arc<StagingDirectory>>> {
        let failed = |errno| errors::failed(Verb::Create, &store.shown(&file.target), errno);
        let parent = &self.parent;
        let name = file.target.name().unwrap_or_default();
        if let SmallFileState::There(version) = &self.kind {
            let stat = parent.look(name).map_err(failed)?;
            let same = stat.is_some_and(|stat| version_of(&stat).0 == *version);
            return if same { Ok(None) } else { Err(errors::target_changed(&store.shown(&file.target))) };
        }
        if file.base.is_some() {
            must_be_base(&place(store, parent, file), file.content.len() as u64)?;
        }
        // Where nothing may be replaced, the kernel enforces that.
        let nothing = file.base.as_ref().is_some_and(|base| base.version.is_empty());
        let only_new = nothing || file.existing == Existing::Keep;
        let named = match &self.kind {
            SmallFileState::Unnamed => parent.link_unnamed(&self.file, name),
            // A rename would not report that the name exists.
            SmallFileState::Part(_) => Err(Errno::EXIST),
            SmallFileState::There(_) | SmallFileState::Named | SmallFileState::Unchanged => Err(Errno::INVAL),
        };
        let named = if named == Err(Errno::EXIST) {
            let found = must_admit(parent, name, file.existing, &store.shown(&file.target))?;
            if found.and_then(|found| stays(parent, name, &found, &self.file, file.existing)).is_some() {
                self.let_go();
                self.kind = SmallFileState::Unchanged;
                return Ok(None);
            }
            match &self.kind {
                SmallFileState::Part(part) if only_new => part.directory().keep(&part.names.part, parent, name),
                SmallFileState::Part(part) => part.directory().rename(&part.names.part, parent, name).map(drop),
                _ if only_new => named,
                _ => return self.link_and_replace(store, file),
            }
        } else {
            named
        };
        named.map_err(|errno| match errno {
            Errno::EXIST if nothing => errors::target_changed(&store.shown(&file.target)),
            errno => failed(errno),
        })?;
        if matches!(self.kind, SmallFileState::Part(_)) {
            unlock(&self.file);
        }
        self.kind = SmallFileState::Named;
        Ok(None)
    }

    /// An unnamed file cannot replace anything: it gets a temporary name.
    fn link_and_replace(&mut self, store: &LocalStore, file: &SmallFile<'_>) -> Result<Option<Arc<StagingDirectory>>> {
        let shown = || store.shown(&file.target);
        let names = PartNames::new(&file.target, TransferId(fresh_id()));
        lock_new(&self.file);
        let linked = store.parts.staging.link(&self.parent, &self.file, &names.part);
        let (directory, linked) = linked.map_err(|why| no_staging(&shown(), why))?;
        let staged = PartLocation { directory, names, sealer: Sealer::default() };
        let name = file.target.name().unwrap_or_default();
        let renamed = match linked {
            true => staged.directory().rename(&staged.names.part, &self.parent, name).map(drop),
            false => Err(Errno::EXIST),
        };
        renamed.map_err(|errno| {
            staged.remove(false);
            errors::failed(Verb::Create, &shown(), errno)
        })?;
        unlock(&self.file);
        self.kind = SmallFileState::Named;
        Ok(Some(staged.directory))
    }

    /// Removes the file unless it has its final name.
    fn let_go(&self) {
        if let SmallFileState::Part(staged) = &self.kind {
            staged.remove(false);
        }
    }
}

impl Drop for LocalMember {
    fn drop(&mut self) {
        self.let_go();
    }
}
