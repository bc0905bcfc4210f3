//! Directories of this machine: what an export serves, and what `cp` reads and writes locally.
//!
//! Names are resolved only by `resolve`. A file is written to a part file in a staging directory
//! and renamed to its target in one step, so that nobody sees half of it. Must not: touch the target before
//! commit, follow a link, copy.

mod claims;
mod existing_target;
mod get;
mod holes;
mod journal;
mod kept;
mod leftovers;
mod listings;
mod part;
pub(super) mod parts;
mod preallocate;
mod progress;
mod small;
mod source;
mod staging;
mod syncfs_policy;
mod target_place;
mod tree;
mod umask;
mod unchanged;
mod unsynced_dirs;
mod whole;

#[cfg(debug_assertions)]
pub use journal::feed as feed_journal;

use super::boot;
use super::errors::{self, Verb};
use super::resolve::{Blocked, Cause, Parent, Root};
use super::stat::attributes_of;
use super::stored_range::{JournalTags, StoredRange};
use super::tree::{TreeKey, TreePlace};
use super::{
    Attributes, Capability, Existing, OpenFile, OpenPipe, OpenRequest, Order, Recovered, Result, SmallFile, SmallGroup,
    SmallReader, Source, Stage, StageRequest, Store, Tree, Watcher, descriptors, watch::Mark,
};
use existing_target::ExistingTarget;
use listings::Listings;
use part::LocalStage;
use parts::{KeptLimits, Parts};
use rustix::fs::{FileType, Mode, Stat};
use rustix::io::Errno;
use staging::StagingArea;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use target_place::TargetPlace;
use unsynced_dirs::{DirPath, UnsyncedDirs};
use xdfs_proto::base::{ErrorKind, RelPath, TransferId};

/// A directory tree. Cheap to clone: clones share the open directory.
#[derive(Clone, Debug)]
pub struct LocalStore {
    root: Arc<Root>,
    /// Whether `stage` is allowed.
    writable: bool,
    /// Escaped prefix of names in messages: what the user typed. Empty for an export, whose
    /// location in the server's file system is not disclosed.
    label: Arc<str>,
    /// The umask applied to a new file's mode.
    umask: u32,
    /// Part files that are being written here.
    parts: Parts,
    /// Directories that were created here and are not synced yet.
    fresh: UnsyncedDirs,
    /// Directories that are being listed.
    listings: Listings,
}

/// What an earlier attempt left next to a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// Version of the source that it came from.
    pub source: Vec<u8>,
    /// Length of the transfer.
    pub length: u64,
    /// The written ranges, ascending. A range that is not `proved` counts only if it is compared.
    pub noted: Vec<StoredRange>,
}

impl LocalStore {
    /// Opens the directory `path`; links in `path` are followed, links below it never.
    pub fn open_root(path: &Path, writable: bool) -> Result<Self> {
        use std::os::unix::ffi::OsStrExt;
        let bytes = path.as_os_str().as_bytes();
        let root = Root::open(bytes).map_err(|errno| errors::failed(Verb::Open, &errors::shown_bytes(bytes), errno))?;
        Ok(Self::of_root(root, writable, ""))
    }

    /// Opens the file system as the user of this process sees it, from the directory `path`: links
    /// on the way to a file are followed, and files are staged beside their targets. For whoever
    /// has this user's rights in any case.
    pub fn open_as_user(path: &Path) -> Result<Self> {
        use std::os::unix::ffi::OsStrExt;
        let bytes = path.as_os_str().as_bytes();
        let root = Root::open(bytes).map_err(|errno| errors::failed(Verb::Open, &errors::shown_bytes(bytes), errno))?;
        let mut store = Self::of_root(root.following_links(), true, "");
        store.parts.staging.at_top = false;
        Ok(store)
    }

    pub(super) fn of_root(root: Root, writable: bool, label: &str) -> Self {
        // Read now: a server restricts its access to the file system once its exports are open.
        boot::id();
        syncfs_policy::prepare();
        let root = Arc::new(root);
        let parts = Parts::new(StagingArea::new(&root));
        let (fresh, listings) = (UnsyncedDirs::default(), Listings::default());
        Self { root, writable, label: label.into(), umask: umask::of_process(), parts, fresh, listings }
    }

