//! The part files that are being written here, and how an existing one is resumed.
//!
//! A part file is resumed only by the same transfer, with the same length and owner. Where both
//! sides hash unverified ranges, data of another version of the source (a copy of it) and data from
//! before a power cut can be resumed, too. Other leftovers are discarded. The writer of a part file
//! holds a lock on it, so that another process (a second server on the same directory, a clean-up)
//! leaves it alone.

use super::claims::{Claims, Identity};
use super::journal::{self, Journal, JournalSubject, Sealer};
use super::progress::{Health, Progress};
use super::staging::{
    PartFile, PartLocation, PartNames, StagingArea, held_by_nobody, no_staging, target_prefix, unless_gone,
};
use super::target_place::TargetPlace;
use super::{Kept, boot};
use crate::store::errors::{self, Verb};
use crate::store::io_loops::read_full;
use crate::store::locked_file::LockedFile;
use crate::store::resolve::Parent;
use crate::store::stored_range::{self, JournalTags, ResumeMatch, StoredRange, usable};
use crate::store::{Result, Resume, StageRequest};
use rustix::fs::{FlockOperation, Stat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use xdfs_proto::base::{ErrorKind, RelPath, TransferId};

/// Limits on what is kept for each owner in one staging directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptLimits {
    /// Part files.
    pub parts: usize,
    /// Bytes that they occupy.
    pub bytes: u64,
}

impl Default for KeptLimits {
    fn default() -> Self {
        // Two sessions with the maximum of operations in flight; and what a fast disk takes in ten
        // minutes, so that one user's interrupted transfers leave space for others.
        Self { parts: 256, bytes: 1 << 40 }
    }
}

/// The part files of a store. Clones share one table.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) staging: StagingArea,
    pub(super) claims: Arc<Claims>,
    /// Authenticates journals; without it nothing that an earlier process recorded is trusted.
    pub(super) tags: Option<Arc<dyn JournalTags>>,
    /// Limits on what is kept for one owner.
    pub(super) kept_limits: KeptLimits,
}

/// A part file that is open for writing.
pub(super) struct OpenPart {
    pub(super) progress: Arc<Progress>,
    /// A session with another generation may no longer write.
    pub(super) generation: u64,
    pub(super) staged: PartLocation,
    /// The ranges that it contains.
    pub(super) kept: Vec<StoredRange>,
    /// It existed before.
    pub(super) found: bool,
}

impl OpenPart {
    /// `kept` are the existing ranges; none if it was created.
    fn new(progress: Arc<Progress>, staged: PartLocation, kept: Option<Vec<StoredRange>>) -> Self {
        let found = kept.is_some();
        Self { progress, generation: 0, staged, kept: kept.unwrap_or_default(), found }
    }
}

impl Parts {
    /// No part file is being written here yet.
    pub(super) fn new(staging: StagingArea) -> Self {
        Self { staging, claims: Arc::default(), tags: None, kept_limits: KeptLimits::default() }
    }

    /// Creates the part file, or takes over the existing one.
    pub(super) fn open(&self, place: &TargetPlace, request: &StageRequest) -> Result<OpenPart> {
        let names = PartNames::new(&request.target, request.transfer);
        // Held until the file is locked and registered here: two sessions with one transfer are
        // serialized by this line.
        let _claim = self.claims.claim(&names.part);
        let (Some(about), Some(resume)) = (wanted(request), &request.resume) else {
            let (file, staged) = self.fresh(place, &request.target, &names)?;
            if request.resume.is_none() {
                // On a server, files with an owner do not belong to the user who runs it, and
                // expire.
                give_up_others(&self.claims, &request.target, b"", &staged);
            }
            return Ok(OpenPart::new(Arc::new(Progress::new(locked(file), None)), staged, None));
        };
        for _ in 0..TRIES_MAX {
            let opened = match self.create(place, &request.target, &names)? {
                (staged, Some(file)) => Some(self.made(place, request, staged, (file, about.clone()))?),
                (staged, None) => self.there(place, staged, about.clone(), resume)?,
            };
            if let Some((key, mut opened)) = opened {
                let mut writer = opened.progress.writer_mut();
                writer.since = resume.since;
                opened.generation = writer.generation;
                drop(writer);
                self.claims.add(key, &opened.progress);
                return Ok(opened);
            }
        }
        Err(taken(place))
    }

    /// Authenticates the journal of `target`.
    pub(super) fn sealer(&self, target: &RelPath) -> Sealer {
        Sealer { tags: self.tags.clone(), target: target.as_bytes().to_vec() }
    }

