//! The progress of a part file, shared by its writers: several threads of one transfer, and the
//! session that takes the transfer over from another one.
//!
//! One session writes a part at a time. A takeover waits for the writes in progress and increments
//! the generation; sessions with an older generation are refused from then on, so that no late
//! write reaches the file of the newer one, or the finished target.

use super::journal::{self, JournalSubject, Sealer};
use super::preallocate::release;
use super::staging::PartLocation;
use crate::store::ledger::Ledger;
use crate::store::locked_file::LockedFile;
use crate::store::stored_range::{self, Hashes, StoredRange};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use xdfs_proto::base::{Extent, Marker, MarkerStep, Timestamp};

/// Cut off the end of the data, to be sent again, where a full disk has no space for the journal.
const ROOM_FOR_JOURNAL: u64 = 64 << 10;

/// State of the bytes written so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Health {
    /// Everything that was written is intact.
    Sound = 0,
    /// A write found no space; data written before is intact.
    Full = 1,
    /// The content is unknown: a write or a sync failed.
    Spoilt = 2,
}

/// The session that may write, and whether another one can take over from it.
#[derive(Debug, Default)]
pub(super) struct CurrentWriter {
    /// Incremented by each takeover.
    pub(super) generation: u64,
    /// When its session began.
    pub(super) since: Timestamp,
    /// It has renamed the file to its target, or removed it: nobody can take over.
    pub(super) ended: bool,
}

/// The journal of a part file that can be resumed.
#[derive(Debug)]
struct PartJournal {
    /// What it is about.
    about: JournalSubject,
    /// Its file, as long as there is one.
    notes: Mutex<Option<Notes>>,
}

/// The journal's file.
#[derive(Debug)]
struct Notes {
    file: OwnedFd,
    end: u64,
    check: u32,
}

/// What is known about the written bytes.
#[derive(Debug, Default)]
struct KnownBytes {
    /// About the data that existed when the current writer began.
    base: Vec<StoredRange>,
    /// Hashes what the current writer writes, and the unverified ranges of `base`.
    hashes: Option<Arc<dyn Hashes>>,
}

/// The progress of a part file, shared by the threads and sessions that write it.
#[derive(Debug)]
pub(super) struct Progress {
    /// Shared with the session that takes it over: locked until neither has it.
    pub(super) file: Arc<LockedFile>,
    /// None for a transfer that cannot be resumed.
    journal: Option<PartJournal>,
    writer: RwLock<CurrentWriter>,
    ledger: Mutex<Ledger>,
    known: Mutex<KnownBytes>,
    /// Bytes written since the last checkpoint.
    unmarked: AtomicU64,
    health: AtomicU8,
}

impl Progress {
    /// An empty part file. `about` is none for a transfer that cannot be resumed.
    pub(super) fn new(file: Arc<LockedFile>, about: Option<JournalSubject>) -> Self {
        Self::with_journal(file, about.map(|about| PartJournal { about, notes: Mutex::new(None) }))
    }

    fn with_journal(file: Arc<LockedFile>, journal: Option<PartJournal>) -> Self {
        Self {
            file,
            journal,
            writer: RwLock::default(),
            ledger: Mutex::default(),
            known: Mutex::default(),
            unmarked: AtomicU64::new(0),
            health: AtomicU8::new(Health::Sound as u8),
        }
    }

    /// A part file that an earlier process left, with its journal, of which `base` can be resumed.
    pub(super) fn found(
        file: Arc<LockedFile>,
        journal_file: OwnedFd,
        journal: journal::Journal,
        base: Vec<StoredRange>,
    ) -> Result<Self, Errno> {
        let generation = journal.generation + 1;
        let (record, check) = journal::taken_over(generation, journal.check);
        // Our records must not follow the rest of a torn record.
        rustix::fs::ftruncate(&journal_file, journal.end)?;
        write_all(&journal_file, &record, journal.end)?;
        let notes = Notes { file: journal_file, end: journal.end + record.len() as u64, check };
        let journal = PartJournal { about: journal.about, notes: Mutex::new(Some(notes)) };
        let found = Self::with_journal(file, Some(journal));
        found.begin(base);
        found.writer_mut().generation = generation;
        Ok(found)
    }

    /// What its journal is about; none for a transfer that cannot be resumed.
    pub(super) fn about(&self) -> Option<&JournalSubject> {
        self.journal.as_ref().map(|journal| &journal.about)
    }

    /// Another writer resumes with exactly `base`.
    pub(super) fn begin(&self, base: Vec<StoredRange>) {
        *self.ledger() = Ledger::of(&stored_range::ranges(&base));
        *lock(&self.known) = KnownBytes { base, hashes: None };
    }

    /// What is written from now on is hashed.
    pub(super) fn hashed_by(&self, hashes: Arc<dyn Hashes>) {
        lock(&self.known).hashes = Some(hashes);
    }

    /// The written ranges, as a checkpoint would record them now.
    pub(super) fn noted(&self) -> Vec<StoredRange> {
        let known = lock(&self.known);
        let mut all = match &known.hashes {
            Some(hashes) => hashes.noted(),
            None => stored_range::filled(&known.base, &self.ledger().ranges(journal::ENTRIES_MAX)),
        };
        // Data behind the end was cut off to make space on a full disk.
        let end = self.ledger().end();
        all.retain(|one| one.extent.end() <= end);
        all.truncate(journal::ENTRIES_MAX);
        all
    }