    /// The same with a key for its journals. Ranges recorded under another key, or without one, are
    /// unverified.
    pub fn with_journal_tags(mut self, tags: Arc<dyn JournalTags>) -> Self {
        self.parts.tags = Some(tags);
        self
    }

    /// The same with other limits on what is kept of interrupted transfers.
    pub fn with_kept_limits(mut self, limits: KeptLimits) -> Self {
        self.parts.kept_limits = limits;
        self
    }

    /// Behaves as on a file system without unnamed files, to test that path.
    pub fn without_unnamed(mut self) -> Self {
        self.parts.staging.unnamed = false;
        self
    }

    /// What an earlier attempt with this id left for `target`; none if there is nothing to resume.
    pub fn kept(&self, target: &RelPath, transfer: TransferId, owner: &[u8]) -> Option<Kept> {
        let (parent, _) = self.root.parent_of(target).ok()?;
        let sealer = self.parts.sealer(target);
        let mut directories = self.parts.staging.existing(&parent);
        directories.find_map(|directory| parts::look(&directory, target, transfer, owner, &sealer))
    }

    /// Removes what killed programs left in the staging directory of the directory `path`, unless
    /// it can be resumed.
    pub fn remove_useless(&self, path: &RelPath) {
        if let Ok(directory) = self.root.hold_directory(path) {
            directory.recover_staging(i64::MIN, &mut Recovered::default());
        }
    }

    /// Finds what earlier attempts left in this directory, not below it; see [`Store::recover`].
    pub fn recover_here(&self, expired: i64) -> Recovered {
        if self.writable { self.root.recover_here(expired) } else { Recovered::default() }
    }

    fn shown(&self, path: &RelPath) -> String {
        errors::shown(&self.label, path)
    }

    fn blocked(&self, verb: Verb, path: &RelPath, blocked: &Blocked) -> xdfs_proto::base::Error {
        blocked.error(verb, &self.label, path)
    }

    /// Whether names can be created in the directory `path`, according to its permissions and its
    /// file system.
    pub fn may_hold_new(&self, path: &RelPath) -> bool {
        self.root.hold_directory(path).is_ok_and(|directory| directory.may_change())
    }

    /// Opens the target's directory.
    fn place(&self, request: &StageRequest) -> Result<TargetPlace> {
        let target = &request.target;
        let shown = self.shown(target);
        let (parent, name) = self.root.parent_of(target).map_err(|stop| match stop.cause {
            Cause::Kind(FileType::Directory) => {
                errors::refused(ErrorKind::IsDirectory, Verb::Create, &shown, "is a directory")
            }
            _ => self.blocked(Verb::Create, target, &stop),
        })?;
        descriptors::must_be_below_line(parent.directory(), Verb::Create, &shown)?;
        let (name, base) = (name.to_vec(), request.base.clone());
        let parent = Arc::new(parent);
        let directory = target.parent().unwrap_or_default();
        let way = Some(DirPath { root: Arc::clone(&self.root), fresh: self.fresh.clone(), directory });
        Ok(TargetPlace { parent, name, shown, existing: request.existing, base, umask: self.umask, way })
    }
}

impl Store for LocalStore {
    fn capability(&self) -> Capability {
        Capability { order: Order::Any, descriptor: true, writable: self.writable, persistent: true }
    }

    fn attributes(&self, path: &RelPath) -> Result<Attributes> {
        let stat = self.root.look(path).map_err(|stop| self.blocked(Verb::Look, path, &stop))?;
        Ok(attributes_of(&stat))
    }

    fn open(&self, path: &RelPath) -> Result<Source> {
        let (file, stat) = self.root.open_regular(path).map_err(|stop| self.blocked(Verb::Open, path, &stop))?;
        descriptors::must_be_below_line(&file, Verb::Open, &self.shown(path))?;
        Ok(Source::new(source::LocalSource::new(file, self.shown(path), &stat)))
    }