    /// Creates and locks a new part file, or returns the location of the existing one with its
    /// name.
    fn create(
        &self,
        place: &TargetPlace,
        target: &RelPath,
        names: &PartNames,
    ) -> Result<(PartLocation, Option<OwnedFd>)> {
        let made = self.staging.create(&place.parent, &names.part).map_err(|why| no_staging(&place.shown, why))?;
        let staged = |directory| PartLocation { directory, names: names.clone(), sealer: self.sealer(target) };
        Ok(match made {
            PartFile::Made(directory, file) => (staged(directory), Some(file)),
            PartFile::Exists(directory) => (staged(directory), None),
        })
    }

    /// A transfer that starts from the beginning.
    fn made(
        &self,
        place: &TargetPlace,
        request: &StageRequest,
        staged: PartLocation,
        (file, mut about): (OwnedFd, JournalSubject),
    ) -> Result<(Identity, OpenPart)> {
        let stat = rustix::fs::fstat(&file).map_err(|errno| errors::failed(Verb::Create, &place.shown, errno))?;
        about.part = identity(&stat);
        // The journal of a part file that is gone: if the new file reuses its inode, it would be
        // mistaken for the new one's.
        let stale = staged.names.remove_journal(staged.directory());
        stale.map_err(|errno| errors::failed(Verb::Create, &place.shown, errno))?;
        give_up_others(&self.claims, &request.target, &about.owner, &staged);
        let key = about.part;
        let progress = Arc::new(Progress::new(locked(file), Some(about)));
        Ok((key, OpenPart::new(progress, staged, None)))
    }

    /// The resumable data of the existing part file; none if there is nothing useful, and its name
    /// is free now.
    fn there(
        &self,
        place: &TargetPlace,
        staged: PartLocation,
        mut about: JournalSubject,
        resume: &Resume,
    ) -> Result<Option<(Identity, OpenPart)>> {
        let failed = |errno| errors::failed(Verb::Create, &place.shown, errno);
        let Some((file, stat)) = staged.directory().open_own(&staged.names.part).map_err(failed)? else {
            return must_be_gone(place, &staged).map(|()| None);
        };
        about.part = identity(&stat);
        if let Some(progress) = self.claims.live(&about.part) {
            let taken = take_over(progress, &about, resume, place, staged)?;
            return Ok(taken.map(|opened| (about.part, opened)));
        }
        let file = lock(file, place)?;
        // The previous holder may have removed it, or renamed it to the target.
        if !staged.directory().is_still(&staged.names.part, &stat) {
            return Ok(None);
        }
        staged.names.remove_fresh_journal(staged.directory()).map_err(failed)?;
        let opened = found(&file, &about, resume.hashed, staged.clone()).map_err(failed)?;
        if opened.is_none() {
            // Of another source, or from before a power cut without a comparison: useless to every
            // attempt. `file` is still locked.
            staged.directory().remove(&staged.names.part).or_else(unless_gone).map_err(failed)?;
            staged.names.remove_journal(staged.directory()).map_err(failed)?;
        }
        Ok(opened.map(|opened| (about.part, opened)))
    }

    /// Replaces a part file that cannot be resumed. One that a killed program left is removed: it
    /// is no longer locked.
    fn fresh(&self, place: &TargetPlace, target: &RelPath, names: &PartNames) -> Result<(OwnedFd, PartLocation)> {
        let failed = |errno| errors::failed(Verb::Create, &place.shown, errno);
        for _ in 0..TRIES_MAX {
            let staged = match self.create(place, target, names)? {
                (staged, Some(file)) => return Ok((file, staged)),
                (staged, None) => staged,
            };
            let Some((file, _)) = staged.directory().open_own(&names.part).map_err(failed)? else {
                must_be_gone(place, &staged)?;
                continue;
            };
            let file = lock(file, place)?;
            // Another process may have done the same, and its new file may have the name by now.
            if rustix::fs::fstat(&file).map_err(failed)?.st_nlink == 1 {
                staged.directory().remove(&names.part).or_else(unless_gone).map_err(failed)?;
            }
        }
        Err(taken(place))
    }
}

/// Maximum number of names in a staging directory checked for part files of one target: about a
/// millisecond. Files that are not found expire.
pub(super) const NAMES_MAX: usize = 16_384;

