//! Where a file is until it is named: a part file, and its journal, in a staging directory that no
//! path leads into.
//!
//! One staging directory serves everything below a root. A part file is created in its target's
//! directory, without a name, so that it gets the same group, access control list and label as any
//! file there, and is then linked into the staging directory. Where that is impossible (another
//! file system or project quota, no unnamed files) the staging directory is next to the target, and
//! passes them on. Must not: name anything outside of a staging directory.

use super::journal::Sealer;
use crate::store::errors::{self, Verb};
use crate::store::locked_file::LockedFile;
use crate::store::resolve::staging::{NoStaging, OpenStaging};
use crate::store::resolve::{Parent, Root};
use rustix::fs::{FlockOperation, Mode};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use xdfs_proto::base::{Error, ErrorKind, RelPath, TransferId};

/// A directory that keeps vanishing between two calls is being removed by other programs as fast as
/// it is created.
const TRIES_MAX: usize = 64;

/// A staging directory in use. Its last user removes it if it is empty.
#[derive(Debug)]
pub(super) struct StagingDirectory {
    directory: Parent,
    above: Arc<Parent>,
    name: Vec<u8>,
    /// Its own name is not on stable storage yet.
    unsynced: AtomicBool,
    /// Another program removed it.
    removed: AtomicBool,
}

impl StagingDirectory {
    pub(super) fn new(above: &Arc<Parent>, open: OpenStaging) -> Self {
        let OpenStaging { directory, name, made } = open;
        Self {
            directory,
            above: Arc::clone(above),
            name,
            unsynced: AtomicBool::new(made),
            removed: AtomicBool::new(false),
        }
    }

    /// The directory itself.
    pub(super) fn directory(&self) -> &Parent {
        &self.directory
    }

    /// Its name in the parent directory.
    pub(super) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Waits until the names in it are on stable storage, and its own; `file` is on the same file
    /// system.
    pub(super) fn sync(&self, file: &OwnedFd) -> Result<(), Errno> {
        self.directory.sync(file)?;
        if self.unsynced.swap(false, Ordering::Relaxed) {
            self.above.sync(file).inspect_err(|_| self.unsynced.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    }
}

impl Drop for StagingDirectory {
    fn drop(&mut self) {
        // This fails if it is not empty, and if another user has removed it there is nothing to do.
        let _ = self.above.remove_directory(&self.name);
    }
}

/// The staging directory at the top of a root, while it is in use. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct StagingArea {
    root: Arc<Root>,
    top: Arc<Mutex<Weak<StagingDirectory>>>,
    /// Files are created without a name first, where the file system supports that.
    pub(super) unnamed: bool,
    /// The top may have a staging directory; otherwise files are staged beside their targets.
    pub(super) at_top: bool,
    /// Why there is no staging directory at the top, once that is known.
    pub(super) taken: Arc<Taken>,
}

/// A notice for the operator, returned once.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) why: OnceLock<String>,
    pub(super) told: AtomicBool,
}

/// A requested part file.
pub(super) enum PartFile {
    /// It was created, and is locked.
    Made(Arc<StagingDirectory>, OwnedFd),
    /// Its name exists in this directory.
    Exists(Arc<StagingDirectory>),
}

impl StagingArea {
    pub(super) fn new(root: &Arc<Root>) -> Self {
        Self { root: Arc::clone(root), top: Arc::default(), unnamed: true, at_top: true, taken: Arc::default() }
    }

    /// Creates the part file `name` for a target in `parent`.
    pub(super) fn create(&self, parent: &Arc<Parent>, name: &[u8]) -> Result<PartFile, NoStaging> {
        let file = match self.unnamed {
            true => parent.create_unnamed(Mode::RUSR | Mode::WUSR)?,
            false => None,
        };
        let Some(file) = file else { return create_beside(parent, name) };
        lock_new(&file);
        let (directory, linked) = self.link(parent, &file, name)?;
        Ok(if linked { PartFile::Made(directory, file) } else { PartFile::Exists(directory) })
    }

