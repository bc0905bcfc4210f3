//! An existing target: what a retried copy may still replace, and the copy itself where it was
//! committed already and only the result was lost.

use super::target_place::TargetPlace;
use crate::store::errors::{self, Verb};
use crate::store::medium::in_memory;
use crate::store::stat::{attributes_of, version_of};
use crate::store::stored_range::StoredRange;
use crate::store::{Attributes, Base, CommitRequest, ReadBack, Result, StageCapability, StageRequest, StagedFile};
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use xdfs_proto::base::{Extent, Safety, Timestamp};

/// File systems round times; the coarsest to two seconds.
const ROUNDED_SECONDS: i64 = 2;

/// What a retried copy finds at its target.
enum TargetMatch {
    /// The file that existed when the first attempt began.
    Base,
    /// A file that may be this same copy: its length and modification time match.
    Copy(Stat),
}

/// Fails if another program has created, changed or removed the target.
fn judge(place: &TargetPlace, base: &Base, size: Option<u64>) -> Result<TargetMatch> {
    let failed = |errno| errors::failed(Verb::Create, &place.shown, errno);
    let stat = place.parent.look(&place.name).map_err(failed)?;
    let version = stat.as_ref().map(|stat| version_of(stat).0).unwrap_or_default();
    if version == base.version {
        return Ok(TargetMatch::Base);
    }
    let near = |stat: &Stat| {
        let away = |Timestamp { seconds, .. }: Timestamp| stat.st_mtime.abs_diff(seconds) <= ROUNDED_SECONDS as u64;
        base.modified.is_some_and(away) && u64::try_from(stat.st_size).ok() == size
    };
    match stat.filter(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && near(stat)) {
        Some(stat) => Ok(TargetMatch::Copy(stat)),
        None => Err(errors::target_changed(&place.shown)),
    }
}

/// Refuses to replace a target that changed before a retry.
pub(super) fn must_be_base(place: &TargetPlace, size: u64) -> Result<()> {
    place.base.as_ref().map_or(Ok(()), |base| judge(place, base, Some(size)).map(drop))
}

/// The existing target, if it may be the copy of `size` bytes itself; none if it is what may be
/// replaced.
pub(super) fn copy_of(place: &TargetPlace, size: u64) -> Result<Option<Stat>> {
    Ok(match &place.base {
        Some(base) => match judge(place, base, Some(size))? {
            TargetMatch::Base => None,
            TargetMatch::Copy(stat) => Some(stat),
        },
        None => None,
    })
}

/// An existing target that may be this same copy. Nothing is written to it: it is compared, and
/// reported as committed.
#[derive(Debug)]
pub struct ExistingTarget {
    place: TargetPlace,
    file: OwnedFd,
    kept: Vec<StoredRange>,
    version: Vec<u8>,
}

impl ExistingTarget {
    /// The file at `place`, where a retried copy finds what may be its own result, and both sides
    /// hash their data.
    pub(super) fn of(place: TargetPlace, request: &StageRequest) -> Result<std::result::Result<Self, TargetPlace>> {
        let compared = request.resume.as_ref().is_some_and(|resume| resume.hashed);
        let Some(base) = &place.base else { return Ok(Err(place)) };
        let TargetMatch::Copy(stat) = judge(&place, base, request.size)? else { return Ok(Err(place)) };
        if !compared {
            return Ok(Err(place));
        }
        let failed = |errno| errors::failed(Verb::Create, &place.shown, errno);
        let (file, opened) = place.parent.open_regular(&place.name).map_err(failed)?;
        if version_of(&opened) != version_of(&stat) {
            return Err(errors::target_changed(&place.shown));
        }
        let all = Extent::new(0, request.size.unwrap_or(0)).ok().filter(|all| !all.is_empty());
        let kept = all.into_iter().map(|extent| StoredRange { extent, value: None, proved: false }).collect();
        Ok(Ok(Self { place, file, kept, version: version_of(&stat).0 }))
    }
}

impl StagedFile for ExistingTarget {
    fn capability(&self) -> StageCapability {
        capability_of(&self.file)
    }

    /// All of it, to be compared.
    fn kept(&self) -> &[StoredRange] {
        &self.kept
    }

    fn replaces(&self) -> &[u8] {
        &self.version
    }

    /// It is a different file after all.
    fn write(&self, _: &[u8], _: u64) -> Result<()> {
        Err(errors::target_changed(&self.place.shown))
    }

    /// It has its length, mode and time, or it is a different file.
    fn finish(&self, _: &CommitRequest) -> Result<()> {
        Ok(())
    }

    fn unchanged(&self) -> bool {
        true
    }

    fn read_back(&self, fresh: bool) -> Result<ReadBack> {
        let failed = |_| errors::failed(Verb::Read, &self.place.shown, Errno::MFILE);
        let file = self.file.try_clone().map_err(failed)?;
        Ok(ReadBack::new(file, self.place.shown.clone(), fresh, false))
    }

    fn sync(&self) -> Result<()> {
        let synced = rustix::io::retry_on_intr(|| rustix::fs::fsync(&self.file));
        synced.map_err(|errno| errors::failed(Verb::Sync, &self.place.shown, errno))
    }

    /// It has its name already: check that it has not been replaced meanwhile.
    fn name(&mut self, _: &CommitRequest) -> Result<Attributes> {
        let failed = |errno| errors::failed(Verb::Create, &self.place.shown, errno);
        let stat = self.place.parent.look(&self.place.name).map_err(failed)?;
        let same = stat.filter(|stat| version_of(stat).0 == self.version);
        same.map(|stat| attributes_of(&stat)).ok_or_else(|| errors::target_changed(&self.place.shown))
    }

    fn sync_directory(&self) -> Result<()> {
        let synced = self.place.sync(&self.file);
        synced.map_err(|errno| errors::failed(Verb::Sync, &self.place.shown, errno))
    }

    fn shown(&self) -> &str {
        &self.place.shown
    }
}

/// What a stage on a file system declares: in memory (tmpfs) no sync makes anything durable.
pub(super) fn capability_of(file: &OwnedFd) -> StageCapability {
    let in_memory = in_memory(file);
    let promises = if in_memory { Safety::Written } else { Safety::Durable };
    StageCapability { promises, in_memory, read_back: true, ..StageCapability::default() }
}