    /// Held during a write: prevents a takeover meanwhile.
    pub(super) fn writer(&self) -> RwLockReadGuard<'_, CurrentWriter> {
        self.writer.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held to take over, to name and to remove; waits for every write.
    pub(super) fn writer_mut(&self) -> RwLockWriteGuard<'_, CurrentWriter> {
        self.writer.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a thread waits to take over, to name or to remove.
    #[cfg(test)]
    pub(super) fn is_waited_for(&self) -> bool {
        self.writer.try_read().is_err()
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    /// Called when a write has returned.
    pub(super) fn on_written(&self, offset: u64, length: usize) {
        if let Ok(range) = Extent::new(offset, length as u64) {
            self.ledger().add(range);
            self.unmarked.fetch_add(range.length(), Ordering::Relaxed);
        }
    }

    pub(super) fn unmarked(&self) -> u64 {
        self.unmarked.load(Ordering::Relaxed)
    }

    pub(super) fn health(&self) -> Health {
        match self.health.load(Ordering::Relaxed) {
            0 => Health::Sound,
            1 => Health::Full,
            _ => Health::Spoilt,
        }
    }

    /// The state can only get worse.
    pub(super) fn spoil(&self, health: Health) {
        self.health.fetch_max(health as u8, Ordering::Relaxed);
    }

    /// A checkpoint: data written so far is synced, if requested, and then recorded. One at a time.
    /// A failed sync fails the part for all sessions: the next sync would succeed and prove nothing.
    pub(super) fn checkpoint(&self, staged: &PartLocation, synced: bool) -> Result<(), Errno> {
        let Some(PartJournal { about, notes }) = &self.journal else { return Ok(()) };
        let mut notes = lock(notes);
        // Before the sync: it may not cover what is written during it.
        self.unmarked.store(0, Ordering::Relaxed);
        let noted = self.noted();
        let mut marker = Marker::new(synced);
        while let Some(step) = marker.next() {
            match step {
                MarkerStep::SyncData => sync(&self.file).inspect_err(|_| self.spoil(Health::Spoilt))?,
                MarkerStep::Note => {
                    let appended = match &mut *notes {
                        Some(notes) => notes.append((about, &noted), &staged.sealer, synced)?,
                        None => false,
                    };
                    if !appended {
                        let fresh = Notes::create(staged, about, &noted, synced)?;
                        if synced {
                            staged.directory.sync(&self.file)?;
                        }
                        *notes = Some(fresh);
                    }
                }
            }
            marker.on_done();
        }
        Ok(())
    }

    /// The last checkpoint of a transfer that ends early. On a full disk, the end of the data makes
    /// space for it.
    pub(super) fn last_checkpoint(&self, staged: &PartLocation, synced: bool) -> Result<(), Errno> {
        // Of a transfer that cannot be resumed nothing is recorded.
        let Some(journal) = &self.journal else { return Ok(()) };
        match self.checkpoint(staged, synced) {
            Err(Errno::NOSPC | Errno::DQUOT) => {
                // Until another journal says what is left, none says that what is cut off is there.
                let mut notes = lock(&journal.notes);
                *notes = None;
                staged.names.remove_journal(staged.directory())?;
                let end = self.ledger().end().saturating_sub(ROOM_FOR_JOURNAL);
                self.ledger().cut(end);
                rustix::fs::ftruncate(&self.file, end)?;
                drop(notes);
                self.checkpoint(staged, synced)
            }
            other => other,
        }
    }

    /// Releases the space that was reserved for data that has not arrived.
    pub(super) fn release_room(&self) -> Result<(), Errno> {
        let written = self.ledger().ranges(usize::MAX);
        release(&self.file, &written)
    }
}

impl Notes {
    /// Writes a journal with only this content, and names it atomically; the caller makes the sync
    /// after which part and journal can be found after a power cut.
    fn create(
        staged: &PartLocation,
        about: &JournalSubject,
        noted: &[StoredRange],
        synced: bool,
    ) -> Result<Self, Errno> {
        let (parent, name) = (staged.directory(), staged.names.journal.as_slice());
        let fresh = staged.names.fresh_journal();
        let _ = parent.remove(&fresh);
        let file = parent.create_new(&fresh)?;
        let (mut bytes, check) = journal::begin(about);
        let (record, check) = journal::present(about, noted, &staged.sealer, check);
        bytes.extend(record);
        let written = write_all(&file, &bytes, 0)
            .and_then(|()| if synced { sync(&file) } else { Ok(()) })
            .and_then(|()| parent.replace(&fresh, name));
        if let Err(errno) = written {
            let _ = parent.remove(&fresh);
            return Err(errno);
        }
        Ok(Self { file, end: bytes.len() as u64, check })
    }

    /// Returns false, and writes nothing, if the file would become too long.
    fn append(
        &mut self,
        (about, noted): (&JournalSubject, &[StoredRange]),
        sealer: &Sealer,
        synced: bool,
    ) -> Result<bool, Errno> {
        let (record, check) = journal::present(about, noted, sealer, self.check);
        if self.end + record.len() as u64 > journal::BYTES_MAX as u64 {
            return Ok(false);
        }
        write_all(&self.file, &record, self.end)?;
        if synced {
            sync(&self.file)?;
        }
        self.end += record.len() as u64;
        self.check = check;
        Ok(true)
    }
}

/// EINTR is the only error that says nothing about the pages.
fn sync(file: &OwnedFd) -> Result<(), Errno> {
    rustix::io::retry_on_intr(|| rustix::fs::fdatasync(file))
}

fn write_all(file: &OwnedFd, bytes: &[u8], offset: u64) -> Result<(), Errno> {
    use crate::store::io_loops::{Stuck, write_full};
    write_full(bytes, offset, |part, at| rustix::io::pwrite(file, part, at)).map_err(|stuck| match stuck {
        Stuck::Errno(errno) => errno,
        Stuck::NoProgress => Errno::IO,
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