    /// Links `file`, which has no name and is in `parent`, into a staging directory; false if the
    /// name exists there.
    pub(super) fn link(
        &self,
        parent: &Arc<Parent>,
        file: &OwnedFd,
        name: &[u8],
    ) -> Result<(Arc<StagingDirectory>, bool), NoStaging> {
        let link = |directory: &Parent| match directory.link_unnamed(file, name) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => Err(errno),
        };
        if !self.at_top {
            return within(|| beside(parent), link);
        }
        match within(|| self.top(), link) {
            // The top is not writable, or is on another file system.
            Err(NoStaging::Errno(_)) => within(|| beside(parent), link),
            // A directory of another program is not used, and does not prevent staging elsewhere.
            Err(NoStaging::Foreign(why)) => {
                // The first reason is kept.
                let _ = self.taken.why.set(why);
                within(|| beside(parent), link)
            }
            linked => linked,
        }
    }

    /// The staging directories in which a part file of a target in `parent` may be.
    pub(super) fn existing(&self, parent: &Parent) -> impl Iterator<Item = Parent> {
        let found = self.root.top().existing_staging().into_iter().chain(parent.existing_staging());
        found.map(|open| open.directory)
    }

    fn top(&self) -> Result<Arc<StagingDirectory>, NoStaging> {
        let mut top = self.top.lock().unwrap_or_else(PoisonError::into_inner);
        // A directory that another program removed is of no use.
        if let Some(directory) = top.upgrade().filter(|directory| !directory.removed.load(Ordering::Relaxed)) {
            return Ok(directory);
        }
        let directory = beside(self.root.top())?;
        *top = Arc::downgrade(&directory);
        Ok(directory)
    }
}

/// The staging directory in `parent`.
pub(super) fn beside(parent: &Arc<Parent>) -> Result<Arc<StagingDirectory>, NoStaging> {
    Ok(Arc::new(StagingDirectory::new(parent, parent.open_or_make_staging()?)))
}

/// A file of this name in the staging directory next to its target, which passes on group and
/// access control list.
fn create_beside(parent: &Arc<Parent>, name: &[u8]) -> Result<PartFile, NoStaging> {
    let create = |directory: &Parent| match directory.create_new(name) {
        Ok(file) => {
            lock_new(&file);
            // It is removed only under its lock, so from here on the name refers to this file.
            let stat = rustix::fs::fstat(&file).inspect_err(|_| {
                // Errors are ignored; what cannot be removed is found in the staging directory
                // later.
                let _ = directory.remove(name);
            });
            let links = stat?.st_nlink;
            Ok((links == 1).then_some(file))
        }
        Err(Errno::EXIST) => Ok(None),
        Err(errno) => Err(errno),
    };
    let (directory, file) = within(|| beside(parent), create)?;
    Ok(match file {
        Some(file) => PartFile::Made(directory, file),
        None => PartFile::Exists(directory),
    })
}

/// Runs an operation in a staging directory, which another user may remove at any time while it is
/// empty.
pub(super) fn within<R>(
    open: impl Fn() -> Result<Arc<StagingDirectory>, NoStaging>,
    act: impl Fn(&Parent) -> Result<R, Errno>,
) -> Result<(Arc<StagingDirectory>, R), NoStaging> {
    for _ in 0..TRIES_MAX {
        let directory = open()?;
        match act(&directory.directory) {
            Err(Errno::NOENT) => directory.removed.store(true, Ordering::Relaxed),
            Err(errno) => return Err(errno.into()),
            Ok(done) => return Ok((directory, done)),
        }
    }
    Err(Errno::BUSY.into())
}

/// The clean-up of what killed programs left skips locked files. Without locks, their age protects
/// them.
pub(super) fn lock_new(file: &OwnedFd) {
    let _ = rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
}

/// The file, if it has no writer; no writer can start while it is held here.
pub(super) fn held_by_nobody(file: OwnedFd) -> Option<LockedFile> {
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok().map(|()| LockedFile::new(file))
}

/// Why a file for `shown` cannot be staged.
pub(super) fn no_staging(shown: &str, why: NoStaging) -> Error {
    match why {
        NoStaging::Errno(errno) => errors::failed(Verb::Create, shown, errno),
        NoStaging::Foreign(why) => errors::refused(ErrorKind::Refused, Verb::Create, shown, &why),
    }
}

/// The location of a transfer's bytes: a directory, and the names in it.
#[derive(Clone, Debug)]
pub(super) struct PartLocation {
    pub(super) directory: Arc<StagingDirectory>,
    pub(super) names: PartNames,
    pub(super) sealer: Sealer,
}

impl PartLocation {
    /// The directory itself.
    pub(super) fn directory(&self) -> &Parent {
        self.directory.directory()
    }

