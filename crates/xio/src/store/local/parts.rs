//! Which part files are being written here, and how one that is there already is gone on with.
//!
//! A part file is joined only with the same transfer, source, length and owner, and across processes only in the same boot of
//! the machine; anything else that is left is given up. Whoever writes one holds a lock on it, so that another process (a second
//! server on the same directory, a clean-up) leaves it alone.

use super::journal::{self, About};
use super::part::Place;
use super::progress::{Health, Progress};
use super::{Kept, boot};
use crate::store::exact::read_full;
use crate::store::resolve::Parent;
use crate::store::words::{self, Verb};
use crate::store::{Result, StageRequest};
use rustix::fs::{FileType, FlockOperation, Stat};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use xdfs_proto::base::{ErrorKind, Extent};

/// See the module. Clones are the same table.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts(Arc<Mutex<Table>>);

/// By device and inode.
type Table = BTreeMap<(u64, u64), Weak<Progress>>;

/// A part file that may be written.
pub(super) struct OpenPart {
    pub(super) progress: Arc<Progress>,
    /// What is there.
    pub(super) kept: Vec<Extent>,
    /// It was there before.
    pub(super) found: bool,
}

impl Parts {
    /// Creates the part file, or takes over the one that is there.
    pub(super) fn open(&self, place: &Place, request: &StageRequest, part: &[u8], journal: &[u8]) -> Result<OpenPart> {
        let failed = |errno| words::failed(Verb::Create, &place.shown, errno);
        let Some(mut about) = wanted(request) else {
            let progress = Arc::new(Progress::new(fresh(place, part)?, None));
            return Ok(OpenPart { progress, kept: Vec::new(), found: false });
        };
        // Held until the file is locked and known here: two sessions with one transfer meet in this line.
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.retain(|_, progress| progress.strong_count() > 0);
        for _ in 0..TRIES_MAX {
            match place.parent.create_new(part) {
                Ok(file) => {
                    lock(&file, place)?;
                    about.part = identity(&rustix::fs::fstat(&file).map_err(failed)?);
                    let key = about.part;
                    let progress = Arc::new(Progress::new(file, Some(about)));
                    table.insert(key, Arc::downgrade(&progress));
                    return Ok(OpenPart { progress, kept: Vec::new(), found: false });
                }
                Err(Errno::EXIST) => {
                    let Some((file, stat)) = place.parent.open_own(part).map_err(failed)? else {
                        return Err(taken(place, part));
                    };
                    about.part = identity(&stat);
                    if let Some(progress) = table.get(&about.part).and_then(Weak::upgrade) {
                        return take_over(progress, &about, place);
                    }
                    lock(&file, place)?;
                    if let Some(progress) = found(file, &about, &place.parent, journal).map_err(failed)? {
                        let kept = progress.ledger().ranges(journal::ENTRIES_MAX);
                        let progress = Arc::new(progress);
                        table.insert(about.part, Arc::downgrade(&progress));
                        return Ok(OpenPart { progress, kept, found: true });
                    }
                    // Of another version of the source, or from before a power cut: of no use to anybody.
                    place.parent.remove(part).or_else(unless_gone).map_err(failed)?;
                    place.parent.remove(journal).or_else(unless_gone).map_err(failed)?;
                }
                Err(errno) => return Err(failed(errno)),
            }
        }
        Err(taken(place, part))
    }
}

/// A part file that nobody can go on with. One that a killed program left makes room: nobody holds it any more.
fn fresh(place: &Place, part: &[u8]) -> Result<OwnedFd> {
    let failed = |errno| words::failed(Verb::Create, &place.shown, errno);
    for _ in 0..TRIES_MAX {
        match place.parent.create_new(part) {
            Ok(file) => {
                lock(&file, place)?;
                // It is removed under its lock only, so from here on the name is that of this file.
                if rustix::fs::fstat(&file).map_err(failed)?.st_nlink == 1 {
                    return Ok(file);
                }
            }
            Err(Errno::EXIST) => {
                let Some((file, _)) = place.parent.open_own(part).map_err(failed)? else {
                    return Err(taken(place, part));
                };
                lock(&file, place)?;
                // Another one may have done the same, and its new file have the name by now.
                if rustix::fs::fstat(&file).map_err(failed)?.st_nlink == 1 {
                    place.parent.remove(part).or_else(unless_gone).map_err(failed)?;
                }
            }
            Err(errno) => return Err(failed(errno)),
        }
    }
    Err(taken(place, part))
}

