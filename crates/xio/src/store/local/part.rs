//! A part file: it holds the bytes in a staging directory until they get the target's name.
//!
//! The calls that make it the target are separate (finish, sync, name, sync of the directory), because which of them are made
//! and in which order is decided elsewhere, by a plan that is checked by itself. A call that fails spoils the part: no later
//! one is believed, since the kernel marks pages that it could not write as clean and the next sync would succeed (rule D5).

use super::existing_target::must_be_base;
use super::kept::KeptLimits;
use super::parts::Parts;
use super::preallocate::{lacking, reserve};
use super::progress::{Health, Lease, Progress};
use super::read_back::ReadBack;
use super::source::{attributes_of, version_of};
use super::staging::Staged;
use super::unchanged::stays;
use super::unsynced_dirs::DirPath;
use super::{holes, kept, must_admit};
use crate::store::errors::{self, Verb};
use crate::store::io_loops::{Stuck, write_full};
use crate::store::resolve::Parent;
use crate::store::verified_range::{Hashes, VerifiedRange};
use crate::store::{Attributes, Base, CommitRequest, Existing, Result, StageRequest};
use rustix::fs::{Mode, Stat, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use xdfs_proto::base::{Error, ErrorKind};

/// Less than this is not worth a part file that stays behind: it is sent again sooner than it is looked for.
const KEEP_BYTES_MIN: u64 = 1 << 20;

/// Where a new file goes, held and checked.
#[derive(Debug)]
pub(super) struct TargetPlace {
    /// The target's directory.
    pub(super) parent: Arc<Parent>,
    /// The target's name in it.
    pub(super) name: Vec<u8>,
    /// The target in messages.
    pub(super) shown: String,
    /// What to do when the name is taken.
    pub(super) existing: Existing,
    /// What may be replaced, where that was said.
    pub(super) base: Option<Base>,
    /// Bits that the mode loses.
    pub(super) umask: u32,
    /// How the directory is reached; none where a group sees to that.
    pub(super) way: Option<DirPath>,
}

impl TargetPlace {
    /// Waits until the name is on stable storage, and those of directories that were made for it; `file` has the name.
    pub(super) fn sync(&self, file: &OwnedFd) -> std::result::Result<(), Errno> {
        self.parent.sync(file)?;
        self.way.as_ref().map_or(Ok(()), |way| way.sync(file))
    }
}

/// Where the file of a stage is.
#[derive(Debug)]
enum Whereabouts {
    Staged(Staged),
    /// It has the target's name.
    Named,
}

/// A file on its way. Dropped without a name it takes the part file with it, unless it is kept.
#[derive(Debug)]
pub struct LocalStage {
    place: TargetPlace,
    progress: Arc<Progress>,
    /// What this one may write; another one may have taken over.
    generation: u64,
    whereabouts: Whereabouts,
    /// The size that was told.
    size: Option<u64>,
    /// Runs of zeros take no room.
    holes: bool,
    /// Markers are synced.
    synced: bool,
    /// What was there at the start.
    kept: Vec<VerifiedRange>,
    /// How much of one owner is kept.
    kept_limits: KeptLimits,
    /// Version of what had the target's name then; empty for nothing.
    replaces: Vec<u8>,
    /// What has the target's name is the same file, and stayed.
    unchanged: bool,
    /// The part file stays when this goes.
    keep_on_drop: AtomicBool,
}

impl LocalStage {
    /// See [`super::preallocate::in_memory`].
    pub(in crate::store) fn in_memory(&self) -> bool {
        super::preallocate::in_memory(&self.progress.file)
    }

    /// Creates the part file, or goes on with the one that an earlier attempt left, and reserves room.
    pub(super) fn open(place: TargetPlace, request: &StageRequest, parts: &Parts) -> Result<Self> {
        let opened = parts.open(&place, request)?;
        let stood =
            place.parent.look(&place.name).map_err(|errno| errors::failed(Verb::Create, &place.shown, errno))?;
        let replaces = stood.map(|stat| version_of(&stat).0).unwrap_or_default();
        let stage = Self {
            place,
            generation: opened.generation,
            whereabouts: Whereabouts::Staged(opened.staged),
            size: request.size,
            holes: request.holes,
            synced: request.resume.as_ref().is_some_and(|resume| resume.synced),
            kept: opened.kept,
            kept_limits: parts.kept_limits,
            replaces,
            unchanged: false,
            // Until room is reserved nothing of an earlier attempt may go.
            keep_on_drop: AtomicBool::new(opened.found),
            progress: opened.progress,
        };
        if let Some(size) = request.size {
            // On failure `stage` is dropped, and a part file that it made goes.
            let (file, shown) = (&stage.progress.file, &stage.place.shown);
            match stage.holes {
                true => holes::prepare(file, size, &stage.kept).map_err(|errno| stage.words(errno))?,
                false => reserve(file, size, shown)?,
            }
        }
        stage.keep_on_drop.store(false, Ordering::Relaxed);
        Ok(stage)
    }

    /// Writes all of `buf`; the range was checked by the caller.
    pub(in crate::store) fn write(&self, buf: &[u8], offset: u64) -> Result<()> {
        let reign = self.progress.reign();
        self.check_lease(&reign)?;
        let written = match self.holes {
            true => holes::write(&self.progress.file, buf, offset),
            false => write_full(buf, offset, |part, at| rustix::io::pwrite(&self.progress.file, part, at)),
        };
        match written {
            Ok(()) => {
                self.progress.on_written(offset, buf.len());
                Ok(())
            }
            Err(Stuck::Errno(errno @ (Errno::NOSPC | Errno::DQUOT))) => {
                self.progress.spoil(Health::Full);
                // Of what takes room only where it is no zeros nobody knows how much is missing.
                let size = self.size.filter(|_| !self.holes).unwrap_or(0);
                let missing = size.saturating_sub(self.progress.ledger().bytes());
                Err(lacking(&self.progress.file, &self.place.shown, missing, errno))
            }
            Err(stuck) => {
                self.progress.spoil(Health::Spoilt);
                Err(stuck_words(&self.place.shown, stuck))
            }
        }
    }

    pub(in crate::store) fn descriptor(&self) -> Option<OwnedFd> {
        // What is written past `write` is in no ledger, and has no holes.
        if self.progress.about.is_some() || self.holes { None } else { self.progress.file.try_clone().ok() }
    }

    /// What an earlier attempt left.
    pub(in crate::store) fn kept(&self) -> &[VerifiedRange] {
        &self.kept
    }

    /// What had the target's name when the stage was opened; empty for nothing.
    pub(in crate::store) fn replaces(&self) -> &[u8] {
        &self.replaces
    }

    /// What is written from now on is hashed, and noted with its hashes.
    pub(in crate::store) fn hashed_by(&self, hashes: Arc<dyn Hashes>) {
        let reign = self.progress.reign();
        if reign.generation == self.generation {
            self.progress.hashed_by(hashes);
        }
    }

    /// Bytes that the next marker would cover; none where nothing could be gone on with.
    pub(in crate::store) fn unmarked(&self) -> u64 {
        if self.progress.about.is_some() { self.progress.unmarked() } else { 0 }
    }

    /// A marker: what has been written by now survives the end of the program.
    pub(in crate::store) fn checkpoint(&self) -> Result<()> {
        self.must_be_sound()?;
        // Until the journal is written: whoever takes the part over meanwhile would be given that of this session.
        let reign = self.progress.reign();
        self.check_lease(&reign)?;
        let Whereabouts::Staged(staged) = &self.whereabouts else { return Ok(()) };
        self.progress.checkpoint(staged, self.synced).map_err(|errno| {
            // A journal that found no room says nothing against the data.
            let full = matches!(errno, Errno::NOSPC | Errno::DQUOT);
            self.progress.spoil(if full { Health::Full } else { Health::Spoilt });
            errors::failed(Verb::Sync, &self.place.shown, errno)
        })
    }

    /// The transfer ends early: what is there stays for the next attempt, where it is worth it. Whether it does.
    pub(in crate::store) fn keep(&self) -> bool {
        let Whereabouts::Staged(staged) = &self.whereabouts else { return false };
        let reign = self.progress.reign();
        let mine = reign.generation == self.generation;
        let worth = self.progress.about.is_some() && self.progress.ledger().bytes() >= KEEP_BYTES_MIN;
        let stays = mine
            && worth
            && self.progress.health() != Health::Spoilt
            && self.progress.last_checkpoint(staged, self.synced).is_ok()
            // The sync itself may have failed, and succeeded when it was tried again.
            && self.progress.health() != Health::Spoilt;
        self.keep_on_drop.store(stays, Ordering::Relaxed);
        if stays {
            // Room that cannot be given back now is given back when the part file expires.
            let _ = self.progress.release_room();
            if let Some(about) = &self.progress.about {
                kept::bound(staged, about, self.kept_limits);
            }
        }
        stays
    }

    /// What is there stays when this goes, whatever it is.
    pub(in crate::store) fn leave(&self) {
        self.keep_on_drop.store(true, Ordering::Relaxed);
    }

    fn check_lease(&self, reign: &Lease) -> Result<()> {
        if reign.generation == self.generation {
            return Ok(());
        }
        let because = "another session took this transfer over";
        Err(errors::refused(ErrorKind::Superseded, Verb::Write, &self.place.shown, because))
    }

    /// Gives the file its length, mode and time.
    pub(in crate::store) fn finish(&self, request: &CommitRequest) -> Result<()> {
        self.must_be_sound()?;
        self.set_metadata(request)
    }

    /// Waits until bytes and attributes are on stable storage.
    pub(in crate::store) fn sync(&self) -> Result<()> {
        self.must_be_sound()?;
        // EINTR is the one answer that says nothing about the pages.
        rustix::io::retry_on_intr(|| rustix::fs::fsync(&self.progress.file)).map_err(|errno| {
            self.progress.spoil(Health::Spoilt);
            errors::failed(Verb::Sync, &self.place.shown, errno)
        })
    }

    /// A reader of what is there, for a comparison of all of it (`fresh`: from the device), or beside the writing.
    pub(in crate::store) fn read_back(&self, fresh: bool) -> Result<ReadBack> {
        if fresh {
            self.must_be_sound()?;
            rustix::io::retry_on_intr(|| rustix::fs::fdatasync(&self.progress.file)).map_err(|errno| {
                self.progress.spoil(Health::Spoilt);
                errors::failed(Verb::Sync, &self.place.shown, errno)
            })?;
        }
        let failed = |errno| errors::failed(Verb::Read, &self.place.shown, errno);
        let identity = |file: &OwnedFd| rustix::fs::fstat(file).map(|stat| (stat.st_dev, stat.st_ino)).map_err(failed);
        let opened = match &self.whereabouts {
            Whereabouts::Staged(staged) => staged.directory().open_own(&staged.names.part).map_err(failed)?,
            Whereabouts::Named => None,
        };
        let own = identity(&self.progress.file)?;
        match opened {
            Some((file, stat)) if (stat.st_dev, stat.st_ino) == own => {
                Ok(ReadBack::new(file, self.place.shown.clone(), fresh, true))
            }
            // Not known by its name where the file system has no owners.
            _ => {
                let file = self.progress.file.try_clone().map_err(|_| failed(Errno::MFILE))?;
                Ok(ReadBack::new(file, self.place.shown.clone(), fresh, false))
            }
        }
    }

    /// Gives the file its name, in one step.
    pub(in crate::store) fn name(&mut self, length: u64) -> Result<Attributes> {
        self.must_be_sound()?;
        self.check_lease(&self.progress.reign())?;
        // What the rename itself does not refuse: a link, FIFO or device that came to stand there.
        let found = must_admit(&self.place.parent, &self.place.name, self.place.existing, &self.place.shown)?;
        if let Err(error) = must_be_base(&self.place, self.size.unwrap_or(length)) {
            // The bytes are good: whoever copies it again need not send them again, and has to open the file for that.
            let _ = rustix::fs::fchmod(&self.progress.file, Mode::RUSR | Mode::WUSR);
            self.keep();
            return Err(error);
        }
        let (parent, name, own) = (&self.place.parent, &self.place.name, &self.progress.file);
        if let Some(stat) = found.and_then(|found| stays(parent, name, &found, own, self.place.existing)) {
            self.unchanged = true;
            return Ok(attributes_of(&stat));
        }
        // From here on nobody takes over: what would be written then would be written to the target.
        let mut reign = self.progress.reign_mut();
        self.check_lease(&reign)?;
        if let Whereabouts::Staged(staged) = &self.whereabouts {
            let (from, part, to) = (staged.directory(), &staged.names.part, &self.place.parent);
            self.must_be_own(from.look(part))?;
            let named = match self.place.existing {
                Existing::Replace | Existing::ReplaceOther { .. } => from.rename(part, to, &self.place.name),
                Existing::Keep => from.keep(part, to, &self.place.name),
            };
            named.map_err(|errno| self.words(errno))?;
            if self.progress.about.is_some() {
                // What it told is in the target now; a journal without a part file is found and removed later.
                let _ = from.remove(&staged.names.journal);
            }
        }
        reign.over = true;
        drop(reign);
        // With it goes the staging directory, where nobody else uses it.
        self.whereabouts = Whereabouts::Named;
        // Of the descriptor, not of the name: these are the attributes of what was written, whoever comes next.
        let stat = rustix::fs::fstat(&self.progress.file).map_err(|errno| self.words(errno))?;
        Ok(attributes_of(&stat))
    }

    /// See [`Existing::ReplaceOther`].
    pub(in crate::store) fn unchanged(&self) -> bool {
        self.unchanged
    }

    /// Waits until the name is on stable storage.
    pub(in crate::store) fn sync_directory(&self) -> Result<()> {
        self.place.sync(&self.progress.file).map_err(|errno| {
            let error = errors::failed(Verb::Sync, &self.place.shown, errno);
            // The new content is there under its name; nobody may count on it.
            Error {
                message: format!("{} (it has its new content, which a power cut may take back)", error.message),
                ..error
            }
        })
    }

    /// An earlier call failed: nothing that is done now could make up for it.
    fn must_be_sound(&self) -> Result<()> {
        if self.progress.health() != Health::Sound {
            let because = "an earlier write failed";
            return Err(errors::refused(ErrorKind::Storage, Verb::Create, &self.place.shown, because));
        }
        Ok(())
    }

    fn set_metadata(&self, request: &CommitRequest) -> Result<()> {
        if request.length > i64::MAX as u64 {
            return Err(self.words(Errno::FBIG));
        }
        rustix::fs::ftruncate(&self.progress.file, request.length).map_err(|errno| self.words(errno))?;
        give_attributes(&self.progress.file, request.mode & !self.place.umask, request.modified)
            .map_err(|errno| self.words(errno))
    }

    /// Whether what has the part file's name is the file that was written, and no other that somebody put there.
    fn must_be_own(&self, found: std::result::Result<Option<Stat>, Errno>) -> Result<()> {
        let identity = |stat: &Stat| (stat.st_dev, stat.st_ino);
        let own = rustix::fs::fstat(&self.progress.file).map_err(|errno| self.words(errno))?;
        match found.map_err(|errno| self.words(errno))? {
            Some(stat) if identity(&stat) == identity(&own) => Ok(()),
            Some(_) => Err(self.words(Errno::STALE)),
            None => Err(self.words(Errno::NOENT)),
        }
    }

    fn words(&self, errno: Errno) -> Error {
        errors::failed(Verb::Create, &self.place.shown, errno)
    }

    pub(in crate::store) fn shown(&self) -> &str {
        &self.place.shown
    }
}

impl Drop for LocalStage {
    fn drop(&mut self) {
        let Whereabouts::Staged(staged) = &self.whereabouts else { return };
        if self.keep_on_drop.load(Ordering::Relaxed) {
            return;
        }
        let mut reign = self.progress.reign_mut();
        if reign.generation == self.generation {
            reign.over = true;
            staged.remove(self.progress.about.is_some());
        }
    }
}

/// What a write that got stuck is called.
pub(in crate::store) fn stuck_words(shown: &str, stuck: Stuck) -> Error {
    match stuck {
        Stuck::Errno(errno) => errors::failed(Verb::Write, shown, errno),
        Stuck::NoProgress => errors::refused(ErrorKind::Storage, Verb::Write, shown, "the storage took no bytes"),
    }
}

/// Sets permission bits, of which only 0o777 count, and the modification time, where there is one.
fn give_attributes(file: &OwnedFd, mode: u32, modified: Option<(i64, u32)>) -> std::result::Result<(), Errno> {
    give_mode(file, mode)?;
    give_time(file, modified)
}

/// Sets permission bits, of which only 0o777 count.
pub(super) fn give_mode(file: &OwnedFd, mode: u32) -> std::result::Result<(), Errno> {
    unless_unknown(rustix::fs::fchmod(file, Mode::from_raw_mode(mode & 0o777)))
}

/// Sets the modification time, where there is one.
pub(super) fn give_time(file: &OwnedFd, modified: Option<(i64, u32)>) -> std::result::Result<(), Errno> {
    let Some(modified) = modified else { return Ok(()) };
    let times =
        Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification: bounded(modified) };
    unless_unknown(rustix::fs::futimens(file, &times))
}

/// Some file systems (FAT, SMB) have no modes or times to set and say EPERM to the owner. The file then stays as it
/// was created, 0600 as far as modes exist: narrower than asked for, never wider.
fn unless_unknown(result: std::result::Result<(), Errno>) -> std::result::Result<(), Errno> {
    match result {
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        other => other,
    }
}

/// Any second that the file system can tell; the bound keeps the special values of the other field (now, omit) out of a peer's
/// hands.
fn bounded((seconds, nanoseconds): (i64, u32)) -> Timespec {
    Timespec { tv_sec: seconds, tv_nsec: nanoseconds.min(999_999_999).into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_peer_are_none_of_the_kernels_special_ones() {
        for seconds in [i64::MIN, -1, 0, i64::MAX] {
            assert_eq!(bounded((seconds, 5)), Timespec { tv_sec: seconds, tv_nsec: 5 });
            // UTIME_NOW and UTIME_OMIT are nanosecond values above 10^9.
            assert_eq!(bounded((seconds, 1_073_741_823)).tv_nsec, 999_999_999);
        }
    }
}
