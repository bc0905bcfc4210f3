//! Which part files are being written here, and how one that is there already is gone on with.
//!
//! A part file is joined only with the same transfer, length and owner. Where what is in doubt is hashed by both sides, another
//! version of the source (a copy of it) and what is from before a power cut can be gone on with, too. Anything else that is left is
//! given up. Whoever writes a part file holds a lock on it, so that another process (a second server on the same directory, a
//! clean-up) leaves it alone.

use super::journal::{self, About};
use super::part::Place;
use super::progress::{Health, Progress};
use super::{Kept, Same, boot};
use crate::store::exact::read_full;
use crate::store::noted::{self, Noted, usable};
use crate::store::resolve::Parent;
use crate::store::resolve::leftovers::is_held_by_nobody;
use crate::store::words::{self, Verb};
use crate::store::{Result, Resume, StageRequest};
use rustix::fs::{FileType, FlockOperation, Stat};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use xdfs_proto::base::{Bugs, ErrorKind, kept};

/// See the module. Clones are the same table.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    table: Arc<Mutex<Table>>,
    bugs: Bugs,
}

/// By device and inode.
type Table = BTreeMap<(u64, u64), Weak<Progress>>;

/// A part file that may be written.
pub(super) struct OpenPart {
    pub(super) progress: Arc<Progress>,
    /// What is there.
    pub(super) kept: Vec<Noted>,
    /// It was there before.
    pub(super) found: bool,
}

impl Parts {
    /// No part file is written here yet.
    pub(super) fn seeded(bugs: Bugs) -> Self {
        Self { bugs, ..Self::default() }
    }

