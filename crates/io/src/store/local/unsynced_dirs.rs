//! Directories that were created here and whose own names are not synced yet: durable files in them
//! require these syncs, or a power cut loses the file with its directory. The session
//! that created a directory need not be the one that needs it.

use crate::store::resolve::Root;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xdfs_proto::base::RelPath;

/// Maximum number remembered: a tree has many directories, and putting files into it syncs them
/// gradually. Beyond the limit, every directory counts as just created until it was synced once,
/// which is never wrong.
const REMEMBERED_MAX: usize = 1024;

/// Total length of the remembered paths: usual ones need a tenth of it, and a peer may send paths
/// of 32 KiB.
const REMEMBERED_BYTES_MAX: usize = 256 << 10;

/// Unsynced directories above one file, or above a group of them, that are held open and synced one by one. A path may have
/// thousands: their paths alone would take hundreds of megabytes, and their descriptors all there
/// are.
const EACH_MAX: usize = 64;

/// New directories whose own names are not synced yet. Clones share one list.
#[derive(Clone, Debug, Default)]
pub(super) struct UnsyncedDirs {
    list: Arc<Mutex<List>>,
}

/// What a sync of the parent directory removes from the list, unless it was created again
/// meanwhile.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Made {
    path: RelPath,
    /// Its serial number, if it is in the list.
    listed: Option<u64>,
    /// The last serial number when it was looked for.
    at: u64,
}

/// The directories above a file that are not synced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Above {
    /// These, innermost first.
    Each(Vec<Made>),
    /// More than are synced one by one: the whole file system is, and then all of them are synced
    /// that have at most this serial number.
    Many(u64),
}

#[derive(Debug, Default)]
pub(super) struct List {
    made: BTreeMap<RelPath, u64>,
    /// Total length of the paths in `made`.
    bytes: usize,
    serial: u64,
    dropped: Option<Dropped>,
    /// Directories that are being created, or renamed to these paths, and how many renames there had been
    /// before. Whether and when that has happened is not known yet, so they and all below them count as
    /// unsynced.
    changing: Vec<(RelPath, u64)>,
    /// Directories that were renamed.
    renames: u64,
}

/// A directory that is being created, or renamed to this path, until this is dropped. The kernel may
/// take long for that, while somebody keeps its parent directory busy: the list is not locked
/// meanwhile, and a directory that can be found counts as unsynced all the same.
pub(super) struct Changing<'a> {
    fresh: &'a UnsyncedDirs,
    path: &'a RelPath,
    /// Renames before the parent directory was opened: with a later one it may have another path.
    renames: u64,
}

/// Not every new directory is in the list.
#[derive(Debug, Default)]
struct Dropped {
    /// The serial number when the last one was left out.
    serial: u64,
    /// Directories that are synced although they are not in the list; within the same limits.
    synced: BTreeSet<RelPath>,
    /// Total length of the paths in `synced`.
    bytes: usize,
}

impl UnsyncedDirs {
    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called before the directory is opened in which one is created, or renamed to `path`.
    pub(super) fn changing<'a>(&'a self, path: &'a RelPath) -> Changing<'a> {
        let mut list = self.lock();
        let renames = list.renames;
        list.changing.push((path.clone(), renames));
        Changing { fresh: self, path, renames }
    }

    /// The directories on the path to `directory` that are not synced. Called while `directory` is
    /// open; `others` are held open besides, by the same group of files.
    pub(super) fn above(&self, directory: &RelPath, others: usize) -> Above {
        let list = self.lock();
        let mut found = Vec::new();
        if list.made.is_empty() && list.dropped.is_none() && list.changing.is_empty() {
            return Above::Each(found);
        }
        let mut path = directory.clone();
        while let Some(above) = path.parent() {
            let made = list.unsynced(&path);
            if made.is_some() && found.len() + others >= EACH_MAX {
                return Above::Many(list.serial);
            }
            found.extend(made);
            path = above;
        }
        Above::Each(found)
    }

    /// The parent directory was synced, and that sync began when `made` was known.
    pub(super) fn synced(&self, made: &Made) {
        self.lock().synced(made);
    }

    /// The file system of `directory` was synced, and that sync began when `serial` was known.
    pub(super) fn all_synced(&self, directory: &RelPath, serial: u64) {
        let mut list = self.lock();
        let mut path = directory.clone();
        while let Some(above) = path.parent() {
            let made = list.unsynced(&path).filter(|made| made.listed.is_none_or(|listed| listed <= serial));
            if let Some(made) = made {
                list.synced(&Made { at: serial, ..made });
            }
            path = above;
        }
    }
}

