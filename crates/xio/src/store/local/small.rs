//! Small files of this machine in groups: each has no name until it gets its own, so that a program that is killed leaves nothing
//! behind. Where the file system has no such files it is a part file as any other.
//!
//! Directories are held for as long as the group lives, and resolved once. Must not: decide about an order, retry a sync.

use super::fresh::Made;
use super::named::{copy_of, must_be_base};
use super::part::{Place, give_attributes, part_name, stuck_words};
use super::room::{in_memory, lacking};
use super::source::{LocalSource, attributes_of, version_of};
use super::{LocalStore, must_admit, quiet};
use crate::store::exact::{Stuck, write_full};
use crate::store::resolve::Parent;
use crate::store::small::{Small, SmallFile, SmallGroup, fresh_id, whole};
use crate::store::words::{self, Verb};
use crate::store::{Attributes, Existing, Result, Source};
use crate::sys;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use xdfs_proto::base::commit::Member;
use xdfs_proto::base::{Error, ErrorKind, RelPath};

/// A directory in which names are given.
#[derive(Debug)]
struct Directory {
    path: RelPath,
    parent: Arc<Parent>,
    /// What its sync makes durable besides names of files.
    made: Vec<Made>,
}

/// Where a file is until it has its name.
#[derive(Debug)]
enum Kind {
    /// Nowhere.
    Unnamed,
    /// Under this name beside its target.
    Part(Vec<u8>),
    /// It has been put by an attempt whose outcome was lost: what has the name is of this version, and the same bytes.
    There(Vec<u8>),
    /// It has its name.
    Named,
}

#[derive(Debug)]
struct LocalMember {
    place: Place,
    file: OwnedFd,
    kind: Kind,
    /// Why nothing that is done now can make up for it.
    spoilt: Option<Error>,
    /// Directories whose names have to be durable.
    directories: Vec<usize>,
    /// It lives in memory alone.
    in_memory: bool,
}

/// See the module.
#[derive(Debug)]
pub(in crate::store) struct LocalGroup<'s> {
    store: &'s LocalStore,
    known: BTreeMap<RelPath, usize>,
    directories: Vec<Directory>,
    members: Vec<Result<LocalMember>>,
    /// Somebody has begun to write what the syncs of single files will wait for.
    begun: bool,
}

impl<'s> LocalGroup<'s> {
    /// Opens every file of the group; none has a byte yet.
    pub(in crate::store) fn open(store: &'s LocalStore, files: &[SmallFile<'_>]) -> Self {
        let mut group =
            Self { store, known: BTreeMap::new(), directories: Vec::new(), members: Vec::new(), begun: false };
        for file in files {
            let member = group.stage(file);
            group.members.push(member);
        }
        group
    }

    fn stage(&mut self, file: &SmallFile<'_>) -> Result<LocalMember> {
        let shown = self.store.shown(&file.target);
        self.store.must_be_writable(Verb::Create, &file.target)?;
        let (Some(above), Some(name)) = (file.target.parent(), file.target.name()) else {
            return Err(words::refused(ErrorKind::IsDirectory, Verb::Create, &shown, "is a directory"));
        };
        let own = self.directory(&above, file)?;
        let mut directories = vec![own];
        for made in self.store.fresh.above(&above) {
            let number = self.directory(&made.place(), file)?;
            directories.push(number);
            if let Some(directory) = self.directories.get_mut(number).filter(|there| !there.made.contains(&made)) {
                directory.made.push(made);
            }
        }
        let parent = self.directories.get(own).map(|directory| directory.parent.clone()).ok_or_else(nobody)?;
        let (name, base, umask) = (name.to_vec(), file.base.clone(), self.store.umask);
        let place = Place { parent, name, shown, existing: file.existing, base, umask, way: None };
        let (file, kind) = opened(&place, file, self.store.unnamed)?;
        Ok(LocalMember { in_memory: in_memory(&file), place, file, kind, spoilt: None, directories })
    }

    /// The number of the directory `path`, which is held from now on.
    fn directory(&mut self, path: &RelPath, file: &SmallFile<'_>) -> Result<usize> {
        if let Some(number) = self.known.get(path) {
            return Ok(*number);
        }
        let root = &self.store.root;
        let mut held = root.hold_directory(path);
        if held.is_err() && file.parents {
            held = self.store.make_directories(path, 0o777);
        }
        let parent = held.map_err(|stop| self.store.blocked(Verb::Create, &file.target, &stop))?;
        let number = self.directories.len();
        self.directories.push(Directory { path: path.clone(), parent: Arc::new(parent), made: Vec::new() });
        self.known.insert(path.clone(), number);
        Ok(number)
    }

    fn live(&self) -> impl Iterator<Item = &LocalMember> {
        self.members.iter().flatten().filter(|member| member.spoilt.is_none())
    }

    fn member(&mut self, member: usize) -> Result<&mut LocalMember> {
        match self.members.get_mut(member) {
            Some(Ok(LocalMember { spoilt: Some(error), .. }) | Err(error)) => Err(error.clone()),
            Some(Ok(member)) => Ok(member),
            None => Err(nobody()),
        }
    }

    /// Has the device begin with all of them before anybody waits for one.
    fn begin_writing(&mut self) {
        if std::mem::replace(&mut self.begun, true) || self.members.len() < 2 {
            return;
        }
        for member in self.members.iter_mut().flatten().filter(|member| !member.in_memory) {
            if let Err(errno) = sys::begin_writing(&member.file) {
                member.spoilt = Some(words::failed(Verb::Sync, &member.place.shown, errno));
            }
        }
    }
}

