//! The names of the extended attributes of what is in a directory that a program is reading, asked for together: `ls -l` asks
//! each file for its access control list, which would be a round trip for each.

use super::generations::Generations;
use super::{Tree, WANTED, refused};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use xdfs_client::wire::{Answer as Told, Call, Failure, Wanted};
use xdfs_client::{Batch, Facts, failed};

/// Files that are asked at a time, each with two calls: as many as a batch may have.
const ASKED_MAX: usize = 128;
/// Bytes of their paths: a batch has to fit in one message.
const PATHS_BYTES_MAX: usize = 16 << 10;
/// Bytes of an answer. A file with longer names is asked alone.
const NAMES_BYTES: usize = 256;
/// Files of which something is known.
const KNOWN_MAX: usize = 16_384;
/// After a program has asked for attributes, listings of directories tell for so long which files have any.
const LISTED_FOR: Duration = Duration::from_secs(10);

/// As programs are told: each name ends in a zero byte. None where the file has to be asked alone.
type Names = Option<Arc<[u8]>>;

/// What is known, for as long as attributes may be used without another look.
#[derive(Debug)]
pub(super) struct KnownNames {
    are_kept: bool,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    files: Generations<u64, (Arc<[u8]>, Instant)>,
    alone: Alone,
    /// When a program asked last.
    asked: Option<Instant>,
}

impl Default for Known {
    fn default() -> Self {
        Self { files: Generations::new(KNOWN_MAX), alone: Alone::default(), asked: None }
    }
}

/// Files that have to be asked alone, each until some moment. None of them is forgotten before that.
#[derive(Default, Debug)]
struct Alone {
    files: BTreeMap<u64, Instant>,
    /// Of all files: there were too many.
    all: Option<Instant>,
}

impl Alone {
    fn has(&self, inode: u64, now: Instant) -> bool {
        let until = self.files.get(&inode).copied().max(self.all);
        until.is_some_and(|until| now < until)
    }

    fn insert(&mut self, inode: u64, until: Instant, now: Instant) {
        if self.files.len() >= KNOWN_MAX {
            self.files.retain(|_, until| now < *until);
            // All would be gone through again soon.
            if self.files.len() > KNOWN_MAX / 2 {
                self.all = self.files.values().copied().max().max(self.all);
                self.files.clear();
            }
        }
        let until = self.files.get(&inode).copied().map_or(until, |before| before.max(until));
        self.files.insert(inode, until);
    }
}

/// Names as programs are told them. Those that are never found are not listed.
pub(super) fn shown<'a>(names: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    names.filter(|name| !is_of_security(name)).flat_map(|name| [name, b"\0"].concat()).collect()
}

/// The kernel asks for one of these before each write, and the server knows nothing of this machine's.
pub(super) fn is_of_security(name: &[u8]) -> bool {
    name.starts_with(b"security.")
}

impl KnownNames {
    /// Of a server that keeps such attributes, or none.
    pub(super) fn new(are_kept: bool) -> Self {
        Self { are_kept, known: Mutex::default() }
    }

    /// Whether files have attributes at all.
    pub(super) fn are_kept(&self) -> bool {
        self.are_kept
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether programs ask for attributes.
    fn are_asked_for(&self) -> bool {
        self.lock().asked.is_some_and(|asked| Instant::now() < asked + LISTED_FOR)
    }

    /// A file has no attributes.
    pub(super) fn keep_none(&self, inode: u64, until: Instant) {
        self.lock().keep(vec![(inode, Some(Arc::from([])))], until, Instant::now());
    }

    /// Changes attributes of a file. It is asked alone for some time: an answer that is on its way while they change is over
    /// before that is.
    pub(super) fn changing<T>(&self, inode: u64, valid: Duration, change: impl FnOnce() -> T) -> T {
        let alone = || {
            let (mut known, now) = (self.lock(), Instant::now());
            known.files.remove(&inode);
            known.alone.insert(inode, now + valid, now);
        };
        alone();
        let changed = change();
        alone();
        changed
    }
}

impl Known {
    fn find(&self, inode: u64, now: Instant) -> Option<Names> {
        if self.alone.has(inode, now) {
            return Some(None);
        }
        self.files.get(&inode).filter(|(_, until)| now < *until).map(|(names, _)| Some(Arc::clone(names)))
    }

    /// What was asked for at some time, and may be used until then.
    fn keep(&mut self, told: Vec<(u64, Names)>, until: Instant, now: Instant) {
        for (inode, names) in told {
            match names {
                _ if self.alone.has(inode, now) => {}
                Some(names) => self.files.insert(inode, (names, until)),
                None => self.alone.insert(inode, until, now),
            }
        }
    }
}

impl Tree {
    /// The names of a file's attributes, if they are known.
    pub(super) fn present_xattr_names(&self, inode: u64) -> Names {
        let now = Instant::now();
        let mut known = self.known.xattr_names.lock();
        known.asked = Some(now);
        known.find(inode, now).flatten()
    }

    /// The names of a file's attributes, if they are known, or if a program is reading its directory: then those of others
    /// there are asked for with it.
    pub(super) fn known_xattr_names(&self, inode: u64) -> Result<Names, Errno> {
        let now = Instant::now();
        {
            let mut known = self.known.xattr_names.lock();
            known.asked = Some(now);
            if let Some(names) = known.find(inode, now) {
                return Ok(names);
            }
        }
        let around = self.to_ask_with(inode, now);
        if around.is_empty() {
            return Ok(None);
        }
        let told = self.ask_for_names(around)?;
        let names = told.iter().find(|(id, _)| *id == inode).and_then(|(_, names)| names.clone());
        self.known.xattr_names.lock().keep(told, now + self.settings.valid, now);
        Ok(names)
    }