    /// Removes the part file, and its journal if it has one. Errors are ignored: what cannot be
    /// removed is found by its name later.
    pub(super) fn remove(&self, journal: bool) {
        let _ = self.directory().remove(&self.names.part);
        if journal {
            let _ = self.names.remove_journal(self.directory());
        }
    }
}

/// What a name in a staging directory stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Leftover {
    /// A part file.
    Part,
    /// Its journal.
    Journal,
    /// A journal that is being written.
    Fresh,
}

/// Parses `<16 hexadecimal digits>-<32 hexadecimal digits>.part` and the like; returns the name
/// without its suffix.
pub(super) fn kind_of(name: &[u8]) -> Option<(Leftover, &[u8])> {
    let (stem, kind) = suffix_of(name)?;
    let (target, transfer) = (stem.get(..16)?, stem.get(17..)?);
    let hexadecimal = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    let formed = stem.len() == 49 && stem.get(16) == Some(&b'-') && hexadecimal(target) && hexadecimal(transfer);
    formed.then_some((kind, stem))
}

/// What a name stands for by its suffix, and the name without it.
pub(super) fn suffix_of(name: &[u8]) -> Option<(&[u8], Leftover)> {
    let suffixes =
        [(b".part".as_slice(), Leftover::Part), (b".journal", Leftover::Journal), (b".journal.new", Leftover::Fresh)];
    suffixes.iter().find_map(|(suffix, kind)| Some((name.strip_suffix(*suffix)?, *kind)))
}

/// The names of a part file and its journal:
/// `HHHHHHHHHHHHHHHH-TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTT.part`, H for the target, T for the transfer,
/// in hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PartNames {
    pub(super) part: Vec<u8>,
    pub(super) journal: Vec<u8>,
}

impl PartNames {
    pub(super) fn new(target: &RelPath, transfer: TransferId) -> Self {
        let stem = format!("{}{:032x}", target_prefix(target), u128::from_be_bytes(transfer.0));
        Self { part: format!("{stem}.part").into_bytes(), journal: format!("{stem}.journal").into_bytes() }
    }

    /// The journal while it is being written, before it replaces the previous one.
    pub(super) fn fresh_journal(&self) -> Vec<u8> {
        [self.journal.as_slice(), b".new"].concat()
    }

    /// Removes what a program that was killed while it wrote a journal left of it. The caller holds
    /// the part file, so that nobody else writes one.
    pub(super) fn remove_fresh_journal(&self, directory: &Parent) -> Result<(), Errno> {
        directory.remove(&self.fresh_journal()).or_else(unless_gone)
    }

    /// Removes the journal and what is left of the one that was to follow it.
    pub(super) fn remove_journal(&self, directory: &Parent) -> Result<(), Errno> {
        self.remove_fresh_journal(directory)?;
        directory.remove(&self.journal).or_else(unless_gone)
    }

    /// The names for a part file that was found.
    pub(super) fn of_part(part: &[u8]) -> Option<Self> {
        match kind_of(part)? {
            (Leftover::Part, stem) => Some(Self { part: part.to_vec(), journal: [stem, b".journal"].concat() }),
            _ => None,
        }
    }
}

pub(super) fn unless_gone(errno: Errno) -> Result<(), Errno> {
    if errno == Errno::NOENT { Ok(()) } else { Err(errno) }
}

/// The common prefix of the names of all part files of a target. Targets with the same prefix, by
/// chance or by design, do not collide: the transfer id identifies the user, and a journal its
/// target.
pub(super) fn target_prefix(target: &RelPath) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
    format!("{:016x}-", target.as_bytes().iter().fold(FNV_BASIS, step))
}

/// The constants of FNV-1a with 64 bits.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_part_files_are_taken_for_such() {
        let (target, hex) = ("0123456789abcdef", "0123456789abcdef0123456789abcdef");
        for (name, kind) in [
            (format!("{target}-{hex}.part"), Some(Leftover::Part)),
            (format!("{target}-{hex}.journal"), Some(Leftover::Journal)),
            (format!("{target}-{hex}.journal.new"), Some(Leftover::Fresh)),
            (format!("{target}.{hex}.part"), None),
            (format!("{hex}.part"), None),
            (format!("{target}-{hex}0.part"), None),
            (format!("{target}-{}g.part", &hex[1..]), None),
            (format!("{target}-{hex}.parts"), None),
        ] {
            assert_eq!(kind_of(name.as_bytes()).map(|(kind, _)| kind), kind, "{name}");
        }
    }
}