    fn open_file(&self, path: &RelPath, request: &OpenRequest) -> Result<(OpenFile, bool)> {
        let verb = if request.create { Verb::Create } else { Verb::Open };
        if request.write {
            self.must_be_writable(verb, path)?;
        }
        if request.create {
            // Before there is a file: one that was created and refused would be there at the next try.
            let (parent, _) = self.root.parent_of(path).map_err(|stop| self.blocked(verb, path, &stop))?;
            descriptors::must_leave_room(parent.directory(), verb, &self.shown(path))?;
        }
        let mode = Mode::from_raw_mode(request.mode & 0o7777 & !self.umask);
        let opened = self.root.open_in_place(path, request, mode);
        let (file, _, created) = opened.map_err(|stop| self.blocked(verb, path, &stop))?;
        if !created {
            descriptors::must_be_below_line(&file, verb, &self.shown(path))?;
        }
        Ok((OpenFile::new(file, self.shown(path)), created))
    }

    fn watch(&self, path: &RelPath, watcher: &Watcher, marks: &mut Vec<Mark>) -> Result<()> {
        let above = std::iter::successors(path.parent(), RelPath::parent).filter(|above| !above.is_root());
        let mut chain: Vec<RelPath> = above.collect();
        chain.reverse();
        chain.push(path.clone());
        for directory in &chain {
            let names = directory == path;
            let watched = self.root.watch_directory(directory, watcher.events(), Watcher::flags(names));
            let number = watched.map_err(|stop| match stop.cause {
                Cause::Errno(Errno::NOSPC) => {
                    let text = "cannot be watched: this machine's limit is reached (fs.inotify.max_user_watches)";
                    errors::refused(ErrorKind::LimitExceeded, Verb::List, &self.shown(path), text)
                }
                _ => self.blocked(Verb::List, path, &stop),
            })?;
            marks.push(Watcher::mark(number));
        }
        Ok(())
    }

    fn open_pipe(&self, path: &RelPath, write: bool) -> Result<OpenPipe> {
        if write {
            self.must_be_writable(Verb::Open, path)?;
        }
        let shown = self.shown(path);
        let (held, end) = self.root.open_fifo(path, write).map_err(|stop| match stop.cause {
            Cause::Kind(kind) if stop.depth == path.depth() => {
                let (_, what) = errors::kind_words(kind);
                errors::refused(ErrorKind::NotRegular, Verb::Open, &shown, &format!("is {what}, not a FIFO"))
            }
            _ => self.blocked(Verb::Open, path, &stop),
        })?;
        if let Some(end) = &end {
            descriptors::must_be_below_line(end, Verb::Open, &shown)?;
        }
        OpenPipe::new(&held, end, shown)
    }

    fn tree(&self) -> Result<&dyn Tree> {
        Ok(self)
    }

    fn stage_tree(&self, key: &TreeKey<'_>) -> Result<TreePlace> {
        self.make_tree_place(key)
    }

    fn within_tree(&self, holder: &RelPath) -> Result<Arc<dyn Store>> {
        Ok(self.in_tree_place(holder))
    }

    fn publish_tree(&self, key: &TreeKey<'_>) -> Result<()> {
        self.publish_tree_at(key)
    }