    /// Creates the part file, or takes over the one that is there.
    pub(super) fn open(&self, place: &Place, request: &StageRequest, part: &[u8], journal: &[u8]) -> Result<OpenPart> {
        let failed = |errno| words::failed(Verb::Create, &place.shown, errno);
        let (Some(mut about), Some(resume)) = (wanted(request), &request.resume) else {
            let progress = Arc::new(Progress::new(fresh(place, part)?, None));
            return Ok(OpenPart { progress, kept: Vec::new(), found: false });
        };
        let (since, hashed) = (resume.since, resume.hashed);
        // Held until the file is locked and known here: two sessions with one transfer meet in this line.
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.retain(|_, progress| progress.strong_count() > 0);
        for _ in 0..TRIES_MAX {
            match place.parent.create_new(part) {
                Ok(file) => {
                    lock(&file, place)?;
                    about.part = identity(&rustix::fs::fstat(&file).map_err(failed)?);
                    let key = about.part;
                    let progress = Arc::new(Progress::new(file, Some(about)).seeded(self.bugs));
                    progress.reign_mut().since = since;
                    if let Some(about) = &progress.about {
                        give_up_others(&table, place, about, part);
                    }
                    table.insert(key, Arc::downgrade(&progress));
                    return Ok(OpenPart { progress, kept: Vec::new(), found: false });
                }
                Err(Errno::EXIST) => {
                    let Some((file, stat)) = place.parent.open_own(part).map_err(failed)? else {
                        must_be_gone(place, part)?;
                        continue;
                    };
                    about.part = identity(&stat);
                    let live = table.get(&about.part).and_then(Weak::upgrade);
                    let opened = match live {
                        Some(progress) => match take_over(progress, &about, resume, place, journal)? {
                            None => continue,
                            taken => taken,
                        },
                        None => {
                            lock(&file, place)?;
                            found(file, &about, hashed, &place.parent, journal, self.bugs).map_err(failed)?
                        }
                    };
                    if let Some(opened) = opened {
                        opened.progress.reign_mut().since = since;
                        table.insert(about.part, Arc::downgrade(&opened.progress));
                        return Ok(opened);
                    }
                    // Of another source, or from before a power cut and nobody compares it: of no use to anybody.
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
                    must_be_gone(place, part)?;
                    continue;
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

/// A transfer begins at the beginning: what the same user's transfers of other sources to this target have left is of no use any
/// more. Who is still writing keeps theirs.
fn give_up_others(table: &Table, place: &Place, about: &About, part: &[u8]) {
    for other in place.parent.other_parts(&place.name, part) {
        let journal = [other.strip_suffix(b".part").unwrap_or(&other), b".journal"].concat();
        let Ok(Some((file, stat))) = place.parent.open_own(&other) else { continue };
        let live = table.get(&identity(&stat)).is_some_and(|progress| progress.strong_count() > 0);
        if live || !is_held_by_nobody(&file) {
            continue;
        }
        let noted = place.parent.open_own(&journal).ok().flatten().and_then(|(file, _)| read(&file).ok().flatten());
        // What cannot be removed now expires, and so does what nobody can tell whose it is.
        if noted.is_some_and(|noted| noted.about.owner == about.owner) && place.parent.remove(&other).is_ok() {
            let _ = place.parent.remove(&journal);
        }
    }
}

/// A name that keeps coming back is somebody else's.
const TRIES_MAX: usize = 4;

fn unless_gone(errno: Errno) -> std::result::Result<(), Errno> {
    if errno == Errno::NOENT { Ok(()) } else { Err(errno) }
}

/// What could not be opened: it is somebody else's unless it has just been given up.
fn must_be_gone(place: &Place, part: &[u8]) -> Result<()> {
    let found = place.parent.look(part).map_err(|errno| words::failed(Verb::Create, &place.shown, errno))?;
    found.map_or(Ok(()), |_| Err(taken(place, part)))
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

/// The older session of this process is not done yet: it is refused from now on. None where it has just done it, or given it up.
fn take_over(
    progress: Arc<Progress>,
    about: &About,
    resume: &Resume,
    place: &Place,
    journal: &[u8],
) -> Result<Option<OpenPart>> {
    let Some(own) = progress.about.as_ref() else { return Err(busy(place)) };
    let same = Same { source: own.source == about.source, boot: true };
    let alike = About { source: own.source.clone(), ..about.clone() } == *own;
    if !alike || !(same.source || resume.hashed) {
        return Err(busy(place));
    }
    let mut reign = progress.reign_mut();
    if reign.over {
        return Ok(None);
    }
    if resume.since < reign.since {
        let because = "another session took this transfer over";
        return Err(words::refused(ErrorKind::Superseded, Verb::Create, &place.shown, because));
    }
    if progress.health() == Health::Spoilt {
        return Err(busy(place));
    }
    let kept = usable(&progress.noted(), resume.hashed, same);
    if same.source {
        reign.generation += 1;
        progress.begin(kept.clone());
        drop(reign);
        return Ok(Some(OpenPart { progress, kept, found: true }));
    }
    let failed = |errno| words::failed(Verb::Create, &place.shown, errno);
    // The lock goes with the open file, which both have.
    let file = progress.file.try_clone().map_err(|_| failed(Errno::MFILE))?;
    let fresh = of_other_source(file, about, kept.clone(), &place.parent, journal).map_err(failed)?;
    reign.generation += 1;
    drop(reign);
    Ok(Some(OpenPart { progress: Arc::new(fresh), kept, found: true }))
}

/// Goes on with bytes that came from another version of the source, or lay there during a power cut. From here on the journal is
/// about this source: what it said before would be wrong with the first byte that is written.
fn of_other_source(
    file: OwnedFd,
    about: &About,
    kept: Vec<Noted>,
    parent: &Parent,
    journal: &[u8],
) -> std::result::Result<Progress, Errno> {
    let progress = Progress::new(file, Some(about.clone()));
    progress.begin(kept);
    progress.checkpoint(parent, journal, true)?;
    Ok(progress)
}

/// What an earlier process left, if it can be gone on with.
fn found(
    file: OwnedFd,
    about: &About,
    hashed: bool,
    parent: &Parent,
    name: &[u8],
    bugs: Bugs,
) -> std::result::Result<Option<OpenPart>, Errno> {
    let Some((journal_file, _)) = parent.open_own(name)? else { return Ok(None) };
    let Some(journal) = read(&journal_file)? else { return Ok(None) };
    let Some(same) = joins(&journal.about, about) else { return Ok(None) };
    if !(hashed || same.source && same.boot) {
        return Ok(None);
    }
    let size = rustix::fs::fstat(&file)?.st_size.unsigned_abs();
    let kept = kept(usable(&journal.noted, hashed, same), size, Noted::plain, bugs);
    let progress = if same.source && same.boot {
        Progress::found(file, journal_file, journal, kept.clone())?
    } else {
        of_other_source(file, about, kept.clone(), parent, name)?
    };
    Ok(Some(OpenPart { progress: Arc::new(progress), kept, found: true }))
}

/// Whether a journal is about the same transfer, owner and part file, and what else it has in common.
fn joins(journal: &About, about: &About) -> Option<Same> {
    let boot = journal.boot == about.boot && about.boot != [0; 16];
    // A device may have another number in another boot; what is in the file is compared then.
    let part = journal.part.1 == about.part.1 && (journal.part.0 == about.part.0 || !boot);
    let alike = (&journal.transfer, journal.length, &journal.owner) == (&about.transfer, about.length, &about.owner);
    (part && alike).then(|| Same { source: journal.source == about.source, boot })
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
    let (source, length) = (journal.about.source.clone(), journal.about.length);
    let (transfer, owner) = (*transfer, owner.to_vec());
    let about = About { transfer, length, boot: boot::id(), part: identity(&stat), source: source.clone(), owner };
    let same = joins(&journal.about, &about)?;
    Some(Kept { source, length, noted: usable(&journal.noted, true, same) })
}

/// Whether a journal's bytes can be gone on with at all, for whoever counts them; the bytes that they tell of.
pub(in crate::store) fn resumable(file: &OwnedFd, part: &Stat) -> Option<u64> {
    let journal = read(file).ok()??;
    let about = About { boot: boot::id(), part: identity(part), ..journal.about.clone() };
    joins(&journal.about, &about)?;
    Some(noted::ranges(&journal.noted).iter().map(|range| range.length()).sum())
}

/// A regular file of ours with one name: nobody can have planted it from elsewhere.
pub(in crate::store) fn is_own(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_nlink == 1
        && stat.st_uid == rustix::process::geteuid().as_raw()
}