/// A name that keeps coming back is somebody else's.
const TRIES_MAX: usize = 4;

fn unless_gone(errno: Errno) -> std::result::Result<(), Errno> {
    if errno == Errno::NOENT { Ok(()) } else { Err(errno) }
}

fn taken(place: &Place, part: &[u8]) -> xdfs_proto::base::Error {
    let because = format!("its part file '{}' exists, so another transfer has this id", words::shown_bytes(part));
    // Not AlreadyExists, which is said of the target alone: whoever asked to keep what is there would take it as done.
    words::refused(ErrorKind::Busy, Verb::Create, &place.shown, &because)
}

fn busy(place: &Place) -> xdfs_proto::base::Error {
    let because = "another transfer of the same source is writing it";
    words::refused(ErrorKind::Busy, Verb::Create, &place.shown, because)
}

/// What the journal of this request would be about; none where it is not to be gone on with.
fn wanted(request: &StageRequest) -> Option<About> {
    let resume = request.resume.as_ref()?;
    Some(About {
        transfer: request.transfer,
        length: request.size?,
        boot: boot::id(),
        part: (0, 0),
        source: resume.source.clone(),
        owner: resume.owner.clone(),
    })
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Another process that writes the file holds it. Where the file system has no locks nobody is kept away.
fn lock(file: &OwnedFd, place: &Place) -> Result<()> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(busy(place)),
        _ => Ok(()),
    }
}

/// The older session of this process is not done yet: it is refused from now on.
fn take_over(progress: Arc<Progress>, about: &About, place: &Place) -> Result<OpenPart> {
    if progress.about.as_ref() != Some(about) {
        return Err(busy(place));
    }
    let mut reign = progress.reign_mut();
    if reign.naming || progress.health() == Health::Spoilt {
        return Err(busy(place));
    }
    reign.generation += 1;
    let kept = progress.ledger().ranges(journal::ENTRIES_MAX);
    drop(reign);
    Ok(OpenPart { progress, kept, found: true })
}

/// What an earlier process left, if it can be gone on with.
fn found(file: OwnedFd, about: &About, parent: &Parent, name: &[u8]) -> std::result::Result<Option<Progress>, Errno> {
    let Some((journal_file, _)) = parent.open_own(name)? else { return Ok(None) };
    match read(&journal_file)? {
        Some(journal) if journal.about == *about && about.boot != [0; 16] => {
            Progress::found(file, journal_file, journal).map(Some)
        }
        _ => Ok(None),
    }
}

fn read(file: &OwnedFd) -> std::result::Result<Option<journal::Journal>, Errno> {
    let mut bytes = vec![0; journal::BYTES_MAX + 1];
    let count = read_full(&mut bytes, 0, |part, at| rustix::io::pread(file, part, at))?;
    if count > journal::BYTES_MAX {
        return Ok(None);
    }
    Ok(journal::read(bytes.get(..count).unwrap_or_default()))
}

/// What a part file beside a target holds, without touching it.
pub(super) fn look(parent: &Parent, part: &[u8], journal: &[u8], transfer: &[u8; 16], owner: &[u8]) -> Option<Kept> {
    let (_, stat) = parent.open_own(part).ok()??;
    let (file, _) = parent.open_own(journal).ok()??;
    let journal = read(&file).ok()??;
    let about = &journal.about;
    let same = about.boot == boot::id() && about.boot != [0; 16] && about.part == identity(&stat);
    let ours = about.transfer == *transfer && about.owner == owner;
    (same && ours).then(|| Kept { source: about.source.clone(), length: about.length, ranges: journal.ranges.clone() })
}

/// Whether a journal's bytes can be gone on with at all, for whoever counts them; the bytes that they tell of.
pub(in crate::store) fn resumable(file: &OwnedFd, part: &Stat) -> Option<u64> {
    let journal = read(file).ok()??;
    let same = journal.about.boot == boot::id() && journal.about.part == identity(part);
    same.then(|| journal.ranges.iter().map(|range| range.length()).sum())
}

/// A regular file of ours with one name: nobody can have planted it from elsewhere.
pub(in crate::store) fn is_own(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_nlink == 1
        && stat.st_uid == rustix::process::geteuid().as_raw()
}