fn nobody() -> Error {
    Error::new(ErrorKind::Storage, "a group has no such member")
}

/// The file that gets the bytes, and where it is until then.
fn opened(place: &Place, file: &SmallFile<'_>, unnamed: bool) -> Result<(OwnedFd, Kind)> {
    if let Some(there) = there(place, file.content)? {
        return Ok(there);
    }
    must_admit(&place.parent, &place.name, place.existing, &place.shown)?;
    let failed = |errno| words::failed(Verb::Create, &place.shown, errno);
    if unnamed && let Some(file) = place.parent.create_unnamed().map_err(failed)? {
        return Ok((file, Kind::Unnamed));
    }
    let part = part_name(&place.name, &fresh_id(), b".part");
    let file = place.parent.create_new(&part).map_err(failed)?;
    // Who looks for what killed programs left leaves alone what is held. Where there are no locks its age protects it.
    let _ = rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive);
    Ok((file, Kind::Part(part)))
}

/// What has the name already, where it is the very file that is put.
fn there(place: &Place, content: &[u8]) -> Result<Option<(OwnedFd, Kind)>> {
    let Some(stat) = copy_of(place, content.len() as u64)? else { return Ok(None) };
    let (file, found) = place.parent.open_regular(&place.name).map_err(|errno| {
        // It went, or became something else, between two calls.
        words::failed(Verb::Create, &place.shown, errno)
    })?;
    let source = Source::Local(LocalSource::new(file, place.shown.clone(), &found));
    let same = version_of(&found) == version_of(&stat)
        && whole(&source, content.len() as u64).is_ok_and(|small| small.content == content);
    match source.descriptor() {
        Some(file) if same => Ok(Some((file, Kind::There(version_of(&stat).0)))),
        _ => Err(words::target_changed(&place.shown)),
    }
}

impl SmallGroup for LocalGroup<'_> {
    fn members(&self, durable: bool) -> Vec<Member> {
        let member = |member: &Result<LocalMember>| match member {
            Ok(member) => Member { durable: durable && !member.in_memory, directories: member.directories.clone() },
            Err(_) => Member::default(),
        };
        self.members.iter().map(member).collect()
    }

    fn at_once(&self) -> bool {
        let mut files = self.live().map(|member| &member.file);
        let Some(first) = files.next() else { return false };
        let device = |file: &OwnedFd| rustix::fs::fstat(file).map(|stat| stat.st_dev).ok();
        self.live().count() >= quiet::FILES_MIN
            && quiet::covers(first)
            && quiet::is_quiet()
            && files.all(|file| device(file).is_some() && device(file) == device(first))
    }

    fn finish(&mut self, member: usize, file: &SmallFile<'_>) -> Result<()> {
        let member = self.member(member)?;
        if matches!(member.kind, Kind::There(_)) {
            return Ok(());
        }
        let done = member.fill(file);
        member.spoilt = done.as_ref().err().cloned();
        done
    }

    fn sync(&mut self, member: usize) -> Result<()> {
        self.begin_writing();
        let member = self.member(member)?;
        // EINTR is the one answer that says nothing about the pages.
        rustix::io::retry_on_intr(|| rustix::fs::fsync(&member.file)).map_err(|errno| {
            let error = words::failed(Verb::Sync, &member.place.shown, errno);
            member.spoilt = Some(error.clone());
            error
        })
    }

    fn sync_system(&mut self) -> Result<()> {
        // Any of them tells of every write that failed since it was opened, before the first byte of the group.
        let Some(any) = self.live().next() else { return Ok(()) };
        rustix::io::retry_on_intr(|| rustix::fs::syncfs(&any.file))
            .map_err(|errno| words::failed(Verb::Sync, &any.place.shown, errno))
    }

    fn name(&mut self, member: usize, file: &SmallFile<'_>) -> Result<Attributes> {
        self.member(member)?.name(file)
    }

    fn sync_directory(&mut self, directory: usize) -> Result<()> {
        let (Some(directory), Some(any)) = (self.directories.get(directory), self.live().next()) else {
            return Err(nobody());
        };
        directory.parent.sync(&any.file).map_err(|errno| {
            let error = words::failed(Verb::Sync, &self.store.shown(&directory.path), errno);
            Error {
                message: format!("{} (what was put has its name, which a power cut may take back)", error.message),
                ..error
            }
        })?;
        directory.made.iter().for_each(|made| self.store.fresh.synced(made));
        Ok(())
    }
}