impl List {
    /// `path` was just created.
    fn note(&mut self, path: &RelPath) {
        let length = path.as_bytes().len();
        let full = self.made.len() >= REMEMBERED_MAX || self.bytes + length > REMEMBERED_BYTES_MAX;
        self.serial += 1;
        if let Some(dropped) = &mut self.dropped {
            dropped.forget(path);
        }
        if full && !self.made.contains_key(path) {
            self.dropped.get_or_insert_default().serial = self.serial;
            return;
        }
        if self.made.insert(path.clone(), self.serial).is_none() {
            self.bytes += length;
        }
    }

    fn forget(&mut self, path: &RelPath) {
        if self.made.remove(path).is_some() {
            self.bytes -= path.as_bytes().len();
        }
    }

    /// A directory, if it is not known to be synced.
    fn unsynced(&self, path: &RelPath) -> Option<Made> {
        let listed = self.made.get(path).copied();
        let left_out = || self.dropped.as_ref().is_some_and(|dropped| !dropped.synced.contains(path));
        (listed.is_some() || left_out() || self.is_changing(path)).then(|| Made {
            path: path.clone(),
            listed,
            at: self.serial,
        })
    }

    fn is_changing(&self, path: &RelPath) -> bool {
        self.changing.iter().any(|(changing, _)| path.is_within(changing))
    }

    /// Whether something is being created in a directory that may have another path by now. Until it is there, no sync is
    /// remembered: whoever needs one has it again.
    fn is_changing_elsewhere(&self) -> bool {
        self.changing.iter().any(|(_, renames)| *renames < self.renames)
    }

    fn synced(&mut self, made: &Made) {
        // What was synced may be what had this path before.
        if self.is_changing(&made.path) {
            return;
        }
        if self.made.get(&made.path).copied() != made.listed {
            return;
        }
        self.forget(&made.path);
        if self.is_changing_elsewhere() {
            return;
        }
        if let Some(dropped) = self.dropped.as_mut().filter(|dropped| dropped.serial <= made.at) {
            dropped.remember(&made.path);
        }
    }

    /// A directory was renamed to `to`; which listed names were below it is unknown.
    fn moved(&mut self, to: &RelPath) {
        self.serial += 1;
        self.renames += 1;
        // What others are making may be below it, and will be listed by its old path.
        let others = self.changing.len() > 1;
        if !self.made.is_empty() || self.dropped.is_some() || others {
            let dropped = self.dropped.get_or_insert_default();
            dropped.serial = self.serial;
            let below: Vec<_> = dropped.synced.iter().filter(|synced| synced.is_within(to)).cloned().collect();
            below.iter().for_each(|path| dropped.forget(path));
        }
        self.note(to);
    }
}

impl<'a> Changing<'a> {
    /// The same of a directory on the way to it, `path`, which is created first.
    pub(super) fn above(&self, path: &'a RelPath) -> Self {
        self.fresh.lock().changing.push((path.clone(), self.renames));
        Self { path, ..*self }
    }

    /// It was created.
    pub(super) fn created(self) {
        let mut list = self.fresh.lock();
        list.note(self.path);
        if self.renames < list.renames {
            // It may have another path, of which a sync that began before says nothing.
            let serial = list.serial;
            list.dropped.get_or_insert_default().serial = serial;
        }
    }

    /// A directory was renamed to this path.
    pub(super) fn moved(self) {
        self.fresh.lock().moved(self.path);
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let mut list = self.fresh.lock();
        let same = |(path, renames): &(RelPath, u64)| path == self.path && *renames == self.renames;
        if let Some(at) = list.changing.iter().position(same) {
            list.changing.swap_remove(at);
        }
    }
}

impl Dropped {
    fn remember(&mut self, path: &RelPath) {
        let length = path.as_bytes().len();
        if self.synced.len() >= REMEMBERED_MAX || self.bytes + length > REMEMBERED_BYTES_MAX {
            (self.synced, self.bytes) = Default::default();
        }
        if length <= REMEMBERED_BYTES_MAX && self.synced.insert(path.clone()) {
            self.bytes += length;
        }
    }

    fn forget(&mut self, path: &RelPath) {
        if self.synced.remove(path) {
            self.bytes -= path.as_bytes().len();
        }
    }
}

impl Made {
    /// Its parent directory.
    pub(super) fn place(&self) -> RelPath {
        self.path.parent().unwrap_or_default()
    }
}