/// The transfer starts from the beginning: what the same user's transfers of other sources left for
/// this target is useless now. Files that are still being written are kept.
fn give_up_others(claims: &Claims, target: &RelPath, owner: &[u8], own: &PartLocation) {
    let (directory, prefix) = (own.directory(), target_prefix(target));
    let names = directory.names_from(prefix.as_bytes(), NAMES_MAX).unwrap_or_default();
    for names in names.iter().filter(|name| **name != own.names.part).filter_map(|name| PartNames::of_part(name)) {
        // A session that is just opening it will resume it.
        let Some(_claim) = claims.try_claim(&names.part) else { continue };
        let Ok(Some((file, stat))) = directory.open_own(&names.part) else { continue };
        if claims.live(&identity(&stat)).is_some() {
            continue;
        }
        let Some(_held) = held_by_nobody(file) else { continue };
        if !directory.is_still(&names.part, &stat) {
            continue;
        }
        let noted = directory.open_own(&names.journal).ok().flatten().and_then(|(file, _)| read(&file).ok().flatten());
        // What cannot be removed now expires, and so does a file whose owner is unknown.
        if noted.is_some_and(|noted| noted.about.owner == owner) && directory.remove(&names.part).is_ok() {
            let _ = names.remove_journal(directory);
        }
    }
}

/// A name that keeps reappearing belongs to another program.
const TRIES_MAX: usize = 4;

/// A file that could not be opened belongs to another program, unless it has just been removed.
fn must_be_gone(place: &TargetPlace, staged: &PartLocation) -> Result<()> {
    let found = staged.directory().look(&staged.names.part);
    let found = found.map_err(|errno| errors::failed(Verb::Create, &place.shown, errno))?;
    found.map_or(Ok(()), |_| Err(taken(place)))
}

fn taken(place: &TargetPlace) -> xdfs_proto::base::Error {
    let because = "its part file exists, so another transfer has this id";
    // Not AlreadyExists, which is used for the target only: a caller that keeps existing files
    // would report success.
    errors::refused(ErrorKind::Busy, Verb::Create, &place.shown, because)
}

fn busy(place: &TargetPlace) -> xdfs_proto::base::Error {
    let because = "another transfer of the same source is writing it";
    errors::refused(ErrorKind::Busy, Verb::Create, &place.shown, because)
}

/// The subject of the journal for this request; none if it is not resumable.
fn wanted(request: &StageRequest) -> Option<JournalSubject> {
    let resume = request.resume.as_ref()?;
    Some(JournalSubject {
        transfer: request.transfer,
        length: request.size?,
        boot: boot::id(),
        part: (0, 0),
        source: resume.source.clone(),
        owner: resume.owner.clone(),
    })
}

fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

/// A part file that is locked until its last writer here has gone.
fn locked(file: OwnedFd) -> Arc<LockedFile> {
    Arc::new(LockedFile::new(file))
}

/// Another process that writes the file holds the lock. On a file system without locks nothing is
/// excluded.
fn lock(file: OwnedFd, place: &TargetPlace) -> Result<Arc<LockedFile>> {
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(busy(place)),
        _ => Ok(locked(file)),
    }
}

/// The older session of this process has not ended: it is refused from now on. None if it has just
/// committed or removed the file.
fn take_over(
    progress: Arc<Progress>,
    about: &JournalSubject,
    resume: &Resume,
    place: &TargetPlace,
    staged: PartLocation,
) -> Result<Option<OpenPart>> {
    let Some(own) = progress.about() else { return Err(busy(place)) };
    let same = ResumeMatch { source: own.source == about.source, boot: true };
    let alike = JournalSubject { source: own.source.clone(), ..about.clone() } == *own;
    if !alike || !(same.source || resume.hashed) {
        return Err(busy(place));
    }
    let mut writer = progress.writer_mut();
    if writer.ended {
        return Ok(None);
    }
    if resume.since < writer.since {
        let because = "another session took this transfer over";
        return Err(errors::refused(ErrorKind::Superseded, Verb::Create, &place.shown, because));
    }
    if progress.health() == Health::Spoilt {
        return Err(busy(place));
    }
    let kept = usable(&progress.noted(), resume.hashed, same);
    if same.source {
        writer.generation += 1;
        progress.begin(kept.clone());
        drop(writer);
        return Ok(Some(OpenPart::new(progress, staged, Some(kept))));
    }
    let failed = |errno| errors::failed(Verb::Create, &place.shown, errno);
    let fresh = of_other_source(Arc::clone(&progress.file), about, kept.clone(), &staged).map_err(|errno| {
        // The failed sync also covered the older session's bytes, and its next one would succeed
        // and prove nothing.
        if !matches!(errno, Errno::NOSPC | Errno::DQUOT) {
            progress.spoil(Health::Spoilt);
        }
        failed(errno)
    })?;
    writer.generation += 1;
    drop(writer);
    Ok(Some(OpenPart::new(Arc::new(fresh), staged, Some(kept))))
}