impl LocalMember {
    fn fill(&self, file: &SmallFile<'_>) -> Result<()> {
        let shown = &self.place.shown;
        let written = write_full(file.content, 0, |part, at| rustix::io::pwrite(&self.file, part, at));
        written.map_err(|stuck| match stuck {
            Stuck::Errno(errno @ (Errno::NOSPC | Errno::DQUOT)) => {
                lacking(&self.file, shown, file.content.len() as u64, errno)
            }
            stuck => stuck_words(shown, stuck),
        })?;
        give_attributes(&self.file, file.mode & !self.place.umask, file.modified)
            .map_err(|errno| words::failed(Verb::Create, shown, errno))
    }

    fn name(&mut self, file: &SmallFile<'_>) -> Result<Attributes> {
        let place = &self.place;
        let failed = |errno| words::failed(Verb::Create, &place.shown, errno);
        if let Kind::There(version) = &self.kind {
            let stat = place.parent.look(&place.name).map_err(failed)?;
            let same = stat.filter(|stat| version_of(stat).0 == *version);
            return same.map(|stat| attributes_of(&stat)).ok_or_else(|| words::target_changed(&place.shown));
        }
        must_be_base(place, file.content.len() as u64)?;
        // Where nothing may be replaced, the kernel sees to it.
        let nothing = place.base.as_ref().is_some_and(|base| base.version.is_empty());
        let only_new = nothing || place.existing == Existing::Keep;
        let admit = || must_admit(&place.parent, &place.name, place.existing, &place.shown);
        let named = match &self.kind {
            Kind::Unnamed => match place.parent.link_unnamed(&self.file, &place.name) {
                Err(Errno::EXIST) => {
                    admit()?;
                    if only_new { Err(Errno::EXIST) } else { self.link_and_replace() }
                }
                other => other,
            },
            Kind::Part(part) => {
                admit()?;
                let name = if only_new { Parent::keep } else { Parent::replace };
                name(&place.parent, part, &place.name)
            }
            Kind::There(_) | Kind::Named => Err(Errno::INVAL),
        };
        named.map_err(|errno| match errno {
            Errno::EXIST if nothing => words::target_changed(&place.shown),
            errno => failed(errno),
        })?;
        self.kind = Kind::Named;
        // Of the descriptor, not of the name: these are the attributes of what was written, whoever comes next.
        let stat = rustix::fs::fstat(&self.file);
        stat.map(|stat| attributes_of(&stat)).map_err(|errno| words::failed(Verb::Create, &self.place.shown, errno))
    }

    /// What has no name cannot replace anything: it gets one for a moment.
    fn link_and_replace(&self) -> std::result::Result<(), Errno> {
        let (parent, part) = (&self.place.parent, part_name(&self.place.name, &fresh_id(), b".part"));
        parent.link_unnamed(&self.file, &part)?;
        parent.replace(&part, &self.place.name).inspect_err(|_| {
            // Nobody is there to be told; what cannot be removed is found by its name later.
            let _ = parent.remove(&part);
        })
    }
}

impl Drop for LocalMember {
    fn drop(&mut self) {
        if let Kind::Part(part) = &self.kind {
            // As above.
            let _ = self.place.parent.remove(part);
        }
    }
}

/// Whole files, each directory of theirs resolved once.
pub(in crate::store) fn get(store: &LocalStore, paths: &[RelPath], bytes_max: u64) -> Vec<Result<Small>> {
    let mut held: BTreeMap<RelPath, Parent> = BTreeMap::new();
    let mut get = |path: &RelPath| {
        let (Some(above), Some(name)) = (path.parent(), path.name()) else {
            return Err(words::refused(ErrorKind::IsDirectory, Verb::Open, &store.shown(path), "is a directory"));
        };
        if !held.contains_key(&above) {
            let parent = store.root.hold_directory(&above).map_err(|stop| store.blocked(Verb::Open, path, &stop))?;
            held.insert(above.clone(), parent);
        }
        let parent = held.get(&above).ok_or_else(nobody)?;
        match parent.open_regular(name) {
            // Empty files of the kernel are not; and what else stands there has its own words.
            Ok((file, stat)) if stat.st_size > 0 => {
                whole(&Source::Local(LocalSource::new(file, store.shown(path), &stat)), bytes_max)
            }
            _ => whole(&crate::store::Store::open(store, path)?, bytes_max),
        }
    };
    paths.iter().map(&mut get).collect()
}