    fn stage_small(&self, files: &[SmallFile<'_>], durable: bool) -> Box<dyn SmallGroup + '_> {
        Box::new(small::LocalGroup::open(self, files, durable))
    }

    fn get_small(
        &self,
        path: &RelPath,
        seen: Option<&super::tree::Node>,
        bytes_max: u64,
        into: &mut SmallReader,
    ) -> Result<Attributes> {
        match get::quickly(self, path, seen, bytes_max, into) {
            Some(attributes) => Ok(attributes),
            // Opening it reports the error for any other cause.
            None => crate::store::small::whole(&self.open(path)?, bytes_max, into),
        }
    }

    fn recover(&self, expired: i64) -> Recovered {
        // A store that may not be written is not cleaned up either; one that holds everything the
        // user has is not searched.
        let searched = self.writable && self.parts.staging.at_top;
        if searched { self.root.recover(expired) } else { Recovered::default() }
    }

    fn notice(&self) -> Option<String> {
        let taken = &self.parts.staging.taken;
        let why = taken.why.get().filter(|_| !taken.told.swap(true, Ordering::Relaxed))?;
        Some(format!("files are staged beside their targets: {why}"))
    }

    fn stage(&self, request: &StageRequest) -> Result<Stage> {
        self.must_be_writable(Verb::Create, &request.target)?;
        let place = match ExistingTarget::of(self.place(request)?, request)? {
            Ok(named) => return Ok(Stage::new(named)),
            Err(place) => place,
        };
        must_admit(&place.parent, &place.name, request.existing, &place.shown)?;
        LocalStage::open(place, request, &self.parts).map(Stage::new)
    }
}

/// Refuses what a rename would not replace, and what it would replace but the user would not
/// expect. Called when a file is staged and again before it is named, to detect changes in between.
/// Returns what a rename would replace.
fn must_admit(parent: &Parent, name: &[u8], existing: Existing, shown: &str) -> Result<Option<Stat>> {
    let found = parent.look(name).map_err(|errno| errors::failed(Verb::Create, shown, errno))?;
    match (found.map(|stat| FileType::from_raw_mode(stat.st_mode)), existing) {
        (None, _) | (Some(FileType::RegularFile), Existing::Replace | Existing::ReplaceOther { .. }) => Ok(found),
        (Some(FileType::RegularFile), Existing::Keep) => {
            Err(errors::refused(ErrorKind::AlreadyExists, Verb::Create, shown, "it already exists"))
        }
        (Some(kind), _) => {
            let (error, what) = errors::kind_words(kind);
            Err(errors::refused(error, Verb::Create, shown, &format!("{what} is in the way")))
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "sets the scene with a directory of its own")]
mod tests {
    use super::*;
    use crate::store::CommitRequest;
    use crate::store::SmallFile;
    use unsynced_dirs::Above;

    #[test]
    fn a_file_that_is_durable_has_no_directory_above_it_that_is_not() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        let store = LocalStore::open_root(folder, true).unwrap();
        let path = |text: &str| RelPath::parse(text.as_bytes()).unwrap();
        store.make_directory(&path("a/b"), 0o755, true).unwrap();
        store.make_directory(&path("other"), 0o755, false).unwrap();
        let above = |directory: &str| match store.fresh.above(&path(directory), 0) {
            Above::Each(made) => made.len(),
            Above::Many(_) => panic!("few are above it"),
        };
        assert_eq!(above("a/b"), 2);
        let (target, existing) = (path("a/b/file"), Existing::Keep);
        let request = StageRequest {
            target,
            size: None,
            existing,
            transfer: TransferId([1; 16]),
            resume: None,
            base: None,
            holes: false,
        };
        let mut stage = store.stage(&request).unwrap();
        let commit = CommitRequest { length: 0, mode: 0o644, modified: None };
        stage.finish(&commit).unwrap();
        stage.sync().unwrap();
        stage.name(&commit).unwrap();
        assert_eq!(above("a/b"), 2, "nothing is synced that was not asked for");
        stage.sync_directory().unwrap();
        assert_eq!((above("a/b"), above("other")), (0, 1));
    }
    #[test]
    fn a_durable_file_that_is_deep_in_a_new_tree_takes_a_few_descriptors_and_one_sync() {
        let scratch = tempfile::tempdir().unwrap();
        let store = LocalStore::open_root(scratch.path(), true).unwrap();
        let target = RelPath::parse([&b"a/".repeat(500)[..], b"file"].concat().as_slice()).unwrap();
        let file = SmallFile {
            target: target.clone(),
            content: b"content",
            mode: 0o644,
            modified: None,
            existing: Existing::Keep,
            base: None,
            parents: true,
            holes: false,
        };
        let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = descriptors();
        let group = small::LocalGroup::open(&store, std::slice::from_ref(&file), true);
        let held = descriptors().saturating_sub(before);
        // Other tests open files at the same time.
        assert!(held < 200, "{held} descriptors for one file");
        drop(group);
        let placed = store.put_small(&[file], true);
        assert!(placed.iter().all(Result::is_ok), "{placed:?}");
        let directory = target.parent().unwrap();
        assert_eq!(store.fresh.above(&directory, 0), Above::Each(Vec::new()), "all of them are synced");
    }
}