/// The path to a directory, for a durable file in it.
#[derive(Clone, Debug)]
pub(super) struct DirPath {
    pub(super) root: Arc<Root>,
    pub(super) fresh: UnsyncedDirs,
    pub(super) directory: RelPath,
}

impl DirPath {
    /// Waits until every directory on the path has its own name on stable storage; `file` is in the
    /// last one.
    pub(super) fn sync(&self, file: &OwnedFd) -> Result<(), Errno> {
        let unsynced = match self.fresh.above(&self.directory, 0) {
            Above::Each(unsynced) => unsynced,
            Above::Many(serial) => {
                rustix::io::retry_on_intr(|| rustix::fs::syncfs(file))?;
                self.fresh.all_synced(&self.directory, serial);
                return Ok(());
            }
        };
        for made in unsynced {
            match self.root.hold_directory(&made.place()) {
                Ok(above) => above.sync(file)?,
                // It was renamed meanwhile: it is still on the file's own file system.
                Err(_) => rustix::io::retry_on_intr(|| rustix::fs::syncfs(file))?,
            }
            self.fresh.synced(&made);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    fn above(fresh: &UnsyncedDirs, directory: &str) -> Vec<Made> {
        let Above::Each(made) = fresh.above(&path(directory), 0) else { panic!("few are above it") };
        made
    }

    fn places(fresh: &UnsyncedDirs, directory: &str) -> Vec<RelPath> {
        above(fresh, directory).iter().map(Made::place).collect()
    }

    /// The kernel may need a minute for it: whoever else has to do with directories goes on.
    #[test]
    fn what_is_being_made_or_moved_is_unsynced_and_holds_nobody_up() {
        let (fresh, to) = (UnsyncedDirs::default(), path("a/b"));
        let changing = fresh.changing(&to);
        let here = above(&fresh, "a/b/c");
        assert_eq!(here.iter().map(Made::place).collect::<Vec<_>>(), [path("a/b"), path("a")]);
        assert_eq!(places(&fresh, "a"), []);
        here.iter().for_each(|made| fresh.synced(made));
        fresh.all_synced(&path("a/b/c"), u64::MAX);
        assert_eq!(places(&fresh, "a/b"), [path("a")], "what was synced may have been another directory");
        drop(changing);
        assert_eq!(places(&fresh, "a/b"), [], "it failed");
        fresh.changing(&to).created();
        assert_eq!(places(&fresh, "a/b"), [path("a")]);
        fresh.changing(&to).moved();
        assert_eq!(places(&fresh, "a/b/c"), [path("a/b"), path("a"), path("")], "what came with it is not known");
        assert!(fresh.lock().changing.is_empty());
    }

    #[test]
    fn what_was_made_in_a_directory_that_was_renamed_meanwhile_is_unsynced_at_its_new_place() {
        let (deep, old, new) = (path("a/c/d"), path("a/c"), path("b"));
        let unsynced = [path("b"), path("")];
        let sync = |fresh: &UnsyncedDirs| above(fresh, "b/c").iter().for_each(|made| fresh.synced(made));
        // The directory that is opened for it, or one above that is made first.
        for is_above in [false, true] {
            let fresh = UnsyncedDirs::default();
            let opened = fresh.changing(if is_above { &deep } else { &old });
            fresh.changing(&new).moved();
            sync(&fresh);
            assert_eq!(places(&fresh, "b/c"), unsynced, "what was synced may have been another directory");
            let before = above(&fresh, "b/c");
            let (making, last) = if is_above { (opened.above(&old), Some(opened)) } else { (opened, None) };
            making.created();
            drop(last);
            before.iter().for_each(|made| fresh.synced(made));
            assert_eq!(places(&fresh, "b/c"), unsynced, "that sync began before");
            sync(&fresh);
            assert_eq!(places(&fresh, "b/c"), []);
        }
    }

    #[test]
    fn what_was_made_is_synced_by_whoever_needs_it_first_and_by_nobody_behind_them() {
        let fresh = UnsyncedDirs::default();
        fresh.lock().note(&path("a/b"));
        fresh.lock().note(&path("a/b/c"));
        assert_eq!(places(&fresh, "a/b/c/d"), [path("a/b"), path("a")]);
        assert_eq!(places(&fresh, "a"), []);
        for made in above(&fresh, "a/b/c") {
            fresh.synced(&made);
        }
        assert_eq!(places(&fresh, "a/b/c/d"), []);
    }

    #[test]
    fn a_sync_from_before_a_directory_was_made_again_does_not_count() {
        let fresh = UnsyncedDirs::default();
        fresh.lock().note(&path("a"));
        let earlier = above(&fresh, "a");
        fresh.lock().note(&path("a"));
        earlier.iter().for_each(|made| fresh.synced(made));
        assert_eq!(places(&fresh, "a"), [path("")]);
    }

    #[test]
    fn a_directory_with_another_name_counts_as_made_and_so_does_all_that_may_have_been_below_it() {
        let fresh = UnsyncedDirs::default();
        fresh.lock().moved(&path("b"));
        assert_eq!(places(&fresh, "b/c"), [path("")]);
        fresh.lock().moved(&path("d"));
        assert_eq!(places(&fresh, "d/c"), [path("d"), path("")]);
    }

    #[test]
    fn when_the_list_is_full_every_directory_counts_as_made() {
        let fresh = UnsyncedDirs::default();
        for number in 0..=REMEMBERED_MAX {
            fresh.lock().note(&path(&format!("d{number}")));
        }
        assert_eq!(places(&fresh, "other/e"), [path("other"), path("")]);
        assert!(fresh.lock().made.len() <= REMEMBERED_MAX);
    }
    #[test]
    fn paths_of_a_peer_s_length_take_no_more_memory_than_many_short_ones() {
        let fresh = UnsyncedDirs::default();
        let long = "abcdefghijklmnopqrstuvwxyz0123/".repeat(1000);
        for number in 0..100 {
            fresh.lock().note(&path(&format!("{long}{number}")));
        }
        let kept = |list: &List| list.made.keys().map(|path| path.as_bytes().len()).sum::<usize>();
        let list = fresh.lock();
        assert_eq!(kept(&list), list.bytes);
        assert!(list.bytes <= REMEMBERED_BYTES_MAX && list.dropped.is_some(), "{} bytes", list.bytes);
    }

    #[test]
    fn more_than_are_synced_one_by_one_are_synced_at_once_but_for_those_made_meanwhile() {
        let fresh = UnsyncedDirs::default();
        let deep = path(&vec!["a"; EACH_MAX + 1].join("/"));
        for depth in 1..=deep.depth() {
            fresh.lock().note(&deep.prefix(depth));
        }
        fresh.lock().note(&path("b"));
        let Above::Many(serial) = fresh.above(&deep, 0) else { panic!("they are many") };
        fresh.lock().note(&path("a"));
        fresh.all_synced(&deep, serial);
        let list = fresh.lock();
        assert_eq!(list.made.keys().collect::<Vec<_>>(), [&path("a"), &path("b")]);
        assert_eq!(list.bytes, 2);
    }

    #[test]
    fn a_directory_that_the_full_list_left_out_is_synced_once_and_not_for_each_file() {
        let fresh = UnsyncedDirs::default();
        for number in 0..=REMEMBERED_MAX {
            fresh.lock().note(&path(&format!("d{number}")));
        }
        let sync = |directory: &str| above(&fresh, directory).iter().for_each(|made| fresh.synced(made));
        sync("other/e");
        sync("d7/e");
        assert_eq!((places(&fresh, "other/e"), places(&fresh, "d7/e")), (vec![], vec![]));
        // What was made again, or came from elsewhere with all that is below it, is synced again.
        let earlier = above(&fresh, "new/e");
        fresh.lock().note(&path("other"));
        fresh.lock().moved(&path("d7"));
        earlier.iter().for_each(|made| fresh.synced(made));
        assert_eq!(places(&fresh, "other/e"), [path("")]);
        assert_eq!(places(&fresh, "d7/e"), [path("d7"), path("")]);
        assert_eq!(places(&fresh, "new/e"), [path("new"), path("")], "it may be what was moved");
    }

    #[test]
    fn what_is_known_to_be_synced_is_bounded_too() {
        let fresh = UnsyncedDirs::default();
        fresh.lock().dropped = Some(Dropped::default());
        for number in 0..3 * REMEMBERED_MAX {
            let directory = path(&format!("{number}"));
            above(&fresh, &format!("{number}")).iter().for_each(|made| fresh.synced(made));
            assert_eq!(fresh.above(&directory, 0), Above::Each(vec![]));
        }
        let list = fresh.lock();
        let dropped = list.dropped.as_ref().unwrap();
        let bytes: usize = dropped.synced.iter().map(|path| path.as_bytes().len()).sum();
        assert!(dropped.synced.len() <= REMEMBERED_MAX && dropped.bytes == bytes);
    }
}