    /// What entries of directories are asked for.
    pub(super) fn wanted_of_entries(&self) -> Wanted {
        let usual = WANTED.and(Wanted::TARGET);
        if self.known.xattr_names.are_asked_for() { usual.and(Wanted::XATTRS) } else { usual }
    }

    /// This file and others in its directory with their paths; nothing unless a program is reading that.
    fn to_ask_with(&self, inode: u64, now: Instant) -> Vec<(u64, Vec<u8>)> {
        let known = self.known.xattr_names.lock();
        let inodes = self.inodes();
        let is_read = |parent| self.directories.any(|directory| directory.inode == parent);
        if self.settings.valid.is_zero() || !inodes.parent(inode).is_some_and(is_read) {
            return Vec::new();
        }
        let mut around = inodes.around(inode, ASKED_MAX, |id| known.find(id, now).is_none());
        let mut bytes = 0;
        let fits = around.iter().take_while(|(_, path)| {
            bytes += path.len();
            bytes <= PATHS_BYTES_MAX
        });
        around.truncate(fits.count());
        around
    }

    fn ask_for_names(&self, files: Vec<(u64, Vec<u8>)>) -> Result<Vec<(u64, Names)>, Errno> {
        let mut batch = Batch::new(self.base.as_slice());
        for (_, path) in &files {
            batch.push_with_room(&Call::XattrNames { path }, NAMES_BYTES);
            // A path may lead to another file by now.
            let stat = Call::Stat { path, wanted: Wanted::INODE };
            batch.push_with_room(&stat, stat.room());
        }
        let reply = self.remote.call(&batch).map_err(|error| refused(&error))?;
        let mut outcomes = reply.read().map_err(|error| refused(&error))?.outcomes.into_iter();
        let inodes = self.inodes();
        let told = files.into_iter().map(|(id, _)| {
            let names = outcomes.next().and_then(names_of);
            let is_it = match outcomes.next() {
                Some(Ok(Told::Attributes(told))) => inodes.identity(id) == Facts::from(&told).inode,
                _ => false,
            };
            (id, names.filter(|_| is_it))
        });
        Ok(told.collect())
    }
}

/// A failure that says that there are no such attributes on this file.
pub(super) fn are_none(errno: Errno) -> bool {
    matches!(errno, Errno::PERM | Errno::OPNOTSUPP)
}

/// What a file answers beside others. Everything that is not told here is asked for alone, which tells why.
fn names_of(outcome: Result<Told<'_>, Failure>) -> Names {
    let names = match outcome {
        Ok(Told::Names(names)) => shown(names),
        Err(failure) if are_none(refused(&failed(failure, ""))) => Vec::new(),
        _ => return None,
    };
    (names.len() <= NAMES_BYTES).then(|| names.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: Duration = Duration::from_secs(1);

    fn told(inodes: std::ops::Range<u64>) -> Vec<(u64, Names)> {
        inodes.map(|inode| (inode, Some(b"user.a\0".as_slice().into()))).collect()
    }

    #[test]
    fn what_is_never_found_is_not_listed() {
        assert_eq!(shown([&b"security.capability"[..], b"user.a", b"user.b"].into_iter()), b"user.a\0user.b\0");
    }

    #[test]
    fn what_is_known_has_a_bound_and_a_time_and_makes_room_for_more() {
        let (mut known, now) = (Known::default(), Instant::now());
        let until = now + VALID;
        known.keep(vec![(1_000_000, None)], until, now);
        let last = KNOWN_MAX as u64 + 8;
        known.keep(told(0..last + 1), until, now);
        assert!(known.files.len() < KNOWN_MAX);
        assert!(known.find(last, now).is_some_and(|names| names.is_some()) && known.find(last, until).is_none());
        assert_eq!(known.find(1_000_000, now), Some(None), "who is asked alone");
    }

    #[test]
    fn what_was_known_before_a_change_is_not_known_again_when_it_need_not_be_asked_alone() {
        let (known, now) = (KnownNames::new(true), Instant::now());
        known.lock().keep(told(1..2), now + VALID * 60, now);
        // A notice of others, and an own change of which the server tells later.
        for valid in [VALID, VALID * 60, VALID] {
            known.changing(1, valid, || ());
        }
        assert_eq!(known.lock().find(1, now + VALID * 2), Some(None), "for the longest of these times");
        assert_eq!(known.lock().find(1, Instant::now() + VALID * 60), None);
    }

    #[test]
    fn who_has_to_be_asked_alone_is_so_for_all_of_the_time_however_many_they_are() {
        let (known, began) = (KnownNames::new(true), Instant::now());
        for inode in 0..3 * KNOWN_MAX as u64 {
            known.changing(inode, VALID * 3600, || ());
            assert!(known.lock().alone.files.len() <= KNOWN_MAX);
        }
        let found = |inode, at| known.lock().find(inode, at);
        known.lock().keep(told(0..1), began + VALID * 7200, began);
        assert_eq!((found(0, began), found(KNOWN_MAX as u64, began)), (Some(None), Some(None)));
        assert_eq!(found(0, Instant::now() + VALID * 3600), None);
    }

    #[test]
    fn what_was_asked_for_before_a_change_is_not_kept_after_it() {
        let known = KnownNames::new(true);
        let asked = Instant::now();
        known.lock().keep(told(1..3), asked + VALID, asked);
        known.changing(1, VALID, || ());
        known.lock().keep(told(1..3), asked + VALID, Instant::now());
        assert_eq!(known.lock().find(1, Instant::now()), Some(None));
        assert!(known.lock().find(2, asked).is_some_and(|names| names.is_some()));
    }
}
