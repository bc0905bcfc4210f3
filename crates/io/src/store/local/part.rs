//! A part file: it holds the bytes in a staging directory until it is renamed to its target.
//!
//! The calls of a commit are separate (finish, sync, name, sync of the directory), because a plan
//! that is tested by itself decides which of them are made and in which order. A failed call fails
//! the part for good: later calls are not trusted, since the kernel marks pages that it could not
//! write as clean and the next sync would succeed.

use super::existing_target::{capability_of, must_be_base};
use super::parts::{KeptLimits, Parts};
use super::preallocate::{lacking, reserve};
use super::progress::{CurrentWriter, Health, Progress};
use super::staging::PartLocation;
use super::target_place::TargetPlace;
use super::unchanged::stays;
use super::{holes, kept, must_admit};
use crate::store::errors::{self, Verb};
use crate::store::io_loops::{Stuck, stuck_words, write_full};
use crate::store::stat::{attributes_of, version_of};
use crate::store::stored_range::{Hashes, StoredRange};
use crate::store::{Attributes, CommitRequest, Existing, ReadBack, Result, StageCapability, StageRequest, StagedFile};
use rustix::fs::{Mode, Stat, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use xdfs_proto::base::{Error, ErrorKind, Timestamp};

/// Smaller part files are not worth keeping: sending the bytes again is faster than looking for
/// them.
const KEEP_BYTES_MIN: u64 = 1 << 20;

/// The location of the staged file.
#[derive(Debug)]
enum Whereabouts {
    /// In its staging directory.
    Part(PartLocation),
    /// There as well, but superfluous: the existing target is identical and was kept.
    Superfluous(PartLocation),
    /// It has been renamed to its target.
    Named,
}

impl Whereabouts {
    /// The part file in its staging directory; none where it has been renamed.
    fn staged(&self) -> Option<&PartLocation> {
        match self {
            Self::Part(staged) | Self::Superfluous(staged) => Some(staged),
            Self::Named => None,
        }
    }

    /// The existing target was kept in place of the part file.
    fn on_target_kept(&mut self) {
        *self = match std::mem::replace(self, Self::Named) {
            Self::Part(staged) | Self::Superfluous(staged) => Self::Superfluous(staged),
            Self::Named => Self::Named,
        };
    }
}

/// A file that is being written. Dropping it before it is named removes the part file, unless it is
/// kept.
#[derive(Debug)]
pub struct LocalStage {
    place: TargetPlace,
    progress: Arc<Progress>,
    /// The generation of this writer; another session may have taken over.
    generation: u64,
    whereabouts: Whereabouts,
    /// The announced size.
    size: Option<u64>,
    /// Runs of zeros take no space.
    holes: bool,
    /// Checkpoints are synced.
    synced: bool,
    /// The ranges that existed at the start.
    kept: Vec<StoredRange>,
    /// Limits on what is kept for one owner.
    kept_limits: KeptLimits,
    /// Version of the existing target at that time; empty if there was none.
    replaces: Vec<u8>,
    /// The part file is kept when this is dropped.
    keep_on_drop: AtomicBool,
}

impl LocalStage {
    /// Creates the part file, or resumes the one that an earlier attempt left, and reserves space.
    pub(super) fn open(place: TargetPlace, request: &StageRequest, parts: &Parts) -> Result<Self> {
        let opened = parts.open(&place, request)?;
        let stood =
            place.parent.look(&place.name).map_err(|errno| errors::failed(Verb::Create, &place.shown, errno))?;
        let replaces = stood.map(|stat| version_of(&stat).0).unwrap_or_default();
        let stage = Self {
            place,
            generation: opened.generation,
            whereabouts: Whereabouts::Part(opened.staged),
            size: request.size,
            holes: request.holes,
            synced: request.resume.as_ref().is_some_and(|resume| resume.synced),
            kept: opened.kept,
            kept_limits: parts.kept_limits,
            replaces,
            // Until space is reserved, nothing of an earlier attempt may be removed.
            keep_on_drop: AtomicBool::new(opened.found),
            progress: opened.progress,
        };
        if let Some(size) = request.size {
            // On failure `stage` is dropped, and with it a part file that it created.
            let (file, shown) = (&stage.progress.file, &stage.place.shown);
            match stage.holes {
                true => holes::prepare(file, size, &stage.kept).map_err(|errno| stage.words(errno))?,
                false => reserve(file, size, shown)?,
            }
        }
        stage.keep_on_drop.store(false, Ordering::Relaxed);
        Ok(stage)
    }

    fn must_be_current(&self, writer: &CurrentWriter) -> Result<()> {
        if writer.generation == self.generation {
            return Ok(());
        }
        let because = "another session took this transfer over";
        Err(errors::refused(ErrorKind::Superseded, Verb::Write, &self.place.shown, because))
    }

    /// An earlier call failed: no later call can make up for it.
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

    /// Whether the part file's name still refers to the written file, and not to one put there by
    /// another program.
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
}

impl StagedFile for LocalStage {
    fn capability(&self) -> StageCapability {
        capability_of(&self.progress.file)
    }

    fn write(&self, buf: &[u8], offset: u64) -> Result<()> {
        let writer = self.progress.writer();
        self.must_be_current(&writer)?;
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
                // With holes, the missing space is unknown: only nonzero data takes any.
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

    fn as_local(&self) -> Option<BorrowedFd<'_>> {
        // Data that bypasses `write` is not in the ledger and cannot be written as holes.
        if self.progress.about().is_some() || self.holes { None } else { Some(self.progress.file.as_fd()) }
    }

    /// The ranges that an earlier attempt left.
    fn kept(&self) -> &[StoredRange] {
        &self.kept
    }

    /// Version of the existing target when the stage was opened; empty if there was none.
    fn replaces(&self) -> &[u8] {
        &self.replaces
    }

    /// Data written from now on is hashed, and recorded with its hashes.
    fn hashed_by(&self, hashes: Arc<dyn Hashes>) {
        let writer = self.progress.writer();
        if writer.generation == self.generation {
            self.progress.hashed_by(hashes);
        }
    }

    /// Number of bytes that the next checkpoint would cover; none where nothing could be resumed.
    fn unmarked(&self) -> u64 {
        if self.progress.about().is_some() { self.progress.unmarked() } else { 0 }
    }

    /// A checkpoint: data written so far survives the end of the program.
    fn checkpoint(&self) -> Result<()> {
        self.must_be_sound()?;
        // Held until the journal is written: a session that took over meanwhile would get the
        // journal of this one.
        let writer = self.progress.writer();
        self.must_be_current(&writer)?;
        // Of a file that has its name nothing is to be resumed.
        let Some(staged) = self.whereabouts.staged() else { return Ok(()) };
        self.progress.checkpoint(staged, self.synced).map_err(|errno| {
            // A journal that found no space does not invalidate the data.
            let full = matches!(errno, Errno::NOSPC | Errno::DQUOT);
            self.progress.spoil(if full { Health::Full } else { Health::Spoilt });
            errors::failed(Verb::Sync, &self.place.shown, errno)
        })
    }

    /// The transfer ends early: its data is kept for the next attempt if it is worth it. Returns
    /// whether it is kept.
    fn keep(&self) -> bool {
        let Some(staged) = self.whereabouts.staged() else { return false };
        let writer = self.progress.writer();
        let mine = writer.generation == self.generation;
        let worth = self.progress.about().is_some() && self.progress.ledger().bytes() >= KEEP_BYTES_MIN;
        let stays = mine
            && worth
            && self.progress.health() != Health::Spoilt
            && self.progress.last_checkpoint(staged, self.synced).is_ok()
            // The sync itself may have failed, and succeeded when it was retried.
            && self.progress.health() != Health::Spoilt;
        self.keep_on_drop.store(stays, Ordering::Relaxed);
        if stays {
            // Space that cannot be released now is released when the part file expires.
            let _ = self.progress.release_room();
            if let Some(about) = self.progress.about() {
                kept::bound(staged, about, self.kept_limits);
            }
        }
        stays
    }

    /// Keeps the part file on drop, whatever it contains.
    fn leave(&self) {
        self.keep_on_drop.store(true, Ordering::Relaxed);
    }

    /// Sets length, mode and time of the file.
    fn finish(&self, request: &CommitRequest) -> Result<()> {
        self.must_be_sound()?;
        self.set_metadata(request)
    }

    /// Waits until bytes and attributes are on stable storage.
    fn sync(&self) -> Result<()> {
        self.must_be_sound()?;
        // EINTR is the only error that says nothing about the pages.
        rustix::io::retry_on_intr(|| rustix::fs::fsync(&self.progress.file)).map_err(|errno| {
            self.progress.spoil(Health::Spoilt);
            errors::failed(Verb::Sync, &self.place.shown, errno)
        })
    }

    /// A reader of the written data, for a comparison of all of it (`fresh`: from the device), or
    /// in parallel with the writes.
    fn read_back(&self, fresh: bool) -> Result<ReadBack> {
        if fresh {
            self.must_be_sound()?;
            rustix::io::retry_on_intr(|| rustix::fs::fdatasync(&self.progress.file)).map_err(|errno| {
                self.progress.spoil(Health::Spoilt);
                errors::failed(Verb::Sync, &self.place.shown, errno)
            })?;
        }
        let failed = |errno| errors::failed(Verb::Read, &self.place.shown, errno);
        let identity = |file: &OwnedFd| rustix::fs::fstat(file).map(|stat| (stat.st_dev, stat.st_ino)).map_err(failed);
        let opened = match self.whereabouts.staged() {
            Some(staged) => staged.directory().open_own(&staged.names.part).map_err(failed)?,
            None => None,
        };
        let own = identity(&self.progress.file)?;
        match opened {
            Some((file, stat)) if (stat.st_dev, stat.st_ino) == own => {
                Ok(ReadBack::new(file, self.place.shown.clone(), fresh, true))
            }
            // Cannot be identified by its name where the file system has no owners.
            _ => {
                let file = self.progress.file.try_clone().map_err(|_| failed(Errno::MFILE))?;
                Ok(ReadBack::new(file, self.place.shown.clone(), fresh, false))
            }
        }
    }

    /// Renames the file to its target, atomically.
    fn name(&mut self, request: &CommitRequest) -> Result<Attributes> {
        self.must_be_sound()?;
        self.must_be_current(&self.progress.writer())?;
        // The rename itself does not refuse a link, FIFO or device that has appeared at the target.
        let found = must_admit(&self.place.parent, &self.place.name, self.place.existing, &self.place.shown)?;
        if let Err(error) = must_be_base(&self.place, self.size.unwrap_or(request.length)) {
            // The bytes are valid: a retry need not send them again, and must be able to open the
            // file for that.
            let _ = rustix::fs::fchmod(&self.progress.file, Mode::RUSR | Mode::WUSR);
            self.keep();
            return Err(error);
        }
        let (parent, name, own) = (&self.place.parent, &self.place.name, &self.progress.file);
        if let Some(stat) = found.and_then(|found| stays(parent, name, &found, own, self.place.existing)) {
            self.whereabouts.on_target_kept();
            return Ok(attributes_of(&stat));
        }
        // From here on no session may take over: it would write to the target.
        let mut writer = self.progress.writer_mut();
        self.must_be_current(&writer)?;
        if let Some(staged) = self.whereabouts.staged() {
            let (from, part, to) = (staged.directory(), &staged.names.part, &self.place.parent);
            self.must_be_own(from.look(part))?;
            let named = match self.place.existing {
                Existing::Replace | Existing::ReplaceOther { .. } => from.rename(part, to, &self.place.name).map(drop),
                Existing::Keep => from.keep(part, to, &self.place.name),
            };
            named.map_err(|errno| self.words(errno))?;
            if self.progress.about().is_some() {
                // Its ranges are in the target now; a journal without a part file is found and
                // removed later.
                let _ = from.remove(&staged.names.journal);
            }
        }
        writer.ended = true;
        drop(writer);
        // This drops the staging directory as well, unless it is still in use.
        self.whereabouts = Whereabouts::Named;
        // From the descriptor, not the name: these are the attributes of the written file, even if
        // the name is replaced.
        let stat = rustix::fs::fstat(&self.progress.file).map_err(|errno| self.words(errno))?;
        Ok(attributes_of(&stat))
    }

    /// See [`Existing::ReplaceOther`].
    fn unchanged(&self) -> bool {
        matches!(self.whereabouts, Whereabouts::Superfluous(_))
    }

    /// Waits until the name is on stable storage.
    fn sync_directory(&self) -> Result<()> {
        self.place.sync(&self.progress.file).map_err(|errno| {
            let error = errors::failed(Verb::Sync, &self.place.shown, errno);
            // The new content is there under its name, but must not be relied on.
            Error {
                message: format!("{} (it has its new content, which a power cut may take back)", error.message),
                ..error
            }
        })
    }

    fn shown(&self) -> &str {
        &self.place.shown
    }
}

impl Drop for LocalStage {
    fn drop(&mut self) {
        // A file that has its name stays.
        let Some(staged) = self.whereabouts.staged() else { return };
        if self.keep_on_drop.load(Ordering::Relaxed) {
            return;
        }
        let mut writer = self.progress.writer_mut();
        if writer.generation == self.generation {
            writer.ended = true;
            staged.remove(self.progress.about().is_some());
        }
    }
}

/// Sets permission bits, of which only 0o777 count, and the modification time, where there is one.
fn give_attributes(file: &OwnedFd, mode: u32, modified: Option<Timestamp>) -> std::result::Result<(), Errno> {
    give_mode(file, mode)?;
    give_time(file, modified)
}

/// Sets permission bits, of which only 0o777 count.
pub(super) fn give_mode(file: &OwnedFd, mode: u32) -> std::result::Result<(), Errno> {
    unless_unknown(rustix::fs::fchmod(file, Mode::from_raw_mode(mode & 0o777)))
}

/// Sets the modification time, where there is one.
pub(super) fn give_time(file: &OwnedFd, modified: Option<Timestamp>) -> std::result::Result<(), Errno> {
    let Some(modified) = modified else { return Ok(()) };
    let times =
        Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification: bounded(modified) };
    unless_unknown(rustix::fs::futimens(file, &times))
}

/// Some file systems (FAT, SMB) do not support modes or times and return EPERM to the owner. The
/// file then keeps the mode it was created with, 0600 as far as modes exist: narrower than
/// requested, never wider.
fn unless_unknown(result: std::result::Result<(), Errno>) -> std::result::Result<(), Errno> {
    match result {
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        other => other,
    }
}

/// Limits the time to what the file system can represent; the bound prevents a peer from setting
/// the special values of the other field (now, omit).
fn bounded(Timestamp { seconds, nanoseconds }: Timestamp) -> Timespec {
    Timespec { tv_sec: seconds, tv_nsec: nanoseconds.min(999_999_999).into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_peer_are_none_of_the_kernels_special_ones() {
        for seconds in [i64::MIN, -1, 0, i64::MAX] {
            assert_eq!(bounded(Timestamp::new(seconds, 5)), Timespec { tv_sec: seconds, tv_nsec: 5 });
            // UTIME_NOW and UTIME_OMIT are nanosecond values above 10^9.
            assert_eq!(bounded(Timestamp::new(seconds, 1_073_741_823)).tv_nsec, 999_999_999);
        }
    }
}