/// Resumes with bytes of another version of the source, or from before a power cut. From here on
/// the journal is about this source: its old content would be wrong from the first write on.
fn of_other_source(
    file: Arc<LockedFile>,
    about: &JournalSubject,
    kept: Vec<StoredRange>,
    staged: &PartLocation,
) -> std::result::Result<Progress, Errno> {
    let progress = Progress::new(file, Some(about.clone()));
    progress.begin(kept);
    progress.checkpoint(staged, true)?;
    Ok(progress)
}

/// What an earlier process left, if it can be resumed.
fn found(
    file: &Arc<LockedFile>,
    about: &JournalSubject,
    hashed: bool,
    staged: PartLocation,
) -> std::result::Result<Option<OpenPart>, Errno> {
    let Some((journal_file, _)) = staged.directory().open_own(&staged.names.journal)? else { return Ok(None) };
    let Some(journal) = read(&journal_file)? else { return Ok(None) };
    let Some(same) = joins(&journal, about, &staged.sealer) else { return Ok(None) };
    if !(hashed || same.source && same.boot) {
        return Ok(None);
    }
    let size = rustix::fs::fstat(file)?.st_size.unsigned_abs();
    // The length of the part file says nothing about its content; its journal does.
    let mut kept = usable(&journal.noted, hashed, same);
    // A file that is shorter than its journal says was cut to make room for one, which was not written.
    let noted = kept.len();
    kept.retain(|one| one.extent.end() <= size);
    let file = Arc::clone(file);
    let progress = if same.source && same.boot && kept.len() == noted {
        Progress::found(file, journal_file, journal, kept.clone())?
    } else {
        of_other_source(file, about, kept.clone(), &staged)?
    };
    Ok(Some(OpenPart::new(Arc::new(progress), staged, Some(kept))))
}

/// Whether a journal is about the same transfer, owner and part file, and what else it has in
/// common. Content not written by this program under its key is trusted no more than data from
/// before a power cut.
fn joins(journal: &Journal, about: &JournalSubject, sealer: &Sealer) -> Option<ResumeMatch> {
    let authentic = journal.is_authentic(sealer);
    let journal = &journal.about;
    let boot = journal.boot == about.boot && about.boot != [0; 16];
    // A device may get another number in another boot; the content of the file is then compared.
    let part = journal.part.1 == about.part.1 && (journal.part.0 == about.part.0 || !boot);
    let alike = (&journal.transfer, journal.length, &journal.owner) == (&about.transfer, about.length, &about.owner);
    (part && alike).then(|| ResumeMatch { source: journal.source == about.source, boot: boot && authentic })
}

pub(super) fn read(file: &OwnedFd) -> std::result::Result<Option<journal::Journal>, Errno> {
    let mut bytes = vec![0; journal::BYTES_MAX + 1];
    let count = read_full(&mut bytes, 0, |part, at| rustix::io::pread(file, part, at))?;
    if count > journal::BYTES_MAX {
        return Ok(None);
    }
    Ok(journal::read(bytes.get(..count).unwrap_or_default()))
}

/// Reads what a part file contains, without modifying it.
pub(super) fn look(
    directory: &Parent,
    target: &RelPath,
    transfer: TransferId,
    owner: &[u8],
    sealer: &Sealer,
) -> Option<Kept> {
    let names = PartNames::new(target, transfer);
    let (_, stat) = directory.open_own(&names.part).ok()??;
    let (file, _) = directory.open_own(&names.journal).ok()??;
    let journal = read(&file).ok()??;
    let (source, length) = (journal.about.source.clone(), journal.about.length);
    let (transfer, owner) = (transfer, owner.to_vec());
    let about =
        JournalSubject { transfer, length, boot: boot::id(), part: identity(&stat), source: source.clone(), owner };
    let same = joins(&journal, &about, sealer)?;
    Some(Kept { source, length, noted: usable(&journal.noted, true, same) })
}

/// Whether a part file can be resumed at all, for statistics; returns the number of bytes in its
/// journal.
pub(super) fn resumable(file: &OwnedFd, part: &Stat) -> Option<u64> {
    let journal = read(file).ok()??;
    let about = JournalSubject { boot: boot::id(), part: identity(part), ..journal.about.clone() };
    joins(&journal, &about, &Sealer::default())?;
    Some(stored_range::ranges(&journal.noted).iter().map(|range| range.length()).sum())
}

/// Whether a journal is about this part file.
pub(super) fn is_about(file: &OwnedFd, part: &Stat) -> bool {
    read(file).ok().flatten().is_some_and(|journal| journal.about.part.1 == part.st_ino)
}
